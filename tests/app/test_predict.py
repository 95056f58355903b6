"""The page Predict: its numbers against the NumPy GPT-2, generation, and links to it."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.analysis.generation import generate
from gpt2viz.analysis.sampling import sampling_distribution
from gpt2viz.app.views import predict
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.pictures.prediction import token_bars
from gpt2viz.run.key import RunKey
from tests.anatomy.test_kv_cache import logits_with_cache
from tests.app.cases import each
from tests.app.pages import (
    PAGES,
    ROOT,
    chart,
    frames,
    heatmaps,
    matrices,
    open_page,
    page_text,
    panels,
    press,
)
from tests.bundled import N_HEAD, N_LAYER, bundled_model, ids_of, stages
from tests.numpy_gpt2 import Tolerance, reference, softmax

TEXT = "The animal didn't cross the street because it was too tired"
TOLERANCE: Tolerance = {"rtol": 2e-4, "atol": 2e-4}


def table_of(at: AppTest, name: str) -> pd.DataFrame:
    """The page's only table whose title starts with a name."""
    tables = at.session_state["_shown"].tables
    (table,) = (table for title, table in tables.items() if title.startswith(name))
    return table


@each("query", [None, 4])
def test_next_token_table_covers_the_vocabulary(query: int | None) -> None:
    at = open_page("predict", text=TEXT, **({} if query is None else {"query": str(query)}))
    expected = 100 * softmax(stages(TEXT)["logits"][-1 if query is None else query])
    table = table_of(at, "Next tokens")
    best = np.argsort(-expected)[:12]
    assert list(table["id"][:12]) == list(best)
    assert_allclose(table["model (%)"][:12], expected[best], rtol=2e-3)
    assert table["token"].iloc[-1] == "all other 5,108 tokens"
    assert table["model (%)"].sum() == pytest.approx(100)
    assert "drawn from (%)" not in table  # it would be the same
    bits = -(expected / 100 * np.log2(expected / 100)).sum()
    assert at.metric[0].value.endswith(" bits")
    assert float(at.metric[0].value.split()[0]) == pytest.approx(bits, abs=0.011)
    bars = chart(at, "next_tokens")["data"]
    assert len(bars) == 1
    assert_allclose(bars[0]["x"], table["model (%)"])


def test_sampling_distribution_is_beside_the_models() -> None:
    at = open_page("predict", text=TEXT, temperature="0.5", top_k="5", top_p="0.9")
    p = sampling_distribution(stages(TEXT)["logits"][-1], temperature=0.5, top_k=5, top_p=0.9)
    table = table_of(at, "Next tokens")
    assert_allclose(table["drawn from (%)"], [*100 * p[table["id"][:12].tolist()], 0], atol=0.05)
    assert len(chart(at, "next_tokens")["data"]) == 2
    assert [metric.value for metric in at.metric][1] == str(np.count_nonzero(p))


def test_surprise_and_lens_match_numpy(model: gpt2viz.Model) -> None:
    at = open_page("predict", text=TEXT)
    ids = model.tokenizer.encode(TEXT)
    p = softmax(stages(TEXT)["logits"])
    bits = chart(at, "surprise")["data"][0]["y"]
    assert np.isnan(bits[0])
    assert_allclose(bits[1:], [-np.log2(p[n, id]) for n, id in enumerate(ids[1:])], rtol=1e-3)
    shown = heatmaps(at, "lens_map")["lens"]
    assert shown.shape == (9, 10)
    assert_allclose(shown[-1], p.max(axis=1)[2:], **TOLERANCE)
    (lens,) = matrices(at, "lens_map")
    names = lens.texts("words")
    best = p.argmax(axis=1)[2:]
    expected = [model.tokenizer.token_bytes(int(n)).decode().replace(" ", "·") for n in best]
    assert [name[:5] for name in names[-1]] == [name[:5] for name in expected]
    first, second = zip(*(text.splitlines()[:2] for text in lens.texts("hover")[-1]), strict=True)
    assert [*second] == [f"the answer {name} has rank 1" for name in expected]
    assert [*first] == [
        f"{name} {100 * share:.3f} %" for name, share in zip(expected, shown[-1], strict=True)
    ]
    assert token_bars("", "a", np.array([4.0]), "bits").cases[0].written[0] == "4.00"
    off = open_page("predict", text=TEXT, causal="false")
    assert "already seen" in " ".join(caption.value for caption in off.caption)


def test_contributions_sum_to_the_logit_difference() -> None:
    at = open_page("predict", text=TEXT, explain="·and", minus=",")
    names = bundled_model().tokenizer
    (plus,), (minus,) = names.encode(" and"), names.encode(",")
    logits = stages(TEXT)["logits"][-1]
    table = table_of(at, "Contributions")
    assert table["added (nats)"].sum() == pytest.approx(logits[plus] - logits[minus], abs=1e-3)
    (text,) = [block.help for block in at.markdown if "all contributions" in block.help]
    written = [float(n.replace("−", "-")) for n in re.findall(r"[+−]\d+\.\d{4}", text)]
    assert_allclose(written, [logits[plus] - logits[minus]] * 2, atol=1e-3)
    shown = heatmaps(at, "contribution_map")["contributions"]
    assert shown.shape == (N_LAYER, N_HEAD + 2)
    by_part = dict(zip(table["component"], table["added (nats)"], strict=True))
    assert shown[2, 3] == pytest.approx(by_part["head 2.3"])
    assert shown[1, N_HEAD + 1] == pytest.approx(by_part["MLP 1"])
    assert {"token embedding", "final norm's bias"} <= by_part.keys()


def test_default_explained_token_follows_the_sentence() -> None:
    at = open_page("predict", text=TEXT)
    at.query_params["query"] = "4"
    at.run()
    reloaded = open_page("predict", **at.query_params)
    assert "explain" not in at.query_params
    assert at.selectbox(key="explain").value == reloaded.selectbox(key="explain").value
    assert at.selectbox(key="explain").value == table_of(at, "Next tokens")["token"][0]
    fifth = at.selectbox(key="explain").options[4]
    at.selectbox(key="explain").set_value(fifth).run()
    at.query_params["query"] = "7"
    at.run()
    assert at.selectbox(key="explain").value == fifth


def test_token_may_be_typed_without_its_space() -> None:
    at = open_page("predict", text=TEXT, explain="crane")
    (crane,) = ids_of(" crane")
    total = table_of(at, "Contributions")["added (nats)"].sum()
    assert total == pytest.approx(stages(TEXT)["logits"][-1][crane], abs=1e-3)
    (message,) = open_page("predict", text=TEXT, explain="<b>antidisestablishment").warning
    assert "is not a single token" in message.value


def test_long_texts_show_a_window_of_the_lens() -> None:
    text = " ".join(["the bank of the river"] * 8)
    at = open_page("predict", text=text, query="3")
    columns = matrices(at, "lens_map")[0].grid["columns"]
    assert len(columns) == 10
    assert columns[0].startswith("0 ")
    ((*_, first, last),) = frames(at, "lens_map")
    assert (first, last) == (3, 3)  # the chosen token's column
    at = open_page("predict", text=text)
    assert panels(at, "lens_map")[0].shape[1] == 10
    assert any("Tokens 30 to 39 are shown" in caption.value for caption in at.caption)


BANK = "She sat by the bank of the river"


def new_ids(at: AppTest) -> list[int]:
    result = at.query_params.get("new", "")
    return [int(n) for n in (result[0] if isinstance(result, list) else result).split(",")[1:]]


def generated(model: gpt2viz.Model, n: int, temperature: float = 1) -> list[int]:
    """The library's own tokens, which ``tests/analysis/test_generation.py`` checks."""
    return [choice.token for choice in generate(model, BANK, n, temperature=temperature)]


def test_steps_take_the_most_probable_tokens_and_undo(model: gpt2viz.Model) -> None:
    """The row and the table are from the run that chose the token."""
    chosen = {"text": BANK, "layer": "2", "head": "4", "temperature": "0.0"}
    at = open_page("predict?predict=generate", **chosen)
    expected = generated(model, 3, 0)
    for n in (1, 2, 3):
        press(at, "Step")
        assert new_ids(at) == expected[:n]
    ids = model.tokenizer.encode(BANK) + new_ids(at)
    before = reference(BUNDLED, ids[:-1], True)
    assert_allclose(chart(at, "row")["data"][0]["y"], before["weights"][2][4][-1], atol=2e-4)
    p = softmax(before["logits"][-1])[ids[-1]]
    last = at.dataframe[0].value.iloc[-1]
    assert last["probability (%)"] == pytest.approx(100 * p, rel=2e-3)
    assert last["surprise (bits)"] == pytest.approx(-np.log2(p), rel=2e-3)
    assert last["rank"] == 1
    press(at, "Undo")
    assert new_ids(at) == expected[:2]
    press(at, "Start over")
    assert "new" not in at.query_params


def test_play_equals_that_many_steps(model: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "PLAY", 6)
    at = open_page("predict?predict=generate", text=BANK)
    assert any("**Write 6** writes 6." in caption.value for caption in at.caption)
    press(at, "Write 6")
    assert new_ids(at) == generated(model, 6)
    assert not at.exception


def test_link_keeps_new_tokens_and_they_can_join_the_sentence(model: gpt2viz.Model) -> None:
    at = press(press(open_page("predict?predict=generate", text=BANK), "Step"), "Step")
    (link,) = [at.query_params["new"]]
    other = open_page(
        "predict?predict=generate", text=BANK, new=link[0] if isinstance(link, list) else link
    )
    assert new_ids(other) == new_ids(at)
    assert len(other.dataframe[0].value) == 2
    assert [c for c in at.caption if "Choose a written token" in c.value]
    layer, head = (at.session_state[name] for name in ("layer", "head"))
    press(at, "Make it the sentence")
    expected = [*model.tokenizer.encode(BANK), *generated(model, 2)]
    assert model.tokenizer.encode(at.text_input(key="text").value or "") == expected
    assert "new" not in at.query_params
    assert [at.session_state[name] for name in ("layer", "head")] == [layer, head]


def test_tokens_without_a_text_stay_a_continuation(model: gpt2viz.Model) -> None:
    """As with "c" and "at", which are one token when typed."""
    ids = [model.tokenizer.encode(part)[0] for part in (" ", "c", "at")]
    assert model.tokenizer.encode(" cat") != ids
    prompt = RunKey("stories", tuple(model.tokenizer.encode(BANK)), True)
    new = ",".join([predict.sign(prompt), *map(str, ids)])
    at = open_page("predict?predict=generate", text=BANK, new=new)
    (button,) = [button for button in at.button if button.label == "Make it the sentence"]
    assert button.disabled
    assert "new_tokens" not in " ".join(part.proto.id for part in at.get("bidi_component"))
    assert not [c for c in at.caption if "Choose a written token" in c.value]  # there is none


def test_write_10_uses_the_pages_settings(model: gpt2viz.Model) -> None:
    at = open_page("predict", text=BANK)
    slider = at.select_slider(key="temperature")
    at = press(slider.set_value(2.0).run(), "Write 10")
    assert new_ids(at) == generated(model, 10, 2) != generated(model, 10, 0)
    assert at.select_slider(key="temperature").value == 2.0
    assert at.query_params["predict"] == "generate"
    assert at.button(key="stop").disabled
    assert not at.button(key="play").disabled


def test_leaving_the_page_ends_play() -> None:
    at = open_page("predict?predict=generate", text=BANK)
    at.session_state["playing"] = 3  # as during play
    for page in ("attention", "predict"):
        at.switch_page(str(ROOT / PAGES[page]))
        at.query_params["text"], at.query_params["predict"] = BANK, "generate"
        at.run()
    assert "new" not in at.query_params
    assert not at.button(key="play").disabled


@each("causal", [True, False])
def test_long_link_needs_few_runs(model: gpt2viz.Model, runs: list[int], causal: bool) -> None:
    ids = [n % 500 for n in range(240)]
    prompt = RunKey("stories", tuple(model.tokenizer.encode("the cat")), causal)
    runs.clear()
    new = ",".join([predict.sign(prompt), *map(str, ids)])
    at = open_page("predict?predict=generate", text="the cat", new=new, causal=str(causal).lower())
    rows = at.dataframe[0].value
    assert len(rows) == (240 if causal else predict.PLAY)
    assert len(runs) <= (2 if causal else predict.PLAY + 2)
    for row in (0, -2, -1):
        index = len(ids) - len(rows) + row % len(rows)
        run = gpt2viz.trace(model, [*prompt.token_ids, *ids[:index]], causal=causal)
        p = softmax(run.logits_at(-1))[ids[index]]
        assert rows.iloc[row]["probability (%)"] == pytest.approx(100 * p, rel=1e-3)


@each("new", ["x", "00000000,1", ",", "00000000,999999999", "{sign}"])
def test_new_tokens_of_another_sentence_are_dropped(new: str) -> None:
    """``{sign}`` alone belongs to the sentence, but has no tokens."""
    sign = predict.sign(RunKey("stories", tuple(ids_of(BANK)), True))
    at = open_page("predict?predict=generate", text=BANK, new=new.format(sign=sign))
    assert not at.dataframe
    assert not at.exception
    (note,) = at.warning
    assert note.value.startswith("new: ")
    assert "new" not in at.query_params
    assert not at.run().warning


def test_another_sentence_starts_without_new_tokens() -> None:
    at = press(open_page("predict?predict=generate", text=BANK), "Step")
    tokens = new_ids(at)
    at.text_input(key="text").set_value("Dog bites man").run()
    assert not at.dataframe
    assert not at.warning  # an earlier choice, not a wrong link
    at.text_input(key="text").set_value(BANK).run()
    assert new_ids(at) == tokens
    assert len(at.dataframe[0].value) == 1
    at.text_input(key="text").set_value("Dog bites man").run()
    press(at, "Step")
    assert len(new_ids(at)) == 1


def test_generation_stops_when_the_context_is_full() -> None:
    text = " ".join(["the bank"] * 127 + ["the"])  # 255 of the model's 256 positions
    at = press(open_page("predict?predict=generate", text=text), "Write 10")
    assert len(new_ids(at)) == 1
    assert any("context is full" in info.value for info in at.info)
    (step,) = [button for button in at.button if button.label == "Step"]
    assert step.disabled


def test_cache_numbers_match_numpy(model: gpt2viz.Model) -> None:
    """Shapes, work and bytes of a step, counted by hand; surprise with dropped tokens."""
    at = open_page("predict?predict=generate", text=BANK, cache="true", room="4", sinks="2")
    press(at, "Step")
    ids = [*model.tokenizer.encode(BANK), *new_ids(at)]
    n, C, n_layer, n_vocab = len(ids), 256, 4, 5120
    _, shapes, caches = (table.value for table in at.dataframe)
    assert dict(zip(shapes["tensor of a layer"], shapes["the last alone"], strict=True)) == {
        "Q, K and V in one": "(1, 1, 768)",
        "Queries Q": "(1, 8, 1, 32)",
        "Keys K": f"(1, 8, {n}, 32)",
        "Values V": f"(1, 8, {n}, 32)",
        "Raw scores": f"(1, 8, 1, {n})",
        "Attention weights": f"(1, 8, 1, {n})",
        "Head output": "(1, 8, 1, 32)",
        "Stream after the layer": "(1, 1, 256)",
    }
    assert f"(1, 8, {n}, {n})" in list(shapes["all at once"])
    step, whole = (n_layer * (12 * C * C * new + 2 * new * n * C) + n_vocab * C for new in (1, n))
    message = page_text(at)
    assert f"**{100 * step / whole:.1f} %** of the {whole:,} multiply-adds" in message
    each = 2 * n_layer * C * 4  # keys and values, float32
    assert f"**{each * (n - 1):,} bytes** of keys and values are kept" in message
    counts = f"{step:,} multiply-adds; {each:,} bytes of"
    assert any(block.help.startswith(counts) for block in at.markdown)
    assert f"its own key and those of the {n - 1} tokens kept" in message
    cached = [n, 4, 4]
    assert caches["tokens kept"].tolist() == cached
    assert caches["bytes kept"].tolist() == [each * tokens for tokens in cached]
    lines = chart(at, "cache_curves")["data"]
    for row, (room, first) in enumerate(((None, 0), (4, 0), (4, 2))):
        p = softmax(logits_with_cache(BUNDLED, ids, room, first))
        bits = -np.log2(p[np.arange(n - 1), ids[1:]])
        assert_allclose(lines[row]["y"], bits, rtol=1e-3, atol=1e-3)
        mean = caches["surprise per token (bits)"][row]
        assert mean == pytest.approx(bits.mean(), rel=1e-4)
    assert "the edits `window:4` and `window:2:2`" in message


def test_cache_in_special_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page("predict?predict=generate", text=BANK, cache="true", causal="false")
    assert "with the mask off a token's keys and values depend on those after it" in page_text(at)
    assert not [toggle for toggle in at.toggle if toggle.key == "cache"]
    at = open_page("predict?predict=generate", text="the", cache="true")
    assert "There is only one token" in page_text(at)
    at = open_page("predict?predict=generate", text="the cat", cache="true")
    assert "**The text fits: nothing is dropped yet.**" in page_text(at)
    monkeypatch.setattr("gpt2viz.run.tracer.EXPLICIT_BYTES", 0)
    at = open_page(
        "predict?predict=generate", text="Two cats sat", cache="true", room="3", sinks="3"
    )
    assert "in a fused step" in at.dataframe[0].value["all at once"].tolist()
    assert [note.value.partition(". It must")[0] for note in at.warning] == [
        "sinks: 3 can't be shown here"
    ]

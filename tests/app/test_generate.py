"""The Generate page: what it writes, where it looked, and what survives a reload."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app.views import generate
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.run.key import RunKey
from tests.anatomy.test_kv_cache import read_on
from tests.app.pages import PAGES, ROOT, array, button_groups, figure, open_page, plain
from tests.numpy_gpt2 import reference, softmax

TEXT = "She sat by the bank of the river"


@pytest.fixture(scope="module")
def model() -> gpt2viz.Model:
    return gpt2viz.load_model()


def press(at: AppTest, name: str) -> AppTest:
    (button,) = [button for button in at.button if button.label == name]
    return button.click().run()


def new_ids(at: AppTest) -> list[int]:
    found = at.query_params.get("new", "")
    return [int(n) for n in (found[0] if isinstance(found, list) else found).split(",")[1:]]


def drawn(model: gpt2viz.Model, n: int, temperature: float = 1, seed: int = 0) -> list[int]:
    """By the NumPy GPT-2, from the distribution that the temperature leaves; of 0 the best."""
    ids = model.tokenizer.encode(TEXT)
    for _ in range(n):
        logits = reference(BUNDLED, ids, True)["logits"][-1]
        share = np.random.default_rng([seed, len(ids)]).random()
        upto = softmax(logits / temperature).cumsum() if temperature else None
        ids.append(int(logits.argmax() if upto is None else np.searchsorted(upto, share)))
    return ids[-n:]


def test_steps_are_the_most_probable_tokens_and_undo_takes_them_back(model: gpt2viz.Model) -> None:
    at = open_page("predict?predict=generate", text=TEXT, temperature="0.0")
    expected = drawn(model, 3, 0)
    for n in (1, 2, 3):
        press(at, "Step")
        assert new_ids(at) == expected[:n]
    press(at, "Undo")
    assert new_ids(at) == expected[:2]
    press(at, "Start over")
    assert "new" not in at.query_params


def test_the_row_and_the_table_are_those_of_the_moment_of_choosing(model: gpt2viz.Model) -> None:
    chosen = {"text": TEXT, "layer": "2", "head": "4", "temperature": "0.0"}
    at = press(press(open_page("predict?predict=generate", **chosen), "Step"), "Step")
    ids = model.tokenizer.encode(TEXT) + new_ids(at)
    before = reference(BUNDLED, ids[:-1], True)
    shown = array(figure(at, "row")["data"][0]["y"])
    assert_allclose(shown, before["weights"][2][4][-1], atol=2e-4)
    p = softmax(before["logits"][-1])[ids[-1]]
    last = at.dataframe[0].value.iloc[-1]
    assert last["probability (%)"] == pytest.approx(100 * p, rel=2e-3)
    assert last["surprise (bits)"] == pytest.approx(-np.log2(p), rel=2e-3)
    assert last["rank"] == 1


def test_play_writes_what_as_many_steps_would(
    model: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "PLAY", 6)
    at = open_page("predict?predict=generate", text=TEXT)
    assert any("**Write 6** the next 6." in caption.value for caption in at.caption)
    press(at, "Write 6")
    assert new_ids(at) == drawn(model, 6)
    assert not at.exception


def test_what_was_written_becomes_the_sentence(model: gpt2viz.Model) -> None:
    at = press(open_page("predict?predict=generate", text=TEXT), "Step")
    at = press(at, "Step")
    assert [one for one in at.caption if "Choose one of them" in one.value]
    layer, head = (at.session_state[name] for name in ("layer", "head"))
    press(at, "Make it the sentence")
    expected = [*model.tokenizer.encode(TEXT), *drawn(model, 2)]
    assert model.tokenizer.encode(at.text_input(key="text").value or "") == expected
    assert "new" not in at.query_params
    assert [at.session_state[name] for name in ("layer", "head")] == [layer, head]


def test_tokens_that_no_text_has_stay_a_continuation(model: gpt2viz.Model) -> None:
    """ "c", "at": typed, the two are one token."""
    ids = [model.tokenizer.encode(part)[0] for part in (" ", "c", "at")]
    assert model.tokenizer.encode(" cat") != ids
    prompt = RunKey("stories", tuple(model.tokenizer.encode(TEXT)), True)
    new = ",".join([generate.sign(prompt), *map(str, ids)])
    at = open_page("predict?predict=generate", text=TEXT, new=new)
    (button,) = [button for button in at.button if button.label == "Make it the sentence"]
    assert button.disabled
    assert not [group for group in button_groups(at) if "new_tokens" in group.proto.id]
    assert not [one for one in at.caption if "Choose one of them" in one.value]  # there is none


def test_one_press_writes_with_what_is_set_beside_it(model: gpt2viz.Model) -> None:
    at = open_page("predict", text=TEXT)
    slider = at.select_slider(key="temperature")
    at = press(slider.set_value(2.0).run(), "Write 10")
    assert new_ids(at) == drawn(model, 10, 2) != drawn(model, 10, 0)
    assert at.select_slider(key="temperature").value == 2.0
    assert at.query_params["predict"] == "generate"
    assert at.button(key="stop").disabled
    assert not at.button(key="play").disabled


def test_play_ends_where_the_page_is_left() -> None:
    at = open_page("predict?predict=generate", text=TEXT)
    at.session_state["playing"] = 3  # as while it plays
    for page in ("attention", "predict"):
        at.switch_page(str(ROOT / PAGES[page]))
        at.query_params["text"], at.query_params["predict"] = TEXT, "generate"
        at.run()
    assert "new" not in at.query_params
    assert not at.button(key="play").disabled


def test_a_seed_is_a_text() -> None:
    settings = {"temperature": "1.5", "seed": "7"}
    one = press(press(open_page("predict?predict=generate", text=TEXT, **settings), "Step"), "Step")
    back = press(press(one, "Undo"), "Step")
    again = press(
        press(open_page("predict?predict=generate", text=TEXT, **settings), "Step"), "Step"
    )
    assert new_ids(back) == new_ids(again)


def test_a_link_holds_what_was_written() -> None:
    at = press(press(open_page("predict?predict=generate", text=TEXT), "Step"), "Step")
    (link,) = [at.query_params["new"]]
    other = open_page(
        "predict?predict=generate", text=TEXT, new=link[0] if isinstance(link, list) else link
    )
    assert new_ids(other) == new_ids(at)
    assert len(other.dataframe[0].value) == 2


@pytest.mark.parametrize("causal", [True, False])
def test_a_long_link_takes_few_runs(
    model: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch, causal: bool
) -> None:
    ids = [n % 500 for n in range(240)]
    prompt = RunKey("stories", tuple(model.tokenizer.encode("the cat")), causal)
    runs: list[int] = []
    trace = gpt2viz.trace
    monkeypatch.setattr(
        "gpt2viz.trace", lambda m, ids, **rest: runs.append(len(ids)) or trace(m, ids, **rest)
    )
    new = ",".join([generate.sign(prompt), *map(str, ids)])
    at = open_page("predict?predict=generate", text="the cat", new=new, causal=str(causal).lower())
    rows = at.dataframe[0].value
    assert len(rows) == (240 if causal else generate.PLAY)
    assert len(runs) <= (2 if causal else generate.PLAY + 2)
    for row in (0, -2, -1):
        place = len(ids) - len(rows) + row % len(rows)
        read = trace(model, [*prompt.token_ids, *ids[:place]], causal=causal)
        p = softmax(read.logits_at(-1))[ids[place]]
        assert rows.iloc[row]["probability (%)"] == pytest.approx(100 * p, rel=1e-3)


@pytest.mark.parametrize("new", ["x", "00000000,1", ",", "00000000,999999999", "{sign}"])
def test_what_was_written_on_another_sentence_is_left_out_with_a_note(new: str) -> None:
    """``{sign}`` alone belongs to the sentence, but nothing was written on."""
    sign = (
        press(open_page("predict?predict=generate", text=TEXT), "Step")
        .query_params["new"][0]
        .split(",")[0]
    )
    at = open_page("predict?predict=generate", text=TEXT, new=new.format(sign=sign))
    assert not at.dataframe
    assert not at.exception
    (note,) = at.warning
    assert note.value.startswith("new: ")
    assert "new" not in at.query_params
    assert not at.run().warning


def test_another_sentence_starts_over() -> None:
    at = press(open_page("predict?predict=generate", text=TEXT), "Step")
    written = new_ids(at)
    at.text_input(key="text").set_value("Dog bites man").run()
    assert not at.dataframe
    assert not at.warning  # a choice of before, and no wrong link
    at.text_input(key="text").set_value(TEXT).run()
    assert new_ids(at) == written
    assert len(at.dataframe[0].value) == 1
    at.text_input(key="text").set_value("Dog bites man").run()
    press(at, "Step")
    assert len(new_ids(at)) == 1


def test_it_stops_where_the_context_is_full() -> None:
    text = " ".join(["the bank"] * 127 + ["the"])  # 255 of the model's 256 positions
    at = press(open_page("predict?predict=generate", text=text), "Write 10")
    assert len(new_ids(at)) == 1
    assert any("context is full" in info.value for info in at.info)
    (step,) = [button for button in at.button if button.label == "Step"]
    assert step.disabled


def written(at: AppTest) -> str:
    return plain("\n".join(block.value for block in [*at.markdown, *at.caption]))


def test_the_cache_holds_what_numpy_keeps(model: gpt2viz.Model) -> None:
    """Shapes, work and bytes of a step, counted by hand; surprise where tokens are deleted."""
    at = open_page("predict?predict=generate", text=TEXT, cache="true", room="4", sinks="2")
    press(at, "Step")
    ids = [*model.tokenizer.encode(TEXT), *new_ids(at)]
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
    told = written(at)
    assert f"**{step:,} multiply-adds** in place of {whole:,}, {100 * step / whole:.1f} %" in told
    assert f"the sentence's {n - 1} tokens at once; the 1 token written came one by one" in told
    each = 2 * n_layer * C * 4  # keys and values, float32
    kept = f"**{each * (n - 1):,} bytes**, {each:,} each"
    assert f"the {n - 1} tokens before it are kept: {kept}" in told
    held = [n, 4, 4]
    assert caches["tokens kept"].tolist() == held
    assert caches["bytes kept"].tolist() == [each * tokens for tokens in held]
    lines = figure(at, "cache_curves")["data"]
    for row, (room, first) in enumerate(((None, 0), (4, 0), (4, 2))):
        p = softmax(read_on(BUNDLED, ids, room, first))
        bits = -np.log2(p[np.arange(n - 1), ids[1:]])
        assert_allclose(array(lines[row]["y"]), bits, rtol=1e-3, atol=1e-3)
        mean = caches["surprise per token (bits)"][row]
        assert mean == pytest.approx(bits.mean(), rel=1e-4)
    assert "the edits `window:4` and `window:2:2`" in told


def test_where_there_is_less_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page("predict?predict=generate", text=TEXT, cache="true", causal="false")
    assert "with the mask off a token's keys and values depend on those after it" in written(at)
    assert not [toggle for toggle in at.toggle if toggle.key == "cache"]
    at = open_page("predict?predict=generate", text="the", cache="true")
    assert "Nothing stands before the only token" in written(at)
    at = open_page("predict?predict=generate", text="the cat", cache="true")
    assert "**The text fits: nothing is dropped yet.**" in written(at)
    monkeypatch.setattr("gpt2viz.run.tracer.EXPLICIT_BYTES", 0)
    at = open_page(
        "predict?predict=generate", text="Two cats sat", cache="true", room="3", sinks="3"
    )
    assert "in a fused step" in at.dataframe[0].value["all at once"].tolist()
    assert [note.value.partition(". It must")[0] for note in at.warning] == [
        "sinks: 3 can't be shown here"
    ]

"""Side by side: its numbers against the NumPy GPT-2, and the links between both sides."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz import settings
from gpt2viz.analysis.comparison import addition_sites, path, stream_sites
from gpt2viz.analysis.model_changes import MEASURES as MOVED
from gpt2viz.app import run_cache
from gpt2viz.app.views.measures import MEASURES
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.cases import each
from tests.app.pages import (
    button_groups,
    canvas,
    chart,
    finish,
    frames,
    heatmaps,
    open_page,
    page_text,
    panels,
    pictures,
    plain,
    press,
    titles,
    unpack,
)
from tests.bundled import N_HEAD, N_LAYER, bundled_model, stages
from tests.checkpoints import load_ahead, write_checkpoint
from tests.numpy_gpt2 import Tolerance, read, reference, softmax

FIRST, VERB, AFTER = "A crane ate fish", "A crane lifted steel", "The steel was lifted by a crane"
TOLERANCE: Tolerance = {"rtol": 2e-3, "atol": 2e-3}


def runs(*texts: str, causal: bool = True) -> list[Any]:
    return [stages(text, causal) for text in texts]


def lines(at: AppTest) -> dict[str, np.ndarray]:
    return {line["name"]: line["y"] for line in chart(at, "path")["data"]}


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def chosen_partner(at: AppTest) -> int:
    (pills,) = [g for g in button_groups(at) if g.proto.id.endswith("-_match_chosen")]
    return int(pills.value)


def test_equal_prefixes_have_identical_vectors() -> None:
    at = open_page("side_by_side?differs=text", text=FIRST, text2=VERB)
    on, off = (metric for metric in at.metric if metric.label.startswith("Difference"))
    assert on.value == "exactly 0"
    first, second = runs(FIRST, VERB, causal=False)
    keys = ("residual_mid", "residual_out", "attention_output", "mlp_output")
    differences = max(
        np.abs(x[1] - y[1]).max() for k in keys for x, y in zip(first[k], second[k], strict=True)
    )
    assert float(off.value) == pytest.approx(differences, rel=0.01)
    assert any("vectors are identical in every" in text.value for text in at.markdown)
    assert (lines(at)["mask on: stream"] == 1).all()


def test_path_of_a_token_and_its_nearest_tokens() -> None:
    at = open_page("side_by_side?differs=text", text=FIRST, text2=AFTER)
    assert chosen_partner(at) == 6
    for causal, mask in ((True, "mask on"), (False, "mask off")):
        first, second = (gpt2viz.trace(bundled_model(), t, causal=causal) for t in (FIRST, AFTER))
        for line, sites in (("stream", stream_sites), ("added by this step", addition_sites)):
            of_crane = path(first, second, (1, 6), sites(N_LAYER))
            assert_allclose(lines(at)[f"{mask}: {line}"], of_crane.cosine, **TOLERANCE)
    table = at.dataframe[0].value  # before the table of next tokens
    weights = bundled_model().network.wte.weight.detach().numpy().astype(np.float64)
    rows = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    for run, position, column in zip(runs(FIRST, AFTER), (1, 6), table.columns, strict=True):
        x = run["residual_out"][3][position]
        cosines = rows @ x / np.linalg.norm(x)
        best = int(cosines.argmax())
        written = bundled_model().tokenizer.token_bytes(best).decode().replace(" ", "·")
        assert table[column].iloc[-1].startswith(f"{written} {cosines[best]:.2f}")
        assert table[column].iloc[0].startswith("·crane 1.00")
    assert "whose rows of the unembedding are **nearest**" in page_text(at)


def test_attention_of_a_word_in_both_texts() -> None:
    at = open_page("side_by_side?differs=text", text=FIRST, text2=AFTER, layer="2", head="3")
    a, b = (run["weights"][2][3] for run in runs(FIRST, AFTER))
    for side, expected, token in (("a", a, 1), ("b", b, 6)):
        assert_allclose(heatmaps(at, f"weights_{side}")[side], expected, **TOLERANCE)
        assert [row for row, *_ in frames(at, f"weights_{side}")] == [token], "crane"
    change = heatmaps(at, "difference")["difference"]
    # partners: A and The, crane and crane
    expected = b[np.ix_([0, 6], [0, 6])] - a[np.ix_([0, 1], [0, 1])]
    assert_allclose(change, expected, **TOLERANCE)
    first, second = chart(at, "bars")["data"]
    ticks = chart(at, "bars")["layout"]["xaxis"]["ticktext"]
    crane = ticks.index("·crane")
    assert first["y"][crane] == pytest.approx(a[1, 1], abs=2e-3)
    assert second["y"][crane] == pytest.approx(b[6, 6], abs=2e-3)
    assert np.nansum(second["y"]) == pytest.approx(1, abs=1e-5)
    assert np.isnan(first["y"][ticks.index("– / ·steel")])


def test_chosen_partner_and_no_partner() -> None:
    at = open_page("side_by_side?differs=text", text=FIRST, text2=AFTER, query="1", match="1:3")
    assert chosen_partner(at) == 3
    first, second = runs(FIRST, AFTER)
    expected = cosine(first["residual_out"][3][1], second["residual_out"][3][3])
    assert lines(at)["mask on: stream"][-1] == pytest.approx(expected, abs=2e-3)
    at = open_page("side_by_side?differs=text", text=FIRST, text2="A crane", query="3")
    assert "no partner" in at.info[0].value
    assert not pictures(at)


def test_default_second_sentence_changes_one_word() -> None:
    """The middle word of those offered, also for another first sentence."""
    at = open_page("side_by_side?differs=text", text=FIRST)
    offered = at.selectbox(key="_changed_word")
    first, second = offered.options
    assert first.startswith("1 ·crane → ·")
    changed = second.removeprefix("2 ·ate → ·")
    assert at.text_input(key="text2").value == f"A crane {changed} fish"
    assert "text2" not in at.query_params
    assert offered.value == 1
    offered.set_value(0).run()
    assert (
        at.query_params["text2"]
        == at.text_input(key="text2").value
        == f"A {first.removeprefix('1 ·crane → ·')} ate fish"
    )
    at.text_input(key="text2").set_value("my own").run()
    assert at.selectbox(key="_changed_word").value is None
    at = open_page("side_by_side?differs=text", text=FIRST)
    at.text_input(key="text").set_value("She sat by the bank of the river").run()
    river = at.text_input(key="text2").value
    match = re.fullmatch(r"She sat by the (\w+) of the river", river or "")
    assert match
    assert match[1] != "bank"
    at.toggle(key="causal").set_value(False).run()
    assert at.text_input(key="text2").value == river


def test_second_sentence_is_equal_if_no_word_can_change() -> None:
    at = open_page("side_by_side?differs=text", text="🦩")
    assert at.text_input(key="text2").value == "🦩"
    assert "No word here can be swapped for another of one token." in map(
        plain, (c.value for c in at.caption)
    )
    assert not side_matrices(at)[2].any()
    assert "identical in every layer, with the mask on and off" in page_text(at)


def test_empty_and_too_long_second_text() -> None:
    at = open_page("side_by_side?differs=text", text=FIRST, text2="")
    assert at.info[0].value.startswith("Second sentence: There is no text yet")
    assert not pictures(at)
    at = open_page("side_by_side?differs=text", text=FIRST, text2="fish " * 300)
    assert at.warning[0].value.startswith("Second sentence: The text has 301 tokens")
    assert not pictures(at)
    press(at, "Use the first 256 tokens")
    assert at.query_params["text2"] == "fish" + " fish" * 255
    assert at.text_input(key="text").value == FIRST
    assert not at.warning
    assert heatmaps(at, "weights_b")["b"].shape == (256, 256)


def test_first_token_is_added_to_both_texts() -> None:
    at = open_page("side_by_side?differs=text", text=FIRST, text2=VERB, bos="true")
    assert heatmaps(at, "weights_b")["b"].shape == (5, 5)


def side_matrices(at: AppTest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The matrices of A, B and B − A, whose difference is checked."""
    (a, b), (change,) = (heatmaps(at, key).values() for key in ("both_sides", "difference"))
    assert_allclose(change, b.astype(np.float64) - a, atol=1e-6)
    return a, b, change


def every_head(at: AppTest) -> np.ndarray:
    return next(iter(heatmaps(at, "heads_map").values()))


def probabilities(at: AppTest) -> Any:
    return at.dataframe[-1].value.set_index("id")


def test_two_heads_of_two_layers() -> None:
    (run,) = runs(FIRST)
    page = {"text": FIRST, "differs": "head", "layer": "1", "head": "2", "layer2": "3"}
    at = open_page("side_by_side?differs=text", **page, head2="4")
    a, b, _ = side_matrices(at)
    assert_allclose(a, run["weights"][1][2], **TOLERANCE)
    assert_allclose(b, run["weights"][3][4], **TOLERANCE)
    result = every_head(at)
    for layer, head in np.ndindex(N_LAYER, N_HEAD):
        expected = cosine(run["weights"][layer][head][1:].ravel(), run["weights"][1][2][1:].ravel())
        assert result[layer, head] == pytest.approx(expected, abs=2e-3)
    assert not at.dataframe  # one run has one path and one prediction
    whole = open_page("side_by_side?differs=text", **page, whole="true")
    a, b, _ = side_matrices(whole)
    assert_allclose(a, np.mean(run["weights"][1], axis=0), **TOLERANCE)
    assert_allclose(b, np.mean(run["weights"][3], axis=0), **TOLERANCE)


@each("causal", ["true", "false"])
def test_mask_on_and_off(causal: str) -> None:
    page = {"text": FIRST, "differs": "mask", "layer": "2", "head": "0", "query": "1"}
    page |= {"causal": causal}
    at = open_page("side_by_side?differs=text", **page)
    on, off = (runs(FIRST, causal=mask)[0] for mask in (True, False))
    a, b, _ = side_matrices(at)
    saved = at.session_state["_shown"].runs.values()
    assert {key.causal for key in saved} == {True, False}, "whichever run is the page's"
    assert_allclose(a, on["weights"][2][0], **TOLERANCE)
    assert_allclose(b, off["weights"][2][0], **TOLERANCE)
    differences = [
        [np.abs(x - y).max() for x, y in zip(*pair, strict=True)]
        for pair in zip(on["weights"], off["weights"], strict=True)
    ]
    assert_allclose(every_head(at), differences, **TOLERANCE)
    stream = lines(at)["A and B: stream"]
    assert stream[0] == stream[1] == 1
    assert stream[-1] == pytest.approx(
        cosine(on["residual_out"][3][1], off["residual_out"][3][1]), abs=2e-3
    )
    assert_array_equal(heatmaps(at, "seen")["mask"], np.tri(len(a)))
    table = probabilities(at)
    both = [softmax(run["logits"][1]) for run in (on, off)]
    rises = np.argsort(both[0] - both[1])
    assert set(table.index) == {*rises[:6], *rises[-6:]}
    for p, column, metric in zip(both, ("A (%)", "B (%)"), at.metric, strict=False):
        assert_allclose(table[column], 100 * p[table.index], rtol=0.02, atol=1e-3)
        shown_percent = float(metric.value.split()[-2])
        assert shown_percent == pytest.approx(100 * p.max(), abs=0.05)
    p, q = both
    bits = float((p * np.log2(p / q)).sum())
    assert float(at.metric[2].value.split()[0]) == pytest.approx(bits, rel=5e-3)


def test_two_models(tmp_path: Path, list_models: Any) -> None:
    early, late = tmp_path / "step100", tmp_path / "step200"
    write_checkpoint(early, seed=1)
    write_checkpoint(late, seed=2)
    list_models(early, late)
    page = {"text": FIRST, "differs": "model", "model": "step100", "layer": "2", "head": "3"}
    at = open_page("side_by_side?differs=text", **page, model2="step200")
    ids = gpt2viz.load_model(early).tokenizer.encode(FIRST)
    first, second = (reference(folder, ids, causal=True) for folder in (early, late))
    a, b, _ = side_matrices(at)
    assert_allclose(a, first["weights"][2][3], **TOLERANCE)
    assert_allclose(b, second["weights"][2][3], **TOLERANCE)
    differences = np.abs(np.array(second["weights"]) - np.array(first["weights"])).max(axis=(2, 3))
    assert_allclose(every_head(at), differences, **TOLERANCE)
    assert lines(at)["A and B: stream"][1] == pytest.approx(
        cosine(first["embedding"][-1], second["embedding"][-1]), abs=1e-5
    )
    table = probabilities(at)
    assert_allclose(table["A (%)"], 100 * softmax(first["logits"][-1])[table.index], atol=1e-3)
    assert_allclose(table["B (%)"], 100 * softmax(second["logits"][-1])[table.index], atol=1e-3)


def test_two_models_over_many_texts(tmp_path: Path, list_models: Any) -> None:
    for name, seed in (("old", 1), ("new", 2)):
        write_checkpoint(tmp_path / name, seed=seed)
    list_models(tmp_path / "old", tmp_path / "new")
    page = {"differs": "model", "model": "old", "model2": "new", "layer": "1", "head": "2"}
    at = open_page("side_by_side", **page, over="texts")
    assert not [b for b in at.button if b.label.startswith("Compare over")]  # without texts
    texts = [FIRST, VERB, AFTER, "A crane sat on the steel", "The fish was lifted by a crane"]
    at.text_area("texts").set_value("\n".join(texts)).run()
    finish(at, "Compare over 5 texts")
    old, new = (gpt2viz.load_model(tmp_path / name) for name in ("old", "new"))
    changes = gpt2viz.compare_models(old, new, texts, n_tokens=24)
    assert changes.words() in page_text(at)
    for measure in MOVED:
        at.selectbox("moved").set_value(measure).run()
        assert_allclose(panels(at, "changes_map")[0], changes.mean[measure],
                        rtol=1e-3, err_msg=measure)  # fmt: skip
    again = open_page("side_by_side", **dict(at.query_params))
    assert again.text_area("texts").value == "\n".join(texts)
    assert again.selectbox("moved").value == MOVED[-1]
    (table,) = (t.value for t in at.dataframe if "Own output" in t.value)
    assert list(table["Head"]) == [head.name for head in changes.heads]
    assert_allclose(table["Own output"], [h.moved["own output"].mean for h in changes.heads])
    text = changes.texts_of(1, 2)[0]
    assert all(s in page_text(at) for s in (" ".join(text.text.split()), "Old: old. New: new."))
    label = "See both heads on this text"
    (link,) = (link.proto for link in at.get("page_link") if link.proto.label == label)
    assert "over=texts" not in link.query_string
    at.toggle("changes_back").set_value(True).run()
    bars = {bar["name"]: bar["x"] for bar in chart(at, "changes_next")["data"]}
    ids = old.tokenizer.encode(text.text)
    for case, folder in (("old", "old"), ("new", "new")):
        p = 100 * softmax(reference(tmp_path / folder, ids, causal=True)["logits"][-1])
        assert set(np.round(bars[case], 3)) <= set(np.round(p, 3))
    assert not np.allclose(bars["new"], bars["new with the old head"])
    finish(at, "Put old heads and MLPs back, one by one")
    restored = changes.restore(0.9)
    assert_allclose(chart(at, "undone")["data"][0]["y"], restored.undone, atol=1e-4)
    assert restored.words() in page_text(at)
    at.text_input("text").set_value("").run().text_input("text").set_value("A crane").run()
    assert not at.toggle("changes_back").value  # as in a browser, where it was gone in between


def test_models_of_two_sizes_share_some_heads(tmp_path: Path, list_models: Any) -> None:
    write_checkpoint(tmp_path / "large", vocab_size=500)
    write_checkpoint(tmp_path / "small", n_layer=2, n_head=2, n_embd=16, vocab_size=410)
    list_models(tmp_path / "large", tmp_path / "small")
    page = {"text": FIRST, "differs": "model", "model": "large", "model2": "small"}
    at = open_page("side_by_side?differs=text", **page, layer="2")
    assert at.query_params.get("layer") is None  # the small one has no layer 2
    assert every_head(at).shape == (2, 2)
    ids = gpt2viz.load_model(tmp_path / "large").tokenizer.encode(FIRST)
    p = softmax(reference(tmp_path / "large", ids, causal=True)["logits"][-1])
    assert p.argmax() >= 410  # a token that the small model lacks
    assert float(at.metric[0].value.split()[-2]) == pytest.approx(100 * p.max(), abs=0.01)
    assert len(at.metric) == 2  # no KL divergence between vocabularies of two sizes
    assert "path" not in pictures(at)


def test_incomparable_models_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, list_models: Any
) -> None:
    monkeypatch.delenv(settings.MODELS_VARIABLE, raising=False)
    monkeypatch.setattr("gpt2viz.app.run_cache.hub_cache", dict)
    at = open_page("side_by_side", text=FIRST, differs="model")
    assert "Models" not in at.segmented_control(key="differs").options
    assert "differs" not in at.query_params
    write_checkpoint(tmp_path / "mine")
    list_models(tmp_path / "mine")
    at = open_page("side_by_side", text=FIRST, differs="model", model="stories")
    assert ["No other model here has the tokenizer" in note.value for note in at.info] == [True]
    write_checkpoint(tmp_path / "yours", seed=3)
    write_checkpoint(tmp_path / "short", n_positions=3)
    list_models(tmp_path / "mine", tmp_path / "yours", tmp_path / "short")
    at = open_page("side_by_side", text=FIRST, differs="model", model="mine", model2="short")
    assert ["reads at most 3" in error.value for error in at.error] == [True]
    monkeypatch.setattr(run_cache.models(), "budget", 10)
    at = open_page("side_by_side", text=FIRST, differs="model", model="mine", model2="yours")
    assert [
        "together, and this server has room for 10 bytes" in e.value.replace("\\", "")
        for e in at.error
    ] == [True]
    assert not pictures(at)
    load_ahead(monkeypatch, {name: tmp_path / name for name in ("mine", "yours")})
    at = open_page("side_by_side", text=FIRST, differs="model", model="mine", model2="yours")
    assert not at.error  # models shared by all workers don't count
    assert pictures(at)


MAN = "Man bites dog"


def strip(**parameters: str) -> dict[str, np.ndarray]:
    result = heatmaps(open_page("side_by_side", text=MAN, **parameters), "strip_chart")
    assert list(result) == ["0", "1", "2", "3"]
    return result


def test_strip_shows_head_norms_and_mean_in_every_layer() -> None:
    run = stages(MAN)
    weights = np.array(run["weights"])
    for layer, shown in strip(head="4").items():
        assert_allclose(shown, weights[int(layer)][4], **TOLERANCE)
    for layer, shown in strip(head="4", show="norms", words="true").items():
        part = read(BUNDLED).w[f"h.{layer}.attn.c_proj.weight"][32 * 4 : 32 * 5]
        lengths = np.linalg.norm(run["v"][int(layer)][4] @ part, axis=1)
        assert_allclose(shown, weights[int(layer)][4] * lengths, rtol=5e-3, atol=5e-3)
    for layer, shown in strip(compare="mean", show="norms").items():
        assert_allclose(shown, weights[int(layer)].mean(axis=0), **TOLERANCE)


def test_strip_has_its_own_code_and_range() -> None:
    """Under every measure: no text below it says 0 to 1 unless that is its range."""
    problems = []
    for shown, function in zip(MEASURES, ("", "drop_first", "value_weighted"), strict=True):
        at = open_page("side_by_side", text=MAN, head="4", show=shown)
        ends = [panel["high"] for panel in unpack(canvas(at, "strip_chart"))[0]["panels"]]
        parts = [part for part in at.main if part.type in ("bidi_component", "caption")]
        (strip,) = (n for n, part in enumerate(parts) if "strip_chart" in str(part.proto))
        later = [str(part.proto) for part in parts[strip:]]
        if any("from 0 to 1" in text for text in later) and ends != [1] * len(ends):
            problems.append(f"{shown}: {later}, up to {ends}")
        code = "\n".join(block.value for block in at.code)
        if function and f"def {function}(" not in code:
            problems.append(f"{shown}: no code of {function}")
    assert not problems, "\n".join(problems)


def test_chosen_head_is_shown_in_its_layer() -> None:
    at = open_page("side_by_side", text=MAN, layer="2", head="3")
    assert titles(at, "layers_chart") == ["Layer 0 · head 3", "Layer 2 · head 3"]
    at = open_page("side_by_side", text=MAN, layer="0", head="1")
    assert titles(at, "layers_chart") == ["Layer 0 · head 1", "Layer 3 · head 1"]
    opening = open_page("attention", text=MAN).session_state
    at = open_page("side_by_side", text=MAN)
    assert (
        titles(at, "layers_chart")[-1] == f"Layer {opening['layer'] or 3} · head {opening['head']}"
    )


def test_head_picked_among_layers_is_chosen_everywhere() -> None:
    at = open_page("side_by_side", text=MAN, layer="2", compare="mean")
    assert titles(at, "layers_chart") == [
        "Layer 0 · mean of all heads",
        "Layer 2 · mean of all heads",
    ]
    for picked, message in ((5, "head 5"), ("rollout", "rollout"), (1, "head 1")):
        (heads,) = [group for group in button_groups(at) if group.key == "_head_or_whole"]
        heads.set_value(picked).run()
        assert titles(at, "layers_chart") == [f"Layer 0 · {message}", f"Layer 2 · {message}"]
        assert at.query_params.get("compare") == ("rollout" if picked == "rollout" else None)
    assert (at.query_params["layer"], at.query_params["head"]) == ("2", "1")

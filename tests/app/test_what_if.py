"""The What if page: an edited run, compared with NumPy under the same edits."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz import parse_edits
from gpt2viz.app.views import edits
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.run.edit_kinds import OURS
from tests.app.cases import each
from tests.app.pages import (
    canvas,
    chart,
    heatmaps,
    masks,
    matrices,
    notices,
    open_page,
    page_text,
    panels,
    pictures,
    unpack,
)
from tests.bundled import N_HEAD, N_LAYER, bundled_model, ids_of, opening
from tests.numpy_gpt2 import Tolerance, read, reference, softmax

TEXT = "The animal didn't cross the street because it was too tired"
TOLERANCE: Tolerance = {"rtol": 2e-4, "atol": 2e-4}


@pytest.fixture(scope="module")
def runs() -> Any:
    """NumPy's (weights, logits, lens), unedited; then with head 0 of layer 1 off and a key hidden.

    The lens is the logits (positions, T, n_vocab) of the stream after every step.
    """
    of, ids = read(BUNDLED), ids_of(TEXT)

    def off(layer: int, heads: np.ndarray) -> np.ndarray:
        return heads * ((layer != 1) | (np.arange(len(heads)) != 0))[:, None, None]

    results = []
    for run in (
        reference(of, ids, causal=True),
        reference(of, ids, causal=True, edit_heads=off, pairs=[(5, 2)]),
    ):
        steps = zip(run["residual_mid"], run["residual_out"], strict=True)
        stream = np.stack([run["embedding"], *chain(*steps)])
        lens = of.norm(stream, "ln_f") @ of.w["wte.weight"].T
        results.append((np.stack(run["weights"]), run["logits"], lens))
    return results


def test_at_most_64_edits_each_with_its_own_button() -> None:
    factors = [f"scale:0.0:{n + 1}" for n in range(edits.MOST)]
    at = open_page("what_if", text="the cat sat", edits=",".join(factors))
    assert len(at.session_state["edits"]) == edits.MOST
    widgets = at._session_state._state._new_widget_state.widget_metadata.values()
    sizes = [len(repr(widget.callback_args)) for widget in widgets if widget.callback_args]
    assert sum(sizes) < 40_000  # not 64 times 63 edits
    at.button(key="add_edit").click().run()
    assert "Not added. One run can have at most 64 edits" in " ".join(w.value for w in at.warning)
    assert len(at.session_state["edits"]) == edits.MOST
    at.button(key=f"undo_{edits.MOST - 1 - 5}").click().run()
    assert [str(e) for e in at.session_state["edits"]] == [
        f"scale:0.0:{n + 1}.0" for n in range(edits.MOST) if n != 5
    ]
    more = open_page("what_if", text="the cat sat", edits=",".join([*factors, "off:0.0"]))
    assert more.session_state["edits"] == ()
    assert "edits: the value can't be shown here. It must be edits such as" in (
        " ".join(w.value for w in more.warning).replace("\\", "")
    )


def test_mean_of_heads_row_and_path_of_both_runs(runs: Any) -> None:
    edits = "off:1.0,forbid:5:2"
    at = open_page("what_if", text=TEXT, edits=edits, layer="2", whole="true", query="6")
    means = [weights[2].mean(axis=0) for weights, *_ in runs]
    assert_allclose(panels(at, "both_sides"), means, **TOLERANCE)
    rows = [side["y"] for side in chart(at, "bars")["data"]]
    assert_allclose(rows, [mean[6] for mean in means], **TOLERANCE)
    changed = gpt2viz.trace(bundled_model(), TEXT, edits=parse_edits(edits))
    x, y = (
        run.stage("residual_out", N_LAYER - 1)[0, 6].astype(np.float64)
        for run in (gpt2viz.trace(bundled_model(), TEXT), changed)
    )
    stream = chart(at, "path")["data"][0]["y"]
    assert stream[0] == stream[1] == 1
    assert_allclose(stream[-1], x @ y / np.linalg.norm(x) / np.linalg.norm(y), **TOLERANCE)
    assert stream[-1] < 0.99


@each("query", [None, 6])
def test_baseline_and_changed_run_match_numpy(runs: Any, query: int | None) -> None:
    """With the lens of both runs."""
    (weights, logits, _), (weights_edited, logits_edited, _) = runs
    chosen = {} if query is None else {"query": str(query)}
    at = open_page("what_if", text=TEXT, edits="off:1.0,forbid:5:2", layer="2", head="3", **chosen)
    assert not notices(at)
    assert_allclose(panels(at, "both_sides"), [weights[2, 3], weights_edited[2, 3]], **TOLERANCE)
    assert {(m.panel["low"], m.panel["high"]) for m in matrices(at, "both_sides")} == {(0, 1)}
    assert [bool(mask[5, 2]) for mask in masks(at, "both_sides")] == [False, True]
    (legend,) = unpack(canvas(at, "both_sides"))[0]["legend"]
    assert legend[0] == "masked (a later key, or hidden by an edit)"
    change = heatmaps(at, "difference")["difference"]
    assert_allclose(change, weights_edited[2, 3] - weights[2, 3], **TOLERANCE)
    changes = heatmaps(at, "where_map")["largest difference"]
    assert_allclose(changes, np.abs(weights_edited - weights).max(axis=(2, 3)), **TOLERANCE)

    index = -1 if query is None else query
    p, q = softmax(logits[index]), softmax(logits_edited[index])
    table = at.dataframe[0].value
    assert_allclose(table["baseline (%)"], 100 * p[table["id"]], rtol=2e-3, atol=1e-4)
    assert_allclose(table["changed (%)"], 100 * q[table["id"]], rtol=2e-3, atol=1e-4)
    assert_allclose(table["change (points)"], 100 * (q - p)[table["id"]], atol=2e-3)
    bars = [case["x"] for case in chart(at, "best")["data"]]
    likely = np.argsort(-np.maximum(p, q))[:5]
    likely = likely[np.argsort(-p[likely])]
    assert_allclose(bars, [100 * p[likely], 100 * q[likely]], rtol=2e-3)
    order = np.argsort(p - q)
    assert set(table["id"]) == {*order[:6], *order[-6:]}
    bits = float((p * np.log2(p / q)).sum())
    assert float(at.metric[2].value.split()[0]) == pytest.approx(bits, rel=2e-3, abs=1e-4)
    for metric, probabilities in zip(at.metric, (p, q), strict=False):
        token, percent = metric.value.removesuffix(" %").rsplit(" ", 1)
        best = int(probabilities.argmax())
        written = bundled_model().tokenizer.token_bytes(best).decode().replace(" ", "·")
        assert token == f"“{written}”"
        assert float(percent) == pytest.approx(100 * probabilities[best], abs=0.02)
    check_lens(at, runs, index)


def check_lens(at: Any, runs: Any, index: int) -> None:
    (heat,), curves = matrices(at, "lens_runs"), chart(at, "lens_runs_curves")["data"]
    expected = np.stack([lens[:, index] for _, _, lens in runs], axis=1)  # (positions, 2, n_vocab)
    p = np.array([[softmax(logits) for logits in row] for row in expected])
    assert_allclose(heat.values, p.max(axis=-1), rtol=2e-3, atol=2e-4)
    names = bundled_model().tokenizer
    for row, best in zip(heat.texts("words"), p.argmax(axis=-1), strict=True):
        for shown, token in zip(row, best, strict=True):
            assert shown[:4] == names.token_bytes(int(token)).decode().replace(" ", "·")[:4]
    answer = runs[0][1][index].argmax()
    bits = -(p * np.log2(p)).sum(axis=-1)
    for run in (0, 1):
        rank, entropy = (curve["x"] for curve in curves[2 * run : 2 * run + 2])
        assert list(rank) == [1 + (row[run] > row[run, answer]).sum() for row in expected]
        assert_allclose(entropy, bits[:, run], rtol=2e-3)
    assert [curve["name"] for curve in curves] == ["baseline"] * 2 + ["changed"] * 2


def test_without_an_edit_both_runs_are_the_same() -> None:
    at = open_page("what_if")
    assert "No edit yet" in page_text(at)
    assert not heatmaps(at, "difference")["difference"].any()
    assert float(at.metric[2].value.split()[0]) == 0


def test_form_offers_the_chosen_head() -> None:
    """A head picked in the fields replaces it, until another head is chosen."""
    layer, head = opening()
    first, second = (f"off:{layer}.{(head + n) % N_HEAD}" for n in range(2))
    at = open_page("what_if")
    at.button(key="add_edit").click().run()
    assert at.query_params["edits"] == first, "the page's opening head"
    at.selectbox(key="edit_head").set_value((head + 1) % N_HEAD).run()
    at.selectbox(key="edit_kind").set_value("window").run()
    at.selectbox(key="edit_kind").set_value("off").run()
    offered = [at.selectbox(key=f"edit_{name}").value for name in ("layer", "head")]
    assert offered == [layer, head], "after the fields were redrawn"
    at.selectbox(key="edit_head").set_value((head + 1) % N_HEAD).run()
    at.button(key="add_edit").click().run()
    assert at.query_params["edits"] == f"{first},{second}"
    at.button_group(key="head").set_value((head + 2) % N_HEAD).run()
    at.button(key="add_edit").click().run()
    third = f"off:{at.session_state['layer']}.{(head + 2) % N_HEAD}"
    assert at.query_params["edits"] == f"{first},{second},{third}"
    at.button(key="undo_0").click().run()  # the latest edit; the one before gets the focus
    assert at.button(key="undo_0").label.startswith(f"Layer {second[4]} head {second[6]} is off")


def most_changed(edits: str) -> tuple[int, int]:
    """The head with the largest difference in any weight between an edited and an unedited run."""
    runs = [gpt2viz.trace(bundled_model(), TEXT, edits=parse_edits(text)) for text in ("", edits)]
    weights = [np.stack([run.stage("weights", n)[0] for n in range(N_LAYER)]) for run in runs]
    differences = np.abs(weights[0] - weights[1]).max(axis=(2, 3))
    return int(differences.argmax() // N_HEAD), int(differences.argmax() % N_HEAD)


def test_edit_shows_a_head_that_it_changes() -> None:
    def shown_head(at: Any) -> tuple[int, int]:
        both = panels(at, "both_sides")
        assert not np.array_equal(both[0], both[1], equal_nan=True)
        return at.session_state["layer"], at.session_state["head"]

    at = open_page("what_if", text=TEXT, edits="off:0.0")
    assert shown_head(at) == most_changed("off:0.0"), "from a link"
    for choice in ({}, {"layer": "1", "head": "2"}):
        at = open_page("what_if", text=TEXT, **choice)
        at.selectbox(key="edit_layer").set_value(1).run()
        at.selectbox(key="edit_head").set_value(2).run()
        at.button(key="add_edit").click().run()
        assert shown_head(at) == most_changed("off:1.2")
        assert at.selectbox(key="edit_head").value == 2, "the edited head"
    at = open_page("what_if", text=TEXT, layer="3", head="5")
    at.selectbox(key="edit_layer").set_value(0).run()
    at.button(key="add_edit").click().run()
    assert shown_head(at) == (3, 5), "a chosen head that changes is kept"


def test_every_kind_of_edit_can_be_added_and_undone() -> None:
    at = open_page("what_if", layer="0", head="0")
    for kind in (name for name in OURS if name != "patch"):  # that is tested below
        at.selectbox(key="edit_kind").set_value(kind).run()
        if kind == "scale":
            at.number_input(key="edit_factor").set_value(-0.5).run()
        at.button(key="add_edit").click().run()
        if kind == "scale":  # a repeated edit is added again
            at.button(key="add_edit").click().run()
        if kind == "window":
            at.number_input(key="edit_first").set_value(1).run()
            at.button(key="add_edit").click().run()
        assert not at.exception
        assert not notices(at)
    rest = "scale:0.0:-0.5,attn:0,mlp:0,forbid:3:0,window:2,window:2:1,nofirst"
    assert at.query_params["edits"] == f"off:0.0,mean:0.0,scale:0.0:-0.5,{rest}"
    assert at.button(key="undo_9").label.startswith("Layer 0 head 0 is off")
    assert "reference text" in page_text(at)
    assert "Once upon a time a girl" in page_text(at)
    at.button(key="undo_7").click().run()
    assert at.query_params["edits"] == f"off:0.0,mean:0.0,{rest}"
    at.button(key="undo_8").click().run()
    assert at.query_params["edits"] == f"mean:0.0,{rest}"
    at.button(key="undo_all").click().run()
    assert "edits" not in at.query_params
    assert "No edit yet" in page_text(at)
    at.selectbox(key="edit_kind").set_value("scale").run()
    at.text_input(key="text").set_value("").run().text_input(key="text").set_value("A crane").run()
    assert at.selectbox(key="edit_kind").value == "off"  # as a browser forgets the other


def test_patch_from_the_second_sentence() -> None:
    """It is chosen in the form, described on its chip, kept by the link, and run by the library."""
    text, other = "A crane ate fish", "A dog ate fish"
    at = open_page("what_if", text=text, head="3")
    at.selectbox(key="edit_kind").set_value("patch").run()
    assert not at.exception
    assert "No edit yet" in page_text(at)
    at.button(key="add_edit").click().run()
    assert "Not added. Type a second sentence first" in notices(at)
    at.text_input(key="text2").set_value("A very old dog ate fish").run()
    at.button(key="add_edit").click().run()
    assert "Not added. The texts have 4 and" in notices(at)
    at.text_input(key="text2").set_value(other).run()
    at.selectbox(key="edit_stage").set_value("head_output").run()
    at.selectbox(key="edit_layer").set_value(1).run()
    at.selectbox(key="edit_position").set_value(3).run()
    at.button(key="add_edit").click().run()
    at.selectbox(key="edit_kind").set_value("off").run()
    assert at.query_params["edits"] == "patch:head_output:1.3:3"
    assert at.query_params["text2"] == other  # kept while a patch uses it
    chip = at.button(key="undo_0").label.replace("\\", "")
    assert chip == "The output of head 1.3 at 3 (·fish), as in the second text"
    link = {"text": text, "text2": other, "edits": "patch:residual_in:1:1"}
    assert not notices(open_page("what_if", **link))  # it opens on a head that the patch changes
    at = open_page("what_if", layer="2", head="3", **link)
    assert not notices(at)
    shown = panels(at, "both_sides")
    model, edits = bundled_model(), gpt2viz.parse_edits("patch:residual_in:1:1")
    run = gpt2viz.trace(model, text, edits=edits, patch_from=other)
    assert_allclose(shown[1], run.stage("weights", 2, 3), **TOLERANCE)
    assert abs(shown[1] - shown[0]).max() > 1e-3


@each(
    ("chosen", "expected"),
    [
        ({"edits": "patch:v:1.0:1"}, "Type a second sentence first"),
        ({"edits": "patch:v:1.0:1", "text2": "A dog ate"}, "The texts have 4 and 3 tokens"),
        ({"edits": "patch:v:1.0:4", "text2": "A dog ate fish"}, "names position 4"),
        ({"edits": "patch:v:1:1", "text2": "A dog ate fish"}, "It must be edits such as"),
    ],
)
def test_invalid_patch_is_one_message(chosen: dict[str, str], expected: str) -> None:
    at = open_page("what_if", text="A crane ate fish", **chosen)
    assert expected in notices(at).replace("\\", "")
    assert len(at.warning) == 1


def test_impossible_edit_is_not_added() -> None:
    at = open_page("what_if")
    at.selectbox(key="edit_kind").set_value("forbid").run()
    at.selectbox(key="edit_query").set_value(0).run()
    at.button(key="add_edit").click().run()
    assert "Not added. Query 0 would see no key at all" in notices(at)
    assert "edits" not in at.query_params
    at.run()
    assert not notices(at)


@each(
    ("edits", "expected"),
    [
        ("off:9.0", "off:9.0 names layer 9, but this model has layers 0 to 3. Undo that edit"),
        ("forbid:7:1", "forbid:7:1 names query 7, but this text has tokens 0 to 3"),
        ("forbid:0:0", "Query 0 would see no key at all"),
    ],
)
def test_edit_that_does_not_fit_is_one_message(edits: str, expected: str) -> None:
    at = open_page("what_if", edits=edits)
    assert expected in notices(at)
    assert not pictures(at)
    at.button(key="undo_0").click().run()
    assert not notices(at)
    assert panels(at, "both_sides")


def test_edits_act_only_on_their_page_but_stay_in_links() -> None:
    at = open_page("attention", edits="nofirst,mlp:1")  # heads that are off do act there
    plain = heatmaps(open_page("attention"), "one_head")["weights"]
    assert_allclose(heatmaps(at, "one_head")["weights"], plain)
    assert at.query_params["edits"] == "nofirst,mlp:1"

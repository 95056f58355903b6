"""Wiring: the page matches the weights, the run and a patch of the path."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz import settings
from gpt2viz.analysis.composition import EdgeName, copying_edge, edge_share, parse_edge, top_edges
from gpt2viz.analysis.direct_paths import PatchedPath
from gpt2viz.analysis.scores import head_scores, probe
from gpt2viz.analysis.text_pairs import telling_answers
from gpt2viz.app import address, jobs, parameters
from gpt2viz.app.clicks import Cell
from gpt2viz.app.views import wiring
from tests.app.cases import each
from tests.app.pages import chart, heatmaps, open_page, page_text, pictures
from tests.bundled import CATS, bundled_model
from tests.checkpoints import write_checkpoint


def drawn_edges(at: Any) -> list[tuple[Any, str]]:
    """Every edge of the picture, with its hover text."""
    letters = [trace for trace in chart(at, "wiring")["data"] if "customdata" in trace]
    edges = [edge for t in letters for edge in zip(t["customdata"], t["hovertext"], strict=True)]
    return [(parse_edge(name), hover) for name, hover in edges]


def test_page_opens_with_the_copying_heads() -> None:
    at = open_page("find?find=wiring", text=CATS)
    model = bundled_model()
    run, result = gpt2viz.trace(model, CATS), gpt2viz.composition(model)
    scores = head_scores(
        gpt2viz.trace(model, probe(model.config.vocab_size, model.config.n_positions))
    )
    first, above = copying_edge(result, scores), top_edges(result)
    assert first in above.edges
    text, effect = page_text(at), edge_share(model, run, first)
    (a, b), (c, d) = first.sender, first.receiver
    shared = f"{100 * effect.share:.0f} % of what singles out “{run.labels[effect.key]}” for "
    assert f"**Heads {a}.{b} and {c}.{d} copy together: here {a}.{b} accounts for {shared}" in text
    assert f" to {effect.key} {run.labels[effect.key]} ({effect.weight:.2f})." in text
    copies, back = scores["induction"][first.receiver], scores["previous token"][first.sender]
    assert f"{c}.{d} puts {100 * copies:.0f} % of its weight on what followed" in text
    assert f"{a}.{b} puts {100 * back:.0f} % on the previous token. In the weights" in text
    assert f"(z = {first.kernel_z:.1f})" in text
    assert f"The strongest 20 of {above.above} edges above chance are drawn." in text
    assert f"z > {above.limit:.1f}" in text
    edges = dict(drawn_edges(at))
    assert sorted(edges) == sorted(edge[:3] for edge in above.edges)
    table = at.dataframe[0].value
    assert_allclose(table["z"], [edge.kernel_z for edge in above.edges])
    assert_allclose(table["kernel"], [edge.kernel for edge in above.edges])
    for n in (0, 7, 19):
        edge, effect = above.edges[n], edge_share(model, run, above.edges[n])
        assert table["carries here (%)"][n] == pytest.approx(100 * effect.share, rel=1e-4)
        assert f"z {edge.kernel_z:.1f}\n" in edges[edge[:3]].replace("−", "-")
        assert f": {100 * effect.share:.0f} %\n" in edges[edge[:3]].replace("−", "-")
    pattern = gpt2viz.virtual_head(model, first.sender, first.receiver).pattern(run)
    assert_allclose(heatmaps(at, "joint")["joint"], pattern, atol=1e-6)


def test_address_selects_the_edges() -> None:
    chosen = {"measure": "ratio", "into": "v", "most": "10", "edge": "0.1:3.2:q", "query": "4"}
    at = open_page("find?find=wiring", text=CATS, **chosen)
    model = bundled_model()
    result = gpt2viz.composition(model)
    above, edge = top_edges(result, "ratio", ["v"], 10), result.edge((0, 1), (3, 2), "q")
    assert sorted(n for n, _ in drawn_edges(at)) == sorted(e[:3] for e in (*above.edges, edge))
    assert_allclose(at.dataframe[0].value["ratio"], [e.ratio for e in (*above.edges, edge)])
    run = gpt2viz.trace(model, CATS)
    effect = edge_share(model, run, edge, 4)
    assert "**Head 0.1 feeds head 3.2's queries" in page_text(at)
    assert f"accounts for {100 * effect.share:.0f} % of what singles out" in page_text(at)
    assert f"from 4 {run.labels[4]} to {effect.key} " in page_text(at)
    assert ("no more than chance would" in page_text(at)) == (edge.ratio_z <= above.limit)
    assert f"of {above.above} edges into values above chance" in page_text(at)
    assert not at.warning


@each("raw", ["0.0:0.1:k", "0.0:9.0:k", "0.0:1.0:x", "<b>"])
def test_invalid_edge_is_one_message(raw: str) -> None:
    at = open_page("find?find=wiring", edge=raw, measure="size", most="7")
    (warning,) = at.warning
    assert "edge: " in warning.value
    assert "such as 0.0:1.0:k" in warning.value
    assert "measure: size" in warning.value
    assert "most: 7" in warning.value
    assert "copy together" in page_text(at)


def test_click_chooses_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[Any] = []
    monkeypatch.setattr(address, "put", lambda *arguments: put.append(arguments))
    edge = EdgeName((0, 10), (11, 3), "v")
    wiring._choose(Cell(str(edge), 0, 0))
    assert put == [(parameters.EDGE, (edge,))]
    assert str(put[0][1][0]) == "0.10:11.3:v"


def test_path_is_patched_on_request() -> None:
    first, second = "A crane ate fish. A crane ate", "A crane ate grass. A crane ate"
    model = bundled_model()
    edge = top_edges(gpt2viz.composition(model)).edges[1]
    requested = {"text": first, "text2": second, "edge": str(EdgeName(*edge[:3]))}
    at = open_page("find?find=wiring", **requested)
    assert "Patching the path" not in page_text(at)
    assert dict(drawn_edges(at))[edge[:3]].endswith("choose it to patch its path")
    at = open_page("find?find=wiring", **requested, path="true")
    answer = telling_answers(*(gpt2viz.trace(model, text) for text in (first, second)))
    result = gpt2viz.patch_path(model, first, second, *edge[:3], answer)
    share = f"{round(100 * result.restored)} %".replace("-", "−")
    numbers = [result.corrupted, result.value, result.clean]
    expected = [f"{x:.2f}".replace("-", "−") for x in numbers]
    assert f"Patching the path recovers {share} of the answer." in page_text(at)
    assert f"is {expected[2]} in the first sentence and {expected[0]} in the second." in page_text(
        at
    )
    assert f"with the path of the first it is {expected[1]}." in page_text(at)
    edges = dict(drawn_edges(at))
    assert edges[edge[:3]].endswith(f"patched: {share}")
    assert sum("choose it" in hover for hover in edges.values()) == len(edges) - 1


def test_hyphen_in_a_token_is_not_a_minus() -> None:
    words = wiring.effect_in_words(PatchedPath(-0.5, -2, 1), "-", "-ish")
    assert r"The logit of “\-” minus that of “\-ish” is −2.00 in the first " in words


@each(
    ("sizes", "expected"),
    [
        ({"n_layer": 1}, "this model has one layer"),
        ({"n_head": 1, "n_embd": 8}, "nothing to wire by this measure"),
        ({}, "No edge is above chance"),
    ],
)
def test_models_without_wiring_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, Any], expected: str
) -> None:
    folder = write_checkpoint(tmp_path / f"random{len(sizes)}{sizes.get('n_layer', '')}", **sizes)
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))
    at = open_page("find?find=wiring", model=folder.name, text="A crane ate fish")
    assert page_text(at).count(expected) == 1 + (not sizes)  # also beside the graph
    if not sizes:
        assert drawn_edges(at) == []
        result = gpt2viz.composition(gpt2viz.load_model(folder))
        assert np.nanmax([np.nanmax(z) for z in result.kernel_z.values()]) < top_edges(result).limit
        assert "Yet in the weights" in page_text(at)


def test_reading_weights_can_be_cancelled_and_restarted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A progress bar shows the time left; a partial wiring isn't drawn."""
    half, go_on = Event(), Event()

    def slow(model: gpt2viz.Model, tell: Callable[[float], object]) -> gpt2viz.Composition:
        tell(0.5)
        half.set()
        assert go_on.wait(60)
        tell(0.6)
        return gpt2viz.composition(model)

    monkeypatch.setattr(jobs, "cached_scores", lambda *_: {})
    monkeypatch.setattr(jobs, "cached_composition", slow)
    monkeypatch.setattr(jobs, "WAIT", 0)
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))
    at = open_page("find?find=wiring", model=folder.name, text="A crane ate fish")
    assert half.wait(60)
    at.run()
    (bar,) = at.get("progress")
    assert re.fullmatch(r"Reading every head's weights: 75 %, \d+ s left", bar.proto.text)
    at.button(key="cancel_reading").click().run()
    go_on.set()
    monkeypatch.setattr(jobs, "WAIT", 600)
    at.run()
    assert "Cancelled at 80 %." in page_text(at)
    assert "wiring" not in pictures(at)
    at.button(key="reading_again").click().run()
    assert not at.get("progress")
    assert "Cancelled" not in page_text(at)
    assert "wiring" in pictures(at)

"""From a cell of a head's matrix to why the head looks there: the run that is explained is its own.

Which cells lead there is held for every picture in ``test_pictures``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import streamlit as st

import gpt2viz
from gpt2viz.app import address, parameters, run_cache, why_there
from gpt2viz.app.clicks import Cell
from gpt2viz.pictures.measure import in_words, mean_of_heads, one_head, weights_measure
from gpt2viz.pictures.panel import HeadOfRun, Panel
from gpt2viz.pictures.pooling import crop, pool_panel
from gpt2viz.run.edits import parse_edits
from gpt2viz.run.key import RunKey
from tests.app.pages import canvas, open_page, plain, unpacked
from tests.bundled import CATS, copier, weights

LAYER, HEAD = copier()
HERE = {"text": CATS, "layer": str(LAYER), "head": str(HEAD)}


def written(at: Any) -> str:
    return plain(" ".join(block.value for block in [*at.markdown, *at.caption]))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Panel, why_there.Way | None]]:
    """Every head's panel that a page has drawn, by its title, with the way that leads from it."""
    found: dict[str, tuple[Panel, why_there.Way | None]] = {}
    way = why_there.way

    def keep(panel: Panel, of_page: RunKey | None) -> why_there.Way | None:
        wanted = way(panel, of_page)
        if panel.head is not None:
            found[panel.title] = panel, wanted
        return wanted

    monkeypatch.setattr(why_there, "way", keep)
    return found


def went(
    monkeypatch: pytest.MonkeyPatch, panel: Panel, wanted: why_there.Way, row: int, column: int
) -> dict[str, str]:
    """What the address says on the page that opens."""
    opened: list[dict[str, str]] = []
    with monkeypatch.context() as patch:
        patch.setattr(address, "parameters", lambda asked: said(HERE, asked))
        patch.setattr(st, "switch_page", lambda _path, query_params: opened.append(query_params))
        why_there.go(panel, wanted, Cell("", row, column))
    return opened[0]


def said(before: Mapping[str, str], asked: why_there.Way) -> dict[str, str]:
    texts = {p.name: address._format(value) for p, value in asked.items() if value != ()}
    return {**before, **texts}


@pytest.mark.parametrize(
    ("page", "more", "title"),
    [
        ("attention", {}, f"Layer {LAYER} "),
        ("side_by_side?differs=mask", {}, "B: "),
        ("side_by_side?differs=text", {"text2": "The dog sat on the mat"}, "B: "),
        ("what_if", {"edits": "off:0.1,forbid:5:2"}, "Changed"),
        ("what_if", {"edits": "off:0.1,forbid:5:2"}, "Baseline"),
    ],
)
def test_the_run_that_is_explained_is_that_of_the_cell(
    page: str,
    more: dict[str, str],
    title: str,
    drawn: dict[str, tuple[Panel, why_there.Way | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_page(page, **HERE, **more)
    panel, wanted = next(found for name, found in drawn.items() if name.startswith(title))
    assert wanted is not None
    row, column = 5, 1 + 3 * (title == "Changed")
    at = open_page("head", **{**more, **went(monkeypatch, panel, wanted, row, column)})
    assert not at.warning
    weight = panel.values[row, column]
    assert panel.values[row].std() > 0
    assert f"from {row} " in written(at)
    assert re.search(rf" to {column} \S+: weight {weight:.2f}", written(at))
    (shown,) = unpacked(canvas(at, "why_weights"))[1]
    assert np.array_equal(shown, panel.values)


def test_the_edits_are_said_and_taken_away_with_one_click() -> None:
    edits = "off:0.1,forbid:8:2"
    chosen = {**HERE, "see": "why", "query": "8", "key": "2"}
    at = open_page("head", **chosen, edits=edits, edited="true")
    told = "**Of the changed run**: Layer 0 head 1 is off: its output is 0 · Query 8"
    assert told in written(at).replace("\\", "")
    assert "An edit hides this key from this query: its weight is exactly 0" in written(at)
    at.toggle(key="edited").set_value(False).run()
    assert "changed run" not in written(at)
    weight = weights(CATS)[LAYER, HEAD, 8, 2]
    assert f"from 8 ·cat to 2 ·sat: weight {weight:.2f}" in written(at)
    assert "".join(at.query_params["edits"]) == edits  # What if has them still
    assert not [t for t in open_page("head", **chosen).toggle if t.key == "edited"]


def test_a_head_is_left_out_of_the_edited_run() -> None:
    """The run without it has the edits too, and so has the link to What if."""
    chosen = {**HERE, "see": "why", "query": "8", "key": "2", "without": "true"}
    at = open_page("head", **chosen, edits="scale:0.0:2,mlp:0", edited="true")
    links = [
        link.proto.query_string for link in at.get("page_link") if "off" in link.proto.query_string
    ]
    assert links
    assert all("edits=scale%3A0.0%3A2.0%2Cmlp%3A0%2Coff%3A" in link for link in links)
    model = gpt2viz.load_model()
    runs = re.findall(r"sum \*\*[\d.]+\*\*, run \*\*([\d.]+)\*\*", written(at))
    for link, left in zip(links, runs, strict=True):
        off = re.search(r"off%3A(\d\.\d)", link)
        assert off
        edits = parse_edits(f"scale:0.0:2,mlp:0,off:{off[1]}")
        run = gpt2viz.trace(model, CATS, edits=edits)
        assert left == f"{run.stage('weights', LAYER, HEAD)[8, 2]:.2f}"


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        ("patch:residual_in:1:3", "edited: true can't be shown here. It must be false."),
        ("off:7.0", "Undo that edit, or choose another sentence or model."),
    ],
)
def test_edits_that_cannot_be_explained_are_told(edits: str, told: str) -> None:
    at = open_page("head", **HERE, see="why", edits=edits, edited="true")
    assert told in " ".join(warning.value for warning in at.warning)


def test_cells_that_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many heads or cells in one, of patched runs, of what can't be typed or named."""
    monkeypatch.setattr(address, "chosen", lambda _parameter: False)
    room = {"text": CATS}
    monkeypatch.setattr(address, "parameters", lambda asked: said(room, asked))
    trace = gpt2viz.trace(gpt2viz.load_model(), CATS)
    measure = weights_measure(trace, trace.labels, LAYER)
    own = one_head(measure, HEAD, "", "")
    here = trace.key
    assert own.head == HeadOfRun(here, LAYER, HEAD)
    for none in (in_words(measure, trace), mean_of_heads(measure)):
        assert one_head(none, 0, "", "").head is None
    assert pool_panel(own, 9).head is None
    assert crop(own, range(2, 5), range(1, 3)).head == own.head

    def way(run: RunKey, of_page: RunKey | None = here) -> why_there.Way | None:
        return why_there.way(replace(own, head=HeadOfRun(run, LAYER, HEAD)), of_page)

    assert way(here) == {
        parameters.SEE: "why",
        parameters.LAYER: LAYER,
        parameters.HEAD: HEAD,
        parameters.WHY: (),
        parameters.EDITED: False,
    }
    assert way(here, None) is None
    tokenizer = gpt2viz.load_model().tokenizer
    cut = tuple(tokenizer.encode("🦩"))[:1]  # half a character
    assert way(replace(here, token_ids=cut)) is None
    dog = tuple(tokenizer.encode("The dog"))
    found = way(replace(here, token_ids=dog))
    assert found is not None
    assert found[parameters.TEXT] == "The dog"
    monkeypatch.setattr(address, "chosen", lambda _parameter: True)  # <|endoftext|> goes first
    first = tuple(tokenizer.encode("The dog", end_of_text_first=True))
    assert (way(replace(here, token_ids=first)) or {})[parameters.TEXT] == "The dog"
    assert way(replace(here, token_ids=dog)) is None
    long = tuple(tokenizer.encode("The dog " * 300, end_of_text_first=True))
    assert way(replace(here, token_ids=long)) is None  # no address has room for it
    patched = replace(here, edits=parse_edits("patch:q:1.2"), patch_from=here.token_ids)
    assert way(patched) is None
    assert way(replace(here, model="step 300")) is None  # a point of a training
    monkeypatch.setattr(run_cache, "model_folders", lambda: {"other": None})
    assert (way(replace(here, model="other")) or {})[parameters.MODEL] == "other"
    room |= {"text2": "x" * address.LONGEST_TEXT, "a": "y" * 1000, "b": "z" * 1000}
    assert way(here) is not None
    room |= {"c": "z" * 2000}
    assert way(here) is None

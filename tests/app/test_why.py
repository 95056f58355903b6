"""Why does it look there? Table and text are of the cell's own run, and all links work."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest
import streamlit as st
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis.cell import HeadCell, parse_path, remap_path
from gpt2viz.analysis.reasons import Hop, strongest_path
from gpt2viz.app import address, clicks, parameters, run_cache
from gpt2viz.app.clicks import Cell
from gpt2viz.app.views import why
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.pictures import svg
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.explanation import reason_map, strand_name, strands
from gpt2viz.pictures.from_trace import mean_of_heads, one_head, weights_measure, word_measure
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.panel import HeadOfRun, Panel
from gpt2viz.pictures.pooling import crop, pool_panel
from gpt2viz.run.edits import parse_edits
from gpt2viz.run.key import RunKey
from tests.app.cases import each
from tests.app.pages import canvas, data_of, heatmaps, open_page, page_text, unpack
from tests.bundled import CATS, N_HEAD, N_LAYER, back, bundled_model, copier, stages, weights
from tests.numpy_gpt2 import reference

#: The namespace of SVG elements.
SVG = "{http://www.w3.org/2000/svg}"
LAYER, HEAD = copier()
HERE = {"text": CATS, "layer": str(LAYER), "head": str(HEAD)}
COPYING = {**HERE, "query": "8", "key": "2"}


def scores(causal: bool = True) -> np.ndarray:
    """NumPy's raw scores, (n_layer, nh, T, T)."""
    return np.array(stages(CATS, causal)["scores"])


@each("causal", [True, False])
def test_table_sums_to_the_runs_score(causal: bool) -> None:
    row = scores(causal)[LAYER, HEAD, 8, : 9 if causal else None]
    for parts, total in (("raw", row[2]), ("beyond", row[2] - row.mean())):
        at = open_page("head", see="why", **COPYING, parts=parts, causal=str(causal).lower())
        shown = heatmaps(at, "why_table")["parts"]
        assert shown.shape == (N_HEAD + 6, N_HEAD + 6)  # with 5 others and the sum
        assert shown[-1, -1] == pytest.approx(total, rel=1e-4)
        assert_allclose(shown[:-1].sum(axis=0), shown[-1], rtol=1e-4, atol=1e-4)
        assert_allclose(shown[:, :-1].sum(axis=1), shown[:, -1], rtol=1e-4, atol=1e-4)
        result = re.search(r"sum to (\S+), and the model's q·k is (\S+);", page_text(at))
        assert result
        assert [float(n) for n in result.groups()] == pytest.approx([row[2]] * 2, rel=1e-4)


def test_reason_and_the_weight_without_a_head() -> None:
    shown = open_page("head", see="why", what_if="depends", **COPYING)
    assert not re.findall(r"sum \*\*[\d.]+\*\*, run", page_text(shown))  # none without a request
    at = shown.toggle(key="without").set_value(True).run()
    text, before = page_text(at), back()
    assert f"came after “·cat” before: head {before[0]}.{before[1]} had copied “·cat” there" in text
    weights = re.findall(r"sum \*\*[\d.]+\*\*, run \*\*([\d.]+)\*\*", text)
    links = [link.proto for link in at.get("page_link") if link.proto.page == "what_if"]
    requests = [dict(parse_qsl(link.query_string)) for link in links]
    edits = [gpt2viz.parse_edits(q["edits"])[0] for q in requests if q["what_if"] == "edits"]
    assert before in [(edit.layer, edit.head) for edit in edits]
    for edit, left in zip(edits, weights, strict=True):

        def off(layer: int, heads: np.ndarray, edit: gpt2viz.Edit = edit) -> np.ndarray:
            on = (layer != edit.layer) | (np.arange(N_HEAD) != edit.head)
            return heads * on[:, None, None]

        run = reference(BUNDLED, bundled_model().tokenizer.encode(CATS), True, edit_heads=off)
        assert left == f"{run['weights'][LAYER][HEAD, 8, 2]:.2f}"


def find_path(model: gpt2viz.Model, run: gpt2viz.Trace) -> tuple[HeadCell, HeadCell, HeadCell]:
    """A path from a cell of the last layer through a middle layer to a head of layer 0."""

    def earlier(cell: HeadCell) -> list[HeadCell]:
        case = gpt2viz.reason(gpt2viz.explain_row(model, run, *cell[:3]), cell.key)
        at_key = [case.source_of("key", pair.key_part) for pair in case.pairs]
        at_query = [case.source_of("query", pair.query_part) for pair in case.pairs]
        return [c for c in (*at_key, *at_query) if c is not None]

    cells = (HeadCell(N_LAYER - 1, head, 7, key) for head in range(N_HEAD) for key in range(8))
    return next(
        (cell, over, last)
        for cell in cells
        for over in earlier(cell)
        if over.layer > 0
        for last in earlier(over)
        if last.layer == 0
    )


def test_contributions_of_the_value_sum_to_the_route() -> None:
    at = open_page("head", see="why", **COPYING)
    table = at.session_state["_shown"].tables["What the value carries"]
    token = stages(CATS)["logits"][8].argmax()
    trace = gpt2viz.trace(bundled_model(), CATS)
    cell = gpt2viz.route(bundled_model(), trace, int(token), 8).heads[LAYER, HEAD, 2]
    assert sum(table["adds"]) == pytest.approx(cell, abs=1e-9)
    assert f"adds {cell:+.2f}".replace("-", "−") in page_text(at)


def test_opened_heads_can_be_closed_again() -> None:
    """The path ends at a head of layer 0, which reads the embeddings."""
    model = bundled_model()
    cell, over, last = find_path(model, gpt2viz.trace(model, CATS))
    chosen = {"text": CATS, "layer": str(cell.layer), "head": str(cell.head)}
    chosen |= {"query": str(cell.query), "key": str(cell.key)}
    at = open_page("head", see="why", **chosen, why=f"{over},{last}")
    shown = heatmaps(at, "why_table")["parts"]
    row = scores()[0, last.head, last.query, : last.query + 1]
    assert shown.shape == (4, 4)  # token, position, constant and sum: nothing below
    assert shown[-1, -1] == pytest.approx(row[last.key] - row.mean(), rel=1e-3)
    assert "head" not in str(data_of(at, "why_strands")["keys"])
    assert heatmaps(at, "why_weights")["weights"][last.query].argmax() == last.key
    assert not unpack(canvas(at, "why_weights"))[0]["chooses"], "it belongs to a cell below"
    at.button(key="why_back_1").click().run()
    assert "".join(at.query_params["why"]) == str(over)
    at.button(key="why_back_0").click().run()
    assert "why" not in at.query_params
    assert unpack(canvas(at, "why_weights"))[0]["chooses"]


def test_run_links_to_the_reason_of_its_cell() -> None:
    at = open_page("head", **COPYING)
    assert "came after" not in page_text(at)
    at.button(key="ask_why").click().run()
    assert "".join(at.query_params["see"]) == "why"
    weight = weights(CATS)[LAYER, HEAD, 8, 2]
    assert f"from 8 ·cat to 2 ·sat: weight {weight:.2f}" in page_text(at)


def test_another_cell_resets_the_path() -> None:
    at = open_page("head", see="why", **COPYING, why="0.0:2:1")
    assert "→ **head 0.0, from 2" in page_text(at)
    at.selectbox(key="key").set_value(3).run()
    assert "→ **head 0.0" not in page_text(at)
    assert "why" not in at.query_params


@each(
    "parameter",
    ["1.0:2:1", f"0.{N_HEAD}:2:1", "0.0:3:1", "0.0:2:3", "0.0:2:1,0.0:1:0", "0.0"],
)
def test_invalid_path_is_reported(parameter: str) -> None:
    at = open_page("head", see="why", **COPYING, why=parameter)
    assert "heads of earlier layers" in at.warning[0].value
    assert "why" not in at.query_params


def test_later_key_is_explained_without_the_mask() -> None:
    later = {**COPYING, "query": "2", "key": "8"}
    assert "The mask hides this key from this query" in page_text(
        open_page("head", see="why", **later)
    )
    off = open_page("head", see="why", **later, causal="false")
    row = scores(causal=False)[LAYER, HEAD, 2]
    shown = heatmaps(off, "why_table")["parts"]
    assert shown[-1, -1] == pytest.approx(row[8] - row.mean(), rel=1e-4)


def test_long_run_makes_only_one_more_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt2viz.run.tracer.EXPLICIT_BYTES", 0)
    text = page_text(
        open_page("head", see="why", **COPYING | {"text": f"{CATS}.", "without": "true"})
    )
    assert len(re.findall(r"sum \*\*[\d.]+\*\*, run", text)) == 1
    assert len(re.findall(r"sum \*\*[\d.]+\*\*", text)) > 1


def test_click_opens_the_head_of_its_column_or_row(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bundled_model()
    case = gpt2viz.reason(gpt2viz.explain_row(model, gpt2viz.trace(model, CATS), LAYER, HEAD, 8), 2)
    panel = reason_map(case).matrices[0]
    put: list[Any] = []
    monkeypatch.setattr("gpt2viz.app.address.put", lambda _name, value: put.append(value))
    click = why._open(panel, case.sources, (HeadCell(2, 2, 8, 8),))
    heads = {name: n for n, name in enumerate(panel.rows.labels)}
    click(Cell("parts", heads["mlp 0"], heads["head 0.0"]))
    click(Cell("parts", heads["head 0.3"], heads["sum"]))
    click(Cell("parts", heads["sum"], heads["sum"]))
    click(Cell("parts", heads["head 0.3"], heads["mlp 0"]))
    first, third = (weights(CATS)[0, head] for head in (0, 3))
    assert put == [
        (HeadCell(2, 2, 8, 8), HeadCell(0, 0, 2, first[2].argmax())),
        (HeadCell(2, 2, 8, 8), HeadCell(0, 3, 8, third[8].argmax())),
    ]
    (strand,) = strands(case).panels
    rows, columns = strand.rows.labels, strand.columns.labels
    for pair in case.pairs:
        row = rows.index(strand_name(case, "query", pair.query_part))
        column = columns.index(strand_name(case, "key", pair.key_part))
        assert strand.values[row, column] == pytest.approx(100 * pair.share, rel=1e-3)
    assert strand.values.sum() == pytest.approx(100, rel=1e-4)
    click_strand = why._open_strand(strand, case, ())
    click_strand("key", columns.index(f"head 0.0 read {first[2].argmax()} ·cat"))
    click_strand("query", rows.index("all others"))
    assert put[2:] == [(HeadCell(0, 0, 2, first[2].argmax()),)]


def check_export(drawn: Thumbnails, hops: Sequence[Hop]) -> None:
    """In the exported file an arrow leads from the middle of each head to the top of the next, and
    the first arrow comes from above all heads."""
    sheet = fromstring(svg.draw(drawn, LIGHT).svg())  # noqa: S314 (our own)
    heads = {}
    for n, image in enumerate(sheet.iter(f"{SVG}image")):
        x, y, wide, tall = (float(image.get(name, "")) for name in ("x", "y", "width", "height"))
        heads[divmod(n, N_HEAD)] = (x + wide / 2, y, y + tall / 2)
    shafts = [line.get("points", "").split() for line in sheet.iter(f"{SVG}polyline")][::2]
    arrows = [[tuple(map(float, point.split(","))) for point in shaft] for shaft in shafts]
    texts = [text.text or "" for text in sheet.iter(f"{SVG}text")][-len(hops) :]
    for hop, (_, end), text in zip(hops, arrows, texts, strict=True):
        middle, top, _ = heads[hop.cell.layer, hop.cell.head]
        assert_allclose(end, (middle, top), atol=0.01)
        assert f"{100 * hop.by.share:.0f} %" in text
    for hop, (start, _) in zip(hops[1:], arrows, strict=False):
        middle, _, down = heads[hop.cell.layer, hop.cell.head]
        assert_allclose(start, (middle, down), atol=0.01)
    (across, above), (middle, _) = arrows[-1]
    assert across == middle
    assert above < heads[0, 0][1]
    assert texts[-1].startswith(hops[-1].by.part)
    table = drawn.table()
    written = table[table["series"] == "share of the arrow"]
    assert_allclose(written["y"], [hop.by.share for hop in hops], rtol=1e-5)  # from another run
    names = [f"head {hop.cell.layer}.{hop.cell.head}" for hop in hops]
    starts = [*names[1:], "embeddings"]  # it ends at the embeddings
    assert written["x"].tolist() == [f"{a} → {b}" for a, b in zip(starts, names, strict=True)]


def test_strongest_path_is_drawn_listed_and_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    look = HeadCell(2, 7, 8, 1)  # the next head's number differs from its layer's
    chosen = {name: str(n) for name, n in look._asdict().items()}
    at = open_page("head", see="why", text=CATS, **chosen, parts="path")
    model = bundled_model()
    hops = strongest_path(model, gpt2viz.trace(model, CATS), look)
    assert hops[1].cell.layer != hops[1].cell.head
    shown = at.session_state["_shown"].pictures.values()
    (drawn,) = (p for p in shown if isinstance(p, Thumbnails))
    assert drawn.arrows[0].written == f"{100 * hops[0].by.share:.0f} %"
    assert drawn.arrows[-1].written == f"{hops[-1].by.part} {100 * hops[-1].by.share:.0f} %"
    check_export(drawn, hops)
    assert unpack(canvas(at, "why_map"))[0]["frame"] == LIGHT.second, "the arrows' colour"
    assert_allclose(drawn.tiles, weights(CATS), atol=1e-5)
    table = at.session_state["_shown"].tables[f"{drawn.what}, in numbers"]
    assert table["strongest part"].tolist() == [str(hop.by) for hop in hops]
    assert_allclose(table["share (%)"], [100 * hop.by.share for hop in hops])
    put: list[Any] = []
    monkeypatch.setattr("gpt2viz.app.address.put", lambda _name, value: put.append(value))
    why._open_hop([(), (hops[1].cell,)], 1)
    assert put.pop() == (hops[1].cell,)
    click = why._follow({(0, 3): (HeadCell(0, 3, 7, 7),)})
    click(0, 3, None)
    click(0, 2, None)
    assert put == [(HeadCell(0, 3, 7, 7),)]


def test_path_moves_with_its_tokens() -> None:
    cells = parse_path("1.4:8:2,0.0:2:1")
    assert cells == (HeadCell(1, 4, 8, 2), HeadCell(0, 0, 2, 1))
    assert ",".join(map(str, remap_path(cells, lambda n: n + 1))) == "1.4:9:3,0.0:3:2"
    assert remap_path(cells, lambda n: n - 2 if n > 1 else None) == (HeadCell(1, 4, 6, 0),)
    for wrong in ("", "1.4:8", "a.4:8:2", "1.4:8:2;", "1.4:٨:2"):
        with pytest.raises(ValueError, match=f"^{re.escape(wrong)}$"):
            parse_path(wrong)


@pytest.fixture
def head_panels(
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, tuple[Panel, clicks.Changes | None]]:
    """The panel and explanation link of each head that a page draws, by title."""
    results: dict[str, tuple[Panel, clicks.Changes | None]] = {}
    link = clicks.explain_link

    def keep(panel: Panel, of_page: RunKey | None) -> clicks.Changes | None:
        expected = link(panel, of_page)
        if panel.head is not None:
            results[panel.title] = panel, expected
        return expected

    monkeypatch.setattr(clicks, "explain_link", keep)
    return results


def opened_query(
    monkeypatch: pytest.MonkeyPatch,
    panel: Panel,
    expected: clicks.Changes,
    row: int,
    column: int,
) -> dict[str, str]:
    """The parameters of the page that a click on a cell opens."""
    opened: list[dict[str, str]] = []
    with monkeypatch.context() as patch:
        patch.setattr(address, "parameters", lambda requested: address_after(HERE, requested))
        patch.setattr(st, "switch_page", lambda _path, query_params: opened.append(query_params))
        clicks.explain(panel, expected, Cell("", row, column))
    return opened[0]


def address_after(before: Mapping[str, str], requested: clicks.Changes) -> dict[str, str]:
    texts = {p.name: address._format(value) for p, value in requested.items() if value != ()}
    return {**before, **texts}


@each(
    ("page", "more", "title"),
    [
        ("attention", {}, f"Layer {LAYER} "),
        ("side_by_side?differs=mask", {}, "B: "),
        ("side_by_side?differs=text", {"text2": "The dog sat on the mat"}, "B: "),
        ("what_if", {"edits": "off:0.1,forbid:5:2"}, "Changed"),
        ("what_if", {"edits": "off:0.1,forbid:5:2"}, "Baseline"),
    ],
)
def test_explained_run_is_the_cells_run(
    page: str,
    more: dict[str, str],
    title: str,
    head_panels: dict[str, tuple[Panel, clicks.Changes | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_page(page, **HERE, **more)
    panel, expected = next(result for name, result in head_panels.items() if name.startswith(title))
    assert expected is not None
    row, column = 5, 1 + 3 * (title == "Changed")
    at = open_page("head", **{**more, **opened_query(monkeypatch, panel, expected, row, column)})
    assert not at.warning
    weight = panel.values[row, column]
    assert panel.values[row].std() > 0
    assert f"from {row} " in page_text(at)
    assert re.search(rf" to {column} \S+: weight {weight:.2f}", page_text(at))
    (shown,) = unpack(canvas(at, "why_weights"))[1]
    assert np.array_equal(shown, panel.values)


def test_edits_are_named_and_removed_by_one_click() -> None:
    edits = "off:0.1,forbid:8:2"
    at = open_page("head?see=why", **COPYING, edits=edits, edited="true")
    message = "**Edited run**: Layer 0 head 1 is off: its output is 0 · Query 8"
    assert message in page_text(at).replace("\\", "")
    assert "An edit hides this key from this query, so its weight is 0" in page_text(at)
    at.toggle(key="edited").set_value(False).run()
    assert "changed run" not in page_text(at)
    weight = weights(CATS)[LAYER, HEAD, 8, 2]
    assert f"from 8 ·cat to 2 ·sat: weight {weight:.2f}" in page_text(at)
    assert "".join(at.query_params["edits"]) == edits  # What if still has them
    assert not [t for t in open_page("head?see=why", **COPYING).toggle if t.key == "edited"]


def test_run_without_a_head_keeps_the_edits() -> None:
    """So does the link to What if."""
    at = open_page("head?see=why&without=true&edits=scale:0.0:2,mlp:0&edited=true", **COPYING)
    links = [
        link.proto.query_string for link in at.get("page_link") if "off" in link.proto.query_string
    ]
    assert links
    assert all("edits=scale%3A0.0%3A2.0%2Cmlp%3A0%2Coff%3A" in link for link in links)
    model = bundled_model()
    runs = re.findall(r"sum \*\*[\d.]+\*\*, run \*\*([\d.]+)\*\*", page_text(at))
    for link, left in zip(links, runs, strict=True):
        off = re.search(r"off%3A(\d\.\d)", link)
        assert off
        edits = parse_edits(f"scale:0.0:2,mlp:0,off:{off[1]}")
        run = gpt2viz.trace(model, CATS, edits=edits)
        assert left == f"{run.stage('weights', LAYER, HEAD)[8, 2]:.2f}"


@each(
    ("edits", "expected"),
    [
        ("patch:residual_in:1:3", "edited: true can't be shown here. It must be false."),
        ("off:7.0", "Undo that edit, or choose another sentence or model."),
    ],
)
def test_unexplainable_edits_are_reported(edits: str, expected: str) -> None:
    at = open_page("head", **HERE, see="why", edits=edits, edited="true")
    assert expected in " ".join(warning.value for warning in at.warning)


def test_cells_without_an_explanation_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pooled cells, patched runs, texts that can't be typed and models without a name have none."""
    monkeypatch.setattr(address, "get_chosen", lambda _parameter: None)
    room = {"text": CATS}
    monkeypatch.setattr(address, "parameters", lambda requested: address_after(room, requested))
    trace = gpt2viz.trace(bundled_model(), CATS)
    measure = weights_measure(trace, trace.labels, LAYER)
    panel = one_head(measure, HEAD, "", "")
    key = trace.key
    assert panel.head == HeadOfRun(key, LAYER, HEAD)
    for no_head in (word_measure(measure, trace), mean_of_heads(measure)):
        assert one_head(no_head, 0, "", "").head is None
    assert pool_panel(panel, 9).head is None
    assert crop(panel, range(2, 5), range(1, 3)).head == panel.head

    def link(run: RunKey, of_page: RunKey | None = key) -> clicks.Changes | None:
        return clicks.explain_link(replace(panel, head=HeadOfRun(run, LAYER, HEAD)), of_page)

    assert link(key) == {
        parameters.SEE: "why",
        parameters.LAYER: LAYER,
        parameters.HEAD: HEAD,
        parameters.WHY: (),
        parameters.EDITED: False,
    }
    assert link(key, None) is None
    tokenizer = bundled_model().tokenizer
    cut = tuple(tokenizer.encode("🦩"))[:1]  # half a character
    assert link(replace(key, token_ids=cut)) is None
    dog = tuple(tokenizer.encode("The dog"))
    result = link(replace(key, token_ids=dog))
    assert result is not None
    assert result[parameters.TEXT] == "The dog"
    monkeypatch.setattr(address, "get_chosen", lambda _parameter: True)  # <|endoftext|> is first
    first = tuple(tokenizer.encode("The dog", bos=True))
    assert (link(replace(key, token_ids=first)) or {})[parameters.TEXT] == "The dog"
    assert link(replace(key, token_ids=dog)) is None
    long = tuple(tokenizer.encode("The dog " * 300, bos=True))
    assert link(replace(key, token_ids=long)) is None  # too long for an address
    patched = replace(key, edits=parse_edits("patch:q:1.2"), patch_from=key.token_ids)
    assert link(patched) is None
    assert link(replace(key, model="step 300")) is None  # a checkpoint of a training
    monkeypatch.setattr(run_cache, "model_folders", lambda: {"other": None})
    assert (link(replace(key, model="other")) or {})[parameters.MODEL] == "other"
    room |= {"text2": "x" * address.LONGEST_TEXT, "a": "y" * 1000, "b": "z" * 1000}
    assert link(key) is not None
    room |= {"c": "z" * 2000}
    assert link(key) is None

"""*Why there?*: the chosen cell's score, decomposed by its sources, down to the embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from gpt2viz import Edit, Reason, explain_row, reason, route
from gpt2viz.analysis.cell import HeadCell, parse_path
from gpt2viz.analysis.explanation import Part, Side
from gpt2viz.analysis.reasons import strongest_path
from gpt2viz.app import address, output, pages, parameters, prose, run_cache
from gpt2viz.app.clicks import Cell, Changes, choose_cell, page_link
from gpt2viz.app.components import NUMBERS, attention, lines, mount
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.app.views import edits as editing
from gpt2viz.app.views.measures import draw_weights
from gpt2viz.labels import difference, numeral, sentence
from gpt2viz.pictures.explanation import (
    SUM,
    pair_table,
    path_map,
    reason_map,
    strand_name,
    strands,
)
from gpt2viz.pictures.palette import LOWER, UPPER
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.pooling import thumbnails

#: The table's views, by their values in the address.
_TABLES = {"beyond": "Compared with the row's mean", "raw": "Raw", "path": "Path"}
#: The formats of the strongest pairs' numbers.
_DIGITS = {"adds": "%.2f", "share (%)": "%.0f", "weight without it": "%.2f"}
#: The two sides of a pair, in the order of a pair's parts.
_SIDES: tuple[Side, Side] = ("query", "key")


def offer() -> None:
    """Draw the button that leads here from the head's other modes."""
    st.button(
        "Why does it look there?",
        key="ask_why",
        icon=":material/arrow_forward:",
        type="tertiary",
        on_click=address.put,
        args=(parameters.SEE, "why"),
    )


def draw(view: View, chosen: HeadCell) -> None:
    """Explain the chosen cell, or a cell further down that was opened from it."""
    expected = "heads of earlier layers, each at the query or key of the one before"
    path = address.values(parameters.WHY, lambda raw: _path(view, chosen, raw), expected)
    cells = (chosen, *path)
    runs, kind = address.switch(parameters.WITHOUT), address.choice(parameters.PARTS, _TABLES)
    _breadcrumbs(view, cells)
    editing.describe_edits(view)
    answer = st.container(key="why_answer")
    drawing, weights = st.columns([8, 5], gap="medium")
    with weights:
        at = replace(view, query=cells[-1].query)
        draw_weights(
            at,
            *cells[-1][:2],
            key="why_weights",
            height=380,
            column=cells[-1].key,
            legend=False,
            choose=None if path else choose_cell,
        )
    row = explain_row(view.model, view.trace, *cells[-1][:3])
    if cells[-1].key not in row.keys:
        answer.caption(sentence("why.hidden", what=_name_hider(view, cells[-1])))
        return
    case = reason(row, cells[-1].key)
    if not np.isfinite(case.deviation).all():
        answer.caption("The score can't be taken apart: some numbers went beyond float32.")
        return
    because, *measured = case.words([literal(label) for label in view.labels])
    prose.markdown(f"**{because}**", slot=answer)
    if case.pairs:
        with drawing:
            _strands(view, case, path)
    linked = any(address.raw(choice) for choice in (parameters.PARTS, parameters.WITHOUT))
    unfolded = st.session_state.setdefault("_why_unfolded", linked)  # opened by a link, not a click
    with st.expander("How this is measured", expanded=unfolded):
        numbers, parts = st.columns([5, 6], gap="medium")
        with numbers:
            for text in measured:
                prose.markdown(text)
            if case.pairs:
                output.table(pair_table(case), "The strongest pairs", formats=_DIGITS)
            _heads(view, case, cells, runs)
            _draw_value(view, cells[-1])
        with parts:
            _parts(view, case, cells, kind)


def _strands(view: View, case: Reason, path: tuple[HeadCell, ...]) -> None:
    """Draw the pairs of parts as lines, shares (%) of the score, the first part highlighted.

    A click on a head opens the cell that it attended to.
    """
    drawn = strands(case)
    (panel,) = drawn.panels
    choose = _open_strand(panel, case, path)
    data = lines.settings(view, unit=False) | {
        "script": "lines",
        "alt": f"{output.remember(drawn, listed=True)} {NUMBERS}",
        "shows": drawn.what,
        "hint": "Click a head to see why it looked where it did.",
        "ends": drawn.ends,
        "quantity": drawn.quantity,
        "decimals": 0,
        "unit": " %",
        "queries": [("", name) for name in panel.rows.labels],
        "keys": [("", name) for name in panel.columns.labels],
        "chosen": 0,
        "matrices": [{"name": drawn.quantity, "values": panel.values.ravel().tolist()}],
    }
    mount(data, key="why_strands", on={side: partial(choose, side) for side in _SIDES})
    output.code(explain_row, reason, of=[drawn.what])


def _open_strand(drawn: Panel, case: Reason, path: tuple[HeadCell, ...]) -> Callable[..., None]:
    """Return a callback that opens the cell that a clicked head, of either side, attended to."""
    names = {"query": tuple(drawn.rows.labels), "key": tuple(drawn.columns.labels)}
    openings: dict[tuple[str, str], HeadCell] = {
        (side, strand_name(case, side, part)): cell for (side, part), cell in case.sources.items()
    }

    def clicked(side: str, row: int) -> None:
        if (cell := openings.get((side, names[side][int(row)]))) is not None:
            address.put(parameters.WHY, (*path, cell))

    return clicked


def _name_hider(view: View, cell: HeadCell) -> str:
    """Name what hides a cell's key from its query."""
    if view.trace.causal and cell.key > cell.query:
        return "The mask"
    edited = view.trace.forbidden is not None and view.trace.forbidden[cell.query, cell.key]
    return "An edit" if edited else "The layer's window"


def _path(view: View, chosen: HeadCell, raw: str) -> tuple[HeadCell, ...]:
    """Parse the cells opened, one from another. Raises ``ValueError`` for an impossible one."""
    cells, above = parse_path(raw), chosen
    for cell in cells:
        seen = range(cell.query + 1 if view.trace.causal else view.n_tokens)
        at = cell.query in (above.query, above.key) and cell.key in seen
        if not (cell.layer < above.layer and cell.head < view.model.config.n_head and at):
            raise ValueError(raw)
        above = cell
    return cells


def _cell_in_words(view: View, cell: HeadCell) -> str:
    """Return a cell as Markdown: "head 1.4, from 8 ·cat to 2 ·sat"."""
    asks, answers = (f"{n} {literal(view.labels[n])}" for n in (cell.query, cell.key))
    return f"head {cell.layer}.{cell.head}, from {asks} to {answers}"


def _breadcrumbs(view: View, cells: Sequence[HeadCell]) -> None:
    """Draw the cells opened one from another; each but the last is a button back to it."""
    if len(cells) == 1:
        return
    with st.container(key="why_path", horizontal=True, vertical_alignment="center"):
        for n, cell in enumerate(cells[:-1]):
            st.button(
                f"H{_cell_in_words(view, cell)[1:]}",
                key=f"why_back_{n}",
                icon=":material/arrow_upward:",
                type="tertiary",
                on_click=address.put,
                args=(parameters.WHY, tuple(cells[1 : n + 1])),
            )
        prose.markdown(f"→ **{_cell_in_words(view, cells[-1])}**")


def _heads(view: View, case: Reason, cells: Sequence[HeadCell], runs: dict[str, Any]) -> None:
    """Show the cell's weight without each of the heads of the leading pairs.

    From the sum and, if switched on, from a run of the whole model; of a long text, for one head.
    """
    parts = [part for pair in case.pairs for part in zip(_SIDES, pair.parts, strict=True)]
    heads = list(dict.fromkeys(case.sources[part] for part in parts if part in case.sources))
    if not heads:
        return
    prose.markdown(
        "**What if a head were missing?** *Sum* takes its part away and keeps all else as it is, "
        "the norm's scale too; *run* switches it off, so later layers change."
    )
    run = st.toggle("Run the model without each, too", **runs)
    with st.container(key="why_heads", gap=None):
        for n, cell in enumerate(heads):
            _head(view, case, cells[-1], cell, runs=run and (view.trace.explicit or n == 0))


def _head(view: View, case: Reason, at: HeadCell, opened: HeadCell, runs: bool) -> None:
    """Show the weight without one of the heads that wrote to query or key."""
    edits = (*view.trace.edits, Edit("off", opened.layer, opened.head))
    line = st.container(horizontal=True, vertical_alignment="center")
    part = Part("head", opened.layer, opened.head)
    by_sum = case.row.ablated_part_weight(at.key, part)
    left = sentence("why.left", cell=_cell_in_words(view, opened), by_sum=by_sum)
    if runs:
        run = run_cache.run(replace(view.trace.key, edits=edits))
        weights = run.weights_of_queries(at.layer, slice(at.query, at.query + 1))
        left += sentence("why.left_by_run", by_run=weights[at.head, 0, at.key])
    prose.markdown(left, slot=line, width="content")
    changes: Changes = {
        parameters.WHAT_IF: "edits",
        parameters.EDITS: edits,
        parameters.LAYER: at.layer,
        parameters.HEAD: at.head,
        parameters.QUERY: at.query,
    }
    with line:
        tip = prose.tip(sentence("why.switch_off", part=part))
        page_link(pages.WHAT_IF, "What if", "arrow_forward", changes, help=tip)


def _draw_value(view: View, cell: HeadCell) -> None:
    """Show the cell's contribution to the likeliest next token, by the sources of its value."""
    token = int(view.trace.logits_at(cell.query).argmax())
    whole = route(view.model, view.trace, token, cell.query)
    parts = whole.opened(cell.layer, cell.head, cell.key)
    word = literal(run_cache.vocabulary(view.trace.key.model)[token])
    added = numeral(float(whole.heads[cell.layer, cell.head, cell.key]), "+.2f")
    prose.markdown(sentence("why.carries", token=word, added=added))
    ranked = sorted(parts, key=lambda part: -abs(parts[part]))
    output.table(
        {"written by": list(map(str, ranked)), "adds": [parts[part] for part in ranked]},
        "What the value carries",
        formats=_DIGITS,
    )


def _parts(view: View, case: Reason, cells: Sequence[HeadCell], kind: dict[str, Any]) -> None:
    """Draw every pair of parts, or the path along the strongest of them."""
    shown = st.segmented_control(
        "What each pair adds",
        required=True,
        help=prose.tip(
            "Rows: what was written to the query; columns: to the key. Softmax ignores whatever "
            "all keys share, so the row's mean is subtracted; *Path* follows the strongest part."
        ),
        **kind,
    )
    if shown == "path":
        _strongest(view, cells)
    else:
        _table(case, tuple(cells[1:]), raw=shown == "raw")


def _strongest(view: View, cells: Sequence[HeadCell]) -> None:
    """Draw the strongest path on the map of heads and as a table; a click on a head opens it."""
    hops = strongest_path(view.model, view.trace, cells[-1])
    if not hops:
        prose.caption("There is no path: the query sees a single key.")
        return
    openings = {
        (hop.cell.layer, hop.cell.head): (*cells[1:], *(later.cell for later in hops[1 : n + 1]))
        for n, hop in enumerate(hops)
    }
    every = run_cache.every_head(view.trace.key, False)
    groups = view.model.config.n_kv_head
    drawn = path_map(hops, every.tiles, view.trace.hidden_pairs(), view.labels, groups)
    attention.draw_map(drawn, every.links, key="why_map", choose=_follow(openings))
    output.code(strongest_path, thumbnails, of=[drawn.what])
    output.table(
        {
            "head": [f"{hop.cell.layer}.{hop.cell.head}" for hop in hops],
            "from": [f"{hop.cell.query} {view.labels[hop.cell.query]}" for hop in hops],
            "to": [f"{hop.cell.key} {view.labels[hop.cell.key]}" for hop in hops],
            "strongest part": [str(hop.by) for hop in hops],
            "share (%)": [100 * hop.by.share for hop in hops],
        },
        drawn.what + ", in numbers",
        key="why_hops",
        formats={"share (%)": "%.0f"},
        choose=partial(_open_hop, tuple(openings.values())),
    )
    prose.caption(
        "A share is of all that raises the score, or of all that lowers it where that is more. The "
        "path ends at a part that no head wrote, or at a head that reads no token of this text."
    )


def _open_hop(openings: Sequence[tuple[HeadCell, ...]], hop: int) -> None:
    """Open the cell of a hop of the path. For callbacks."""
    address.put(parameters.WHY, openings[hop])


def _follow(openings: dict[tuple[int, int], tuple[HeadCell, ...]]) -> Callable[..., None]:
    """Return a callback that opens the cell of a clicked head of the path."""

    def clicked(layer: int, head: int, _token: int | None) -> None:
        if (cells := openings.get((layer, head))) is not None:
            address.put(parameters.WHY, cells)

    return clicked


def _table(case: Reason, path: tuple[HeadCell, ...], *, raw: bool) -> None:
    """Draw every pair of parts with the sums, and check that they add up to the score."""
    picture = reason_map(case, raw=raw)
    score = float(case.row.scores[case.row.row_of(case.key)])
    total = float(case.row.table(case.key).sum())
    prose.caption(f"{UPPER.capitalize()} raises the score, {LOWER} lowers it.")
    output.picture(
        picture,
        key="why_table",
        made_by=(explain_row, reason),
        choose=_open(picture.matrices[0], case.sources, path),
    )
    if case.row.layer:
        prose.caption(sentence("why.columns"))
    pairs, own = (numeral(number, ".4f") for number in (total, score))
    apart = difference(abs(total - score))
    prose.caption(sentence("why.checked", pairs=pairs, own=own, apart=apart))


def _open(
    drawn: Panel, openings: dict[tuple[Side, Part], HeadCell], path: tuple[HeadCell, ...]
) -> Callable[[Cell], None]:
    """Return a callback: a click on a head's column opens the key's head, on *sum* the query's."""
    rows, columns = tuple(drawn.rows.labels), tuple(drawn.columns.labels)
    by_name = {(side, str(part)): opened for (side, part), opened in openings.items()}

    def clicked(cell: Cell) -> None:
        column = columns[cell.column]
        opened = by_name.get(("query", rows[cell.row]) if column == SUM else ("key", column))
        if opened is not None:
            address.put(parameters.WHY, (*path, opened))

    return clicked

"""Why does it look there? The chosen cell's score by who wrote it, and down to the embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from gpt2viz import Edit, Reason, explain_row, reason
from gpt2viz.analysis.cell import Step, parse_steps
from gpt2viz.analysis.explanation import Part, Side
from gpt2viz.analysis.reasons import Hop, strongest_path
from gpt2viz.app import address, output, pages, parameters, prose, run_cache
from gpt2viz.app.clicks import Cell, choose_cell, open_head
from gpt2viz.app.components import attention
from gpt2viz.app.literal import literal
from gpt2viz.app.parameters import Parameter
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View
from gpt2viz.app.views import edits as editing
from gpt2viz.labels import difference, signed
from gpt2viz.pictures.explanation import SUM, path_map, reason_map
from gpt2viz.pictures.from_trace import stage_panel
from gpt2viz.pictures.palette import ABOVE, BELOW
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.pooling import GRID, pool_panel, thumbnails

#: What the table shows, by its value in the address.
_TABLES = {"beyond": "Compared with the row's mean", "raw": "Raw", "path": "Path"}
#: The two sides of a pair, in the order in which they are told.
_SIDES: tuple[Side, Side] = ("query", "key")


def draw(view: View, chosen: Step) -> None:
    """Explain the chosen cell, or one further down that the visitor has opened from it."""
    expected = "heads of earlier layers, each at the query or key of the one before"
    path = address.several_values(parameters.WHY, lambda raw: _path(view, chosen, raw), expected)
    steps = (chosen, *path)
    runs, kind = address.switch(parameters.WITHOUT), address.choice(parameters.PARTS, _TABLES)
    _way_down(view, steps)
    weights, answer, parts = st.columns([4, 5, 6], gap="medium")
    with weights:
        _weights(view, steps[-1], choose=not path)
    with answer:
        editing.in_words(view)
    row = explain_row(view.model, view.trace, *steps[-1][:3])
    if steps[-1].key not in row.keys:
        answer.caption(
            f"{_hides(view, steps[-1])} hides this key from this query: its weight is exactly 0, "
            "whatever the score. Click a cell that isn't masked."
        )
        return
    case = reason(row, steps[-1].key)
    if not np.isfinite(case.deviation).all():
        answer.caption("The score can't be taken apart: some numbers went beyond float32.")
        return
    with answer:
        with st.container(key="why_answer"):
            _answer(view, case)
        _heads(view, case, steps, runs)
    with parts:
        _parts(view, case, steps, kind)


def _hides(view: View, step: Step) -> str:
    """The name of what hides a cell's key from its query."""
    return "The mask" if view.trace.causal and step.key > step.query else "An edit"


def _path(view: View, chosen: Step, raw: str) -> tuple[Step, ...]:
    """The heads that were opened from a cell on. Raises ``ValueError`` where one isn't there."""
    steps, above = parse_steps(raw), chosen
    for step in steps:
        seen = range(step.query + 1 if view.trace.causal else view.n_tokens)
        at = step.query in (above.query, above.key) and step.key in seen
        if not (step.layer < above.layer and step.head < view.model.config.n_head and at):
            raise ValueError(raw)
        above = step
    return steps


def _cell_in_words(view: View, step: Step) -> str:
    """A cell as Markdown: "head 1.4, from 8 ·cat to 2 ·sat"."""
    asks, answers = (f"{n} {literal(view.labels[n])}" for n in (step.query, step.key))
    return f"head {step.layer}.{step.head}, from {asks} to {answers}"


def _way_down(view: View, steps: Sequence[Step]) -> None:
    """The cells that were opened one from another; each but the last is a way back."""
    if len(steps) == 1:
        return
    with st.container(key="why_path", horizontal=True, vertical_alignment="center"):
        for n, step in enumerate(steps[:-1]):
            st.button(
                f"H{_cell_in_words(view, step)[1:]}",
                key=f"why_back_{n}",
                icon=":material/arrow_upward:",
                type="tertiary",
                on_click=address.put,
                args=(parameters.WHY, tuple(steps[1 : n + 1])),
            )
        prose.markdown(f"→ **{_cell_in_words(view, steps[-1])}**")


def _answer(view: View, case: Reason) -> None:
    """The reason in sentences; the one that names a rule stands out."""
    first, *sentences = case.words([literal(label) for label in view.labels])
    if case.rule is not None:
        sentences[-1] = f"**{sentences[-1]}**"
    paragraphs = "\n\n".join([f"**{first}**", " ".join(sentences[:-1]), *sentences[-1:]])
    prose.markdown(paragraphs.replace(" %", "\u00a0%"))  # a share is not broken in two


def _heads(view: View, case: Reason, steps: Sequence[Step], runs: dict[str, Any]) -> None:
    """The heads of the leading pairs: a way down into each, and the weight without it.

    By the sum, and by a run of the whole model if that is wanted: in a long text for one of them.
    """
    parts = [part for pair in case.pairs for part in zip(_SIDES, pair.parts, strict=True)]
    heads = list(dict.fromkeys(case.sources[part] for part in parts if part in case.sources))
    if not heads:
        return
    prose.markdown(
        f"**Without a head**, what is left of the weight of {case.weight:.2f}? In the *sum* all "
        "else stays as it is, the norm's scale too; in a *run* without it all later parts change."
    )
    run = st.toggle("Run the model without each, too", **runs)
    with st.container(key="why_heads", gap=None):
        for n, step in enumerate(heads):
            _head(view, case, steps, step, runs=run and (view.trace.explicit or n == 0))


def _head(view: View, case: Reason, steps: Sequence[Step], opened: Step, runs: bool) -> None:
    """One of the heads that wrote to query or key."""
    at = steps[-1]
    edits = (*view.trace.edits, Edit("off", opened.layer, opened.head))
    line = st.container(horizontal=True, vertical_alignment="center")
    line.button(
        f"Why {_cell_in_words(view, opened)}?",
        key=f"why_{opened}",
        icon=":material/arrow_downward:",
        type="tertiary",
        on_click=address.put,
        args=(parameters.WHY, (*steps[1:], opened)),
    )
    part = Part("head", opened.layer, opened.head)
    weights_left = f"sum **{case.row.ablated_part_weight(at.key, part):.2f}**"
    if runs:
        run = run_cache.run(replace(view.trace.key, edits=edits))
        weights = run.weights_of_queries(at.layer, slice(at.query, at.query + 1))
        weights_left += f", run **{weights[at.head, 0, at.key]:.2f}**"
    prose.markdown(weights_left, slot=line, width="content")
    changes: dict[Parameter, Any] = {
        parameters.EDITS: edits,
        parameters.LAYER: at.layer,
        parameters.HEAD: at.head,
        parameters.QUERY: at.query,
    }
    line.page_link(
        pages.WHAT_IF.path,
        label="What if",
        icon=":material/arrow_forward:",
        help=prose.tip(f"Switch {part} off and see all that changes."),
        query_params=address.parameters(changes),
    )


def _weights(view: View, step: Step, *, choose: bool) -> None:
    """The weights of the head, with the cell framed; a click can ``choose`` another one."""
    title = f"Layer {step.layer} · Head {step.head}"
    panel = stage_panel(view.trace, view.labels, "weights", step.layer, step.head, title)
    drawn = pool_panel(panel, GRID)
    output.picture(
        Heatmaps(
            f"Attention weights of layer {step.layer}, head {step.head}",
            [drawn],
            height=380,
            row=step.query,
            column=step.key,
            legend=False,
        ),
        key="why_weights",
        made_by=(Line(view.trace, "weights", step.layer),),
        choose=choose_cell(drawn) if choose else None,
    )


def _parts(view: View, case: Reason, steps: Sequence[Step], kind: dict[str, Any]) -> None:
    """Every pair of parts, or the path that leads over the strongest of them."""
    shown = st.segmented_control(
        "What each pair adds",
        required=True,
        help=prose.tip(
            "Who wrote to the query, down, and to the key, across. "
            "What is equal for all keys of a row, softmax forgets. So the row's mean is "
            "taken away from every pair, and what is left sets this key apart. The path follows "
            "the strongest part at each head, down towards the tokens."
        ),
        **kind,
    )
    if shown == "path":
        _strongest(view, steps)
    else:
        _table(case, tuple(steps[1:]), raw=shown == "raw")


def _strongest(view: View, steps: Sequence[Step]) -> None:
    """The strongest path, on the map of the model and in words; a click on a head opens it."""
    hops = strongest_path(view.model, view.trace, steps[-1])
    if not hops:
        prose.caption("No path leads here: the query sees a single key, whatever was written.")
        return
    ways = {
        (hop.step.layer, hop.step.head): (*steps[1:], *(later.step for later in hops[1 : n + 1]))
        for n, hop in enumerate(hops)
    }
    every = run_cache.every_head(view.trace.key, False)
    groups = view.model.config.n_kv_head
    drawn = path_map(hops, every.tiles, view.trace.hidden_pairs(), view.labels, groups)
    opened = attention.draw_map(drawn, every.looks, key="why_map", choose=_follow(ways))
    if opened:
        open_head(*opened)
    output.code(strongest_path, thumbnails, of=[drawn.what])
    with st.container(key="why_hops", gap=None):
        for n, hop in enumerate(hops):
            _hop(view, n, hop, ways[hop.step.layer, hop.step.head])
    prose.caption(
        "A part's share is of all that sets the cell apart in the direction that prevails. "
        + _ending(hops[-1])
    )


def _hop(view: View, n: int, hop: Hop, way: tuple[Step, ...]) -> None:
    """One cell of the path with its strongest part."""
    line = st.container(horizontal=True, vertical_alignment="center")
    words = f"H{_cell_in_words(view, hop.step)[1:]}"
    if n == 0:
        prose.markdown(f"**{words}**:", slot=line, width="content")
    else:
        line.button(
            words,
            key=f"why_hop_{n}",
            icon=":material/arrow_downward:",
            type="tertiary",
            on_click=address.put,
            args=(parameters.WHY, way),
        )
    share = f"{100 * hop.by.share:.0f}\u00a0%"
    prose.markdown(f"{share} through **{hop.by}**", slot=line, width="content")


def _ending(last: Hop) -> str:
    """Why the path leads no further."""
    return {
        "token": "The path ends where the text comes in, at a token's vector.",
        "position": "The path ends where the text comes in, at a position's vector.",
        "head": "The path ends at a head that puts out a mean: it read no token of this text.",
        "mlp": "The path ends at an MLP: it read all that stood at its own place, in one.",
        "bias": "The path ends at a bias, which is the same at every place.",
        "constant": "The path ends at what is there whatever was written.",
    }[last.by.part.kind]


def _follow(ways: dict[tuple[int, int], tuple[Step, ...]]) -> Callable[..., None]:
    """A click on a head of the path opens its cell."""

    def clicked(layer: int, head: int, _token: int | None) -> None:
        if (way := ways.get((layer, head))) is not None:
            address.put(parameters.WHY, way)

    return clicked


def _table(case: Reason, path: tuple[Step, ...], *, raw: bool) -> None:
    """Every pair of parts with the sums, and the proof."""
    picture = reason_map(case, raw=raw)
    score = float(case.row.scores[case.row.row_of(case.key)])
    total = float(case.row.table(case.key).sum())
    beyond = "" if raw else ", beyond the mean over all keys that the query sees"
    pairs, own = (signed(number, ".4f") for number in (total, score))
    prose.caption(
        f"{ABOVE.capitalize()} raises the score, {BELOW} lowers it{beyond}. Checked against the "
        f"run: all raw pairs sum to {pairs}; q·k of the model is {own}, "
        f"**{difference(abs(total - score))}** apart."
    )
    output.picture(
        picture,
        key="why_table",
        made_by=(explain_row, reason),
        choose=_open(picture.matrices[0], case.sources, path),
    )
    if case.row.layer:
        prose.caption(
            "Click a head's column to ask why it looked where it did at the key; of the query's "
            "heads, the cell under *sum*."
        )


def _open(
    drawn: Panel, openings: dict[tuple[Side, Part], Step], path: tuple[Step, ...]
) -> Callable[[Cell], None]:
    """A click on a head's column opens the key's; in the last column, the query's."""
    rows, columns = tuple(drawn.rows.labels), tuple(drawn.columns.labels)
    by_name = {(side, str(part)): step for (side, part), step in openings.items()}

    def clicked(cell: Cell) -> None:
        column = columns[cell.column]
        step = by_name.get(("query", rows[cell.row]) if column == SUM else ("key", column))
        if step is not None:
            address.put(parameters.WHY, (*path, step))

    return clicked

"""Head: from Q, K and V to the output, with one cell's sum; why it looks there; its weights."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import STAGE, Stage, TextError, Trace, labels
from gpt2viz.analysis.cell import CellArithmetic, HeadCell, cell_arithmetic, scores_at
from gpt2viz.analysis.scores import duplicate_token, induction
from gpt2viz.app import address, output, pages, parameters, prose, run_cache, server_config
from gpt2viz.app.clicks import Cell, Drag, Dragged
from gpt2viz.app.components import lines, written_sum
from gpt2viz.app.components.lines import Lined
from gpt2viz.app.components.written_sum import (
    Part,
    arrow,
    note,
    peak,
    result,
    spell,
    strip,
    table,
)
from gpt2viz.app.frame import controls, page_fragment, sentence
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View, Window
from gpt2viz.app.views import edits as editing
from gpt2viz.app.views import head_weights, measures, training, why, zoom
from gpt2viz.arrays import largest
from gpt2viz.labels import difference, numeral, pluralize, shorten
from gpt2viz.model.config import sharing
from gpt2viz.pictures import tables
from gpt2viz.pictures.circuits import FARTHEST, distance_curve
from gpt2viz.pictures.from_trace import stage_panel, who_sees_whom
from gpt2viz.pictures.palette import LOWER, UPPER
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import AROUND, NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.sheet import FONT_SIZE, text_width
from gpt2viz.run.stages import axis_sizes, formula, masking

#: Pixels: the width of the row of scores in most windows, and the margin beside the names of rows.
_ROW, _BESIDE = 470, 25
#: Pixels per row of Q, K or V, and at most for all rows.
_ROWS = 40, 170
#: The same if Q and K are also drawn before their rotation.
_LOW_ROWS = 20, 90
#: How many keys of the query's row are listed; the others' numbers are summed.
_KEYS = 5
#: A head copies if its induction score on repeated random tokens reaches this, and one of its
#: induction weights on the repeated sentence does too.
_COPIES = 0.5


def show() -> None:
    """Draw the page."""
    page_fragment.draw(pages.HEAD, _modes)


def _modes(view: View) -> None:
    """Pick a layer, a head and a mode, and draw it."""
    part = zoom.window(view)
    choices = st.container(key="head_controls", horizontal=True, vertical_alignment="center")
    with choices:
        mode = controls.mode(pages.HEAD)
        layer, head = controls.layer(view), controls.head(view)
    if mode == "weights":
        head_weights.draw(view, part, layer, head)
        return
    if mode == "why":
        with choices:
            edits = editing.pick()
        view = editing.apply(view, edits)
    with choices:
        strongest = strongest_key(view, layer, head, view.position)
        chosen = HeadCell(layer, head, view.position, controls.key_token(view, strongest))
    if mode == "why":
        why.draw(view, chosen)
    else:
        _draw_run(view, part, chosen, strongest, choices)


def _draw_run(
    view: View, part: Window, chosen: HeadCell, strongest: int, choices: DeltaGenerator
) -> None:
    """Draw every stage of the head's run, and one cell's computation written out."""
    layer, head = chosen.layer, chosen.head
    with choices:
        as_lines = lines.switch(part, named=True)
    _offer_repetition(view, layer, head)
    with st.container(key="stages"):
        drawn = _stages(view, part, chosen, as_lines)
        with st.container(key="sum"):
            arithmetic = cell_arithmetic(view.trace, *chosen)
            _sum(view, arithmetic, chosen.query, chosen.key, strongest)
            numbers = {
                "q·k, dimension by dimension": partial(tables.dot_product_table, arithmetic),
                "Softmax, key by key": partial(tables.softmax_table, arithmetic, view.labels),
                "The output, dimension by dimension": partial(tables.output_table, arithmetic),
            }
            with st.container(horizontal=True, vertical_alignment="center"):
                why.offer()
                output.tables_on_demand("Numbers as tables", numbers)
                of_head = chain.from_iterable(_rows(view.trace.graph))
                output.code(*(Line(view.trace, stage.key, layer) for stage in of_head), of=drawn)
                measures.proof(view, [layer])
                training.offer_birth(view, layer, head)


def strongest_key(view: View, layer: int, head: int, query: int) -> int:
    """Return the key with a query's largest weight, the first if several are equal."""
    return int(np.nan_to_num(view.trace.stage("weights", layer, head)[query]).argmax())


def _stages(view: View, part: Window, chosen: HeadCell, as_lines: bool) -> list[str]:
    """Draw every stage in the order of computation; return the pictures' names.

    Stages before the scores are in a column, the scores in a row with their tokens' names once,
    and below them the weights and the stages after them.
    """
    sources, scores, mixed = _rows(view.trace.graph)
    pairs = part.fit(who_sees_whom(view.trace, view.labels, title=""))
    draw = partial(_draw_stage, view, part, chosen, choose=_choose(pairs), drag=_drag(part, pairs))
    drawn = []
    with st.container(key="sources"):
        for stage in sources:
            with st.container():
                drawn.append(draw(stage, "↓", (True, stage == sources[-1]), None))
    with st.container(key="score_pairs"):
        row = st.columns(_equal_widths(view.labels, len(scores)), vertical_alignment="bottom")
        for stage, column in zip(scores, row, strict=True):
            with column:
                drawn.append(draw(stage, "→", (stage == scores[0], False), 150))
        row = st.columns([37 if stage.of_pairs else 23 for stage in mixed])
        for stage, column in zip(mixed, row, strict=True):
            arrow, lined = "↓" if stage == mixed[0] else "→", as_lines if stage.of_pairs else None
            with column:
                drawn.append(draw(stage, arrow, (True, True), 280, lined))
        _draw_legend(view, chosen.layer)
        if "q_unrotated" in view.trace.graph:
            _other_distances(view, chosen)
    return drawn


def _rows(graph: Mapping[str, Stage]) -> tuple[list[Stage], list[Stage], list[Stage]]:
    """Split a head's stages as the page lays them out: before its scores, its scores, after."""
    of_head = [stage for stage in graph.values() if stage.of_head]
    scores = [stage for stage in of_head if stage.quantity == "score"]
    first = of_head.index(scores[0])
    return of_head[:first], scores, [stage for stage in of_head[first:] if stage not in scores]


def _equal_widths(labels: Sequence[str], n: int) -> list[float]:
    """Return width shares that make n matrices equally large, with names left of the first."""
    names = 0.67 * text_width(Axis("query", labels).longest(), FONT_SIZE) + _BESIDE
    side = max(60.0, (_ROW - names) / n)
    return [names + side, *[side] * (n - 1)]


def _other_distances(view: View, chosen: HeadCell) -> None:
    """Draw the chosen cell's score if its query and key were at other distances."""
    here = chosen.query - chosen.key
    seen = view.model.config.window(chosen.layer) or view.model.config.n_positions
    distances = range(min(here, 0), max(here, min(FARTHEST, seen - 1)) + 1)
    prose.markdown("**If the two stood at another distance**: the same content, turned anew.")
    output.picture(
        distance_curve(
            f"Score of query {chosen.query} and key {chosen.key} at other distances, layer "
            f"{chosen.layer}, head {chosen.head}",
            distances,
            scores_at(view.model, view.trace, chosen, distances),
            here,
        ),
        key="distances",
        made_by=(scores_at,),
    )


def _draw_legend(view: View, layer: int) -> None:
    """Draw the colour scale, and explain the steps from picture to picture in a tip."""
    divisor, masked = view.trace.config.layer_divisor(layer), ", masked" * view.trace.causal
    by_layer = f" and {divisor}" if divisor > 1 else ""
    tip = labels.sentence("head.steps", layer=by_layer, masked=masked)
    shades = ", ".join(f"{color} {100 * stop:.0f}%" for stop, color in view.colors.signed)
    with st.container(key="signs", horizontal=True, vertical_alignment="center"):
        st.html(
            f'<span style="display: block; width: 7rem; height: .7rem; border-radius: .2rem; '
            f"border: 1px solid {view.colors.grid}; "
            f'background: linear-gradient(90deg, {shades})"></span>',
            width="content",
        )
        prose.caption(
            f"{LOWER.capitalize()}: negative; {UPPER}: positive. Each picture's range is above it.",
            width="content",
            help=prose.tip(tip),
        )


def _draw_stage(
    view: View,
    part: Window,
    chosen: HeadCell,
    stage: Stage,
    arrow: str,
    ends: tuple[bool, bool],
    height: int | None,
    as_lines: bool | None = None,
    **answers: Any,
) -> str:
    """Draw the ``part`` of a stage that is shown, and return the picture's name.

    Its tip gives the whole stage's shape, range and the line of the model that made it. The chosen
    query and key are framed. ``arrow`` points here from the stage's inputs, and ``ends`` says which
    axes have tokens' names. Without a ``height`` its rows decide. ``as_lines`` is None for a stage
    that can't be drawn as lines. ``answers`` are the callbacks of clicks and drags, as for
    ``output.picture``.
    """
    key, layer = stage.key, chosen.layer
    whole = stage_panel(view.trace, view.labels, key, layer, chosen.head, title="")
    panel = part.fit(whole)
    prose.markdown(
        _stage_title(view.trace, stage, layer, arrow) + _list_group(view.trace, stage, chosen.head),
        help=prose.tip(_stage_facts(view, whole, layer)),
    )
    rows = _ROWS if "q_unrotated" not in view.trace.graph else _LOW_ROWS
    alt = panel.label(f"{stage.label} of layer {layer}, head {chosen.head}")
    picture = Heatmaps(
        alt,
        [panel],
        scale=stage.scale,
        height=AROUND + (height or min(rows[0] * len(panel.values), rows[1])),
        grows=None if height else rows,
        row=chosen.key if stage.role in ("key", "value") else chosen.query,
        column=chosen.key if stage.of_pairs else None,
        numbers=NUMBERS_FIT_LARGE if stage.of_pairs else 0,
        legend=False,
        ends=ends,
        ranged=True,
    )
    name = f"stage_{key}"
    if as_lines is None:
        output.picture(picture, key=name, **answers)
    else:
        lined = [Lined(alt, [f"Head {chosen.head}"], lit=view.query is not None)]
        lines.draw(view, picture, lined, as_lines=as_lines, key=name, **answers)
    return alt


def _stage_title(trace: Trace, stage: Stage, layer: int, arrow: str) -> str:
    """Return the stage's name and, in the colours of Q, K and V, its formula."""
    made = formula(stage, trace.config, layer, masking(trace.causal, trace.forbidden is not None))
    if stage.role:
        return f":{stage.color}[**{stage.label}**] :small[:gray[{made}]]"
    made = re.sub("[QKV]", lambda letter: f":{STAGE[letter[0].lower()].color}[{letter[0]}]", made)
    between = "  \n" if stage.quantity == "score" else " "
    return f"{arrow} **{stage.label}**{between}:small[{made}]"


def _list_group(trace: Trace, stage: Stage, head: int) -> str:
    """List the other heads that share this one's keys or values, if any."""
    config, used = trace.config, {*trace.graph["scores"].reads, *trace.graph["head_output"].reads}
    if not stage.of_group or stage.key not in used:
        return ""
    others = sharing(config, head)
    heads = "heads" if len(others) > 1 else "head"
    named = ", ".join(map(str, others))
    return f"  \n:small[:gray[shared with {heads} {named}]]" if others else ""


def _stage_facts(view: View, panel: Panel, layer: int) -> str:
    values, key = panel.values, panel.name
    finite = values[np.isfinite(values)]
    span = (
        " to ".join(numeral(n, ".3g") for n in (finite.min(), finite.max()))
        if finite.size
        else "no finite number"
    )
    if panel.masked is not None and panel.masked.any():
        span += f"; {pluralize(int(panel.masked.sum()), 'cells')} masked"
    sizes = axis_sizes(view.trace.config, view.n_tokens)
    stage = view.trace.graph[key]
    axes = ", ".join(stage.axes)
    shape = ", ".join(str(sizes[axis]) for axis in stage.axes)
    this = f"{values.shape[0]} × {values.shape[1]}"
    record = view.trace.record(key, layer)
    made = f"`{record.code}`" if record else "`Attend`, from this run's q, k and v"
    return f"({axes}) = ({shape}), this head {this}  \n{span}  \n{made}"


def _choose(drawn: Panel) -> Callable[[Cell], None]:
    """Return a callback: a click on scores or weights chooses both tokens, on K or V the key."""
    rows, columns = drawn.rows, drawn.columns

    def clicked(cell: Cell) -> None:
        of_keys = STAGE[cell.panel].role in ("key", "value")
        with address.one_step():
            address.put(parameters.KEY if of_keys else parameters.QUERY, rows.position(cell.row))
            if STAGE[cell.panel].of_pairs:
                address.put(parameters.KEY, columns.position(cell.column))

    return clicked


def _drag(part: Window, drawn: Panel) -> Drag:
    """Return the drag that enlarges a part of the scores or weights, or rows of Q, K and V."""
    enlarge, every = part.drag(drawn).choose, (0, len(drawn.columns.labels) - 1)

    def dragged(what: Dragged) -> None:
        enlarge(what if STAGE[what.panel].of_pairs else what._replace(columns=every))

    return Drag(dragged, part.shown)


def _sum(view: View, cell: CellArithmetic, query: int, key: int, strongest: int) -> None:
    """Write out the computation of the cell of ``query`` and ``key`` (positions from 0).

    ``strongest`` is the key with the query's largest weight.
    """
    asks, answers = literal(view.labels[query]), literal(view.labels[key])
    prose.markdown(f"##### One cell in full: query {asks} ({query}), key {answers} ({key})")
    at_hardest = "This is the row's largest weight. " if key == strongest else ""
    prose.caption(f"{at_hardest}Click another cell of the scores or weights to work that one out.")
    parts = [
        *_score(view, cell, query, key),
        *_scale_and_mask(view, cell, later=view.trace.causal and key > query),
        *_softmax(view, cell, key),
        *_output(view, cell, query, key),
        note(labels.sentence("head.recomputed", apart=difference(cell.largest_difference))),
    ]
    written_sum.draw(parts, key="written_sum")


def _score(view: View, cell: CellArithmetic, query: int, key: int) -> list[Part]:
    colors, both = view.colors, peak(cell.query, cell.key)
    count = len(cell.products)
    return [
        *_unrotated_parts(view, cell, query, key),
        strip("q", view.labels[query], cell.query, both, colors, colors.query),
        strip("k", view.labels[key], cell.key, both, colors, colors.key),
        arrow("q × k in each dimension"),
        strip("q × k", "", cell.products, peak(cell.products), colors, colors.ink),
        arrow(f"the sum of {pluralize(count, 'products')}"),
        result("Raw score q·k", cell.score, cell.model_score),
    ]


def _unrotated_parts(view: View, cell: CellArithmetic, query: int, key: int) -> list[Part]:
    """Return q and k before their rotation, and its effect on their product; [] if not rotated."""
    if not cell.unrotated:
        return []
    (q, k), colors, both = cell.unrotated, view.colors, peak(*cell.unrotated)
    before, after = spell(float(q @ k)), spell(cell.score)
    return [
        strip("q", f"{view.labels[query]} before", q, both, colors, colors.query),
        strip("k", f"{view.labels[key]} before", k, both, colors, colors.key),
        arrow(labels.sentence("head.turned", query=query, key=key, before=before, after=after)),
    ]


def _scale_and_mask(view: View, cell: CellArithmetic, later: bool) -> list[Part]:
    hs = len(cell.products)
    layer = round(cell.divisor / math.sqrt(hs))
    divisor = f"√{hs}" + (f" · {layer}" if layer > 1 else "")
    mask = "the mask is off: the score stays"
    if cell.masked:
        why = "comes after the query" if later else "is outside the layer's window"
        mask = f"masked, as this key {why}: −∞"
    elif view.trace.causal:
        mask = "not masked: this key does not come after the query"
    return [
        arrow(f"÷ {divisor} = {spell(cell.divisor)}"),
        result("Scaled score", cell.scaled, cell.model_scaled),
        arrow(mask),
    ]


def _softmax(view: View, cell: CellArithmetic, key: int) -> list[Part]:
    best = largest(np.nan_to_num(cell.weights), _KEYS)
    listed = sorted({key, *map(int, best)})
    rows = [
        (
            [
                f"{n} {shorten(view.labels[n])}",
                *(spell(of[n]) for of in (cell.row, cell.exponentials, cell.weights)),
            ],
            float(cell.weights[n]),
        )
        for n in listed
    ]
    if others := len(cell.weights) - len(listed):
        e, weight = (float(np.delete(of, listed).sum()) for of in (cell.exponentials, cell.weights))
        rows.append(([pluralize(others, "others"), "", spell(e), spell(weight)], weight))
    total, part = cell.exponentials.sum(), cell.exponentials[key]
    return [
        table(
            ["key", "score x", "eˣ⁻ᵐᵃˣ", "weight", ""], rows, listed.index(key), view.colors.accent
        ),
        arrow(labels.sentence("head.softmax", part=spell(part), total=spell(total))),
        result("Attention weight", float(cell.weights[key]), cell.model_weight),
    ]


def _output(view: View, cell: CellArithmetic, query: int, key: int) -> list[Part]:
    colors, weight = view.colors, float(cell.weights[key])
    same = peak(cell.value, cell.output)
    return [
        arrow(labels.sentence("head.times", weight=spell(weight))),
        strip("v", view.labels[key], cell.value, same, colors, colors.value),
        strip("weight × v", "", cell.contribution, same, colors, colors.value),
        arrow("plus the same for every other key"),
        strip("output", view.labels[query], cell.output, same, colors, colors.ink),
    ]


def _offer_repetition(view: View, layer: int, head: int) -> None:
    """Offer to repeat the sentence if no token repeats and the head would copy then."""
    if duplicate_token(view.trace.token_ids).any():
        return
    probe = run_cache.probe(view.trace.key)
    if probe is None or run_cache.score_run(probe.key).scores["induction"][layer, head] < _COPIES:
        return
    if (repetition := repeat_sentence(view)) is None:
        return
    text, run = repetition
    copied = run.stage("weights", layer)[0, head] * induction(run.token_ids)
    query, key = divmod(int(copied.argmax()), len(run.token_ids))
    if not copied[query, key] >= _COPIES:  # or if it is NaN
        return
    same_head = {parameters.LAYER: layer, parameters.HEAD: head}
    copying = {parameters.QUERY: query, parameters.KEY: key}
    with st.container(key="copying", horizontal=True, vertical_alignment="center"):
        st.caption(
            labels.sentence(
                "why.repeated",
                head=f"{layer}.{head}",
                query=literal(run.labels[query]),
                key=literal(run.labels[key]),
                weight=copied[query, key],
            ),
            width="content",
        )
        st.button(
            "Repeat the sentence",
            icon=":material/repeat:",
            type="tertiary",
            on_click=address.put_all,
            args=({parameters.TEXT: text} | same_head | copying,),
        )


def repeat_sentence(view: View) -> tuple[str, Trace] | None:
    """Return the sentence repeated, and its run; None if it can't be encoded or is too long."""
    text: str = address.get(parameters.TEXT)
    twice = f"{text} {text}"
    try:
        ids = sentence.encode(view.model, twice)
    except TextError:
        return None
    if len(ids) > server_config.longest_text(view.model.config):
        return None
    return twice, run_cache.run(replace(view.trace.key, token_ids=ids))

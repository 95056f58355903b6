"""One stage of one head on a page: its picture, its shape, its range and the line that made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpt2viz import STAGE, Trace
from gpt2viz.analysis.steps import Step
from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.clicks import Cell, Drag, Dragged
from gpt2viz.app.components import matrix_or_lines
from gpt2viz.app.components.matrix_or_lines import Lined
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View, Window
from gpt2viz.labels import counted
from gpt2viz.pictures.from_trace import head_stage, who_sees_whom
from gpt2viz.pictures.measure import GRID
from gpt2viz.pictures.panel import Matrix, Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.pooling import pool_panel
from gpt2viz.run.stages import Stage, axis_sizes, formula, masking

#: The stages with a number for every query and key.
PAIRS = ("scores", "scaled_scores", "masked_scores", "weights")
#: Q, K and V have a colour of their own wherever they are named.
_COLOR = {"q": "blue", "k": "orange", "v": "green"}
#: Where a stage's numbers come from, as the page lays them out.
_FROM = dict.fromkeys((*PAIRS, "head_output"), "→") | {"weights": "↓"}
#: Scores stand in one row and have their tokens' names once, the weights below have them all.
_IN_A_ROW = ("scores", "scaled_scores", "masked_scores")
_ENDS = dict.fromkeys(("q", "k", "scores"), (True, False))
_ENDS |= dict.fromkeys(("scaled_scores", "masked_scores"), (False, False))
#: What a picture's height has besides its matrix.
_AROUND = 60
#: How many pixels of it a row of Q, K or V takes, and how many all of them do at most.
_ROWS = 40, 170


def draw_stage(
    view: View,
    part: Window,
    key: str,
    chosen: Step,
    as_lines: bool | None = None,
    **answers: Any,
) -> str:
    """Draw the ``part`` of a stage that is shown, and return what the picture is called.

    Its tip tells shape, range and the line of the model that made it, all of the whole stage.
    The chosen query and key are framed. Where it can be drawn ``as_lines`` too, that says whether
    it is. ``answers`` say what clicks and drags do, as for ``output.picture``.
    """
    stage, layer = STAGE[key], chosen.layer
    whole = head_stage(view.trace, view.labels, key, layer, chosen.head, title="")
    panel = part.fit(whole)
    prose.markdown(_title(view.trace, stage, layer), help=prose.tip(_facts(view, whole, layer)))
    alt = panel.named(f"{stage.label} of layer {layer}, head {chosen.head}")
    pairs = stage.axes[-1] == "T"
    picture = Heatmaps(
        alt,
        [panel],
        scale=stage.scale,
        height=_height(panel.values, key),
        grows=None if key in (*PAIRS, "head_output") else _ROWS,
        row=chosen.key if key in ("k", "v") else chosen.query,
        column=chosen.key if pairs else None,
        numbers=NUMBERS_FIT_LARGE if pairs else 0,
        legend=False,
        ends=_ENDS.get(key, (True, True)),
        ranged=True,
    )
    name = f"stage_{key}"
    if as_lines is None:
        output.picture(picture, view.colors, key=name, **answers)
    else:
        lined = [Lined(alt, [f"Head {chosen.head}"], lit=view.query is not None)]
        matrix_or_lines.draw(view, picture, lined, as_lines=as_lines, key=name, **answers)
    return alt


def draw_weights(
    view: View,
    layer: int,
    head: int,
    *,
    key: str,
    as_lines: bool | None = None,
    height: int,
    numbers: int = 0,
    column: int | None = None,
) -> None:
    """Draw the attention weights of one head over the whole text, as a matrix or as lines.

    Always as a matrix where ``as_lines`` is None. ``numbers`` are written into it where it has no
    more columns; one ``column`` of it can be framed beside the chosen token's row.
    """
    title = f"Layer {layer} · Head {head}"
    panel = head_stage(view.trace, view.labels, "weights", layer, head, title)
    alt = f"Attention weights of layer {layer}, head {head}"
    made_by = (Line(view.trace, "weights", layer),)
    panels = [pool_panel(panel, GRID)]
    picture = Heatmaps(alt, panels, height=height, row=view.query, column=column, numbers=numbers)
    if as_lines is None:
        output.picture(picture, view.colors, key=key, made_by=made_by)
    else:
        lined = [Lined(alt, [title])]
        matrix_or_lines.draw(view, picture, lined, as_lines=as_lines, key=key, made_by=made_by)


def _title(trace: Trace, stage: Stage, layer: int) -> str:
    """The name and, in the colours of Q, K and V, how the run computed it."""
    if stage.key == "masked_scores":
        made = masking(trace.causal, trace.forbidden is not None)
    else:
        made = formula(stage, trace.config, layer)
    if stage.key in _COLOR:
        return f":{_COLOR[stage.key]}[**{stage.label}**] :small[:gray[{made}]]"
    for key, color in _COLOR.items():
        made = made.replace(key.upper(), f":{color}[{key.upper()}]")
    between = "  \n" if stage.key in _IN_A_ROW else " "
    return f"{_FROM[stage.key]} **{stage.label}**{between}:small[{made}]"


def _height(values: Matrix, key: str) -> int:
    tallest = 280 if key in ("weights", "head_output") else 150
    if key in (*PAIRS, "head_output"):
        return _AROUND + tallest
    return _AROUND + min(_ROWS[0] * len(values), _ROWS[1])


def _facts(view: View, panel: Panel, layer: int) -> str:
    values, key = panel.values, panel.name
    finite = values[np.isfinite(values)]
    span = f"{finite.min():.3g} to {finite.max():.3g}" if finite.size else "no finite number"
    if panel.masked is not None and panel.masked.any():
        span += f"; {counted(int(panel.masked.sum()), 'cells')} masked"
    sizes = axis_sizes(view.trace.config, view.n_tokens)
    axes = ", ".join(STAGE[key].axes)
    shape = ", ".join(str(sizes[axis]) for axis in STAGE[key].axes)
    this = f"{values.shape[0]} × {values.shape[1]}"
    record = view.trace.record(key, layer)
    made = f"`{record.code}`" if record else "`Attend`, from this run's q, k and v"
    return f"({axes}) = ({shape}), this head {this}  \n{span}  \n{made}"


def answers(view: View, part: Window) -> dict[str, Any]:
    """What clicks and drags do on every stage of a head."""
    pairs = part.fit(who_sees_whom(view.trace, view.labels, title=""))
    return {"choose": _choose(pairs), "drag": _drag(part, pairs)}


def _choose(drawn: Panel) -> Callable[[Cell], None]:
    """A click on a score or weight chooses its query and key; on K or V a key, else a query."""
    rows, columns = drawn.rows, drawn.columns

    def clicked(cell: Cell) -> None:
        if cell.panel in ("k", "v"):
            address.put(parameters.KEY, rows.position(cell.row))
            return
        address.put(parameters.QUERY, rows.position(cell.row))
        if cell.panel in PAIRS:
            address.put(parameters.KEY, columns.position(cell.column))

    return clicked


def _drag(part: Window, drawn: Panel) -> Drag:
    """A part of the scores or weights is shown larger, or of Q, K and V the chosen rows."""
    enlarge, every = part.drag(drawn), (0, len(drawn.columns.labels) - 1)

    def dragged(what: Dragged) -> None:
        enlarge(what if what.panel in PAIRS else what._replace(columns=every))

    return Drag(dragged, part.shown)


def mask_in_words(seen: Panel, query: int) -> str:
    """Which tokens a query may see and which it may not, as Markdown; ``seen`` is 1 for yes."""
    names = [f"`{n}` {literal(text)}" for n, text in enumerate(seen.columns.labels)]
    allowed = seen.values[query] > 0
    others = [name for n, name in enumerate(names) if allowed[n] and n != query]
    hidden = [name for n, name in enumerate(names) if not allowed[n]]
    whom = ["itself"] * bool(allowed[query]) + ([_list(others)] if others else [])
    open_ = f"{'' if others else 'only '}{' and '.join(whom)}"
    closed = f" It can't see {_list(hidden)}." if hidden else " Nothing is hidden from it."
    return f"With the mask on, {names[query]} can see {open_}.{closed}"


def _list(names: list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

"""One stage of one head on a page: its picture, its shape, its range and the line that made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpt2viz import STAGE, Trace
from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.clicks import Cell, Dragged
from gpt2viz.app.components import lines
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.views.zoom import Window
from gpt2viz.labels import counted
from gpt2viz.pictures.from_trace import head_stage, who_sees_whom
from gpt2viz.pictures.measure import GRID
from gpt2viz.pictures.panel import Matrix, Panel
from gpt2viz.pictures.picture import NUMBERS_FIT, Heatmaps
from gpt2viz.pictures.pooling import pool_panel
from gpt2viz.run.stages import Stage, axis_sizes, formula, masking

#: Q, K and V have a colour of their own wherever they are named.
_DOT = {"q": "blue", "k": "orange", "v": "green"}
#: The stages with a number for every query and key.
PAIRS = ("scores", "scaled_scores", "masked_scores", "weights")


def draw_stage(
    view: View,
    part: Window,
    key: str,
    layer: int,
    head: int,
    column: int | None = None,
    as_lines: bool = False,
    **answers: Any,
) -> None:
    """Draw the ``part`` of a stage that is shown, with a caption about the whole.

    ``column`` frames a chosen key on the (T, T) stages. ``answers`` say what clicks and drags do,
    as for ``output.picture``.
    """
    stage = STAGE[key]
    whole = head_stage(view.trace, view.labels, key, layer, head, title="")
    panel = part.fit(whole)
    pairs = stage.axes[-1] == "T"
    title = f":{_DOT[key]}[**{stage.label}**]" if key in _DOT else f"**{stage.label}**"
    prose.markdown(f"{title} :small[:gray[{_made_of(view.trace, stage, layer)}]]")
    alt = panel.named(f"{stage.label} of layer {layer}, head {head}")
    if as_lines:
        lines.draw(view, [panel], [f"Head {head}"], key=f"lines_{key}", alt=alt)
    else:
        output.picture(
            Heatmaps(
                alt,
                [panel],
                scale=stage.scale,
                height=_height(panel.values, pairs),
                row=view.query,
                column=column if pairs else None,
                numbers=NUMBERS_FIT if pairs else 0,
                legend=False,
            ),
            view.colors,
            key=f"stage_{key}",
            **answers,
        )
    prose.caption(_caption(view, whole, layer))
    output.code(Line(view.trace, key, layer), of=[alt])


def draw_weights(
    view: View, layer: int, head: int, *, key: str, as_lines: bool, height: int, numbers: int = 0
) -> None:
    """Draw the attention weights of one head over the whole text, as a matrix or as lines.

    ``numbers`` are written into the matrix where it has no more columns.
    """
    title = f"Layer {layer} · Head {head}"
    panel = head_stage(view.trace, view.labels, "weights", layer, head, title)
    alt = f"Attention weights of layer {layer}, head {head}"
    made_by = (Line(view.trace, "weights", layer),)
    if as_lines:
        prose.markdown(f":small[{title}]")
        lines.draw(view, [panel], [title], key=f"{key}_lines", alt=alt, made_by=made_by)
    else:
        panels = [pool_panel(panel, GRID)]
        picture = Heatmaps(alt, panels, height=height, row=view.query, numbers=numbers)
        output.picture(picture, view.colors, key=key, made_by=made_by)


def _made_of(trace: Trace, stage: Stage, layer: int) -> str:
    """How the run computed the stage."""
    if stage.key == "masked_scores":
        return masking(trace.causal, trace.forbidden is not None)
    return formula(stage, trace.config, layer)


def _height(values: Matrix, pairs: bool) -> int:
    n_rows = values.shape[0]
    return 300 if pairs else int(np.clip(90 + 24 * n_rows, 150, 420))


def _caption(view: View, panel: Panel, layer: int) -> str:
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
    """A click on a score or weight chooses its query and key; on Q, K or V, the token."""
    rows, columns = drawn.rows, drawn.columns

    def clicked(cell: Cell) -> None:
        address.put(parameters.QUERY, rows.position(cell.row))
        if cell.panel in PAIRS:
            address.put(parameters.KEY, columns.position(cell.column))

    return clicked


def _drag(part: Window, drawn: Panel) -> Callable[[Dragged], None]:
    """A part of the scores or weights is shown larger, or of Q, K and V the chosen rows."""
    enlarge, every = part.drag(drawn), (0, len(drawn.columns.labels) - 1)

    def dragged(what: Dragged) -> None:
        enlarge(what if what.panel in PAIRS else what._replace(columns=every))

    return dragged


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

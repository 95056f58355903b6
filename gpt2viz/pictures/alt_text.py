"""Describe a picture in a sentence or two, from the numbers it draws: for screen readers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpt2viz.labels import bidi_isolate, pluralize
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Picture, Series

#: Up to this many matrices or curves are described one by one; of more, only the extremes.
FEW = 4


def alt_text(picture: Picture) -> str:
    """Describe a picture's extremes in plain text; "" if it draws no numbers.

    For matrices: the largest number and its cell, and the smallest if it is below 0; rows with
    a single number, such as a first token's weight of 1, count only if there are no others. For
    bars and edges the highest, for curves the first and the last point, for points the outermost.
    """
    bars = [(bar.name, bar.x, bar.y) for bar in picture.series if bar.kind == "bar"]
    if len(bars) > FEW:
        bars = [("", [n for _, x, _ in bars for n in x], [n for _, _, y in bars for n in y])]
    points = [point for point in picture.series if point.kind == "point"]
    curves = [curve for curve in picture.series if curve.kind == "curve"]
    sentences = [_matrices(picture.matrices), *(_sentence(_bars(*bar)) for bar in bars)]
    edges = [edge for edge in picture.series if edge.kind == "edge"]
    sentences += [_sentence(_bars(edge.name, edge.x, edge.y, "edges")) for edge in edges]
    sentences += [_scatter(points)] if points else []
    if len(curves) > FEW:
        return " ".join(filter(None, [*sentences, f"{len(curves)} curves."]))
    sentences += [_sentence(_curve(curve.name, curve.x, curve.y)) for curve in curves]
    return " ".join(filter(None, sentences))


def _matrices(panels: Sequence[Panel]) -> str:
    """Describe the extremes of matrices."""
    if len(panels) > FEW:
        peaks = [np.nanmax(_free(panel.values), initial=-np.inf) for panel in panels]
        best = panels[int(np.argmax(peaks))]
        return f"{len(panels)} matrices; of all of them {_extremes(best, named=True)}."
    return " ".join(_sentence(_extremes(panel, named=len(panels) > 1)) for panel in panels)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _free(values: np.ndarray) -> np.ndarray:
    """Keep the finite numbers of rows that have more than one, else of all; NaN elsewhere.

    A 0 doesn't count: with the mask on, the first row has one weight, always 1.
    """
    finite = np.where(np.isfinite(values), values, np.nan)
    several = np.nan_to_num(finite).astype(bool).sum(axis=1) > 1
    return np.where(several[:, None], finite, np.nan) if several.any() else finite


def _extremes(panel: Panel, named: bool) -> str:
    over = f"{panel.whole_title}: " if named and panel.whole_title else ""
    values = _free(panel.values)
    if np.isnan(values).all():
        return f"{over}no finite number"
    if not np.nanmax(np.abs(values)):
        return f"{over}all are 0"
    size = " × ".join(map(str, values.shape))
    text = f"{over}{size}, largest {_value_at(panel, int(np.nanargmax(values)))}"
    if np.nanmin(values) < 0:
        text += f", smallest {_value_at(panel, int(np.nanargmin(values)))}"
    return text


def _value_at(panel: Panel, index: int) -> str:
    row, column = divmod(index, panel.values.shape[1])
    ends = (panel.rows, row), (panel.columns, column)
    return f"{panel.values[row, column]:.3g} at {', '.join(_end(*end) for end in ends)}"


def _end(axis: Axis, n: int) -> str:
    name = axis.plain_names()[n]
    return bidi_isolate(name if name.startswith(axis.title) else f"{axis.title} {name}")


def _points(x: Sequence[object], y: Sequence[object]) -> list[tuple[float, str]]:
    """(number, name) of each point with a finite number: bars and curves may run down the page as
    well as across."""
    points = [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
    across = any(isinstance(b, str) for _, b in points)
    turned = ((float(str(a)), b) if across else (float(str(b)), a) for a, b in points)
    return [(number, _number(where)) for number, where in turned if np.isfinite(number)]


def _bars(name: str, x: Sequence[object], y: Sequence[object], called: str = "bars") -> str:
    points = _points(x, y)
    if not points:
        return ""
    size, where = max(points)
    return f"{_label(name)}{pluralize(len(points), called)}, highest {_number(size)} at {where}"


def _curve(name: str, x: Sequence[object], y: Sequence[object]) -> str:
    points = _points(x, y)
    if not points:
        return ""
    (first, start), (last, end) = points[0], points[-1]
    return f"{_label(name)}from {_number(first)} at {start} to {_number(last)} at {end}"


def _scatter(points: Sequence[Series]) -> str:
    """Describe the points at the ends of each axis, by name."""
    ends = []
    for axis, side in (("across", "x"), ("up", "y")):
        values = [(float(getattr(point, side)[0]), bidi_isolate(point.name)) for point in points]
        (least, first), (most, last) = min(values), max(values)
        ends.append(f"{axis} from {_number(least)} ({first}) to {_number(most)} ({last})")
    return f"{pluralize(len(points), 'points')}, {', '.join(ends)}."


def _label(name: str) -> str:
    return f"{name}: " if name else ""


def _number(value: object) -> str:
    if isinstance(value, str):
        return bidi_isolate(value)
    number = float(str(value))
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"

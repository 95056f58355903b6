"""A picture in a sentence or two, from the numbers that it draws: for those who can't see it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpt2viz.labels import bidi_isolate, pluralize
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Picture, Series

#: Of so many matrices or curves each is described; of more, only what stands out.
FEW = 4


def alt_text(picture: Picture) -> str:
    """What stands out in a picture's numbers, as plain text; "" where it draws none.

    Of matrices: the largest number and where it is, and the smallest where it is below 0; of rows
    with one number left, such as a first token's weight of 1, only where there are no others. Of
    bars and edges the highest, of curves the first and the last point, of points the outermost.
    """
    bars = [(one.name, one.x, one.y) for one in picture.series if one.kind == "bar"]
    if len(bars) > FEW:
        bars = [("", [x for one in bars for x in one[1]], [y for one in bars for y in one[2]])]
    points = [one for one in picture.series if one.kind == "point"]
    curves = [(one.name, one.x, one.y) for one in picture.series if one.kind == "curve"]
    said = [_stand_out(picture.matrices), *(_sentence(_bars(*one)) for one in bars)]
    edges = [one for one in picture.series if one.kind == "edge"]
    said += [_sentence(_bars(one.name, one.x, one.y, "edges")) for one in edges]
    said += [_scattered(points)] if points else []
    if len(curves) > FEW:
        return " ".join(filter(None, [*said, f"{len(curves)} curves."]))
    return " ".join(filter(None, [*said, *(_sentence(_curve(*one)) for one in curves)]))


def _stand_out(found: Sequence[Panel]) -> str:
    """What stands out in matrices, as plain text."""
    if len(found) > FEW:
        peaks = [np.nanmax(_free(one.values), initial=-np.inf) for one in found]
        best = found[int(np.argmax(peaks))]
        return f"{len(found)} matrices; of all of them {_extremes(best, named=True)}."
    return " ".join(_sentence(_extremes(one, named=len(found) > 1)) for one in found)


def _sentence(said: str) -> str:
    return f"{said[0].upper()}{said[1:]}." if said else ""


def _free(values: np.ndarray) -> np.ndarray:
    """The finite numbers of the rows that have more than one, else of all; NaN elsewhere.

    A 0 is none here: where the mask is on, the first row has one weight, always 1.
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
    said = f"{over}{_size(panel)}, largest {_at(panel, int(np.nanargmax(values)))}"
    if np.nanmin(values) < 0:
        said += f", smallest {_at(panel, int(np.nanargmin(values)))}"
    return said


def _size(panel: Panel) -> str:
    return " × ".join(map(str, panel.values.shape))


def _at(panel: Panel, place: int) -> str:
    row, column = divmod(place, panel.values.shape[1])
    ends = (panel.rows, row), (panel.columns, column)
    return f"{panel.values[row, column]:.3g} at {', '.join(_end(*end) for end in ends)}"


def _end(axis: Axis, n: int) -> str:
    name = axis.plain_names()[n]
    return bidi_isolate(name if name.startswith(axis.title) else f"{axis.title} {name}")


def _points(x: Sequence[object], y: Sequence[object]) -> list[tuple[float, str]]:
    """(number, where) of each point: bars and curves may run down the page as well as across."""
    points = [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
    across = any(isinstance(b, str) for _, b in points)
    turned = [(a, b) if across else (b, a) for a, b in points]
    return [(float(str(number)), _number(where)) for number, where in turned]


def _bars(name: str, x: Sequence[object], y: Sequence[object], called: str = "bars") -> str:
    points = [point for point in _points(x, y) if np.isfinite(point[0])]
    if not points:
        return ""
    size, place = max(points)
    return f"{_named(name)}{pluralize(len(points), called)}, highest {_number(size)} at {place}"


def _curve(name: str, x: Sequence[object], y: Sequence[object]) -> str:
    points = _points(x, y)
    if not points:
        return ""
    (first, start), (last, end) = points[0], points[-1]
    return f"{_named(name)}from {_number(first)} at {start} to {_number(last)} at {end}"


def _scattered(points: Sequence[Series]) -> str:
    """The points at the ends of each axis, by name."""
    ends = []
    for axis, side in (("across", "x"), ("up", "y")):
        found = [(float(getattr(one, side)[0]), bidi_isolate(one.name)) for one in points]
        (least, first), (most, last) = min(found), max(found)
        ends.append(f"{axis} from {_number(least)} ({first}) to {_number(most)} ({last})")
    return f"{pluralize(len(points), 'points')}, {', '.join(ends)}."


def _named(name: str) -> str:
    return f"{name}: " if name else ""


def _number(value: object) -> str:
    if isinstance(value, str):
        return bidi_isolate(value)
    number = float(str(value))
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"

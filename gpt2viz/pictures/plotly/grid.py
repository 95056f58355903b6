"""Where pictures stand that are drawn side by side, the room of their names, and their scale."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gpt2viz.labels import markup_safe
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.run.stages import Scale

#: A legend in one line over the picture, from its left edge.
LEGEND_ABOVE = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}

#: What a character takes at the size of the axes' names, in pixels; a wide one's twice.
_CHARACTER = 6.3
#: A title of an axis, with the gap to the names.
_TITLE = 26
#: A colour bar with its numbers and title.
_BAR = 86
#: A short label at the right end of the lower axis may lean out that far.
_LEANS_OUT = 14


class Place(NamedTuple):
    """Where one of several pictures stands: shares of the width and the height, from below."""

    x: tuple[float, float]
    y: tuple[float, float]
    first: bool  # in its row
    last: bool  # in its column


def places(n_panels: int, n_columns: int, titles: float = 0) -> list[Place]:
    """Places row by row, from the top left; ``titles`` are a share of the height, between rows."""
    n_rows = -(-n_panels // n_columns)
    between, below = 0.16 / n_columns, max(titles, min(0.13, 0.26 / n_rows))
    width, height = (1 - between * (n_columns - 1)) / n_columns, (1 - below * (n_rows - 1)) / n_rows
    found = []
    for n in range(n_panels):
        row, column = divmod(n, n_columns)
        left, top = column * (width + between), 1 - row * (height + below)
        found.append(
            Place(
                (left, min(1.0, left + width)),
                (max(0.0, top - height), top),
                first=column == 0,
                last=n + n_columns >= n_panels,
            )
        )
    return found


def title(panel: Panel, place: Place) -> dict[str, Any]:
    """A matrix's title, over the middle of its place, with the part that is shown below it."""
    part = "" if panel.part is None else str(panel.part)
    return heading("\n".join(filter(None, [panel.title, part])), place)


def heading(text: str, place: Place) -> dict[str, Any]:
    """Plain text over the middle of a place."""
    return {
        "text": markup(text),
        "font": {"size": 13},
        "showarrow": False,
        "x": sum(place.x) / 2,
        "xref": "paper",
        "xanchor": "center",
        "y": place.y[1],
        "yref": "paper",
        "yanchor": "bottom",
    }


def markup(text: str) -> str:
    """Plain text for Plotly, whose lines end with a tag."""
    return markup_safe(text).replace("\n", "<br>")


def margins(panels: Sequence[Panel], *, legend: bool, bar: bool) -> dict[str, Any]:
    """Room round the pictures, from the longest names.

    Plotly can find out itself (``automargin``), but then draws everything twice: 0.16 s instead
    of 0.04 s for twelve heads.
    """
    return {
        "l": _longest(panel.rows for panel in panels) + _TITLE,
        "r": _BAR if bar else _LEANS_OUT,
        "t": 8 + 24 * legend + title_room(panels),
        "b": _longest(panel.columns for panel in panels) + _TITLE,  # names may stand upright
        "pad": 0,
        "autoexpand": False,
    }


def title_room(panels: Sequence[Panel]) -> int:
    """Pixels above matrices for their titles."""
    return max(20 * len(p.title.splitlines()) + 2 + 16 * bool(p.part) for p in panels)


def _longest(axes: Iterable[Axis]) -> int:
    return int(max(pixels(axis.longest()) for axis in axes))


def pixels(name: str) -> float:
    """About how wide a name is at an axis."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in name)
    return _CHARACTER * (len(name) + wide)


def color_axis(
    scale: Scale, low: float, high: float, title: str, colors: Palette
) -> dict[str, object]:
    """Plotly's colour axis over ``low`` … ``high``; an empty ``title`` leaves its bar out."""
    values = [low, (low + high) / 2, high]
    return {
        "cmin": low,
        "cmax": high,
        "colorscale": colors.signed if scale == "signed" else colors.unit,
        "showscale": bool(title),
        "colorbar": {
            "title": {"text": title, "side": "right", "font": {"size": 13}},
            "tickfont": {"size": 12},
            "thickness": 10,
            "len": 200,
            "lenmode": "pixels",
            "y": 1,
            "yanchor": "top",
            "tickvals": values,
            "ticktext": [f"{value:.3g}" for value in values],
            "outlinewidth": 0,
            "x": 1,  # in pixels from there: a share of a wide picture would leave the margin
            "xpad": 16,
        },
    }

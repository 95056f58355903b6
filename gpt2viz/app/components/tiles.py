"""Matrices on a canvas: a layer's heads at a glance, one head large, a map of all heads.

Plotly takes ten times as long to draw twelve matrices. ``pictures.canvas`` says what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from gpt2viz.app import clicks
from gpt2viz.app.clicks import Cell, Drag, Dragged
from gpt2viz.app.components import NUMBERS, Answers, mount
from gpt2viz.pictures.canvas import Matrices, encode, header
from gpt2viz.pictures.every_head import as_heatmaps
from gpt2viz.pictures.palette import Palette
from gpt2viz.run.key import RunKey

_KEYS = f"{NUMBERS} Arrow keys go from cell to cell, Page Up and Page Down from matrix to matrix"
_CHOOSES, _ASKS = "Enter chooses", "Shift and Enter ask why the head looks there"


def draw(
    picture: Matrices,
    alt_text: str,
    colors: Palette,
    *,
    key: str,
    choose: Callable[[Cell], None] | None = None,
    drag: Drag | None = None,
    then: Callable[[Cell], None] | None = None,
    of_page: RunKey | None = None,
    script: str = "tiles",
    further: Mapping[str, Any] = MappingProxyType({}),
    on: Answers = MappingProxyType({}),
) -> None:
    """Draw matrices; screen readers announce ``alt_text``.

    Before the page reruns, ``choose`` is called with a clicked cell, and ``drag`` with a dragged
    part; ``then`` with a clicked cell during the rerun. A cell of a head links to *Why there?* if
    an address leads there from ``of_page``, the run of the address. A different ``script`` may draw
    them: it gets the data ``further``, and ``on`` handles its own messages.
    """
    panels, chooses = as_heatmaps(picture).panels, bool(choose or then)
    links = [clicks.explain_link(panel, of_page) for panel in panels]
    keys = [_KEYS] + [_CHOOSES] * chooses + [_ASKS] * any(links)
    data = header(picture, colors, drag.shown if drag else None) | {
        "script": script,
        "alt": f"{alt_text} {', '.join(keys)}.",
        "chooses": chooses,
        "drags": bool(drag),
        "asks": [link is not None for link in links],
        **further,
    }
    on = {
        "cell": choose and (lambda sent: choose(Cell.sent(sent))),
        "part": (lambda sent: drag.choose(Dragged.sent(sent))) if drag else None,
        "ask": None,
        **on,
    }
    clicked = mount(encode(data, panels), key=key, on=on)
    if then and clicked.cell:
        then(Cell.sent(clicked.cell))
    if clicked.ask and (link := links[n := int(clicked.ask["panel"])]):
        clicks.explain(panels[n], link, Cell.sent(clicked.ask))

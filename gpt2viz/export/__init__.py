"""Files to take along: pictures, tables, traces and pages that say what they show.

trace = gpt2viz.trace(gpt2viz.load_model(), "A crane ate fish")
export.save_trace(trace, "crane.npz")  # gpt2viz.load_trace reads it
export.save_figure(trace.heatmap(1, 0), "crane.svg", export.about(trace, "weights", 1, 0))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpt2viz.export.about import About, about, about_runs, file_name
from gpt2viz.export.arrays import save_trace, trace_bytes
from gpt2viz.export.chromium import can_draw
from gpt2viz.export.kinds import PICTURE_KINDS, TABLE_KINDS, TRACE_KINDS, TraceKind
from gpt2viz.export.sheets import figure_table, save_table, table_bytes
from gpt2viz.export.sized import PLOTLY_DPI, pixels
from gpt2viz.export.spoken import spoken
from gpt2viz.extras import later
from gpt2viz.run.session import Session, read_session

if TYPE_CHECKING:
    from gpt2viz.export.card import Card, draw_card
    from gpt2viz.export.page import page_html, save_page
    from gpt2viz.export.paper import on_paper
    from gpt2viz.export.pictures import DPI, figure_bytes, save_figure

# What needs Plotly, and the module that it comes from when it is first asked for.
_LATER = {
    "Card": "card",
    "DPI": "pictures",
    "draw_card": "card",
    "figure_bytes": "pictures",
    "on_paper": "paper",
    "page_html": "page",
    "save_figure": "pictures",
    "save_page": "page",
}

__all__ = [
    "DPI",
    "PICTURE_KINDS",
    "PLOTLY_DPI",
    "TABLE_KINDS",
    "TRACE_KINDS",
    "About",
    "Card",
    "Session",
    "TraceKind",
    "about",
    "about_runs",
    "can_draw",
    "draw_card",
    "figure_bytes",
    "figure_table",
    "file_name",
    "on_paper",
    "page_html",
    "pixels",
    "read_session",
    "save_figure",
    "save_page",
    "save_table",
    "save_trace",
    "spoken",
    "table_bytes",
    "trace_bytes",
]

__getattr__, __dir__ = later(
    __name__, _LATER, __all__, {**dict.fromkeys(_LATER, "notebook"), "figure_bytes": "export"}
)

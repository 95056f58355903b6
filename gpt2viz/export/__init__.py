"""Files of pictures, tables, traces and pages, each with its origin.

trace = gpt2viz.trace(gpt2viz.load_model(), "A crane ate fish")
export.save_trace(trace, "crane.npz")  # gpt2viz.load_trace reads it
export.save_figure(trace.heatmap(1, 0), "crane.svg", export.about(trace, "weights", 1, 0))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpt2viz.export.about import About, about, about_runs, file_name
from gpt2viz.export.card import Card, draw_card
from gpt2viz.export.numbers import (
    PICTURE_KINDS,
    TABLE_KINDS,
    TRACE_KINDS,
    TraceKind,
    figure_table,
    save_table,
    save_trace,
    table_bytes,
    trace_bytes,
)
from gpt2viz.export.pictures import (
    DPI,
    PLOTLY_DPI,
    figure_bytes,
    pixels,
    prints,
    save_figure,
    sheet_of,
)
from gpt2viz.extras import lazy_names
from gpt2viz.pictures.alt_text import alt_text
from gpt2viz.run.session import Session, read_session

if TYPE_CHECKING:
    from gpt2viz.export.page import page_html, save_page

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
    "alt_text",
    "draw_card",
    "figure_bytes",
    "figure_table",
    "file_name",
    "page_html",
    "pixels",
    "prints",
    "read_session",
    "save_figure",
    "save_page",
    "save_table",
    "save_trace",
    "sheet_of",
    "table_bytes",
    "trace_bytes",
]

# What needs Plotly is loaded on first use.
__getattr__, __dir__ = lazy_names(
    __name__, {"page": ("page_html", "save_page")}, __all__, extra="notebook"
)

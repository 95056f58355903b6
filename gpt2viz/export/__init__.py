"""Files to take along: pictures, tables, traces and pages that say what they show.

trace = gpt2viz.trace(gpt2viz.load_model(), "A crane ate fish")
export.save_trace(trace, "crane.npz")  # gpt2viz.load_trace reads it
export.save_figure(trace.heatmap(1, 0), "crane.svg", export.about(trace, "weights", 1, 0))
"""

from gpt2viz.extras import needed

with needed("gpt2viz.export", "export"):
    from gpt2viz.export.about import About, about, about_runs, file_name
    from gpt2viz.export.arrays import TRACE_KINDS, TraceKind, save_trace, trace_bytes
    from gpt2viz.export.card import Card, draw_card
    from gpt2viz.export.page import page_html, save_page
    from gpt2viz.export.paper import on_paper
    from gpt2viz.export.pictures import DPI, PICTURE_KINDS, can_draw, figure_bytes, save_figure
    from gpt2viz.export.sheets import TABLE_KINDS, figure_table, save_table, table_bytes
    from gpt2viz.export.sized import PLOTLY_DPI, pixels
    from gpt2viz.export.spoken import spoken
    from gpt2viz.run.session import Session, read_session

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

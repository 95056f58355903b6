"""Shapes: every tensor of this run, in the order in which the model made it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from gpt2viz import export
from gpt2viz.app import address, output, pages, parameters, prose
from gpt2viz.app.frame import page
from gpt2viz.app.views import measures
from gpt2viz.labels import sentence
from gpt2viz.model.memory import spell
from gpt2viz.pictures import tables


def show() -> None:
    """Draw the page."""
    view = page.open_page(pages.SHAPES, choosing="")
    sizes = tables.axis_table(view.trace)
    table = tables.shape_table(view.trace)

    graph = view.trace.graph
    a_layer = graph["ln_1"].path(0).rpartition(".")[0]
    shared = "the stream starts as the tokens' vectors"
    if "qkv" in graph:
        shared = "Q, K and V are slices of `qkv`; dropout is off"
    size = spell(table["bytes"][~table["shared"]].sum())
    counts = {"tensors": len(table), "parameters": table["parameters"].sum()}
    note = measures.reused_note(view.trace, " The table describes a full run.")
    prose.markdown(sentence("shapes.recorded", **counts, size=size, shared=shared) + note)
    legend, search, download = st.columns([5, 3, 1], vertical_alignment="bottom")
    prose.markdown(" · ".join(f"**{axis}** {size}" for axis, size in sizes), slot=legend)
    typed = search.text_input(
        "Filter",
        placeholder=f"such as weights, {a_layer}, Linear or (B, nh, T, T)",
        help="Shows the rows that contain this text in any column.",
        **address.text(parameters.FILTER),
    )
    shown = tables.filter_rows(table, typed)
    if shown.empty:
        st.info("No row contains that text. Try a shorter one.")
        return
    # Without the checksum of the weights, which is slow to compute; Save includes it.
    about = export.About("shapes", view.model.name, text=view.trace.text, causal=view.trace.causal)
    made, name = export.table_bytes(shown, "csv", about), export.file_name(about, "csv")
    output.file_button("CSV", made, name, download)
    output.table(
        shown,
        "Every tensor of the run",
        tallest=600,
        placeholder="",
        column_config=_columns(20 + 13 * max(map(len, table["tensor"])) // 2),
    )


def _columns(width: int) -> dict[str, Any]:
    """Return the tips and formats of the columns; ``width`` is that of the tensors', in pixels."""
    return {
        "step": st.column_config.NumberColumn(help="The order in which the run made them"),
        "layer": st.column_config.NumberColumn(help="Counted from 0; empty outside the layers"),
        "tensor": st.column_config.TextColumn(width=width, help="The module that made it"),
        "key": st.column_config.TextColumn(width=145, help="Its name in trace.stage(…)"),
        "axes": st.column_config.TextColumn(help="The letters stand above the table"),
        "shape": st.column_config.TextColumn(help="Its sizes in this run"),
        "bytes": st.column_config.NumberColumn(format="localized"),
        "shared": st.column_config.CheckboxColumn(
            help="A view of the tensor above, without memory of its own"
        ),
        "parameters": st.column_config.NumberColumn(
            format="localized",
            help="Of the module that made it; a tied matrix is counted once",
        ),
        "file": st.column_config.TextColumn(help="Source file, in gpt2viz/model"),
        "line": st.column_config.NumberColumn(help="The line that made it"),
        "code": st.column_config.TextColumn(width="large"),
        "TransformerLens": st.column_config.TextColumn(
            width="medium", help="Its name there; trace.stage(…) takes it too"
        ),
    }

"""Shapes: every tensor of this run, in the order in which the model made it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from gpt2viz import export
from gpt2viz.app import address, output, pages, parameters, prose
from gpt2viz.app.frame import page
from gpt2viz.app.views import measures
from gpt2viz.pictures import tables


def show() -> None:
    """Draw the page."""
    view = page.open_page(pages.SHAPES, choosing="")
    sizes = tables.axis_table(view.trace)
    table = tables.shape_table(view.trace)

    graph = view.trace.graph
    a_layer = graph["ln_1"].path(0).rpartition(".")[0]
    shared = "the stream starts with the tokens' vectors as they are"
    if "qkv" in graph:
        shared = "Q, K and V are parts of `qkv`, and dropout, which is off, passes on what it gets"
    n_bytes, n_parameters = table["bytes"][~table["shared"]].sum(), table["parameters"].sum()
    prose.markdown(
        f"**{len(table)} tensors** in this run, **{n_bytes / 2**20:.2f} MiB** in all, made by "
        f"**{n_parameters:,} parameters**. They were recorded while the model ran, not taken from "
        "a list. *Shared* tensors use the memory of the one above them and are counted once: "
        f"{shared}." + measures.reused_note(view.trace, " The table is that of a run of all.")
    )
    legend, search, download = st.columns([5, 3, 1], vertical_alignment="bottom")
    prose.markdown(" · ".join(f"**{axis}** {size}" for axis, size in sizes), slot=legend)
    typed = search.text_input(
        "Filter",
        placeholder=f"such as weights, {a_layer}, Linear or (B, nh, T, T)",
        help="Keeps the rows that contain this text in any column.",
        **address.text(parameters.FILTER),
    )
    shown = tables.containing(table, typed)
    # Without the checksum of the weights, which takes a while to read; Save writes it too.
    about = export.About("shapes", view.model.name, text=view.trace.text, causal=view.trace.causal)
    download.download_button(
        "CSV",
        export.table_bytes(shown, "csv", about),
        file_name=export.file_name(about, "csv"),
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
    )
    if shown.empty:
        st.info("No row contains that text. Shorten the filter to see more.")
    output.table(
        shown,
        "Every tensor of the run",
        tallest=600,
        placeholder="",
        column_config=_columns(),
    )


def _columns() -> dict[str, Any]:
    """The tips and formats of the table's columns."""
    return {
        "step": st.column_config.NumberColumn(help="Order in which the run made it"),
        "layer": st.column_config.NumberColumn(help="Counted from 0; empty outside the layers"),
        "tensor": st.column_config.TextColumn(width=190, help="The module whose output this is"),
        "key": st.column_config.TextColumn(width=145, help="Its name in trace.stage(…)"),
        "axes": st.column_config.TextColumn(help="The letters are explained above the table"),
        "shape": st.column_config.TextColumn(help="The sizes in this run"),
        "bytes": st.column_config.NumberColumn(format="localized"),
        "shared": st.column_config.CheckboxColumn(
            help="It has no memory of its own: it uses that of the tensor above"
        ),
        "parameters": st.column_config.NumberColumn(
            format="localized",
            help="Weights of the module that made it; a tied matrix is counted once",
        ),
        "file": st.column_config.TextColumn(help="The model's source, in gpt2viz/model"),
        "line": st.column_config.NumberColumn(help="Its line that was running"),
        "code": st.column_config.TextColumn(width="large"),
        "TransformerLens": st.column_config.TextColumn(
            width="medium", help="Its name for the same numbers; trace.stage(…) takes it too"
        ),
    }

"""Save: the one place from which everything on a page can be taken along, and opened again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from gpt2viz import Trace, export
from gpt2viz.app import address, output, popover
from gpt2viz.app.components import browser_picture
from gpt2viz.app.frame import saved_session
from gpt2viz.export import About

_MIME = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "pdf": "application/pdf",
    "html": "text/html",
    "json": "application/json",
}


def button() -> None:
    """Draw the button, and what it opens. Nothing is made before it is asked for."""
    popover.button(
        "Save",
        _body,
        key="save",
        icon="download",
        help="Pictures, tables, the whole run, this page, or a link to it",
        of_page=True,
    )


def _body() -> None:
    found = output.shown()
    traces = found.traces()
    with st.spinner("Reading the model's checksum …"):
        about = partial(export.about_runs, list(traces.values()))
        source = about(found.page)
    parts: dict[str, Callable[[], None]] = {}
    if found.pictures:
        parts["Picture"] = lambda: _picture(found, about)
    if found.tables:
        parts["Table"] = lambda: _table(found, about)
    if traces:
        parts["Run"] = lambda: _run(found, traces)
    parts["Page"] = lambda: _page(found, source)
    parts["Open"] = lambda: saved_session.upload()
    for tab, draw in zip(st.tabs(list(parts)), parts.values(), strict=True):
        with tab:
            draw()


def _picture(found: output.Shown, about: Callable[[str], About]) -> None:
    name: str = st.selectbox("Picture", list(found.pictures), key="save_picture")
    picture, said = found.pictures[name], about(name)
    drawn = export.on_paper(picture, said)
    wanted = ""
    at_once = export.can_draw()  # else the visitor's own browser prints it
    with st.container(horizontal=True):
        for kind in export.PICTURE_KINDS:
            if kind == "pdf" and at_once:
                _download("picture", kind, said, lambda: export.figure_bytes(picture, "pdf", said))
            elif st.button(kind.upper(), icon=":material/download:", key=f"save_{kind}"):
                count = st.session_state["_saved"] = st.session_state.get("_saved", 0) + 1
                wanted = f"{kind}-{count}"
    asked = wanted.partition("-")[0]
    st.caption(
        "For print: on white, 300 pixels per inch, with a line that says where it comes from."
        + ("" if at_once else " PDF opens your browser's print window: choose *Save as PDF* there.")
    )
    numbers = picture.table()
    if len(numbers):
        _as_table("picture", "Its numbers, one per row", numbers, said)
    # Last: who has the picture may at once press a button above, and it must be this run's.
    browser_picture.save(
        wanted,
        asked,
        drawn,
        filename=export.file_name(said, asked).removesuffix(f".{asked}"),
        width=drawn.layout.width,
        height=drawn.layout.height,
        scale=export.DPI / export.PLOTLY_DPI if asked == "png" else 1,
    )


def _table(found: output.Shown, about: Callable[[str], About]) -> None:
    name: str = st.selectbox("Table", list(found.tables), key="save_table")
    _as_table("table", "All of its rows", found.tables[name], about(name))
    st.caption(
        "Parquet keeps every value as it is. In CSV, a text that a spreadsheet would run as a "
        "formula gets an apostrophe in front; the column *about* says how many."
    )


def _as_table(tab: str, words: str, table: Any, about: About) -> None:
    st.markdown(words)
    with st.container(horizontal=True):
        for kind in export.TABLE_KINDS:
            _download(tab, kind, about, partial(export.table_bytes, table, kind, about))


def _run(found: output.Shown, traces: dict[str, Trace]) -> None:
    name = next(iter(traces))
    if len(traces) > 1:
        name = st.selectbox("Run", list(traces), key="save_run")
    trace = traces[name]
    st.markdown(
        f"Every tensor of this run that is kept, **{trace.nbytes / 1e6:,.1f} MB**, with tokens, "
        "mask, edits and the model's checksum."
    )
    with st.container(horizontal=True):
        for kind in export.TRACE_KINDS:
            about, make = export.about(trace, "run"), partial(_trace_bytes, found, name, kind)
            _download("run", kind, about, make)
    st.caption("`numpy.load` reads the one, `safetensors` the other.")


def _trace_bytes(found: output.Shown, name: str, kind: export.TraceKind) -> bytes:
    """A run as a file; the button that asks for it holds on to no run."""
    return export.trace_bytes(found.traces()[name], kind)


def _page(found: output.Shown, about: About) -> None:
    pictures, tables = found.pictures, found.tables
    if pictures or tables:
        st.markdown("**The pictures and tables of this page** in one file that opens anywhere")
        _download(
            "page",
            "html",
            about,
            lambda: export.page_html(list(pictures.items()), about, tables.items()).encode(),
            words="HTML",
        )
    st.markdown("**What you have chosen**, to open it again here or on another machine")
    chosen = saved_session.everything()
    session = export.Session(found.page, chosen, about.sha256)
    _download("page", "json", about, lambda: session.to_json().encode(), words="Session")
    if long := address.unwritten():
        st.caption(f"Too long for a link: {', '.join(long)}. A session can hold it.")
        return
    st.markdown("**A link** that shows the same to others who reach this server")
    st.code(saved_session.link(), language=None, wrap_lines=True)


def _download(
    tab: str,
    kind: str,
    about: About,
    make: Callable[[], bytes],
    words: str = "",
) -> None:
    """A button for one kind of file, which is made when it is pressed.

    A picture and a table may have one name, so ``tab`` says where the button is.
    """
    st.download_button(
        words or {"parquet": "Parquet", "safetensors": "safetensors"}.get(kind, kind.upper()),
        make,
        file_name=export.file_name(about, kind),
        mime=_MIME.get(kind, "application/octet-stream"),
        icon=":material/download:",
        on_click="ignore",
        key=f"save_{tab}_{kind}_{about.what}",
    )

"""Save, Share and Numbers: everything on a page as files, as a link or as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from gpt2viz import CheckpointError, ExportError, Trace, export
from gpt2viz.app import address, output, pages, parameters, run_cache
from gpt2viz.app.components import mount
from gpt2viz.app.describe import describe_head
from gpt2viz.app.literal import literal
from gpt2viz.app.pages import Page
from gpt2viz.app.parameters import Parameter
from gpt2viz.export import About
from gpt2viz.export.card import HEIGHT, WIDTH
from gpt2viz.labels import pluralize, sentence
from gpt2viz.model.memory import spell
from gpt2viz.notebook import live_page
from gpt2viz.pictures import svg
from gpt2viz.pictures.chart import chart
from gpt2viz.pictures.from_trace import stage_panel
from gpt2viz.pictures.palette import LIGHT, Palette
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Lens, Picture
from gpt2viz.pictures.sheet import FAMILY, FONT_SIZE, Sheet, wrap
from gpt2viz.pictures.svg import Drawable
from gpt2viz.run.session import LARGEST, Session, read_session

#: The labels of buttons for kinds of files that aren't written in capitals.
_LABELS = {"parquet": "Parquet", "safetensors": "safetensors", "json": "Session"}


def draw_save() -> None:
    """Draw what *Save* offers. Files are made on demand."""
    outputs = output.page_outputs()
    traces = outputs.traces()
    with st.spinner("Reading the model's checksum …"):
        source = export.about_runs(list(traces.values()), outputs.page)

    def about(name: str, what: str = "") -> About:
        """The origin of an output: its runs; without any, the model, except in the Textbook."""
        runs = outputs.entries[name].runs
        if runs or outputs.page == pages.TEXTBOOK.title:
            return export.about_runs([traces[run] for run in runs], what or name)
        return About(what or name, source.model, source.sha256)

    parts: dict[str, Callable[[], None]] = {}
    if outputs.pictures:
        parts["Picture"] = lambda: _picture(outputs, about)
    if outputs.tables:
        parts["Table"] = lambda: _table(outputs, about)
    if traces:
        parts["Run"] = lambda: _run(outputs, traces)
    parts |= {"Page": lambda: _page(outputs, source), "Open": open_session}
    for tab, draw in zip(st.tabs(list(parts)), parts.values(), strict=True):
        with tab:
            draw()


def _picture(outputs: output.PageOutputs, about: Callable[..., About]) -> None:
    name: str = st.selectbox("Picture", _names(outputs.pictures), key="save_picture")
    picture, source = outputs.pictures[name], about(name)
    requested = ""
    at_once = export.prints(picture)  # else the user's browser prints it
    with st.container(horizontal=True):
        for kind in export.PICTURE_KINDS:
            if (kind == "svg" and isinstance(picture, Drawable)) or (kind == "pdf" and at_once):
                make = partial(export.figure_bytes, picture, kind, source)
                _download(kind, source, make)
            elif st.button(kind.upper(), icon=":material/download:", key=f"save_{kind}"):
                requested = kind
    st.caption(sentence("save.print") + ("" if at_once else " " + sentence("save.print_window")))
    numbers = picture.table()
    if len(numbers):
        _offer_table("Its numbers, one per row", numbers, about(name, f"Numbers of {name}"))
    # Last: once the picture is saved, a user may press a button above, which must be this run's.
    parts, caption = _parts(picture, source) if requested else ([], [])
    _save_in_browser(requested, source, parts, caption)


def _parts(picture: Picture, source: About) -> tuple[list[Sheet | dict[str, Any]], list[str]]:
    """Return a picture for print in parts, and the caption's lines if they aren't in it."""
    if sheet := export.sheet_of(picture, source):
        return [sheet], []
    lines = [line for part in source.caption for line in wrap(part, svg.WIDTH, FONT_SIZE)]
    matrix = [svg.draw(picture.tokens)] if isinstance(picture, Lens) else []
    return [*matrix, chart(picture, LIGHT)], lines


def _save_in_browser(
    kind: str,
    about: About,
    parts: Sequence[Sheet | dict[str, Any]],
    caption: Sequence[str] = (),
    scale: float = export.DPI / export.PLOTLY_DPI,
    colors: Palette = LIGHT,
) -> None:
    """Let the user's browser save a picture as ``kind``, or not if that is "".

    ``kind`` is "svg", "png" with ``scale`` pixels for each of the picture's, or "pdf" for the
    browser's print window, which can save as PDF.
    """
    data: dict[str, Any] = {"script": "browser_picture", "id": 0}
    if kind:
        count = st.session_state["_saved"] = st.session_state.get("_saved", 0) + 1
        filename = export.file_name(about, kind).removesuffix(f".{kind}")
        sheets = [part for part in parts if isinstance(part, Sheet)]
        data |= {"id": count, "kind": kind, "filename": filename}
        data |= {"scale": scale, "caption": caption}
        data |= {"ink": colors.ink, "paper": colors.unit[0][1], "family": FAMILY}
        data["width"] = max((round(sheet.width) for sheet in sheets), default=svg.WIDTH)
        data["parts"] = [
            {"svg": part.svg()} if isinstance(part, Sheet) else {"chart": part} for part in parts
        ]
    mount(data, key="browser_picture")


def _names(pictures: Mapping[str, Picture]) -> list[str]:
    """List the pictures' names, a head's weights first: the main picture of a page of one head."""
    panels = {name: [panel.name for panel in pictures[name].matrices] for name in pictures}
    return sorted(pictures, key=lambda name: panels[name] != ["weights"])


def _table(outputs: output.PageOutputs, about: Callable[..., About]) -> None:
    name: str = st.selectbox("Table", list(outputs.tables), key="save_table")
    _offer_table("All of its rows", outputs.tables[name], about(name))
    st.caption(sentence("save.table"))


def _offer_table(words: str, table: Any, about: About) -> None:
    st.markdown(words)
    with st.container(horizontal=True):
        for kind in export.TABLE_KINDS:
            _download(kind, about, partial(export.table_bytes, table, kind, about))


def _run(outputs: output.PageOutputs, traces: dict[str, Trace]) -> None:
    name = next(iter(traces))
    if len(traces) > 1:
        name = st.selectbox("Run", list(traces), key="save_run")
    trace = traces[name]
    st.markdown(sentence("save.run", size=spell(trace.nbytes)))
    with st.container(horizontal=True):
        for kind in export.TRACE_KINDS:
            about, make = export.about(trace, "run"), partial(_trace_bytes, outputs, name, kind)
            _download(kind, about, make)
    st.caption("Open NPZ with `numpy.load`, safetensors with the library of that name.")


def _trace_bytes(outputs: output.PageOutputs, name: str, kind: export.TraceKind) -> bytes:
    """Return a run as a file; so the button's callback needn't reference the run."""
    return export.trace_bytes(outputs.traces()[name], kind)


def _page(outputs: output.PageOutputs, about: About) -> None:
    pictures, tables = outputs.pictures, outputs.tables
    if pictures or tables:
        st.markdown("**This page's pictures and tables** in one file that opens in any browser")
        drawn = list(pictures.items())
        _download("html", about, lambda: export.page_html(drawn, about, tables.items()).encode())
    _live_page()
    st.markdown("**Your choices**, to open this view again here or on another machine")
    session = export.Session(outputs.page, all_choices(), about.sha256)
    _download("json", about, lambda: session.to_json().encode())
    _link()


def _live_page() -> None:
    """Offer the model itself in one HTML page, if this page has a run and the model fits one."""
    if not output.page_outputs().runs:
        return
    model, text = run_cache.load(address.get(parameters.MODEL)), address.get(parameters.TEXT)
    try:
        live_page.check(model)
    except CheckpointError:
        return
    st.markdown("**The model itself** in one page that runs without this app, to mail or to keep")
    make = partial(live_page.html, model, text)
    output.file_button("HTML with the model", make, "attention.html", key="save_live_page")


def _download(kind: str, about: About, make: Callable[[], bytes]) -> None:
    """Draw a button for one kind of file, which is made when it is pressed."""
    label, name = _LABELS.get(kind, kind.upper()), export.file_name(about, kind)
    output.file_button(label, make, name, key=f"save_{kind}_{about.what}")


def all_choices() -> dict[str, str]:
    """Return all current choices by parameter name, with text and model even at defaults.

    A first visit's text is a chosen one then, so the token and head that it opened on are named.
    """
    own: tuple[Parameter, ...] = (parameters.TEXT, parameters.MODEL)
    read = {p: address.get(p) for p in own if p.name in st.session_state}
    if parameters.TEXT in read and address.get_chosen(parameters.TEXT) is None:
        opened = (parameters.QUERY, parameters.LAYER, parameters.HEAD)
        unnamed = {p: address.peek(p) for p in opened if address.raw(p) is None}
        read |= {p: value for p, value in unnamed.items() if value is not None}
    return address.parameters(read) | address.long_choices()


def _link() -> None:
    """Draw a link to this view, or say which choices are too long for one."""
    if long := address.long_choices():
        st.caption(sentence("save.too_long", names=", ".join(long)))
        return
    st.markdown("**A link** to this view, for anyone who can reach this server")
    st.code(f"{st.context.url}?{urlencode(all_choices())}", language=None, wrap_lines=True)


def open_session() -> None:
    """Draw the upload of a session's file and open it, or say in one message why not."""
    uploaded = st.file_uploader(
        "A session saved here or on another machine",
        type="json",
        key="open_session",
        max_upload_size=1,
    )
    if uploaded is None:
        return
    try:
        session = read_session(uploaded.read(LARGEST + 1))
        page = _saved_page(session)
        same = _is_same_model(session)
    except (ExportError, CheckpointError) as error:
        st.error(literal(str(error)), icon=":material/error:")
        return
    if same or st.button("Open it anyway", key="open_anyway"):
        st.switch_page(page.path, query_params=address.restore(session.parameters))
    st.warning(sentence("save.other_weights"), icon=":material/warning:")


def _saved_page(session: Session) -> Page:
    """Return the page that a session opens. Raises ``ExportError`` if the app lacks it."""
    page = pages.find_page(session.page)
    if page is None:
        raise ExportError(sentence("save.no_page", page=f"{session.page!r:.40}"))
    return page


def _is_same_model(session: Session) -> bool:
    """Return whether the model is the one that the session was saved with, as far as is known.

    Raises ``ExportError`` if the app has no model of its name.
    """
    name = session.parameters.get("model")
    if name is None or not session.sha256:  # nothing to compare: no model is loaded for that
        return True
    if name not in run_cache.model_folders():
        raise ExportError(sentence("save.no_model", model=f"{name!r:.60}"))
    return session.is_of(run_cache.load(name).weight_files)


def draw_numbers() -> None:
    """Draw the numbers of a picture, which is picked here, as a table."""
    outputs = output.page_outputs()
    names = _names(outputs.pictures)
    if not names:
        no_numbers = sentence("save.in_tables") if outputs.tables else sentence("save.nothing_yet")
        st.caption(no_numbers)
        return
    name: str = st.selectbox("Picture", names, key="numbers_picture")
    count = output.draw_numbers(name)
    st.caption(sentence("save.numbers", numbers=pluralize(count, "numbers")))


def draw_share() -> None:
    """Draw the link to this view and, on a page of one head, the button for its slide."""
    _link()
    outputs = output.page_outputs()
    if pages.find_page(outputs.page) in (pages.ATTENTION, pages.HEAD) and outputs.runs:
        _share_picture(next(iter(outputs.traces().values())), outputs.colors)
    else:
        st.caption("*Attention* and *Head* offer a slide here; *Save* has this page's pictures.")


def _share_picture(trace: Trace, colors: Palette) -> None:
    """Draw the button for the slide, which the user's browser makes."""
    layer, head = address.get(parameters.LAYER), address.get(parameters.HEAD)
    drawn = export.draw_card(card(trace, layer, head, address.get(parameters.QUERY)), colors)
    st.markdown(f"**A slide** of layer {layer}, head {head}, {WIDTH} × {HEIGHT}")
    pressed = st.button("PNG", icon=":material/download:", key="share_png")
    about = export.about(trace, "card", layer, head)
    # Last: once the picture is saved, a user may press a button above, which must be this run's.
    _save_in_browser("png" if pressed else "", about, [drawn], scale=1, colors=colors)


def card(trace: Trace, layer: int, head: int, query: int | None) -> export.Card:
    """Return the card of a head; ``query`` is the position of the chosen token, if any."""

    def weights(run: Trace) -> Panel:
        return stage_panel(run, run.labels, "weights", layer, head, "")

    shown = weights(trace)
    masked = None if trace.causal else weights(run_cache.run(replace(trace.key, causal=True)))
    does = describe_head(shown, masked, query=query)
    return export.Card(
        title=f"Layer {layer} · Head {head}",
        panel=shown,
        tokens=trace.labels,
        chosen=query,
        says=f"Head {layer}.{head}: {does}",
        source=f"{trace.model_name} · causal mask {'on' if trace.causal else 'off'}",
    )

"""A saved session comes back: its file is checked, and the app shows the same view again."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st

from gpt2viz import CheckpointError, ExportError
from gpt2viz.app import address, pages, parameters, run_cache
from gpt2viz.app.literal import literal
from gpt2viz.app.pages import Page
from gpt2viz.app.parameters import Parameter
from gpt2viz.run.session import LARGEST, Session, read_session


def everything() -> dict[str, str]:
    """All that is chosen now, by its name in the address, with text and model even at defaults."""
    own: tuple[Parameter, ...] = (parameters.TEXT, parameters.MODEL)
    read = {one: address.chosen(one) for one in own if one.name in st.session_state}
    return address.parameters(read) | address.unwritten()


def link() -> str:
    """What opens the same view for others who reach this server."""
    return f"{st.context.url}?{urlencode(everything())}"


def upload() -> None:
    """Ask for a session's file and open it, or say in one message why not."""
    uploaded = st.file_uploader(
        "A session that was saved here or on another machine",
        type="json",
        key="open_session",
        max_upload_size=1,
    )
    if uploaded is None:
        return
    try:
        session = read_session(uploaded.read(LARGEST + 1))
        page = _page(session)
        same = _same_model(session)
    except (ExportError, CheckpointError) as error:
        st.error(literal(str(error)), icon=":material/error:")
        return
    if same or st.button("Open it anyway", key="open_anyway"):
        st.switch_page(page.path, query_params=address.restored(session.parameters))
    st.warning(
        "The model of that name here has **other weights** than the one in this session. The "
        "numbers won't be the same.",
        icon=":material/warning:",
    )


def _page(session: Session) -> Page:
    """The page that a session opens. Raises ``ExportError`` where it isn't here."""
    page = pages.called(session.page)
    if page is None:
        raise ExportError(
            f"This session was saved on the page {session.page!r:.40}, which isn't here."
        )
    return page


def _same_model(session: Session) -> bool:
    """Whether the model is the one that the session was saved with, as far as that is known.

    Raises ``ExportError`` where none of its name is here.
    """
    name = session.parameters.get("model")
    if name is None or not session.sha256:  # nothing to compare: no model is loaded for that
        return True
    if name not in run_cache.model_folders():
        raise ExportError(f"This session was saved with the model {name!r:.60}, which isn't here.")
    return session.is_of(run_cache.load(name).weights)

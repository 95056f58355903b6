"""What Streamlit keeps of widgets that are gone, and nobody asks for any more."""

from __future__ import annotations

from streamlit.runtime.scriptrunner import get_script_run_ctx


def forget() -> None:
    """Let go of the callbacks of widgets that this visitor's page no longer has.

    Streamlit drops the value of such a widget and keeps all the rest of it for as long as the
    visitor stays, with whatever its callbacks hold on to: of every page that was ever opened. For
    the frame, before it draws a page.
    """
    context = get_script_run_ctx()
    # Streamlit tells this to nobody; its version is pinned to a minor. Where it has changed, all
    # stays as Streamlit left it, and a test says so.
    state = getattr(context and context.session_state, "_state", None)
    widgets = getattr(getattr(state, "_new_widget_state", None), "widget_metadata", None)
    if state is not None and widgets is not None:
        for name in [name for name in widgets if name not in state]:
            del widgets[name]

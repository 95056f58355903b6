"""The box that a text is typed into: it shows what is run, line breaks too."""

from __future__ import annotations

from typing import Any

import streamlit as st

from gpt2viz.app import address, prose
from gpt2viz.app.parameters import Text


def box(which: Text, default: str, label: str, *, placeholder: str, **look: Any) -> str:
    """Ask for a text, ``which`` of the address; ``look`` is what every box of Streamlit's takes.

    A browser's box of one line drops line breaks: a text that has some, from a link or a session,
    gets a box of several lines.
    """
    bound = address.text(which, default, one_line=False)
    text: str = address.chosen(which)
    if address.is_one_line(text):
        st.text_input(label, placeholder=placeholder, **look, **bound)
    else:
        st.text_area(label, height="content", **look, **bound)
    return text


def notes(which: Text) -> None:
    """What to know about a text: that no link carries it, and what spaces at its end do."""
    text: str = address.chosen(which)
    if len(text) > address.LONGEST_TEXT:
        prose.caption("This text is too long for the address: a link to this page won't carry it.")
    _note_spaces(which, text)


def _note_spaces(which: Text, text: str) -> None:
    """Where a text ends with spaces, say what they do, with a button that takes them away."""
    bare = text.rstrip(" ")
    if not bare or bare == text:
        return
    n = len(text) - len(bare)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        prose.caption(
            f"This text ends with {'a space' if n == 1 else f'{n} spaces'}. Most words' tokens "
            "begin with their own, so the prediction changes.",
            width="content",
        )
        st.button(
            "Remove the space" if n == 1 else "Remove them",
            icon=":material/backspace:",
            key=f"bare_{which.name}",
            on_click=address.put,
            args=(which, bare),
            type="tertiary",
        )

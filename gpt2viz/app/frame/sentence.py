"""The box that a text is typed into, with examples: it shows what is run, line breaks too."""

from __future__ import annotations

from typing import Any

import streamlit as st

from gpt2viz.app import address, prose

EXAMPLES = {
    "Crane": "A crane ate fish",
    "Pronoun": "The animal didn't cross the street because it was too tired",
    "Repeated name": "When Mary and John went to the garden, John gave the flower to Mary",
    "River bank": "She sat by the bank of the river",
    "Man bites dog": "Man bites dog",
    "Paragraph": (
        "Alice was beginning to get very tired of sitting by her sister on the bank, and of having "
        "nothing to do: once or twice she had peeped into the book her sister was reading, but it "
        "had no pictures or conversations in it."
    ),
}


def box(name: str, default: str, label: str, *, place: Any, help: str, placeholder: str) -> str:
    """Ask for a text, which the address calls ``name``, in the container ``place``.

    A browser's box of one line drops line breaks: a text that has some, from a link or a session,
    gets a box of several lines.
    """
    bound = address.text(name, default, one_line=False)
    text: str = st.session_state[name]
    if address.is_one_line(text):
        place.text_input(label, placeholder=placeholder, help=help, **bound)
    else:
        place.text_area(label, height="content", help=help, **bound)
    return text


def note_spaces(name: str) -> None:
    """Where a text ends with spaces, say what they do, with a button that takes them away."""
    text: str = st.session_state[name]
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
            key=f"bare_{name}",
            on_click=address.put,
            args=(name, bare),
            type="tertiary",
        )


def examples() -> None:
    """Offer the examples; the one that stands in the box is lit."""
    current = st.session_state["text"]
    st.session_state["example"] = next((n for n, t in EXAMPLES.items() if t == current), None)

    def pick() -> None:
        if name := st.session_state["example"]:
            address.put("text", EXAMPLES[name])
            address.put("query", None)

    st.pills("Examples", EXAMPLES, key="example", on_change=pick, label_visibility="collapsed")

"""Five common mistakes: each is made for real, and its error message shown."""

from __future__ import annotations

import inspect
from typing import Any

import streamlit as st

from gpt2viz import GPT2Config
from gpt2viz.app import parameters, prose
from gpt2viz.app.course.parts import Book, fill, menu
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.written import equals
from gpt2viz.textbook import mistakes


def draw(_book: Book) -> None:
    """Draw each mistake with its message, its fix and its code."""
    for n, mistake in enumerate(mistakes.MISTAKES):
        with st.container(border=True, key=f"mistake_{n}"):
            prose.markdown(f"**{n + 1}. {mistake.name}**")
            kind, message = mistakes.message(mistake.made)
            st.code(f"{kind}: {message}".removesuffix(": "), language=None, wrap_lines=True)
            if mistake.caught is not None:
                kind, message = mistakes.message(mistake.caught)
                prose.caption("This project's own check, which comes first:")
                st.code(f"{kind}: {message}", language=None, wrap_lines=True)
            prose.markdown(f"**What to do.** {mistake.fix}")
            with st.expander("The code that fails", icon=":material/code:"):
                st.code(inspect.getsource(mistake.made))


def configuration(_book: Book) -> dict[str, Any]:
    """Pick a width and a number of heads, which may not divide it."""
    left, right = st.columns(2)
    widths, counts = [48, 64, 100, 768, 1000], [1, 3, 4, 7, 12, 25]
    C = menu("n_embd", parameters.TRY_C, widths, left)
    nh = menu("n_head", parameters.TRY_NH, counts, right)
    kind, message = mistakes.message(lambda: GPT2Config(n_embd=C, n_head=nh))
    return {
        "C": C,
        "nh": nh,
        "hs": C // nh,
        "result": equals(C / nh) if C % nh else f"= {C // nh}",
        "refusal": message if kind else "",
        "mistake_made": Check(bool(kind)),
    }


def verdict(book: Book, fits: str) -> None:
    """Show the project's error message, or that the two fit."""
    if refusal := book.values["refusal"]:
        st.error(refusal, icon=":material/error:")
    else:
        st.success(fill(fits, book.values), icon=":material/check:")

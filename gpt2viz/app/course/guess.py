"""Rows of weights that a reader guesses before they are shown."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st

from gpt2viz.app import prose
from gpt2viz.app.components import mount
from gpt2viz.app.course import progress
from gpt2viz.app.course.written import equals, latex
from gpt2viz.labels import sentence
from gpt2viz.textbook import guesses

#: Decimals of scores: float32 may be off in the seventh.
_EXACT = 6


def reveal(id: str, as_in_text: bool = True) -> bool:
    """Return whether a row's weights may be shown; if not, ask for the reader's guess.

    ``as_in_text`` is true if the numbers on the page are the row's: edited numbers need no guess,
    so that a link to them shows their weights at once.
    """
    if not as_in_text:
        return True
    guess = progress.guesses().get(id)
    if guess is None:
        _ask(id)
    elif guess:
        _compare(id, guess)
    return guess is not None


def _ask(id: str) -> None:
    """Draw a bar for each word, a button that submits the guess, and one that skips it."""
    row = guesses.ROWS[id]
    prose.markdown(sentence("guess.ask", text=row.text))
    st.latex(rf"\text{{{row.named}}} = {latex(np.round(row.scores, _EXACT))}")
    mount(
        key=f"guess_{id}",
        data={"script": "guess_bars", "title": row.title, "names": row.words},
        on={"expected": partial(_expect, id), "skipped": partial(_skip, id)},
    )


def _expect(id: str, sent: object) -> None:
    """Store hundredths for each word, validated, as any client can send them."""
    if guesses.fits(sent, guesses.ROWS[id]):
        progress.guesses()[id] = sent


def _skip(id: str, _sent: object) -> None:
    progress.guesses()[id] = []


def _compare(id: str, guess: list[int]) -> None:
    """Draw the guess beside the row, with its error and the mistake that it looks like."""
    row = guesses.ROWS[id]
    real = np.asarray(guesses.weights(row), float)
    with st.container(border=True, key=f"guessed_{id}"):
        title = f"{row.title}, expected and real"
        data = {"title": title, "names": row.words, "guess": guess, "real": real.tolist()}
        mount({"script": "guess_bars", **data}, key=f"compared_{id}")
        if row.hs > 1:
            divided = latex(np.asarray(guesses.scaled_scores(row)).round(_EXACT))
            st.latex(rf"\text{{divided}} = {divided} \\ \text{{softmax}} {equals(real)}")
        prose.markdown(describe(guesses.judge(row, guess)))


def describe(verdict: guesses.Verdict) -> str:
    """Return a verdict in words: the guess's error, and the mistake that it looks like."""
    off = f"**{verdict.off:.2f}**" if verdict.off >= 0.005 else "less than **0.01**"
    close = "Close! " if verdict.off <= guesses.CLOSE and not verdict.mistake else ""
    return sentence("guess.off", close=close, off=off, mistake=verdict.mistake).strip()

"""Rows of weights that a reader guesses before they are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

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


class _Prediction(NamedTuple):
    """The question about a row, its title, and the name of softmax's inputs."""

    text: str
    title: str
    scores: str = "scores"


_PREDICTIONS = {
    "crane": _Prediction("How much weight does **crane** give to each word?", "weights of crane"),
    "scale": _Prediction(
        "Take a query of 64 numbers and four keys, with round scores. How much weight does each "
        "key get, once the scores are divided by √64 = 8?",
        "weights of the four keys",
        "scores before they are divided",
    ),
    "mask": _Prediction("How much weight does **ate** give to each word?", "weights of ate"),
    "next": _Prediction("How probable is each word?", "probabilities", "logits"),
}


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
    row, words = guesses.ROWS[id], _PREDICTIONS[id]
    prose.markdown(sentence("guess.ask", text=words.text))
    st.latex(rf"\text{{{words.scores}}} = {latex(np.round(row.scores, _EXACT))}")
    ask_guess(
        words.title,
        row.words,
        key=f"guess_{id}",
        expected=partial(_expect, id),
        skipped=partial(_skip, id),
    )


def ask_guess(
    title: str,
    names: Sequence[str],
    *,
    key: str,
    expected: Callable[[object], None],
    skipped: Callable[[], None],
) -> None:
    """Draw a bar for each name, a button that submits the guess, and one that skips it.

    ``expected`` is called with what the browser sends for a guess: hundredths for each of
    ``names``, but validate it, as any client can send it. ``skipped`` is called if it is skipped.
    """
    mount(
        key=key,
        data={"script": "guess_bars", "title": title, "names": list(names)},
        on={"expected": expected, "skipped": lambda _sent: skipped()},
    )


def _expect(id: str, sent: object) -> None:
    if guesses.fits(sent, guesses.ROWS[id]):
        progress.guesses()[id] = sent


def _skip(id: str) -> None:
    progress.guesses()[id] = []


def _compare(id: str, guess: list[int]) -> None:
    """Draw the guess beside the row, with its error and the mistake that it looks like."""
    row, words = guesses.ROWS[id], _PREDICTIONS[id]
    real = np.asarray(guesses.weights(row), float)
    with st.container(border=True, key=f"guessed_{id}"):
        title = f"{words.title}, expected and real"
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

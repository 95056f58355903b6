"""A reader's answers and guesses: in the session, in the browser's storage, and as a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from gpt2viz.app import output, prose
from gpt2viz.app.components import mount
from gpt2viz.textbook.guesses import ROWS, fits

#: Most bytes of a progress file that are read.
LARGEST = 100_000

#: Chapter -> ids of questions.
Answered = Mapping[str, Sequence[str]]
#: Row -> the guess in hundredths; [] if it was shown without a guess.
Guesses = Mapping[str, list[int]]

_PROGRESS, _GUESSES, _WORDS, _READ, _FORGOTTEN, _WRONG = (
    f"_progress{part}" for part in ("", "_guesses", "_words", "_read", "_forgotten", "_wrong")
)
_FILE = "open_progress"


def answers() -> dict[str, list[str]]:
    """Return the ids of answered questions by chapter, in the order of answering."""
    answers: dict[str, list[str]] = st.session_state.setdefault(_PROGRESS, {})
    return answers


def guesses() -> dict[str, list[int]]:
    """Return the guesses by row, in hundredths; [] if a row was shown without a guess."""
    by_row: dict[str, list[int]] = st.session_state.setdefault(_GUESSES, {})
    return by_row


def explanations() -> dict[str, str]:
    """Return the reader's own words by question, for the session only."""
    by_question: dict[str, str] = st.session_state.setdefault(_WORDS, {})
    return by_question


def known_answers(given: object, known: Answered) -> dict[str, list[str]]:
    """Reduce untrusted progress to questions that exist, each once.

    Raises ``ValueError`` unless it is lists of ids by chapter.
    """
    if not isinstance(given, dict) or not all(isinstance(ids, list) for ids in given.values()):
        raise ValueError(given)
    return {name: [id for id in ids if id in given.get(name, ())] for name, ids in known.items()}


def fitting_guesses(given: object) -> dict[str, list[int]]:
    """Reduce untrusted guesses to those that fit a row that exists."""
    if not isinstance(given, dict):
        return {}
    fitting = {id: given[id] for id in ROWS if id in given}
    return {id: guess for id, guess in fitting.items() if guess == [] or fits(guess, ROWS[id])}


def parse(content: bytes, known: Answered) -> tuple[dict[str, list[str]], dict[str, list[int]]]:
    """Return the answers and guesses of a progress file. Raises ``ValueError`` for other files."""
    if len(content) > LARGEST:
        raise ValueError("too large")
    try:
        given = json.loads(content)
        return known_answers(given["answered"], known), fitting_guesses(given.get("guesses"))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError("no progress") from None


def bar(known: Answered, summary: str) -> None:
    """Draw the count of answered ``known`` questions, and a menu to save or load progress.

    Until one is answered, only their total is drawn. ``summary`` is a list in Markdown.
    """
    count, total = sum(map(len, answers().values())), sum(map(len, known.values()))
    started = count or guesses()
    prose.caption(f"{count} of {total} questions answered." if count else f"{total} questions.")
    with st.popover("Progress", icon=":material/checklist:"):
        if summary:
            st.markdown(summary)
        prose.caption("Kept in this browser. A file carries it to another.")
        done = {name: ids for name, ids in answers().items() if ids}
        content = json.dumps({"answered": done, "guesses": guesses()}, indent=2)
        name = "gpt2viz-progress.json"
        output.file_button("Save as a file", content, name, disabled=not started)
        st.file_uploader(
            "Open a progress file",
            type="json",
            key=_FILE,
            max_upload_size=1,
            on_change=_open,
            args=(known,),
        )
        if st.session_state.get(_WRONG):
            st.error("This file holds no Textbook progress.", icon=":material/error:")
        st.button(
            "Start again",
            icon=":material/restart_alt:",
            on_click=_forget,
            disabled=not started,
            help="Forgets all answers and guesses, here and in this browser.",
        )
    mount(
        key="progress_kept",
        data={
            "script": "progress",
            "answered": {name: answers().get(name, []) for name in known},
            "guesses": guesses(),
            "known": [id for ids in known.values() for id in ids],
            "rows": list(ROWS),
            "read": st.session_state.get(_READ, False),
            "forgotten": st.session_state.get(_FORGOTTEN, 0),
        },
        on={"stored": partial(_merge_stored, known)},
    )


def _merge_stored(known: Answered, given: Any) -> None:
    """Merge in the progress stored in the browser, which sends it once."""
    st.session_state[_READ] = True
    try:
        _add(known_answers(given["answered"], known), fitting_guesses(given["guesses"]))
    except (ValueError, TypeError, KeyError):
        return  # another app's data, stored by that name


def _open(known: Answered) -> None:
    uploaded = st.session_state[_FILE]
    st.session_state[_WRONG] = False
    if uploaded is None:
        return
    try:
        _add(*parse(uploaded.read(LARGEST + 1), known))
    except ValueError:
        st.session_state[_WRONG] = True


def _add(more: Answered, more_guesses: Guesses) -> None:
    """Merge in more progress; existing answers and guesses stay as they are."""
    for name, ids in more.items():
        here = answers().setdefault(name, [])
        here += [id for id in ids if id not in here]
    for id, guess in more_guesses.items():
        guesses().setdefault(id, guess)


def _forget() -> None:
    answers().clear()
    guesses().clear()
    st.session_state.update({f"answer_{id}": "" for id in explanations()})
    explanations().clear()
    st.session_state[_READ] = True
    st.session_state[_FORGOTTEN] = st.session_state.get(_FORGOTTEN, 0) + 1

"""Questions at the end of a chapter, answered by doing something; what is done stays so."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

import streamlit as st

from gpt2viz.ui import say

_PROGRESS = "_progress"


class Question(NamedTuple):
    """``done`` tells that what is asked for is on screen now; or ``answer`` must be typed.

    ``why`` is shown once it is answered.
    """

    id: str
    text: str
    hint: str
    why: str
    done: bool = False
    answer: str = ""


def right(given: str, answer: str) -> bool:
    """True where a typed answer has the numbers of the right one, or its words.

    Numbers may be off by half a hundredth; brackets, spaces and case don't count.
    """
    wanted = _numbers(answer)
    found = _numbers(given.replace(",", "") if len(wanted) == 1 else given)
    if wanted:
        near = (abs(a - b) <= 0.0051 for a, b in zip(wanted, found, strict=False))
        return len(wanted) == len(found) and all(near)
    return given.strip().casefold() == answer.casefold()


def _numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"-?\d*\.?\d+", text.replace("−", "-"))]


def progress() -> dict[str, list[str]]:
    """Chapter -> ids of the questions answered in this session."""
    found: dict[str, list[str]] = st.session_state.setdefault(_PROGRESS, {})
    return found


def ask(chapter: str, questions: Sequence[Question]) -> None:
    """Draw the questions and note those that are answered."""
    answered = progress().setdefault(chapter, [])
    st.subheader("Check yourself", anchor="check")
    for question in questions:
        with st.container(border=True, key=f"question_{question.id}"):
            before = question.id in answered
            words, hint = st.columns([8, 1], vertical_alignment="top")
            say.markdown(f"{':green[**✓**]' if before else '**?**'} {question.text}", place=words)
            with hint.popover("Hint", type="tertiary"):
                say.markdown(question.hint)
            done = question.done
            if question.answer and not before:
                given = st.text_input("Your answer", key=f"answer_{question.id}", width=260)
                done = right(given, question.answer)
                if given and not done:
                    say.caption("Not yet. Look again, or take the hint.")
            if before or done:
                say.markdown(f":green-badge[done] {question.why}")
            if done and not before:
                answered.append(question.id)
                st.session_state["_noted"] = True  # the contents above were drawn without it
    if st.session_state.pop("_noted", False):
        st.rerun()


def download(total: int) -> None:
    """How many questions are answered, and a file that says which."""
    done = progress()
    count = sum(map(len, done.values()))
    say.caption(f"{count} of {total} questions answered in this session.")
    st.download_button(
        "Progress",
        json.dumps({"answered": {name: ids for name, ids in done.items() if ids}}, indent=2),
        file_name="gpt2viz-progress.json",
        mime="application/json",
        icon=":material/download:",
        on_click="ignore",
        disabled=not count,
    )

"""A chapter's questions, answered by doing something; what is done stays so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import streamlit as st

from gpt2viz.app import prose
from gpt2viz.app.course import answers, progress
from gpt2viz.app.course.near_misses import near_misses


class Question(NamedTuple):
    """``done`` tells that what is asked for is on screen now; or ``answer`` must be typed.

    Answers that are right ``also`` are other ways to say it. ``why`` is shown once it is answered;
    ``told`` while it isn't done: what can be said of what is on screen now, or "".
    """

    id: str
    text: str
    hint: str
    why: str
    done: bool = False
    answer: str = ""
    also: tuple[str, ...] = ()
    told: str = ""


def ask(chapter: str, questions: Iterable[Question]) -> None:
    """Draw the questions and note those that are answered.

    A chapter that yields them draws what comes next when it is asked for the next: each question
    then stands below what it is about.
    """
    for question in questions:
        _ask(question, progress.answered().setdefault(chapter, []))
    if st.session_state.pop("_noted", False):
        st.rerun()


def _ask(question: Question, answered: list[str]) -> None:
    """Draw one question; the frame lights up (``theme.css``) where it says why."""
    with st.container(border=True, key=f"question_{question.id}"):
        before = question.id in answered
        words, hint = st.columns([8, 1], vertical_alignment="top")
        prose.markdown(f"{':green[**✓**]' if before else '**?**'} {question.text}", place=words)
        with hint.popover("Hint", type="tertiary"):
            prose.markdown(question.hint)
        if before or _done(question):
            with st.container(key=f"why_{question.id}"):
                prose.markdown(f":green-badge[done] {question.why}")
            if not before:
                answered.append(question.id)
                st.session_state["_noted"] = True  # the contents above were drawn without it


def _done(question: Question) -> bool:
    """Whether a question is answered now; what there is to say if not."""
    done, told = question.done, question.told
    if question.answer:
        given = st.text_input(
            "Your answer",
            key=f"answer_{question.id}",
            width=260,
            max_chars=answers.LONGEST,
        )
        done = answers.right(given, question.answer, question.also)
        if given and not done:
            told = answers.told(given, question.answer, near_misses(question.id))
            told = f"Not yet. {told or 'Look again, or take the hint.'}"
    if told and not done:
        prose.caption(told)
    return done

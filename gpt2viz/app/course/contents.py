"""The Textbook's contents: the chapters in reading order, and navigation between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.components import mount
from gpt2viz.app.course import progress, questions, real_step, sheets
from gpt2viz.app.course.chapter import Chapter, read_all
from gpt2viz.app.course.parts import Book
from gpt2viz.app.frame import page
from gpt2viz.app.frame.sentence import LIGHT_UP
from gpt2viz.app.parameters import Switch
from gpt2viz.textbook import guesses
from gpt2viz.textbook.examples import EXAMPLES

#: The chapter that compares every example with the texts' printed figures.
APPENDIX = "printed"

CHAPTERS: Mapping[str, Chapter] = read_all()

#: The effect of choosing a token of the sentence, by how a chapter reads it.
CHOOSING = {"read": "", "follow a token": real_step.CHOOSING, "light up a row": LIGHT_UP}

#: The chapter that explains a switch beside the sentence; chapters before it don't show it.
_EXPLAINED_IN: Mapping[Switch, str] = {
    parameters.CAUSAL: "mask",
    parameters.BOS: "sinks",
}


def choose() -> str:
    """Pick a chapter; ``?example=E5`` in the address opens the chapter with that example."""
    example: str | None = address.read(address.choice(parameters.EXAMPLE, list(EXAMPLES)))
    holding = next((name for name, c in CHAPTERS.items() if example in c.examples), None)
    if holding and address.raw(parameters.CHAPTER) is None:
        address.set_raw(parameters.CHAPTER, holding)
    names = list(CHAPTERS)
    way = st.container(key="way", horizontal=True, vertical_alignment="center")
    with st.container(key="contents"):
        chosen: str = st.radio(
            "Chapters",
            format_func=_title,
            captions=[chapter.part for chapter in CHAPTERS.values()],
            **address.choice(parameters.CHAPTER, names, names[0]),
        )
        progress.bar({name: chapter.questions for name, chapter in CHAPTERS.items()}, _summary())
        sheets.offer()
    with way:  # for phones, where the contents are folded away
        at = names.index(chosen)
        _open_button("Previous", names[max(at - 1, 0)], disabled=at == 0)
        _open_button("Next", names[min(at + 1, len(names) - 1)], disabled=at == len(names) - 1)
        st.toggle("All chapters", key=f"all_chapters_{chosen}")
    if example and example not in CHAPTERS[chosen].examples and chosen != APPENDIX:
        example = None  # the reader has moved on
        address.put(parameters.EXAMPLE, None)
    _scroll_to(chosen, example or "")
    return chosen


def _scroll_to(chapter: str, example: str) -> None:
    """Scroll to an ``example`` of a chapter that was just opened; if it is "", to the title.

    From another page, the title needs no scrolling: the page opens at its top.
    """
    last, id, visit = st.session_state.get("_landing", ("", "", 0))
    arrived = output.page_outputs().arrived
    if arrived or chapter != last:
        id, visit = example or ("" if arrived else chapter), visit + 1
        st.session_state["_landing"] = chapter, id, visit
    mount({"script": "landing", "id": id, "visit": visit}, key="landing")


def _title(name: str) -> str:
    """Return a chapter's number and title, with a tick once all its questions are answered."""
    chapter, number = CHAPTERS[name], list(CHAPTERS).index(name)
    n = len(chapter.questions)
    tick = " ✓" if n and len(progress.answers().get(name, ())) == n else ""
    return f"{number}. {chapter.title}{tick}" if number else chapter.title


def _open_button(label: str, name: str, **options: Any) -> None:
    """Draw a button that opens a chapter."""
    st.button(label, on_click=address.put, args=(parameters.CHAPTER, name), **options)


def overview(_book: Book, text: str) -> None:
    """Draw the book as a map: a box for each paragraph of ``text``, "title: chapters".

    The boxes are in the order in which a token passes through the parts of the model.
    """
    for line in text.split("\n\n"):
        title, _, names = line.partition(": ")
        with st.container(border=True):
            prose.markdown(f"**{title}**")
            with st.container(horizontal=True):
                for name in names.split():
                    label = f"{_title(name)} · {CHAPTERS[name].minutes} min"
                    _open_button(label, name, key=f"map_{name}")


def _summary() -> str:
    """List the chapters that were begun, with the progress in each, as Markdown."""
    answered, lines = progress.answers(), []
    for name, chapter in CHAPTERS.items():
        count, given = len(answered.get(name, ())), progress.guesses().get(chapter.guess)
        parts = [f"{count} of {len(chapter.questions)} answered"] if count or given else []
        if given:
            off = guesses.judge(guesses.ROWS[chapter.guess], given).off
            parts.append(f"prediction off by {off:.2f}")
        lines += [f"- {chapter.title}: {', '.join(parts)}"] if parts else []
    return "\n".join(lines)


def show(name: str) -> None:
    """Draw a chapter, its questions, and the button to the next."""
    chapter = CHAPTERS[name]
    names = list(CHAPTERS)
    position = names.index(name)
    st.header(chapter.title, anchor=name)
    view = None
    reader = page.model_with_stages(chapter.stages.split()) if chapter.sentence else None
    if reader is not None:
        known = [
            switch for switch, lesson in _EXPLAINED_IN.items() if names.index(lesson) <= position
        ]
        view = page.read_sentence(CHOOSING[chapter.sentence], known, reader)
    questions.ask(name, chapter.draw(Book(name, view, {"read": view is not None})))
    prose.caption(
        "≈ marks a rounded number in a calculation; elsewhere numbers are rounded without it. "
        "Calculations use all the digits."
    )
    if chapter.examples:
        st.button(
            f"Printed and computed: {', '.join(chapter.examples)}",
            icon=":material/fact_check:",
            type="tertiary",
            on_click=address.put_all,
            args=({parameters.CHAPTER: APPENDIX, parameters.EXAMPLE: chapter.examples[0]},),
        )
    if position + 1 < len(names):
        following = names[position + 1]
        label = f"Next: {CHAPTERS[following].title}"
        _open_button(label, following, icon=":material/arrow_forward:", type="primary")

"""A tour of six steps through the real app: each step is an address, and what to see there.

``?tour=2`` is its second step, so that a step can be sent as a link. A visitor's choices before the
tour are remembered, and restored as they leave.
"""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from gpt2viz import BUNDLED
from gpt2viz.app import address, pages, parameters, prose
from gpt2viz.app.pages import Page
from gpt2viz.app.parameters import DIFFERS, EDITS, HEAD, KEY, LAYER, PREDICT, QUERY, Parameter

_BEFORE = "_before_tour"

TEXT: str = parameters.TEXT.default


class Step(NamedTuple):
    """A page, the parameters of its address, and the text on what to see."""

    page: Page
    parameters: dict[Parameter, int | str]
    see: str


#: The head that looks one token back, and the one that copies most, of the bundled model:
#: ``python -m tests.docs.numbers`` finds them.
BACK, COPY = (0, 0), (1, 1)
#: The second " sat", and what followed the first.
LAST, AFTER = 9, 3

STEPS = (
    Step(
        pages.ATTENTION,
        {LAYER: BACK[0], HEAD: BACK[1], QUERY: LAST},
        "Each small square is a **head**: rows look at columns, and a stronger colour means more "
        f"attention. In head {BACK[0]}.{BACK[1]}, every token looks at the one **before** it.",
    ),
    Step(
        pages.ATTENTION,
        {LAYER: COPY[0], HEAD: COPY[1], QUERY: LAST},
        f"In head {COPY[0]}.{COPY[1]}, the second “sat” looks at “on”, the word that **followed** "
        "the first “sat”. It is a copying head: it finds what came next the last time.",
    ),
    Step(
        pages.HEAD,
        {LAYER: COPY[0], HEAD: COPY[1], QUERY: LAST, KEY: AFTER},
        "The same head, step by step: **Q**, **K** and **V**, the scores, the mask, the weights, "
        "the output. Beside them stands the sum behind one cell, “sat” to “on”. Click any other "
        "cell to see its sum.",
    ),
    Step(
        pages.SIDE_BY_SIDE,
        {DIFFERS: "mask", LAYER: COPY[0], HEAD: COPY[1], QUERY: 2},
        "The first “sat” sees only itself and what comes before; the rest is **masked**. Without "
        "the mask it looks straight at “on”, the word to predict: it would be cheating.",
    ),
    Step(
        pages.PREDICT,
        {PREDICT: "next"},
        "From what the heads gathered, the model predicts the **next token**: most likely “on”, "
        "which followed “sat” before.",
    ),
    Step(
        pages.WHAT_IF,
        {LAYER: COPY[0], HEAD: COPY[1], QUERY: LAST, EDITS: f"off:{BACK[0]}.{BACK[1]}"},
        "Here the head of the first step is switched **off**. The copying head no longer finds "
        "“on”, and the prediction changes: the two heads work together. Now switch off others, or "
        "type a sentence of your own.",
    ),
)


def draw(page: Page) -> None:
    """Draw the address's step, with buttons to move and leave; nothing outside the tour."""
    n: int | None = address.read(address.choice(parameters.TOUR, range(1, len(STEPS) + 1)))
    if n is None:
        remember()
        return
    step = STEPS[n - 1]
    with st.container(key="tour", gap=None):
        prose.markdown(f":small[:gray[{n} of {len(STEPS)}]]  {step.see}")
        with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
            if page is not step.page:
                _go(page, n, f"Back to {step.page.title}", "undo")
            if n > 1:
                _go(page, n - 1, "Back", "arrow_back")
            if n < len(STEPS):
                _go(page, n + 1, "Next", "arrow_forward")
            label = "Leave the tour" if n < len(STEPS) else "End the tour"
            if st.button(label, icon=":material/close:", type="tertiary"):
                st.query_params.from_dict(address.restore(_parameters_after(n)))
                st.rerun()


def remember() -> None:
    """Outside the tour, remember the current choices, to restore them after it."""
    if address.raw(parameters.TOUR) is None:
        st.session_state[_BEFORE] = address.parameters() | address.long_choices()


def _parameters_after(n: int) -> dict[str, str]:
    """Return the parameters after leaving the ``n``-th step: those that it set are restored.

    Choices made since stay; after a new sentence nothing is restored.
    """
    now, given = address.parameters() | address.long_choices(), _address(n)
    own = {name: value for name, value in now.items() if given.get(name) != value}
    before = {} if parameters.TEXT.name in own else st.session_state.get(_BEFORE, {})
    return {**before, **own}


def offer(page: Page) -> None:
    """Outside the tour, draw a button for its first step."""
    on_tour = address.raw(parameters.TOUR) in [str(n + 1) for n in range(len(STEPS))]
    if not on_tour:
        with st.container(key="take_tour", width="content"):
            help = "Six steps through the app. Leave at any time: your sentence comes back."
            _go(page, 1, "Take the tour", "route", help)


def _go(page: Page, n: int, label: str, icon: str, help: str | None = None) -> None:
    """Draw a link to a step on another page, or a button if it is on the open one.

    A link changes page and parameters in one entry of the browser's history, so that *Back* leads
    to the step before. A link to the open page would leave the address unchanged.
    """
    icon, step, query_params = f":material/{icon}:", STEPS[n - 1], _address(n)
    if page is not step.page:
        st.page_link(step.page.path, label=label, icon=icon, help=help, query_params=query_params)
    elif st.button(label, icon=icon, type="tertiary", help=help):
        remember()
        st.query_params.from_dict(query_params)
        st.rerun()


def _address(n: int) -> dict[str, str]:
    """Return the parameters of a step's address, with the model whose heads it describes."""
    everywhere = {parameters.TOUR: n, parameters.MODEL: BUNDLED.name, parameters.TEXT: TEXT}
    of_step = everywhere | STEPS[n - 1].parameters
    return {parameter.name: str(value) for parameter, value in of_step.items()}

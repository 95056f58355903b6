"""The sections of the Models page: one is shown at a time, and the address says which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import streamlit as st

from gpt2viz import GPT2VizError
from gpt2viz.app import address, pages, parameters, prose
from gpt2viz.app.frame import page
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.app.views.models import about, choose, parts, positions, run, words
from gpt2viz.pictures.palette import Palette


class Section(NamedTuple):
    """``lead`` says what it shows. One that reads a sentence is drawn from its run, the others
    from a model's name."""

    title: str
    lead: str
    draw: Callable[[str, Palette], None] | None = None
    draw_run: Callable[[View], None] | None = None


SECTIONS: Mapping[str, Section] = {
    "all": Section("All models", ""),
    "card": Section(
        "Card", "What its makers say about it, and where its files come from.", about.card
    ),
    "config": Section("Config", "Every size and option that defines this model.", about.config),
    "parameters": Section("Parameters", "Where its learned numbers are.", parts.draw),
    "tokenizer": Section("Tokenizer", "How a word becomes tokens, merge by merge.", words.draw),
    "positions": Section("Positions", "What it knows about places in a text.", positions.draw),
    "cost": Section("Cost of a sentence", "", draw_run=run.cost),
    "modules": Section("Modules", "", draw_run=run.modules),
}


def show() -> None:
    """Draw the page."""
    colors = page.open_menu(pages.MODELS)
    _draw(SECTIONS[_choose()], colors)


def _choose() -> str:
    """Pick a section, a key of ``SECTIONS``."""
    chosen: str = st.segmented_control(
        "Show",
        list(SECTIONS),
        format_func=lambda name: SECTIONS[name].title,
        required=True,
        wrap=True,
        label_visibility="collapsed",
        **address.choice(parameters.PART, list(SECTIONS)),
    )
    return chosen


def _draw(section: Section, colors: Palette) -> None:
    """Draw a section; one message where the model's files can't be read."""
    try:
        if section.draw_run:
            section.draw_run(page.read_sentence(colors, choosing=""))
        elif section.draw:
            lead, chosen = st.columns([6.9, 1.6], vertical_alignment="bottom")
            with chosen:
                model = page.choose_model()
            prose.markdown(f"#### {literal(model)}\n{section.lead}", place=lead)
            section.draw(model, colors)
        else:
            choose.table()
            choose.by_name()
    except GPT2VizError as error:
        st.error(literal(str(error)), icon=":material/error:")

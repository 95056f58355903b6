"""The menu: every page, in a few groups that stay in one row from a narrow window to a wide one."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from gpt2viz.app import address
from gpt2viz.app.components import keyboard


class Page(NamedTuple):
    """A page's script, its name, and what it answers in a few words."""

    path: str
    name: str
    what: str


#: Every page of the app, once. The groups stand in the menu; a page alone in its group is a link.
PAGES: dict[str, tuple[Page, ...]] = {
    "Attention": (
        Page("app.py", "Attention", "every head of a layer at a glance"),
        Page("pages/1_inside_head.py", "Inside a head", "from Q, K and V to the output"),
        Page("pages/2_compare_layers.py", "Layers", "side by side, one head in all, every head"),
        Page("pages/3_causal_mask.py", "Causal mask", "what it hides, and why it matters"),
    ),
    "Heads": (
        Page("pages/9_find.py", "Find a head", "by what it does or where it looks"),
        Page("pages/8_training.py", "Training", "when each head began its work"),
    ),
    "Predictions": (
        Page("pages/5_predictions.py", "Predictions", "what comes next, and who wrote it"),
        Page("pages/6_what_if.py", "What if", "switch a head off, hide a token"),
        Page("pages/7_generate.py", "Generate", "continue the text, token by token"),
    ),
    "Compare": (Page("pages/10_compare.py", "Compare", "two of anything, side by side"),),
    "Learn": (
        Page("pages/11_textbook.py", "Textbook", "eleven chapters with numbers to change"),
        Page("pages/4_shapes.py", "Shapes", "every tensor of the run, in order"),
        Page("pages/13_glossary.py", "Glossary", "what the words mean"),
    ),
    "Models": (Page("pages/12_models.py", "Models", "what can be loaded, and how to get more"),),
}


def menu(title: str) -> None:
    """Draw the menu into the current container; ``title`` is the name of the page that is open."""
    st.html(f'<h1 class="page-name">{title}</h1>')  # for those who hear the page
    keyboard.popovers()
    st.markdown("**gpt2viz**", width="content")
    for group, pages in PAGES.items():
        here = title in {page.name for page in pages}
        if len(pages) == 1:
            _link(pages[0], f"**{pages[0].name}**" if here else pages[0].name)
            continue
        shown = f"**{title}**" if title == group else f"**{group}** · {title}"
        with st.popover(shown if here else group, type="tertiary", key=f"menu_{group}"):
            for page in pages:
                name = f"**{page.name}**" if page.name == title else page.name
                _link(page, f"{name} :gray[:small[{page.what}]]")


def _link(page: Page, shown: str) -> None:
    st.page_link(page.path, label=shown, query_params=address.parameters())

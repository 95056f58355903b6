"""The sentence's tokens in one strip of chips. A chosen one is the query on every page.

A chip shows its text; its place and its id are there for the pointer, the keyboard and whoever
hears the page.
"""

from __future__ import annotations

import streamlit as st

from gpt2viz import Trace
from gpt2viz.app import address, parameters, prose
from gpt2viz.app.components import token_chips
from gpt2viz.labels import counted

#: What a chip is.
WHAT = "What the model reads: words and parts of words. Point at one for its position and its id."
#: What choosing a token does on most pages.
LIGHT_UP = "Choose a token to light up its row: where it looks."

#: So many chips at once: a browser takes a second to draw a thousand, at every click.
AT_ONCE = 128


def chips(trace: Trace, choosing: str = LIGHT_UP) -> int | None:
    """Draw the tokens, or one part of a long text's; the place of the chosen one.

    ``choosing`` says what it does to choose one. Where it is empty, none can be chosen.
    """
    T = len(trace.labels)
    address.choice(parameters.QUERY, range(T))
    query: int | None = address.chosen(parameters.QUERY)
    _draw(trace, range(T) if T <= AT_ONCE else _part(T, query), query, choosing)
    return query


def _part(T: int, query: int | None) -> range:
    starts = range(0, T, AT_ONCE)

    def places(start: int) -> str:
        return f"Tokens {start:,} to {min(start + AT_ONCE, T) - 1:,}"

    with st.container(horizontal=True, vertical_alignment="center"):
        start = st.selectbox(
            "Part of the text",
            starts,
            format_func=places,
            label_visibility="collapsed",
            width=220,
            **address.choice(parameters.FROM, starts, starts[(query or 0) // AT_ONCE]),
        )
        if query is not None and not start <= query < start + AT_ONCE:
            prose.caption(f"The chosen token is {query:,}, in another part.", width="content")
    return range(start, min(start + AT_ONCE, T))


def _draw(trace: Trace, shown: range, query: int | None, choosing: str) -> None:
    name = counted(len(trace.labels), "tokens")
    with st.container(key="tokens", horizontal=True, vertical_alignment="center"):
        st.markdown(name, help=prose.tip(f"{WHAT} {choosing}".strip()), width="content")
        token_chips.draw(
            name,
            trace.labels,
            trace.token_ids,
            shown=shown,
            query=query if choosing else None,
            enabled=bool(choosing),
        )

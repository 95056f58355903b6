"""The pages' text, in Markdown: each of the glossary's words links there at its first use.

Every caption and explanation is written with ``markdown`` or ``caption``; an alert takes
``link_terms(…)``, a widget's help ``tip(…)``. Headings, code, formulas, tables and “quotations” get
no links, nor does what ``literal`` shows: words of the user's sentence are not the glossary's.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

import streamlit as st

from gpt2viz.app import address, pages, parameters
from gpt2viz.app.literal import literal
from gpt2viz.app.terms import A_TERM, SPELLED, Term

_NOT_LINKED = (
    r"^#.*?$",  # headings
    r"^\|.*?$",  # tables
    r"`[^`]*`",
    r"\$\$.*?\$\$|\$[^$\n]*\$",
    r"“[^”]*”",
    r"\d{4}, \*[^*]+\*",  # the title of a citation
    "\u2068.*?\u2069",  # what ``labels.bidi_isolate`` set apart
    r"\[(?:\\.|[^\]\\])*\]\([^)]*\)",  # other links
    r"linear layers?|this run's value",  # where the words mean something else
    r"\\.|:[a-z-]+(?=\[)|:material/\w+:|https?://\S+",
)
_WORDS = re.compile(
    f"(?:{'|'.join(_NOT_LINKED)})"
    rf"|(?P<word>{A_TERM})",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
#: The parameters of the glossary's own page.
_OF_GLOSSARY = {p.name for p in parameters.PARAMETERS if p.on == (pages.GLOSSARY,)}


def begin(linked: Collection[str] = ()) -> None:
    """Count only these words as linked. The frame calls it as it opens a page."""
    st.session_state["_linked"] = set(linked)


def linked() -> frozenset[str]:
    """Return the words that were linked so far."""
    return frozenset(st.session_state["_linked"])


def markdown(text: str, *, slot: Any = st, **options: Any) -> None:
    """Write ``st.markdown``, in the container ``slot`` if given, with links to the glossary."""
    slot.markdown(link_terms(text), **options)


def caption(text: str, *, slot: Any = st, **options: Any) -> None:
    """Write ``st.caption``, in the container ``slot`` if given, with links to the glossary."""
    slot.caption(link_terms(text), **options)


def link_terms(text: str) -> str:
    """Return the Markdown ``text``, its shares unbroken, with links to terms not linked yet."""
    return _link_first_uses(text.replace(" %", "\u00a0%"), st.session_state["_linked"])


def tip(text: str) -> str:
    """Return a widget's tip (its ``help``), with a link at the first use of each term in it.

    A tip is read by itself, so it links what the page has linked too. It stays open under the
    pointer, but keyboards can't reach it; for them the glossary is in the menu, under *Words*.
    """
    return _link_first_uses(text, set())


def _link_first_uses(text: str, done: set[str]) -> str:
    """Return ``text`` with a link at each term that isn't ``done``, and add those to ``done``."""
    parts = []
    for before, word in _split(text):
        term = SPELLED.get(word.lower())
        if term is not None and term.key not in done:
            done.add(term.key)
            word = link(term, word)
        parts += [before, word]
    return "".join(parts)


@lru_cache(maxsize=1000)
def _split(text: str) -> tuple[tuple[str, str], ...]:
    """Split a text into (text before a term, the term) pairs; the last term is "".

    It is cached because the search is slow and a page's texts rarely change.
    """
    matches = [match for match in _WORDS.finditer(text) if match["word"]]
    ends = [0, *(match.end() for match in matches)]
    before = (text[end : match.start()] for end, match in zip(ends, matches, strict=False))
    words = (match["word"] for match in matches)
    return (*zip(before, words, strict=True), (text[ends[-1] :], ""))


def link(term: Term, shown: str) -> str:
    """Return a link to a term's entry, with its meaning on hover. It opens beside the page.

    The link carries the page's choices, so that the glossary leads back to the same view.
    """
    query = _query_string(((parameters.TERM.name, term.key),))
    if chosen := tuple((k, v) for k, v in address.parameters().items() if k not in _OF_GLOSSARY):
        query += f"&{_query_string(chosen)}"
    meaning = term.meaning.replace('"', "”")
    return f'[{shown}]({pages.GLOSSARY.address}?{query} "{meaning}")'


@lru_cache(maxsize=128)
def _query_string(pairs: tuple[tuple[str, str], ...]) -> str:
    """Encode parameters for an address; cached, as every link of a page repeats the same."""
    return urlencode(pairs, quote_via=quote, safe="")


def plugin_errors(*messages: str) -> None:
    """Show one warning with each message once; nothing without any."""
    if messages:
        warning = "\n\n".join(map(literal, dict.fromkeys(messages)))
        st.warning(warning, icon=":material/extension_off:")

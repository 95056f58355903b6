"""The pages' text, in Markdown: the first use of each of the glossary's words is a link there.

Every caption and explanation is written with ``markdown`` or ``caption``; an alert says
``linked(…)``, a widget's help ``tip(…)``. Headings, code, formulas, tables and what is quoted
“so” stay as they are, and so does what ``literal`` shows: words of a sentence are not ours.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

import streamlit as st

from gpt2viz.app import address, pages, parameters
from gpt2viz.app.literal import literal
from gpt2viz.app.terms import A_TERM, SPELLED, Term

_LEFT_ALONE = (
    r"^#.*?$",  # headings
    r"^\|.*?$",  # tables
    r"`[^`]*`",
    r"\$\$.*?\$\$|\$[^$\n]*\$",
    r"“[^”]*”",
    r"\d{4}, \*[^*]+\*",  # the title of what is cited
    "\u2068.*?\u2069",  # what ``labels.bidi_isolate`` set apart
    r"\[(?:\\.|[^\]\\])*\]\([^)]*\)",  # other links
    r"linear layers?|this run's value",  # words that mean something else there
    r"\\.|:[a-z-]+(?=\[)|:material/\w+:|https?://\S+",
)
_FOUND = re.compile(
    f"(?:{'|'.join(_LEFT_ALONE)})"
    rf"|(?P<word>{A_TERM})",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
#: What is chosen on the glossary's own page.
_OF_GLOSSARY = {p.name for p in parameters.PARAMETERS if p.on == (pages.GLOSSARY,)}


def begin() -> None:
    """Forget which words were linked. For the frame, which opens every page."""
    st.session_state["_linked"] = set()


def snapshot() -> frozenset[str]:
    """The words that were linked so far."""
    return frozenset(st.session_state["_linked"])


def restore(linked: frozenset[str]) -> None:
    """Take only these words as linked."""
    st.session_state["_linked"] = set(linked)


def markdown(text: str, *, slot: Any = st, **options: Any) -> None:
    """``st.markdown``, into the container ``slot`` if it is given, with links to words."""
    slot.markdown(linked(text), **options)


def caption(text: str, *, slot: Any = st, **options: Any) -> None:
    """``st.caption``, into the container ``slot`` if it is given, with links to words."""
    slot.caption(linked(text), **options)


def linked(text: str) -> str:
    """The Markdown ``text``, with a link at each word that the page has not linked before."""
    return _link_first_uses(text, st.session_state["_linked"])


def tip(text: str) -> str:
    """A widget's tip (its ``help``), with a link at each word.

    Whatever the page has linked: a tip is read by itself. It stays open under the pointer, but
    can't be reached by keyboard; by keyboard the glossary is in the menu, under *Words*.
    """
    return _link_first_uses(text, set())


def _link_first_uses(text: str, done: set[str]) -> str:
    """``text`` with a link at the first use of each word that isn't ``done``, which they become."""
    parts = []
    for before, word in _parted(text):
        term = SPELLED.get(word.lower())
        if term is not None and term.key not in done:
            done.add(term.key)
            word = link(term, word)
        parts += [before, word]
    return "".join(parts)


@lru_cache(maxsize=1000)
def _parted(text: str) -> tuple[tuple[str, str], ...]:
    """The text before each of the words, and the word; the last part has none.

    Most of what a page says is the same each time, and to look for the words takes long.
    """
    matches = [match for match in _FOUND.finditer(text) if match["word"]]
    ends = [0, *(match.end() for match in matches)]
    before = (text[end : match.start()] for end, match in zip(ends, matches, strict=False))
    words = (match["word"] for match in matches)
    return (*zip(before, words, strict=True), (text[ends[-1] :], ""))


def link(term: Term, shown: str) -> str:
    """A word as a link to its entry, its meaning on hover. It opens beside the page.

    The link carries what is chosen, so that the way back from the glossary leads to the same view.
    """
    query = _spelled(((parameters.TERM.name, term.key),))
    if chosen := tuple((k, v) for k, v in address.parameters().items() if k not in _OF_GLOSSARY):
        query += f"&{_spelled(chosen)}"
    meaning = term.meaning.replace('"', "”")
    return f'[{shown}]({pages.GLOSSARY.address}?{query} "{meaning}")'


@lru_cache(maxsize=128)
def _spelled(pairs: tuple[tuple[str, str], ...]) -> str:
    """Parameters as an address has them: every link of a page repeats the same."""
    return urlencode(pairs, quote_via=quote, safe="")


def plugin_errors(*messages: str) -> None:
    """One warning with each sentence once; nothing where there is none."""
    if messages:
        warning = "\n\n".join(map(literal, dict.fromkeys(messages)))
        st.warning(warning, icon=":material/extension_off:")

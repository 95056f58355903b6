"""Text from outside inside Markdown: shown, never interpreted."""

from __future__ import annotations

import re

from gpt2viz.app.terms import A_TERM
from gpt2viz.labels import bidi_isolate, escape_controls, no_typography

_TERM, _FIRST = re.compile(A_TERM, re.IGNORECASE), re.compile(r"\b[a-z]", re.IGNORECASE)


def literal(text: str) -> str:
    """Return Markdown that shows exactly ``text``: ASCII signs escaped, controls spelled out.

    No address in it becomes a link: an invisible ``JOINER`` splits it. Nor does a token that is a
    term of the glossary: its first letter becomes a character reference. A text with spaces is a
    message, or stands in quotation marks, which get no links.
    """
    plain = "".join(map(_escape, no_typography(escape_controls(text))))
    if " " not in text:
        plain = _TERM.sub(lambda term: _FIRST.sub(_reference, term[0]), plain)
    return bidi_isolate(plain)


def _escape(char: str) -> str:
    plain = not char.isascii() or char.isalnum() or char == " "
    return char if plain else f"\\{char}"


def _reference(letter: re.Match[str]) -> str:
    return f"&#{ord(letter[0])};"

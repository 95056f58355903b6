"""Text from outside inside Markdown: shown, never interpreted."""

from __future__ import annotations

import unicodedata

from gpt2viz.labels import isolated

# Controls, formats such as bidi overrides, and separators of lines: not to be seen, but to be felt.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
# What an isolate is made of, and the line's end in our own messages.
_KEPT = "\u2068\u2069\n"


def literal(text: str) -> str:
    """Markdown that shows exactly ``text``: every ASCII sign is escaped, every control spelled."""
    return isolated("".join(map(_escape, text)))


def _escape(char: str) -> str:
    if unicodedata.category(char) in _UNSEEN and char not in _KEPT:
        return f"\\\\u{ord(char):04x}"
    plain = not char.isascii() or char.isalnum() or char == " "
    return char if plain else f"\\{char}"

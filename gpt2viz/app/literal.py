"""Text from outside inside Markdown: shown, never interpreted."""

from __future__ import annotations

from gpt2viz.labels import isolated, spelled, unaltered


def literal(text: str) -> str:
    """Markdown that shows exactly ``text``: every ASCII sign is escaped, every control spelled.

    No address in it becomes a link: an invisible ``JOINER`` keeps its parts apart.
    """
    return isolated("".join(map(_escape, unaltered(spelled(text)))))


def _escape(char: str) -> str:
    plain = not char.isascii() or char.isalnum() or char == " "
    return char if plain else f"\\{char}"

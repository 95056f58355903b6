"""Text from outside inside Markdown: shown, never interpreted."""

from __future__ import annotations


def literal(text: str) -> str:
    """Markdown that shows exactly ``text``: every ASCII sign is escaped."""
    return "".join(f"\\{c}" if c.isascii() and not c.isalnum() and c != " " else c for c in text)

"""A model's card, the README.md of its folder: a stranger's text, made harmless.

What a card may do on screen is what Markdown does: headings, lists, tables, code, links. It may
not load anything from elsewhere, which would tell others who reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import RepoCard

from gpt2viz.errors import CheckpointError
from gpt2viz.files import read_text
from gpt2viz.labels import shorten

#: Characters of a card that are shown.
LONGEST = 100_000

# What a card's head says of where the model comes from.
_FACTS = ("license", "language", "base_model", "datasets", "library_name")
_FENCE = re.compile(r"^ {0,3}(```|~~~)")


@dataclass(frozen=True)
class Card:
    """``text`` is Markdown without images, and without HTML where nothing renders it; ``facts``
    are short plain texts from its head; ``cut`` says that only the beginning is here."""

    text: str
    facts: Mapping[str, str]
    cut: bool = False


def read_card(folder: Path) -> Card | None:
    """The card of a model's folder, or None where it has none that can be read."""
    path = folder / "README.md"
    try:
        content = read_text(path, errors="replace")
    except CheckpointError:
        return None
    text, facts = _split(content[:LONGEST])
    return Card(harmless(text), facts, len(content) > LONGEST)


def harmless(markdown: str) -> str:
    """Markdown that loads nothing: no image, and outside of code no formula and no directive.

    An image begins with ``![`` wherever it stands, so none is left of these, even in code. HTML
    is for the renderer to show as text, as Streamlit does unless told otherwise.
    """
    lines, code = [], False
    for line in markdown.replace("![", "!\\[").splitlines():
        fence = bool(_FENCE.match(line))
        lines.append(line if code or fence else _plain(line))
        code ^= fence
    return "\n".join(lines)


def _plain(line: str) -> str:
    """A line outside of code, without what Streamlit adds to Markdown: $…$, :icon:, :red[…]; its
    headings two sizes smaller, as it stands inside of a page."""
    line = re.sub(r"^(#{1,4})(?=\s)", r"##\1", line)
    return re.sub(r"(?<!\\)(\$|:(?=[\w+-]+[:\[]))", r"\\\1", line)


def _split(content: str) -> tuple[str, dict[str, str]]:
    """The text, and what its head in YAML says; a head that can't be read stays text."""
    if not content.startswith("---"):
        return content, {}
    try:
        card = RepoCard(content, ignore_metadata_errors=True)
        head = vars(card.data)
    except Exception:  # whatever a stranger's YAML makes a parser raise
        return content, {}
    facts = {name: _spell(head[name]) for name in _FACTS if head.get(name)}
    return card.text, {name: text for name, text in facts.items() if text}


def _spell(value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    plain = [str(v) for v in values[:20] if isinstance(v, str | int | float)]
    return shorten(" ".join(", ".join(plain).split()), 200)

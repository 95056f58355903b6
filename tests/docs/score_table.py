"""The researchers' guide lists every score of heads, as the registry has it."""

from __future__ import annotations

from pathlib import Path

from gpt2viz.analysis.scores import DECLARED, Score

GUIDE = Path(__file__).parents[2] / "docs" / "researchers.md"


def row(score: Score) -> str:
    """Its row of the table: name, formula, words."""
    cells = (cell.replace("|", r"\|") for cell in (score.name, score.formula, score.words))
    return f"| {' | '.join(cells)} |"


def unlisted() -> list[str]:
    """The names of scores whose row the guide lacks."""
    rows = GUIDE.read_text(encoding="utf-8").splitlines()
    return [score.name for score in DECLARED if row(score) not in rows]

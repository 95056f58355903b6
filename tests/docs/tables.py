"""Write the docs' tables of address parameters, stages and head scores from their declarations.

python -m tests.docs.tables
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpt2viz.analysis.scores import DECLARED
from gpt2viz.app import pages, parameters
from gpt2viz.app.parameters import Parameter
from gpt2viz.run.stages import STAGE

DOCS = Path(__file__).parents[2] / "docs"
_READING = set(pages.PAGES) - {pages.GLOSSARY}


def _table(*rows: Sequence[str]) -> str:
    """Rows of cells as a Markdown table; the first row has the column names."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def address() -> str:
    """A row for each parameter."""
    names = ("name", "what it chooses", "values", "default", "pages")
    return _table(names, *map(_parameter, parameters.PARAMETERS))


def _parameter(parameter: Parameter) -> tuple[str, ...]:
    says, on = parameter.says, set(parameter.on)
    if parameter.moves:
        says += " †"
    where = ", ".join(page.title for page in parameter.on)
    if on >= _READING:
        where = "all" if on == set(pages.PAGES) else f"all but {pages.GLOSSARY.title}"
    first = "" if parameter.default in (None, "") else f"`{parameter.default}`"
    first = first.lower() if isinstance(parameter.default, bool) else first
    return f"`{parameter.name}`", says, parameter.values, first, where


def stages() -> str:
    """A row for each stage that a trace keeps."""
    rows = [
        (f"`{s.key}`", s.label, s.formula, f"({', '.join(s.axes)})", s.in_transformer_lens("N"))
        for s in STAGE.values()
        if s.keep
    ]
    return _table(("stage", "what it is", "made by", "axes", "in TransformerLens"), *rows)


def scores() -> str:
    """A row for each score of heads."""
    rows = [(score.name, score.formula, score.words) for score in DECLARED]
    cells = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return _table(("score", "formula", "what it says"), *cells)


TABLES = {"address.md": address, "api.md": stages, "researchers.md": scores}


def main() -> None:
    """Replace each table in its page."""
    for page, make in TABLES.items():
        before = (DOCS / page).read_text(encoding="utf-8")
        start, _, rest = before.partition(make().partition("\n")[0])
        end = rest.partition("\n\n")[2]
        (DOCS / page).write_text(f"{start}{make()}\n\n{end}".rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

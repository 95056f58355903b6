"""Write the docs' table of all that an address can hold, from where it is declared.

python -m tests.docs.address
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpt2viz.app import pages, parameters
from gpt2viz.app.parameters import Parameter

PAGE = Path(__file__).parents[2] / "docs/address.md"
_HEAD = ("| name | what it chooses | what it holds | at first | pages |", "|---|---|---|---|---|")
_READING = set(pages.PAGES) - {pages.GLOSSARY}


def table() -> str:
    """A row for each parameter."""
    return "\n".join((*_HEAD, *map(_row, parameters.PARAMETERS)))


def _row(parameter: Parameter) -> str:
    says, on = parameter.says, set(parameter.on)
    if parameter.moves:
        says += " †"
    where = ", ".join(page.title for page in parameter.on)
    if on >= _READING:
        where = "all" if on == set(pages.PAGES) else f"all but {pages.GLOSSARY.title}"
    first = "" if parameter.default in (None, "") else f"`{_spell(parameter.default)}`"
    return f"| `{parameter.name}` | {says} | {parameter.values} | {first} | {where} |"


def _spell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def main() -> None:
    """Write the table into the page, in place of the one that is there."""
    before = PAGE.read_text(encoding="utf-8")
    start, _, rest = before.partition(_HEAD[0])
    end = rest.partition("\n\n")[2]
    PAGE.write_text(f"{start}{table()}\n\n{end}".rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

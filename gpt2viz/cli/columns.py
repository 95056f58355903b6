"""Tables as lines for the terminal; they need no pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def of_rows(rows: Sequence[Mapping[str, object]], names: Sequence[str] = ()) -> str:
    """A line of column names and one for each row; ``names`` are the columns, all if not given.

    Numbers have two decimals where they aren't whole, None is left blank.
    """
    names = names or list(rows[0])
    return aligned([names, *([_cell(row[name]) for name in names] for row in rows)])


def aligned(table: Sequence[Sequence[str]], left: int = 0) -> str:
    """Lines of cells, each column as wide as its widest cell.

    Cells end at the right of their column; in the first ``left`` columns they begin at its left.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if n < left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)

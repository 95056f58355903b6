"""Tables as CSV and Parquet, and the numbers of any picture as a table."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gpt2viz import files
from gpt2viz.errors import ExportError
from gpt2viz.export.about import About
from gpt2viz.export.kinds import TABLE_KINDS, TableKind, check_installed
from gpt2viz.pictures.picture import Picture

if TYPE_CHECKING:
    import pandas as pd

    from gpt2viz.pictures.plotly.base import Figure

#: A text that begins with one of these can be run as a formula when a spreadsheet opens it
#: (OWASP, "CSV Injection"); the last four are the full-width forms that some take too.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

#: The last column of a CSV file, which says in its first row where the numbers come from.
ABOUT = "about"


def save_table(table: pd.DataFrame, path: str | Path, about: About | None = None) -> Path:
    """Write a table to ``path``, whose ending says how: ``.csv`` or ``.parquet``.

    See ``table_bytes``. Raises ``ExportError`` for another ending, and where the file can't be
    written.
    """
    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind not in TABLE_KINDS:
        raise ExportError(f"{path.name}: a table is saved as .csv or .parquet.")
    files.save(path, table_bytes(table, kind, about))
    return path


def table_bytes(table: pd.DataFrame, kind: TableKind, about: About | None = None) -> bytes:
    """A table as the content of a file, its index as the first column where that has names.

    Parquet holds every value as it is, and ``about`` as JSON in the file's metadata, under
    ``gpt2viz``. CSV has no place for that: its first row says it in one more column, ``about``.
    Where a *text* in a CSV begins with a sign of ``FORMULA``, an apostrophe is put before it, so
    that no spreadsheet runs it, and ``about`` says in how many cells. Numbers stay as they are.
    UTF-8, with the mark by which Excel knows it.
    """
    check_installed(kind)
    flat = _flat(table)
    if kind == "parquet":
        return _parquet(flat, about)
    safe, changed = _without_formulas(flat)
    if about is not None and len(safe):
        said = f"{about.title} · {about.source}"
        if changed:
            cells = "1 cell begins" if changed == 1 else f"{changed} cells begin"
            said += f" · {cells} with ' so that no spreadsheet runs it"
        safe[ABOUT] = [_text_cell(said), *[None] * (len(safe) - 1)]
    written: str = safe.to_csv(index=False, lineterminator="\r\n")
    return written.encode("utf-8-sig")


def figure_table(figure: Picture | Figure) -> pd.DataFrame:
    """The numbers of a picture, one row each, as they were drawn: see ``Picture.table``.

    ``figure`` is a picture, or a figure that gpt2viz drew such as ``trace.heatmap(1, 0)``. Raises
    ``ExportError`` for any other.
    """
    return picture_of(figure).table()


def picture_of(figure: Picture | Figure) -> Picture:
    """The picture that a figure was drawn from; a picture itself.

    Raises ``ExportError`` for a figure that isn't gpt2viz's: nothing reads numbers out of those.
    """
    found = figure if isinstance(figure, Picture) else getattr(figure, "picture", None)
    if found is None:
        raise ExportError("This figure isn't one that gpt2viz drew, or it is a copy of one.")
    return found


def _flat(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its index as a column, unless that only counts the rows."""
    import pandas as pd

    if isinstance(table.index, pd.RangeIndex) and table.index.name is None:
        return table.copy()
    return table.reset_index(names=table.index.name or "row")


def _without_formulas(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The table with an apostrophe before every text that could be run, and how many there are."""
    import pandas as pd

    changed = 0

    def safe(value: object) -> object:
        nonlocal changed
        made = _text_cell(value) if isinstance(value, str) else value
        changed += made is not value
        return made

    columns = [
        # Numbers keep their type, and so their spelling.
        column if pd.api.types.is_numeric_dtype(column) else column.astype(object).map(safe)
        for _, column in table.items()
    ]
    safe_cells = pd.concat(columns or [table], axis=1).copy()  # a copy is one piece in memory
    safe_cells.columns = pd.Index([safe(str(name)) for name in table.columns])
    return safe_cells, changed


def _text_cell(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA) else text


def _parquet(table: pd.DataFrame, about: About | None) -> bytes:
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    table.columns = pd.Index([str(name) for name in table.columns])
    found = pa.Table.from_pandas(table, preserve_index=False)
    if about is not None:
        said = {"gpt2viz": json.dumps(asdict(about), ensure_ascii=False)}
        found = found.replace_schema_metadata({**(found.schema.metadata or {}), **said})
    file = io.BytesIO()
    parquet.write_table(found, file)
    return file.getvalue()

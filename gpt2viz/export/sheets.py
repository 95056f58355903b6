"""Tables as CSV and Parquet, and the numbers of any picture as a table."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.parquet as pq

from gpt2viz import files
from gpt2viz.errors import ExportError
from gpt2viz.export.about import About

TableKind = Literal["csv", "parquet"]
TABLE_KINDS: tuple[TableKind, ...] = ("csv", "parquet")

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


def figure_table(figure: go.Figure) -> pd.DataFrame:
    """The numbers of a picture, one row each, as they were drawn.

    Of heatmaps: ``picture`` (its title), then row and column under their names ("query", "key"),
    and ``value``. A masked cell's value is what the run had there. Of curves and bars: ``series``,
    ``x``, ``y``. A picture without numbers gives a table without rows.
    """
    drawn = [_cells(matrix) for matrix in matrices(figure)]
    drawn += [pd.DataFrame({"series": n, "x": x, "y": y}) for n, _, x, y in series(figure)]
    drawn = [part for part in drawn if len(part)]
    return pd.concat(drawn, ignore_index=True) if drawn else pd.DataFrame()


class Drawn(NamedTuple):
    """A matrix of a picture: its title, what rows and columns are, their names, the numbers."""

    title: str
    y: str
    x: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: np.ndarray


def matrices(figure: go.Figure) -> list[Drawn]:
    """Every matrix of numbers that a picture draws."""
    return [_heatmap(figure, trace) for trace in figure.data if _holds_numbers(trace)]


def series(figure: go.Figure) -> list[tuple[str, str, list[object], list[object]]]:
    """Every row of bars and every curve of a picture: its name, "bar" or "scatter", x and y."""
    return [
        (_plain(trace.name or ""), trace.type, *(_named_points(figure, n, trace) for n in "xy"))
        for trace in figure.data
        if trace.type in ("bar", "scatter") and not _of_legend(trace)
    ]


def _holds_numbers(trace: go.Heatmap) -> bool:
    """True for a matrix of numbers, and not for the cells that are painted over it."""
    painted = (
        trace.type == "heatmap"
        and not trace.coloraxis
        and "%{z:" not in (trace.hovertemplate or "")
    )
    return bool(trace.type == "heatmap" and not painted)


def _heatmap(figure: go.Figure, trace: go.Heatmap) -> Drawn:
    values = np.asarray(trace.z)
    n_rows, n_columns = values.shape
    x, y = (_axis_title(figure, letter, trace) for letter in "xy")
    if x == y:  # heads meet heads: two columns still
        x, y = f"{x} (column)", f"{y} (row)"
    title = _title_over(figure, trace) or trace.name or ""
    return Drawn(title, y, x, _names(trace.y, n_rows), _names(trace.x, n_columns), values)


def _cells(drawn: Drawn) -> pd.DataFrame:
    """A matrix as a table, one row a number."""
    n_rows, n_columns = drawn.values.shape
    return pd.DataFrame(
        {
            "picture": drawn.title,
            drawn.y: np.repeat(np.array(drawn.rows, dtype=object), n_columns),
            drawn.x: np.tile(np.array(drawn.columns, dtype=object), n_rows),
            "value": drawn.values.ravel(),
        }
    ).dropna(subset="value")


def _of_legend(trace: go.Scatter | go.Bar) -> bool:
    """True for a line of the legend, which has no points."""
    return trace.x is None or trace.y is None or all(value is None for value in trace.x)


def _named_points(figure: go.Figure, letter: str, trace: go.Scatter | go.Bar) -> list[object]:
    """The points along one axis, by the names that the axis writes at them.

    Where it has names, but only for some, the others are texts too: a column has one type.
    """
    axis = _axis(figure, letter, trace)
    names = dict(zip(axis.tickvals or (), map(_plain, axis.ticktext or ()), strict=False))
    points = getattr(trace, letter)
    return [names.get(value, str(value)) for value in points] if names else list(points)


def _axis(
    figure: go.Figure, letter: str, trace: go.Heatmap | go.Scatter | go.Bar
) -> go.layout.XAxis:
    own = getattr(trace, f"{letter}axis") or letter
    return figure.layout[f"{letter}axis{own.removeprefix(letter)}"]


def _axis_title(figure: go.Figure, letter: str, trace: go.Heatmap) -> str:
    """What an axis is called; side by side, only the outer pictures carry the name."""
    axes = [name for name in figure.layout if name.startswith(f"{letter}axis")]
    titles = [_axis(figure, letter, trace).title.text]
    titles += [figure.layout[name].title.text for name in axes]
    return next(filter(None, titles), "row" if letter == "y" else "column")


def _title_over(figure: go.Figure, trace: go.Heatmap) -> str:
    """The title above a picture of several: Plotly keeps them as notes, in the axes' order."""
    place = int((trace.xaxis or "x").removeprefix("x") or 1) - 1
    titles = [note.text for note in figure.layout.annotations if note.yanchor == "bottom"]
    return _plain(titles[place]) if place < len(titles) else ""


def _names(names: object, count: int) -> list[str]:
    listed = range(count) if names is None else list(names)  # type: ignore[call-overload]
    return [_plain(str(name)) for name in listed]


def _plain(text: str) -> str:
    """Plotly's markup back to text: see ``labels.markup_safe``."""
    text = text.replace("<br>", " ")
    for char, entity in (("<", "&lt;"), (">", "&gt;"), ("$", "&#36;"), ("&", "&amp;")):
        text = text.replace(entity, char)
    return text


def _flat(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its index as a column, unless that only counts the rows."""
    if isinstance(table.index, pd.RangeIndex) and table.index.name is None:
        return table.copy()
    return table.reset_index(names=table.index.name or "row")


def _without_formulas(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The table with an apostrophe before every text that could be run, and how many there are."""
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
    table.columns = pd.Index([str(name) for name in table.columns])
    found = pa.Table.from_pandas(table, preserve_index=False)
    if about is not None:
        said = {"gpt2viz": json.dumps(asdict(about), ensure_ascii=False)}
        found = found.replace_schema_metadata({**(found.schema.metadata or {}), **said})
    file = io.BytesIO()
    pq.write_table(found, file)
    return file.getvalue()

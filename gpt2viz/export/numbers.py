"""Numbers as files: a run's arrays, tables, and any picture's numbers as one."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from gpt2viz import files
from gpt2viz.errors import ExportError
from gpt2viz.export.about import About, about
from gpt2viz.extras import require
from gpt2viz.pictures.picture import Picture
from gpt2viz.run.captured import array_name
from gpt2viz.run.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

    from gpt2viz.pictures.plotly.figure import Figure

TraceKind = Literal["npz", "safetensors"]
TRACE_KINDS: tuple[TraceKind, ...] = ("npz", "safetensors")
TableKind = Literal["csv", "parquet"]
TABLE_KINDS: tuple[TableKind, ...] = ("csv", "parquet")
PictureKind = Literal["svg", "pdf", "png"]
PICTURE_KINDS: tuple[PictureKind, ...] = ("svg", "pdf", "png")

#: Ending -> the smallest extra that writes such a file, and the modules that it needs for that.
#: Curves and bars need a browser besides: see `export.chromium`.
_NEEDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "html": ("notebook", ("pandas",)),
    "csv": ("notebook", ("pandas",)),
    "parquet": ("export", ("pandas", "pyarrow")),
    **dict.fromkeys(("pdf", "png"), ("export", ("typst",))),
}

#: A text that begins with one of these can be run as a formula when a spreadsheet opens it
#: (OWASP, "CSV Injection"); the last four are the full-width forms that some take too.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

#: The last column of a CSV file, whose first row has the numbers' origin.
ABOUT = "about"


def check_installed(kind: str) -> None:
    """Raise ``MissingExtraError`` if the modules to write a file of that ending are missing."""
    extra, modules = _NEEDS.get(kind, ("", ()))
    with require(f"A .{kind} file", extra):
        for name in modules:
            import_module(name)


def save_trace(trace: Trace, path: str | Path) -> Path:
    """Write a trace to ``path``, in the format of its ending: ``.npz`` or ``.safetensors``.

    See ``trace_bytes`` for its content; ``gpt2viz.load_trace`` reads it. Raises ``ExportError``
    for another ending, and if the file can't be written.
    """
    path = Path(path)
    kind = cast("TraceKind", path.suffix.removeprefix(".").lower())
    files.save(path, trace_bytes(trace, kind))
    return path


def trace_bytes(trace: Trace, kind: TraceKind) -> bytes:
    """A trace as the content of a file.

    ``arrays`` lists its arrays. The run's description is in the metadata: in safetensors the
    header's, each value as text, in npz a text array ``about`` with the same as one JSON object.
    Nothing in either file can run code. Raises ``ExportError`` for another kind.
    """
    if kind not in TRACE_KINDS:
        raise ExportError(f"A trace is saved as .npz or .safetensors, not as {kind!r:.40}.")
    numbers, about = arrays(trace), metadata(trace)
    if kind == "safetensors":
        return _sort_metadata(save(numbers, about))
    file = io.BytesIO()
    np.savez(file, about=np.array(json.dumps(about)), **numbers)  # type: ignore[arg-type]
    return file.getvalue()


def _sort_metadata(file: bytes) -> bytes:
    """Sort the metadata of a safetensors file, which the library writes in any order.

    The header is the JSON object after its own length (8 bytes, little-endian); tensors' offsets
    count from its end.
    """
    length = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    written = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    written += b" " * (-len(written) % 8)  # so that the numbers begin at a multiple of 8
    return len(written).to_bytes(8, "little") + written + file[8 + length :]


def arrays(trace: Trace) -> dict[str, NDArray[np.generic]]:
    """Every array that a trace holds: ``weights.3`` is layer 3's, ``embedding`` is of no layer.

    Shapes are those of ``gpt2viz.STAGES``, in float32. Besides: ``token_ids`` (T,) int64,
    ``next_token_probabilities`` (B, n_vocab), ``forbidden`` (T, T) where edits hid keys, and
    ``patch_from`` (T,), the ids of the text that patches copied from. For a long text the
    stages that follow from others are left out; ``metadata`` names them.
    """
    numbers: dict[str, NDArray[np.generic]] = {
        array_name(name): np.ascontiguousarray(array) for name, array in trace.captured.items()
    }
    numbers["token_ids"] = np.array(trace.token_ids, np.int64)
    numbers["next_token_probabilities"] = np.ascontiguousarray(trace.next_token_probabilities)
    if trace.forbidden is not None:
        numbers["forbidden"] = np.ascontiguousarray(trace.forbidden)
    if trace.patch_from:
        numbers["patch_from"] = np.array(trace.patch_from, np.int64)
    return numbers


def metadata(trace: Trace) -> dict[str, str]:
    """The run's description, as names and texts: all of ``About``, and tokens and sizes as JSON.

    ``token_bytes`` are each token's bytes in hex; ``left_out`` the stages that are not in the
    file because they follow from q, k and v, or from what was added to the stream.
    """
    stages = {key for key, _ in trace.captured}
    texts = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in asdict(about(trace, "trace")).items()
        if key not in ("layer", "head")
    }
    return texts | {
        "tokens": json.dumps(trace.tokens),
        "token_bytes": json.dumps([part.hex() for part in trace.token_bytes]),
        "config": json.dumps(asdict(trace.config)),
        "left_out": json.dumps([n for n, s in trace.graph.items() if s.keep and n not in stages]),
    }


def save_table(table: pd.DataFrame, path: str | Path, about: About | None = None) -> Path:
    """Write a table to ``path``, in the format of its ending: ``.csv`` or ``.parquet``.

    See ``table_bytes``. Raises ``ExportError`` as that does, and if the file can't be written.
    """
    path = Path(path)
    kind = cast("TableKind", path.suffix.removeprefix(".").lower())
    files.save(path, table_bytes(table, kind, about))
    return path


def table_bytes(table: pd.DataFrame, kind: TableKind, about: About | None = None) -> bytes:
    """A table as the content of a file, its index as the first column if it has names.

    Parquet holds every value unchanged, and ``about`` as JSON in the file's metadata, under
    ``gpt2viz``. CSV has no metadata: its first row has it in one more column, ``about``.
    A *text* in a CSV that begins with a sign of ``FORMULA`` gets an apostrophe before it, so
    that no spreadsheet runs it, and ``about`` says in how many cells. Numbers don't change.
    UTF-8, with the byte-order mark by which Excel recognizes it. Raises ``ExportError`` for another
    kind, and for an index with the name of a column.
    """
    if kind not in TABLE_KINDS:
        raise ExportError(f"A table is saved as .csv or .parquet, not as {kind!r:.40}.")
    check_installed(kind)
    flat = _flat(table)
    if kind == "parquet":
        return _parquet(flat, about)
    safe, changed = _escape_formulas(flat)
    if about is not None and len(safe):
        header = f"{about.title} · {about.source}"
        if changed:
            cells = "1 cell begins" if changed == 1 else f"{changed} cells begin"
            header += f" · {cells} with ' so that no spreadsheet runs it"
        safe[ABOUT] = [_text_cell(header), *[None] * (len(safe) - 1)]
    written: str = safe.to_csv(index=False, lineterminator="\r\n")
    return written.encode("utf-8-sig")


def figure_table(figure: Picture | Figure) -> pd.DataFrame:
    """The numbers of a picture, one row each, as they were drawn: see ``Picture.table``.

    ``figure`` is a picture, or a figure that gpt2viz drew such as ``trace.heatmap(1, 0)``. Raises
    ``ExportError`` for any other.
    """
    return picture_of(figure).table()


def picture_of(figure: Picture | Figure) -> Picture:
    """The picture that a figure was drawn from, or the given picture itself.

    Raises ``ExportError`` for a figure that isn't gpt2viz's: nothing reads numbers out of those.
    """
    picture = figure if isinstance(figure, Picture) else getattr(figure, "picture", None)
    if picture is None:
        raise ExportError("This figure isn't one that gpt2viz drew, or it is a copy of one.")
    return picture


def _flat(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its index as columns, unless that only counts the rows."""
    import pandas as pd

    if isinstance(table.index, pd.RangeIndex) and table.index.name is None:
        return table.copy()
    names = [name or f"row{level or ''}" for level, name in enumerate(table.index.names)]
    try:
        return table.reset_index(names=names)
    except ValueError as error:
        raise ExportError(f"The index and the columns need different names ({error}).") from None


def _escape_formulas(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The table with an apostrophe before every text that could be run, and the number of these."""
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
    columns = pa.Table.from_pandas(table, preserve_index=False)
    if about is not None:
        fields = {"gpt2viz": json.dumps(asdict(about), ensure_ascii=False)}
        columns = columns.replace_schema_metadata({**(columns.schema.metadata or {}), **fields})
    file = io.BytesIO()
    parquet.write_table(columns, file)
    return file.getvalue()

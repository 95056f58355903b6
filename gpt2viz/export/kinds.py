"""The kinds of files: their endings, and what must be installed to write each."""

from __future__ import annotations

from importlib import import_module
from typing import Literal

from gpt2viz.extras import needed

TraceKind = Literal["npz", "safetensors"]
TRACE_KINDS: tuple[TraceKind, ...] = ("npz", "safetensors")
TableKind = Literal["csv", "parquet"]
TABLE_KINDS: tuple[TableKind, ...] = ("csv", "parquet")
PictureKind = Literal["svg", "pdf", "png"]
PICTURE_KINDS: tuple[PictureKind, ...] = ("svg", "pdf", "png")

#: Ending -> the smallest extra that writes such a file, and the modules that it brings for that.
#: What a picture needs besides, `export.chromium.missing` says.
_NEEDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "html": ("notebook", ("plotly", "pandas")),
    "csv": ("notebook", ("pandas",)),
    "parquet": ("export", ("pandas", "pyarrow")),
    **dict.fromkeys(PICTURE_KINDS, ("export", ("plotly",))),
}


def check_installed(kind: str) -> None:
    """Raise ``MissingExtraError`` where a file of that ending can't be written for want of one."""
    extra, modules = _NEEDS.get(kind, ("", ()))
    with needed(f"A .{kind} file", extra):
        for name in modules:
            import_module(name)

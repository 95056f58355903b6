"""A picture as SVG, PDF or PNG for print, made without any network; or as HTML.

Matrices, maps and lines are written as SVG here, and as PDF and PNG by Typst, without a browser.
Chromium draws curves and bars, which are Plotly's, and all of them where Typst isn't installed.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gpt2viz import __version__, files
from gpt2viz.errors import ExportError
from gpt2viz.export.about import About
from gpt2viz.export.chromium import browser, can_draw, draw, missing
from gpt2viz.export.metadata import label_pdf, label_png, label_svg, svg_heads
from gpt2viz.export.numbers import PICTURE_KINDS, PictureKind, check_installed
from gpt2viz.extras import needed
from gpt2viz.pictures import svg
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.picture import Picture

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Pixels an inch: of a PNG, and as Plotly and browsers draw.
DPI, PLOTLY_DPI = 300, 96

_INCHES = {"cm": 1 / 2.54, "mm": 1 / 25.4, "in": 1.0, "pt": 1 / 72, "px": 1 / PLOTLY_DPI}
_LENGTH = re.compile(rf"\s*(\d+(?:\.\d*)?|\.\d+)\s*({'|'.join(_INCHES)})\s*")
#: A metre.
_WIDEST = 3780


def save_figure(
    figure: Picture | go.Figure,
    path: str | Path,
    about: About | None = None,
    *,
    width: float | str | None = None,
    height: int | None = None,
) -> Path:
    """Write a picture to ``path``, whose ending says how: .svg, .pdf, .png or .html.

    See ``figure_bytes`` for the size; a page (.html) is as wide as its window. Raises
    ``ExportError`` for another ending, and where kaleido or Chromium is missing.
    """
    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind == "html":
        check_installed(kind)
        from gpt2viz.export.page import page_html

        title = about.title if about else "gpt2viz"
        files.save(path, page_html([(title, figure)], about).encode())
    elif kind in PICTURE_KINDS:
        files.save(path, figure_bytes(figure, kind, about, width=width, height=height))
    else:
        raise ExportError(f"{path.name}: a picture is saved as .svg, .pdf, .png or .html.")
    return path


def figure_bytes(
    figure: Picture | go.Figure,
    kind: PictureKind,
    about: About | None = None,
    *,
    width: float | str | None = None,
    height: int | None = None,
) -> bytes:
    """A picture as the content of a file, on white paper, with ``about`` as its caption.

    ``width`` is the figure's own by default. Another, such as a column's "8.5cm" or a number of
    Plotly's pixels, 96 to the inch, lays the figure out anew, with letters of at least 6 pt; its
    height follows, unless ``height`` says in pixels what all of it shall have. A PNG has 300
    pixels to the inch. Every kind carries ``about`` in its metadata too, and is byte for byte the
    same when it is made again with the same programs. A figure of ours that was changed since is
    drawn by Plotly, as it was changed. Raises ``ExportError`` for a width without room, and where
    kaleido or Chromium is needed and missing or fails, or doesn't answer within a minute.
    """
    across = None if width is None else pixels(width)
    sheet = sheet_of(figure, about, across, height)
    if sheet and kind == "svg":
        return sheet.svg(svg_heads(about)).encode()
    if sheet and _has_typst():
        return _label(_print(sheet, kind), kind, about)
    with needed(f"This picture as .{kind}", "export"):
        drawn = _on_paper(figure, about, across, height)
    if lacks := missing():
        raise ExportError(lacks)
    scale = DPI / PLOTLY_DPI if kind == "png" else 1
    size = {"width": drawn.layout.width, "height": drawn.layout.height}
    made = draw(drawn.to_dict(), {"format": kind, "scale": scale, **size}, browser())
    try:
        return _label(made, kind, about)
    except ValueError as error:  # another Chromium may write its files in another way
        raise ExportError(f"Chromium's .{kind} can't be read ({error}). Try .html.") from None


def prints(picture: Picture) -> bool:
    """True if a picture becomes a PDF on this machine: by Typst, or else by Chromium."""
    return (isinstance(picture, svg.Drawable) and _has_typst()) or can_draw()


def _has_typst() -> bool:
    return find_spec("typst") is not None


_PAGE = b"""#set document(date: none)
#set page(width: auto, height: auto, margin: 0pt)
#image(bytes(sys.inputs.svg), format: "svg")"""


def _print(sheet: svg.Sheet, kind: PictureKind) -> bytes:
    """A sheet as a PDF that has its letters' fonts in it, or as a PNG."""
    import typst

    return bytes(typst.compile(_PAGE, format=kind, ppi=DPI, sys_inputs={"svg": sheet.svg("")}))


def pixels(length: float | str) -> int:
    """A length in Plotly's pixels, 96 to the inch: "8.5cm", "85mm", "3.35in", "241pt" or "321px".

    A number is in pixels already. Raises ``ExportError`` for what is no length, and for none or
    more than a metre.
    """
    parts = _LENGTH.fullmatch(length) if isinstance(length, str) else None
    if isinstance(length, str) and not parts:
        raise ExportError(f"{length!r} isn't a width: write 8.5cm, 85mm, 3.35in, 241pt or 321px.")
    size = float(parts[1]) * _INCHES[parts[2]] * PLOTLY_DPI if parts else float(length)
    if not 1 <= size <= _WIDEST:
        raise ExportError(f"A picture can't be {length} wide: at most a metre.")
    return round(size)


def sheet_of(
    figure: Picture | go.Figure,
    about: About | None = None,
    width: int | None = None,
    height: int | None = None,
) -> svg.Sheet | None:
    """A picture as SVG on white paper; None for curves, bars and figures that others drew."""
    picture = figure if isinstance(figure, Picture) else getattr(figure, "unchanged", None)
    if not isinstance(picture, svg.Drawable):
        return None
    own = None
    if not isinstance(figure, Picture):
        own = figure.layout.width, figure.layout.height
    caption = about.caption if about else ()
    return svg.draw(picture, LIGHT, width=width, height=height, own=own, caption=caption)


def on_paper(
    figure: Picture | go.Figure,
    about: About | None = None,
    width: int | None = None,
    height: int | None = None,
) -> go.Figure:
    """A picture on white paper, with ``about`` as a caption, for what draws Plotly's figures.

    Sizes are in pixels, see ``figure_bytes``. Raises ``ExportError`` for a width without room.
    """
    with needed("gpt2viz.export.on_paper", "notebook"):
        return _on_paper(figure, about, width, height)


def _on_paper(
    figure: Picture | go.Figure, about: About | None, width: int | None, height: int | None
) -> go.Figure:
    from gpt2viz.export import paper

    if sheet := sheet_of(figure, about, width, height):
        return paper.as_figure(sheet)
    return paper.lay_out(figure, about, width, height)


def _label(picture: bytes, kind: PictureKind, about: About | None) -> bytes:
    """The picture with its metadata, and without what differs from one time to the next."""
    texts = {} if about is None else {"Title": about.title, "gpt2viz": about.as_json()}
    if kind == "pdf":
        version = about.version if about else __version__
        source = {"Subject": about.source} if about else {}
        return label_pdf(picture, texts | source | {"Creator": f"gpt2viz {version}"})
    if kind == "png":
        source = {"Description": about.source} if about else {}
        return label_png(picture, texts | source, DPI)
    return label_svg(picture, about)

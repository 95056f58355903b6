"""A picture as SVG, PDF or PNG for print, made by Chromium without any network; or as HTML."""

from __future__ import annotations

import html
import re
from pathlib import Path

import plotly.graph_objects as go

from gpt2viz import __version__, files
from gpt2viz.errors import ExportError
from gpt2viz.export import pdf, png
from gpt2viz.export.about import About
from gpt2viz.export.chromium import browser, draw, missing
from gpt2viz.export.kinds import PICTURE_KINDS, PictureKind
from gpt2viz.export.page import page_html
from gpt2viz.export.paper import on_paper
from gpt2viz.export.sized import PLOTLY_DPI, pixels
from gpt2viz.pictures.picture import Picture

#: Pixels an inch of a PNG.
DPI = 300
#: The random name that plotly.js gives to the parts of every picture, and ours.
_NAME = re.compile(rb'id="defs-([0-9a-f]+)"')
_SAME = b"gpt2viz"


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
    same when it is made again with the same Chromium. Raises ``ExportError`` for a width without
    room, and where kaleido or Chromium is missing or fails, or doesn't answer within a minute.
    """
    drawn = on_paper(figure, about, None if width is None else pixels(width), height)
    if lacks := missing():
        raise ExportError(lacks)
    scale = DPI / PLOTLY_DPI if kind == "png" else 1
    size = {"width": drawn.layout.width, "height": drawn.layout.height}
    made = draw(drawn.to_dict(), {"format": kind, "scale": scale, **size}, browser())
    try:
        return _told(made, kind, about)
    except ValueError as error:  # another Chromium may write its files in another way
        raise ExportError(f"Chromium's .{kind} can't be read ({error}). Try .html.") from None


def _told(picture: bytes, kind: PictureKind, about: About | None) -> bytes:
    """The picture with its metadata, and without what differs from one time to the next."""
    texts = {} if about is None else {"Title": about.title, "gpt2viz": about.as_json()}
    if kind == "pdf":
        version = about.version if about else __version__
        source = {"Subject": about.source} if about else {}
        return pdf.with_metadata(picture, texts | source | {"Creator": f"gpt2viz {version}"})
    if kind == "png":
        source = {"Description": about.source} if about else {}
        return png.with_metadata(picture, texts | source, DPI)
    picture = _named_alike(picture)
    if about is None:
        return picture
    end = picture.index(b">") + 1  # of the tag <svg …>
    said = f"<title>{html.escape(about.title)}</title><desc>{html.escape(about.source)}</desc>"
    said += f"<metadata>{html.escape(about.as_json())}</metadata>"
    return picture[:end] + said.encode() + picture[end:]


def _named_alike(picture: bytes) -> bytes:
    """An SVG whose parts, such as ``clip3f2a1bxy``, have the same names every time."""
    if not (random := _NAME.search(picture)):
        return picture
    parts = rb"(?<=[\"#])((?:top)?defs-|clip|legend|g|p)" + random[1]
    return re.sub(parts, rb"\1" + _SAME, picture)

"""A picture as SVG, PDF or PNG for print, made without a network; or as HTML.

Matrices, maps and lines are written as SVG here. Curves and bars are drawn by the app's own script
in Chromium, and figures that gpt2viz didn't draw by Plotly, in Chromium too. Typst makes PDF and
PNG from the SVG.
"""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gpt2viz import __version__, files
from gpt2viz.errors import ExportError
from gpt2viz.export.about import About
from gpt2viz.export.chromium import LIMIT, browser, require_browser, run_page
from gpt2viz.export.metadata import label_pdf, label_png, svg_heads
from gpt2viz.export.numbers import PICTURE_KINDS, PictureKind, check_installed
from gpt2viz.extras import require
from gpt2viz.pictures import svg
from gpt2viz.pictures.chart import chart
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.picture import Lens, Picture
from gpt2viz.pictures.sheet import FONT_SIZE, LINE, MIN_FONT_SIZE, Sheet, caption_lines

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Pixels per inch: of a PNG, and of Plotly's and browsers' drawings.
DPI, PLOTLY_DPI = 300, 96

_INCHES = {"cm": 1 / 2.54, "mm": 1 / 25.4, "in": 1.0, "pt": 1 / 72, "px": 1 / PLOTLY_DPI}
_LENGTH = re.compile(rf"\s*(\d+(?:\.\d*)?|\.\d+)\s*({'|'.join(_INCHES)})\s*")
#: Pixels: the largest width, a metre, and the smallest width and height of charts.
_WIDEST, _NARROWEST, _LOWEST = 3780, 160, 120


def save_figure(
    figure: Picture | go.Figure,
    path: str | Path,
    about: About | None = None,
    *,
    width: float | str | None = None,
    height: int | None = None,
) -> Path:
    """Write a picture to ``path``, in the format of its ending: .svg, .pdf, .png or .html.

    See ``figure_bytes`` for the size; a page (.html) is as wide as its window. Raises
    ``ExportError`` for another ending, and as ``figure_bytes`` does.
    """
    path = Path(path)
    kind = cast("PictureKind", path.suffix.removeprefix(".").lower())
    if path.suffix.lower() == ".html":
        check_installed(kind)
        from gpt2viz.export.page import page_html

        title = about.title if about else "gpt2viz"
        files.save(path, page_html([(title, figure)], about).encode())
    else:
        files.save(path, figure_bytes(figure, kind, about, width=width, height=height))
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
    height follows, unless ``height`` sets the total in pixels. A PNG has 300
    pixels to the inch. Every kind carries ``about`` in its metadata too, and is byte for byte the
    same when it is made again with the same programs. A figure of ours that was changed since is
    drawn by Plotly, with its changes. Raises ``ExportError`` for another kind, a width or height
    without room, and if Chromium is needed and missing or fails, or doesn't answer within a minute;
    ``MissingExtraError`` without Typst or, for a figure that gpt2viz didn't draw, kaleido.
    """
    if kind not in PICTURE_KINDS:
        raise ExportError(f"A picture is saved as .svg, .pdf, .png or .html, not as {kind!r:.40}.")
    sheet = _draw_sheet(figure, about, None if width is None else pixels(width), height)
    if kind == "svg":
        return sheet.svg(svg_heads(about)).encode()
    with require(f"A picture as .{kind}", "export"):
        made = _print(sheet, kind)
    return _label(made, kind, about)


def prints(picture: Picture) -> bool:
    """True if a picture can become a PDF on this machine."""
    drawn = isinstance(picture, svg.Drawable) or browser() is not None
    return drawn and find_spec("typst") is not None


_PAGE = b"""#set document(date: none)
#set page(width: auto, height: auto, margin: 0pt)
#image(bytes(sys.inputs.svg), format: "svg")"""


def _print(sheet: Sheet, kind: PictureKind) -> bytes:
    """Print a sheet as a PDF with its fonts embedded, or as a PNG."""
    import typst

    return bytes(typst.compile(_PAGE, format=kind, ppi=DPI, sys_inputs={"svg": sheet.svg("")}))


def pixels(length: float | str) -> int:
    """A length in Plotly's pixels, 96 to the inch: "8.5cm", "85mm", "3.35in", "241pt" or "321px".

    A plain number is in pixels. Raises ``ExportError`` for anything else, and for less than
    a pixel or more than a metre.
    """
    parts = _LENGTH.fullmatch(length) if isinstance(length, str) else None
    if isinstance(length, str) and not parts:
        raise ExportError(f"{length!r} isn't a width: write 8.5cm, 85mm, 3.35in, 241pt or 321px.")
    size = float(parts[1]) * _INCHES[parts[2]] * PLOTLY_DPI if parts else float(length)
    if not 1 <= size <= _WIDEST:
        raise ExportError(f"A picture is from a pixel to a metre wide, not {length}.")
    return round(size)


def sheet_of(
    figure: Picture | go.Figure,
    about: About | None = None,
    width: int | None = None,
    height: int | None = None,
) -> Sheet | None:
    """A picture as SVG on white paper; None for curves, bars and figures of other programs."""
    picture = our_picture(figure)
    if not isinstance(picture, svg.Drawable):
        return None
    own = None
    if not isinstance(figure, Picture):
        own = figure.layout.width, figure.layout.height
    caption = about.caption if about else ()
    return svg.draw(picture, LIGHT, width=width, height=height, own=own, caption=caption)


def _draw_sheet(
    figure: Picture | go.Figure, about: About | None, width: int | None, height: int | None
) -> Sheet:
    """Draw any picture on white paper, with its caption: see ``figure_bytes``."""
    if sheet := sheet_of(figure, about, width, height):
        return sheet
    picture = our_picture(figure)
    own = svg.WIDTH if picture else figure.layout.width or svg.WIDTH  # type: ignore[union-attr]
    wide = width or own
    if wide < _NARROWEST:
        least = _NARROWEST / PLOTLY_DPI * 2.54
        raise ExportError(f"Curves and bars need a picture at least {least:.1f} cm wide.")
    sheet = Sheet(wide, LIGHT, min(1.0, max(wide / own, MIN_FONT_SIZE / FONT_SIZE)))
    size = sheet.size(FONT_SIZE)
    caption = about.caption if about else ()
    under = LINE * size * (2 + len(caption_lines(caption, wide, size)))
    room = None if height is None else (height - under) / sheet.ratio
    parts = _charts(picture, round(wide / sheet.ratio), room) if picture else None
    for part, tall in parts or [_foreign(figure, round(wide / sheet.ratio), room)]:
        sheet.insert(part, tall)
    sheet.end(caption, height, LINE * size)
    return sheet


def our_picture(figure: Picture | go.Figure) -> Picture | None:
    """The picture that a figure shows; None if it isn't ours, or was changed."""
    return figure if isinstance(figure, Picture) else getattr(figure, "unchanged", None)


def _charts(picture: Picture, width: int, height: float | None) -> list[tuple[str, float]]:
    """Curves and bars as SVG, each with its height; a lens's matrix is above its curves."""
    parts, sent = [], chart(picture, LIGHT)
    if isinstance(picture, Lens):
        matrix = svg.draw(picture.tokens, width=width)
        parts = [(matrix.svg(), matrix.height)]
    if height is not None:
        sent["height"] = max(_LOWEST, height - sum(tall for _, tall in parts))
    data = json.dumps({"pictures": [sent], "width": width}).replace("<", "\\u003c")
    script = files.scripts({"draw": "chart_svg"}, f"draw(document, {data})")
    page = f'<!doctype html><meta charset="utf-8"><body><script>{script}</script></body>'
    ((drawn, tall),) = json.loads(run_page(page))
    return [*parts, (drawn, tall)]


def _foreign(figure: go.Figure, width: int, height: float | None) -> tuple[str, float]:
    """A changed or foreign figure as Plotly draws it: its SVG and its height."""
    with require("Another program's figure as a file", "export"):
        import kaleido

    tall = figure.layout.height or 450 if height is None else max(_LOWEST, height)
    options = {"format": "svg", "width": width, "height": tall}
    # MathJax would come from the network; labels are never LaTeX.
    program = {"path": require_browser(), "mathjax": False, "timeout": LIMIT}
    made: bytes = kaleido.calc_fig_sync(figure.to_dict(), opts=options, kopts=program)
    return made.decode(), tall


def _label(picture: bytes, kind: PictureKind, about: About | None) -> bytes:
    """Give the PDF or PNG its metadata, and remove what differs each time."""
    texts = {} if about is None else {"Title": about.title, "gpt2viz": about.as_json()}
    if kind == "pdf":
        version = about.version if about else __version__
        source = {"Subject": about.source} if about else {}
        return label_pdf(picture, texts | source | {"Creator": f"gpt2viz {version}"})
    source = {"Description": about.source} if about else {}
    return label_png(picture, texts | source, DPI)

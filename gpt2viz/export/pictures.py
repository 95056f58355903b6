"""A picture as SVG, PDF or PNG for print, made by Chromium without any network; or as HTML."""

from __future__ import annotations

import html
import os
import shutil
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import plotly.graph_objects as go

from gpt2viz.errors import ExportError
from gpt2viz.export.about import About
from gpt2viz.export.page import page_html
from gpt2viz.export.paper import on_paper
from gpt2viz.export.png import with_metadata

PictureKind = Literal["svg", "pdf", "png"]
PICTURE_KINDS: tuple[PictureKind, ...] = ("svg", "pdf", "png")

#: Pixels an inch of a PNG; Plotly draws 96 to the inch.
DPI = 300
PLOTLY_DPI = 96

INSTALL = (
    "Pictures are drawn by Chromium or Chrome through kaleido. Install both on this machine: "
    "`pip install kaleido`, and Chromium (such as `apt-get install chromium`) or "
    "`kaleido_get_chrome`. A picture as .html needs neither."
)

# One Chromium at a time: each takes a quarter of a gigabyte.
_TURN = threading.Lock()


def can_draw() -> bool:
    """Whether this machine has what ``figure_bytes`` needs: kaleido, and Chromium or Chrome."""
    return find_spec("kaleido") is not None and _browser() is not None


def save_figure(
    figure: go.Figure,
    path: str | Path,
    about: About | None = None,
    *,
    width: int | None = None,
    height: int | None = None,
) -> Path:
    """Write a picture to ``path``, whose ending says how: .svg, .pdf, .png or .html.

    See ``figure_bytes`` for the size. Raises ``ExportError`` for another ending, and where
    kaleido or Chromium is missing.
    """
    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind == "html":
        title = about.title if about else "gpt2viz"
        path.write_text(page_html([(title, figure)], about), encoding="utf-8")
    elif kind in PICTURE_KINDS:
        path.write_bytes(figure_bytes(figure, kind, about, width=width, height=height))
    else:
        raise ExportError(f"{path.name}: a picture is saved as .svg, .pdf, .png or .html.")
    return path


def figure_bytes(
    figure: go.Figure,
    kind: PictureKind,
    about: About | None = None,
    *,
    width: int | None = None,
    height: int | None = None,
) -> bytes:
    """A picture as the content of a file, on white paper, with ``about`` as its caption.

    ``width`` and ``height`` are in Plotly's pixels, 96 to the inch, by default 720 and the
    figure's own height with its caption; a PNG has 300 pixels to the inch. SVG and PNG carry
    ``about`` in their metadata too. Raises ``ExportError`` where kaleido or Chromium is missing
    or fails.
    """
    if not can_draw():
        raise ExportError(INSTALL)
    import kaleido
    from kaleido.errors import BrowserFailedError, ChromeNotFoundError, KaleidoError

    drawn = on_paper(figure, about, width, height)
    scale = DPI / PLOTLY_DPI if kind == "png" else 1
    size = {"width": drawn.layout.width, "height": drawn.layout.height}
    try:
        with _TURN:
            made: bytes = kaleido.calc_fig_sync(
                drawn.to_dict(),
                opts={"format": kind, "scale": scale, **size},
                # MathJax would come from the network; labels are never LaTeX.
                kopts={"mathjax": False, "path": _browser(), "timeout": 60},
            )
    except (ChromeNotFoundError, BrowserFailedError, KaleidoError, TimeoutError) as error:
        raise ExportError(f"Chromium could not draw the picture: {error}") from None
    return made if about is None else _told(made, kind, about)


def _told(picture: bytes, kind: PictureKind, about: About) -> bytes:
    """The picture with its metadata."""
    if kind == "svg":
        end = picture.index(b">") + 1  # of the tag <svg …>
        said = f"<title>{html.escape(about.title)}</title><desc>{html.escape(about.source)}</desc>"
        said += f"<metadata>{html.escape(about.as_json())}</metadata>"
        return picture[:end] + said.encode() + picture[end:]
    if kind == "png":
        texts = {"Title": about.title, "Description": about.source, "gpt2viz": about.as_json()}
        return with_metadata(picture, texts, DPI)
    return picture


def _browser() -> str | None:
    """Chromium or another browser of its kind; ``CHROMIUM`` and ``BROWSER_PATH`` come first."""
    for name in ("CHROMIUM", "BROWSER_PATH"):
        if os.environ.get(name):
            return shutil.which(os.environ[name])
    if find_spec("choreographer") is None:
        return None
    from choreographer.browsers.chromium import Chromium

    return Chromium.find_browser(skip_local=False)

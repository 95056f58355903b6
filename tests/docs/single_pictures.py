"""Make the gallery's single pictures: run each of its lines and save the picture.

python -m tests.docs.single_pictures

Writes docs/pictures/one-NAME.png, at most ``WIDEST`` pixels wide and in 64 colours, with the line
that drew it in the metadata. It asserts nothing: the test of the gallery does.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import FloatRect, sync_playwright

import gpt2viz
from gpt2viz import export
from tests.browser.conftest import FLAGS, find_chromium
from tests.docs.gallery import DOCS

WIDEST = 720
#: A line, and the picture below it.
ENTRY = re.compile(
    r"^```python\n(?P<line>[^\n]+)\n```\n\n!\[[^]]+\]\((?P<picture>pictures/one-[^)]+)\)$",
    re.MULTILINE,
)


def entries() -> list[tuple[str, Path]]:
    """(line, picture) of all entries that the gallery draws with one line."""
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    return [(line, DOCS / picture) for line, picture in ENTRY.findall(text)]


def drawn() -> Iterator[tuple[str, Path, Any]]:
    """(line, picture, result of the line), each line run after the gallery's first code block."""
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    beginning = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    space: dict[str, Any] = {}
    exec(beginning, space)  # noqa: S102 (our own guide)
    for line, picture in entries():
        yield line, picture, eval(line, space)  # noqa: S307 (ours)


def as_png(made: Any) -> bytes:
    """A figure, redrawn narrower if it is too wide, or a view, as PNG."""
    if isinstance(made, gpt2viz.AttentionView):
        return screenshot(made)
    wide = made.layout.width > WIDEST
    return export.figure_bytes(made, "png", width=WIDEST if wide else None)


ABOVE_NOTES: FloatRect = {"x": 0, "y": 0, "width": 1000, "height": 530}


def screenshot(view: gpt2viz.AttentionView) -> bytes:
    """A view's page in a browser, as PNG."""
    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1000, "height": 570})
        page.goto(view.save(Path(folder) / "view.html").as_uri())
        page.wait_for_selector(".tiles[aria-label]")
        page.wait_for_timeout(500)  # fonts
        shot = page.screenshot(clip=ABOVE_NOTES)
        browser.close()
    return shot


def main() -> None:
    """Draw all single pictures."""
    for line, target, made in drawn():
        picture = Image.open(io.BytesIO(as_png(made))).convert("RGB")
        picture.thumbnail((WIDEST, WIDEST), Image.Resampling.LANCZOS)
        message = PngInfo()
        message.add_text("line", line)
        picture.quantize(64, kmeans=2).save(target, optimize=True, pnginfo=message)
        print(f"{target.name}, {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

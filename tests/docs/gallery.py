"""Make the gallery's pictures: open each of its links and photograph what a visitor sees.

    make gallery

Writes docs/pictures/PAGE.png for every link of docs/gallery.md, the first page wide and narrow,
light and dark, and the README's pictures. It asserts nothing: the test of the gallery does.
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

from gpt2viz.settings import PACKAGED_VARIABLE
from tests.browser.conftest import FLAGS, find_chromium, running_app, settle

DOCS = Path(__file__).parents[2] / "docs"
#: A heading that links to a page of the app, and the picture below it.
ENTRY = re.compile(
    r"^## \[(?P<name>[^]]+)\]\(http://127\.0\.0\.1:8501/(?P<path>[^)]*)\)$"
    r".*?!\[[^]]+\]\((?P<picture>[^)]+)\)",
    re.MULTILINE | re.DOTALL,
)

#: The README's second picture, of the model that ``make run WITH=smollm2`` installs.
SMOLLM2 = (
    "?model=SmolLM2-135M&text=When+Mary+and+John+went+to+the+store%2C+John+gave+a+drink+to"
    "&layer=23&head=0&query=13"
)


def entries() -> list[tuple[str, str, str]]:
    """(page, path and query, picture) of all entries of the gallery."""
    return ENTRY.findall((DOCS / "gallery.md").read_text(encoding="utf-8"))


def first_screens() -> list[tuple[int, int, Any, str]]:
    """(width, height, light or dark, picture) of the first page's pictures."""
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    result = re.findall(r"\((pictures/first-(\d+)x(\d+)-(light|dark)\.png)\)", text)
    return [(int(width), int(height), scheme, name) for name, width, height, scheme in result]


def photograph(page: Page, address: str, target: Path) -> None:
    """Save a screenshot of the page, in 256 colours."""
    page.goto(address)
    settle(page)
    page.wait_for_timeout(1500)  # fonts and transitions
    shot = Image.open(io.BytesIO(page.screenshot()))
    target.parent.mkdir(exist_ok=True)
    shot.convert("RGB").quantize(256, kmeans=2).save(target, optimize=True)
    print(f"{target.name}, {target.stat().st_size / 1000:.0f} kB")


def main() -> None:
    """Photograph every page of the gallery, the first one in every width, and the README's."""
    shots: list[tuple[int, int, Any, str, Path]]
    shots = [(1440, 900, "light", path, DOCS / name) for _page, path, name in entries()]
    shots += [(w, h, scheme, "", DOCS / name) for w, h, scheme, name in first_screens()]
    shots += [(1440, 900, "light", entries()[0][1], DOCS.parent / "assets" / "screenshot.png")]
    shots += [(1440, 900, "light", SMOLLM2, DOCS.parent / "assets" / "smollm2.png")]
    os.environ.pop(PACKAGED_VARIABLE, None)  # else SmolLM2 is hidden
    with running_app() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        for width, height, scheme, path, target in shots:
            viewport: ViewportSize = {"width": width, "height": height}
            page = browser.new_page(viewport=viewport, color_scheme=scheme)
            photograph(page, f"{address}/{path}", target)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()

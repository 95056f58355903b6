"""Make the gallery's pictures: open each of its links and photograph what a visitor sees.

    make gallery

Writes docs/pictures/PAGE.png for every link of docs/gallery.md. It asserts nothing; the test of the
gallery does.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.browser.conftest import FLAGS, find_chromium, running_app, settle

DOCS = Path(__file__).parents[2] / "docs"
#: A heading that links to a page of the app, and the picture below it.
ENTRY = re.compile(
    r"^## \[(?P<name>[^]]+)\]\(http://127\.0\.0\.1:8501/(?P<path>[^)]*)\)$"
    r".*?!\[[^]]+\]\((?P<picture>[^)]+)\)",
    re.MULTILINE | re.DOTALL,
)


def entries() -> list[tuple[str, str, str]]:
    """(page, address below the server, picture) of all that the gallery shows."""
    return ENTRY.findall((DOCS / "gallery.md").read_text(encoding="utf-8"))


def main() -> None:
    """Photograph every page of the gallery, 1440 by 900 pixels in 128 colours."""
    with running_app() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
        for name, path, picture in entries():
            page.goto(f"{address}/{path}")
            settle(page)
            page.wait_for_timeout(1500)  # fonts and fading
            shot = Image.open(io.BytesIO(page.screenshot()))
            target = DOCS / picture
            target.parent.mkdir(exist_ok=True)
            shot.convert("RGB").quantize(128).save(target, optimize=True)
            print(f"{name}: {target.name}, {target.stat().st_size / 1000:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main()

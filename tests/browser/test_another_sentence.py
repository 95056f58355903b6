"""Sentences typed one after another: what is painted is what a fresh load of the address paints."""

from __future__ import annotations

from playwright.sync_api import Page

from gpt2viz.app import pages
from tests.browser.conftest import act, settle
from tests.browser.test_browser import Visit
from tests.browser.test_token_chips import chips

FIRST = "The dog bit the man because it was hungry."
#: A longer one and a shorter one, each with the token that is clicked.
SENTENCES = {" ".join([FIRST] * 6): 45, "Hi": 0}
#: The pages that draw a sentence's run, and the first one's other picture.
PLACES = [
    *(
        page.address
        for page in pages.MENU
        if page not in (pages.SHAPES, pages.TEXTBOOK, pages.MODELS)
    ),
    "?picture=lines",
]

# By component: what each canvas shows, every curve, every word. Streamlit's own tables are left
# out, which keep the widths of their columns.
_PAINTED = """
() => {
  const main = document.querySelector(".stMain"), roots = [main], painted = {}
  for (const root of roots) {
    const name = root.host?.closest("[class*=st-key-]")?.className.match(/st-key-[-\\w]+/)[0] ?? ""
    const add = (kind, shown) => {
      painted[`${name} ${kind}, ${Object.keys(painted).length}`] = shown
    }
    for (const part of root.querySelectorAll("*")) {
      if (part.shadowRoot) roots.push(part.shadowRoot)
      if (part.matches("canvas") && part.clientWidth && !part.closest("[data-testid=stDataFrame]"))
        add("canvas", [part.width, part.height, part.toDataURL()].join())
    }
    add("curves", [...root.querySelectorAll("path:not(.gone path)")].map((one) =>
      one.getAttribute("d")).join())
    add("words", [...root.children].map((part) => part.innerText).join())
  }
  return painted
}
"""


def painted(page: Page) -> dict[str, str]:
    """What a page shows while nothing is pointed at."""
    page.mouse.move(0, 0)
    page.wait_for_timeout(100)
    shown: dict[str, str] = page.evaluate(_PAINTED)
    return shown


def type_sentence(page: Page, text: str) -> None:
    box = page.get_by_role("textbox", name="Sentence", exact=True)
    box.fill(text)
    act(page, lambda: box.press("Enter"))


def test_nothing_painted_is_left_of_the_sentence_before(walk: Visit) -> None:
    wrong = []
    for place in PLACES:
        page = walk(place, text=FIRST, query=6)
        fresh = page.context.pages[1] if page.context.pages[1:] else page.context.new_page()
        fresh.set_viewport_size(page.viewport_size or {"width": 1440, "height": 900})
        for text, token in SENTENCES.items():
            type_sentence(page, text)
            if (chip := chips(page).nth(token)).is_enabled():
                act(page, chip.click)
            fresh.goto(page.url)
            settle(fresh)
            typed, loaded = painted(page), painted(fresh)
            wrong += [
                f"{place or 'attention'}, {len(text)} letters: {part}"
                for part in {**typed, **loaded}
                if typed.get(part) != loaded.get(part)
            ]
    assert not wrong, "\n".join(wrong)

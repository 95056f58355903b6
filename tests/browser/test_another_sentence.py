"""A page paints the same for a sentence typed after another as for one opened by its address."""

from __future__ import annotations

from playwright.sync_api import Page

from gpt2viz.app import pages
from tests.browser.conftest import act, go_to, settle
from tests.browser.test_browser import Visit

#: More than a line of tokens, and the shorter sentence that is typed after it.
LONG, SHORT = " ".join(["The dog bit the man because it was hungry."] * 3), "The dog bit him."
#: The pages that draw a sentence's run, and the first one's other picture.
PAGES = [
    *(
        page.address
        for page in pages.MENU
        if page not in (pages.SHAPES, pages.TEXTBOOK, pages.MODELS)
    ),
    "?picture=lines",
]

#: Equal samples in a row until a page is steady: a busy browser may take long over a curve.
STEADY = 4

# By component: the pixels of each canvas, every curve, every word. Streamlit's own tables, which
# keep the widths of their columns, are left out.
_PAINTED = """
() => {
  const sum = (canvas) => {  // of its pixels: to write them as a PNG takes ten times as long
    const { width, height } = canvas, copy = new OffscreenCanvas(width, height)
    const pen = copy.getContext("2d", { willReadFrequently: true })
    pen.drawImage(canvas, 0, 0)
    const pixels = new Uint32Array(pen.getImageData(0, 0, width, height).data.buffer)
    return pixels.reduce((all, pixel) => Math.imul(all ^ pixel, 16777619), 0)
  }
  const main = document.querySelector(".stMain"), roots = [main], painted = {}
  for (const root of roots) {
    const name = root.host?.closest("[class*=st-key-]")?.className.match(/st-key-[-\\w]+/)[0] ?? ""
    const add = (kind, shown) => {
      painted[`${name} ${kind}, ${Object.keys(painted).length}`] = shown
    }
    for (const part of root.querySelectorAll("*")) {
      if (part.shadowRoot) roots.push(part.shadowRoot)
      if (part.matches("canvas") && part.clientWidth && !part.closest("[data-testid=stDataFrame]"))
        add("canvas", [part.width, part.height, sum(part)].join())
    }
    add("curves", [...root.querySelectorAll("path:not(.gone path)")]
      .filter((path) => path.checkVisibility()).map((path) => path.getAttribute("d")).join())
    add("words", [...root.children].map((part) => part.innerText).join())
  }
  return painted
}
"""


def painted(page: Page) -> dict[str, str]:
    """Every picture and word of a page at rest, with the pointer away from them."""
    page.mouse.move(0, 0)
    looks: list[dict[str, str]] = []
    while len(looks) < STEADY or any(shown != looks[-1] for shown in looks[-STEADY:]):
        page.wait_for_timeout(100)
        looks.append(page.evaluate(_PAINTED))
    return looks[-1]


def differences(typed: dict[str, str], loaded: dict[str, str]) -> list[str]:
    """The parts that are painted differently, with the text around the first difference."""
    result = []
    for part in {**typed, **loaded}:
        here, there = typed.get(part, ""), loaded.get(part, "")
        if here != there:
            at = next((n for n, (x, y) in enumerate(zip(here, there, strict=False)) if x != y), 0)
            near = slice(max(0, at - 60), at + 60)
            result.append(f"{part}: {here[near]!r}, loaded {there[near]!r}")
    return result


def type_sentence(page: Page, text: str) -> None:
    box = page.get_by_role("textbox", name="Sentence", exact=True)
    box.fill(text)
    act(page, lambda: box.press("Enter"))


def painted_after_typing(open_page: Visit, address: str) -> tuple[str, dict[str, str]]:
    """A page's address and what it paints, after a short sentence is typed over a long one."""
    page = open_page(address, text=LONG, query=1)
    type_sentence(page, SHORT)
    return page.url, painted(page)


def test_nothing_painted_remains_of_the_previous_sentence(open_page: Visit) -> None:
    typed = {path: painted_after_typing(open_page, path) for path in PAGES}
    page = open_page(PAGES[0])
    server = page.url.partition("?")[0].rstrip("/")
    fresh, problems = page.context.new_page(), []
    fresh.set_viewport_size({"width": 1440, "height": 900})
    # An order in which the first page's two pictures don't follow each other.
    for path in sorted(PAGES, key=lambda name: name[::-1]):
        address, shown = typed[path]
        go_to(fresh, server, address.removeprefix(server))
        settle(fresh)
        parts = differences(shown, painted(fresh))
        problems += [f"{path or 'attention'}: {part}" for part in parts]
    assert not problems, "\n".join(problems)

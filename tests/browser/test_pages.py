"""What holds on every page: it opens by its address, fits, runs nothing typed, bars nobody."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Page, expect

from gpt2viz.app import pages
from tests.app.pages import VIEWS
from tests.app.test_pages import MOVED
from tests.browser.conftest import seen_by_axe, settle

#: Every page and mode; the first page has no name.
PATHS = [view.removeprefix(pages.ATTENTION.name) for view in VIEWS]

#: Of a page that is to change from light to dark, and from dark to light.
BACKGROUNDS = "rgb(18, 20, 28)", "rgb(255, 255, 255)"

#: HTML, Markdown, Plotly's own markup, LaTeX, an icon, the end of a script, an override of the
#: writing direction, and addresses.
TRAP = (
    "<img src=x onerror=canary=1> [a](javascript:canary=1) $x^2$ :material/home: "
    "<a href='javascript:canary=1'>a</a></script><script>canary=1</script> \u202eevil =1+1 "
    "https://evil.invalid www.evil.invalid me@evil.invalid https:\\//evil.invalid :streamlit:"
)
#: Links that lead away, wherever they stand. Links to pages carry the text itself.
AWAY = ", ".join(f"a[href^='{way}']" for way in ("http://", "https://", "//", "mailto:"))

#: Markdown where a screen reader reads a text as it stands.
MARKUP = re.compile(r"\\[!-/:-@\[-`{-~]|\*\*|:\w+\[|\]\(glossary|:material/")
ALOUD = """
() => [...document.querySelectorAll("[aria-label], [aria-description], [title], [alt]")].flatMap(
  (element) => ["aria-label", "aria-description", "title", "alt"].map(
    (name) => element.getAttribute(name) ?? ""))
"""


#: Words of charts under 11 pixels, or with less than 4.5:1 (WCAG 2.2, 1.4.3) on the page's own
#: background; and numbers of bars that lie on another bar. axe-core doesn't look into charts.
PALE = """
() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number)
  const page = channels(getComputedStyle(document.querySelector(".stApp")).backgroundColor)
  const light = (color) => color.slice(0, 3).reduce((sum, c, n) => {
    const s = c / 255, linear = s <= .04045 ? s / 12.92 : ((s + .055) / 1.055) ** 2.4
    return sum + [.2126, .7152, .0722][n] * linear
  }, 0)
  const contrast = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05)
  const onAnother = (text) => {
    const { left, right, top, height } = text.getBoundingClientRect()
    const bars = [...text.closest(".js-plotly-plot").querySelectorAll(".barlayer .point path")]
    return bars.some((bar) => {
      const box = bar.getBoundingClientRect()
      return bar.parentElement !== text.parentElement && right > box.left && left + 1 < box.right
        && top + .75 * height > box.top && top + .25 * height < box.bottom
    })
  }
  return [...document.querySelectorAll(".js-plotly-plot svg text")].flatMap((text) => {
    const { a, b, c, d } = text.getScreenCTM() ?? {}, style = getComputedStyle(text)
    const size = parseFloat(style.fontSize) * Math.sqrt(Math.abs(a * d - b * c))
    const fill = channels(style.fill), solid = (fill[3] ?? 1) * style.fillOpacity * style.opacity
    const seen = fill.slice(0, 3).map((one, n) => solid * one + (1 - solid) * page[n])
    const ratio = contrast(light(seen), light(page)), words = text.textContent.trim()
    const covered = text.matches(".bartext") && onAnother(text)
    const fine = size > 10.9 && ratio >= 4.5 && !covered
    return !words || text.closest(".hoverlayer") || fine ? []
      : [`${words}: ${size.toFixed(1)} px, ${ratio.toFixed(1)}:1${covered ? ", on a bar" : ""}`]
  })
}
"""


@pytest.mark.parametrize("path", PATHS)
def test_a_page_opens_fits_runs_nothing_typed_and_bars_nobody(
    walk: Callable[..., Page], path: str
) -> None:
    dark = bool(PATHS.index(path) % 2)  # as the page before was at last: to change it is work
    page = walk(path, dark=dark, text=TRAP, layer=1, causal="https://evil.invalid/")
    opened(page, path)
    nothing_ran(page)
    no_markup_is_read_aloud(page)
    look(page)
    for width in (400, 1000):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(".stMain").evaluate("main => main.scrollWidth") <= width
    page.emulate_media(color_scheme="light" if dark else "dark")
    expect(page.locator(".stApp")).to_have_css("background-color", BACKGROUNDS[dark])
    page.wait_for_timeout(500)  # the new theme asks for another run
    settle(page)
    look(page, "color-contrast")  # all that a theme changes


@pytest.mark.parametrize("name", ["inside_head", "causal_mask"])
def test_an_old_link_shows_the_same_view(
    visit: Callable[..., Page], walk: Callable[..., Page], name: str
) -> None:
    """Of a page with another name, and of one that is a mode now; tests/app has them all."""
    now = MOVED[name]
    chosen = {"text": "Dog bites man", "layer": "2", "head": "1", "query": "1", "causal": "false"}
    wanted = walk(now, **chosen).locator(".stMain").inner_text()
    page = visit(name, **chosen)
    path, _, mode = now.partition("?")
    page.wait_for_url(f"**/{path}?*")
    settle(page)
    assert dict(parse_qsl(urlsplit(page.url).query)) == chosen | dict(parse_qsl(mode))
    assert page.locator(".stMain").inner_text() == wanted


def test_on_a_narrow_page_pictures_end_where_their_squares_do(walk: Callable[..., Page]) -> None:
    page = walk("what_if", width=1000)
    below = """views => views.map(view => {
      const { y, h } = view.look.boxes[0]
      return view.getBoundingClientRect().height - y - h
    })"""
    left = page.locator(".st-key-whatif .tiles").evaluate_all(below)
    assert len(left) == 2
    assert all(20 <= room < 90 for room in left)  # the names and the title of the axis


def opened(page: Page, path: str) -> None:
    """The sentence of the address stands there, and pictures of it."""
    if path != "models":  # it begins with what can be chosen, without a sentence
        sentence = page.get_by_role("textbox", name="Sentence", exact=True)
        assert sentence.input_value() == TRAP
    expect(page.locator(".stException")).to_have_count(0)
    if path not in (
        "shapes",
        "models",
        "predict?predict=generate",
        "side_by_side?differs=model",
    ):  # tables; nothing before the first new token
        assert page.locator(".tiles canvas").count() > 0


def nothing_ran(page: Page) -> None:
    """Not when the page was made, nor under the pointer."""
    for plot in page.locator(".js-plotly-plot .nsewdrag, .tiles canvas").all()[:2]:
        plot.hover(force=True)
        page.wait_for_timeout(100)
    assert page.evaluate("typeof canary") == "undefined"
    assert page.locator("a[href^='javascript']").count() == 0
    for link in page.locator(AWAY).all():  # the app's own lead to sources
        assert "evil" not in (link.get_attribute("href") or "")
    assert page.get_by_alt_text("Streamlit logo").count() == 0
    assert page.locator("img[src='x']").count() == 0
    assert page.locator("svg a, mjx-container, script:has-text('canary')").count() == 0
    assert page.locator(".katex annotation", has_text="x^2").count() == 0  # other formulas are ours
    assert not page.get_by_text("\u202e").count()


def no_markup_is_read_aloud(page: Page) -> None:
    """Not the app's own, that is: what was typed is read out as it was typed."""
    texts = page.evaluate(ALOUD)
    assert any(texts)
    assert not [text for text in texts if MARKUP.search(text.replace(TRAP, ""))]


def look(page: Page, *rules: str) -> None:
    """Let axe-core look at the page from its top; it finds nothing serious.

    Scrolled down, it loses its way among the tokens above, and leaves out a rule.
    """
    page.locator(".stMain").evaluate("main => main.scrollTo(0, 0)")
    page.mouse.move(0, 0)
    page.wait_for_selector(".stApp[data-test-script-state='notRunning']")  # a run makes all pale
    assert not seen_by_axe(page, *rules)
    assert not page.evaluate(PALE)

"""Every page and mode opens by its address, fits, runs no typed code and is accessible."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from gpt2viz.app import pages
from gpt2viz.serving import proxy
from tests.app.pages import VIEWS
from tests.browser.conftest import (
    Visitor,
    act,
    address,
    axe_violations,
    go_to,
    part_kinds,
    set_appearance,
    settle,
)
from tests.servers import comes_up, free_ports

#: Every page and mode, and the first one's other picture; the first page has no name.
LINES, CHAPTER = "?picture=lines&more=1,3", "textbook?chapter=tokens"
PATHS = [view.removeprefix(pages.ATTENTION.name) for view in (*VIEWS, LINES, CHAPTER)]

#: The background of a light page and of a dark one.
BACKGROUNDS = "rgb(255, 255, 255)", "rgb(18, 20, 28)"
#: Whether nothing is wider than the window, no row of choices is narrower than its first, and no
#: slider is shorter than 80 pixels.
FITS = """
width => [document.documentElement, document.querySelector(".stMain")]
  .every(({ scrollWidth }) => scrollWidth <= width)
  && [...document.querySelectorAll(".stMain [role=radiogroup]")]
    .every((row) => row.clientWidth >= (row.querySelector("button")?.scrollWidth ?? 0))
  && [...document.querySelectorAll(".stMain [data-testid=stSlider] [role=group]")]
    .every(({ clientWidth }) => clientWidth >= 80)
"""

EVIL = "https://evil.invalid/"
#: HTML, Markdown, LaTeX, an icon, the end of a script, an override of the writing direction, and
#: addresses.
TRAP = (
    "<img src=x onerror=canary=1> [a](javascript:canary=1) $x^2$ :material/home: "
    "</script><script>canary=1</script> \u202e "
    "https://evil.test www.evil.test me@evil.test https:\\//evil.test :streamlit:"
)
#: Used instead on pages that run it many times, and in a page's further modes.
SHORT = "<img src=x onerror=canary=1> [a](javascript:canary=1) $x^2$ :material/home:"
MANY_RUNS = "what_if?what_if=depends", "find?find=all", "training"
#: Links to other sites. Links to pages contain the text itself.
AWAY = ", ".join(f"a[href^='{way}']" for way in ("http://", "https://", "//", "mailto:"))

#: Markdown that must not appear where a screen reader reads the raw text.
MARKUP = re.compile(r"\\[!-/:-@\[-`{-~]|\*\*|:\w+\[|\]\(glossary|:material/")
ALOUD = """
() => [...document.querySelectorAll("[aria-label], [aria-description], [title], [alt]")].flatMap(
  (element) => ["aria-label", "aria-description", "title", "alt"].map(
    (name) => element.getAttribute(name) ?? ""))
"""


#: Chart words under 11 pixels, or with a contrast below 4.5:1 (WCAG 2.2, 1.4.3) to the page's
#: background; and numbers of bars that lie on another bar. axe-core doesn't check charts.
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
    return [...text.closest("svg").querySelectorAll(".bar")].some((bar) => {
      const box = bar.getBoundingClientRect()
      return bar !== text.previousElementSibling && right > box.left && left + 1 < box.right
        && top + .75 * height > box.top && top + .25 * height < box.bottom
    })
  }
  const roots = [...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")]
  const texts = roots.flatMap(({ shadowRoot }) =>
    [...shadowRoot.querySelectorAll(".chart > svg text")])
  return texts.flatMap((text) => {
    const { a, b, c, d } = text.getScreenCTM() ?? {}, style = getComputedStyle(text)
    const size = parseFloat(style.fontSize) * Math.sqrt(Math.abs(a * d - b * c))
    const fill = channels(style.fill), solid = (fill[3] ?? 1) * style.fillOpacity * style.opacity
    const seen = fill.slice(0, 3).map((channel, n) => solid * channel + (1 - solid) * page[n])
    const ratio = contrast(light(seen), light(page)), words = text.textContent.trim()
    const covered = text.matches(".number") && onAnother(text)
    const fine = size > 10.9 && ratio >= 4.5 && !covered
    return !words || fine ? []
      : [`${words}: ${size.toFixed(1)} px, ${ratio.toFixed(1)}:1${covered ? ", on a bar" : ""}`]
  })
}
"""


COURSE = "https://course.example.org"


@pytest.fixture(scope="module")
def proxied(server: str) -> Iterator[str]:
    """The app behind a proxy, as by ``gpt2viz serve --frame-on``; without Caddy, the app alone."""
    program = shutil.which("caddy")
    if program is None:
        yield server
        return
    (port,) = free_ports(1)
    worker = urlsplit(server).port or 0
    host = ("127.0.0.1", worker)
    config = proxy.configuration("127.0.0.1", port, [worker], host, "secret", frames=[COURSE])
    command = [program, "run", "--config", "-", "--adapter", "caddyfile"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin
        process.stdin.write(config.encode())
        process.stdin.close()
        try:
            assert comes_up(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def visitor(browser: Browser, proxied: str) -> Iterator[Visitor]:
    visitor = Visitor(browser, proxied)
    yield visitor
    visitor.context.close()


def test_proxy_sends_security_headers(visitor: Visitor, server: str) -> None:
    if visitor.server == server:
        pytest.skip("Caddy isn't installed: apt-get install caddy")
    for page in pages.PAGES:
        headers = visitor.context.request.get(f"{visitor.server}/{page.address}").headers
        assert headers["x-content-type-options"] == "nosniff"
        assert f"frame-ancestors 'self' {COURSE}" in headers["content-security-policy"]


def test_pages_open_fit_are_safe_and_accessible(
    visitor: Visitor, subtests: pytest.Subtests
) -> None:
    """Under the proxy's policy, violations of which are errors in the console.

    Chart words are checked on every page in both themes, and in its further modes in the theme
    that the page ended with. Axe checks pages with a new kind of part; the frame is checked on the
    first page.
    """
    page, dark, seen, parts = visitor.tab, False, set[str](), set[str]()
    query = {"layer": 1, "query": 2, "causal": EVIL}
    for path in PATHS:
        with subtests.test(path or pages.ATTENTION.name):
            visitor.problems.clear()
            name = path.partition("?")[0]
            text = SHORT if path in MANY_RUNS or name in seen else TRAP
            page.mouse.move(0, 0)
            set_appearance(page, 1440, dark)
            go_to(page, visitor.server, address(path, query | {"text": text}))
            settle(page)
            check_opened(page, path, text)
            check_labels(page, text)
            new = part_kinds(page) - parts
            parts |= new
            check_axe(page, new, frame=not seen)
            hover(page)
            for popover in ("Numbers", "Save") if not seen else ():
                act(page, page.get_by_role("button", name=popover, exact=True).first.click)
                page.keyboard.press("Escape")
            check_fits(page, 400)
            if name not in seen or path == LINES:
                check_fits(page, 1000)
                dark = not dark
                act(page, lambda dark=dark: set_appearance(page, 1000, dark))  # type: ignore[misc]
                check_axe(page, new, "color-contrast", frame=not seen)  # depends on the theme
                seen.add(name)
            expect(page.locator(".stApp")).to_have_css("background-color", BACKGROUNDS[dark])
            check_nothing_ran(page)
            assert not visitor.problems


def check_fits(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function(FITS, arg=width)


def check_opened(page: Page, path: str, text: str) -> None:
    """The sentence of the address is shown, with pictures of it."""
    if path == LINES:
        expect(page.locator(".rows g.lit path").first).to_be_attached()
        expect(page.locator(".rows").first.locator("button.q").first).to_contain_text("<")
        return
    if path != "models":  # a page that starts with choices, without a sentence
        sentence = page.get_by_role("textbox", name="Sentence", exact=True)
        assert sentence.input_value() == text
    expect(page.locator(".stException")).to_have_count(0)
    other = "shapes", "models", "textbook", "predict?predict=generate", "side_by_side?differs=model"
    if path not in other:  # these show tables or links, or nothing before the first token
        assert page.locator(".tiles canvas").count() > 0


def hover(page: Page) -> None:
    pictures = page.locator(".chart > svg, .tiles canvas, .rows")
    for plot in pictures.filter(visible=True).all()[:2]:
        plot.hover(force=True)


def check_nothing_ran(page: Page) -> None:
    """Typed code ran neither on load nor on hover."""
    assert page.evaluate("typeof canary") == "undefined"
    assert page.locator("a[href^='javascript']").count() == 0
    for link in page.locator(AWAY).all():  # the app's own links to sources
        assert "evil" not in (link.get_attribute("href") or "")
    assert page.get_by_alt_text("Streamlit logo").count() == 0
    assert page.locator("img[src='x']").count() == 0
    assert page.locator("svg a, mjx-container, script:has-text('canary')").count() == 0
    assert page.locator(".katex annotation", has_text="x^2").count() == 0  # other formulas are ours
    assert not page.get_by_text("\u202e").count()


def check_labels(page: Page, typed: str) -> None:
    """Accessible names have no markup, except in typed text, which is read as typed."""
    texts = page.evaluate(ALOUD)
    assert any(texts)
    assert not [text for text in texts if MARKUP.search(text.replace(typed, ""))]


def check_axe(page: Page, new: set[str], *rules: str, frame: bool) -> None:
    """From the top of the page, axe-core finds no serious violation in new parts.

    On a scrolled page it misses the tokens above, and leaves out a rule.
    """
    page.locator(".stMain").evaluate("main => main.scrollTo(0, 0)")
    page.mouse.move(0, 0)
    page.wait_for_selector(".stApp[data-test-script-state='notRunning']")  # a run dims the page
    assert not new or not axe_violations(page, *rules, frame=frame)
    assert not page.evaluate(PALE)

"""The sentence as words: arcs to the words attended to, and the sources of the next word."""

from __future__ import annotations

from urllib.parse import parse_qs, urlparse

import numpy as np
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import act, wait_until
from tests.browser.test_browser import Visit, weights
from tests.bundled import CATS as TEXT

LAYER, HEAD, QUERY = 1, 2, 9

# The labels of the arcs, and the number of arcs.
_ARCS = """view => [[...view.querySelectorAll("svg text")].map(({ textContent }) => textContent),
  view.querySelectorAll("svg path").length]"""
# No label lies on its arc or under another; the smallest weights, which come first, have none.
_LABELS_ARE_CLEAR = """view => {
  const texts = [...view.querySelectorAll("svg path ~ text")]
  const arcs = [...view.querySelectorAll("svg path")].slice(-texts.length)
  return !view.querySelector("svg text ~ path") && arcs.every((arc, n) =>
    texts[n].getAttribute("y") < arc.getBBox().y - arc.getAttribute("stroke-width") / 2) }"""

# A point within a head's square in the window, where the page is enlarged by half.
_IN_ENLARGED = """(view, head) => {
  const { left, top } = view.canvas.getBoundingClientRect(), { x, y } = view.look.boxes[head]
  return [left + 1.5 * (x + 4), top + 1.5 * (y + 4)] }"""


def words(page: Page) -> Locator:
    return page.locator(".words")


def arcs(page: Page) -> tuple[list[str], int]:
    labels, count = words(page).evaluate(_ARCS)
    return sorted(labels, reverse=True), count


def expected(layer: int, head: int, query: int) -> tuple[list[str], int]:
    row = sorted((w for w in weights(TEXT, layer)[head, query] if w >= 0.05), reverse=True)[:6]
    return [f"{w:.2f}" for w in row if w >= 0.1], len(row)


def open_words(open_page: Visit, **more: str) -> Page:
    page = open_page("", text=TEXT, layer=str(LAYER), head=str(HEAD), query=str(QUERY), **more)
    wait_until(page, lambda: arcs(page)[1] > 0)
    return page


def test_arcs_show_the_weights_of_the_hovered_word_and_head(open_page: Visit) -> None:
    page = open_words(open_page)
    assert arcs(page) == expected(LAYER, HEAD, QUERY)
    for query in range(QUERY):
        words(page).locator(".chips button").nth(query).hover()
        assert words(page).evaluate(_LABELS_ARE_CLEAR)
        assert arcs(page) == expected(LAYER, HEAD, query)
        expect(page.locator(".links")).to_contain_text(f"from {query} ")  # the small heads follow
    page.mouse.move(5, 5)
    assert arcs(page) == expected(LAYER, HEAD, QUERY)
    act(page, page.locator(".links button").first.click)
    layer, head = (int(n) for n in page.locator(".links button b").first.inner_text().split("."))
    assert arcs(page) == expected(layer, head, QUERY), "another head is chosen"
    act(page, words(page).locator(".chips button").nth(QUERY).click)
    page.mouse.move(5, 5)
    links = weights(TEXT, layer)[head].copy()
    links[:, 0] = 0
    np.fill_diagonal(links, 0)
    query = int(links.max(axis=1).argmax())
    assert arcs(page) == expected(layer, head, query), "no token is chosen: the strongest link's"
    description = page.locator(".st-key-head_large .description")
    expect(description).to_contain_text(expected(layer, head, query)[0][0])


def test_next_word_shows_its_sources_and_opens_their_cell(open_page: Visit) -> None:
    page = open_words(open_page)
    best = words(page).locator(".next button").first
    expect(best).to_contain_text("on")
    line = words(page).locator(".route")
    words(page).locator(".next button").last.focus()
    page.keyboard.press("Tab")
    expect(line.locator("button").first).to_be_focused()
    best.hover()
    expect(line).to_contain_text("What raises or lowers “on”")
    best.click()  # it stays
    word = line.locator("button").first
    assert word.inner_text().split(" +")[0] == "on", "the word that is copied"
    line.locator("button").last.focus()
    expect(line.locator(".tip")).to_be_visible()
    word.click()
    cell = line.locator("button").nth(1)
    assert cell.inner_text().split(" +")[0] == "head 1.2", "the head that copies"
    act(page, cell.click)
    page.wait_for_url("**/head?*")
    chosen = {name: value[0] for name, value in parse_qs(urlparse(page.url).query).items()}
    assert {"layer": "1", "head": "2", "query": "9", "key": "3"}.items() <= chosen.items()


def test_gap_before_the_next_word_after_a_part_of_a_long_text(open_page: Visit) -> None:
    text = "the cat sat on the mat and " * 19 + "the cat sat on"
    for first, gap in ((128, ""), (0, "… ")):
        page = open_page("", text=text, **{"from": first})
        expect(words(page).locator(".route")).to_contain_text("on (136)")
        expect(words(page).locator(".next")).to_have_attribute("data-gap", gap)


def test_head_is_switched_off_and_on_in_place(open_page: Visit) -> None:
    page = open_words(open_page)
    before = words(page).locator(".next button").first.inner_text()
    power = page.locator(".map").evaluate("""view => {
      const { x, y } = view.look.boxes[0], { left, top } = view.canvas.getBoundingClientRect()
      return [left + x + view.look.side - 8, top + y + 8] }""")
    act(page, lambda: page.mouse.click(*power))
    expect(words(page).locator(".next s")).to_have_text(before)
    expect(words(page).locator(".next button").first).not_to_have_text(before)
    assert "edits=off%3A0.0" in page.url
    page.locator(".map").focus()
    for _ in range(LAYER * 8 + HEAD):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    act(page, lambda: page.keyboard.press("p"))
    expect(words(page).locator(".next button").first).to_have_text(before)
    assert "edits" not in page.url
    check_presentation(page)


def check_presentation(page: Page) -> None:
    """In presentation mode, labels are large and hovers hit the part under the pointer."""
    act(page, page.get_by_role("button", name="Present").click)
    wait_until(page, lambda: page.locator(".map").evaluate("view => view.currentCSSZoom") == 1.5)
    assert "present=true" in page.url
    expect(page.locator(".st-key-sentence")).to_be_hidden()
    assert words(page).locator(".route").evaluate("line => line.scrollWidth <= line.clientWidth")
    assert 12 * page.locator(".tiles").evaluate("view => view.currentCSSZoom") >= 18
    for head in (0, 10, 31):
        page.mouse.move(*page.locator(".map").evaluate(_IN_ENLARGED, head))
        expect(page.locator(".map .tip")).to_contain_text(f"Layer {head // 8} · Head {head % 8}")
    words(page).locator(".chips button").nth(5).hover()
    assert arcs(page) == expected(LAYER, HEAD, 5)
    act(page, lambda: page.keyboard.press("Enter"))  # the button that ends it still has the focus
    expect(page.locator(".st-key-sentence")).to_be_visible()
    # On a phone the large head comes before the buttons.
    page.set_viewport_size({"width": 400, "height": 800})
    parts, top = (".map", ".tiles", ".st-key-below"), "part => part.getBoundingClientRect().top"
    assert parts == tuple(sorted(parts, key=lambda part: page.locator(part).evaluate(top)))

"""The first screen: the map of all heads, by pointer and by keyboard."""

from __future__ import annotations

import numpy as np
from playwright.sync_api import Page, expect

from tests.browser.conftest import act, wait_until
from tests.browser.test_browser import MIDDLE, Visit, click_cell, panels, picture, weights
from tests.bundled import HEADS, N_HEAD, N_LAYER

# By head, the rows whose cells all have their undimmed colours.
_LIT = """
view => {
  const copied = (canvas) => {
    const { width, height } = canvas, copy = new OffscreenCanvas(width, height)
    const pen = copy.getContext("2d", { willReadFrequently: true })
    pen.drawImage(canvas, 0, 0)
    return pen
  }
  const whole = copied(view.canvas)
  return view.look.boxes.map(({ x, y }, head) => {
  const { side, cell } = view.look, rows = view.p.rows.length, ratio = devicePixelRatio
  const pen = whole
  const at = (a, b) => [...pen.getImageData(Math.round((x + a) * ratio),
    Math.round((y + b) * ratio), 1, 1).data].slice(0, 3)
  const own = copied(view.images[head])
  return [...Array(rows).keys()].filter((row) => [...Array(rows).keys()].every((column) =>
    String(at((column + .5) * cell, (row + .5) * cell)) ===
      String([...own.getImageData(column, row, 1, 1).data].slice(0, 3))))
  })
}
"""


def point(page: Page, head: int, row: int) -> None:
    """Hover over a head's row, on the diagonal, until that token is lit in every head."""
    page.mouse.move(*picture(page, "heads").evaluate(MIDDLE, [head, row, row]))
    wait_until(
        page,
        lambda: all(row in rows for rows in lit_rows(page)) and f"from {row} " in links_text(page),
    )


def lit_rows(page: Page) -> list[list[int]]:
    """By head, the rows that aren't dimmed."""
    results: list[list[int]] = picture(page, "heads").evaluate(_LIT)
    return results


def links_text(page: Page) -> str:
    return picture(page, "heads").locator(".links").inner_text()


#: Clicks a head; which is marked, and whether it is drawn before the server responds.
CLICK = """(view, head) => {
  const { x, y } = view.look.boxes[head], at = view.canvas.getBoundingClientRect()
  const before = view.canvas.toDataURL()
  const there = { clientX: at.x + x + 4, clientY: at.y + y + 4, bubbles: true }
  view.canvas.dispatchEvent(new MouseEvent("click", there))
  return [view.p.chosen, view.canvas.toDataURL() !== before]
}"""


def test_hover_highlights_a_token_in_every_head_without_the_server(open_page: Visit) -> None:
    """And a click, or keys, choose a head in place."""
    page = open_page("", layer=0, head=0)
    view = picture(page, "heads")
    view.evaluate("view => { [window.send, view.send] = [view.send, () => window.sent = true] }")
    everything = [[0, 1, 2, 3]] * HEADS
    assert lit_rows(page) == everything
    point(page, head=13, row=3)
    wait_until(page, lambda: lit_rows(page) != everything)
    largest: dict[float, str] = {}
    for layer in range(N_LAYER):
        for head, w in enumerate(weights("A crane ate fish", layer)):
            key = 1 + int(w[3, 1:3].argmax())
            largest[float(w[3, key])] = f"{layer}.{head} → {key} {['', '·crane', '·ate'][key]}"
    text = links_text(page)
    assert text.startswith("Strongest from 3 ·fish")
    positions = [text.index(largest[weight]) for weight in sorted(largest, reverse=True)[:5]]
    assert positions == sorted(positions)
    page.mouse.move(5, 5)
    wait_until(page, lambda: lit_rows(page) == everything)
    assert not page.evaluate("window.sent")
    view.evaluate("view => { view.send = window.send }")

    click_cell(page, "heads", row=2, column=1, panel=3 * N_HEAD + 5)
    assert "layer=3" in page.url
    assert "head=5" in page.url
    assert "query" not in page.url
    expect(page.get_by_text("Head 3.5", exact=False).first).to_be_visible()
    shown = panels(page, "head_large")[0]["z"]
    assert np.allclose(shown, weights("A crane ate fish", 3)[5], atol=1e-6)
    assert view.evaluate("view => view.p.chosen") == 3 * N_HEAD + 5
    assert view.evaluate(CLICK, 0) == [0, True]
    expect(page.get_by_text("Head 0.0", exact=False).first).to_be_visible()
    open_by_keys(page)


def open_by_keys(page: Page) -> None:
    """Go from head 0.0 to head 2.1 and a token, then to the head's own page."""
    view = picture(page, "heads")
    page.mouse.move(5, 5)
    view.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown", "PageUp"):
        page.keyboard.press(key)
    assert view.locator(".tip").inner_text() == "Layer 2 · Head 1\nfrom 3 ·fish"
    page.keyboard.press("Tab")
    expect(view.locator(".links button").first).to_be_focused()
    page.keyboard.press("Shift+Tab")
    assert links_text(page).startswith("Strongest from 3 ·fish, to others than the first: ")
    act(page, lambda: page.keyboard.press("Enter"))
    assert {"layer=2", "head=1", "query=3"} <= set(page.url.split("?")[1].split("&"))
    picture(page, "heads").focus()
    page.keyboard.press("o")
    page.wait_for_url("**/head?*")
    assert "layer=2" in page.url
    assert "head=1" in page.url


def test_map_of_words_and_map_without_the_mask(open_page: Visit) -> None:
    page = open_page("", text="A kingfisher ate fish", words="true")
    page.mouse.move(*picture(page, "heads").evaluate(MIDDLE, [13, 3, 3]))
    sentence = page.locator(".words")
    wait_until(page, lambda: sentence.evaluate("view => view.at?.query") == 6)
    sentence.get_by_role("radio").nth(3).hover()
    wait_until(page, lambda: all(1 in rows and 3 not in rows for rows in lit_rows(page)))
    picture(page, "heads").focus()
    page.keyboard.press("PageDown")
    act(page, lambda: page.keyboard.press("Enter"))
    assert "query=5" in page.url, "the first token of the next word"
    page = open_page("", causal="false")
    picture(page, "heads").focus()
    page.keyboard.press("PageDown")
    act(page, lambda: page.keyboard.press("Enter"))
    assert "query=0" in page.url
    assert "undefined" not in page.locator(".st-key-head_large .description").inner_text()


def test_chosen_token_stays_lit_and_listed_links_are_clickable(open_page: Visit) -> None:
    page = open_page("", query=2)
    wait_until(page, lambda: all(2 in rows for rows in lit_rows(page)))
    assert lit_rows(page) != [[0, 1, 2, 3]] * HEADS
    assert links_text(page).startswith("Strongest from 2 ·ate")
    first = picture(page, "heads").locator(".links button").first
    layer, head = first.locator("b").inner_text().split(".")
    tip = picture(page, "heads").locator(".tip")
    first.hover()
    expect(tip).to_have_text(f"Layer {layer} · Head {head}\nfrom 2 ·ate")
    expect(tip).to_be_visible()
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()
    act(page, first.click)
    assert f"layer={layer}" in page.url
    assert f"head={head}" in page.url


# Whether an element ignores a key pressed with Alt.
_IGNORES = """(element, key) => element.dispatchEvent(
  new KeyboardEvent("keydown", { key, altKey: true, bubbles: true, cancelable: true }))"""


def test_browser_shortcuts_are_ignored(open_page: Visit) -> None:
    """Alt and an arrow go back and forward."""
    radios = (".switch input", ".chips [role=radio]")
    for path, query, parts in (
        ("", {}, (".map", ".tiles", *radios)),
        ("", {"picture": "lines"}, (".rows button",)),
        ("textbook", {"chapter": "whole"}, (".listings button",)),
    ):
        page = open_page(path, **query)
        for part in parts:
            for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
                assert page.locator(part).first.evaluate(_IGNORES, key), (part, key)

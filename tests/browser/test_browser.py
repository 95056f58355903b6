"""The app on a fresh server in a real browser: what it draws, and where clicks lead."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from playwright.sync_api import Locator, Page, expect

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import SHADE
from tests.browser.conftest import act, go_to, open_from_menu, settle
from tests.bundled import HEADS, N_HEAD, bundled_model

Visit = Callable[..., Page]

# The names and numbers of every panel that each canvas draws. Its colours are checked in
# test_tiles.
DRAWN = """
key => [...document.querySelectorAll(`.st-key-${key} *`)]
  .map(part => part.shadowRoot?.querySelector(".tiles, .map")?.p).filter(Boolean)
  .flatMap((p) => p.cells ? Array.from({ length: p.layers * p.heads }, (_, n) => ({
    name: `${Math.floor(n / p.heads)}.${n % p.heads}`, rows: p.rows, columns: p.columns,
    z: p.rows.map((_, row, { length }) => [...p.cells.subarray((n * length + row) * length,
      (n * length + row + 1) * length)].map((cell) => cell % p.shades.length /
        (p.shades.length - 1))) }))
    : p.panels.map(({ name, title, rows, columns, part, start }) => ({
      name, title, rows, columns, part,
      z: rows.map((_, row) => [...p.values.slice(start + row * columns.length,
        start + (row + 1) * columns.length)]) })))
"""

# The middle of a cell on screen.
MIDDLE = """
(view, [panel, row, column]) => {
  const box = view.getBoundingClientRect(), { x, y, cw, ch } = view.look.boxes[panel]
  return [box.x + x + (column + .5) * cw, box.y + y + (row + .5) * ch]
}
"""


def picture(page: Page, key: str, n: int = 0) -> Locator:
    """The n-th picture of matrices in a container."""
    return page.locator(f".st-key-{key} .tiles, .st-key-{key} .map").nth(n)


def panels(page: Page, key: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = page.evaluate(DRAWN, key)
    return results


def weights(text: str, layer: int, causal: bool = True) -> np.ndarray:
    trace = gpt2viz.trace(bundled_model(), text, causal=causal)
    return trace.stage("weights", layer)[0]


def click_cell(page: Page, key: str, row: int, column: int, chart: int = 0, panel: int = 0) -> None:
    """Click the middle of a cell, in the n-th panel of the n-th chart of a container."""
    plot = picture(page, key, chart)
    plot.scroll_into_view_if_needed()
    point = plot.evaluate(MIDDLE, [panel, row, column])
    page.mouse.move(*point)
    act(page, lambda: page.mouse.click(*point))


def check_map(page: Page, text: str) -> None:
    """Every head of the map shows its weights."""
    shown = panels(page, "heads")
    assert len(shown) == HEADS
    for panel in shown:
        layer, head = map(int, panel["name"].split("."))
        assert_allclose(panel["z"], weights(text, layer)[head], atol=SHADE)


def test_map_shows_the_computed_weights(open_page: Visit, server: str) -> None:
    """The sentence comes from the address, the colours from the theme."""
    scale = "view => view.p.shades[0]"
    page = open_page("", text="the cat saw the cat", dark=True)
    check_map(page, "the cat saw the cat")
    assert picture(page, "heads").evaluate(scale) == "#12141c"
    act(page, lambda: page.emulate_media(color_scheme="light"))
    assert picture(page, "heads").evaluate(scale) == "#ffffff"
    go_to(page, server, "/?text=%ED%A0%80 crane")  # half a surrogate is a picture too
    settle(page)
    expect(picture(page, "heads")).to_be_visible()


def test_click_on_a_picture_of_the_strip_opens_its_head(open_page: Visit) -> None:
    page = open_page("side_by_side", text="Man bites dog", head=4)
    click_cell(page, "strip", row=1, column=0, panel=2)
    page.wait_for_url("**/head?*")
    assert all(part in page.url for part in ("layer=2", "head=4"))


def test_click_on_a_row_of_the_training_map_opens_its_head(open_page: Visit) -> None:
    page = open_page("training", text="Dog bites man")
    click_cell(page, "growth", row=N_HEAD + 3, column=2)
    page.wait_for_url("**/head?*")
    settle(page)
    assert "layer=1" in page.url
    assert "head=3" in page.url


def test_a_click_on_a_word_chooses_its_first_token(open_page: Visit) -> None:
    page = open_page("", text="The animal didn't cross", words="true")
    picture(page, "heads").focus()
    page.keyboard.press("PageUp")  # the last word
    act(page, lambda: page.keyboard.press("Enter"))
    assert "query=4" in page.url
    click_cell(page, "head_large", row=2, column=1)
    assert "query=2" in page.url


def test_first_token_switch_persists_across_pages(open_page: Visit) -> None:
    page = open_page("", query=1)
    act(page, page.locator("label", has_text="first").click)
    chips = page.locator(".st-key-token_chips [role=radio]")
    expect(chips.first).to_contain_text("<|endoftext|> position 0")
    assert chips.nth(2).get_attribute("aria-checked") == "true"
    special = json.loads((BUNDLED / "config.json").read_text(encoding="utf-8"))["eos_token_id"]
    model = bundled_model()
    trace = gpt2viz.trace(model, [special, *model.tokenizer.encode("A crane ate fish")])
    for panel in panels(page, "heads"):
        layer, head = map(int, panel["name"].split("."))
        assert_allclose(panel["z"], trace.stage("weights", layer)[0, head], atol=SHADE)
    click_cell(page, "heads", row=0, column=0, panel=0)
    expected = trace.stage("weights", 0)[0]
    open_from_menu(page, "What if")
    page.wait_for_url("**/what_if?*bos=true*")
    expect(picture(page, "whatif")).to_be_visible()  # the address comes first
    settle(page)
    expect(chips.first).to_contain_text("<|endoftext|> position 0")
    assert_allclose(panels(page, "whatif")[0]["z"], expected[0], atol=1e-6)
    expect(page.get_by_text("your sentence starts at token 1")).to_be_visible()


def check_first_screen(page: Page, text: str, layer: int, causal: bool = True) -> None:
    """All heads and the layer's first one large are drawn, with nothing of an earlier run left."""
    expected = weights(text, layer, causal)
    T = len(expected[0])
    page.wait_for_function(f"T => ({DRAWN})('heads')[0]?.z.length === T", arg=T)
    settle(page)
    results = [p["z"] for p in panels(page, "heads") if p["name"].startswith(f"{layer}.")]
    assert len(results) == len(expected)
    for a, b in zip(results, expected, strict=True):
        assert_allclose(a, b, atol=SHADE)
    assert_allclose(panels(page, "head_large")[0]["z"], expected[0], atol=1e-6)
    expect(page.locator("[data-stale='true']")).to_have_count(0)
    expect(page.locator(".tiles")).to_have_count(1)
    expect(page.locator(".map")).to_have_count(1)
    expect(page.locator(".stException")).to_have_count(0)


def test_two_tabs_of_one_browser_are_independent(open_page: Visit, server: str) -> None:
    first = open_page("", text="A crane ate fish", layer=1, head=0)
    second = first.context.new_page()  # same cookies, as in a person's browser
    second.goto(f"{server}/?text=Dog+bites+man&layer=2&head=0")
    settle(second)
    first.get_by_role("textbox", name="Sentence", exact=True).fill("Man bites dog")
    first.keyboard.press("Enter")
    second.locator("label", has_text="Causal mask").click()
    first.wait_for_url("**text=Man+bites+dog*")
    second.wait_for_url("**causal=false*")
    check_first_screen(first, "Man bites dog", 1)
    check_first_screen(second, "Dog bites man", 2, causal=False)


def test_fast_typing_ends_with_the_last_sentence_fully_drawn(open_page: Visit) -> None:
    page = open_page("", text="Dog bites man", layer=0, head=0)
    field = page.get_by_role("textbox", name="Sentence", exact=True)

    def type_sentence(text: str) -> None:
        field.fill(text)
        while field.input_value() != text:  # the field was redrawn between selecting and typing
            field.fill(text)
        page.keyboard.press("Enter")

    for n in range(6):
        type_sentence(f"cat {'dog ' * n}")
        page.wait_for_timeout(60)
    # Interrupted in the frame, in the run, among the pictures.
    for pause, text in ((0, "Man bites dog"), (60, "A crane ate fish"), (250, "Dog bites")):
        type_sentence("a long sentence about " + "the cat and the dog " * 20)
        page.wait_for_timeout(pause)
        type_sentence(text)
        page.wait_for_url(f"**text={text.replace(' ', '+')}*")
        check_first_screen(page, text, 0)

"""The app as a person meets it: a fresh server, a real browser, and what is drawn there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from playwright.sync_api import Locator, Page, expect

import gpt2viz
from tests.app.pages import SHADE
from tests.browser.conftest import act, open_from_menu, settle
from tests.bundled import HEADS, N_HEAD

Visit = Callable[..., Page]

# What each canvas draws from: the names and numbers of every panel. Its colours are checked in
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
PLACE = """
(view, [panel, row, column]) => {
  const box = view.getBoundingClientRect(), { x, y, cw, ch } = view.look.boxes[panel]
  return [box.x + x + (column + .5) * cw, box.y + y + (row + .5) * ch]
}
"""


def picture(page: Page, key: str, n: int = 0) -> Locator:
    """The n-th picture of matrices in a container."""
    return page.locator(f".st-key-{key} .tiles, .st-key-{key} .map").nth(n)


def drawn(page: Page, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(DRAWN, key)
    return found


def weights(text: str, layer: int, causal: bool = True) -> np.ndarray:
    trace = gpt2viz.trace(gpt2viz.load_model(), text, causal=causal)
    return trace.stage("weights", layer)[0]


def click_cell(page: Page, key: str, row: int, column: int, chart: int = 0, panel: int = 0) -> None:
    """Click the middle of a cell, in the n-th panel of the n-th chart of a container."""
    plot = picture(page, key, chart)
    plot.scroll_into_view_if_needed()
    place = plot.evaluate(PLACE, [panel, row, column])
    page.mouse.move(*place)
    page.wait_for_timeout(200)
    act(page, lambda: page.mouse.click(*place))


def test_the_first_screen_needs_no_scrolling(walk: Visit) -> None:
    page = walk()
    for key in ("heads", "head_large"):
        box = picture(page, key).bounding_box()
        assert box
        assert box["y"] + box["height"] <= 900


def test_each_of_several_equal_tokens_can_be_chosen(walk: Visit) -> None:
    page = walk("", text="of the bank of the river of the bank")
    chips = page.locator(".st-key-tokens [role=radio]")
    for n in (4, 1, 7):
        act(page, chips.nth(n).click)
        lit = [chip.get_attribute("aria-checked") == "true" for chip in chips.all()]
        assert lit.index(True) == n
        assert sum(lit) == 1
        assert f"query={n}" in page.url


def test_what_is_drawn_is_what_the_model_computed(walk: Visit) -> None:
    text = "the cat saw the cat"
    shown = drawn(walk("", text=text), "heads")
    assert len(shown) == HEADS
    for panel in shown:
        layer, head = map(int, panel["name"].split("."))
        assert_allclose(panel["z"], weights(text, layer)[head], atol=SHADE)


def test_equal_tokens_keep_cells_of_their_own(walk: Visit) -> None:
    text = "the cat saw the cat"
    page = walk("head", text=text, layer=2, head=1)
    shown = next(panel for panel in drawn(page, "stages") if panel["name"] == "weights")
    assert_allclose(shown["z"], weights(text, layer=2)[1], rtol=1e-6, atol=1e-7)
    tokens = ["0 the", "1 ·cat", "2 ·saw", "3 ·the", "4 ·cat"]
    assert shown["rows"] == shown["columns"] == tokens


def test_dimensions_are_drawn_one_by_one(walk: Visit) -> None:
    page = walk("head", layer=0, head=0)
    q = next(panel for panel in drawn(page, "stages") if panel["name"] == "q")
    assert q["columns"] == [str(n) for n in range(32)]
    expected = gpt2viz.trace(gpt2viz.load_model(), "A crane ate fish").stage("q", 0)[0, 0]
    assert_allclose(q["z"], expected, rtol=1e-6)


def test_typing_and_reloading(walk: Visit) -> None:
    page = walk()
    page.get_by_role("textbox", name="Sentence").fill("Once upon a time")
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    settle(page)
    assert_allclose(drawn(page, "heads")[0]["z"], weights("Once upon a time", 0)[0], atol=SHADE)
    assert "text=Once+upon+a+time" in page.url
    page.reload()
    settle(page)
    expect(page.get_by_role("textbox", name="Sentence")).to_have_value("Once upon a time")


def test_switching_the_mask(walk: Visit) -> None:
    page = walk()
    page.locator("label", has_text="Causal mask").click()
    page.wait_for_timeout(300)
    settle(page)
    expected = weights("A crane ate fish", 0, causal=False)
    assert_allclose(drawn(page, "heads")[3]["z"], expected[3], atol=SHADE)
    expect(page.get_by_text("An experiment: the model")).to_be_visible()
    open_from_menu(page, "Head")
    page.wait_for_url("**/head?*causal=false*")
    settle(page)
    expect(page.get_by_text("An experiment: the model")).to_be_visible()


def test_clicking_a_cell_chooses_its_row(walk: Visit) -> None:
    page = walk(layer=0, head=4)
    click_cell(page, "head_large", row=2, column=1)
    assert "query=2" in page.url
    assert_allclose(drawn(page, "head_large")[0]["z"], weights("A crane ate fish", 0)[4], atol=1e-6)


def test_the_large_matrix_as_a_table(walk: Visit) -> None:
    page = walk()
    tables = page.get_by_test_id("stDataFrame")
    expect(tables).to_have_count(0)
    page.get_by_role("button", name="These numbers as a table").click()
    expect(tables).to_be_visible()


def test_clicking_a_score_writes_its_sum_out(walk: Visit) -> None:
    page = walk("head", layer=1, head=2)
    click_cell(page, "stages", row=2, column=1, chart=3)
    heading = page.get_by_role("heading", name="One cell in full")
    expect(heading).to_contain_text("query ·ate (2), key ·crane (1)")


def test_comparing_layers(walk: Visit) -> None:
    page = walk("side_by_side", text="Man bites dog", layer=3, compare="mean")
    page.get_by_test_id("stButtonGroup").filter(has_text="Layers").get_by_text("1").click()
    page.wait_for_timeout(300)
    settle(page)
    shown = [panel["z"] for panel in drawn(page, "layer_charts")]
    a, b, c = (weights("Man bites dog", layer).mean(axis=0) for layer in (0, 3, 1))
    assert_allclose(shown, [a, b, c, b - a, c - a], atol=1e-6)


def test_a_picture_of_the_strip_opens_its_head(walk: Visit) -> None:
    page = walk("side_by_side", text="Man bites dog", head=4)
    click_cell(page, "strip", row=1, column=0, panel=2)
    page.wait_for_url("**/head?*")
    assert "layer=2" in page.url
    assert "head=4" in page.url


def test_a_row_of_the_training_map_opens_its_head(walk: Visit) -> None:
    page = walk("training", text="Dog bites man")
    click_cell(page, "growth", row=N_HEAD + 3, column=2)
    page.wait_for_url("**/head?*")
    settle(page)
    assert "layer=1" in page.url
    assert "head=3" in page.url


def test_two_visitors_see_their_own_sentences(walk: Visit, visit: Visit) -> None:
    first = walk("", text="She sat by the bank of the river", layer=3)
    second = visit("", text="Dog bites man", layer=1, causal="false")
    click_cell(first, "heads", row=0, column=0, panel=2 * N_HEAD + 5)
    settle(second)
    theirs = weights("Dog bites man", 1, causal=False)
    assert_allclose(drawn(second, "heads")[N_HEAD + 5]["z"], theirs[5], atol=SHADE)
    ours = weights("She sat by the bank of the river", 2)
    assert_allclose(drawn(first, "heads")[2 * N_HEAD + 5]["z"], ours[5], atol=SHADE)
    assert_allclose(drawn(first, "head_large")[0]["z"], ours[5], atol=1e-6)


def test_a_fast_typist_ends_with_the_last_sentence(walk: Visit) -> None:
    page = walk()
    for n in range(12):
        page.get_by_role("textbox", name="Sentence").fill(f"cat {'dog ' * n}")
        page.keyboard.press("Enter")
        page.wait_for_timeout(60)
    text = f"cat {'dog ' * 11}"
    expect(page.get_by_role("textbox", name="Sentence")).to_have_value(text)
    expected = weights(text, 0)[2]
    page.wait_for_function(f"T => ({DRAWN})('heads')[2]?.z.length === T", arg=len(expected))
    page.wait_for_timeout(800)  # nothing older may come after it
    settle(page)
    assert_allclose(drawn(page, "heads")[2]["z"], expected, atol=SHADE)


def test_colours_follow_the_theme_even_when_it_changes(walk: Visit) -> None:
    scale = "view => view.p.shades[0]"
    page = walk("", dark=True)
    assert picture(page, "heads").evaluate(scale) == "#12141c"
    page.emulate_media(color_scheme="light")
    page.wait_for_timeout(300)
    settle(page)
    assert picture(page, "heads").evaluate(scale) == "#ffffff"


def test_half_a_surrogate_in_the_address_is_a_picture(walk: Visit, server: str) -> None:
    page = walk()
    page.goto(f"{server}/?text=%ED%A0%80 crane")
    settle(page)
    expect(picture(page, "heads")).to_be_visible()

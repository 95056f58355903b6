"""The head view: lines and numbers in the browser match those of an independent GPT-2."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from playwright.sync_api import Page, expect

from tests.browser.conftest import settle
from tests.browser.test_browser import Visit
from tests.bundled import weights

TEXT = "When Mary and John went to the garden, John gave the flower to Mary"

LINES = """
(group) => [...group.querySelectorAll("path")].map((path) => ({
  ...path.dataset, width: +path.getAttribute("stroke-width"),
}))
"""
NUMBERS = """
(rows) => [...rows.querySelectorAll(".numbers")].map((part) =>
  [Math.floor(parseFloat(part.style.top) / parseFloat(rows.children[1].style.height)),
   [...part.children].map((number) => +number.textContent)])
"""


def lines(page: Page, group: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = page.locator(f".rows g.{group}").evaluate(LINES)
    return results


def token(page: Page, name: str) -> Any:
    return page.locator(".rows").get_by_role("button", name=name, exact=True)


def test_pointing_at_a_token_shows_its_numbers(open_page: Visit) -> None:
    page = open_page("", text=TEXT, layer=2, head=0, more="1,4", picture="lines")
    three = weights(TEXT)[2][[0, 1, 4]]
    for name, verb, row in (
        ("query 9 ·John", "looks at", three[:, 9]),
        ("key 1 ·Mary", "is looked at by", three[:, :, 1]),
    ):
        token(page, name).hover()
        spoken = page.locator(".summary")
        expect(spoken).to_contain_text(verb)
        expect(spoken).to_contain_text(f"Head 4: {row[2].argmax()} “")
        expect(spoken).to_contain_text(f"{row[2].max():.3f}")
        shown = dict(page.locator(".rows").evaluate(NUMBERS))
        assert shown.keys() == set(np.nonzero((row >= 0.01).any(axis=0))[0])
        for other, numbers in shown.items():
            assert_allclose(numbers, row[row[:, other] >= 0.01, other], atol=0.0051)
        assert len(lines(page, "lit")) == (row >= 0.01).sum()


def test_tokens_are_reached_and_chosen_by_keyboard(open_page: Visit) -> None:
    page = open_page("", text="Dog bites man", layer=1, picture="lines")
    token(page, "query 0 Dog").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".summary")).to_contain_text("1 “·bites” looks at")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".summary")).to_contain_text("1 “·bites” is looked at by")
    for key in ("ArrowLeft", "End", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**query=2*")
    settle(page)
    expect(token(page, "query 2 ·man")).to_be_focused()
    expect(page.locator(".st-key-token_chips [role=radio]").nth(2)).to_be_checked()


WATCH = """
() => {
  window.moved = []
  const animate = Element.prototype.animate
  Element.prototype.animate = function (frames, options) {
    if (this.dataset.query) moved.push([+this.dataset.query, +this.dataset.key, options.duration])
    return animate.call(this, frames, options)
  }
}
"""


def test_closing_the_mask_moves_the_lines_that_it_changes(open_page: Visit) -> None:
    """Other choices move nothing, and nothing moves under reduced motion."""
    page = open_page("", text="Dog bites man", layer=1, head=1, causal="false", picture="lines")
    page.evaluate(WATCH)
    page.locator(".st-key-causal label").click()
    page.wait_for_url(lambda url: "causal=true" in url or "causal" not in url)
    settle(page)
    on, off = (weights("Dog bites man", causal)[1, 1] for causal in (True, False))
    drawn = {(int(line["query"]), int(line["key"])) for line in lines(page, "rest")}
    assert drawn == set(zip(*np.nonzero(on >= 0.01), strict=True))
    moved = page.evaluate("moved")
    changed = {tuple(ends) for ends in np.argwhere(np.abs(on - off) > 1e-3).tolist()}
    seen = {tuple(ends) for ends in np.argwhere((on >= 0.01) | (off >= 0.01)).tolist()}
    assert {(q, k) for q, k, _ in moved} == changed & seen
    assert all(duration <= 400 for *_, duration in moved)
    token(page, "query 2 ·man").click()
    page.wait_for_url("**query=2*")
    page.emulate_media(reduced_motion="reduce")
    page.locator(".st-key-causal label").click()
    page.wait_for_url("**causal=false*")
    settle(page)
    assert len(lines(page, "rest")) == (off >= 0.01).sum()
    assert page.evaluate("moved.length") == len(moved)

"""Two tabs, and runs that are cut off: what stands there in the end is one whole picture."""

from __future__ import annotations

from collections.abc import Callable

from numpy.testing import assert_allclose
from playwright.sync_api import Page, expect

from tests.app.pages import SHADE
from tests.browser.conftest import settle
from tests.browser.test_browser import DRAWN, drawn, weights

Visit = Callable[..., Page]


def shows(page: Page, text: str, layer: int, causal: bool = True) -> None:
    """All heads, the first of the layer large, and nothing of a run before."""
    expected = weights(text, layer, causal)
    T = len(expected[0])
    page.wait_for_function(f"T => ({DRAWN})('heads')[0]?.z.length === T", arg=T)
    settle(page)
    found = [p["z"] for p in drawn(page, "heads") if p["name"].startswith(f"{layer}.")]
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert_allclose(a, b, atol=SHADE)
    assert_allclose(drawn(page, "head_large")[0]["z"], expected[0], atol=1e-6)
    expect(page.locator("[data-stale='true']")).to_have_count(0)
    expect(page.locator(".tiles")).to_have_count(1)
    expect(page.locator(".map")).to_have_count(1)
    expect(page.locator(".stException")).to_have_count(0)


def test_two_tabs_of_one_person(visit: Visit, server: str) -> None:
    first = visit("", text="A crane ate fish", layer=1, head=0)
    second = first.context.new_page()  # same cookies, as in a person's browser
    second.goto(f"{server}/?text=Dog+bites+man&layer=2&head=0")
    settle(second)
    first.get_by_role("textbox", name="Sentence", exact=True).fill("Man bites dog")
    first.keyboard.press("Enter")
    second.locator("label", has_text="Causal mask").click()
    for page in (first, second):
        page.wait_for_timeout(500)
    first.wait_for_url("**text=Man+bites+dog*")
    second.wait_for_url("**causal=false*")
    shows(first, "Man bites dog", 1)
    shows(second, "Dog bites man", 2, causal=False)


def test_a_run_that_is_cut_off_leaves_nothing_half_drawn(walk: Visit) -> None:
    page = walk("", text="Dog bites man", layer=0, head=0)
    field = page.get_by_role("textbox", name="Sentence", exact=True)
    # Cut off in the frame, in the run, among the pictures.
    for pause, text in ((0, "Man bites dog"), (60, "A crane ate fish"), (250, "Dog bites")):
        field.fill("a long sentence about " + "the cat and the dog " * 20)
        page.keyboard.press("Enter")
        page.wait_for_timeout(pause)
        field.fill(text)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**text={text.replace(' ', '+')}*")
        page.wait_for_timeout(500)
        shows(page, text, 0)

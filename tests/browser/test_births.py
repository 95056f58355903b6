"""The training's slider: the hand goes first, the address follows, and heads are chosen."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.browser.conftest import settle

# The pictures of the slider as they are drawn now, and where the first one and the last one are.
_DRAWN = "view => ['map', 'then', 'now', 'next', 'lens'].map((name) => view[name].toDataURL())"
_PLACE = """view => [view.getBoundingClientRect().top, view.map.getBoundingClientRect().top,
  view.lens.getBoundingClientRect().bottom]"""
# The note to those who visit from elsewhere, which a person at home doesn't get.
_LEAVE_OUT = "part => part.closest('[data-testid=stElementContainer]').style.display = 'none'"
#: Time in which no answer of the server can have come: asked and drawn in one go.
_PRESSED = """view => {
  view.slider.value = 2
  view.slider.dispatchEvent(new Event("input"))
  return [view.at, view.when.textContent]
}"""


def test_the_hand_goes_first_and_the_address_follows(browser: Browser, more_models: str) -> None:
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        page.goto(f"{more_models}/training?model=grown&step=1&layer=0&head=0")
        settle(page)
        page.get_by_text("Other machines can reach this server").evaluate(_LEAVE_OUT)
        view = page.locator(".steps")
        top, first, last = view.evaluate(_PLACE)
        assert top < first < 210
        assert last < 900
        before = view.evaluate(_DRAWN)
        assert view.evaluate(_PRESSED) == [2, "step 300"]
        after = view.evaluate(_DRAWN)
        assert before[0] != after[0]
        assert before[4] != after[4]
        assert before[2] == after[2]  # the model itself stays as it is
        page.wait_for_url("**step=300**")
        settle(page)
        view.locator("[data-part=slider]").press("ArrowLeft")
        expect(view.locator("output")).to_have_text("step 20")
        page.wait_for_url("**step=20**")
        settle(page)
        cell = view.evaluate("view => view.cell")
        view.locator("[data-part=map]").click(position={"x": 18 + 2.5 * cell, "y": 16 + 1.5 * cell})
        page.wait_for_url("**head=2**")
        assert "layer=1" in page.url
        settle(page)
        expect(view.locator("[data-part=thenTitle]")).to_have_text("Head 1.2 at this point")
        page.emulate_media(reduced_motion="reduce")
        expect(view.locator("[data-part=play]")).to_be_hidden()
        page.emulate_media(reduced_motion="no-preference")
        view.locator("[data-part=play]").click()
        expect(view.locator("[data-part=play]")).to_have_text("▶ Play")  # it stops at the end
        page.wait_for_url("**step=300**")

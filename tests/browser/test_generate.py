"""Writing on in a real browser: play, stop, reload."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import settle

Visit = Callable[..., Page]

#: Presses Stop in the page itself, in the frame that shows the first token.
STOP = """() => {
  const stop = document.querySelector(".st-key-stop button")
  const ready = location.href.includes("new=") && stop && !stop.disabled
  if (ready) stop.click()
  return ready
}"""


def written(page: Page) -> int:
    return page.url.count("%2C") if "new=" in page.url else 0


def test_play_can_be_stopped_and_the_link_holds_what_was_written(walk: Visit) -> None:
    # So long a text that a step takes its time, and without the mask, so that each runs all of it
    # again: else ten are written before Stop is found.
    text = " ".join(["the cat sat"] * 75)
    page = walk("predict", predict="generate", causal="false", text=text)
    stop = page.get_by_role("button", name="Stop")
    expect(stop).to_be_disabled()
    page.get_by_role("button", name="Write 10").click()
    page.wait_for_function(STOP)
    expect(stop).to_be_disabled()
    settle(page)
    n = written(page)
    assert 0 < n < 10
    page.wait_for_timeout(1500)
    assert written(page) == n
    page.reload()
    settle(page)
    assert written(page) == n
    expect(page.get_by_role("button", name="Undo")).to_be_enabled()
    expect(stop).to_be_disabled()

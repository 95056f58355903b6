"""The Textbook's arrows and frames in a browser: dragged, played, small, dark, still."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import box_of, reveal_weights, settle, settled_violations, tab_to
from tests.browser.test_browser import Visit


def middle(part: Locator) -> tuple[float, float]:
    box = box_of(part)
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


#: The names of points and axes that overlap in a plane.
_COLLIDING = """
planes => planes.flatMap(plane => {
  const names = [...plane.querySelectorAll(".name, .end")]
    .map(name => [name.textContent, name.getBoundingClientRect()])
  return names.flatMap(([text, a], n) => names.slice(n + 1)
    .filter(([, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
    .map(([other]) => `${text} on ${other}`))
})
"""


#: Records each position at which the first piece of the mixture is drawn.
_RECORD = """
plane => {
  window.positions = new Set()
  const note = () => window.positions.add(plane.querySelector("path.piece")?.getAttribute("d"))
  new MutationObserver(note).observe(plane, { subtree: true, childList: true })
}
"""


def check_gliding(page: Page) -> None:
    """Arrows glide, unless reduced motion is requested."""
    field = page.get_by_label("Query of crane, crane, animal")

    def positions(animal: str) -> int:
        page.locator(".st-key-crane_arrows .plane").nth(1).evaluate(_RECORD)
        field.fill(animal)
        field.press("Enter")
        page.wait_for_function(f"location.search.includes('crane_q={animal}.0')")
        page.wait_for_function("[...window.positions].some(Boolean)")
        count, before = 0, -1
        while count != before:  # until it rests
            page.wait_for_timeout(500)
            before, count = count, page.evaluate("[...window.positions].filter(Boolean).length")
        return count

    assert positions("9") > 1
    page.emulate_media(reduced_motion="reduce")
    assert positions("2") == 1


def test_dragged_key_updates_tables_address_and_weights(open_page: Visit) -> None:
    page = open_page("textbook", example="E4")
    reveal_weights(page)
    fish = page.get_by_role("button", name="Key of fish")
    fish.scroll_into_view_if_needed()
    assert page.locator(".st-key-crane_arrows .plane").evaluate_all(_COLLIDING) == []
    origin, unit = middle(page.get_by_role("button", name="Query of crane")), 0.0
    start = middle(fish)
    unit = (start[0] - origin[0]) / 0.1  # pixels from animal 0.7 to 0.8
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] - 0.2 * unit, start[1], steps=3)
    assert "crane_k" not in page.url  # it is sent when released
    row = page.locator(".st-key-crane_arrows tr", has_text="fish")
    expect(row).to_contain_text("0.56")  # 0.7 · 0.6 + 0.7 · 0.2: scores move with it
    page.mouse.move(start[0] + 0.1 * unit, start[1] - 0.4 * unit, steps=3)
    page.mouse.up()
    page.wait_for_function(
        "location.search.includes('crane_k_bird=0.6%2C0.8%2C0.9%2C0.1%2C0.9%2C0.6')"
    )
    settle(page)
    assert "crane_q" not in page.url
    expect(page.get_by_label("Keys, fish, animal")).to_have_value("0.9")
    expect(page.get_by_label("Keys, fish, machine")).to_have_value("0.6")
    expect(page.locator(".katex-mathml", has_text="q \\cdot K")).to_contain_text("1.0500")
    expect(
        page.get_by_text("Key of fish: animal 0.9, machine 0.6. Score 1.05, weight")
    ).to_be_visible()
    page.get_by_role("button", name="Back to the original numbers").click()
    page.wait_for_function("!location.search.includes('crane_k')")
    settle(page)
    expect(page.get_by_role("button", name="Key of fish: animal 0.8, machine 0.2")).to_be_attached()
    check_gliding(page)


def test_keyboard_moves_the_query_on_a_small_screen(open_page: Visit) -> None:
    page = open_page("textbook", width=400, dark=True, example="E4", crane_heat="0.5")
    query = page.get_by_role("button", name="Query of crane")
    tab_to(page, query)
    for key in ("ArrowUp", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    page.wait_for_function("location.search.includes('crane_q=0.65%2C0.8')")
    settle(page)
    expect(query).to_be_focused()
    message = page.get_by_text("Query of crane: animal 0.65, machine 0.8. Weights: crane 0.51")
    expect(message).to_be_visible()
    tab_to(page, page.get_by_role("button", name="Value of fish"))
    page.keyboard.press("ArrowDown")
    page.wait_for_function("location.search.includes('crane_v_bird=0.5%2C0.5%2C0.9%2C0.1%2C0.8')")
    settle(page)
    expect(page.get_by_text("Value of fish: animal 0.8, machine 0.15. New crane")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not settled_violations(page)


#: Takes a step; whether a block glides to its new place, once it is there.
_GLIDES = """
async player => {
  const deep = [...player.querySelectorAll("*")].find(part => part.shadowRoot).shadowRoot
  const block = deep.querySelector(".block:nth-child(7)")
  const left = () => block.getBoundingClientRect().left
  const start = left()
  deep.querySelectorAll("button")[2].click()
  const moves = block.getAnimations()
  await Promise.all(moves.map(({ finished }) => finished))
  if (!block.isConnected || Math.abs(left() - start) < 5) throw new Error("it stays")
  return moves.some(({ transitionProperty }) => transitionProperty === "left")
}
"""


def test_frames_play_to_the_end_and_glide_unless_motion_is_reduced(open_page: Visit) -> None:
    page = open_page("textbook", dark=True, example="E21", way_step="1")
    player = page.locator(".st-key-way_step_player")
    expect(player.locator(".play")).to_be_visible()
    assert player.evaluate(_GLIDES)
    page.emulate_media(reduced_motion="reduce")
    expect(player.locator(".play")).to_be_hidden()
    assert not player.evaluate(_GLIDES)
    page.emulate_media(reduced_motion="no-preference")
    player.get_by_role("button", name="Play").click()
    expect(player.get_by_role("button", name="Pause")).to_be_visible()
    expect(player.get_by_text("5 of 5")).to_be_visible()
    page.wait_for_function("location.search.includes('way_step=4')")
    settle(page)
    expect(player.get_by_role("button", name="Play")).to_be_visible()
    assert not settled_violations(page)


def test_stream_frames_follow_the_chosen_token(open_page: Visit) -> None:
    page = open_page("textbook", width=400, chapter="residual", text="A crane ate fish", query="0")
    player = page.locator(".st-key-stream_step_player")
    expect(player.get_by_role("status")).to_contain_text("“A”: its row of the token table")
    player.get_by_role("button", name="Step").click()
    expect(player.get_by_role("status")).to_contain_text("its position adds a vector")
    page.wait_for_function("location.search.includes('stream_step=1')")

"""The Textbook in a real browser: editing a number, clicking the diagram, every chapter."""

from __future__ import annotations

import re
from itertools import cycle
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from gpt2viz.app.course.contents import CHAPTERS
from tests.browser.conftest import (
    act,
    axe_violations,
    box_of,
    part_kinds,
    reveal_weights,
    settle,
    settled_violations,
    tab_to,
    wait_until,
)
from tests.browser.test_browser import Visit


def test_edited_numbers_change_results_and_the_link(open_page: Visit) -> None:
    page = open_page("textbook", example="E4")
    reveal_weights(page)
    animal = page.get_by_label("Query of crane, crane, animal")
    tab_to(page, animal)
    page.keyboard.type("3")  # replaces the old number
    page.keyboard.press("Tab")
    page.keyboard.type("2")  # at once, while the first number is still being processed
    page.keyboard.press("Enter")
    page.wait_for_function("location.search.includes('crane_q=3.0%2C2.0')")
    settle(page)
    scores = page.locator(".katex-mathml", has_text="q \\cdot K")  # keys .6 .8, .9 .1 and .8 .2
    expect(scores).to_contain_text("3.4000")
    expect(scores).to_contain_text("2.9000")
    page.get_by_role("button", name="Back to the original numbers").click()
    page.wait_for_function("!location.search.includes('crane_q')")
    expect(scores).to_contain_text("0.9800")
    expect(animal).to_have_value("0.7")
    for wrong in ("", "1e9"):  # not a valid number: reported at the field
        animal.fill(wrong)
        animal.press("Enter")
        expect(page.get_by_text("A number from −100 to 100.")).to_be_visible()
        assert "crane_q" not in page.url
    for key in ("Escape", "Tab"):
        animal.press(key)
    expect(page.get_by_text("A number from −100 to 100.")).to_have_count(0)
    animal.fill("0,5")
    animal.press("Enter")
    page.wait_for_function("location.search.includes('crane_q=0.5%2C0.7')")
    expect(page.get_by_text("A number from −100 to 100.")).to_have_count(0)
    check_fast_typing(page)


def check_fast_typing(page: Page) -> None:
    """No number is lost, however fast it is typed."""
    settle(page)
    fields = page.get_by_label("Keys, ").all()
    typed = [str(n + 1) for n in range(len(fields))]
    fields[0].click()
    for number in typed:
        page.keyboard.type(number)
        page.keyboard.press("Tab")
    expected = ",".join(f"{n}.0" for n in typed).replace(",", "%2C")
    page.wait_for_function(f"location.search.includes('crane_k_bird={expected}')")
    settle(page)
    assert [field.input_value() for field in fields] == typed


def test_click_in_the_diagram_opens_the_tensors_page(open_page: Visit) -> None:
    page = open_page("textbook", chapter="whole", layer=2, see="weights", predict="generate")
    choose_code_lines(page)
    page.get_by_role("button", name="attn.attend.weights").click()
    page.wait_for_url("**/head*layer=2*")
    settle(page)
    expect(page.get_by_role("radio", name="On this sentence")).to_be_checked()
    act(page, page.go_back)
    page.get_by_role("button", name=re.compile("^mlp.c_fc")).click()
    page.wait_for_url("**/shapes*filter=h.2.mlp.c_fc*")


def choose_code_lines(page: Page) -> None:
    """Choose a line of code by keyboard and one of the other listing by a click; check with axe."""
    expect(page.get_by_text("As short PyTorch classes, in")).to_have_css("font-weight", "400")
    gpt2, package = page.locator(".listings ol").all()
    lit = gpt2.locator("[aria-current]")
    expect(lit).to_contain_text("scores = q @ k.mT")
    expect(package.locator("[aria-current]")).to_contain_text("scores = self.scores(")
    tab_to(page, lit)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Makes the scores smaller.")).to_be_visible()
    expect(gpt2.locator(":focus")).to_contain_text("scaled = ")
    page.set_viewport_size({"width": 400, "height": 900})
    package.get_by_text("x = self.act(x)").click()
    expect(page.get_by_text("Widens each token's vector")).to_be_visible()
    settle(page)
    assert "line=" in page.url
    expect(lit).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert not axe_violations(page)
    page.set_viewport_size({"width": 1440, "height": 900})


def top_of(page: Page, chapter: str) -> float:
    """The distance of a chapter's title from the top of the window, in pixels."""
    return box_of(page.locator(f"#{chapter}"))["y"]


_AT_REST = """
() => {
  const parts = document.querySelectorAll(
    "[data-testid=stHeading], [data-testid=stBidiComponentIsolated]")
  const now = [...parts].map(part => Math.round(part.getBoundingClientRect().y)).join()
  if (now !== window.layout) [window.layout, window.since] = [now, performance.now()]
  return performance.now() - window.since > 500
}
"""


def settle_layout(page: Page) -> None:
    """Wait until late pictures have stopped moving the parts below them.

    For half a second no title and no chart moves.
    """
    settle(page)
    page.evaluate("window.layout = ''")
    page.wait_for_function(_AT_REST, polling=100)


def test_next_lands_on_the_title_and_chapters_fit_a_phone(open_page: Visit) -> None:
    page, seen = open_page("textbook"), set[str]()
    problems = phone_problems(page, seen)
    for chapter, width in zip(list(CHAPTERS)[1:], cycle((1440, 400, 400, 400, 400)), strict=False):
        page.set_viewport_size({"width": width, "height": 900})
        page.get_by_role("button", name=f"Next: {CHAPTERS[chapter].title}").click()
        page.wait_for_selector(f"#{chapter}", state="attached")  # expect would copy the page first
        settle_layout(page)
        assert 0 <= top_of(page, chapter) <= 450, chapter  # the upper half, where it may stay
        assert page.evaluate("document.activeElement.id") == chapter  # and so does the focus
        if chapter == "order":
            edit_the_tiny_crane(page)
        if chapter == "next-word":
            message = page.get_by_text("numbers that you changed")
            expect(message).to_contain_text("Position vectors")
        if chapter == "build":
            fill_a_gap(page)
        if CHAPTERS[chapter].guess:
            reveal_weights(page)
        if chapter == "mask":
            assert not cut_off_numbers(page)
        assert page.locator(".katex-error").count() == 0
        problems += [f"{chapter}: {part}" for part in phone_problems(page, seen)]
    assert not problems


# Numbers that are wider than their fields.
_CUT = "all => all.filter(field => field.scrollWidth > field.clientWidth).map(field => field.value)"


def cut_off_numbers(page: Page) -> list[str]:
    """The numbers that are cut off at the narrowest columns, just before they stack."""
    page.set_viewport_size({"width": 660, "height": 900})
    cut: list[str] = page.locator(".grid input").evaluate_all(_CUT)
    return cut


# The width of a page that scrolls sideways, and the parts beyond its right edge.
_TOO_WIDE = """
() => {
  const [wide] = [document.documentElement, document.querySelector(".stMain")]
    .filter(part => part.scrollWidth > innerWidth)
  const beyond = [...wide?.querySelectorAll("*") ?? []]
    .filter(part => part.getBoundingClientRect().right > innerWidth)
  return wide ? [`${wide.scrollWidth} pixels`, ...beyond.map(part => part.outerHTML)] : []
}
"""


# Formulas that overflow without shaded edges.
_UNSHADED = """
() => [...document.querySelectorAll(".katex-display")]
  .filter(part => part.scrollWidth > part.clientWidth
    && !getComputedStyle(part).backgroundAttachment.includes("local"))
  .map(part => part.textContent.slice(0, 80))
"""


def phone_problems(page: Page, seen: set[str]) -> list[str]:
    """List parts wider than 400 pixels, overflow without a hint, and axe-core's violations.

    Chapters share their parts: axe-core checks those with a kind that isn't in ``seen`` yet. The
    contrast is checked elsewhere, in those on the crane, the mask, the heads and the whole.
    """
    page.set_viewport_size({"width": 400, "height": 900})
    page.wait_for_function("innerWidth === 400")
    settle(page)
    new = part_kinds(page) - seen
    problems = settled_violations(page, contrast=False) if new else []
    seen |= new
    problems += [f"too wide: {part[:160]}" for part in page.evaluate(_TOO_WIDE)[:9]]
    return problems + [f"no hint that it scrolls: {part}" for part in page.evaluate(_UNSHADED)]


def edit_the_tiny_crane(page: Page) -> None:
    """Edit a number that all later chapters of the story depend on."""
    field = page.get_by_label("Position vectors, 3, thing")
    field.fill("11")
    field.press("Enter")
    expect(page.get_by_text("A number from −10 to 10.")).to_be_visible()
    field.fill("5")
    field.press("Enter")
    page.wait_for_function("location.search.includes('tiny_places=')")
    settle(page)
    fish = page.locator(".katex-mathml", has_text="fish: ")
    expect(fish).to_contain_text(r"= [7,\; 1,\; -1,\; 0]")


def fill_a_gap(page: Page) -> None:
    """Fill it by keyboard alone; the eighty lines of code stay unfolded for axe-core."""
    tab_to(page, page.locator("summary", has_text="All eighty lines"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_label("Scores: what belongs in the gap?"))
    page.keyboard.type("q @ k.mT")
    page.keyboard.press("Enter")
    gap = page.locator(".st-key-gap_scores")
    expect(gap.get_by_text("Matches the run")).to_be_visible()
    listing = page.locator("details", has_text="All eighty lines")
    expect(listing.get_by_text("scores = q @ k.mT")).to_be_visible()


def test_links_lead_to_an_example_and_to_a_chapters_title(open_page: Visit) -> None:
    page = open_page("textbook", example="E22")
    expect(page.get_by_role("heading", name="Attention by hand")).to_be_attached()
    expect(page.locator("#E22")).to_be_in_viewport()
    page.get_by_text("8. Residual stream and norms").click()
    expect(page.locator("#residual")).to_be_attached()
    settle_layout(page)
    assert 0 <= top_of(page, "residual") <= 450


def test_chapter_list_is_folded_on_a_phone(open_page: Visit) -> None:
    page = open_page("textbook", width=400, chapter="mask")
    assert top_of(page, "mask") < 250
    expect(page.get_by_text("7. MLP and activations")).to_be_hidden()
    page.get_by_text("All chapters").click()
    page.get_by_text("7. MLP and activations").click()
    expect(page.locator("#mlp")).to_be_attached()
    expect(page.get_by_text("8. Residual stream and norms")).to_be_hidden()
    page.get_by_role("button", name="Previous", exact=True).click()
    page.wait_for_function("location.search.includes('chapter=heads')")
    settle(page)


def test_scrolling_on_is_not_reverted(open_page: Visit) -> None:
    page = open_page("textbook", chapter="order")
    page.get_by_role("button", name="Next: What attention is for").click()
    expect(page.locator("#crane")).to_be_in_viewport()
    page.mouse.move(800, 600)
    page.mouse.wheel(0, 700)
    wait_until(page, lambda: top_of(page, "crane") < -300)
    settle_layout(page)
    top = top_of(page, "crane")
    page.wait_for_timeout(1000)
    assert top_of(page, "crane") == pytest.approx(top, abs=60)


def check_count(page: Page, answered: int) -> None:
    requested = sum(len(chapter.questions) for chapter in CHAPTERS.values())
    message = (
        f"{answered} of {requested} questions answered." if answered else f"{requested} questions."
    )
    expect(page.get_by_text(message, exact=True)).to_be_visible()


def test_guess_by_keyboard_and_progress_until_reset(visit: Visit, tmp_path: Path) -> None:
    """The progress can also be restored from its file."""
    page = visit("textbook", example="E7", width=400)
    tab_to(page, page.get_by_role("slider", name="ate"))
    page.keyboard.press("End")  # all of it
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    fish = page.get_by_role("slider", name="fish")
    expect(fish).to_have_attribute("aria-valuetext", "0.13")
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    words = ("A", "crane", "ate", "fish")
    bars = [page.get_by_role("slider", name=word, exact=True) for word in words]
    for bar, share in zip(bars, ("0.20", "0.20", "0.60", "0.00"), strict=True):
        expect(bar).to_have_attribute("aria-valuetext", share)
    check_narrow_and_accessible(page, contrast=False)
    fish.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    text = page.get_by_text("Your guess is off by 0.28")
    expect(text).to_be_visible()
    settle(page)
    guessed, real = (
        box_of(page.locator(f".st-key-guessed_mask .{kind}").nth(2))["width"]
        for kind in ("guessed", "real")
    )
    assert guessed / real == pytest.approx(0.6 / 0.3213, rel=0.05)  # both columns share a scale
    check_narrow_and_accessible(page)
    continue_by_keyboard(page)
    page.reload()
    settle(page)
    expect(text).to_be_visible()
    expect(page.get_by_role("slider")).to_have_count(0)
    check_progress_file(page, tmp_path / "gpt2viz-progress.json")
    expect(text).to_be_visible()


def check_progress_file(page: Page, file: Path) -> None:
    """Progress is restored from a file after a reset; two questions on the mask are answered."""
    page.set_viewport_size({"width": 1440, "height": 900})
    check_count(page, 2)
    question = page.locator(".st-key-question_mask_row")
    expect(question.get_by_text("done")).to_be_visible()
    parts = question.get_by_text("With the mask on, how many"), question.get_by_text("Hint")
    text_y, hint_y = (box["y"] + box["height"] / 2 for box in map(box_of, parts))
    assert text_y == pytest.approx(hint_y, abs=2)  # on one line
    requests = [page.locator(f".st-key-question_{id}") for id in CHAPTERS["mask"].questions]
    lit = [box.evaluate("part => getComputedStyle(part).boxShadow") != "none" for box in requests]
    assert lit == [True, *[False] * (len(requests) - 1)]
    assert page.locator(".st-key-answer_mask_row").count() == 0
    page.get_by_role("button", name="Progress").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a file").click()
    download.value.save_as(file)
    page.get_by_role("button", name="Start again").click()
    check_count(page, 0)
    settle(page)
    page.reload()
    settle(page)
    check_count(page, 0)
    expect(page.get_by_role("slider")).not_to_have_count(0)
    expect(page.locator(".st-key-answer_mask_row input")).to_have_value("")
    page.get_by_role("button", name="Progress").click()
    page.locator(".st-key-open_progress input[type=file]").set_input_files(file)
    check_count(page, 2)


def continue_by_keyboard(page: Page) -> None:
    """Go to the frames below, through three of them, then to a question and its hint."""
    player = page.locator(".st-key-mask_step_player")
    tab_to(page, player.get_by_role("button", name="Back"))
    page.keyboard.press("Enter")  # the first has no previous frame
    expect(player.get_by_text("1 of 5")).to_be_visible()
    tab_to(page, player.get_by_role("button", name="Step"))
    page.keyboard.press("Enter")
    expect(player.get_by_role("status")).to_contain_text("Row “A”")
    page.keyboard.press("Space")
    expect(player.get_by_role("status")).to_contain_text("Row “crane”: −∞ goes in for ate and fish")
    expect(player.locator(".stage").get_by_text("−∞")).to_have_count(5)
    page.wait_for_function("location.search.includes('mask_step=2')")
    settle(page)
    expect(player.get_by_text("3 of 5")).to_be_visible()
    player.get_by_role("button", name="Back").click()
    expect(player.locator(".stage").get_by_text("−∞")).to_have_count(3)
    question = page.locator(".st-key-question_mask_row")
    hint = page.get_by_text("Count the cells above the diagonal.")
    tab_to(page, question.get_by_role("button", name="Hint"))
    page.keyboard.press("Enter")
    expect(hint).to_be_visible()
    page.keyboard.press("Escape")
    expect(hint).to_be_hidden()
    tab_to(page, question.get_by_role("textbox"))
    page.keyboard.type("six")
    page.keyboard.press("Enter")
    expect(question.get_by_text("done")).to_be_visible()
    tab_to(page, page.get_by_label("In your own words"))
    page.keyboard.type("so " * 12)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Compare for yourself.")).to_be_visible()
    settle(page)


def check_narrow_and_accessible(page: Page, *, contrast: bool = True) -> None:
    assert page.locator(".stMain").evaluate("main => main.scrollWidth") <= 400
    assert not axe_violations(page, contrast=contrast)

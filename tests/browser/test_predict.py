"""Predict: its first picture, settings whose effects are in view, and generation."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import act, box_of, settle
from tests.browser.test_browser import Visit
from tests.bundled import ids_of, stages
from tests.numpy_gpt2 import softmax


def edges(part: Locator) -> tuple[float, float]:
    """The distances of a part's top and bottom from the window's top."""
    part.wait_for()
    box = box_of(part)
    return box["y"], box["y"] + box["height"]


def first_chart(page: Page) -> Locator:
    return page.locator(".chart").filter(visible=True).first


SIZES = ((1440, 900), (1000, 800))


def check_first_chart(page: Page, highest: float) -> None:
    top, bottom = edges(first_chart(page))
    assert 120 < top < highest
    assert bottom < 900


#: The lengths of a chart's bars in pixels, and the positions of its ticks by their text.
BARS = """([view, lying]) => [
  [...view.querySelectorAll(".bar")].map(bar => bar.getBBox()[lying ? "width" : "height"]),
  Object.fromEntries([...view.querySelectorAll(".tick")].map(tick =>
    [tick.textContent, Number(tick.getAttribute(lying ? "x" : "y"))]))]"""


def test_bar_lengths_are_the_computed_numbers(open_page: Visit) -> None:
    text = "The cat sat on the mat and the cat sat"
    page, ids = open_page("predict", text=text), ids_of(text)
    check_first_chart(page, 210)
    p = softmax(stages(text)["logits"])
    expected = {
        "next_tokens": (True, 100 * np.sort(p[-1])[::-1][:12], "20"),
        "surprise": (False, -np.log2(p[np.arange(len(ids) - 1), ids[1:]]), "5"),
    }
    for key, (lying, numbers, tick) in expected.items():
        view = page.locator(f".st-key-{key} .chart").element_handle()
        lengths, ticks = page.evaluate(BARS, [view, lying])
        scale = abs(ticks[tick] - ticks["0"]) / float(tick)  # pixels of 1
        assert_allclose(lengths[: len(numbers)], scale * numbers, atol=0.1, err_msg=key)


def test_changes_by_settings_are_in_view(open_page: Visit) -> None:
    page = open_page("predict", temperature=0.5, top_k=5)
    row = page.locator(".st-key-sampling")
    assert row.get_by_role("slider").count() == 3
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        settle(page)
        assert edges(row)[1] - edges(row)[0] < 50
        for part in (row, page.locator(".st-key-undecided"), first_chart(page)):
            assert edges(part)[1] <= height
    drawn = page.get_by_test_id("stMetric").filter(has_text="Tokens that can be drawn")
    expect(drawn).to_contain_text("5")
    row.get_by_role("slider", name="Top-k").press("ArrowRight")
    settle(page)
    expect(drawn).to_contain_text("10")
    assert page.evaluate("scrollY") == 0


def test_generation_is_beside_the_heads_attention(open_page: Visit) -> None:
    page = open_page("predict?predict=generate")
    check_first_chart(page, 240)
    page.get_by_role("button", name="Step").click()
    page.wait_for_function("location.href.includes('new=')")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        settle(page)
        for part in (
            first_chart(page),
            page.get_by_text("What was written"),
            page.get_by_test_id("stDataFrame").first,
            page.get_by_role("radiogroup", name="Layer").first,
        ):
            assert edges(part)[1] <= height
        assert page.get_by_role("spinbutton", name="Seed").locator("..").evaluate(_FITS_ITS_ROW)


_FITS_ITS_ROW = """box => box.getBoundingClientRect().right
  <= box.closest(".st-key-sampling").getBoundingClientRect().right"""


#: Presses Stop from a script, as soon as the first token is shown.
STOP = """() => {
  const stop = document.querySelector(".st-key-stop button")
  const ready = location.href.includes("new=") && stop && !stop.disabled
  if (ready) stop.click()
  return ready
}"""


def n_written(page: Page) -> int:
    return page.url.count("%2C") if "new=" in page.url else 0


def test_stop_ends_generation_and_the_link_keeps_its_tokens(open_page: Visit) -> None:
    # The long text makes a step slow, and without the mask each step reruns all of it: otherwise
    # ten tokens are written before Stop is pressed.
    text = " ".join(["the cat sat"] * 75)
    for _ in range(5):  # a fast machine may write all before the server receives Stop
        page = open_page("predict", predict="generate", causal="false", text=text)
        stop = page.get_by_role("button", name="Stop")
        expect(stop).to_be_disabled()
        page.get_by_role("button", name="Write 10").click()
        page.wait_for_function(STOP)
        expect(stop).to_be_disabled()
        settle(page)
        if (n := n_written(page)) < 10:
            break
    assert 0 < n < 10
    page.wait_for_timeout(1500)
    assert n_written(page) == n
    expect(page.get_by_role("button", name="Undo")).to_be_enabled()
    expect(stop).to_be_disabled()


def test_back_undoes_one_action(open_page: Visit) -> None:
    page = open_page("predict", predict="generate", text="Once upon a")
    sentence = page.get_by_role("textbox", name="Sentence")
    act(page, page.get_by_role("button", name="Step").first.click)
    before = page.url
    act(page, page.get_by_role("button", name="Make it the sentence").click)
    expect(sentence).to_have_value("Once upon a time")
    act(page, page.go_back)
    expect(sentence).to_have_value("Once upon a")
    assert page.url == before
    expect(page.get_by_test_id("stAlert")).to_have_count(0)

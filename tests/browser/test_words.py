"""Whole words, with real clicks: a word's cell chooses the token that the word begins with."""

from __future__ import annotations

from numpy.testing import assert_allclose

import gpt2viz
from tests.app.pages import SHADE
from tests.browser.conftest import settle
from tests.browser.test_browser import Visit, click_cell, drawn, picture

TEXT = "The animal didn't cross"


def test_a_click_on_a_word_chooses_its_first_token(walk: Visit) -> None:
    page = walk("", text=TEXT, words="true")
    trace = gpt2viz.trace(gpt2viz.load_model(), TEXT)
    starts = gpt2viz.word_starts(trace.token_bytes)
    assert starts == (0, 1, 2, 4)
    for panel in drawn(page, "heads"):
        layer, head = map(int, panel["name"].split("."))
        expected = gpt2viz.group_words(trace.stage("weights", layer)[0], starts)[head]
        assert_allclose(panel["z"], expected, atol=SHADE)
    picture(page, "heads").focus()
    for key in ("PageUp", "Enter"):  # the last word
        page.keyboard.press(key)
    page.wait_for_timeout(300)
    settle(page)
    assert "query=4" in page.url
    click_cell(page, "head_large", row=2, column=1)
    assert "query=2" in page.url
    page = walk("side_by_side", text=TEXT, words="true")
    click_cell(page, "layer_charts", row=3, column=1)
    assert "query=4" in page.url

"""Five things that people come for, each in at most six actions from the first screen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from playwright.sync_api import Locator, Page, expect

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from tests.browser.conftest import settle
from tests.browser.test_browser import Visit, click_cell, drawn
from tests.numpy_gpt2 import reference

MOST = 6
CRANE = "A crane ate fish"
NAMES = "When Mary and John went to the garden, John gave the flower to Mary"


class Person:
    """Someone at the first screen, whose actions are counted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions = 0

    def click(self, part: Locator) -> None:
        self.actions += 1
        assert self.actions <= MOST
        part.filter(visible=True).first.click()
        self.page.wait_for_timeout(300)
        settle(self.page)

    def press(self, name: str, role: Any = "button", exact: bool = False) -> None:
        self.click(self.page.get_by_role(role, name=name, exact=exact))

    def click_cell(self, area: str, row: int, column: int, panel: int = 0) -> None:
        self.actions += 1
        assert self.actions <= MOST
        click_cell(self.page, area, row, column, panel=panel)

    def menu(self, name: str) -> None:
        self.click(self.page.locator(".st-key-menu").get_by_role("link", name=name, exact=True))


def weights(text: str, causal: bool = True) -> Any:
    """(n_layer, nh, T, T), by a GPT-2 that shares no code with the app."""
    ids = gpt2viz.load_model().tokenizer.encode(text)
    return np.stack(reference(BUNDLED, ids, causal)["weights"])


def test_which_heads_look_at_the_previous_word(visit: Visit) -> None:
    person = Person(visit())
    person.menu("Find")
    person.press("previous token", "radio")
    person.press("your sentence", "radio")
    first, *_others = drawn(person.page, "best")
    layer, head = map(int, first["name"].split("."))
    back = weights(CRANE).diagonal(-1, axis1=2, axis2=3).mean(axis=2)
    assert (layer, head) == np.unravel_index(back.argmax(), back.shape)
    assert_allclose(first["z"], weights(CRANE)[layer, head], atol=1e-5)


def test_show_that_the_mask_matters(visit: Visit) -> None:
    person = Person(visit())
    person.menu("Side by side")
    person.press("Causal mask", "radio")
    areas = ("side_a", "side_b", "side_change")
    on, off, change = (drawn(person.page, area)[0]["z"] for area in areas)
    expected = weights(CRANE)[2, 4], weights(CRANE, causal=False)[2, 4]
    assert_allclose([on, off], expected, atol=1e-5)
    assert_allclose(change, expected[1] - expected[0], atol=1e-5)
    expect(person.page.get_by_text("What comes next?")).to_be_visible()


def test_find_the_head_that_copies_a_repeated_name(visit: Visit) -> None:
    person = Person(visit())
    person.press("Examples")
    person.press("Repeated name")
    person.menu("Find")
    person.click_cell("best", 1, 1)
    person.page.wait_for_url(re.compile("/head.*text=When"))
    settle(person.page)
    layer, head = (int(re.findall(f"{of}=(\\d+)", person.page.url)[0]) for of in ("layer", "head"))
    second_john = weights(NAMES)[layer, head, 9]
    assert second_john.argmax() == 4  # "went": what followed the first John
    shown = {panel["name"]: panel["z"] for panel in drawn(person.page, "stages")}
    assert_allclose(shown["weights"][9], second_john, atol=1e-5)


def test_get_a_figure_into_a_paper(visit: Visit) -> None:
    person = Person(visit())
    person.press("Save")
    with person.page.expect_download() as download:
        person.press("SVG")
    saved = Path(download.value.path()).read_text(encoding="utf-8")
    assert saved.lstrip().startswith("<svg")
    assert "Head 5" in saved
    assert download.value.suggested_filename.endswith(".svg")


def test_prepare_a_link_for_a_class(visit: Visit, server: str) -> None:
    person = Person(visit())
    person.press("Examples")
    person.press("Repeated name")
    person.click_cell("heads", 0, 0, panel=6 + 4)
    person.press("Save")
    person.press("Page", "tab", exact=True)
    link = person.page.locator(".st-key-save_body [data-testid='stCode'] code").inner_text()
    assert link.startswith(server)
    assert person.actions < MOST  # one more to copy it
    pupil = visit()
    pupil.goto(link)
    settle(pupil)
    expect(pupil.get_by_role("textbox", name="Sentence", exact=True)).to_have_value(NAMES)
    assert_allclose(drawn(pupil, "head_large")[0]["z"], weights(NAMES)[1, 4], atol=1e-5)

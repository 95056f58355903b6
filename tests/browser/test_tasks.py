"""Nine common tasks, with actions counted from the first screen: each result is in view.

A click, a typed text and a pressed key are one action each; nothing scrolls.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from playwright.sync_api import Locator, Page, expect

from gpt2viz.model.checkpoint import BUNDLED
from tests.browser.conftest import act, settle, wait_until
from tests.browser.test_browser import MIDDLE, Visit, panels, picture
from tests.bundled import N_LAYER, TWICE, C, bundled_model, copiers_of, ids_of, opening, weights
from tests.numpy_gpt2 import reference, softmax

CRANE = "A crane ate fish"
PRONOUN = "The animal didn't cross the street because it was too tired"
#: The height of the window in these tests.
WINDOW = 900


class Person:
    """A person at the first screen who never scrolls, and whose actions are counted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions = 0

    def click(self, part: Locator) -> None:
        shown = part.filter(visible=True).first
        check_in_view(shown)
        self._act(shown.click)

    def press(self, name: str | re.Pattern[str], role: Any = "button", exact: bool = False) -> None:
        self.click(self.page.get_by_role(role, name=name, exact=exact))

    def click_cell(self, area: str, row: int, column: int, panel: int = 0, chart: int = 0) -> None:
        shown = picture(self.page, area, chart)
        point = shown.evaluate(MIDDLE, [panel, row, column])
        assert 0 < point[1] < WINDOW
        self._act(lambda: self.page.mouse.click(*point))

    def menu(self, name: str) -> None:
        self.click(self.page.locator(".st-key-menu").get_by_role("link", name=name, exact=True))

    def _act(self, action: Callable[[], object]) -> None:
        self.actions += 1
        act(self.page, action)


def check_in_view(part: Locator) -> None:
    """The whole part is in view, and the page isn't scrolled."""

    def is_in_view() -> bool:
        box = part.bounding_box()
        return bool(box and box["y"] >= 0 and box["y"] + box["height"] <= WINDOW)

    expect(part).to_be_visible()
    wait_until(part.page, is_in_view)
    assert part.page.locator("[data-testid='stMain']").evaluate("page => page.scrollTop") == 0


@pytest.fixture
def person(open_page: Visit) -> Person:
    return Person(open_page())


def most_probable(text: str, causal: bool = True) -> tuple[str, float]:
    """The most probable next token as shown on screen, and its percentage."""
    p = softmax(reference(BUNDLED, ids_of(text), causal)["logits"][-1])
    written = bundled_model().tokenizer.decode([int(p.argmax())]).replace(" ", "·")
    return written, 100 * float(p.max())


def stage(page: Page, name: str) -> int:
    """The index of the head's picture that shows a stage."""
    return [panel["name"] for panel in panels(page, "stages")].index(name)


def test_task_where_a_pronoun_looks(person: Person) -> None:
    person.press("Examples")
    person.press("Pronoun")
    assert person.actions == 2
    tokens = [bundled_model().tokenizer.decode([n]) for n in ids_of(PRONOUN)]
    query, animal = tokens.index(" it"), tokens.index(" animal")
    it = weights(PRONOUN)[:, :, query]
    layer, head = np.unravel_index(it[:, :, animal].argmax(), it.shape[:2])
    note = f"Look at head {layer}.{head} from “·it” ({query}): it takes more of “animal”"
    check_in_view(person.page.get_by_text(note))
    check_in_view(picture(person.page, "head_large"))
    (large,) = panels(person.page, "head_large")
    assert_allclose(large["z"][query], it[layer, head], atol=1e-5)
    attends = f"“·animal”: {it[layer, head, animal]:.2f}"
    check_in_view(person.page.get_by_text(attends).filter(visible=True).first)


def test_task_mask_off_and_its_effect(person: Person) -> None:
    person.click(person.page.locator("label", has_text="Causal mask"))
    assert person.actions == 1
    (off, percent_off), (on, percent_on) = (most_probable(CRANE, mask) for mask in (False, True))
    changed = f"“{off}” {percent_off:.1f} %, with the mask on “{on}” {percent_on:.1f} %"
    check_in_view(person.page.get_by_text(changed))
    (large,) = panels(person.page, "head_large")
    layer, head = opening()
    assert large["name"] == f"{layer}.{head}" or f"Layer {layer} · Head {head}" in large["title"]
    assert_allclose(large["z"], weights(CRANE, causal=False)[layer, head], atol=1e-5)
    check_in_view(person.page.get_by_text("; with the mask on, "))
    expect(person.page.get_by_text("which it never did in training")).to_be_visible()


def test_task_three_layers_of_one_head(person: Person) -> None:
    """The first, that of the opening head (or else the last), and one more."""
    layer, head = opening()
    there = {0, layer or N_LAYER - 1}
    another = max(set(range(N_LAYER)) - there)
    person.menu("Side by side")
    layers = person.page.get_by_test_id("stButtonGroup").filter(has_text="Layers")
    person.click(layers.get_by_text(str(another), exact=True))
    assert person.actions == 2
    check_in_view(picture(person.page, "layer_charts"))
    shown = {panel["title"]: panel["z"] for panel in panels(person.page, "layer_charts")}
    for n in {*there, another}:
        assert_allclose(shown[f"Layer {n} · head {head}"], weights(CRANE)[n, head], atol=1e-5)


def test_task_find_and_open_the_copying_head(person: Person) -> None:
    person.menu("Find")
    layer, head = copiers_of(TWICE)[0]
    maps = [n for n, p in enumerate(panels(person.page, "atlas")) if p["name"] == "induction"]
    person.click_cell("atlas", layer, head, panel=maps[1])  # of the random tokens
    settle(person.page)
    person.press("Look inside this head")
    person.page.wait_for_url("**/head?*")
    settle(person.page)
    assert person.actions == 3, "found and open; the next shows a text on which it copies"
    person.press("Repeat the sentence")
    assert person.actions == 4
    assert f"layer={layer}&" in f"{person.page.url}&"
    query = int(re.findall(r"query=(\d+)", person.page.url)[0])
    row, ids = weights(TWICE)[layer, head, query], ids_of(TWICE)
    assert ids[row.argmax() - 1] == ids[query], "it looks at what followed the same token"
    shown = {panel["name"]: panel["z"] for panel in panels(person.page, "stages")}
    assert_allclose(shown["weights"][query], row, atol=1e-5)
    check_in_view(picture(person.page, "stages", stage(person.page, "weights")))


def test_task_pdf_of_one_head(person: Person) -> None:
    layer, head = opening()
    person.press("Save")
    chosen = person.page.get_by_role("combobox", name="Picture")
    expect(chosen).to_have_value(f"Attention weights, layer {layer}, head {head}")
    with person.page.expect_download() as download:
        person.press("PDF")
    assert person.actions == 2
    assert Path(download.value.path()).read_bytes().startswith(b"%PDF")
    assert re.search(f"L{layer}H{head}.*pdf$", download.value.suggested_filename)


def test_task_sum_of_one_cell(person: Person) -> None:
    layer, head = opening()
    person.menu("Head")
    person.click_cell("stages", 2, 1, chart=stage(person.page, "weights"))
    assert person.actions == 2
    check_in_view(person.page.get_by_role("heading", name="query ·ate (2), key ·crane (1)"))
    check_in_view(person.page.get_by_text("Raw score q·k"))
    q, k = (reference(BUNDLED, ids_of(CRANE), True)[of][layer][head] for of in "qk")
    shown = person.page.get_by_text(re.compile(r"^= −?\d")).first
    check_in_view(shown)
    result = float((shown.text_content() or "").removeprefix("= ").replace("−", "-"))
    assert_allclose(result, q[2] @ k[1], atol=0.006)


def test_task_head_off_and_its_prediction(person: Person) -> None:
    person.menu("What if")
    person.press("Add")
    assert person.actions == 2
    check_in_view(person.page.get_by_text("What comes after “").first)
    check_in_view(person.page.get_by_text("Changed: most likely next"))


def test_task_shape_of_a_tensor(person: Person) -> None:
    person.menu("Shapes")
    assert person.actions == 1
    table = person.page.get_by_test_id("stDataFrame").first
    check_in_view(table)
    rows = table.locator("table tbody tr").filter(has_text=f"1, 4, {C}")
    expect(rows).not_to_have_count(0)  # written after the picture of them


def test_task_ten_tokens_and_where_a_head_looked(person: Person) -> None:
    person.menu("Predict")
    person.press("Write 10")
    person.page.wait_for_function("location.href.split('%2C').length === 11")
    settle(person.page)
    assert person.actions == 2
    ids = ids_of(CRANE)
    for _ in range(10):
        upto = softmax(reference(BUNDLED, ids, True)["logits"][-1]).cumsum()
        ids.append(int(np.searchsorted(upto, np.random.default_rng([0, len(ids)]).random())))
    new = [int(n) for n in re.findall(r"%2C(\d+)", person.page.url)]
    assert new == ids[-10:]
    assert person.page.locator(".st-key-new_tokens [role=radio]").count() == 10
    check_in_view(person.page.locator(".st-key-new_tokens"))
    chart = person.page.locator(".st-key-row")
    check_in_view(chart)
    shown = chart.locator(".chart").evaluate("view => view.figure.data[0].y")
    expected = np.stack(reference(BUNDLED, ids[:-1], True)["weights"])[(*opening(), -1)]
    assert_allclose(shown, expected, atol=1e-4)
    person.page.locator(".st-key-new_tokens [role=radio]").nth(3).click()
    person.page.wait_for_url(f"**/head?**query={len(ids_of(CRANE)) + 3}**")

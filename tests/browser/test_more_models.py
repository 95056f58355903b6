"""An app whose owner added models: what it opens, allows, draws and saves."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from numpy.testing import assert_allclose
from playwright.sync_api import Browser, Page, expect
from pypdf import PdfReader

import gpt2viz
from gpt2viz.app.views.models import SECTIONS
from gpt2viz.model.checkpoint import BUNDLED
from tests.browser.conftest import (
    Visitor,
    act,
    axe_violations,
    box_of,
    go_to,
    running_app,
    set_appearance,
    settle,
)
from tests.browser.test_browser import click_cell, panels, picture
from tests.browser.test_guard import handshake_status
from tests.browser.test_save import open_save
from tests.browser.test_zoom import drag, window
from tests.checkpoints import write_checkpoint
from tests.soak.visitor import Visitor as Connection


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models: one for long texts, one with as many heads as GPT-2 small, one with training
    checkpoints, and one with an untrusted card.
    """
    models = tmp_path_factory.mktemp("models")
    write_checkpoint(models / "long", n_positions=400, n_layer=1)
    write_checkpoint(models / "twelve", n_layer=12, n_head=12, n_embd=48, n_positions=64)
    for step in (1, 20, 300):
        write_checkpoint(models / "grown" / "steps" / f"step-{step}", seed=step)
    write_checkpoint(models / "grown", seed=300)
    write_checkpoint(models / "mine")
    shutil.copy(Path(__file__).parent / "card.md", models / "mine" / "README.md")
    return {path.name: path for path in models.iterdir()}


class App(NamedTuple):
    """The address of an app, and the file that records which address it opened."""

    address: str
    opened: Path


@pytest.fixture(scope="module")
def app(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """An app that opens the browser itself, allows a proxy's host name and has no Chromium.

    Its home has the folder that makes Streamlit offer helpers to developers.
    """
    home = tmp_path_factory.mktemp("home")
    (home / ".claude").mkdir()
    opener = home / "browser"
    opener.write_text(f'#!/bin/sh\nprintf %s "$1" > "{home}/opened"\n')
    opener.chmod(0o755)
    environment = {
        "HOME": str(home),
        "BROWSER": str(opener),
        "CHROMIUM": str(home / "nowhere"),
        "GPT2VIZ_MODELS": ":".join(map(str, (BUNDLED, *folders.values()))),
    }
    with running_app("--browser", "--allow-host", "a.example", **environment) as address:
        yield App(address, home / "opened")


@pytest.fixture(scope="module")
def visitor(browser: Browser, app: App) -> Iterator[Visitor]:
    """One visitor for all tests; any console message or foreign request fails them."""
    visitor = Visitor(browser, app.address)
    yield visitor
    visitor.context.close()
    assert not visitor.problems


def open_path(visitor: Visitor, path: str = "", width: int = 1440, **query: Any) -> Page:
    """Open a page of the app in the visitor's tab."""
    set_appearance(visitor.tab, width, dark=False)
    go_to(visitor.tab, visitor.server, f"/{path}?{urlencode(query)}")
    settle(visitor.tab)
    return visitor.tab


def test_app_opens_the_browser_without_streamlits_offer(visitor: Visitor, app: App) -> None:
    """Streamlit offers its helpers to developers on a machine that has their folder."""
    expect(open_path(visitor).locator(".stSkillsNudge")).to_have_count(0)
    assert app.opened.read_text() == app.address


def test_allowed_proxy_host_is_accepted(app: App) -> None:
    """The page then says that others can reach the server, and nothing of the hub is offered."""
    assert " 101 " in handshake_status(app.address, "a.example", "http://a.example")
    assert " 403 " in handshake_status(app.address, "b.example", "http://b.example")
    connection = Connection(urlsplit(app.address).port or 0)
    text = b"".join(connection.open("models", {}).raw)
    connection.close()
    assert b"Other machines can reach this server" in text
    assert b"none is permitted yet" in text


MODELS = BUNDLED.name, "twelve"
TEXTS = "A crane ate fish", "The animal didn't cross the street because it was too tired"


def test_first_screen_of_any_model_fits(visitor: Visitor) -> None:
    """A narrow window has map and large head side by side; a phone stacks them."""
    for model, text in product(MODELS, TEXTS):
        page = open_path(visitor, model=model, text=text)
        the_map = box_of(page.locator(".st-key-heads .map").first)
        assert the_map["y"] + the_map["height"] <= 900, (model, text)
        large = box_of(page.locator(".st-key-head_large .tiles").first)
        words = box_of(page.locator(".st-key-as_words").first)
        rest = 900 - 120  # the top of the words without this owner's notice
        assert large["y"] + large["height"] - words["y"] <= rest, (model, text)
        if text != TEXTS[0]:
            continue
        page.set_viewport_size({"width": 1000, "height": 900})
        settle(page)
        small = picture(page, "heads").evaluate("view => view.look.side")
        assert picture(page, "head_large").evaluate("view => view.look.boxes[0].w") >= 2 * small
        page.set_viewport_size({"width": 400, "height": 900})
        page.wait_for_function("document.querySelector('.stMain').scrollWidth <= 400")
        settle(page)
        upper = box_of(page.locator(".st-key-heads .map").first)
        lower = box_of(page.locator(".st-key-head_large .tiles").first)
        assert upper["y"] + upper["height"] <= lower["y"]
        assert upper["x"] + upper["width"] <= 400
        last = picture(page, "heads").evaluate("view => view.look.boxes.at(-1).x + view.look.side")
        assert last <= upper["width"]


def test_long_text_is_zoomed_by_a_drag_and_restored_by_a_button(
    visitor: Visitor, folders: dict[str, Path]
) -> None:
    text = "x " * 200
    page = open_path(visitor, model="long", layer=0, head=0, text=text)
    expected = gpt2viz.trace(gpt2viz.load_model(folders["long"]), text).stage("weights", 0)[0]
    assert expected.shape[1] == 400
    drag(page, "head_large", (128.2, 64.2), (191.8, 127.8))  # of 256 blocks for 400 tokens
    top, bottom, left, right = window(page)
    assert_allclose((top, bottom, left, right), (200, 300, 100, 200), atol=5)
    part = panels(page, "head_large")[0]
    assert_allclose(part["z"], expected[0, top:bottom, left:right], rtol=1e-4, atol=1e-7)
    assert [len(panel["z"]) for panel in panels(page, "heads")] == [40] * 4, "the map is of all"
    drag(page, "head_large", (10.2, 20.2), (29.8, 39.8))
    closer = window(page)
    assert_allclose((closer[0] - top, closer[1] - top), (10, 30), atol=2)
    finest = panels(page, "head_large")[0]
    rows, columns = slice(*closer[:2]), slice(*closer[2:])
    assert_allclose(finest["z"], expected[0, rows, columns], rtol=1e-4, atol=1e-7)
    act(page, page.get_by_role("button", name="Show the whole text").click)
    assert "zoom" not in page.url
    assert len(panels(page, "head_large")[0]["z"]) == 256
    expect(page.get_by_text("Drag over a picture")).to_be_visible()


def test_untrusted_card_loads_nothing_and_links_open_sections(visitor: Visitor) -> None:
    for part in ("card", "tokenizer", "positions", "cost"):
        query = {"part": part, "model": "mine", "text": "A crane", "word": "crane"}
        page = open_path(visitor, "models", width=1000, **query)
        chosen = page.get_by_role("radio", name=SECTIONS[part], exact=True)
        expect(chosen).to_have_attribute("aria-checked", "true")
        expect(page.locator(".stAlert")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1000
        if part == "card":
            card = page.locator(".st-key-card")
            expect(page.get_by_role("heading", name="Mine", exact=True)).to_be_visible()
            assert page.evaluate("typeof canary") == "undefined"
            assert card.locator(":is(img, iframe, script)").count() == 0
            expect(card.get_by_text("a link (http:")).to_be_visible()
            assert card.locator("a:not([href^='#']), .katex, svg.flowchart").count() == 0
            assert card.locator("[class*='ColoredText']").count() == 0
            expect(card.locator("code", has_text=":red[x]").first).to_be_visible()
        assert not axe_violations(page, frame=False), part


# The training's pictures as currently drawn.
_DRAWN = """view => {
  const [then, now] = view.querySelector(".tiles").cells
  return [view.querySelector(".map").canvas, then.image, now.image, view.next, view.lens]
    .map((part) => part.toDataURL?.() ?? part.innerHTML)
}"""
# Hides the note for remote visitors, which a local one doesn't get.
_HIDE = "part => part.closest('[data-testid=stElementContainer]').style.display = 'none'"
#: Moves the slider and reads the result at once, before the server can respond.
_PRESSED = """view => {
  view.slider.value = 2
  view.slider.dispatchEvent(new Event("input"))
  return [view.at, view.when.textContent]
}"""


def test_training_slider_redraws_at_once_and_updates_the_address(visitor: Visitor) -> None:
    page = open_path(visitor, "training", model="grown", step=1, layer=0, head=0)
    page.get_by_text("Other machines can reach this server").evaluate(_HIDE)
    view = page.locator(".steps")
    heads, lens = view.locator(".map"), view.locator("[data-part=lens]")
    top, first, last = map(box_of, (view, heads, lens))
    assert top["y"] < first["y"] < 210
    assert last["y"] + last["height"] < 900
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
    view.locator("[data-part=loss]").click(position={"x": 36, "y": 40})
    expect(view.locator("output")).to_have_text("step 1")
    assert view.evaluate("view => view.style.getPropertyValue('--at')") == "0"
    settle(page)
    box = heads.evaluate("view => view.look.boxes[view.p.heads + 2]")
    heads.locator("canvas").click(position={"x": box["x"] + 5, "y": box["y"] + 5})
    page.wait_for_url("**head=2**")
    assert "layer=1" in page.url
    settle(page)
    titled = view.locator(".tiles").evaluate("view => view.p.panels.map(({ title }) => title)")
    assert titled[0] == "Head 1.2, at this checkpoint"
    page.emulate_media(reduced_motion="reduce")
    expect(view.locator("[data-part=play]")).to_be_hidden()
    page.emulate_media(reduced_motion="no-preference")
    view.locator("[data-part=play]").click()
    expect(view.locator("[data-part=play]")).to_have_text("▶ Play")  # it stops at the end
    page.wait_for_url("**step=300**")


def test_two_models_over_many_texts_link_to_both_heads_on_a_text(
    visitor: Visitor, folders: dict[str, Path]
) -> None:
    texts = [TEXTS[0], "A crane sat", "The cat sat on the mat", "A fish ate", "The old steel crane"]
    models = {"model": "mine", "model2": "grown"}
    over: dict[str, Any] = {"over": "texts", "texts": "\n".join(texts)} | models
    page = open_path(visitor, "side_by_side", differs="model", **over)
    act(page, page.get_by_role("button", name="Compare over 5 texts").click)
    expect(picture(page, "changes_map")).to_be_visible()
    settle(page)
    click_cell(page, "changes_map", 1, 2)
    expect(page.get_by_role("heading", name="Head 1.2")).to_be_visible()
    act(page, page.get_by_text("Put the old head 1.2 back").click)
    expect(page.locator(".st-key-changes_next .chart")).to_be_visible()
    page.get_by_role("link", name="See both heads on this text").click()
    expect(picture(page, "both_sides")).to_be_visible()
    settle(page)
    chosen = dict(parse_qsl(urlsplit(page.url).query))
    assert chosen["text"] in texts
    for panel, name in zip(panels(page, "both_sides"), models.values(), strict=True):
        expected = gpt2viz.trace(gpt2viz.load_model(folders[name]), chosen["text"])
        assert_allclose(panel["z"], expected.stage("weights", 1)[0, 2], atol=1e-6)


#: Records the document instead of opening the browser's print window.
_PRINTED = """
() => window.print = () => {
  window.top.toPrint = document.documentElement.outerHTML
  dispatchEvent(new Event("afterprint"))
}
"""


def test_a_pdf_needs_nothing_on_the_server(browser: Browser, visitor: Visitor) -> None:
    visitor.context.add_init_script(f"({_PRINTED})()")
    page = open_path(visitor, "predict", model=BUNDLED.name, text="<b> ёж")  # bars are Plotly's
    open_save(page, "Picture")
    expect(page.get_by_text("choose Save as PDF there")).to_be_visible()
    settle(page)
    page.get_by_role("tabpanel").get_by_role("button", name="PDF").click()
    page.wait_for_function("window.toPrint")
    assert page.locator("iframe[style*='width: 0']").count() == 0  # it was removed
    assert page.locator(".st-key-save_body").is_visible()
    paper = browser.new_page()
    to_print = page.evaluate("window.toPrint")
    paper.set_content(to_print)
    assert paper.title().startswith("gpt2viz_stories_b_Probability-of-the-most")
    pdf = paper.pdf(prefer_css_page_size=True)
    paper.close()
    (sheet,) = PdfReader(io.BytesIO(pdf)).pages
    (width,) = re.findall(r'<svg[^>]*? width="([\d.]+)"', to_print)[:1]  # CSS pixels, 0.75 points
    assert sheet.mediabox.width == pytest.approx(float(width) * 0.75, abs=1)
    written = " ".join(sheet.extract_text().split())
    for text in ("Probability of the most probable next tokens", "model stories", "<b>", "ёж"):
        assert text in written

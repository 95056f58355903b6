"""Save in a real browser: downloads have descriptive names, and sessions can be reopened."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
from playwright.sync_api import Browser, Page, expect

import gpt2viz
from tests.browser.conftest import act, go_to, settle
from tests.bundled import bundled_model

SVG = "{http://www.w3.org/2000/svg}"
NAME = "gpt2viz_stories_Dog-bites-man_"


def open_save(page: Page, tab: str) -> None:
    page.locator(".st-key-save button").first.click()
    page.get_by_role("tab", name=tab).click()


def download(page: Page, button: str) -> tuple[str, Path]:
    """Press a button of the open tab; the downloaded file's name and path."""
    settle(page)
    with page.expect_download() as result:
        page.get_by_role("tabpanel").get_by_role("button", name=button).locator(
            "visible=true"
        ).first.click()
    return result.value.suggested_filename, Path(result.value.path())


def test_picture_and_its_numbers_are_saved(open_page: Callable[..., Page]) -> None:
    page = open_page(dark=True, text="Dog bites man", layer=1, head=5)
    open_save(page, "Picture")
    name, path = download(page, "SVG")
    assert name == f"{NAME}Attention-weights-L1H5_causal.svg"
    root = ElementTree.parse(path).getroot()  # noqa: S314 (our own file)
    written = " ".join(text for part in root.iter(f"{SVG}text") for text in part.itertext())
    for words in ("Dog bites man", "model stories", "causal mask on", gpt2viz.__version__):
        assert words in written
    assert next(root.iter(f"{SVG}rect")).get("fill") == "#ffffff"  # from a dark page
    name, path = download(page, "CSV")  # Save is still open
    assert name == f"{NAME}Numbers-of-Attention-weights-L1H5_causal.csv"  # not the table's name
    numbers = pd.read_csv(path)
    weights = gpt2viz.trace(bundled_model(), "Dog bites man").stage("weights", 1)[0, 5]
    np.testing.assert_allclose(numbers["value"].to_numpy().reshape(weights.shape), weights, 1e-5)


def test_charts_are_saved_as_pictures(open_page: Callable[..., Page]) -> None:
    """Bars, and a lens with its curves, with all of their text."""
    page = open_page("predict", text="Dog bites man")
    bars = page.locator(".st-key-next_tokens .chart text.number").all_text_contents()
    assert bars
    open_save(page, "Picture")
    for picture, words in (("Probability of", bars), ("Most probable next", ["entropy (bits)"])):
        page.get_by_role("combobox", name="Picture").first.click()
        act(page, page.get_by_role("option", name=re.compile(picture)).click)
        _, path = download(page, "SVG")
        root = ElementTree.parse(path).getroot()  # noqa: S314 (our own file)
        written = {"".join(text.itertext()) for text in root.iter(f"{SVG}text")}
        assert written >= set(words)
        assert any("model stories" in line and "causal mask on" in line for line in written)
        _, path = download(page, "PNG")
        wide, tall = struct.unpack(">II", path.read_bytes()[16:24])
        size = float(root.get("width", "")), float(root.get("height", ""))
        np.testing.assert_allclose((wide, tall), np.multiply(size, 300 / 96), atol=1)


def test_page_with_the_model_is_saved_and_runs(
    open_page: Callable[..., Page], browser: Browser, tmp_path: Path
) -> None:
    page = open_page(text="Dog bites man")
    open_save(page, "Page")
    name, path = download(page, "HTML with the model")
    assert name == "attention.html"
    shutil.copy(path, tmp_path / name)
    context = browser.new_context(offline=True)
    model_page = context.new_page()
    model_page.goto((tmp_path / name).as_uri())
    model_page.wait_for_selector("html[data-ready]")
    expect(model_page.get_by_label("Sentence")).to_have_value("Dog bites man")
    expect(model_page.locator("[data-part=next] li")).to_have_count(5)
    assert model_page.locator(".map").evaluate("map => map.p.tokens.length") == 3
    context.close()


def test_open_popover_follows_the_page(open_page: Callable[..., Page]) -> None:
    open_page(text="Dog bites man", layer=1, head=5)
    for key in ("save", "share"):
        page = open_page(text="Dog bites man", layer=2, head=1)
        act(page, page.locator(f".st-key-{key} button").first.click)
        act(page, page.go_back)
        body = page.locator(f".st-key-{key}_body")
        if key == "share":
            expect(body.get_by_text("A slide of layer 1, head 5")).to_be_visible()
        else:
            picked = body.get_by_role("combobox", name="Picture").first
            expect(picked).to_have_value("Attention weights, layer 1, head 5")
        expect(body.get_by_text("once the page is drawn")).to_be_hidden()


def test_tables_toolbar_offers_no_unsafe_download(open_page: Callable[..., Page]) -> None:
    page = open_page("shapes", text="=1+1")
    page.get_by_test_id("stDataFrame").first.hover()
    toolbar = page.get_by_test_id("stElementToolbar")
    expect(toolbar.get_by_role("button", name="Search").first).to_be_visible()
    expect(toolbar.get_by_role("button", name="Download as CSV")).to_have_count(0)


def test_share_has_a_link_and_a_slide(open_page: Callable[..., Page]) -> None:
    """The browser makes the slide without other hosts, which ``open_page`` checks."""
    page = open_page("", text="Dog bites man", layer=1, head=3, query=1)
    page.locator(".st-key-share button").filter(visible=True).click()
    body = page.locator(".st-key-share_body")
    link = body.locator("[data-testid='stCode'] code").inner_text()
    for text in ("text=Dog+bites+man", "layer=1", "head=3", "query=1"):
        assert text in link
    settle(page)
    with page.expect_download() as result:
        body.get_by_role("button", name="PNG").click()
    assert result.value.suggested_filename == f"{NAME}L1H3_card_causal.png"
    picture = Path(result.value.path()).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">II", picture[16:24]) == (1600, 900)
    expect(body).to_be_visible()


def test_session_file_and_link_restore_the_page(
    open_page: Callable[..., Page], server: str, tmp_path: Path
) -> None:
    chosen = {"text": "Dog bites man", "layer": 2, "head": 3, "query": 1, "causal": "false"}
    page = open_page("head", **chosen)
    open_save(page, "Page")
    name, path = download(page, "Session")
    assert name == f"{NAME}Head_no-mask.json"
    link = page.get_by_test_id("stCode").inner_text().strip()

    def check_restored() -> None:
        settle(page)
        assert page.get_by_role("textbox", name="Sentence").input_value() == "Dog bites man"
        query = dict(part.split("=") for part in page.url.partition("?")[2].split("&"))
        assert {key: query[key] for key in ("layer", "head", "query", "causal")} == {
            key: str(value) for key, value in chosen.items() if key != "text"
        }

    open_page()
    open_save(page, "Open")
    spoiled = tmp_path / "spoiled.json"
    spoiled.write_text("{", encoding="utf-8")
    chooser = page.get_by_test_id("stFileUploader").locator("input[type=file]")
    chooser.set_input_files(spoiled)
    page.get_by_text("This file isn't a session").wait_for()
    session = tmp_path / "session.json"
    session.write_bytes(path.read_bytes())
    chooser.set_input_files(session)
    page.wait_for_url("**/head?**")
    check_restored()
    open_page()
    go_to(page, server, link.removeprefix(server))
    check_restored()
    assert json.loads(path.read_text(encoding="utf-8"))["sha256"]

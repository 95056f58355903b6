"""Save and Share on every page, and sessions that are saved and restored."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.pictures.palette import DARK, LIGHT, Palette, palette
from gpt2viz.run.session import Session, open_session
from tests.app.cases import each
from tests.app.pages import NO_SENTENCE, PAGES, data_of, heatmaps, open_page
from tests.bundled import CRANE, bundled_model, ids_of, opening, weights
from tests.notebook.test_show import decoded
from tests.pictures.test_svg import SVG, colors, images, texts

#: The keys of the lists in Save.
SAVE_LISTS = ("save_picture", "save_table", "save_run")
#: Addresses that together open every page, and some chapters of the Textbook.
VIEWS: list[tuple[str, dict[str, str]]] = [
    (page, {}) for page in [*PAGES, *NO_SENTENCE] if page != "textbook"
]
VIEWS += [("textbook", {"chapter": name}) for name in [*CHAPTERS][::6]]
VIEWS += [("attention", {"picture": "lines"}), ("attention", {"layer": "1", "head": "3"})]


def open_save(page: str, **view: str) -> AppTest:
    """Open Save on a page after its script has finished."""
    return run_beside(open_page(page, text="the cat saw the cat", **view), _save, "_shown")


def _save() -> None:
    from gpt2viz.app.frame import save

    save.draw_save()


def choices(at: AppTest) -> dict[str, Any]:
    return {box.key: box.options for box in at.selectbox if box.key in SAVE_LISTS}


@each(("page", "view"), VIEWS)
def test_every_entry_of_saves_lists_can_be_chosen(page: str, view: dict[str, str]) -> None:
    at = open_save(page, **view)
    tabs = [tab.label for tab in at.tabs]
    shown = at.session_state["_shown"]
    assert ("Picture" in tabs) == bool(shown.pictures)
    assert ("Table" in tabs) == bool(shown.tables)
    for key, options in choices(at).items():
        for name in options:
            at.selectbox(key=key).select(name).run()
            assert not at.exception, (key, name, at.exception)
            assert at.selectbox(key=key).value == name
            assert [tab.label for tab in at.tabs] == tabs
    assert tabs[-2:] == ["Page", "Open"]


def files_named(part: str, at: AppTest) -> list[bool]:
    """True for each picture in Save's list whose file name contains a part."""
    results = []
    for name in choices(at)["save_picture"]:
        at.selectbox(key="save_picture").select(name).run()
        at.button(key="save_png").click().run()
        results.append(part in data_of(at, "browser_picture")["filename"])
    return results


def test_file_names_have_only_the_runs_of_their_numbers() -> None:
    patched = {"text2": "the dog saw the dog", "patch": "patch:residual_in:2:3"}
    at = open_save("what_if?what_if=depends", **patched)
    assert files_named("_edited", at) == [False, False, True]  # maps of all patches; one patch
    at = open_save("predict?predict=generate", cache="true", room="2")
    assert files_named("_edited", at) == [False, True]
    at = open_save("what_if", edits="off:0.1", picture="lines")
    assert files_named("_edited", at)[:2] == [False, True]  # baseline; changed
    at = open_save("find", layer="1", head="2")
    assert files_named("_stories_the-cat-", at) == [True, False]  # maps; a head on random tokens
    at = open_save("textbook?chapter=mask")  # one picture of a head, others made by hand
    assert files_named("the-cat", at) == files_named("stories", at) == [n == 1 for n in range(5)]
    assert not at.session_state["_shown"].entries["Shapes of a mask that is kept"].runs
    assert files_named("_stories_Scores-of-", open_save("head?see=weights")) == [False, True]
    for part in ("card", "config", "parameters", "tokenizer", "positions"):
        entries = open_page("models", part=part).session_state["_shown"].entries
        assert {"stories" in name for name in entries} == {True}, part


NAMES = "When Mary and John went to the garden, John gave the flower to Mary. " * 4


def open_share(page: str, dark: bool = False, **view: str) -> AppTest:
    """Open Share on a page after its script has finished.

    Choices by the page's own widgets are lost, as Streamlit drops them for another page.
    """
    at = open_page(page, **{name: value for name, value in view.items() if value})
    at.session_state["_shown"].colors = palette(dark)
    return run_beside(at, _share, "_shown")


def _share() -> None:
    from gpt2viz.app.frame import save

    save.draw_share()


def card(at: AppTest) -> ElementTree.Element:
    """The SVG of the card that the browser saves."""
    at.button(key="share_png").click().run()
    assert not at.exception, at.exception
    (card,) = data_of(at, "browser_picture")["parts"]
    return ElementTree.fromstring(card["svg"])  # noqa: S314 (our own)


def marked_tokens(root: ElementTree.Element) -> list[str | None]:
    return [span.text for span in root.iter(f"{SVG}tspan")]


def check_weights(root: ElementTree.Element, rows: np.ndarray) -> None:
    """The first image has the colours of these weights, except where they are masked."""
    drawn = images(root, rows.shape)[0]
    assert_allclose(drawn[..., :3][rows > 0], colors(rows, LIGHT.unit)[rows > 0], atol=0.6)


@each("page", ["attention", "head"])
def test_card_shows_the_chosen_head(page: str) -> None:
    layer, head = opening()
    figure = card(open_share(page, text=CRANE, layer=str(layer), head=str(head), query="2"))
    row = weights(CRANE)[layer, head][2]
    check_weights(figure, weights(CRANE)[layer, head])
    text = " ".join(texts(figure))
    assert f"Layer {layer} · Head {head} A ·crane ·ate ·fish" in text
    labels, message = ("A", "·crane", "·ate"), [n for n in (-row).argsort()[:3] if row[n] >= 0.05]
    keys = ", ".join(f"“{labels[n]}”: {row[n]:.2f}" for n in message)
    assert f"Head {layer}.{head}: “·ate” attends to {keys}." in text
    assert "stories · causal mask on" in text
    assert marked_tokens(figure) == ["·ate"]
    assert (figure.get("width"), figure.get("height")) == ("1600", "900")


def check_colors(root: ElementTree.Element, colors: Palette, ground: str) -> None:
    assert next(root.iter(f"{SVG}rect")).get("fill") == ground
    assert {text.get("fill") for text in root.iter(f"{SVG}text")} >= {colors.ink}


def test_card_has_the_pages_colours_and_the_mask_state() -> None:
    figure = card(open_share("attention", text=CRANE, layer="1", head="2", causal="false"))
    check_colors(figure, LIGHT, "#ffffff")
    check_colors(card(open_share("attention", dark=True, text=CRANE)), DARK, "#12141c")
    check_weights(figure, weights(CRANE, causal=False)[1, 2])
    assert "causal mask off" in " ".join(texts(figure))
    off, on = (weights(CRANE, causal)[1, 2, 2] for causal in (False, True))
    root = card(open_share("attention", text=CRANE, layer="1", head="2", query="2", causal="false"))
    message = " ".join(texts(root))
    result = re.search(r"“·ate” attends to (.*); with the mask on, (.*)\.", message)
    assert result
    for text, row in zip(result.groups(), (off, on), strict=True):
        largest = sorted((w for w in row if w >= 0.05), reverse=True)[:3]
        numbers = [float(n) for n in re.findall(r"\d\.\d+", text)]
        assert numbers == pytest.approx(largest, abs=0.0051)


@each(("text", "query"), [("Dog", None), (NAMES, "40"), ("the bank of the river " * 40, "199")])
def test_card_fits_any_text_with_the_chosen_token(text: str, query: str | None) -> None:
    root = card(open_share("attention", text=text, layer="1", head="0", query=query or ""))
    words = list(root.iter(f"{SVG}text"))[:-2]  # without the source
    assert max(float(word.attrib["y"]) for word in words) < 900 - 50 - 32 - 20
    assert len(marked_tokens(root)) == (query is not None)
    if query is not None:
        token = bundled_model().tokenizer.token_bytes(ids_of(text)[int(query)]).decode()
        assert marked_tokens(root) == [token.replace(" ", "·")]
    assert ("…" in " ".join(texts(root))) == (len(ids_of(text)) > 60)


def test_page_without_a_head_shares_only_a_link() -> None:
    at = open_share("shapes", text=CRANE)
    (code,) = at.code
    assert code.value.partition("?")[2] == "text=A+crane+ate+fish&model=stories"
    assert not at.button


#: A second sentence too long for an address that still fits the context.
LONG = ("together " * 225).strip()


def _store() -> None:
    import streamlit as st

    from gpt2viz.app.frame import save

    st.session_state["saved"] = save.all_choices()


def _restore() -> None:
    import streamlit as st

    from gpt2viz.app import address

    st.session_state["asked"] = address.restore(st.session_state["saved"])


def run_beside(at: AppTest, script: object, *names: str) -> AppTest:
    """Run a function as another page of the same visitor."""
    other = AppTest.from_function(script, default_timeout=60)  # type: ignore[arg-type]
    for name in ("_address", "text", "model", *names):
        if name in at.session_state:
            other.session_state[name] = at.session_state[name]
    other.query_params.update(at.query_params)
    other.run()
    assert not other.exception, other.exception
    return other


def saved_session(at: AppTest) -> dict[str, str]:
    """The content of a page's session file."""
    return dict(run_beside(at, _store).session_state["saved"])


def restore_session(at: AppTest, session: dict[str, str]) -> AppTest:
    """Open a session's file on a visitor's page; the page then."""
    at.session_state["saved"] = session
    restored = run_beside(at, _restore, "saved")
    for name in ("_address", "_address_saved"):
        at.session_state[name] = restored.session_state[name]
    at.query_params.clear()
    at.query_params.update(restored.session_state["asked"])
    at.run()
    assert not at.exception, at.exception
    return at


def test_session_restores_a_part_of_another_text() -> None:
    session = saved_session(open_page("attention", text="The cat sat on the mat", zoom="2,5,1,4"))
    assert session["zoom"] == "2,5,1,4"
    at = restore_session(open_page("attention", text="Dog bites man", zoom="0,2,0,2"), session)
    assert heatmaps(at, "one_head")["weights"].shape == (3, 3)
    assert at.query_params["zoom"] == "2,5,1,4"
    assert not at.warning


def test_session_restores_a_long_second_sentence() -> None:
    at = open_page("side_by_side?differs=text", text="A crane ate fish", model="stories")
    at.text_input(key="text2").set_value(LONG).run()
    assert "text2" not in at.query_params
    assert "too long for a link" in " ".join(block.value for block in at.caption)
    session = saved_session(at)
    assert session["text2"] == LONG
    result = restore_session(open_page("side_by_side?differs=text", text="Dog bites man"), session)
    assert result.session_state["text2"] == LONG
    assert result.session_state["text"] == "A crane ate fish"
    assert not result.warning


def test_session_restores_a_long_list() -> None:
    cells = ",".join(f"{query}:{key}" for query in range(60) for key in range(query))
    assert len(cells) > 2000
    session = {"text": "the cat " * 30, "find": "pattern", "pattern": "empty", "cells": cells}
    at = restore_session(open_page("find"), session)
    assert len(at.session_state["cells"]) == 60 * 59 // 2
    assert saved_session(at)["cells"] == cells


def test_session_resets_parameters_that_it_lacks() -> None:
    """They get their defaults, whatever was chosen before."""
    first = open_page("side_by_side?differs=text", text="A crane ate fish")
    at = open_page("side_by_side?differs=text", text="Dog bites man")
    at.text_input(key="text2").set_value(LONG).run()
    assert at.session_state["text2"] == LONG
    restore_session(at, {"text": "A crane ate fish", "differs": "text"})
    assert at.session_state["text2"] == first.session_state["text2"] != LONG


def test_notebook_shows_the_apps_session(tmp_path: Path) -> None:
    chosen = {"text": "Dog bites man", "layer": "2", "head": "3", "query": "1", "causal": "false"}
    at = open_page("attention", bos="true", **chosen)
    sha256 = bundled_model().weight_files.sha256  # type: ignore[union-attr]
    content = Session("Attention", saved_session(at), sha256).to_json()
    (tmp_path / "session.json").write_text(content, encoding="utf-8")
    view = gpt2viz.show(tmp_path / "session.json")
    n_head = view.about["map"]["heads"]
    assert (view.about["chosen"], view.about["token"]) == (2 * n_head + 3, 1)
    drawn = heatmaps(at, "one_head")["weights"]
    np.testing.assert_array_equal(decoded(view.html())[2][3], drawn)
    assert drawn[0, 1] > 0  # the mask is off


def test_app_opens_a_notebooks_session(tmp_path: Path) -> None:
    model = bundled_model()
    ids = model.tokenizer.encode("Dog bites man", bos=True)
    trace = gpt2viz.trace(model, ids, causal=False)
    view = gpt2viz.show(trace, layers=[1])
    session = open_session(view.save(tmp_path / "session.json"))
    layer, head = divmod(view.about["chosen"], trace.config.n_head)
    assert (layer, session.page) == (1, "Attention")
    assert session.sha256 == model.weight_files.sha256  # type: ignore[union-attr]
    at = restore_session(open_page("attention", text="A crane ate fish"), dict(session.parameters))
    drawn = heatmaps(at, "one_head")["weights"]
    np.testing.assert_array_equal(drawn, trace.stage("weights", layer, head))
    assert not at.warning

"""Share: the card says what the run's numbers say, however long the text is."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.pictures.palette import DARK, LIGHT
from tests.app.pages import array, open_page
from tests.bundled import opening
from tests.numpy_gpt2 import reference

CRANE = "A crane ate fish"
NAMES = "When Mary and John went to the garden, John gave the flower to Mary. " * 4


def share(page: str, dark: bool = False, **view: str) -> AppTest:
    """What Share opens into once the page's script has run to the end.

    What was chosen by the page's own widgets is gone: another that is being opened drops it.
    """
    at = open_page(page, **{name: value for name, value in view.items() if value})
    opened = AppTest.from_function(_share, default_timeout=60, args=(dark,))
    for name in ("_shown", "_address", "text", "model"):
        if name in at.session_state:
            opened.session_state[name] = at.session_state[name]
    return opened.run()


def _share(dark: bool) -> None:
    from gpt2viz.app.frame import share
    from gpt2viz.pictures.palette import palette

    share._body(palette(dark))


def card(at: AppTest) -> Any:
    """The figure that the browser is given to save."""
    at.button(key="share_png").click().run()
    assert not at.exception, at.exception
    (sent,) = [
        part.proto.json for part in at.get("bidi_component") if '"figure"' in part.proto.json
    ]
    return json.loads(json.loads(sent)["figure"])


def written(figure: Any) -> str:
    lines = [note["text"] for note in figure["layout"]["annotations"]]
    return " ".join(re.sub("<[^>]*>", "", line) for line in lines)


def expected(text: str, layer: int, head: int, causal: bool = True) -> np.ndarray:
    """(T, T), by a GPT-2 that shares no code with the app."""
    ids = gpt2viz.load_model().tokenizer.encode(text)
    found: np.ndarray = reference(BUNDLED, ids, causal)["weights"][layer][head]
    return found


def weights(figure: Any) -> np.ndarray:
    (found,) = [array(one["z"]) for one in figure["data"] if one.get("coloraxis")]
    return found


@pytest.mark.parametrize("page", ["attention", "head"])
def test_the_card_tells_the_chosen_head_of_this_run(page: str) -> None:
    layer, head = opening()
    figure = card(share(page, text=CRANE, layer=str(layer), head=str(head), query="2"))
    row = expected(CRANE, layer, head)[2]
    assert_allclose(weights(figure), expected(CRANE, layer, head), atol=1e-5)
    said = written(figure)
    assert f"Layer {layer} · Head {head} A ·crane ·ate ·fish" in said
    labels, told = ("A", "·crane", "·ate"), [n for n in (-row).argsort()[:3] if row[n] >= 0.05]
    looks = ", ".join(f"{labels[n]} ({row[n]:.2f})" for n in told)
    assert f"Head {layer}.{head}: ·ate looks at {looks}." in said
    assert "stories · causal mask on" in said
    marked = [note["text"] for note in figure["layout"]["annotations"] if "<span" in note["text"]]
    assert [re.findall(r"<span[^>]*>([^<]*)", line) for line in marked] == [["·ate"]]
    assert (figure["layout"]["width"], figure["layout"]["height"]) == (1600, 900)


def test_the_card_says_that_the_mask_is_off() -> None:
    figure = card(share("attention", text=CRANE, layer="1", head="2", causal="false"))
    assert_allclose(weights(figure), expected(CRANE, 1, 2, causal=False), atol=1e-5)
    assert "causal mask off" in written(figure)
    off, on = (expected(CRANE, 1, 2, causal)[2] for causal in (False, True))
    told = written(
        card(share("attention", text=CRANE, layer="1", head="2", query="2", causal="false"))
    )
    found = re.search(r"·ate looks at (.*) \(with the mask on at (.*)\)\.", told)
    assert found
    for said, row in zip(found.groups(), (off, on), strict=True):
        largest = sorted((w for w in row if w >= 0.05), reverse=True)[:3]
        assert [float(n) for n in re.findall(r"\d\.\d+", said)] == pytest.approx(
            largest, abs=0.0051
        )


@pytest.mark.parametrize("dark", [False, True])
def test_the_card_has_the_pages_colours(dark: bool) -> None:
    colors = DARK if dark else LIGHT
    layout = card(share("attention", dark=dark, text=CRANE))["layout"]
    assert layout["paper_bgcolor"] == {False: "#ffffff", True: "#12141c"}[dark]
    assert layout["font"]["color"] == colors.ink


@pytest.mark.parametrize(
    ("text", "query"), [("Dog", None), (NAMES, "40"), ("the bank of the river " * 40, "199")]
)
def test_a_text_of_any_length_fits_and_keeps_the_chosen_token(text: str, query: str | None) -> None:
    at = share("attention", text=text, layer="1", head="0", query=query or "")
    figure = card(at)
    notes = figure["layout"]["annotations"]
    assert max(-note["yshift"] for note in notes if note["y"] == 1) < 650
    marked = [note["text"] for note in notes if "<span" in note["text"]]
    assert len(marked) == (query is not None)
    if query is not None:
        ids = gpt2viz.load_model().tokenizer.encode(text)
        token = gpt2viz.load_model().tokenizer.token_bytes(ids[int(query)]).decode()
        assert f">{token.replace(' ', '·')}</span>" in marked[0]
    long = len(expected(text, 1, 0)) > 60
    assert ("…" in written(figure)) == long


def test_a_page_without_a_head_has_the_link_alone() -> None:
    at = share("shapes", text=CRANE)
    assert [code.value.partition("?")[2] for code in at.code] == [
        "text=A+crane+ate+fish&model=stories"
    ]
    assert not at.button

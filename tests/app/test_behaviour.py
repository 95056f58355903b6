"""What a person does on the pages, and what they are told where something can't be shown."""

from __future__ import annotations

import io
import re
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app import run_cache
from gpt2viz.app.literal import literal
from tests.app.pages import (
    PAGES,
    ROOT,
    VIEWS,
    WITHOUT,
    array,
    canvas,
    chips,
    figure,
    heatmaps,
    open_page,
    pictures,
)
from tests.bundled import N_HEAD, opening

#: One of something is not said as many: "1 tokens", but "1 is" and "head 1 is".
ONE_OF_MANY = re.compile(r"(?<![\d.,·−-])\b1 (?!is|less|was|has|as|this|its|pass)[a-z]+s\b")


#: What says in one message why there is no picture: no second model, one token.
TELL = ("side_by_side?differs=model", *(f"find?find={way}" for way in ("pattern", "head", "all")))


def said(at: AppTest) -> str:
    return " ".join(block.value for block in [*at.warning, *at.info, *at.error])


def titles(at: AppTest, key: str) -> list[str]:
    return [note["text"] for note in figure(at, key)["layout"]["annotations"]]


@pytest.mark.parametrize("page", [view for view in VIEWS if view not in TELL])
@pytest.mark.parametrize(
    "text",
    [
        "x",
        # Every page is drawn once for each text, so that each has all odd characters of a kind.
        "the cat the cat 🦩🦩 👩‍👧 🇩🇰 مرحبا שלום a\x00b \u202e \u200b e\u0301\nline\r\n\ttab",
        "<b>b</b><script>a(1)</script> $x$ $$y$$ :red[r] :smile: [a](http://b) **b** `c` www.d.io",
        "  ",
    ],
    ids=lambda text: ascii(text)[:18],
)
def test_any_text_is_a_picture_on_every_page(page: str, text: str) -> None:
    at = open_page(page, text=text)
    assert not said(at)
    if text == "x":
        one = [m for part in at.main for m in ONE_OF_MANY.findall(str(getattr(part, "proto", "")))]
        assert not one
    if page == "attention":
        n = len(chips(at)["labels"])
        assert heatmaps(figure(at, "one_head"))["weights"].shape == (n, n)


@pytest.mark.parametrize("query", [1, 4, 7])
def test_equal_tokens_are_told_apart(query: int) -> None:
    at = open_page("attention", text="of the bank of the river of the bank", query=str(query))
    assert at.session_state["query"] == query
    shown = [shape["y0"] for shape in figure(at, "one_head")["layout"]["shapes"]]
    assert shown == [query - 0.5]


def test_typing_changes_picture_and_address() -> None:
    at = open_page("attention")
    at.text_input(key="text").set_value("Man bites dog").run()
    assert array(figure(at, "one_head")["data"][0]["z"]).shape == (3, 3)
    assert at.query_params["text"] == "Man bites dog"


def test_an_example_fills_the_sentence() -> None:
    at = open_page("attention", query="3")
    at.session_state["examples"] = True
    at.run()
    at.button(key="example_River bank").click().run()
    assert at.text_input(key="text").value == "She sat by the bank of the river"
    assert at.query_params["query"] == "7", "the word that asks"


def test_the_mask_switch_reaches_every_page() -> None:
    at = open_page("attention")
    at.toggle(key="causal").set_value(False).run()
    assert at.query_params["causal"] == "false"
    assert any("experiment" in caption.value for caption in at.caption)
    off = heatmaps(figure(at, "one_head"))["weights"]
    assert (off > 0).all()


def test_the_mask_in_words() -> None:
    at = open_page("side_by_side?differs=mask", query="1")
    said_here = " ".join(block.value for block in at.markdown)
    assert "`1` ·crane can see itself and `0` A." in said_here
    assert "It can't see `2` ·ate, `3` ·fish." in said_here


def test_equal_tokens_keep_rows_of_their_own() -> None:
    spec = figure(open_page("attention", text="the cat the cat the"), "one_head")
    names = spec["data"][0]["x"]
    assert len(set(names)) == len(names)
    assert spec["layout"]["xaxis"]["ticktext"][1] == spec["layout"]["xaxis"]["ticktext"][3]


def test_first_token_is_at_the_top_left() -> None:
    spec = figure(open_page("head"), "stage_weights")
    first, *_ = spec["data"]
    assert first["x"][0] == first["y"][0] == "0 A"
    assert first["z"][0, 0] == pytest.approx(1)  # the first token sees itself alone
    layout = spec["layout"]
    assert layout["yaxis"]["title"]["text"] == "query"
    assert layout["xaxis"]["title"]["text"] == "key"


def test_a_chosen_token_frames_its_row() -> None:
    (frame,) = figure(open_page("attention", query="2"), "one_head")["layout"]["shapes"]
    assert [frame[end] for end in ("y0", "y1", "x0", "x1")] == [1.5, 2.5, -0.5, 3.5]


@pytest.mark.parametrize(
    ("parameter", "value", "told"),
    [
        ("layer", "99", "layer: 99 can't be shown here. It must be 0 to 3."),
        ("head", "-1", rf"head: \-1 can't be shown here. It must be 0 to {N_HEAD - 1}."),
        ("head", "<b>x</b>", r"head: \<b\>x\<\/b\> can't be shown"),
        ("causal", "maybe", "causal: maybe can't be shown here. It must be true or false."),
        ("query", "4", "query: 4 can't be shown here. It must be 0 to 3."),
        ("model", "../../etc", "can't be shown here. It must be stories."),
    ],
)
def test_a_bad_address_falls_back_with_a_note(parameter: str, value: str, told: str) -> None:
    at = open_page("attention", **{parameter: value})
    assert told in said(at)
    assert titles(at, "one_head")[0] == "Layer {} · Head {}".format(*opening())
    at.run()
    assert not said(at)


def test_a_token_that_a_new_sentence_lacks_is_let_go_silently() -> None:
    at = open_page("attention", query="3")
    at.text_input(key="text").set_value("Man bites dog").run()
    assert not said(at)
    assert "query" not in at.query_params


def test_a_bad_list_of_layers_falls_back_with_a_note() -> None:
    at = open_page("side_by_side", layers="0,7")
    assert "layers: 0\\,7 can't be shown here" in said(at)
    assert len(titles(at, "layers_chart")) == 2


def test_the_last_layer_cannot_be_taken_away() -> None:
    at = open_page("side_by_side", layers="2", layer="1", head="0")
    at.button_group(key="layers").set_value([]).run()
    assert at.button_group(key="layers").value == [0, 1]  # the first, and the chosen one
    assert (
        len(titles(at, "layers_chart"))
        == len(titles(open_page("side_by_side"), "layers_chart"))
        == 2
    )
    assert not said(at)


def test_every_page_is_visited_in_one_session() -> None:
    chosen = {"text": "Dog bites man", "layer": "2", "query": "1"}
    at = open_page("attention", **chosen)
    first = canvas(at, "one_head")
    for path in [*PAGES.values(), *WITHOUT.values(), PAGES["attention"]]:
        at.switch_page(str(ROOT / path))
        at.query_params |= chosen  # as the links of the menu carry them
        at.run()
        assert not at.exception, path
        assert not said(at), path
        assert at.query_params == chosen, path
    assert canvas(at, "one_head") == first


def test_what_is_chosen_stays_when_the_page_changes() -> None:
    at = open_page("head", text="Man bites dog", head="0")
    at.button_group(key="layer").set_value(3).run()
    address = at.query_params
    assert address == {"text": "Man bites dog", "layer": "3", "head": "0"}
    at = open_page("side_by_side?differs=mask", **address)
    assert any("layer 3, head 0" in alt for alt in pictures(at).values())


def test_the_shapes_that_are_shown_can_be_taken_along(monkeypatch: pytest.MonkeyPatch) -> None:
    pressed: dict[str, Any] = {}

    def button(_place: Any, label: str, data: bytes, **options: Any) -> bool:
        pressed[label] = data, options["file_name"]
        return False

    monkeypatch.setattr("streamlit.delta_generator.DeltaGenerator.download_button", button)
    open_page("shapes", filter="attn.attend.weights", text="A crane=1")
    made, name = pressed["CSV"]
    table = pd.read_csv(io.BytesIO(made))
    run = gpt2viz.trace(gpt2viz.load_model(), "A crane=1")
    records = [record for record in run.tensors if record.key == "weights"]
    assert list(table["tensor"]) == [record.name for record in records]
    assert list(table["shape"]) == [f"({', '.join(map(str, r.shape))})" for r in records]
    assert "“A crane=1” · model stories · causal mask on" in table["about"][0]
    assert name == "gpt2viz_stories_A-crane-1_shapes_causal.csv"


def test_no_text_is_one_message_and_no_picture() -> None:
    at = open_page("attention", text="")
    assert said(at) == literal("There is no text yet. Type a word or a sentence.")
    assert not pictures(at)


def test_too_many_tokens_offers_the_first_part() -> None:
    at = open_page("attention", text="the cat " * 200)
    assert "reads at most 256 at once" in said(at)
    assert not pictures(at)
    [offer] = [button for button in at.button if button.label == "Use the first 256 tokens"]
    offer.click().run()
    assert not said(at)
    assert heatmaps(figure(at, "one_head"))["weights"].shape == (256, 256)


def test_a_megabyte_is_one_message() -> None:
    at = open_page("attention")
    at.text_input(key="text").set_value("word " * 200_000).run()
    assert "reads at most 256 at once" in said(at)
    assert "text" not in at.query_params
    assert "too long for the address" in " ".join(block.value for block in at.caption)


def test_a_slider_or_page_never_runs_the_model_again(monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page("head", text="one run is enough for all of this")
    calls: list[object] = []
    monkeypatch.setattr("gpt2viz.trace", lambda *args, **_: calls.append(args))
    at.button_group(key="layer").set_value(3).run()
    at.button_group(key="head").set_value(2).run()
    at.query_params["query"] = "1"
    at.run()
    assert not calls


def test_a_broken_model_is_one_message(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, f"{tmp_path}")
    run_cache.models.clear()
    at = open_page("attention")
    assert "no config\\.json" in said(at)
    assert not pictures(at)
    run_cache.models.clear()

"""A visitor's actions on the pages, and the messages when something can't be shown."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz import settings
from gpt2viz.analysis.nonfinite import first_not_finite
from gpt2viz.app import pages, run_cache
from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.app.views.measures import MEASURES
from gpt2viz.app.views.models import SECTIONS
from gpt2viz.pictures.from_trace import mask_of
from tests.app.cases import each
from tests.app.pages import (
    PAGES,
    ROOT,
    VIEWS,
    button_groups,
    canvas,
    chips,
    head_text,
    heatmaps,
    notices,
    open_page,
    panels,
    pictures,
    plain,
    titles,
)
from tests.bundled import N_HEAD, bundled_model, opening
from tests.checkpoints import weights_of, with_stages, write_checkpoint

#: A plural after 1, such as "1 tokens"; "1 is" and "head 1 is" are fine.
ONE_OF_MANY = re.compile(r"(?<![\d.,·−-])\b1 (?!is|less|was|has|as|this|its|pass)[a-z]+s\b")


#: Views with a message instead of a picture: without a second model; for one token.
PAIR = "side_by_side?differs=model"
TWO_TOKENS = tuple(f"find?find={way}" for way in ("pattern", "head", "all"))
#: A single token, and odd characters beside the glossary's words; the latter with a first token
#: added.
TEXTS = (
    "x",
    "<b>b</b><script> $x$ $$y$$ :red[r] [a](http://b) **b** `c` www.d.io the token bit the "
    "head and the key 🦩 👩‍👧 🇩🇰 مرحبا a\x00b \u202e \u200b e\u0301\nline\r\n\ttab ",
)


@each("page", [*(view for view in VIEWS if view != PAIR), "predict?predict=generate&cache=true"])
def test_every_page_draws_any_text(page: str) -> None:
    for text in TEXTS[page in TWO_TOKENS :]:
        first = text == TEXTS[-1]
        at = open_page(page, text=text, bos=str(first).lower())
        assert not notices(at)
        captions = plain(" ".join(block.value for block in at.caption))
        if page not in ("models", "textbook"):
            assert ("ends with a space" in captions) == text.endswith("tab ")
        if page != "models":
            assert (chips(at)["labels"][0] == "<|endoftext|>") == first
            assert ("was **put first**" in captions) == first
        texts = [block.value for block in (*at.markdown, *at.caption, *at.info, *at.warning)]
        assert not [text for text in texts if re.search(r"·\[\w+\]\(glossary", text)], "no terms"
        if text == "x":
            protos = (str(getattr(part, "proto", "")) for part in at.main)
            assert not [m for proto in protos for m in ONE_OF_MANY.findall(proto)]
        if page == "attention":
            n = len(chips(at)["labels"])
            assert heatmaps(at, "one_head")["weights"].shape == (n, n)


def test_mask_is_described_in_words() -> None:
    at = open_page("side_by_side?differs=mask", query="1")
    words = " ".join(block.value for block in at.markdown)
    assert "“·crane” (1) sees itself and “A” (0)." in words
    assert "It can't see “·ate” (2), “·fish” (3)." in words


def test_wrong_parameters_fall_back_with_one_message() -> None:
    wrong = {"layer": "99", "head": "<b>x</b>", "causal": "maybe", "query": "4"}
    at = open_page("attention", **wrong, model="../../etc", picture="x")
    (message,) = messages(at)
    assert message.replace("\\", "").split("\n\n") == [
        "model: ../../etc can't be shown here. It must be stories.",
        "causal: maybe can't be shown here. It must be true or false.",
        "query: 4 can't be shown here. It must be 0 to 3.",
        "layer: 99 can't be shown here. It must be 0 to 3.",
        f"head: <b>x</b> can't be shown here. It must be 0 to {N_HEAD - 1}.",
        "picture: x can't be shown here. It must be matrix or lines.",
    ]
    assert r"head: \<b\>x\<\/b\>" in message
    assert titles(at, "one_head")[0] == "Layer {} · Head {}".format(*opening())
    assert messages(at.run()) == []


def test_bad_list_of_layers_falls_back_with_a_note() -> None:
    at = open_page("side_by_side", layers="0,7")
    assert "layers: 0\\,7 can't be shown here" in notices(at)
    assert len(titles(at, "layers_chart")) == 2
    at = open_page("side_by_side", layers="2", layer="1", head="0")
    at.button_group(key="layers").set_value([]).run()
    assert at.button_group(key="layers").value == [0, 1]  # the first, and the chosen layer
    assert len(titles(at, "layers_chart")) == 2
    assert not notices(at)


def test_every_page_in_one_session_shows_its_name() -> None:
    chosen = {"text": "Dog bites man", "layer": "2", "query": "1"}
    at = open_page("attention", **chosen)
    first = canvas(at, "one_head")
    for page in (*pages.PAGES, pages.ATTENTION):
        path = page.path
        at.switch_page(str(ROOT / path))
        at.query_params |= chosen  # as the links of the menu carry them
        at.run()
        assert not at.exception, path
        assert not notices(at), path
        assert at.query_params == chosen, path
        drawn = "".join(block.proto.body for block in at.get("html"))
        assert re.findall(r'<h1 class="page-name">(.*?)</h1>', drawn) == [page.title]
    assert canvas(at, "one_head") == first


def test_listed_shapes_are_saved_as_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    pressed: dict[str, Any] = {}

    def button(_self: Any, label: str, data: bytes, **options: Any) -> bool:
        pressed[label] = data, options["file_name"]
        return False

    monkeypatch.setattr("streamlit.delta_generator.DeltaGenerator.download_button", button)
    open_page("shapes", filter="attn.attend.weights", text="A crane=1")
    data, name = pressed["CSV"]
    table = pd.read_csv(io.BytesIO(data))
    run = gpt2viz.trace(bundled_model(), "A crane=1")
    records = [record for record in run.tensors if record.key == "weights"]
    assert list(table["tensor"]) == [record.name for record in records]
    assert list(table["shape"]) == [f"({', '.join(map(str, r.shape))})" for r in records]
    assert "“A crane=1” · model stories · causal mask on" in table["about"][0]
    assert name == "gpt2viz_stories_A-crane-1_shapes_causal.csv"


def test_text_of_200_kilobytes_is_one_message() -> None:
    at = open_page("attention")
    at.text_input(key="text").set_value("word " * 40_000).run()
    assert "reads at most 256 at once" in notices(at)
    assert "text" not in at.query_params
    assert "too long for a link" in " ".join(block.value for block in at.caption)


def test_choices_never_rerun_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page("head", text="one run is enough for all of this")
    calls: list[object] = []
    monkeypatch.setattr("gpt2viz.trace", lambda *args, **_: calls.append(args))
    at.button_group(key="layer").set_value(3).run()
    at.button_group(key="head").set_value(2).run()
    at.query_params["query"] = "1"
    at.run()
    assert not calls


LONG = "the cat " * 200
FRAME = {"Sentence", "Model", "Examples", "Causal mask", "<|endoftext|> first"}
FRAME |= {"Chapters", "All chapters"}


def messages(at: AppTest) -> list[str]:
    return [block.value for block in [*at.info, *at.warning, *at.error]]


def drawn_parts(at: AppTest) -> list[str]:
    """Headings, pictures, tables and controls around the message."""
    controls = [*button_groups(at), *at.selectbox, *at.toggle, *at.text_input, *at.radio]
    results = [control.label for control in controls if control.label not in FRAME]
    results += [block.value for block in at.markdown if block.value.startswith("#")]
    results += pictures(at)
    return results + ["table"] * len(at.dataframe) + [metric.label for metric in at.metric]


@each("page", [page for page in PAGES if page != "models"])
@each(("text", "expected"), [("", "Type a word or a sentence"), (LONG, "Shorten it by 145")])
def test_empty_or_too_long_text_is_only_one_message(page: str, text: str, expected: str) -> None:
    at = open_page(page, text=text)
    (message,) = messages(at)
    assert expected in message
    assert drawn_parts(at) == []


@each("way", ["pattern", "head", "all"])
def test_one_token_can_not_distinguish_heads(way: str) -> None:
    at = open_page("find", text="A", find=way)
    (message,) = messages(at)
    assert message.startswith("With a single token")
    assert drawn_parts(at) == ["What to show"]
    assert len(chips(at)["labels"]) == 1


def test_one_token_has_no_similar_heads_side_by_side() -> None:
    at = open_page("side_by_side", text="A", differs="head")
    assert any("With a single token" in plain(block.value) for block in at.caption)
    assert "heads_map" not in pictures(at)


def test_one_token_attends_to_itself() -> None:
    at = open_page("find", text="A", find="look")
    assert messages(at) == []
    assert at.session_state["keys"] == [0]
    assert any("from query 0 to tokens 0" in name for name in pictures(at).values())


@each(
    ("parameters", "expected"),
    [
        ({"habit": "induction", "on": "sentence"}, "“copying (induction)” can't be measured"),
        ({"find": "pattern", "pattern": "empty"}, "The pattern is empty"),
        ({"find": "pattern", "pattern": "empty", "cells": "0:0"}, "The pattern is empty"),
    ],
)
def test_heads_without_a_number_are_not_ranked(parameters: dict[str, str], expected: str) -> None:
    at = open_page("find", **parameters)
    (message,) = messages(at)
    assert expected in message
    assert not at.dataframe
    assert not {"Only layers", "Picture"} & {group.label for group in button_groups(at)}


def test_one_token_has_no_surprise_chart() -> None:
    at = open_page("predict", text="A")
    assert any("Nothing comes before the first token" in text.value for text in at.caption)
    assert "surprise" not in pictures(at)


@each(("config", "expected"), [("", r"no config\.json"), ("{", "config\\.json")])
def test_unloadable_model_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: str, expected: str
) -> None:
    (tmp_path / "half").mkdir(exist_ok=True)
    if config:
        (tmp_path / "half/config.json").write_text(config)
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(tmp_path / "half"))
    run_cache.models.clear()
    at = open_page("attention", model="half")
    run_cache.models.clear()
    (message,) = messages(at)
    assert message.startswith("**half** can't be loaded.")
    assert expected in message
    assert "Choose another model above" in message
    assert drawn_parts(at) == []


@pytest.fixture
def overflowing(tmp_path: Path, list_models: Callable[..., None]) -> Path:
    """The only listed model, whose scores in layer 1 are too large for float32."""
    folder = write_checkpoint(tmp_path / "large", n_positions=64)
    with weights_of(folder) as weights:
        for name in ("ln_1.weight", "attn.c_attn.weight"):
            weights[f"transformer.h.1.{name}"] *= 1e14
    list_models(folder)
    return folder


def test_first_non_finite_tensor_is_found(overflowing: Path) -> None:
    trace = gpt2viz.trace(gpt2viz.load_model(overflowing), [5, 6, 7])
    result = first_not_finite(trace)
    assert result is not None
    assert (result.label, result.layer, result.n_numbers) == ("Raw scores", 1, 4 * 3 * 3)
    assert result.n_infinite == np.isinf(trace.stage("scores", 1)).sum() > 0
    assert f"{result.n_infinite} infinite" in str(result)
    assert first_not_finite(gpt2viz.trace(bundled_model(), "A crane")) is None


#: Views with predictions, which NaN rules out.
PREDICTIONS = ["predict?predict=next", "predict?predict=generate", "what_if?what_if=edits"]
PREDICTIONS += ["side_by_side?differs=mask"]


@each("page", [view for view in VIEWS if view not in ("textbook", "models")])
def test_pages_report_nan_and_predict_nothing(overflowing: Path, page: str) -> None:
    at = open_page(page, model="large", layer="1")
    assert "Raw scores of layer 1" in notices(at)
    if page in PREDICTIONS:
        assert "Nothing can be predicted from NaN" in notices(at)
        assert not at.metric
        answers = ("next", "lens", "changes")
        assert not any(part in name for name in pictures(at) for part in answers)
    if page == "find?find=all":
        assert "its heads can't be compared" in notices(at)
        assert not pictures(at)


@each("chapter", ["crane", "heads"])
def test_chapters_are_complete_with_overflowing_scores(overflowing: Path, chapter: str) -> None:
    """Also in a model with fewer channels than fit on screen."""
    at = open_page("textbook", model="large", layer="1", chapter=chapter)
    assert "Raw scores of layer 1" in notices(at)
    assert "The same step in the real model" in [title.value for title in at.subheader]
    assert any(button.label.startswith("Next: ") for button in at.button)  # at the end


@each("what", ["text", "head", "mask"])
def test_comparison_of_runs_with_nan(overflowing: Path, what: str) -> None:
    at = open_page("side_by_side", model="large", layer="1", differs=what)
    assert np.isnan(heatmaps(at, "weights_b" if what == "text" else "both_sides")["b"]).any()
    assert (what == "head") != ("Nothing can be predicted from NaN" in notices(at))


@each("shown", ["weights", "rest", "norms"])
def test_first_screen_draws_and_reports_nan(overflowing: Path, shown: str) -> None:
    at = open_page("attention", model="large", layer="1", head="0", query="2", show=shown)
    trace = gpt2viz.trace(gpt2viz.load_model(overflowing), "A crane ate fish")
    lost = np.isnan(trace.stage("weights", 1)[0, 0])
    (numbers,) = panels(at, "one_head")
    later = np.triu(np.ones((4, 4), bool), 1)
    assert_array_equal(np.isnan(numbers) & ~later, lost & ~later)
    assert lost.any()
    for name, tile in heatmaps(at, "all_heads").items():
        assert np.isnan(tile).any() == (not name.startswith("0."))  # layer 0 is fine
    assert re.search(r"\*\*Head 1\.0\*\*: the .* are NaN, not numbers", head_text(at))
    assert chips(at)["next"] == []


def test_score_of_minus_infinity_is_not_masked(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, [5, 6, 7])
    for key in ("scaled_scores", "masked_scores"):
        changed = trace.stage(key, 0).copy()
        changed[0, 2, 1, 0] = -np.inf
        trace = with_stages(trace, {(key, 0): changed})
    expected = np.triu(np.ones((3, 3), bool), 1)
    assert_array_equal(mask_of(trace, 0, 2), expected)
    assert_array_equal(mask_of(trace, 0, 1), expected)


@each("edits", ["", "forbid:2:1,window:2"])
def test_mask_of_a_long_run_needs_no_scores(tiny: gpt2viz.Model, edits: str) -> None:
    short, long = (
        gpt2viz.trace(tiny, [5, 6, 7], explicit=explicit, edits=gpt2viz.parse_edits(edits))
        for explicit in (True, False)
    )
    assert_array_equal(mask_of(long, 0, 2), mask_of(short, 0, 2))
    assert not long.derived.nbytes


#: Models of one position and of two, with one of everything else.
SMALLEST: dict[str, dict[str, Any]] = {
    "one": {"n_positions": 1, "n_embd": 2, "n_layer": 1, "n_head": 1},
    "two": {"n_positions": 2, "n_embd": 1, "n_layer": 1, "n_head": 1},
}
EVERY = [
    *((view, {"text2": "B", "keys": "0"}) for view in VIEWS),
    *(
        (page, {"picture": "lines"})
        for page in ("attention", "head", "side_by_side", "side_by_side?differs=mask", "what_if")
    ),
    *((view, {"causal": "false"}) for view in VIEWS),
    ("predict?predict=generate", {"cache": "true"}),
    *(("textbook", {"chapter": name}) for name, c in CHAPTERS.items() if c.sentence),
    ("what_if", {"edits": "off:0.0,mean:0.0,attn:0,mlp:0,window:1,nofirst,scale:0.0:2"}),
]
#: Choices on these pages that don't depend on the number of channels.
CHOICES: list[tuple[str, dict[str, str]]] = [
    *(("attention", {"show": name}) for name in MEASURES),
    *(("side_by_side", {"compare": which}) for which in ("mean", "rollout")),
    *(
        ("find", {"find": way, "on": on})
        for way in pages.FIND.modes
        for on in ("probe", "sentence")
    ),
    *(("models", {"part": part}) for part in SECTIONS),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The smallest models' folders."""
    paths = [tmp_path_factory.mktemp("smallest") / name for name in SMALLEST]
    for path in paths:
        write_checkpoint(path, **SMALLEST[path.name])
    return paths


@pytest.fixture
def names(folders: list[Path], list_models: Callable[..., None]) -> None:
    """List the smallest models for one test; others need the bundled one."""
    list_models(*folders)


@each("name", SMALLEST)
def test_every_page_opens_with_the_smallest_models(names: None, name: str) -> None:
    """The longest text on every page; with two positions also the shorter, on the first screen.

    With one token the mask hides nothing, and turning it off changes nothing.
    """
    masked = [(page, chosen) for page, chosen in EVERY if "causal" not in chosen] + CHOICES
    shown = {"one": [("A", masked)], "two": [("AB", EVERY), ("A", EVERY[:1])]}
    for text, pages_shown in shown[name]:
        for page, parameters in pages_shown:
            for end in ("false", "true") if page == "attention" and text == "A" else ("false",):
                at = open_page(page, model=name, text=text, bos=end, **parameters)
                assert "can't be loaded" not in notices(at), (name, page)


def test_model_too_short_for_a_repeated_text(names: None) -> None:
    at = open_page("find", model="one", text="A")
    assert "atlas_maps" in pictures(at)
    words = " ".join(block.value for block in at.caption)
    assert "what each head would do on any text" in words
    assert "Only copying predicts such a text" not in words
    assert at.session_state["on"] == "sentence"
    at = open_page("find", model="two", text="A")
    assert heatmaps(at, "atlas_maps")
    assert "Only copying predicts such a text" in " ".join(block.value for block in at.caption)

"""The chapter in which a reader builds GPT-2, and the listing of the built model."""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.analysis.generation import generate
from gpt2viz.app.course import whole as section
from gpt2viz.app.literal import literal
from gpt2viz.model import network
from gpt2viz.pictures import tables
from gpt2viz.run.stages import HEAD_STAGES, STAGE
from gpt2viz.textbook.gaps import FILLED, Draft
from gpt2viz.textbook.line_by_line import PAIRS, line_by_line
from tests.app.chapters import answered_ids, text_of
from tests.app.pages import data_of, open_page, plain
from tests.bundled import CRANE, bundled_model, ids_of
from tests.checkpoints import write_checkpoint

#: An expression for each gap of the eighty lines.
SOLUTIONS = {f"build_{name}": text for name, text in FILLED.items()}


def open_build(**requested: str) -> AppTest:
    return open_page("textbook", chapter="build", **requested)


def n_right(at: AppTest) -> int:
    return sum(element.value.startswith(":green-badge[right]") for element in at.markdown)


@cache
def continuation(text: str) -> str:
    """The first two tokens that the model generates, as shown on the page."""
    tokens = [choice.token for choice in generate(bundled_model(), ids_of(text)[:32], 2)]
    return plain(literal(bundled_model().tokenizer.decode(tokens)))


def test_finished_model_generates() -> None:
    for more in ({}, {"causal": "false", "text": "the bank " * 20}):
        at = open_build(**SOLUTIONS, **more)
        assert n_right(at) == 8
        text = text_of(at)
        assert f":green-background[{continuation(more.get('text', CRANE).strip())}" in text
        assert "Right: **8 of 8 gaps**" in text
        assert ("first 32 tokens" in text) == ("with the mask on" in text) == bool(more)
        (source,) = [block.value for block in at.code if block.value.startswith("class GPT2")]
        assert [line for line in SOLUTIONS.values() if line not in source] == []
        assert answered_ids(at) == ["build_attention", "build_all"]


def test_expressions_are_judged_as_typed() -> None:
    at = open_build()
    solution = Draft(FILLED).file(bundled_model(), bundled_model().tokenizer.encode(CRANE))
    assert solution.strip() in [block.value for block in at.code]
    assert "At hand: `q` (1, 8, 4, 32) · `k` (1, 8, 4, 32)" in text_of(at)
    for typed, feedback in {
        "q @ k": "not yet] `q @ k`: (1, 8, 4, 32) times (1, 8, 4, 32) doesn't fit",
        "k @ q.mT": "These are transposed",
        "q @ k.mT": "Right: **1 of 8 gaps**",
    }.items():
        at.text_input(key="build_scores").set_value(typed).run()
        assert feedback in text_of(at)
        assert at.query_params["build_scores"] == typed
    assert n_right(at) == 1
    for name in list(SOLUTIONS)[2:6]:
        at.text_input(key=name).set_value(SOLUTIONS[name])
    assert answered_ids(at.run()) == ["build_attention"]


def test_wrong_model_is_compared_or_its_failure_explained() -> None:
    at = open_build(**SOLUTIONS | {"build_residual": "made"})
    text = text_of(at)
    assert n_right(at) == 7
    assert f"The real model goes on: “{continuation(CRANE)}" in text
    assert "build_all" not in answered_ids(at)
    at.text_input(key="build_residual").set_value("x * inf - x * inf").run()
    assert "can't write on: the logits are NaN" in text_of(at)
    at.text_input(key="build_residual").set_value(SOLUTIONS["build_residual"])
    at.text_input(key="build_softmax").set_value("ones(1, 8, 4, 4) / 4").run()
    assert "can't write on: With 5 tokens" in text_of(at)
    assert n_right(at) == 7
    # The shapes are right for these four tokens; five give thousands of rows to multiply.
    wide = {
        "build_embedding": "ones((T-4)*999+1,(5-T)*3+1,256)",
        "build_softmax": "ones(1,8,(masked.shape[-1]-4)*1800+4,masked.shape[-1])",
    }
    at = open_build(**SOLUTIONS | wide)
    assert "can't write on: With 5 tokens" in text_of(at)
    at.text_input(key="build_embedding").set_value(SOLUTIONS["build_embedding"]).run()
    assert "(1, 8, 5, 5) is needed" in text_of(at)


def test_question_on_breaking_one_gap() -> None:
    at = open_build(**SOLUTIONS | {"build_head": "x @ wte.mT / 2"})
    assert "build_broken" not in answered_ids(at)
    assert "One is wrong, but" in text_of(at)
    at.text_input(key="build_head").set_value(SOLUTIONS["build_head"])
    at.text_input(key="build_mask").set_value("scaled").run()
    assert "build_broken" in answered_ids(at)


def test_supported_models_and_sentences(tmp_path: Path, list_models: Any) -> None:
    """With a tiny GPT-2 and one with another scale, listed by the owner."""
    write_checkpoint(tmp_path / "tiny")
    write_checkpoint(tmp_path / "scaled", scale_attn_by_inverse_layer_idx=True)
    list_models(*tmp_path.iterdir())
    for text, message in (("a crane ate", ""), ("a" * 23, "1 token, and each is what")):
        at = open_build(**SOLUTIONS, model="tiny", text=text)
        assert n_right(at) == 8
        assert "build_all" in answered_ids(at)
        assert message in text_of(at)
    for more, why in (
        ({"model": "scaled", "text": "a crane ate"}, "differs from GPT-2 in its scale"),
        ({"text": "A"}, "Type a sentence of 3 tokens or more"),
    ):
        at = open_build(**SOLUTIONS, **more)
        assert why in text_of(at)
        assert ("There is none for the model" in text_of(at)) == ("model" in more)
        assert n_right(at) == 0
        assert answered_ids(at) == []


TEXT = "A crane ate fish and"
LISTINGS = line_by_line()


def line(continuation: str) -> int:
    (result,) = (LISTINGS.line_number(pair) for pair in PAIRS if pair.begins == continuation)
    return result


def test_both_listings_and_the_default_line() -> None:
    empty = LISTINGS.pairs.index(None) + 1
    at = open_page("textbook", chapter="whole", line=str(empty))
    assert any(f"line: {empty} can't be shown here" in plain(block.value) for block in at.warning)
    data = data_of(at, "line_by_line")
    gpt2, package = data["listings"]
    assert gpt2 == LISTINGS.lines
    assert "\n".join(package) == inspect.getsource(network).rstrip("\n")
    assert gpt2[data["chosen"] - 1].strip().startswith("scores = q @ k.mT")
    (number,) = data["beside"][str(data["chosen"])]
    assert package[number - 1].strip().startswith("scores = self.scores(q @")


@pytest.fixture(scope="module")
def every_line() -> AppTest:
    """The chapter for layer 2 and head 3, with the explanations of all lines."""
    text = section._explain_line

    def explain_all(view: Any, _line: int, _pair: Any, layer: int, head: int) -> None:
        for pair in PAIRS:
            text(view, LISTINGS.line_number(pair), pair, layer, head)

    requested = {"text": TEXT, "layer": "2", "head": "3", "line": str(line("variance ="))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(section, "_explain_line", explain_all)
        return open_page("textbook", chapter="whole", **requested)


def test_every_line_has_the_sentences_shapes(every_line: AppTest) -> None:
    assert data_of(every_line, "line_by_line")["chosen"] == line("variance =")
    run = gpt2viz.trace(bundled_model(), TEXT)
    shapes = {str(r.key): str(r.shape) for r in run.tensors if r.layer in (None, 2)}
    assert shapes["weights"] == "(1, 8, 5, 5)"
    shapes["last_logits"] = "(1, 5, 5120)"  # of all tokens
    shown: dict[str, pd.DataFrame] = every_line.session_state["_shown"].tables
    written = {name: table for name, table in shown.items() if name.startswith("What line")}
    for pair in PAIRS:
        number = LISTINGS.line_number(pair)
        if pair.makes:
            table = written[f"What line {number} makes of your sentence"]
            assert list(table["shape here"]) == [shapes[key] for key in pair.makes]
        assert any(m.value.startswith(f"**Line {number}.**") for m in every_line.markdown)
    lines = {f"What line {LISTINGS.line_number(pair)} makes of your sentence" for pair in PAIRS}
    assert written.keys() <= lines
    sizes = [m.value for m in every_line.markdown if m.value.startswith("Here **")]
    assert sizes == [
        "Here **B = 1** · **T = 5** · **C = 256**",
        *("Here **nh = 8**", "Here **hs = 32**", "Here **T = 5**"),
    ]


def section_links(at: AppTest) -> list[tuple[str, dict[str, str]]]:
    """The pages and parameters of the section's links."""
    prefixes = ("The cell of", "The model writes on")
    result = (
        link.proto
        for link in at.get("page_link")
        if link.proto.label.startswith(prefixes)
        or link.proto.label.endswith((", among all tensors", ", on Predict"))
    )
    return [(link.page, dict(parse_qsl(link.query_string))) for link in result]


def test_every_line_links_to_its_tensors(every_line: AppTest) -> None:
    run = gpt2viz.trace(bundled_model(), TEXT)
    of_run, links = tables.shape_table(run), section_links(every_line)
    for pair in PAIRS:
        keys = pair.makes or pair.towards
        if set(keys) & set(HEAD_STAGES):
            page, requested = links.pop(0)
            assert (page, requested["layer"], requested["head"]) == ("head", "2", "3")
            weights = run.stage("weights", 2, 3)[int(requested["query"])]
            assert int(requested["key"]) == weights.argmax()
        if not keys:
            page, requested = links.pop(0)
            assert (page, requested["predict"]) == ("predict", "generate")
        for key in (key for key in keys if key not in HEAD_STAGES):
            page, requested = links.pop(0)
            if key == "last_logits":
                assert (page, requested["predict"]) == ("predict", "next")
                continue
            assert page == "shapes"
            rows = tables.filter_rows(of_run, requested["filter"])
            assert key in set(rows["key"]), key
            assert set(rows["layer"].dropna()) <= ({2} if STAGE[key].per_layer else set())
    assert links == []

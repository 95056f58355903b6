"""Typed answers: every way to say what is right, and what wrong ones would be right for."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from gpt2viz.app.course import checks
from gpt2viz.app.course.answers import LONGEST, right, told, values
from gpt2viz.app.course.checks import Question
from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.app.course.near_misses import near_misses
from tests.app.pages import open_page, plain
from tests.numpy_gpt2 import softmax
from tests.textbook.oracle import JOURNEY, SCALED

WORDS = ("Your", "journey", "starts", "with", "one", "step")

#: Question -> ways to type what is right.
RIGHT = {
    "tokens_shape": ["(2, 4, 3)", "2 4 3", "2x4x3", "2 × 4 × 3", "torch.Size([2, 4, 3])"],
    "order_shape": ["[2,5,3]", "two by five by three", "B = 2, T = 5, C = 3"],
    "journey_self": ["journey", "At “journey”.", "the second word", "1 journey", "JOURNEY"],
    "mask_row": ["6", "six", "Six", "6.", "six of them", "4·3/2", "4 * 3 / 2 = 6", "16 − 10"],
    "mask_after": ["0.5254", "0.53", "0,525", ".525", "0.1566 + 0.3688", "1 − 0.4746"],
    "way_scores": ["(2,16,100,100)", "2;16;100;100"],
    "variants_last": ["step", "the last word", "last", "The last one", "the sixth", "5 step"],
    "drop_factor": ["2", "two", "2.0", "2x", "×2", "by 2", "doubled", "twice", "1/(1 − 0.5)"],
    "norm_scale": ["1", "one", "1.0", "1,0", "by 1", "unchanged", "it stays the same"],
    "whole_untied": [
        *("38.6", "38,6", "38.60", "38.597", "38.6 million", "38.6M", "about 38.6 M"),
        *("38,597,376", "38 597 376", "38.597.376", "38_597_376", "50,257 · 768", "50257 * 768"),
        *("38.6e6", "38,600,000"),
    ],
    "whole_heads": ["20", "twenty", "20 heads", "1280/64"],
    "next_loss": [
        *(
            "1.39",
            "1,39",
            "1.386",
            "1,386",
            "ln 4",
            "ln(4)",
            "ln4",
            "log 4",
            "−ln(1/4)",
            "-ln 0.25",
        ),
        *("2 ln 2", "1.39 nats", "ln 4 = 1.39", "about 1.39"),
    ],
    "learn_count": ["10", "ten", "6 + 3 + 1", "10 targets"],
    "why_pairs": ["28", "4 · 7", "4 * 7 = 28", "28 pairs"],
    "why_shared": ["0", "zero", "by 0", "not at all", "Nothing", "no change"],
    "cache_tenth": ["52", "fifty-two", "12 + 40", "12 + 10 · 4 = 52", "52 multiply-adds"],
    "rope_moved": ["37", "thirty-seven", "at 37", "40 − 3", "place 37", "position 37"],
    "groups_factor": ["4", "four", "4x", "×4", "four times", "32/8", "fourfold", "a quarter"],
    "flash_bytes": ["16", "sixteen", "16x", "16 times", "1024 / 64", "1024/64 = 16"],
    "rnn_between": ["99", "99 times", "100 − 1", "100 - 1 = 99"],
    "mistake_25": ["1000", "1,000", "1.000", "1 000", "a thousand", "one thousand", "25 · 40"],
}
#: Question -> what must not pass.
WRONG = {
    "tokens_shape": ["(2, 3, 4)", "2 4", "24", "three", ""],
    "journey_self": ["starts", "the last word", "journey or step", "one", "2", "0"],
    "mask_row": [
        "sixteen",
        "sixty-six",
        "6 or 7",
        "-6",
        "60",
        "1/0",
        "ln 0",
        "(",
        "((",
        "- -",
        "x",
    ],
    "mask_after": ["1", "0.5", "0.47", "53", "-0.53", "one"],
    "variants_last": ["Your", "the first word", "one", "last but one", "4"],
    "drop_factor": ["1/2", "half", "-2", "twenty-two"],
    "whole_untied": ["38.5", "39", "38", "38.6 · 2", "3,86"],
    "whole_heads": ["36", "12", "twenty-five", "200"],
    "learn_count": ["18", "13", "6", "12"],
    "why_pairs": ["11", "4", "7", "49"],
    "why_shared": ["5", "e⁵", "1", "a little"],
    "next_loss": ["1.40", "1.38", "ln 5", "139", "-1.39", "log2(4)"],
    "cache_tenth": ["520", "28", "5.2", "fifty", "-52"],
    "rope_moved": ["9", "43", "38", "36", "-37"],
    "groups_factor": ["8", "1/4", "16", "one", "3.9"],
    "flash_bytes": ["64", "1/16", "256", "sixty"],
    "rnn_between": ["100", "98", "9.9", "-99"],
    "mistake_25": ["100", "1", "1001"],
}


@cache
def questions() -> dict[str, Question]:
    """Every question, as its chapter asks it."""
    found: dict[str, Question] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "ask", lambda _, all: found.update({q.id: q for q in all}))
        for chapter in CHAPTERS:
            open_page("textbook", chapter=chapter)
    return found


@cache
def asked() -> dict[str, Question]:
    """Those that are answered in words."""
    return {id: question for id, question in questions().items() if question.answer}


def test_all_typed_questions_are_here() -> None:
    assert set(RIGHT) == set(asked())


@pytest.mark.parametrize("id", RIGHT)
def test_every_way_to_say_it_is_right(id: str) -> None:
    question = asked()[id]
    refused = [text for text in RIGHT[id] if not right(text, question.answer, question.also)]
    assert refused == []


@pytest.mark.parametrize("id", WRONG)
def test_what_is_wrong_is_refused(id: str) -> None:
    question = asked()[id]
    taken = [text for text in WRONG[id] if right(text, question.answer, question.also)]
    assert taken == []


@pytest.mark.parametrize("id", RIGHT)
def test_a_wrong_answer_is_told_what_it_would_be_right_for(id: str) -> None:
    question, known = asked()[id], near_misses(id)
    assert known
    for wrongs, sentence in known.items():
        for wrong in wrongs.split(" | "):
            assert not right(wrong, question.answer, question.also), wrong
            assert told(wrong, question.answer, known) == sentence
    assert len(set(known.values())) == len(known)


@pytest.mark.parametrize("id", RIGHT)
def test_no_part_of_a_hint_is_right(id: str) -> None:
    question = asked()[id]
    parts = re.split(r"(?<=[.?!:;]) |, ", question.hint)
    given = [part for part in (*parts, *question.hint.split()) if len(part) > 1]
    assert [part for part in given if right(part, question.answer, question.also)] == []


def test_a_hint_names_neither_numbers_nor_texts_to_type() -> None:
    for question in questions().values():
        assert not re.search(r"\d+, [−-]?\d|[Ff]or example|Try (it:|between)", question.hint)


def test_the_page_tells_it() -> None:
    at = open_page("textbook", chapter="heads")
    at.text_input(key="answer_way_scores").set_value("2, 16, 64, 100").run()
    assert at.session_state["_progress"]["heads"] == []
    said = [plain(caption.value) for caption in at.caption]
    assert "Not yet. That is K transposed, ready to be multiplied by Q." in said
    at.text_input(key="answer_way_scores").set_value("2, 16, 100, 100").run()
    assert at.session_state["_progress"]["heads"] == ["way_scores"]
    assert not any("Not yet." in caption.value for caption in at.caption)


SMALL, TABLE, PLACES = 124_439_808, 50_257 * 768, 1_024 * 768
#: Question -> its wrong numbers once more: from the sizes of GPT-2, NumPy and definitions.
NUMBERS = {
    "whole_untied": [
        *(2 * TABLE, SMALL, SMALL + TABLE, PLACES),
        *(n / 1e6 for n in (2 * TABLE, SMALL, SMALL + TABLE, PLACES)),
        *(round(n / 1e6, 1) for n in (2 * TABLE, SMALL, SMALL + TABLE, PLACES)),
        *(100 * TABLE / SMALL, round(100 * TABLE / SMALL)),
    ],
    "mask_row": [3, 4, np.tri(4).sum(), (~np.eye(4, dtype=bool)).sum(), 4 * 4],
    "mask_after": [
        1,
        *softmax(SCALED)[1, :2],
        softmax(SCALED)[1, 2:].sum(),
        softmax(SCALED)[0, 0],
        softmax(SCALED)[2, :3].sum(),
    ],
    "whole_heads": [12, 16, 25, 36, 1280 // 20],
    "next_loss": [1 / 4, np.log10(4), np.log2(4), 4],
    "mistake_25": [1000 // 25, *(n for n in (48, 64, 768) if n % 25), 25 * 4, 25 * 64],
    "drop_factor": [1 - 0.5, 1, 1 + 0.5],
    "cache_tenth": [10 * 12 + 4 * 10**2, 12 + 4 * 4, 4 * 10, 12 + 4 * 9, 3 * 2 * 2],
    "rope_moved": [9, 12 - 9, 40 - 12, 40 - 9, 40 + 3],
    "groups_factor": [8, 32, 32 - 8, (32 / 8) ** 2, 8 / 32],
    "flash_bytes": [64, 1024 / 4, 1024, 1024 * 64],
    "rnn_between": [100, 98, 1, 100**2],
    "norm_scale": [10, 1 / 10, 10**2],
}


@pytest.mark.parametrize("id", NUMBERS)
def test_the_near_misses_are_the_numbers_that_they_are_said_to_be(id: str) -> None:
    known = sorted(float(wrong) for wrongs in near_misses(id) for wrong in wrongs.split(" | "))
    assert known == pytest.approx(sorted(NUMBERS[id]), abs=0.005)


def test_sums_of_a_mask_that_comes_too_late_are_told() -> None:
    question, rows = asked()["mask_after"], np.tril(softmax(SCALED))
    assert float(question.answer) == pytest.approx(rows[1].sum(), abs=5e-5)
    sums = ", ".join(f"{total:.4f}" for total in rows.sum(axis=1)[:3])
    assert f"rows sum to {sums} and 1." in question.why
    assert f"“A” keeps {rows[1, 0]:.4f} and “crane” {rows[1, 1]:.4f}." in question.why


def test_the_shapes_and_factors_that_are_told() -> None:
    x = np.array([0.3, 0.0, 0.5, 0.1])
    centred = x - x.mean()
    assert np.allclose((10 * x - (10 * x).mean()) / centred, 10)  # only the mean
    assert np.allclose((10 * x).var() / x.var(), 100)
    q, k = np.ones((2, 16, 100, 64)), np.ones((2, 16, 100, 64))
    swapped = k.swapaxes(2, 3)
    assert swapped.shape == (2, 16, 64, 100)
    assert (swapped @ q).shape == (2, 16, 64, 64)
    assert (q @ swapped).shape == (2, 16, 100, 100)


def test_the_weights_that_are_told_are_those_of_numpy() -> None:
    row = softmax(JOURNEY @ JOURNEY.T)[WORDS.index("starts")]
    assert row.argmax() == WORDS.index("journey")
    others = {word: f"{row[n]:.4f}" for n, word in enumerate(WORDS) if word != "journey"}
    told_of = {word: sentence.split()[3].rstrip(".") for word, sentence in WEIGHTS.items()}
    assert {word: said.rstrip(".") for word, said in told_of.items()} == others
    for n, word in enumerate(WORDS[:-1], start=1):
        assert f"sees {n} of the 6" in near_misses("variants_last")[word]


WEIGHTS = near_misses("journey_self")


@pytest.mark.parametrize(
    ("given", "answer", "said"),
    [
        ("(4, 2, 3)", "(2, 4, 3)", "wrong order"),
        ("(2, 4)", "(2, 4, 3)", "has 3 axes; yours has 2"),
        ("big", "(2, 4, 3)", "The answer is a shape"),
        ("(2, 4, 5)", "(2, 4, 3)", ""),
        ("-6", "6", "except for the sign"),
        ("many", "6", "The answer is a number"),
        ("7", "6", ""),
        ("1.4", "1.39", "mind the decimals"),
        ("1001", "1000", ""),
        ("nobody", "step", ""),
    ],
)
def test_what_can_be_told_of_any_wrong_answer(given: str, answer: str, said: str) -> None:
    assert not right(given, answer)
    found = told(given, answer, {})
    assert said in found
    assert bool(said) == bool(found)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1,234", {1.234, 1234}),
        ("1,39", {1.39}),
        ("1 234,5", {1234.5}),
        ("2 + 3 * 4", {14}),
        ("(2 + 3) * 4", {20}),
        ("8 / 2 / 2", {2}),
        ("10 - 3 - 2", {5}),
        ("-(1 - 3)", {2}),
        ("√16", {4}),
        ("log2 8", {3}),
        ("1 2", set()),
        ("2 ** 3", set()),
        ("__import__('os')", set()),
        ("9" * 400, None),
    ],
)
def test_a_number_is_read_as_it_may_be_meant(given: str, expected: set[float] | None) -> None:
    found = sorted(set(values(given[:LONGEST])))
    assert expected is None or found == pytest.approx(sorted(expected))


@pytest.mark.parametrize(
    "given", ["(" * 5000, "-" * 5000, "ln " * 5000, "1," * 5000, "9e999", "x" * 10**6]
)
def test_nothing_that_is_typed_takes_long_or_raises(given: str) -> None:
    assert not any(right(given, answer) for answer in ("6", "(2, 4, 3)", "step"))
    assert isinstance(told(given, "6", near_misses("mask_row")), str)

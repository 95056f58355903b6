"""Questions answered by doing or in words, feedback on wrong answers, and progress."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from gpt2viz.app.course import progress, questions
from gpt2viz.app.course.contents import APPENDIX, CHAPTERS
from gpt2viz.app.course.questions import (
    LONGEST,
    Question,
    explain_wrong,
    is_right,
    values,
)
from tests.app.chapters import answered_ids, captions, questions_in, resume, text_of
from tests.app.pages import open_page, plain
from tests.bundled import CATS, CRANE, weights
from tests.numpy_gpt2 import softmax
from tests.textbook.oracle import JOURNEY, SCALED

WORDS = ("Your", "journey", "starts", "with", "one", "step")

#: Question -> right answers and wrong ones, separated by bars.
ANSWERS = tomllib.loads(Path(__file__).with_name("answers.toml").read_text("utf-8"))
RIGHT, WRONG = (
    {id: tuple(texts[kind].split(" | ")) for id, texts in ANSWERS.items() if kind in texts}
    for kind in ("right", "wrong")
)
#: By question that is answered by doing, an address that answers it. Two more have tests of their
#: own: the head that attends to itself, and the gaps of the built model.
DONE = {
    "tokens_twice": {"text": "man bites man man"},
    "order_on": {"order_on": "true"},
    "order_equal": {"order_on": "true", "order_places": "0.3,0,0,0.3,0.3,0"},
    "crane_half": {"crane_k_bird": "0.7,0.7,0.9,0.1,2.7,0.3"},
    "crane_machine": {"crane_v_bird": "0.5,0.5,0.9,0.1,0,3"},
    "journey_same": {"journey_x": "3,0,0,-3,0,0,0,3,0,0,-3,0,0,0,3,0,0,-3"},
    "hand_value": {"hand_wk": "0,0,0,0"},
    "scale_one": {"hs": "512"},
    "mask_first": {"mask_scores": f"5,{','.join(['0.5'] * 15)}"},
    "mask_even": {"mask_scores": ",".join(["0.2"] * 16)},
    "way_fails": {"way_C": "1024", "way_nh": "24"},
    "linear_zero": {"lin_b": "-0.5,0.5,1,-1"},
    "curve_lowest": {"curve_x": "2.4,1,0,-0.75,-2"},
    "drop_reading": {"drop_on": "false"},
    "stream_erase": {"stream": "0.2,0.1,0.3,0.4,-0.2,-0.1,-0.3,-0.4"},
    "norm_flat": {"norm": "2,2,2,2,1,1,1,1,0,0,0,0"},
    "depth_ten": {"depth": "48"},
    "whole_half": {"size_n_layer": "1"},
    "next_steel": {"last_x": "-1,3"},
    "next_even": {"heat": "10.0"},
    "learn_rise": {"learn_rate": "100.0"},
    "learn_floor": {"learn_logits": "0,0,9,0,9,0,0,0,0.7,-9,-9,0,0,0,0,0"},
    "why_own": {"text": "The cat sat on the mat and the cat"},
    "project_again": {"tiny_back": "-1,1,-8,1,-1,0,0,0,0,0,0,0"},
    "bpe_long": {"text": "There was something"},
    "rms_same": {"rms_x": "3,-1,-1,-1"},
    "gate_shut": {"gate_w": "2,0,-1,2,0,3"},
    "sink_rest": {"sink_scores": "4,-1,-2,0"},
    "mistake_made": {"try_nh": "7"},
}
BUILT = ["build_attention", "build_all", "build_broken"]
#: By question, an address that doesn't answer it, and part of the feedback.
NOT_DONE = [
    ("order_equal", {"order_places": "0.3,0,0,0.3,0.3,0"}, "Switch them on"),
    ("crane_machine", {"crane": "machine"}, "Choose the bird"),
    (
        "crane_machine",
        {"crane_q": "9,9", "crane_v_bird": "0.5,0.5,0.9,0.1,0,9"},
        "was changed too",
    ),
    ("crane_half", {"crane_heat": "0.05", "crane_k_bird": "0.7,0.7,0.9,0.1,0.8,0.7"}, "to 1."),
    ("crane_machine", {"crane_heat": "0.5", "crane_v_bird": "0.5,0.5,0.9,0.1,0,3"}, "to 1."),
    ("journey_same", {"journey_x": "3,0,0,3,0,0,0,3,0,0,-3,0,0,0,3,0,0,-3"}, "journey"),
    ("hand_value", {"hand_wq": "0,0,0,0"}, "$W_Q$"),
    ("hand_value", {"hand_wv": "0,0,0,0", "hand_x": "0,0,0,0,0,0,0,0"}, "x and $W_V$"),
    ("mask_first", {"mask_on": "false", "mask_scores": f"5,{','.join(['0.5'] * 15)}"}, "mask is"),
    ("mask_even", {"mask_scores": "1,2,3,9,1,2,3,9,1,2,3,9,1,2,3,9"}, "That is the column"),
    ("way_fails", {"way_C": "768", "way_nh": "20"}, "768 channels"),
    ("linear_zero", {"lin_x": "2,1", "lin_b": "-2,2,-2,2"}, "x or W"),
    ("linear_zero", {"lin_w": "0,0,0,0,0,0,0,0", "lin_b": "0,0,0,0"}, "x or W"),
    ("curve_lowest", {"curve_x": "1,1,1,1,-0.5"}, "−0.1543"),
    ("drop_reading", {"drop_p": "0.0"}, "the switch"),
    ("stream_erase", {"stream": "-0.1,0.1,-0.2,0.3,0.1,-0.1,0.2,-0.3"}, "x was changed"),
    ("norm_flat", {"norm": "2,2,2,2,1,1,1,1,0,0,1,0"}, "shift"),
    ("norm_flat", {"norm": "0,0,0,0,1,1,1,1,0,0,0,0"}, "four zeros"),
    ("whole_half", {"size_tied": "false", "size_n_layer": "1"}, "Tie them"),
    ("next_steel", {"last_rows": "0,0,9,9,0,0,0,0"}, "table was changed"),
    ("next_even", {"last_x": "0,0"}, "because of their logits"),
    ("project_again", {"tiny_back": "0,1,-8,0,-1,0,0,0,0,0,0,0"}, "another guess has changed"),
    ("tokens_twice", {"text": "man bites man"}, "two different tokens"),
    *((id, {"text": CATS}, "") for id in ("tokens_twice", "why_own")),
    ("learn_floor", {"learn_logits": "0,0,9,0,9,0,0,0,9,0,0,0,0,0,0,0"}, "Now it is"),
    ("rms_same", {"rms_x": "0,0,0,0"}, "four zeros"),
    ("rms_same", {"rms_x": "0.0000001,0,0,0"}, "ε decides"),
    ("gate_shut", {"gate_up": "1,1,0,0,2,-1"}, "x or Up"),
    ("gate_shut", {"gate_x": "0,0.5"}, "x or Up"),
    ("sink_rest", {"sink_scores": "9,3,2,3"}, "was changed"),
    ("sink_rest", {"sink_scores": "4,-1,-2,0", "sink_values": "0,0,0,0,0,0,0,0"}, "was changed"),
    ("sink_rest", {"sink_scores": "4,-1,-2,0", "sink_drop": "true"}, "is dropped"),
]


def chapter_of(id: str) -> str:
    (result,) = (name for name, chapter in CHAPTERS.items() if id in chapter.questions)
    return result


@cache
def answer_in_words() -> tuple[dict[str, AppTest], dict[str, Question]]:
    """Each chapter with its typed questions answered, and every question."""
    requests: dict[str, Question] = {}
    ask = questions._ask
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            questions, "_ask", lambda q, *rest: requests.setdefault(q.id, q) and ask(q, *rest)
        )
        opened = {
            name: resume(name, typed={id: RIGHT[id][0] for id in RIGHT if chapter_of(id) == name})
            for name in CHAPTERS
            if name != APPENDIX
        }
    return opened, requests


@cache
def typed() -> dict[str, Question]:
    """The questions answered in words."""
    return {id: question for id, question in answer_in_words()[1].items() if question.answer}


def test_all_questions_are_covered() -> None:
    assert set(RIGHT) == set(typed())
    covered = [*DONE, *RIGHT, "real_self", *BUILT]
    assert sorted(covered) == sorted(id for c in CHAPTERS.values() for id in c.questions)


def test_questions_answered_by_doing(subtests: pytest.Subtests) -> None:
    edited = {"order_words": "5,0,0,1,0,9", "order_on": "true", "order_places": "2,1,0,0,2,1"}
    for id, address in (*DONE.items(), ("order_equal", edited)):
        with subtests.test(id):
            at = open_page("textbook", chapter=chapter_of(id), **address)
            assert id in answered_ids(at)
            assert ":green-badge[done]" in text_of(at)


def test_wrong_actions_are_not_answers_and_get_feedback(subtests: pytest.Subtests) -> None:
    for id, address, words in NOT_DONE:
        with subtests.test(id, **address):
            at = open_page("textbook", chapter=chapter_of(id), **address)
            assert id not in answered_ids(at)
            feedback = "".join(part.value for part in dict(questions_in(at.main))[id].caption)
            assert words in plain(feedback) if words else not feedback


def test_questions_answered_in_words() -> None:
    for name, at in answer_in_words()[0].items():
        assert answered_ids(at) == [id for id in CHAPTERS[name].questions if id in RIGHT], name


def test_wrong_answer_gets_feedback_until_a_right_one() -> None:
    at = resume("heads", typed={"way_scores": "2, 16, 64, 100"})
    assert answered_ids(at) == []
    assert "Not yet. That is K transposed, ready to be multiplied by Q." in captions(at)
    at.text_input(key="answer_way_scores").set_value("7777").run()
    assert answered_ids(at) == []
    assert sum(text.startswith("Not yet.") for text in captions(at)) == 1
    at.text_input(key="answer_way_scores").set_value("2, 16, 100, 100").run()
    assert answered_ids(at) == ["way_scores"]
    assert ":green-badge[done] **(2, 16, 100, 100)**." in plain(text_of(at))
    assert not any("Not yet." in text for text in captions(at))


def test_right_answers_are_accepted_and_wrong_ones_rejected() -> None:
    def accepted(id: str, texts: tuple[str, ...]) -> tuple[str, ...]:
        question = typed()[id]
        return tuple(text for text in texts if is_right(text, question.answer, question.also))

    assert {id: accepted(id, texts) for id, texts in RIGHT.items()} == RIGHT
    assert {id: accepted(id, texts) for id, texts in WRONG.items()} == dict.fromkeys(WRONG, ())
    parts = {
        id: tuple(re.split(r"(?<=[.?!:;]) |, ", typed()[id].hint) + typed()[id].hint.split())
        for id in RIGHT
    }
    long = {id: tuple(part for part in texts if len(part) > 1) for id, texts in parts.items()}
    assert {id: accepted(id, texts) for id, texts in long.items()} == dict.fromkeys(RIGHT, ())


def test_near_misses_get_their_explanation(subtests: pytest.Subtests) -> None:
    for id, question in typed().items():
        with subtests.test(id):
            assert bool(question.near) == (question.answer != questions.EXPLAINED)
            for wrongs, sentence in question.near.items():
                for wrong in wrongs.split(" | "):
                    assert not is_right(wrong, question.answer, question.also), wrong
                    assert explain_wrong(wrong, question.answer, question.near) == sentence
            assert len(set(question.near.values())) == len(question.near)


SMALL, TABLE, POSITIONS = 124_439_808, 50_257 * 768, 1_024 * 768
#: Question -> its near misses recomputed from GPT-2's sizes, NumPy and definitions.
NUMBERS = {
    "whole_untied": [
        *(2 * TABLE, SMALL, SMALL + TABLE, POSITIONS),
        *(n / 1e6 for n in (2 * TABLE, SMALL, SMALL + TABLE, POSITIONS)),
        *(round(n / 1e6, 1) for n in (2 * TABLE, SMALL, SMALL + TABLE, POSITIONS)),
        *(100 * TABLE / SMALL, round(100 * TABLE / SMALL)),
    ],
    "mask_row": [3, 4, np.tri(4).sum(), (~np.eye(4, dtype=bool)).sum(), 4 * 4],
    "mask_after": [
        *(1, *softmax(SCALED)[1, :2], softmax(SCALED)[1, 2:].sum()),
        *(softmax(SCALED)[0, 0], softmax(SCALED)[2, :3].sum()),
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


def test_near_misses_are_the_stated_numbers(subtests: pytest.Subtests) -> None:
    for id, expected in NUMBERS.items():
        with subtests.test(id):
            known = [float(wrong) for wrongs in typed()[id].near for wrong in wrongs.split(" | ")]
            assert sorted(known) == pytest.approx(sorted(expected), abs=0.005)
    row = softmax(JOURNEY @ JOURNEY.T)[WORDS.index("starts")]
    assert row.argmax() == WORDS.index("journey")
    others = {word: f"{row[n]:.4f}" for n, word in enumerate(WORDS) if word != "journey"}
    weights = typed()["journey_self"].near.items()
    assert {word: text.split()[3].rstrip(".") for word, text in weights} == others
    for n, word in enumerate(WORDS[:-1], start=1):
        assert f"sees {n} of the 6" in typed()["variants_last"].near[word]


def test_row_sums_of_a_late_mask_are_explained() -> None:
    question, rows = typed()["mask_after"], np.tril(softmax(SCALED))
    assert float(question.answer) == pytest.approx(rows[1].sum(), abs=5e-5)
    sums = ", ".join(f"{total:.4f}" for total in rows.sum(axis=1)[:3])
    assert f"rows sum to {sums} and 1." in question.why
    assert f"“A” keeps {rows[1, 0]:.4f} and “crane” {rows[1, 1]:.4f}." in question.why


@pytest.mark.parametrize(
    ("text", "answer", "feedback"),
    [
        ("(4, 2, 3)", "(2, 4, 3)", "wrong order"),
        ("(2, 4)", "(2, 4, 3)", "has 3 axes; yours has 2"),
        ("big", "(2, 4, 3)", "The answer is a shape"),
        ("(2, 4, 5)", "(2, 4, 3)", ""),
        ("-6", "6", "except for the sign"),
        ("many", "6", "The answer is a number"),
        ("", "6", None),
        ("7", "6", ""),
        ("1.4", "1.39", "mind the decimals"),
        ("1.40", "1.39", None),
        ("1001", "1000", ""),
        ("nobody", "step", ""),
    ],
)
def test_general_feedback_on_wrong_answers(text: str, answer: str, feedback: str | None) -> None:
    assert not is_right(text, answer)
    if feedback is not None:
        result = explain_wrong(text, answer, {})
        assert feedback in result
        assert bool(feedback) == bool(result)


def test_numbers_are_parsed_in_every_notation() -> None:
    read: dict[str, set[float]] = {
        "1,234": {1.234, 1234},
        "1,39": {1.39},
        "1 234,5": {1234.5},
        "2 + 3 * 4": {14},
        "(2 + 3) * 4": {20},
        "8 / 2 / 2": {2},
        "10 - 3 - 2": {5},
        "-(1 - 3)": {2},
        "2 ln √16": {2 * np.log(4)},
        "(1 + 1)log2 8": {6},
        "2 > 1": set(),
        "−1": {-1},
        "1 2": set(),
        "2 ** 3": set(),
        "__import__('os')": set(),
    }
    for text, expected in read.items():
        assert sorted(set(values(text))) == pytest.approx(sorted(expected)), text


def test_any_typed_text_is_handled_quickly() -> None:
    endless = ("(" * 5000, "-" * 5000, "ln " * 5000, "1," * 5000, "9e999", "x" * 10**6, "9" * 400)
    for text in endless:
        values(text[:LONGEST])
        assert not any(is_right(text, answer) for answer in ("6", "(2, 4, 3)", "step"))
        assert isinstance(explain_wrong(text, "6", {"3": "the first row"}), str)


def test_finding_a_head_that_attends_to_itself() -> None:
    attention = weights(CRANE)
    itself = np.diagonal(attention, axis1=2, axis2=3)[..., 1:].mean(axis=-1)
    # The task is that each token's largest weight is its own, not the largest mean of all heads.
    most = (attention.argmax(axis=-1) == np.arange(4)).all(axis=-1)
    less = np.argwhere(most & (itself < itself.max() - 0.05))[0]
    ends = (np.unravel_index(n, itself.shape) for n in (itself.argmax(), itself.argmin()))
    for (layer, head), result in zip((*ends, less), (True, False, True), strict=True):
        at = open_page("textbook", chapter="heads", layer=str(layer), head=str(head))
        assert answered_ids(at) == ["real_self"] * result


def test_progress_is_kept_across_chapters_and_merged_from_a_file() -> None:
    at = open_page("textbook", chapter="mistakes", try_nh="7")
    at.text_input(key="answer_mistake_25").set_value("1000").run()
    at.query_params["order_on"] = "true"
    at.radio(key="chapter").set_value("order").run()
    key, words = "answer_explain_order", RIGHT["explain_order"][0]
    at.text_area(key=key).set_value(words)
    next(button for button in at.button if button.label == "Send").click().run()
    for chapter in ("mask", "order"):
        at.radio(key="chapter").set_value(chapter).run()
    field = at.text_area(key=key)  # its default is shown where a browser forgot its value
    assert field.value == field.proto.default == words
    assert "Compare for yourself" in text_of(at)
    assert ":green[**✓**] **Explain**" not in text_of(at)
    here = {"mistakes": ["mistake_made", "mistake_25"], "order": ["order_on", "explain_order"]}
    assert {name: ids for name, ids in at.session_state["_progress"].items() if ids} == here
    lessons = [name for name, chapter in CHAPTERS.items() if chapter.questions]
    ticked = [option for option in at.radio(key="chapter").options if "✓" in option]
    assert ticked == [f"{len(lessons)}. {CHAPTERS['mistakes'].title} ✓"]
    more = {"crane": ["crane_half"], "mask": ["mask_row", "mask_even"]}
    for content, count in ((b"x", 4), (json.dumps({"answered": more}).encode(), 7)):
        at.file_uploader(key="open_progress").upload("x.json", content, "application/json").run()
        assert len(at.error) == (count == 4)
        assert any(f"{count} of " in caption.value for caption in at.caption)
    assert {name: ids for name, ids in at.session_state["_progress"].items() if ids} == here | more
    (again,) = (button for button in at.button if button.label == "Start again")
    again.click().run()
    assert (answered_ids(at), at.text_area(key=key).value) == (["order_on"], "")  # still on screen


def test_invalid_progress_files_are_rejected() -> None:
    known = {name: chapter.questions for name, chapter in CHAPTERS.items()}
    contents: list[bytes] = [
        *(b"", b"x", b"[]", b"{}", b"null", b"\xff\xfe", b"[" * 50_000, b" " * 200_000),
        *(b'{"answered": 1}', b'{"answered": {"mask": 1}}', b'{"answered": {"mask": "mask_row"}}'),
    ]
    for content in contents:
        with pytest.raises(ValueError, match=r"no progress|too large"):
            progress.parse(content, known)
    odd: dict[str, Any] = {"nobody": ["mask_row"]}
    odd["mask"] = ["mask_row", "mask_row", "crane_half", 7, None, {}]
    assert progress.known_answers(odd, known) == {name: [] for name in known} | {
        "mask": ["mask_row"]
    }

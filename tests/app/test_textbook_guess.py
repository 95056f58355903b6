"""Guessing a row of weights: it is hidden until then; feedback and progress."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

from gpt2viz.app.course import guess, progress
from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.textbook import guesses
from gpt2viz.textbook.guesses import ROWS, Verdict
from tests.app.chapters import resume, text_of
from tests.app.pages import heatmaps, open_page, pictures
from tests.docs.reading_level import grade
from tests.textbook.test_guesses import JUNK, MISTAKES, REAL, in_hundredths

CHAPTER = {chapter.guess: name for name, chapter in CHAPTERS.items() if chapter.guess}
#: Row -> its picture, panel and row number there.
PICTURE = {
    "crane": ("crane_weights", "weights of crane", 0),
    "mask": ("mask_weights", "weights", 2),
    "next": ("chances", "probabilities p", 0),
}
#: Row -> addresses where its numbers differ from the text's.
EDITED = {
    "crane": [{"crane_q": "1,1"}, {"crane": "machine"}, {"crane_heat": "2.0"}],
    "mask": [{"mask_on": "false"}, {"mask_scores": ",".join(["0.5"] * 16)}],
    "next": [{"last_x": "1,1"}, {"heat": "2.0"}, {"last_rows": "1,1,1,1,1,1,1,1"}],
}


def bars(at: AppTest) -> dict[str, Any]:
    """The data of the bars to guess or to compare, by key."""
    parts = [c.proto for c in at.get("bidi_component") if '"names"' in c.proto.json]
    return {part.id.rsplit("-", 1)[-1]: json.loads(part.json) for part in parts}


def test_every_row_is_guessed_in_one_chapter() -> None:
    assert sorted(CHAPTER) == sorted(ROWS)
    assert set(PICTURE) | {"scale"} == set(ROWS)


def test_row_is_hidden_until_guessed_or_edited() -> None:
    for id, row in ROWS.items():
        at = open_page("textbook", chapter=CHAPTER[id])
        assert bars(at)[f"guess_{id}"]["names"] == list(row.words)
        assert "Predict first." in text_of(at)
        assert PICTURE.get(id, [""])[0] not in pictures(at)
        assert not any(f"{share:.4f}" in text_of(at) for share in REAL[id] if 0 < share)
        assert not any("real" in data for data in bars(at).values())
        for address in EDITED.get(id, ()):
            at = open_page("textbook", chapter=CHAPTER[id], **address)
            assert bars(at) == {}, address
            assert PICTURE[id][0] in pictures(at), address


@pytest.mark.parametrize("id", ROWS)
def test_row_is_shown_beside_the_guess_or_alone(id: str) -> None:
    for guessed in (in_hundredths(REAL[id]), [100, *[0] * (len(ROWS[id].words) - 1)], []):
        at = resume(CHAPTER[id], guesses={id: guessed})
        assert "Predict first." not in text_of(at)
        if id in PICTURE:
            key, panel, row = PICTURE[id]
            assert_allclose(heatmaps(at, key)[panel][row], REAL[id], atol=1e-6)
        compared = bars(at).get(f"compared_{id}")
        assert (compared is None) == (not guessed) == ("Your guess" not in text_of(at))
        if compared is None:
            continue
        assert compared["guess"] == guessed
        assert_allclose(compared["real"], REAL[id], atol=1e-6)
        off = np.abs(np.array(guessed) / 100 - REAL[id]).sum() / 2
        number = "less than **0.01**" if off < 0.005 else f"**{off:.2f}**"
        assert f"Your guess is off by {number}" in text_of(at)
        assert ("Close!" in text_of(at)) == (off <= 0.04)


def test_guesses_are_accepted_skipped_or_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(kind: str, sent: object) -> None:
        """Send it to each part that asks for a guess."""
        monkeypatch.setattr(guess, "mount", lambda *_, on=None, **__: on and on[kind](sent))

    for junk in ([float("nan"), 50, 50], [101, -1, 0], "34,33,33", None, [50, 50]):
        answer("expected", junk)
        at = open_page("textbook", chapter="crane")
        assert at.session_state["_progress_guesses"] == {}
    answer("expected", [40, 30, 30])
    at = open_page("textbook", chapter="crane").run()
    assert at.session_state["_progress_guesses"] == {"crane": [40, 30, 30]}
    assert "crane_weights" in pictures(at)
    answer("skipped", None)
    at = open_page("textbook", chapter="mask").run()
    assert at.session_state["_progress_guesses"] == {"mask": []}
    assert "mask_weights" in pictures(at)


def test_feedback_on_guesses_is_readable() -> None:
    result = {guess.describe(guesses.judge(ROWS[id], guessed)) for id, guessed, _ in MISTAKES}
    assert len({text.partition(". ")[2] for text in result}) > 6
    assert grade(result) <= 9
    assert guess.describe(Verdict(0.004, "")).startswith("Close! Your guess is off by less than")


def test_guesses_are_saved_restored_and_summarized() -> None:
    at = resume("crane", guesses={"crane": [50, 25, 25]})
    stored: dict[str, list[int]] = {"crane": [1, 1, 98], "mask": []}
    content = {"answered": {"mask": ["mask_row"]}, "guesses": stored}
    at.file_uploader(key="open_progress").upload(
        "progress.json", json.dumps(content).encode(), "application/json"
    ).run()
    assert at.session_state["_progress_guesses"] == {"crane": [50, 25, 25], "mask": []}
    off = np.abs(np.array([0.5, 0.25, 0.25]) - REAL["crane"]).sum() / 2
    counts = {name: f"of {len(CHAPTERS[name].questions)} answered" for name in ("crane", "mask")}
    expected = [
        f"- {CHAPTERS['crane'].title}: 0 {counts['crane']}, prediction off by {off:.2f}",
        f"- {CHAPTERS['mask'].title}: 1 {counts['mask']}",
    ]
    (summary,) = (block.value for block in at.markdown if "prediction off by" in block.value)
    assert summary.splitlines() == expected
    (again,) = (button for button in at.button if button.label == "Start again")
    again.click().run()
    assert at.session_state["_progress_guesses"] == {}
    assert "Predict first." in text_of(at)
    assert not any(" answered" in block.value for block in at.markdown)


def test_file_with_missing_or_invalid_guesses_keeps_its_answers() -> None:
    known = {name: chapter.questions for name, chapter in CHAPTERS.items()}
    fits = {"crane": [40, 30, 30], "mask": [30, 40, 30, 0]}
    odd = fits | {"scale": [1, 2, 3, 4], "next": "x", "gone": [100]}
    answered: dict[str, Any] = {"answered": {"mask": ["mask_row"]}}
    cases: list[tuple[Any, Any]] = [(None, {}), ([], {}), (7, {}), (fits, fits), (odd, fits)]
    for more, expected in [*(({"guesses": given}, result) for given, result in cases), ({}, {})]:
        done, result = progress.parse(json.dumps(answered | more).encode(), known)
        assert done["mask"] == ["mask_row"]
        assert result == expected
    for junk in JUNK:
        assert progress.fitting_guesses({"crane": junk}) == ({"crane": []} if junk == [] else {})

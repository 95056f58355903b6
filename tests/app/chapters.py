"""Open the Textbook's chapters, once for all tests that only read them, and read their text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block

from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.textbook.guesses import ROWS
from tests.app.pages import _prepare, _run, heatmaps, plain

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?|-?\\infty")


def open_chapter(name: str, /, **chosen: str) -> AppTest:
    """Open a chapter with each row of weights already shown, without a guess."""
    return _open(name, {id: [] for id in ROWS}, {}, {}, chosen)


def resume(
    name: str,
    /,
    guesses: Mapping[str, list[int]] | None = None,
    answers: Sequence[str] = (),
    typed: Mapping[str, str] | None = None,
) -> AppTest:
    """Open a chapter with stored guesses and answers, and with typed answers.

    Without ``guesses``, each row of weights is already shown.
    """
    shown: dict[str, list[int]] = {id: [] for id in ROWS}
    stored = {name: list(answers)} if answers else {}
    return _open(name, shown if guesses is None else dict(guesses), stored, typed or {}, {})


def _open(
    name: str,
    guesses: dict[str, list[int]],
    answers: dict[str, list[str]],
    typed: Mapping[str, str],
    chosen: dict[str, str],
) -> AppTest:
    at = _prepare("textbook", {}, {"chapter": name, **chosen})
    at.session_state["_progress_guesses"] = guesses
    at.session_state["_progress"] = answers
    for id, answer in typed.items():
        at.session_state[f"answer_{id}"] = answer
    return _run(at)


@cache
def chapter(name: str) -> AppTest:
    """A chapter with all questions answered and all rows of weights shown."""
    return resume(name, answers=CHAPTERS[name].questions)


def answered_ids(at: AppTest) -> list[str]:
    """The ids of the answered questions, of all chapters."""
    return [id for ids in at.session_state["_progress"].values() for id in ids]


def text_of(at: AppTest) -> str:
    """All text of a page, with questions, hints and tables of claims, without links."""
    elements = [*at.markdown, *at.caption, *at.subheader, *at.header, *at.latex]
    return plain("\n".join(element.value for element in elements))


def questions_in(block: Block) -> Iterator[tuple[str, Block]]:
    """The questions in a part of the page, with their ids."""
    for part in block.children.values():
        if isinstance(part, Block):
            name = str(getattr(part.proto, "id", ""))
            matches = "-question_" in name
            yield from [(name.partition("question_")[2], part)] if matches else questions_in(part)


def captions(at: AppTest) -> list[str]:
    """The small print of a page, without links."""
    return [plain(caption.value) for caption in at.caption]


def matrix(at: AppTest, key: str) -> np.ndarray:
    """The only matrix of a picture."""
    (values,) = heatmaps(at, key).values()
    return values


def links(at: AppTest, page: str) -> list[dict[str, str]]:
    """The parameters in the links to a page."""
    results = [link.proto for link in at.get("page_link") if link.proto.page == page]
    return [dict(parse_qsl(link.query_string)) for link in results]


def formulas(at: AppTest, prefix: str = "") -> list[str]:
    """The formulas of a page that start with a prefix, without it."""
    results = [element.value.strip("$ \n") for element in at.latex]
    return [text.removeprefix(prefix) for text in results if text.startswith(prefix)]


def formula(at: AppTest, prefix: str) -> str:
    """The only formula that starts with a prefix, without it."""
    (result,) = formulas(at, prefix)
    return result


def numbers(text: str) -> np.ndarray:
    """The numbers of a formula."""
    return np.array([number.replace("\\infty", "inf") for number in _NUMBER.findall(text)], float)


def check_numbers(written: str, expected: object) -> None:
    """The numbers in ``written`` are ``expected``, to their last digit.

    After = exactly, after ≈ to within one unit of the last decimal, as they are rounded twice.
    """
    sign, _, rest = written.strip().partition(" ")
    assert sign in ("=", r"\approx"), written
    result, right = numbers(rest), np.ravel(np.asarray(expected, float))
    assert len(result) == len(right), written
    decimals = len(re.findall(r"\.(\d+)", rest)[0])
    unit = 10.0**-decimals * (1e-3 if sign == "=" else 1)
    np.testing.assert_allclose(result, right, rtol=2e-6, atol=1.001 * unit, err_msg=written)


def joined(values: Any) -> str:
    """A table as in an address, joined by commas."""
    return ",".join(map(str, np.asarray(values).ravel().tolist()))

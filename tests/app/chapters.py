"""The Textbook's chapters, opened once for all tests that only read them, and what they say."""

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
from tests.app.pages import _about_to_open, _opened, heatmaps, plain

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?|-?\\infty")


def visit(name: str, /, **chosen: str) -> AppTest:
    """A chapter opens for somebody to whom each row of weights was shown without a guess."""
    return _revisit(name, {id: [] for id in ROWS}, {}, {}, chosen)


def revisit(
    name: str,
    /,
    guesses: Mapping[str, list[int]] | None = None,
    answers: Sequence[str] = (),
    typed: Mapping[str, str] | None = None,
) -> AppTest:
    """A chapter opens for somebody who has made these guesses and given or typed these answers.

    With no ``guesses``, each row of weights was shown without one.
    """
    shown: dict[str, list[int]] = {id: [] for id in ROWS}
    given = {name: list(answers)} if answers else {}
    return _revisit(name, shown if guesses is None else dict(guesses), given, typed or {}, {})


def _revisit(
    name: str,
    guesses: dict[str, list[int]],
    answers: dict[str, list[str]],
    typed: Mapping[str, str],
    chosen: dict[str, str],
) -> AppTest:
    at = _about_to_open("textbook", {}, {"chapter": name, **chosen})
    at.session_state["_progress_guesses"] = guesses
    at.session_state["_progress"] = answers
    for id, answer in typed.items():
        at.session_state[f"answer_{id}"] = answer
    return _opened(at)


@cache
def chapter(name: str) -> AppTest:
    """A chapter that shows all: its questions are answered, and no row is left to predict."""
    return revisit(name, answers=CHAPTERS[name].questions)


def answered(at: AppTest) -> list[str]:
    """The questions that are answered, of all chapters."""
    return [id for ids in at.session_state["_progress"].values() for id in ids]


def text_of(at: AppTest) -> str:
    """All that a page writes, questions, hints and tables of claims too, without links."""
    elements = [*at.markdown, *at.caption, *at.subheader, *at.header, *at.latex]
    return plain("\n".join(element.value for element in elements))


def asked_in(block: Block) -> Iterator[tuple[str, Block]]:
    """The questions that stand in a part of the page, by their ids."""
    for part in block.children.values():
        if isinstance(part, Block):
            name = str(getattr(part.proto, "id", ""))
            asks = "-question_" in name
            yield from [(name.partition("question_")[2], part)] if asks else asked_in(part)


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


def formulas(at: AppTest, begins: str = "") -> list[str]:
    """The formulas of a page that begin so, without what they begin with."""
    results = [element.value.strip("$ \n") for element in at.latex]
    return [text.removeprefix(begins) for text in results if text.startswith(begins)]


def formula(at: AppTest, begins: str) -> str:
    """The only formula that begins so, without that."""
    (result,) = formulas(at, begins)
    return result


def numbers(text: str) -> np.ndarray:
    """The numbers of a formula."""
    return np.array([number.replace("\\infty", "inf") for number in _NUMBER.findall(text)], float)


def follows(written: str, expected: object) -> None:
    """The numbers of ``written`` are ``expected``, to the last digit that they have.

    After = exactly, after ≈ to within one unit of the last decimal: what is rounded twice.
    """
    sign, _, rest = written.strip().partition(" ")
    assert sign in ("=", r"\approx"), written
    result, right = numbers(rest), np.ravel(np.asarray(expected, float))
    assert len(result) == len(right), written
    decimals = len(re.findall(r"\.(\d+)", rest)[0])
    unit = 10.0**-decimals * (1e-3 if sign == "=" else 1)
    np.testing.assert_allclose(result, right, rtol=2e-6, atol=1.001 * unit, err_msg=written)


def spelled(values: Any) -> str:
    """A table as it stands in an address."""
    return ",".join(map(str, np.asarray(values).ravel().tolist()))

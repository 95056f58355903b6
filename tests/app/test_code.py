"""Code beside picture: every picture of every page can show the lines that made its numbers."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.provenance import MARK
from gpt2viz.ui.textbook.contents import CHAPTERS
from tests.app.pages import PAGES, ROOT, open_page

#: Addresses that together show every picture of the pages.
STATES = [
    *((page, {}) for page in PAGES if page != "textbook"),
    *(("attention", {"show": measure}) for measure in ("rest", "norms")),
    ("attention", {"picture": "lines"}),
    ("inside", {"picture": "lines"}),
    ("compare", {"compare": "rollout", "picture": "lines"}),
    ("compare", {"compare": "2", "words": "true"}),
    *((page, {"picture": "lines"}) for page in ("mask", "whatif", "two", "find")),
    *(("find", {"find": way, "keys": "0"}) for way in ("look", "pattern", "head", "all")),
    ("whatif", {"edits": "off:0.0"}),
    ("training", {"score": "first token"}),
]

FILES = [path.read_text(encoding="utf-8") for path in (ROOT / "gpt2viz").rglob("*.py")]


def squeezed(text: str) -> str:
    """Without the space at the start of lines: what is shown is moved to the left."""
    return re.sub(r"(?m)^\s+", "", text)


SOURCE = [squeezed(text) for text in FILES]


def is_in_the_package(code: str) -> bool:
    lines = [line for line in code.splitlines() if line.strip() != MARK]
    wanted = squeezed(textwrap.dedent("\n".join(lines))).strip()
    return any(wanted in text for text in SOURCE)


@pytest.mark.parametrize(("page", "parameters"), STATES, ids=str)
def test_every_picture_can_show_its_code(page: str, parameters: dict[str, str]) -> None:
    at = open_page(page, **parameters)
    shown = at.session_state["_shown"]
    assert parameters.items() <= at.query_params.items()  # else it is the page's first state
    assert set(shown.pictures) - shown.explained == set()
    blocks = [block.value for block in at.code]
    assert blocks or not shown.pictures
    for block in blocks:
        assert is_in_the_package(block), block


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapter_shows_the_code_that_ran(chapter: str) -> None:
    at = open_page("textbook", chapter=chapter)
    blocks = [block.value for block in at.code if block.language == "python"]
    assert blocks
    assert all(is_in_the_package(block) for block in blocks)


@pytest.mark.parametrize(
    ("page", "key", "layer"),
    [
        ("attention", "weights", 1),
        ("compare", "weights", 0),
        ("mask", "masked_scores", 1),
        ("predictions", "last_logits", None),
        ("generate", "weights", 1),
        ("two", "weights", 1),
    ],
)
def test_the_line_that_made_the_tensor_is_marked(page: str, key: str, layer: int | None) -> None:
    at = open_page(page, layer="1", head="2")
    record = gpt2viz.trace(gpt2viz.load_model(), "A crane ate fish").record(key, layer)
    assert record is not None
    marked = [
        block.value.partition(MARK)[2].splitlines()[1] for block in at.code if MARK in block.value
    ]
    assert any(record.code in line for line in marked)


def test_the_code_is_that_of_what_is_shown() -> None:
    at: AppTest = open_page("predictions")
    said = "\n".join(block.value for block in at.code)
    for function in ("surprise", "logit_lens", "contributions", "sampling_distribution"):
        assert f"def {function}(" in said
    assert Path(gpt2viz.__file__).parent == ROOT / "gpt2viz"

"""Chapters in Markdown: their parser, and that every name in them exists."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import torch

from gpt2viz.app import pages, parameters
from gpt2viz.app.course.chapter import parse, question, read_all
from gpt2viz.app.course.parts import fill
from gpt2viz.app.course.questions import Check
from gpt2viz.run.stages import STAGE

#: A text of each kind -> the block that it is parsed into.
BLOCKS = {
    "At\n6. On\n\n- a list\n- of two": ("prose", "", "At 6. On\n\n- a list\n- of two"),
    "## Apart {#apart}": ("heading", "apart", "Apart"),
    "::: not few": ("condition", "not few", ""),
    "$$x\n+ y$$": ("formula", "", "x\n+ y"),
    "> small\n> print": ("caption", "", "small print"),
    ":::": ("condition", "", ""),
    "[All of {{n}}](shapes?filter={{n}})": ("link", "shapes?filter={{n}}", "All of {{n}}"),
    "```example heads.way\nIts own\ntext.\n```": ("example", "heads.way", "Its own text."),
    "+++ More of it": ("fold", "", "More of it"),
    "+++": ("fold", "", ""),
    "```python\na = 1\nb = 2\n```": ("python", "", "a = 1\nb = 2\n"),
    "```code heads.mix\nheads.Mask\n```": ("code", "heads.mix", "heads.Mask"),
    "```question why\nWhy?\nhint: Look.\n```": ("question", "why", "Why?\nhint: Look.\n"),
}


class AnyCheck(dict[str, Any]):
    """Values of a book in which every name is a passed check."""

    def __missing__(self, name: str) -> Check:
        return Check(done=True)


def test_chapter_is_parsed_into_blocks() -> None:
    chapter = parse("---\ntitle: Heads\nsentence: read\n---\n" + "\n\n".join(BLOCKS))
    assert (chapter.title, chapter.sentence, chapter.guess) == ("Heads", "read", "")
    assert list(chapter.blocks) == list(BLOCKS.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Heads\n", "no front matter"),
        ("---\ntitle: Heads\nauthor: me\n---\n", r"not .*author"),
        ("---\nsentence: read\n---\n", "has a title"),
    ],
)
def test_chapter_without_its_fields_is_rejected(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        parse(text)


def test_values_are_filled_into_a_text() -> None:
    values = {"n": 3, "on": True, "off": False}
    assert fill(r"\text{{{n}}} of {{n}}", values) == r"\text{3} of 3"
    assert fill("{{on? {{n}} more | none ?}}{{off?, and ?}}", values) == "3 more"
    assert fill("It is {{off? on |\noff ?}}.", values) == "It is off."
    with pytest.raises(KeyError, match="gone"):
        fill("{{gone}}", values)


def test_question_needs_an_answer_or_a_check() -> None:
    text = "How\nmany {{n}}?\n\nhint: Count.\nwhy: They\nare two.\n"
    typed = question(
        "many", f"{text}answer: 2\nalso: two | both\nnear: 3 → One less.\n", {"n": "x"}
    )
    assert (typed.text, typed.why, typed.answer) == ("How many x?", "They are two.", "2")
    assert (typed.also, typed.near) == (("two", "both"), {"3": "One less."})
    done = question("many", text, {"n": "x", "many": Check(True, near={"1": "One more."})})
    assert (done.done, done.near) == (True, {"1": "One more."})
    with pytest.raises(KeyError, match="many"):
        question("many", text, {"n": "x"})


def test_every_listing_runs_and_its_assertions_hold(subtests: pytest.Subtests) -> None:
    listed = 0
    for name, chapter in read_all().items():
        names: dict[str, Any] = {"torch": torch}
        for block in chapter.blocks:
            if block.kind == "python":
                listed += 1
                assert "assert " in block.text, name
                with subtests.test(chapter=name, listing=block.text[:60]):
                    exec(block.text, names)  # noqa: S102 - our own code
    assert listed > 10


@pytest.mark.parametrize("name", read_all())
def test_every_name_in_a_chapter_exists(name: str) -> None:
    for block in read_all()[name].blocks:
        match block.kind:
            case "example":
                assert callable(resolve_name(f"gpt2viz.app.course.{block.name}"))
            case "code":
                for full in fill(f"{block.name} {block.text}", AnyCheck()).split():
                    path = full if full.startswith("gpt2viz.") else f"gpt2viz.textbook.{full}"
                    assert full in STAGE or callable(resolve_name(path))
            case "question":
                requested = question(block.name, block.text, AnyCheck())
                assert requested.hint
                assert requested.why
            case "link":
                address = urlsplit(fill(block.name, AnyCheck()))
                assert address.path in {page.name for page in pages.MENU}
                assert {key for key, _ in parse_qsl(address.query)} <= set(parameters.NAMED)
            case "prose":
                assert "```" not in block.text
                assert not block.text.startswith(":::")

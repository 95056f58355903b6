"""“The code that ran”: what a chapter lists under a picture was called for it, and all of that."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from gpt2viz import textbook
from gpt2viz.app import course as chapters
from gpt2viz.app import output, source_code
from gpt2viz.app.course import checks, parts
from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.textbook import examples, heads, mistakes, shape_sheet, steps
from tests.app.pages import open_page

HERE = str(Path(chapters.__file__).parent)
MODULES = str(Path(textbook.__file__).parent)
#: Turn numbers into tensors, errors into words, or call for claims; or stand beside the chapter.
PLUMBING = {
    steps.rows.__code__,
    mistakes.message.__code__,
    inspect.unwrap(examples.claims).__code__,
    shape_sheet.page.__code__,
}
HEADING, ENDING = parts.heading.__code__, checks.ask.__code__
LISTING = source_code.listing.__code__
PICTURES = {output.picture.__code__: "key"}


@dataclass
class Part:
    """What ran between two lists of code, or between an example's heading and its first list."""

    example: str
    ran: set[CodeType] = field(default_factory=set)
    made: set[type] = field(default_factory=set)
    called_by_the_page: set[CodeType] = field(default_factory=set)
    pictures: list[str] = field(default_factory=list)
    listed: tuple[Any, ...] = ()


class Watch:
    """Notes what a page's script calls, part by part."""

    def __init__(self) -> None:
        self.parts = [Part("")]

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or threading.current_thread() is main:
            return
        part = self.parts[-1]
        if code in (HEADING, ENDING):
            self.parts.append(Part(str(frame.f_locals.get("id", "the end"))))
        elif code is LISTING:
            part.listed = frame.f_locals["made"]
            self.parts.append(Part(part.example))
        elif code in PICTURES:
            part.pictures.append(str(frame.f_locals[PICTURES[code]]))
        else:
            part.ran.add(code)
            if code.co_name == "__init__":
                part.made.add(type(frame.f_locals["self"]))
            caller = frame.f_back.f_code.co_filename if frame.f_back else ""
            if caller.startswith(HERE) and code.co_filename.startswith(MODULES):
                part.called_by_the_page.add(code)


main = threading.main_thread()


@pytest.fixture
def watched() -> Callable[..., list[Part]]:
    """Open a chapter, with nothing that it computes remembered; its parts."""
    for name in [name for name in sys.modules if name.startswith(textbook.__name__)]:
        for thing in vars(sys.modules[name]).values():
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()

    def open_chapter(**address: str) -> list[Part]:
        watch = Watch()
        threading.setprofile(watch)
        try:
            open_page("textbook", **address)
        finally:
            threading.setprofile(None)
        return watch.parts

    return open_chapter


def codes(thing: Any) -> set[CodeType]:
    """The code of a function, or of all functions that a class has of its own."""
    if inspect.isclass(thing):
        return {part.__code__ for part in filter(inspect.isfunction, vars(thing).values())}
    return {inspect.unwrap(thing).__code__}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_code_under_a_picture_is_what_was_called_for_it(
    chapter: str, watched: Callable[..., list[Part]]
) -> None:
    found = watched(chapter=chapter)
    assert any(part.listed for part in found) or chapter == "mistakes"  # each shows its own there
    for part in found:
        where = (part.example, part.pictures)
        assert part.listed or not part.pictures, f"{where}: no code"
        shown = set()
        for thing in part.listed:
            if isinstance(thing, source_code.Line):
                assert thing.trace.record(thing.key, thing.layer), where
                continue
            assert codes(thing) <= part.ran, f"{where}: {thing.__qualname__} wasn't called"
            if inspect.isclass(thing):
                assert thing in part.made, f"{where}: no {thing.__qualname__} was made"
            shown |= codes(thing)
        left_out = {
            code.co_qualname
            for code in part.called_by_the_page - shown - PLUMBING
            if "." not in code.co_qualname and not code.co_name.startswith("_")
        }
        assert not left_out, f"{where}: {left_out} were called, and aren't listed"


def test_a_function_that_was_not_called_would_be_noticed(
    watched: Callable[..., list[Part]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "code", lambda *_: source_code.listing(heads.apart_and_fused))
    monkeypatch.setattr("gpt2viz.app.course.mask.code", parts.code)
    with pytest.raises(AssertionError, match="apart_and_fused wasn't called"):
        test_the_code_under_a_picture_is_what_was_called_for_it("mask", watched)

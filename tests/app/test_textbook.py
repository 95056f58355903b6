"""The Textbook's chapters: their parts, the code that ran for them, and their readability.

Each chapter is opened twice: as for a first visitor, recording the code that runs; and with all
its questions answered.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block

import gpt2viz
from gpt2viz import textbook
from gpt2viz.app import course, output, source_code
from gpt2viz.app.course import parts, questions, sheets
from gpt2viz.app.course.contents import APPENDIX, CHAPTERS
from gpt2viz.app.parameters import MODE
from gpt2viz.run import tracer
from gpt2viz.run.provenance import MARK
from gpt2viz.textbook import examples, mistakes, residual, sizes
from gpt2viz.textbook.claims import TEXTS
from gpt2viz.textbook.examples import EXAMPLES, claims
from gpt2viz.textbook.tensors import rows
from tests.app.chapters import answered_ids, chapter, links, questions_in, text_of
from tests.app.pages import ROOT, chart, open_page, plain
from tests.app.test_pictures import check_page
from tests.bundled import bundled_model
from tests.docs.reading_level import grade, sentences

#: The chapters that ask questions: all but the start and the appendix.
LESSONS = [name for name, chapter in CHAPTERS.items() if chapter.questions]
HERE = str(Path(course.__file__).parent)
MODULES = str(Path(textbook.__file__).parent)
#: They turn numbers into tensors, errors into words, or call for claims; or are beside the chapter.
HELPERS = {
    rows.__code__,
    mistakes.message.__code__,
    inspect.unwrap(examples.claims).__code__,
    sizes.shape_sheet.__code__,
}
HEADING, ENDING = parts.heading.__code__, questions.ask.__code__
LISTING, PICTURE = source_code.listing.__code__, output.picture.__code__


@dataclass
class Part:
    """The calls between two code listings, or between a heading and the first listing."""

    example: str
    called: set[CodeType] = field(default_factory=set)
    made: set[type] = field(default_factory=set)
    called_by_the_page: set[CodeType] = field(default_factory=set)
    pictures: list[str] = field(default_factory=list)
    listed: tuple[Any, ...] = ()


class Watch:
    """Records the calls of a page's script, part by part."""

    def __init__(self) -> None:
        self.parts = [Part("")]

    def __call__(self, frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        part = self.parts[-1]
        if code is ENDING or (code is HEADING and frame.f_locals["text"] in EXAMPLES):
            self.parts.append(Part(str(frame.f_locals.get("text", "the end"))))
        elif code is LISTING:
            part.listed = frame.f_locals["made"]
            self.parts.append(Part(part.example))
        elif code is PICTURE:
            part.pictures.append(str(frame.f_locals["key"]))
        else:
            part.called.add(code)
            if code.co_name == "__init__" and "self" in frame.f_locals:
                part.made.add(type(frame.f_locals["self"]))
            caller = frame.f_back.f_code.co_filename if frame.f_back else ""
            if caller.startswith(HERE) and code.co_filename.startswith(MODULES):
                part.called_by_the_page.add(code)


def open_watched(name: str) -> tuple[AppTest, list[Part]]:
    """A chapter opened with empty caches, and the parts that ran for it."""
    for module in [name for name in sys.modules if name.startswith(textbook.__name__)]:
        for thing in vars(sys.modules[module]).values():
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()
    watch = Watch()
    threading.settrace(watch)  # for new threads, in one of which the script runs
    try:
        return open_page("textbook", chapter=name), watch.parts
    finally:
        threading.settrace(None)


@cache
def first_visit(name: str) -> tuple[AppTest, list[Part]]:
    return open_watched(name)


#: At 180 words a minute, slow enough for formulas.
WORDS_IN_FIVE_MINUTES = 900


def words(at: AppTest) -> int:
    """The number of words of running text, without tables of claims, code, hints or frame."""
    (column,) = [block for block in at.columns if block.header]
    hidden = {id(e) for box in column.expander for e in [*box.markdown, *box.caption]}
    texts = [e.value for e in [*column.markdown, *column.caption] if id(e) not in hidden]
    texts = [
        re.sub(r'\(glossary\?[^"]*"[^"]*"\)', "", text) for text in texts
    ]  # with their tooltips
    frame = r"[\d,]+ tokens?"  # the name of the strip of tokens
    return sum(
        len(text.split()) for text in texts if "|:-|" not in text and not re.fullmatch(frame, text)
    )


def inside(block: Block) -> Iterator[Any]:
    """All elements of a block, in page order."""
    for child in block.children.values():
        yield from inside(child) if isinstance(child, Block) else (child,)


def test_every_example_has_one_chapter() -> None:
    ids = [id for name in LESSONS for id in CHAPTERS[name].examples]
    assert sorted(ids, key=lambda id: int(id[1:])) == list(EXAMPLES)


def test_start_links_to_every_chapter() -> None:
    at = open_page("textbook")
    assert {f"map_{name}" for name in [*CHAPTERS][1:]} <= {button.key for button in at.button}
    at.button(key="map_mask").click().run()
    assert at.header[0].value == CHAPTERS["mask"].title


def test_chapters_open_with_examples_and_open_questions(subtests: pytest.Subtests) -> None:
    for name in LESSONS:
        with subtests.test(chapter=name):
            at, message = first_visit(name)[0], CHAPTERS[name]
            assert at.header[0].value == message.title
            titles = " ".join(element.value for element in at.subheader)
            assert [id for id in message.examples if f"[{id}]" not in titles] == []
            lines = [b.label for b in at.button if b.label.startswith("Printed and computed")]
            ids = ", ".join(message.examples)
            assert lines == ([f"Printed and computed: {ids}"] if ids else [])
            assert "|printed|computed|" not in text_of(at)
            requested = dict(questions_in(at.main))
            assert tuple(requested) == message.questions
            assert (1 if message.part else 2) <= len(requested) <= 5
            for id, block in requested.items():
                first, *_ = (e.value for e in inside(block) if e.type == "markdown")
                assert first.startswith("**?**"), id
                # No feedback without an answer: only one question has a caption.
                captions = [plain(e.value) for e in inside(block) if e.type == "caption"]
                lowest = ["The lowest in the table is −0.1543."]
                assert captions == (lowest if id == "curve_lowest" else []), id
            assert at.latex  # formulas with the page's numbers
            assert words(at) <= WORDS_IN_FIVE_MINUTES
            assert answered_ids(at) == []
            assert not at.warning
            for page, parameter in MODE.items():  # each link names the mode, except the menu's
                assert all(parameter.name in link for link in links(at, page.name)[1:])


def codes(thing: Any) -> set[CodeType]:
    """The code of a function, or of all of a class's own functions."""
    if inspect.isclass(thing):
        return {part.__code__ for part in filter(inspect.isfunction, vars(thing).values())}
    return {inspect.unwrap(thing).__code__}


def check_code(part: Part) -> None:
    """Exactly the code listed under a picture was called for it."""
    where = (part.example, part.pictures)
    assert part.listed or not part.pictures, f"{where}: no code"
    shown = set()
    for thing in part.listed:
        if isinstance(thing, source_code.Line):
            assert thing.trace.record(thing.key, thing.layer), where
            continue
        assert codes(thing) <= part.called, f"{where}: {thing.__qualname__} wasn't called"
        if inspect.isclass(thing):
            assert thing in part.made, f"{where}: no {thing.__qualname__} was made"
        shown |= codes(thing)
    left_out = {
        code.co_qualname
        for code in part.called_by_the_page - shown - HELPERS
        if "." not in code.co_qualname and not code.co_name.startswith("_")
    }
    assert not left_out, f"{where}: {left_out} were called, and aren't listed"


def test_listed_code_was_called_for_its_picture(subtests: pytest.Subtests) -> None:
    for name in CHAPTERS:
        with subtests.test(chapter=name):
            result = first_visit(name)[1]
            assert any(part.listed for part in result) or name in ("mistakes", "start")
            source = "\n".join(block.value for block in first_visit(name)[0].code)
            assert name != "mask" or "may_see = torch.ones_like(scores).tril()" in source
            for part in result:
                check_code(part)


def test_lesson_sheets_can_be_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, bytes] = {}

    def button(_label: str, data: str | bytes, **options: Any) -> bool:
        files[options["file_name"]] = data if isinstance(data, bytes) else data.encode()
        return False

    monkeypatch.setattr("streamlit.download_button", button)
    open_page("textbook", chapter="mask")
    for file in ("sheet.html", "sheet-answers.html", "90-minutes.md", "week.md"):
        assert files[f"gpt2viz-{file}"] == (ROOT / "docs" / "lessons" / file).read_bytes()
    assert b"<td>(B, nh, T, T)</td><td>(1, 12, 4, 4)</td>" in files["gpt2viz-shapes.html"]
    files.clear()
    monkeypatch.setattr(sheets, "FOLDER", ROOT / "nowhere")
    open_page("textbook", chapter="mask")
    assert list(files) == ["gpt2viz-progress.json"]


def test_appendix_has_every_example_with_its_verdicts() -> None:
    at = first_visit(APPENDIX)[0]
    assert [title.proto.anchor for title in at.subheader] == list(EXAMPLES)
    tables = [block.value for block in at.markdown if "|:-|" in block.value]
    for id, table in zip(EXAMPLES, tables, strict=True):
        verdicts = re.findall(r"-badge\[(\w+)\]", table)
        assert verdicts == [claim.verdict for claim in claims(id) if claim.verdict], id
    message = {"agrees": 0, "differs": 0} | Counter(re.findall(r"-badge\[(\w+)\]", str(tables)))
    text = text_of(at)
    assert f"Of {sum(message.values())} printed results **{message['agrees']} agree** and" in text
    assert f"**{message['differs']} differ**" in text
    assert "1 result printed: 1 agrees, 0 differ." in text  # E11
    assert "4 results printed: 3 agree, 1 differs." in text  # E19
    assert tuple(questions_in(at.main)) == ()
    assert not at.session_state["_progress"].get(APPENDIX)


def test_example_opens_its_chapter_and_links_to_the_appendix() -> None:
    at = open_page("textbook", example="E22")
    assert at.header[0].value == CHAPTERS["by-hand"].title
    (line,) = (button for button in at.button if button.label.startswith("Printed and computed"))
    line.click().run()
    titles = [f"{example.title} :gray-badge[{example.id}]" for example in EXAMPLES.values()]
    assert [element.value for element in at.subheader] == titles
    assert (at.query_params["chapter"], at.query_params["example"]) == (APPENDIX, "E22")
    at.radio(key="chapter").set_value("crane").run()
    assert "example" not in at.query_params  # else Back would return there


def test_head_page_shows_the_code_of_its_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page("head", layer="2")
    run = gpt2viz.trace(bundled_model(), "A crane ate fish")
    blocks = [block.value for block in at.code if MARK in block.value]
    for key, block in zip(gpt2viz.HEAD_STAGES, blocks, strict=True):
        record = run.record(key, 2)
        assert record is not None
        assert record.code in block.partition(MARK)[2].splitlines()[1]
    monkeypatch.setattr(tracer, "EXPLICIT_BYTES", 0)  # every text counts as long
    at = open_page("attention", text="A crane has derived this")
    block = next(block.value for block in at.code if "softmax" in block.value)
    assert block.lstrip().startswith("def forward")
    assert MARK not in block


def test_source_texts_are_named_only_in_the_appendix(subtests: pytest.Subtests) -> None:
    for name in CHAPTERS:
        with subtests.test(chapter=name):
            text = text_of(chapter(name)).replace("\\", "")
            assert not re.search(r"\(00\d\)|\btexts? 00\d", text)
            for n, source in TEXTS.items():
                assert text.count(source.title) == (name == APPENDIX)
                if name != APPENDIX:
                    assert not source.author or source.author.split()[-1] not in text
                    continue
                line = next(line for line in text.splitlines() if source.title in line)
                ids = [id for id, example in EXAMPLES.items() if n in example.texts]
                assert line.rpartition(": ")[2] == ", ".join(ids)
                assert source.author in line
                assert source.after in line


def test_every_picture_of_a_chapter_is_complete(subtests: pytest.Subtests) -> None:
    for name in CHAPTERS:
        with subtests.test(chapter=name):
            check_page("textbook", {}, first_visit(name)[0])
            check_page("textbook", {}, chapter(name))


def test_norm_order_picture_shows_gradients() -> None:
    at = chapter("residual")
    curves = {line["name"]: line["y"] for line in chart(at, "norm_order")["data"]}
    for order in ("pre-norm", "post-norm"):
        assert_allclose(curves[order], residual.gradients(order, 24, straight=True))
    text = text_of(at)
    in_all = [residual.gradients(order, 24)[0] for order in ("pre-norm", "post-norm")]
    left = residual.gradients("post-norm", 24, straight=True)[0]
    assert f"after 24 parts **{left:.4f}** of the gradient is left" in text
    assert f"{in_all[0]:.1f} times the end's gradient arrives with pre-norm" in text
    assert f"With post-norm it is {in_all[1]:.1f} times" in text
    assert f"here to size {residual.growth('pre-norm', 24)[-1]:.1f}" in text


def test_most_examples_have_editable_numbers() -> None:
    """As the README says: a widget is between an example's title and the next title."""
    changed, example = set(), ""
    for name in CHAPTERS:
        for element in inside(chapter(name).main):
            if element.type == "subheader":
                result = re.search(r"\[(E\d+)\]", element.value)
                example = result[1] if result else ""
            elif example and element.type in (
                *("selectbox", "toggle", "checkbox", "button_group", "bidi_component", "radio"),
            ):
                changed.add(example)
    assert {"E3", "E4", "E5", "E7", "E9", "E10", "E11", "E19", "E20"} <= changed
    assert len(EXAMPLES) / 2 < len(changed) < len(EXAMPLES)


#: The school grade whose readers can read a chapter.
GRADE = 9
#: The most words of a sentence, and of a paragraph.
SENTENCE, PARAGRAPH = 30, 60


#: Folded parts that aren't a chapter's text.
_ASIDE = re.compile("The code that|All eighty lines|The diagram as|The drawn")


@cache
def prose(name: str) -> dict[str, list[str]]:
    """A chapter's running text, and its questions with hints and answers.

    Folded code and tables of claims are left out.
    """
    (column,) = (block for block in chapter(name).columns if block.header)
    results: dict[str, list[str]] = {"text": [], "questions": []}

    def read(block: Block, part: str) -> None:
        for child in block.children.values():
            if not isinstance(child, Block):
                if child.type in ("markdown", "caption"):
                    results[part].append(plain(child.value))
            elif child.type != "expander" or not _ASIDE.match(child.proto.label):
                is_question = "-question_" in str(getattr(child.proto, "id", ""))
                read(child, "questions" if is_question else part)

    read(column, "text")
    return results


def test_chapters_are_readable(subtests: pytest.Subtests) -> None:
    for name in CHAPTERS:
        with subtests.test(chapter=name):
            parts = {part: texts for part, texts in prose(name).items() if texts}
            assert list(parts) == ["text", "questions"][: 1 + (name in LESSONS)]
            paragraphs = [
                part for texts in parts.values() for t in texts for part in t.split("\n\n")
            ]
            hardest = sorted((p for p in paragraphs if sentences(p)), key=lambda p: -grade([p]))[:3]
            assert all(grade(texts) <= GRADE for texts in parts.values()), hardest
            long = [words for p in paragraphs for words in sentences(p) if len(words) > SENTENCE]
            assert long == [], "make two sentences of one"
            assert [p for p in paragraphs if sum(map(len, sentences(p))) > PARAGRAPH] == []
            signs = [t for t in parts["text"] if t.startswith("≈ marks a rounded number in")]
            assert len(signs) == 1

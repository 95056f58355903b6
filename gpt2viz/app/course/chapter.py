"""A chapter of the book, written in Markdown: its syntax, parser and drawing.

``gpt2viz/book/05-mask.md`` is the fifth chapter, whose address is ``mask``. Its front matter has
the title and the fields of ``Chapter``. Prose, ``## headings {#anchor}``, ``$$formulas$$`` and
``> captions`` are Markdown's own. A link in a paragraph of its own, ``[label](shapes?filter=q)``,
leads to another page, with this page's choices and those in the link. Fences call Python:

- ``example mask.weights`` calls ``weights(book)`` of ``app/course/mask.py``, with the fence's text
  as a second argument if it has one, which ``book.write`` fills in and draws. The dict that it
  returns is added to the book's values: ``{{gap}}`` in a later text is the value of that name, and
  ``{{on? a | b ?}}`` is the text a if that value is true, else b, which may be omitted;
- ``code attention.hide_later`` lists the code of ``textbook/`` that just ran; names from elsewhere
  begin with ``gpt2viz.``. A stage, such as ``q``, lists the model's line that made it, in the layer
  of the value ``layer``;
- ``question mask_row`` asks the reader a question, with a hint and the reason for its answer. One
  without an answer to type is done when the ``Check`` of its name, among the values, says so;
- ``python`` lists a few self-contained lines: a test runs these lists one after the other.

The text between ``+++ E4`` and ``+++`` is folded, as another example; an address with
``example=E4`` unfolds it. ``+++ A title`` folds the text below it under that title.

The text between ``::: looks`` and ``:::`` is drawn only if the value of that name is true; after
``::: not looks``, only if it isn't. ``read`` is true if a model reads the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import streamlit as st

from gpt2viz.app import address, pages, parameters, prose
from gpt2viz.app.course.parts import Book, code, fill, heading, link
from gpt2viz.app.course.questions import Check, Question
from gpt2viz.app.source_code import Code, Line
from gpt2viz.textbook.examples import EXAMPLES

FOLDER = Path(__file__).parents[2] / "book"
_FRONT_MATTER = re.compile(r"---\n(.*?)\n---\n", re.DOTALL)
_BLOCK = re.compile(
    r"^```(?P<fence>example|code|question|python)(?: (?P<name>[^\n]*))?\n(?P<body>.*?)^```$"
    r"|^## (?P<heading>[^\n{]*?)(?: \{#(?P<anchor>[\w-]+)\})?$"
    r"|^:::(?P<condition>(?: not)?(?: \w+)?)$"
    r"|^\+\+\+(?P<fold>[^\n]*)$"
    r"|^\$\$(?P<formula>.+?)\$\$$"
    r"|^> (?P<caption>.+?)(?=\n\n|\n*\Z)"
    r"|^\[(?P<label>[^\]]+)\]\((?P<link>\w+[^\s)]*)\)$",
    re.DOTALL | re.MULTILINE,
)
_FIELD = re.compile(r"^(hint|why|answer|also|near): ", re.MULTILINE)
_KEYS = {"title", "sentence", "stages", "guess", "part"}


class Block(NamedTuple):
    """A piece of a chapter: its ``kind`` (prose, heading, example …), ``name`` and ``text``."""

    kind: str
    name: str
    text: str

    def draw(self, book: Book) -> Iterator[Question]:
        """Draw it with the book's values so far; a question is yielded instead of drawn."""
        kind, name, text = self
        values = book.values
        match kind:
            case "example":
                example = resolve_name(f"gpt2viz.app.course.{name}")
                values |= example(book, *filter(None, [text])) or {}
            case "question":
                yield question(name, text, values)
            case "code":
                code(*(_source(book, made) for made in fill(f"{name} {text}", values).split()))
            case "python":
                st.code(text.strip(), wrap_lines=True)
            case "heading":
                heading(text, name)
            case "formula":
                st.latex(fill(text, values))
            case "caption":
                prose.caption(fill(text, values))
            case "link":
                _link(fill(text, values), fill(name, values))
            case "prose":
                prose.markdown(fill(text, values))


class Chapter(NamedTuple):
    """A parsed chapter.

    ``sentence`` says how it reads the user's sentence: "" for not at all, or a key of
    ``contents.CHOOSING``; ``stages`` are those that it needs, separated by spaces: without a model
    that has them, the sentence isn't read. ``guess`` names the row of weights that the reader
    guesses, and ``part`` is the caption of its title in the contents.
    """

    title: str
    blocks: tuple[Block, ...]
    sentence: str = ""
    stages: str = ""
    guess: str = ""
    part: str = ""

    @property
    def examples(self) -> tuple[str, ...]:
        """The ids of its worked examples."""
        return tuple(b.text for b in self.blocks if b.kind == "heading" and b.text in EXAMPLES)

    @property
    def questions(self) -> tuple[str, ...]:
        """The ids of its questions."""
        return tuple(block.name for block in self.blocks if block.kind == "question")

    @property
    def minutes(self) -> int:
        """Its reading time: 180 words a minute, with formulas, and a minute for each question."""
        words = sum(len(block.text.split()) for block in self.blocks)
        return round(words / 180) + len(self.questions)

    def draw(self, book: Book) -> Iterator[Question]:
        """Draw the chapter, and yield each of its questions at its place."""
        drawn = True
        with ExitStack() as folded:
            for block in self.blocks:
                if block.kind == "condition":
                    *negation, name = block.name.split() or [""]
                    drawn = not name or bool(book.values[name]) != bool(negation)
                elif block.kind == "fold":
                    folded.close()
                    if block.text:
                        folded.enter_context(_fold(block.text))
                elif drawn:
                    yield from block.draw(book)


@cache
def read_all() -> Mapping[str, Chapter]:
    """Return the chapters by their addresses, in reading order."""
    files = sorted(FOLDER.glob("*.md"))
    return {file.stem.partition("-")[2]: parse(file.read_text("utf-8")) for file in files}


def parse(text: str) -> Chapter:
    """Parse a chapter's Markdown.

    Raises ``ValueError`` if it has no front matter with a title, or one with unknown fields.
    """
    front = _FRONT_MATTER.match(text)
    if front is None:
        raise ValueError(f"no front matter: {text[:80]!r}")
    fields = dict(line.partition(": ")[::2] for line in front[1].splitlines())
    if not {"title"} <= fields.keys() <= _KEYS:
        raise ValueError(f"a chapter has a title, of {sorted(_KEYS)}, not {sorted(fields)}")
    return Chapter(blocks=tuple(_blocks(text[front.end() :])), **fields)


def _blocks(text: str) -> Iterator[Block]:
    end = 0
    for match in _BLOCK.finditer(text):
        yield from _prose(text[end : match.start()])
        if kind := match["fence"]:
            body = match["body"]  # the parts of these begin on lines of their own
            lines = kind in ("question", "python")
            yield Block(kind, match["name"] or "", body if lines else _join_lines(body))
        elif match["heading"]:
            yield Block("heading", match["anchor"] or "", match["heading"])
        elif match["condition"] is not None:
            yield Block("condition", match["condition"].strip(), "")
        elif match["fold"] is not None:
            yield Block("fold", "", match["fold"].strip())
        elif match["formula"]:
            yield Block("formula", "", match["formula"].strip())
        elif match["link"]:
            yield Block("link", match["link"], match["label"])
        else:
            yield Block("caption", "", _join_lines(match["caption"].replace("\n> ", "\n")))
        end = match.end()
    yield from _prose(text[end:])


def _prose(text: str) -> Iterator[Block]:
    if text.strip():
        yield Block("prose", "", _join_lines(text))


def _join_lines(text: str) -> str:
    """Join each paragraph of Markdown into one line; tables and bullet lists keep their lines."""
    return re.sub(r"(?<=\S)\n(?!\n|- |\|)", " ", text.strip())


def question(id: str, text: str, values: Mapping[str, Any]) -> Question:
    """Parse a question's fence; without an answer to type, its ``Check`` in ``values`` decides."""
    wording, *parts = _FIELD.split(fill(text, values))
    fields: dict[str, list[str]] = {"hint": [], "why": [], "answer": [], "also": [], "near": []}
    for name, value in zip(parts[::2], parts[1::2], strict=True):
        fields[name].append(_join_lines(value))
    (hint,), (why,), answer = fields["hint"], fields["why"], "".join(fields["answer"])
    check = values.get(id, Check()) if answer else values[id]
    near = dict(line.split(" → ", 1) for line in fields["near"]) | dict(check.near)
    also = tuple(way for line in fields["also"] for way in line.split(" | "))
    return Question(id, _join_lines(wording), hint, why, check.done, answer, also, check.note, near)


def _source(book: Book, name: str) -> Code:
    """Return a function or class by its dotted path, or the model's line that made a stage."""
    if "." not in name:
        return Line(book.view.trace, name, book.values.get("layer"))
    made: Code = resolve_name(name if name.startswith("gpt2viz.") else f"gpt2viz.textbook.{name}")
    return made


def _fold(title: str) -> AbstractContextManager[Any]:
    """Return a fold, which is open if the address names its example."""
    expanded = address.get(parameters.EXAMPLE) == title
    if title in EXAMPLES:
        title = f"**Another example:** {EXAMPLES[title].title}"
    return st.expander(title, expanded, icon=":material/unfold_more:")


def _link(label: str, target: str) -> None:
    """Draw a link to a page, given as its name and query string."""
    name, _, query = target.partition("?")
    (page,) = (page for page in pages.MENU if page.name == name)
    link(page, label, {parameters.NAMED[key]: value for key, value in parse_qsl(query)})

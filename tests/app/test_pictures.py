"""Each picture in words, as a table and with the code of its numbers; each word explained."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest

from gpt2viz.app.terms import TERM, TERMS
from gpt2viz.pictures.lines import Lines
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.picture import Bars, Curves, Lens, Points
from gpt2viz.pictures.plotly.figure import render
from gpt2viz.run.provenance import MARK
from tests.app.cases import each
from tests.app.pages import ROOT, VIEWS, header_of, open_page, pictures, plain

#: Addresses that together show every picture of the pages.
SHOWN: list[tuple[str, dict[str, str]]] = [
    (view, {"keys": "1"} if view == "find?find=look" else {}) for view in VIEWS
]
SHOWN += [("what_if", {"edits": "off:0.1"}), ("training", {"score": "first token"})]
SHOWN += [("attention", {"show": measure}) for measure in ("rest", "norms")]
SHOWN += [("side_by_side", {"compare": "rollout", "picture": "lines"})]
SHOWN += [("side_by_side", {"compare": "mean", "words": "true"})]
SHOWN += [
    (page, {"picture": "lines"})
    for page in ("attention", "head", "side_by_side?differs=mask", "what_if")
]
SHOWN += [(page, {"picture": "lines"}) for page in ("side_by_side?differs=text", "find")]
SHOWN += [("predict?predict=generate", {"cache": "true"})]
SHOWN += [("models", {"part": name}) for name in ("parameters", "tokenizer", "positions", "cost")]
#: Pages whose pictures belong to the model or to a text's example, and those of heads.
OF_THE_MODEL = ("training", "models", "textbook")
OF_HEADS = ("attention", "head", "side_by_side", "what_if")
#: Neither headings nor code, formulas, table rows, quotations, names of papers, other senses; nor
#: what the strip of tokens is called.
NOT_PROSE = r"^(#|\|).*|`.*?`|\$.*?\$|“.*?”|\d{4}, \*[^*]+\*|^From the texts' own.*"
NOT_PROSE += r"|linear layers?|this run's value|^[\d,]+ tokens?$"


def squeezed(text: str) -> str:
    """Without the space at the start of lines: what is shown is moved to the left."""
    return re.sub(r"(?m)^\s+", "", text).strip()


#: Pictures on Find may be of random tokens that are repeated, in place of the sentence.
OF_THE_PROBE = r"Weights of (head \d|the heads that rank highest)"
#: Pictures of heads on the sentence, or on the second one.
ASK = {"one_head", "why_weights", "layers_chart", "strip_chart", "weights_a", "weights_b"}
ASK |= {"chosen_head", "both_sides", "real_head", "real_mask", "why_look", "why_read"}
ASK |= {f"stage_{key}" for key in ("scores", "scaled_scores", "masked_scores", "weights")}
FILES = [path for kind in ("*.py", "book/*.md") for path in (ROOT / "gpt2viz").rglob(kind)]
SOURCE = [squeezed(path.read_text(encoding="utf-8")) for path in FILES]
#: And with blanks for the gaps that a reader fills.
SOURCE += [re.sub(r'self\.gap\("\w+"[^)]*\)', "______", text) for text in SOURCE if "gap(" in text]


@each(("page", "view"), SHOWN)
def test_every_picture_has_words_a_table_and_code(page: str, view: dict[str, str]) -> None:
    at = open_page(page, text="the cat saw the cat", layer="1", head="2", **view)
    assert view.items() <= at.query_params.items()  # else it is the page's first state
    check_page(page, view, at)


def check_page(page: str, view: dict[str, str], at: AppTest) -> None:
    """A page's pictures have words, numbers and code; a chapter's too, by ``test_textbook``."""
    shown = at.session_state["_shown"]
    drawn = pictures(at)  # a lens twice: its matrix, and its curves beside it
    beside = {f"{key}_curves" for key in drawn}
    alts = [alt for key, alt in drawn.items() if key not in beside]
    together = of_all_points(at)
    frames = of_frames(at)
    alone = [
        name
        for name in shown.pictures
        if f"{name}. " not in together and name.partition(", step ")[0] not in frames
    ]
    for alt, name in zip(sorted(alts), sorted(alone), strict=True):
        check_alt(page.partition("?")[0], alt, name)
    check_words(at)
    check_code(at, page)
    check_tips(at)
    check_asks(at, page, view)
    for name, picture in shown.pictures.items():
        # (of some frames a block's place is all there is)
        assert len(picture.table()) or name.partition(", step ")[0] in frames, name
        if isinstance(picture, Bars | Curves | Lens | Points):
            check_looks(render(picture, LIGHT))
        for panel in getattr(picture, "panels", ()):
            assert not isinstance(panel.values.base, np.ndarray), name  # nor keeps a run's


def check_asks(at: AppTest, page: str, view: dict[str, str]) -> None:
    """Each cell that is one head's, between two tokens, leads to why it looks there; no other."""
    many = "compare" in view or view.get("words") == "true"
    for part in (p.proto for p in at.get("bidi_component") if p.proto.bytes):
        key, header = part.id.split("-")[-1], header_of(part.bytes)
        of_the_sentence = page not in ("find", "find?find=habit")
        of_a_head = key in ASK or (key == "best_heads" and of_the_sentence)
        if "asks" in header:
            assert header["asks"] == [of_a_head and not many] * len(header["panels"]), key
            of_lines = header.get("head", {}).get("picture") == "lines"  # there it is their words
            assert ("ask why" in header["alt"]) == (any(header["asks"]) and not of_lines)


def of_all_points(at: AppTest) -> str:
    """The text alternatives of a training's points: the words of each picture, one by one."""
    parts = (p.proto for p in at.get("bidi_component") if p.proto.id.endswith("-steps"))
    return " ".join(json.loads(part.json)["alt"] for part in parts)


def of_frames(at: AppTest) -> set[str]:
    """The text alternatives of frames that are played; each has words of its own beside it."""
    parts = (p.proto for p in at.get("bidi_component") if p.proto.id.endswith("_player"))
    return {json.loads(part.json)["alt"] for part in parts}


def check_alt(page: str, alt: str, name: str) -> None:
    """A text alternative names the picture, something in its numbers, and what was read."""
    assert alt.startswith(f"{re.sub(r' [(][0-9]+[)]$', '', name)}. ")
    assert re.search(r"largest -?\d|highest -?\d|from -?\d|[aA]ll are 0|\d curves", alt), alt
    if page not in OF_THE_MODEL and "by position alone" not in name:
        read = r"Sentence of 5 tokens\b|Sentences of 4 and 5 tokens\b"
        assert re.search(read, alt) or re.match(OF_THE_PROBE, alt), alt
    if page in OF_HEADS:
        part = (
            r"layers? \d|(of|in|:) (all|every) (heads?|layer)|[Tt]oken|Next|[Ee]very head|may see"
        )
        assert re.search(part, name), name


def check_words(at: AppTest) -> None:
    """Each word of the glossary in the page's prose is linked to its entry there, once."""
    texts = [block.value for block in [*at.markdown, *at.caption]]
    explained = {f"**: {term.meaning}" for term in TERMS}  # the menu's own list of them
    prose = [text for text in texts if not any(map(text.endswith, explained))]
    cards = [box for box in at.expander if box.label.startswith("The model's card")]
    for card in cards:  # shown as its makers wrote it
        prose.remove(card.markdown[0].value)
    links = linked("\n".join(prose))
    assert not re.search(r"\d0*e[+-]00", "".join(prose)), "a 0 or a 1 written as a power"
    assert sorted(set(links)) == sorted(links)
    assert set(links) <= set(TERM)
    assert not used("\n".join(prose)) - set(links)
    assert not re.search(r"\d{4}, \*[^*]*glossary\?", "".join(prose)), "a link in a paper's title"


def check_looks(drawn: Any) -> None:
    """Parts with names of their own in one picture look different without their colours too."""
    if drawn.layout.barmode == "overlay":
        return  # each bar has a row of its own, with its name
    looks = {}
    for trace in drawn.data:
        if trace.type == "bar":
            looks[trace.name] = np.atleast_1d(trace.marker.pattern.shape)[0]
        elif trace.type == "scatter" and trace.line.color:
            looks[trace.name] = (trace.line.dash or "solid", trace.marker.symbol or "circle")
    assert len(set(looks.values())) == len(looks), looks


def check_tips(at: AppTest) -> None:
    """Each word of the glossary in what a widget says on hover is linked there.

    In a button's it may be linked elsewhere on the page: the whole button is to be pressed.
    """
    on_page = {key for block in [*at.markdown, *at.caption] for key in linked(block.value)}
    for part in at.main:
        tip = getattr(getattr(part, "proto", None), "help", "")
        links = {*linked(tip), *(on_page if part.type == "button" else ())}
        assert not used(tip) - links, tip


def linked(markdown: str) -> list[str]:
    """The keys of the words that have a link, in order."""
    return re.findall(r"\]\(glossary\?term=([a-z-]+)", markdown)


@cache
def used(markdown: str) -> set[str]:
    """The keys of the words that are used in prose, by their plain names."""
    left, result = re.sub(NOT_PROSE, " ", plain(markdown), flags=re.M), set()
    for term in sorted(TERMS, key=lambda term: -len(term.name)):
        left, n = re.subn(rf"(?<![\w-]){term.name}s?(?![\w-])", " ", left, flags=re.I)
        result |= {term.key} if n else set()
    return result


def check_code(at: AppTest, page: str) -> None:
    """All code shown for the pictures is in the package, letter by letter."""
    shown = at.session_state["_shown"]
    if page != "textbook":  # a chapter shows its code between the pictures
        for name, entry in shown.entries.items():
            drawn = entry.picture is not None and not isinstance(entry.picture, Lines)
            assert entry.explained or not drawn, name
    blocks = [block.value for block in at.code if block.language == "python"]
    assert blocks or not shown.pictures
    for block in blocks:
        if block.startswith('"""GPT-2 in short classes'):  # the reader's own file, which is run
            continue
        ast.parse(block)  # squeezed below, it would be the package's with its indents lost, too
        lines = [line for line in block.splitlines() if line.strip() != MARK]
        result = squeezed("\n".join(lines))
        assert any(result in source for source in SOURCE), block

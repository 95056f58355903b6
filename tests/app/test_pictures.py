"""Each picture has a text alternative, a table and its code; glossary words are linked."""

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
from gpt2viz.run.provenance import MARK
from tests.app.cases import each
from tests.app.pages import ROOT, VIEWS, header_of, open_page, pictures, plain
from tests.pictures import samples

#: Addresses that together show every picture.
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
#: Headings, code, formulas, table rows, quotations, titles of papers, other senses of a word, and
#: the name of the strip of tokens.
NOT_PROSE = r"^(#|\|).*|`.*?`|\$.*?\$|“.*?”|\d{4}, \*[^*]+\*|^From the texts' own.*"
NOT_PROSE += r"|linear layers?|this run's value|^[\d,]+ tokens?$"


def strip_indents(text: str) -> str:
    """Remove the indentation of lines, as listings are shown dedented."""
    return re.sub(r"(?m)^\s+", "", text).strip()


#: Pictures on Find may be of repeated random tokens instead of the sentence.
OF_THE_PROBE = r"Weights of (head \d|the heads that rank highest)"
#: Pictures of one head on the sentence or on the second one.
OF_ONE_HEAD = {"one_head", "why_weights", "layers_chart", "strip_chart", "weights_a", "weights_b"}
OF_ONE_HEAD |= {"chosen_head", "both_sides", "real_head", "real_mask", "why_look", "why_read"}
OF_ONE_HEAD |= {f"stage_{key}" for key in ("scores", "scaled_scores", "masked_scores", "weights")}
FILES = [path for kind in ("*.py", "book/*.md") for path in (ROOT / "gpt2viz").rglob(kind)]
SOURCE = [strip_indents(path.read_text(encoding="utf-8")) for path in FILES]
#: The source also with blanks for the gaps that a reader fills.
SOURCE += [re.sub(r'self\.gap\("\w+"[^)]*\)', "______", text) for text in SOURCE if "gap(" in text]


@each(("page", "view"), SHOWN)
def test_every_picture_has_alt_text_table_and_code(page: str, view: dict[str, str]) -> None:
    at = open_page(page, text="the cat saw the cat", layer="1", head="2", **view)
    assert view.items() <= at.query_params.items()  # otherwise it is the page's default state
    check_page(page, view, at)


def check_page(page: str, view: dict[str, str], at: AppTest) -> None:
    """Check all pictures of a page; ``test_textbook`` does so for each chapter."""
    shown = at.session_state["_shown"]
    drawn = pictures(at)  # a lens has two: its matrix and its curves
    curve_keys = {f"{key}_curves" for key in drawn}
    alts = [alt for key, alt in drawn.items() if key not in curve_keys]
    joined_alts = checkpoint_alts(at)
    frames = frame_alts(at)
    single_names = [
        name
        for name in shown.pictures
        if f"{name}. " not in joined_alts and name.partition(", step ")[0] not in frames
    ]
    for alt, name in zip(sorted(alts), sorted(single_names), strict=True):
        check_alt(page.partition("?")[0], alt, name)
    check_words(at)
    check_code(at, page)
    check_tips(at)
    check_why_links(at, page, view)
    for name, picture in shown.pictures.items():
        # (some frames have only the positions of blocks)
        assert len(picture.table()) or name.partition(", step ")[0] in frames, name
        if isinstance(picture, Bars | Curves | Lens | Points):
            check_looks(samples.drawn(picture, LIGHT))
        for panel in getattr(picture, "panels", ()):
            assert not isinstance(panel.values.base, np.ndarray), name  # the run's array


def check_why_links(at: AppTest, page: str, view: dict[str, str]) -> None:
    """Only cells of one head between two tokens link to "why there?"."""
    many = "compare" in view or view.get("words") == "true"
    for part in (p.proto for p in at.get("bidi_component") if p.proto.bytes):
        key, header = part.id.split("-")[-1], header_of(part.bytes)
        of_the_sentence = page not in ("find", "find?find=habit")
        of_a_head = key in OF_ONE_HEAD or (key == "best_heads" and of_the_sentence)
        if "asks" in header:
            assert header["asks"] == [of_a_head and not many] * len(header["panels"]), key
            of_lines = header.get("head", {}).get("picture") == "lines"  # with a text of their own
            assert ("ask why" in header["alt"]) == (any(header["asks"]) and not of_lines)


def checkpoint_alts(at: AppTest) -> str:
    """The text alternatives of a training's checkpoints, joined."""
    parts = (p.proto for p in at.get("bidi_component") if p.proto.id.endswith("-steps"))
    return " ".join(json.loads(part.json)["alt"] for part in parts)


def frame_alts(at: AppTest) -> set[str]:
    """The text alternatives of played frames; each also has a caption."""
    parts = (p.proto for p in at.get("bidi_component") if p.proto.id.endswith("_player"))
    return {json.loads(part.json)["alt"] for part in parts}


def check_alt(page: str, alt: str, name: str) -> None:
    """A text alternative states the picture, something about its numbers, and the text read."""
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
    """Each glossary word in the page's prose is linked to its entry once."""
    texts = [block.value for block in [*at.markdown, *at.caption]]
    explained = {f"**: {term.meaning}" for term in TERMS}  # the list in the menu
    prose = [text for text in texts if not any(map(text.endswith, explained))]
    cards = [box for box in at.expander if box.label.startswith("The model's card")]
    for card in cards:  # shown as its authors wrote it
        prose.remove(card.markdown[0].value)
    links = linked_terms("\n".join(prose))
    assert not re.search(r"\d0*e[+-]00", "".join(prose)), "a 0 or a 1 written as a power"
    assert sorted(set(links)) == sorted(links)
    assert set(links) <= set(TERM)
    assert not used_terms("\n".join(prose)) - set(links)
    assert not re.search(r"\d{4}, \*[^*]*glossary\?", "".join(prose)), "a link in a paper's title"


def check_looks(drawn: Any) -> None:
    """Named series of one picture also differ without their colours."""
    if drawn.layout.barmode == "overlay":
        return  # each bar has a row of its own, with its name
    styles = {}
    for trace in drawn.data:
        if trace.type == "bar":
            styles[trace.name] = np.atleast_1d(trace.marker.pattern.shape)[0]
        elif trace.type == "scatter" and trace.line.color:
            styles[trace.name] = (trace.line.dash or "solid", trace.marker.symbol or "circle")
    assert len(set(styles.values())) == len(styles), styles


def check_tips(at: AppTest) -> None:
    """Each glossary word in a widget's tooltip is linked there.

    For a button's it may be linked elsewhere on the page, as the whole button is clickable.
    """
    on_page = {key for block in [*at.markdown, *at.caption] for key in linked_terms(block.value)}
    for part in at.main:
        tip = getattr(getattr(part, "proto", None), "help", "")
        links = {*linked_terms(tip), *(on_page if part.type == "button" else ())}
        assert not used_terms(tip) - links, tip


def linked_terms(markdown: str) -> list[str]:
    """The keys of the linked words, in order."""
    return re.findall(r"\]\(glossary\?term=([a-z-]+)", markdown)


@cache
def used_terms(markdown: str) -> set[str]:
    """The keys of the words used in prose."""
    remaining, result = re.sub(NOT_PROSE, " ", plain(markdown), flags=re.M), set()
    for term in sorted(TERMS, key=lambda term: -len(term.name)):
        remaining, n = re.subn(rf"(?<![\w-]){term.name}s?(?![\w-])", " ", remaining, flags=re.I)
        result |= {term.key} if n else set()
    return result


def check_code(at: AppTest, page: str) -> None:
    """All code shown for the pictures is in the package, character by character."""
    shown = at.session_state["_shown"]
    if page != "textbook":  # a chapter shows its code between the pictures
        for name, entry in shown.entries.items():
            drawn = entry.picture is not None and not isinstance(entry.picture, Lines)
            assert entry.explained or not drawn, name
    blocks = [block.value for block in at.code if block.language == "python"]
    assert blocks or not shown.pictures
    for block in blocks:
        if block.startswith('"""GPT-2 in short classes'):  # the reader's own file
            continue
        ast.parse(block)  # comparing without indents would miss lost ones
        lines = [line for line in block.splitlines() if line.strip() != MARK]
        result = strip_indents("\n".join(lines))
        assert any(result in source for source in SOURCE), block

"""Each picture in words, as a table and with the code of its numbers; each word explained."""

from __future__ import annotations

import json
import re

import pytest
from streamlit.testing.v1 import AppTest

from gpt2viz.export import figure_table
from gpt2viz.glossary import TERM, TERMS
from gpt2viz.provenance import MARK
from gpt2viz.ui.textbook.contents import CHAPTERS
from tests.app.pages import PAGES, ROOT, open_page, plain

#: Addresses that together show every picture of the pages.
VIEWS = [(page, {}) for page in PAGES]
VIEWS += [("find", {"find": way, "keys": "1"}) for way in ("look", "pattern", "head", "all")]
VIEWS += [("two", {"differs": what}) for what in ("head", "mask", "edits")]
VIEWS += [("whatif", {"edits": "off:0.1"}), ("training", {"score": "first token"})]
VIEWS += [("attention", {"show": measure}) for measure in ("rest", "norms")]
VIEWS += [("compare", {"compare": "rollout", "picture": "lines"})]
VIEWS += [("compare", {"compare": "2", "words": "true"})]
VIEWS += [(page, {"picture": "lines"}) for page in ("attention", "inside", "mask", "whatif")]
VIEWS += [(page, {"picture": "lines"}) for page in ("two", "find")]
VIEWS += [("textbook", {"chapter": name}) for name in CHAPTERS]
VIEWS += [("models", {"part": name}) for name in ("parameters", "tokenizer", "positions", "cost")]
#: Pages whose pictures belong to the model or to a text's example, and those of heads.
OF_THE_MODEL = ("training", "models", "textbook")
OF_HEADS = ("attention", "inside", "compare", "mask", "whatif", "two")
#: Neither headings nor code, formulas, table rows, quotations, names of papers, other senses.
NOT_PROSE = r"^(#|\|).*|`.*?`|\$.*?\$|“.*?”|^From the texts' own.*|linear layers?|this run's value"


def squeezed(text: str) -> str:
    """Without the space at the start of lines: what is shown is moved to the left."""
    return re.sub(r"(?m)^\s+", "", text).strip()


SOURCE = [squeezed(path.read_text(encoding="utf-8")) for path in (ROOT / "gpt2viz").rglob("*.py")]


def pictures(at: AppTest) -> list[str]:
    """The text alternative of every chart on the page."""
    return [chart.proto.alt for chart in at.get("plotly_chart")]


@pytest.mark.parametrize(("page", "view"), VIEWS, ids=str)
def test_every_picture_has_words_a_table_and_code(page: str, view: dict[str, str]) -> None:
    at = open_page(page, text="the cat saw the cat", layer="1", head="2", **view)
    assert view.items() <= at.query_params.items()  # else it is the page's first state
    shown = at.session_state["_shown"]
    alts = pictures(at)
    assert len(alts) == len(shown.pictures)
    for alt, name in zip(sorted(alts), sorted(shown.pictures), strict=True):
        check_alt(page, alt, name)
    check_words(at)
    check_code(at, page)
    for name, drawn in shown.pictures.items():
        assert len(figure_table(drawn)), name
    for name, numbers in shown.numbers.items():
        assert {"query", "key", "value"} < set(numbers.columns), name


def check_alt(page: str, alt: str, name: str) -> None:
    """A text alternative names the picture, something in its numbers, and what was read."""
    assert alt.startswith(f"{re.sub(r' [(][0-9]+[)]$', '', name)}. ")
    assert re.search(r"largest -?\d|highest -?\d|from -?\d|[aA]ll are 0|\d curves", alt), alt
    if page not in OF_THE_MODEL:
        read = r"Sentence of 5 tokens\b|Sentences of 4 and 5 tokens\b"
        assert re.search(read, alt) or "heads with most" in alt, alt
    if page in OF_HEADS:
        part = (
            r"layers? \d|(of|in|:) (all|every) (heads?|layer)|[Tt]oken|Next|[Ee]very head|may see"
        )
        assert re.search(part, name), name


def check_words(at: AppTest) -> None:
    """Each word of the glossary in the page's prose is linked to its entry there, once."""
    said = [block.value for block in [*at.markdown, *at.caption]]
    explained = {f"**: {term.meaning}" for term in TERMS}  # the menu's own list of them
    prose = [text for text in said if not any(map(text.endswith, explained))]
    cards = [box for box in at.expander if box.label.startswith("The model's card")]
    for card in cards:  # shown as its makers wrote it
        prose.remove(card.markdown[0].value)
    linked = re.findall(r"\]\(glossary\?term=([a-z-]+)", "\n".join(prose))
    assert sorted(set(linked)) == sorted(linked)
    assert set(linked) <= set(TERM)
    left = re.sub(NOT_PROSE, " ", plain("\n".join(prose)), flags=re.M)
    for term in sorted(TERMS, key=lambda term: -len(term.name)):
        left, n = re.subn(rf"(?<![\w-]){term.name}s?(?![\w-])", " ", left, flags=re.I)
        assert not n or term.key in linked, f"{term.name}: no link"


def check_code(at: AppTest, page: str) -> None:
    """What is shown as the code of the pictures is in the package, letter by letter."""
    shown = at.session_state["_shown"]
    if page != "textbook":  # a chapter shows its code between the pictures
        assert set(shown.pictures) - shown.explained == set()
    blocks = [block.value for block in at.code if block.language == "python"]
    assert blocks or (page != "textbook" and not shown.pictures)
    for block in blocks:
        lines = [line for line in block.splitlines() if line.strip() != MARK]
        assert any(squeezed("\n".join(lines)) in source for source in SOURCE), block


def test_lines_have_words_and_a_table_too() -> None:
    at = open_page("attention", text="Dog bites man", picture="lines", layer="1", head="2")
    ((name, numbers),) = at.session_state["_shown"].numbers.items()
    assert name == "Attention weights of layer 1, head 2, as lines"
    (drawn,) = [
        part.proto.json for part in at.get("bidi_component") if "sources" in part.proto.json
    ]
    alt = json.loads(drawn)["alt"]
    assert alt.startswith(f"{name}. 3 × 3, largest 0.")
    assert "Sentence of 3 tokens, causal mask on." in alt
    assert numbers.iloc[0].to_dict() == {
        "picture": "Head 2",
        "query": "0 Dog",
        "key": "0 Dog",
        "value": pytest.approx(1),
    }

"""A first visit: the statements of the tour, the examples and the glossary are true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from markdown_it import MarkdownIt
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz import settings
from gpt2viz.app import pages, parameters, prose
from gpt2viz.app.frame.examples import EXAMPLES, FIRST, Example, is_offered
from gpt2viz.app.frame.tour import AFTER, BACK, COPY, LAST, STEPS, TEXT
from gpt2viz.app.literal import literal
from gpt2viz.app.terms import SPELLED, TERM, TERMS, find_terms
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.cases import each
from tests.app.pages import ROOT, chips, open_page, page_text, plain
from tests.app.test_frame import saved_session
from tests.bundled import N_LAYER, bundled_model, ids_of, weights
from tests.docs.examples import keeps_promise, row_of
from tests.llama_checkpoints import write_llama


def bar(at: AppTest) -> str:
    (result,) = [block.value for block in at.markdown if f" of {len(STEPS)}]" in block.value]
    return plain(str(result))


def buttons(at: AppTest) -> dict[str, Any]:
    return {button.label: button for button in at.button}


def destinations(at: AppTest) -> set[str]:
    """The labels of the page's buttons and links."""
    return set(buttons(at)) | {link.proto.label for link in at.get("page_link")}


@each("n", range(1, len(STEPS) + 1))
def test_tour_step_sets_the_state_of_the_app(n: int) -> None:
    step = STEPS[n - 1]
    expected = {parameter.name: str(value) for parameter, value in step.parameters.items()}
    at = open_page(step.page.name, tour=str(n), text=TEXT, **expected)
    assert step.see in bar(at)
    assert not at.warning
    assert {name: at.query_params[name] for name in expected} == expected
    leave = "Leave the tour" if n < len(STEPS) else "End the tour"
    on = [label for label in ("Back", "Next") if label in destinations(at)]
    assert on == (["Next"] if n == 1 else ["Back"] if n == len(STEPS) else ["Back", "Next"])
    buttons(at)[leave].click().run()
    assert not {"tour", "text", *expected} & set(at.query_params)
    assert step.see not in plain("".join(block.value for block in at.markdown))


def test_step_on_the_same_page_changes_the_address() -> None:
    at = open_page("attention", causal="false", query="1")
    buttons(at)["Take the tour"].click().run()
    assert STEPS[0].see in bar(at)
    buttons(at)["Next"].click().run()
    assert STEPS[1].see in bar(at)
    assert at.query_params["tour"] == "2"
    assert (at.query_params["layer"], at.query_params["query"]) == (str(COPY[0]), str(LAST))
    assert at.toggle(key="causal").value is True


def test_leaving_the_tour_restores_earlier_choices() -> None:
    choices = {"text": "Tom saw Anna. Anna saw Tom.", "layer": "3", "query": "2", "causal": "false"}
    at = open_page("attention", **choices)
    buttons(at)["Take the tour"].click().run()
    buttons(at)["Next"].click().run()
    buttons(at)["Leave the tour"].click().run()
    assert at.query_params == choices
    assert at.text_input(key="text").value == choices["text"]
    assert at.toggle(key="causal").value is False

    buttons(at)["Take the tour"].click().run()
    at.toggle(key="causal").set_value(False).run()
    at.text_input(key="text").set_value("Hi there").run()
    buttons(at)["Leave the tour"].click().run()
    assert at.query_params == {"text": "Hi there", "causal": "false"}, "chosen during the tour"

    long = "A crane " * 300  # too long for a link
    at = open_page("attention")
    at.text_input(key="text").set_value(long).run()
    buttons(at)["Take the tour"].click().run()
    buttons(at)["Leave the tour"].click().run()
    assert at.session_state["text"] == long


def test_tour_uses_the_bundled_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(write_llama(tmp_path / "of_the_owner")))
    at = open_page("attention", text="the cat")
    assert at.selectbox(key="model").value == "of_the_owner", "the owner's comes first"
    buttons(at)["Take the tour"].click().run()
    assert at.selectbox(key="model").value == BUNDLED.name
    buttons(at)["Leave the tour"].click().run()
    assert at.selectbox(key="model").value == "of_the_owner"


def test_tour_is_offered_and_has_at_most_six_steps() -> None:
    assert len(STEPS) <= 6
    assert "Take the tour" in destinations(open_page("attention"))
    assert "Take the tour" in destinations(open_page("shapes"))
    labels = destinations(open_page("shapes", tour="3"))
    assert "Take the tour" not in labels
    assert "Back to Head" in labels
    at = open_page("attention", tour="7")  # a step that doesn't exist
    assert any("tour" in warning.value for warning in at.warning)
    assert "Take the tour" in buttons(at)


def test_heads_behave_as_the_tour_says() -> None:
    tokenizer = bundled_model().tokenizer
    words = [tokenizer.token_bytes(token).decode() for token in ids_of(TEXT)]
    assert (words[2], words[AFTER], words[LAST]) == (" sat", " on", " sat")
    assert (np.diagonal(weights(TEXT)[BACK], -1) > 0.9).all()
    assert weights(TEXT)[COPY][LAST].argmax() == AFTER
    free = weights(TEXT, causal=False)[COPY][2]
    assert free.argmax() == AFTER == 3
    assert free[AFTER] > 0.5


def test_copying_fails_without_the_previous_token_head() -> None:
    model = bundled_model()
    ids = model.tokenizer.encode(TEXT)
    (on,) = model.tokenizer.encode(" on")
    edits = STEPS[-1].parameters[parameters.EDITS]
    baseline, changed = (
        gpt2viz.trace(model, ids, edits=gpt2viz.parse_edits(spelled))
        for spelled in ("", str(edits))
    )
    assert baseline.next_token_probabilities[0].argmax() == on
    assert changed.next_token_probabilities[0].argmax() != on
    assert changed.stage("weights", COPY[0])[0, COPY[1], LAST].argmax() != AFTER


def test_every_page_has_known_glossary_words() -> None:
    for page in pages.PAGES:
        keys = page.words.split()
        assert keys or page is pages.GLOSSARY
        assert set(keys) <= set(TERM)
        assert len(keys) == len(set(keys))


def test_words_panel_has_the_pages_words_first() -> None:
    at = open_page("predict")
    at.session_state["words_panel"] = True
    at.run()
    (here,) = [plain(b.value) for b in at.markdown if b.value.startswith(":small[:gray[On this")]
    (others,) = [plain(b.value) for b in at.markdown if b.value.startswith(":small[:gray[All")]
    written = {term: f"**{term.name}**: {term.meaning}" for term in TERMS}
    of_the_page = {TERM[key] for key in pages.PREDICT.words.split()}
    assert all((text in here) == (term in of_the_page) for term, text in written.items())
    assert all((text in others) != (term in of_the_page) for term, text in written.items())
    at.text_input(key="words_find").set_value("temperature").run()
    assert TERM["softmax"].meaning not in " ".join(plain(block.value) for block in at.markdown)


def test_glossary_has_every_word_and_a_link_puts_one_first() -> None:
    at = open_page("glossary", term="logit-lens")
    shown = "\n".join(block.value for block in at.markdown)
    assert all(shown.count(f"**{term.name}**  \n") == 1 for term in TERMS)
    first = next(block.value for block in at.markdown if block.value.startswith("**Logit lens"))
    assert TERM["logit-lens"].meaning in first
    at.text_input(key="find_word").set_value("temperature").run()
    names = [block.value for block in at.markdown if "  \n" in block.value]
    assert len(names) == 2  # the linked one and the searched one
    at.text_input(key="find_word").set_value("zebra").run()
    assert at.info


HOSTILE = ") [x](javascript:canary=1) <b> \"'$ `_* :red[r] \\\n# h &term=head#"


def test_word_links_to_its_entry_with_all_parameters() -> None:
    at = open_page("attention", {HOSTILE: HOSTILE}, text=HOSTILE, layer="1")
    first = ("Where does each word look", "Each square is one")
    text = " ".join(b.value for b in at.markdown if any(words in b.value for words in first))
    links = [
        token.attrs
        for token in MarkdownIt("commonmark").parse(text)[1].children or ()
        if token.type == "link_open"
    ]
    keys = ("attention", "head", "token", "query", "key")
    for link, key in zip(links, keys, strict=True):
        page, query = str(link["href"]).split("?")
        assert page == "glossary"
        assert dict(parse_qsl(query)) == {
            "term": key,
            "text": HOSTILE,
            "layer": "1",
            HOSTILE: HOSTILE,
        }
        assert link["title"] == TERM[key].meaning
    linked = dict(parse_qsl(query))
    at = open_page("glossary", {HOSTILE: linked.pop(HOSTILE)}, **linked)
    assert at.selectbox(key="term").value == "key"
    menu = [link.proto.query_string for link in at.get("page_link")]
    texts = [dict(parse_qsl(requested))["text"] for requested in menu]
    assert texts.count(HOSTILE) == len(texts) - 1  # all but the tour
    assert texts.count(TEXT) == 1


@each(
    ("text", "linked"),
    [
        ("A head. Two heads.", "A [head]. Two heads."),
        ("Heads’ queries; KEYS", "[Heads]’ [queries]; [KEYS]"),
        ("next-token, tokenizer, `token`, “token” $token$", None),
        ("#### A token\n|token|\ntoken", "#### A token\n|token|\n[token]"),
        ("[token](x) :material/key: \\token", None),
        ("Attention weights, not attention", "[Attention weights], not [attention]"),
        ("top-p, then top-k", "[top-p], then top-k"),
        ("\u2068token\u2069", None),
        ("5 % of it", "5\u00a0% of it"),
    ],
)
def test_first_use_of_a_word_is_a_link(text: str, linked: str | None) -> None:
    prose.begin()
    result = prose.link_terms(text)
    assert re.sub(r'\]\(glossary\?term=[a-z-]+ "[^"]+"\)', "]", result) == (linked or text)


def test_words_of_the_sentence_are_not_linked() -> None:
    """Nor are its tokens, on any page; see ``test_behaviour``."""
    prose.begin()
    for spelling in SPELLED:
        for text in (spelling, f"a {spelling.title()}!", f"{spelling} {spelling}"):
            shown = prose.link_terms(literal(text))
            (paragraph,) = MarkdownIt().parse(shown)[1:2]
            assert "".join(part.content for part in paragraph.children or ()) == text


EXAMPLE_LINE = re.compile(
    r"Look at \*\*head (?P<layer>\d+)\.(?P<head>\d+)\*\* from “(?P<asks>\S+)” \((?P<at>\d+)\): "
    r"it (?P<shows>.+?)\."
)


def choose(example: Example, **chosen: str) -> AppTest:
    at = open_page("attention", **chosen)
    at.session_state["examples"] = True
    at.run()
    at.button(key=f"example_{example.name}").click().run()
    assert not at.exception
    return at


def line(at: AppTest) -> re.Match[str] | None:
    text = (EXAMPLE_LINE.search(plain(block.value)) for block in at.caption)
    return next(filter(None, text), None)


@each("example", EXAMPLES)
def test_example_is_offered_if_it_holds_and_its_line_is_true(example: Example) -> None:
    """If an earlier example is no longer offered: python -m tests.docs.examples"""
    holds = keeps_promise(example)
    assert is_offered(example, BUNDLED.name) == holds
    assert holds or example.answer
    if example is FIRST or not holds:
        return
    at = choose(example)
    assert at.text_input(key="text").value == example.text
    result = line(at)
    assert result
    assert result["shows"] == example.shows
    head, row = row_of(example)
    query = int(at.query_params["query"])
    assert (result["layer"], result["head"]) == tuple(map(str, head))
    assert (at.query_params["layer"], at.query_params["head"]) == tuple(map(str, head))
    assert query == row.query == int(result["at"])
    assert row.tokens[query].strip() == example.word == result["asks"].strip("·")


def test_first_visit_opens_the_copying_head() -> None:
    head, row = row_of(FIRST)
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    assert at.text_input(key="text").value == FIRST.text == TEXT
    assert (at.session_state["layer"], at.session_state["head"]) == head
    assert chips(at)["chosen"] == row.query == len(row.tokens) - 1
    assert (chips(at)["layer"], chips(at)["head"]) == head, "whose arcs are drawn"
    assert not line(at), "the arcs show it"
    assert not at.query_params, "nothing was chosen"
    opened = zip(("layer", "head", "query"), map(str, (*head, row.query)), strict=True)
    expected = {"text": TEXT, "model": BUNDLED.name} | dict(opened)
    assert saved_session(at) == expected, (
        "a link names the sentence, and so the opening head and token too"
    )
    at.text_input(key="text").set_value("The cat sat").run()
    assert chips(at)["chosen"] is None
    assert (at.session_state["layer"], at.session_state["head"]) == head
    assert chips(open_page("attention", text=TEXT))["chosen"] is None, "the sentence was chosen"


def test_absence_of_examples_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt2viz.app.frame.examples.is_offered", lambda *_: False)
    at = open_page("attention")
    at.session_state["examples"] = True
    assert "None of the examples" in page_text(at.run())


def test_line_of_an_example_stays_with_its_sentence() -> None:
    params = choose(EXAMPLES[2]).query_params
    chosen = {name: str(params[name]) for name in ("text", "layer", "head", "query")}
    assert line(open_page("attention", **chosen))
    assert not line(open_page("head", **chosen)), "whose first screen has no room for it"
    other = str((int(chosen["layer"]) + 1) % N_LAYER)
    assert line(open_page("attention", **chosen | {"layer": other}))
    assert not line(open_page("attention", **chosen | {"text": "Man bites dog"}))


def test_example_works_with_a_first_token() -> None:
    at = choose(EXAMPLES[0], bos="true")
    result = line(at)
    assert result
    assert at.query_params["query"] == "4"
    assert result["asks"] == "·fish"


def test_glossary_is_alphabetical_without_duplicates() -> None:
    assert len(TERM) == len(TERMS) > 40
    names = [term.name.casefold() for term in TERMS]
    assert names == sorted(names)


def test_words_are_found_by_name_and_meaning() -> None:
    assert [term.key for term in find_terms("KL div")] == ["kl-divergence"]
    assert "attention-sink" in {term.key for term in find_terms(" First ")}
    assert find_terms("") == TERMS
    assert find_terms("zebra") == ()

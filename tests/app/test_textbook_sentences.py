"""Sentences of the Textbook as they stand on the page, held against what they speak of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block

import gpt2viz
from gpt2viz.app.course.contents import APPENDIX, CHAPTERS
from gpt2viz.textbook import norms, scale
from gpt2viz.textbook.claims import TEXTS
from gpt2viz.textbook.examples import EXAMPLES
from gpt2viz.training.recipe import Recipe
from tests.app.pages import ROOT, array, figure, heatmaps, open_page, plain
from tests.app.reading_level import grade, sentences, syllables
from tests.textbook.oracle import hidden, orders, softmax


@cache
def chapter(name: str) -> AppTest:
    """A chapter that shows all: its questions are answered, and no row is left to predict."""
    at = open_page("textbook", chapter=name)
    at.session_state["_progress"] = {name: list(CHAPTERS[name].questions)}
    at.session_state["_progress_guesses"] = {CHAPTERS[name].predicted: []}
    at.run()
    assert not at.exception
    return at


def said(at: AppTest) -> str:
    """All that a page writes, questions, hints and tables of claims too, without links."""
    elements = [*at.markdown, *at.caption, *at.subheader, *at.header]
    return plain("\n".join(element.value for element in elements))


def drawn(at: AppTest, key: str) -> dict[str, np.ndarray]:
    return heatmaps(figure(at, key))


@pytest.mark.parametrize("name", CHAPTERS)
def test_texts_are_named_in_one_place_and_nowhere_by_a_number(name: str) -> None:
    at = chapter(name)
    text = said(at).replace("\\", "")
    assert not re.search(r"\(00\d\)|\btexts? 00\d", text)
    for n, source in TEXTS.items():
        assert text.count(source.title) == (name == APPENDIX)
        assert not source.author or name == APPENDIX or source.author.split()[-1] not in text
        if name == APPENDIX:
            line = next(line for line in text.splitlines() if source.title in line)
            ids = [id for id, example in EXAMPLES.items() if n in example.texts]
            assert line.rpartition(": ")[2] == ", ".join(ids)
            assert source.author in line
            assert source.after in line


#: Words that tell that learned numbers are meant, or numbers of a random network.
_LEARNED = re.compile(
    r"learned|train|drawn|draws the|random|million|bias|\bown\b|seed|table"
    r"|without weights|number of",
    re.I,
)


@pytest.mark.parametrize("name", CHAPTERS)
def test_weights_are_those_of_softmax(name: str) -> None:
    """What is learned is called a parameter or a table, but for the name "weight tying"."""
    for sentence in re.split(r"(?<=[.:?])\s|\n", said(chapter(name))):
        meant = re.sub(r"(?i)weight tying|attention weights", "", sentence)
        assert not (re.search(r"\bweights?\b", meant, re.I) and _LEARNED.search(meant)), sentence


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("on", [False, True])
def test_orders_with_and_without_places_and_mask(on: bool, causal: bool) -> None:
    at = open_page(
        "textbook", chapter="mask", order_on=str(on).lower(), order_mask=str(causal).lower()
    )
    places = np.array([[0.3, 0.0], [0.0, 0.3], [-0.3, 0.0]]) * on
    gap = orders(places, causal)
    assert f"between the two sentences, rounded: **{gap:.4f}**" in said(at)
    words = np.array([[0.9, 0.1], [0.1, 0.8], [0.7, 0.3]])
    for title, order in (("crane ate fish", [0, 1, 2]), ("fish ate crane", [2, 1, 0])):
        x = words[order] + places
        scores = x @ x.T / np.sqrt(2)
        mixed = softmax(hidden(scores) if causal else scores) @ x
        assert_allclose(drawn(at, "order")[title], mixed[order], atol=1e-6)


def test_order_is_told_by_the_mask_too() -> None:
    text = said(chapter("mask"))
    assert "Haviv et al. 2022" in text
    assert "would be the same to the model" not in text


def test_the_heads_that_were_nudged_are_told_of() -> None:
    nudge = next(one for one in Recipe().nudges if one.toward == "previous token")
    last = Recipe().nudges[-1]
    told = said(chapter("heads"))
    assert "At the start one learned to look one token back; near the end one" in told
    assert "rest on the first. From then on they were left to themselves" in told
    assert nudge.start == 0
    assert last.toward == "first token"
    assert last.start > 0.9 * Recipe().steps
    guide = " ".join((ROOT / "docs" / "teachers.md").read_text(encoding="utf-8").split())
    assert f"the first {nudge.steps} of {Recipe().steps:,} steps of its training" in guide


@pytest.mark.parametrize("text", ["A", "A crane", "A crane ate fish", "the bank " * 20])
def test_a_text_has_a_lesson_for_each_token_that_is_followed_by_one(text: str) -> None:
    n = len(gpt2viz.load_model().tokenizer.encode(text.strip()))
    at = open_page("textbook", chapter="next-word", text=text.strip())
    told = f"{n - 1} {'lesson' if n == 2 else 'lessons'} from one text"
    assert (told if n > 1 else "a single token teaches nothing") in said(at)


def test_the_first_token_is_a_sink_because_all_later_ones_see_it() -> None:
    at = open_page("textbook", chapter="mask", mask_scores=f"5,{','.join(['0.5'] * 15)}")
    text = said(at)  # the question is answered, so its reason stands there
    assert "token 0 is the only one that all later tokens can see" in text
    assert "Xiao et al. 2023" in text
    assert "nobody else to look at" not in text


@pytest.mark.parametrize("hs", [32, 64, 128])
def test_sharpness_is_shown_as_a_mean_with_its_spread(hs: int) -> None:
    at = open_page("textbook", chapter="by-hand", hs=str(hs))
    scores = scale.random_scores(hs).double().numpy()
    weights = [-np.sort(-softmax(scores / divisor), axis=1) for divisor in (1, np.sqrt(hs))]
    (picture,) = drawn(at, "sharpness").values()
    assert_allclose(picture, [found.mean(axis=0) for found in weights], atol=1e-5)
    told = [
        f"**{found[:, 0].mean():.2f}** ({low:.2f} to {high:.2f})"
        for found in weights
        for low, high in [np.quantile(found[:, 0], [0.1, 0.9])]
    ]
    assert f"Unscaled {told[0]}, divided by √hs {told[1]}" in said(at)
    assert f"mean weights of eight random keys, {scale.DRAWS} draws" in next(
        iter(drawn(at, "sharpness"))
    )


def test_the_picture_of_the_two_orders_is_of_gradients() -> None:
    at = chapter("residual")
    curves = {line["name"]: line["y"] for line in figure(at, "norm_order")["data"]}
    for order in ("pre-norm", "post-norm"):
        assert_allclose(array(curves[order]), norms.gradients(order, 24, straight=True))
    text = said(at)
    in_all = [norms.gradients(order, 24)[0] for order in ("pre-norm", "post-norm")]
    left = norms.gradients("post-norm", 24, straight=True)[0]
    assert f"after 24 parts **{left:.4f}** of the gradient is left" in text
    assert f"{in_all[0]:.1f} times the end's gradient arrives with pre-norm" in text
    assert f"With post-norm it is {in_all[1]:.1f} times" in text
    assert f"here to size {norms.stacked('pre-norm', 24)[-1]:.1f}" in text
    assert "Xiong et al. 2020" in " ".join(text.split())


def test_a_random_network_is_called_one() -> None:
    text = said(chapter("residual"))
    assert "Measured on an untrained GPT-2 with random parameters" in text
    assert "this project's model" not in text


def test_the_score_is_no_cosine() -> None:
    text = said(chapter("by-hand"))
    assert "how far two vectors point the same way" not in text
    assert "and the longer they are" in text


_INPUTS = {"selectbox", "toggle", "checkbox", "button_group", "bidi_component", "radio"}


def inside(block: Block) -> Iterator[object]:
    """All elements of a page in the order in which they stand there."""
    for child in block.children.values():
        if isinstance(child, Block):
            yield from inside(child)
        else:
            yield child


def test_most_examples_have_numbers_to_change() -> None:
    """As the README says: something to set stands between an example's title and the next one."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "Every number can be changed" not in readme
    assert "Most examples have numbers to change" in readme
    changed, example = set(), ""
    for name in CHAPTERS:
        for element in inside(chapter(name).main):
            kind = str(getattr(element, "type", ""))
            if kind == "subheader":
                found = re.search(r"\[(E\d+)\]", element.value)  # type: ignore[attr-defined]
                example = found[1] if found else ""
            elif example and kind in _INPUTS:
                changed.add(example)
    assert {"E3", "E4", "E5", "E7", "E9", "E10", "E11", "E19", "E20"} <= changed
    assert len(EXAMPLES) / 2 < len(changed) < len(EXAMPLES)


def test_the_guide_for_teachers_says_what_mathematics_is_needed() -> None:
    guide = " ".join(Path(ROOT, "docs", "teachers.md").read_text(encoding="utf-8").split())
    assert "no mathematics beyond percentages except in the part *By hand*" in guide
    assert "a calculator that has eˣ" in guide
    assert guide.count("eˣ") == 2  # there, and where it is needed


#: The school year after which a chapter can be read.
GRADE = 9
#: Words of the longest sentence, and of the longest paragraph: each has one idea.
SENTENCE, PARAGRAPH = 30, 60


@cache
def prose(name: str) -> dict[str, list[str]]:
    """A chapter's running text; and its questions, with their hints and answers.

    Without what is folded away: code, and the tables of claims.
    """
    (column,) = (block for block in chapter(name).columns if block.header)
    found: dict[str, list[str]] = {"text": [], "questions": []}

    def read(block: Block, part: str) -> None:
        for child in block.children.values():
            if not isinstance(child, Block):
                if child.type in ("markdown", "caption"):
                    found[part].append(plain(child.value))
            elif child.type != "expander":
                asks = "-question_" in str(getattr(child.proto, "id", ""))
                read(child, "questions" if asks else part)

    read(column, "text")
    return found


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_is_plain_to_read(name: str) -> None:
    parts = {part: texts for part, texts in prose(name).items() if texts}
    assert list(parts) == (["text"] if name == APPENDIX else ["text", "questions"])
    paragraphs = [part for texts in parts.values() for t in texts for part in t.split("\n\n")]
    hardest = sorted((p for p in paragraphs if sentences(p)), key=lambda p: -grade([p]))[:3]
    assert all(grade(texts) <= GRADE for texts in parts.values()), hardest
    long = [words for p in paragraphs for words in sentences(p) if len(words) > SENTENCE]
    assert long == [], "make two sentences of one"
    assert [p for p in paragraphs if sum(map(len, sentences(p))) > PARAGRAPH] == []


#: A symbol as formulas or prose write it -> the words that explain it in the same chapter.
SYMBOLS = {
    "(B, T)": "B is how many texts are read at once",
    "(B, T, C)": "C how many channels: the numbers of one vector",
    "x_n": "$x_n$ is the vector that goes into attention at position n",
    r"q \cdot K": "**dot product**: multiply number by number, then add",
    r"K^\top": "⊤ turns rows into columns",
    r"\cdot V": "V the values, a row for each word",
    "e^": "e ≈ 2.718",
    r"\text{softmax}": "divides each of these numbers by their sum",
    r"\sum": "Σ adds up over all words",
    "−∞": "later keys are set to **−∞**, minus infinity",
    "W_Q": "They turn each word's vector x into a query, a key and a value",
    "h_s": "how many numbers a query has",
    r"\sqrt{h_s}": r"Dividing by $\sqrt{h_s}$ brings the variance back to 1",
    r"\text{var}": "the mean of their squared distances from their mean",
    "n_h": "$n_h$ heads",
    "W_O": "$W_O$ is the table that mixes them",
    "W x + b": "adds a bias, a number of b",
    "f(x)": "f(x) what a layer works out from it",
    r"\mu": "the mean μ (mu)",
    r"\sigma": "the standard deviation σ (sigma), the root of the variance σ²",
    r"\gamma": "a learned gain γ (gamma)",
    r"\beta": "a learned shift β (beta)",
    r"\varepsilon": "ε (epsilon), a mere 0.00001",
    r"\sqrt{2L}": "L layers",
    r"n_{\text{vocab}}": "that of tokens in the vocabulary",
    r"\ln": "ln is the natural logarithm",
    "p_i": "p the probabilities",
    "z_i": "z are the logits",
    r"\theta": "θ (theta) is how far a pair turns in one step",
    "q_i": "**one part for each writer**",
}


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_a_symbol_is_explained_where_it_first_stands(symbol: str) -> None:
    for name in CHAPTERS:
        told = [text for texts in prose(name).values() for text in texts]
        if any(symbol in text for text in (*told, *(one.value for one in chapter(name).latex))):
            assert any(SYMBOLS[symbol] in text for text in told), name
            return
    raise AssertionError("no chapter has it")


def test_words_and_syllables_are_counted_as_they_are_read_aloud() -> None:
    written = "|a|b|\n[The](glossary?term=x) **cat** sat. `x = 1` is $y^2$: it's 3.5 (Xiao 2023)!"
    assert [" ".join(words) for words in sentences(written)] == ["The cat sat", "is it's"]
    heard = {
        1: "cat scores trained the word's made",
        2: "table layer token being settled likely",
        3: "attention normalised together gradient",
        4: "information activity",
    }
    for n, words in heard.items():
        assert {word: syllables(word) for word in words.split()} == dict.fromkeys(words.split(), n)
    aloud = "Attention mixes words. It looks at everything."  # 7 words, 2 sentences, 13 syllables
    assert grade([aloud]) == pytest.approx(0.39 * 7 / 2 + 11.8 * 13 / 7 - 15.59)
    with pytest.raises(ValueError, match="no words"):
        grade(["$x$"])

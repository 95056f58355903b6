"""The glossary: one entry a word, short, and found by what it says."""

from __future__ import annotations

import re

import pytest

from gpt2viz.app.terms import TERM, TERMS, Term, containing


def test_each_word_stands_once_in_the_order_of_the_alphabet() -> None:
    assert len(TERM) == len(TERMS) > 40
    names = [term.name.casefold() for term in TERMS]
    assert names == sorted(names)


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.key)
def test_an_entry_is_one_or_two_sentences(term: Term) -> None:
    plain = re.sub(r"(?<=al)\.|“[^”]*”|\d\.\d+|Elsewhere:.*|Counted from 0\.", "", term.meaning)
    assert 1 <= len(re.findall(r"[.?](?=\s|$)", plain)) <= 2
    assert len(term.meaning.split()) <= 45
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", term.key)
    assert not term.source or re.search(r" (19|20)\d\d", term.source)


def test_words_are_found_by_name_and_meaning() -> None:
    assert [term.key for term in containing("KL div")] == ["kl-divergence"]
    assert "attention-sink" in {term.key for term in containing(" First ")}
    assert containing("") == TERMS
    assert containing("zebra") == ()


@pytest.mark.parametrize(
    ("key", "first"),
    [
        ("attention", "Bahdanau et al. 2014"),
        ("attention-weight", "Bahdanau et al. 2014"),
        ("dropout", "Hinton et al. 2012"),
        ("induction-head", "Elhage et al. 2021"),
        ("layer", "Vaswani et al. 2017"),
        ("pre-norm", "Wang et al. 2019"),
        ("score", "Luong et al. 2015"),
        ("top-k-and-top-p", "Fan et al. 2018"),
        ("unembedding", "Press & Wolf 2017"),
    ],
)
def test_who_was_first_is_named(key: str, first: str) -> None:
    """Not the paper that made it known: years of the literature, looked up."""
    assert first in TERM[key].source


def test_mlp_is_spelled_out() -> None:
    assert "Multi-layer perceptron" in TERM["mlp"].meaning


def test_scores_are_told_from_cosines() -> None:
    told = "point the same way"
    assert [term.key for term in TERMS if told in term.meaning] == ["cosine-similarity"]

"""Tokens into words by hand, and weights between words as products of matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from gpt2viz.analysis.words import group_words, word_starts
from gpt2viz.pictures.from_trace import Measure, word_measure
from gpt2viz.pictures.panel import Axis, Panel


def words_of(*tokens: str | bytes) -> list[bytes]:
    """The words that these tokens make, each as its bytes."""
    parts = [t.encode() if isinstance(t, str) else t for t in tokens]
    starts = word_starts(parts)
    ends = [*starts[1:], len(parts)]
    return [b"".join(parts[a:b]) for a, b in zip(starts, ends, strict=True)]


def test_word_starts(subtests: pytest.Subtests) -> None:
    cases: list[tuple[list[str], list[str] | None]] = [
        (["un", "believ", "able", " cran", "es"], ["unbelievable", " cranes"]),
        ([" didn", "'t", " see"], [" didn't", " see"]),
        (["don", "’", "t"], ["don’t"]),
        (["'", "tis", " said", "'"], ["'", "tis", " said", "'"]),
        (["fish", ".", '"', " She"], ["fish", '."', " She"]),
        (["half", "-", "past", "7"], ["half", "-", "past7"]),
        (["one", "\n", "two", " ", " three"], ["one", "\n", "two", " ", " three"]),
        (["end", ".", "\n", '"', "He"], ["end", ".", "\n", '"', "He"]),
        ([" ", "\t", "\n", "a"], [" ", "\t", "\n", "a"]),
        ([" ", "a"], [" a"]),
        ([" ", "🦩", " ", "!", "\t", "!"], [" 🦩", " !", "\t", "!"]),
        (["na", "i", "\u0308", "ve"], ["nai\u0308ve"]),
        (["नम", "स्", "ते"], ["नमस्ते"]),
        (["東", "京"], ["東京"]),
        (["<|endoftext|>", "A", "!", "<|endoftext|>", "?"], None),
        (["<", "|", "endo", "ft", "ext", "|", ">"], ["<|", "endoftext", "|>"]),
        (["x"], ["x"]),
    ]
    for tokens, words in cases:
        with subtests.test(tokens=tokens, words=words):
            assert words_of(*tokens) == [word.encode() for word in words or tokens]


@pytest.mark.parametrize("char", ["🦩", "é", "東", "👩‍👩‍👧"])
def test_bytes_of_one_character_stay_together(char: str) -> None:
    pieces = [bytes([byte]) for byte in char.encode()]
    assert words_of(" a", *pieces, " b")[-2:] == [words_of(" a", char)[-1], b" b"]
    assert words_of(*pieces) == [char.encode()]


@given(st.lists(st.binary(max_size=4), min_size=1, max_size=12))
def test_every_token_is_in_one_word(tokens: list[bytes]) -> None:
    starts = word_starts(tokens)
    assert starts[0] == 0
    assert list(starts) == sorted(set(starts))
    assert starts[-1] < len(tokens)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_group_words_equals_a_matrix_product(seed: int, n_tokens: int) -> None:
    """M A Sᵀ, where S (W, T) tells which tokens are a word's and M is S over its row sums."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_tokens), (2, 3, n_tokens)).astype(np.float32)
    word_of = np.cumsum(np.append(0, rng.integers(0, 2, n_tokens - 1)))
    members = (word_of == np.arange(word_of[-1] + 1)[:, None]).astype(float)
    means = members / members.sum(axis=1, keepdims=True)
    result = group_words(weights, [int(row.argmax()) for row in members])
    assert result.dtype == np.float32
    assert_allclose(result, means @ weights @ members.T, atol=1e-6)


class Run:
    """Three tokens, the last two one word."""

    token_bytes = (b"a", b" b", b"c")
    tokens_are_words = False


def test_word_cell_is_hidden_if_all_its_token_cells_are() -> None:
    weights = np.array([[[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]]], np.float32)
    hidden = np.array([[[0, 1, 1], [1, 0, 1], [0, 0, 1]]], bool)
    panel = Panel("", weights[0], Axis("query", list("abc")), Axis("key", list("abc")))
    words = word_measure(Measure(weights, hidden, panel), Run())  # type: ignore[arg-type]
    assert_array_equal(words.hidden, [[[False, True], [False, False]]])
    assert_allclose(words.values, [[[1.0, 0.0], [0.25, 0.75]]])
    assert words.panel.rows == Axis("query", ["a", "·bc"], (0, 1))

"""A token's label is readable, unique and never markup."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from pathlib import Path
from string import Formatter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpt2viz
from gpt2viz.labels import (
    difference,
    label,
    layers_of_heads,
    markup_safe,
    numeral,
    percent,
    pluralize,
    power_of_ten,
    sentence,
    shorten,
)

tokens = st.binary(max_size=8) | st.text(max_size=6).map(lambda s: s.encode("utf-8", "ignore"))


def test_labels_of_tokens(subtests: pytest.Subtests) -> None:
    cases: list[tuple[bytes, str]] = [
        (b" crane", "·crane"),
        ("·".encode(), r"\u00b7"),
        (b"\n\t\r", r"\n\t\r"),
        (b"\\n", r"\\n"),
        (b"\x00", r"\u0000"),
        (b"\xe2\x80", r"\xe2\x80"),
        ("\u202e".encode(), r"\u202e"),
        ("\u200b\u200d".encode(), r"\u200b\u200d"),
        ("\u0301e\u0301".encode(), "\\u0301e\u0301"),
        ("\u3164\ufe0f".encode(), r"\u3164\ufe0f"),
        ("🦩".encode(), "🦩"),
        ("\U000e0100".encode(), r"\U000e0100"),
        (b"", "∅"),
        ("∅".encode(), r"\u2205"),
        ("مرحبا".encode(), "مرحبا"),
    ]
    for token, written in cases:
        with subtests.test(token=token, written=written):
            assert label(token) == written


@pytest.mark.slow
@given(a=tokens, b=tokens)
@example(a="·".encode(), b=b" ")
@settings(max_examples=500)
def test_two_tokens_never_share_a_label(a: bytes, b: bytes) -> None:
    assert (label(a) == label(b)) == (a == b)


@given(token=tokens)
def test_labels_have_no_invisible_characters(token: bytes) -> None:
    for char in label(token):
        assert unicodedata.category(char)[0] not in "CZ"


@given(text=st.text())
def test_markup_safe_text_has_no_markup_for_plotly(text: str) -> None:
    safe = markup_safe(text)
    assert not set(safe) & set("<>$")
    for entity in ("&amp;", "&lt;", "&gt;", "&#36;"):
        safe = safe.replace(entity, "")
    assert "&" not in safe


def test_shorten_keeps_both_ends() -> None:
    assert shorten("short") == "short"
    assert shorten("Donaudampfschifffahrt", 9) == "Dona…ahrt"
    assert len(shorten("x" * 100, 14)) == 14


def test_pluralize(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, str, str]] = [
        (1, "tokens", "1 token"),
        (0, "tokens", "0 tokens"),
        (1024, "tokens", "1,024 tokens"),
        (1, "texts at once", "1 text at once"),
        (1, "entries of the vocabulary", "1 entry of the vocabulary"),
        (2, "heads of a layer (n_head)", "2 heads of a layer (n_head)"),
    ]
    for n, things, words in cases:
        with subtests.test(n=n, things=things):
            assert pluralize(n, things) == words
    assert layers_of_heads(2, 1) == "2 layers of 1 head"


@pytest.mark.parametrize(
    ("number", "form", "expected"),
    [
        (-0.5, "+.2f", "−0.50"),
        (0.5, "+.2f", "+0.50"),
        (-np.inf, ".1f", "−∞"),
        (-0.004, ".2f", "0.00"),
    ],
)
def test_numerals_have_a_true_minus_and_infinity(number: float, form: str, expected: str) -> None:
    assert numeral(number, form) == expected


def test_a_share_of_anything_is_not_0_percent() -> None:
    written = [percent(share) for share in (0, 0.005, 0.006, 1)]
    assert [*written, percent(0.0004, 1)] == ["0 %", "<1 %", "1 %", "100 %", "<0.1 %"]


def test_power_of_ten(subtests: pytest.Subtests) -> None:
    cases: list[tuple[float, str]] = [
        (0.00039, "3.9 · 10⁻⁴"),
        (-41_000, "−4.1 · 10⁴"),
        (5.2, "5.2"),
        (0, "0"),
        (-np.inf, "−∞"),
        (np.nan, "NaN"),
        (9.97, "1.0 · 10¹"),
    ]
    for number, words in cases:
        with subtests.test(number=number, said=words):
            assert power_of_ten(number) == words


@pytest.mark.parametrize(
    ("number", "expected"),
    [(7e-7, "7 · 10⁻⁷"), (0, "none"), (2, "2"), (np.nan, "NaN")],
)
def test_small_differences_are_written_as_powers_of_ten(number: float, expected: str) -> None:
    assert difference(number) == expected


PRODUCT = Path(gpt2viz.__file__).parent
SENTENCES = {
    f"{page}.{name}": text
    for page, listed in tomllib.loads((PRODUCT / "sentences.toml").read_text("utf-8")).items()
    for name, text in listed.items()
}
#: The smallest and the largest value of each kind of field.
ENDS = {"number": (0.0, 1.0), "count": (0, 123456), "text": ("A", "a" * 40)}


def test_sentences_read_well_with_the_smallest_and_largest_values() -> None:
    wrong = []
    for name, text in SENTENCES.items():
        fields = [(f, spec) for _, f, spec, _ in Formatter().parse(text) if f]
        numbers = re.findall(r"\b\d+(?:\.\d+)?\b", re.sub(r"\{[^}]*\}", "", text))
        n_numbers = len(numbers) + sum(bool(spec) for _, spec in fields)
        for end in (0, 1):
            values = {
                f: ENDS["text" if not spec else "count" if spec[-1] in "d," else "number"][end]
                for f, spec in fields
            }
            made = sentence(name, **values)
            if re.search(r"[{}]|  |nan|\.\.|^ | $", made) or n_numbers > 2:
                wrong.append((name, made, n_numbers))
    assert not wrong


def test_every_sentence_is_used_and_every_used_sentence_exists() -> None:
    sources = [path.read_text("utf-8") for path in PRODUCT.rglob("*.py")]
    named = {name for text in sources for name in re.findall(r'"([a-z_]+\.[a-z_]+)"', text)}
    called = re.compile(r'\b(?:sentence|template)\(\s*"([^"]+)"')
    used = {name for text in sources for name in called.findall(text)}
    assert used <= SENTENCES.keys() <= named

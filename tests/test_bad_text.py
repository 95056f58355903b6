"""Nasty texts are encoded byte for byte or refused with a message, and shown verbatim."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import gpt2viz
from gpt2viz.app.literal import literal
from gpt2viz.labels import bidi_isolate, label
from gpt2viz.model.tokenizer import Tokenizer, load_tokenizer

NASTY = [
    "<script>canary=1</script>",
    "</script><img src=x onerror=canary=1>",
    "<!--<svg/onload=canary=1>",
    "<b>bold</b><br><i>x</i><sup>2</sup><a href='javascript:canary=1'>a</a>",
    "$x^2$ $$\\frac{1}{0}$$ \\(x\\) \\[y\\] \\begin{x}",
    "**b** __u__ `c` ~~s~~ [a](javascript:canary=1) ![i](x) <http://a.example>\n\n# h\n> q\n- l",
    ":smile: :material/home: :red[r] :blue-background[b] :small[s] :rainbow[x]",
    "=1+1 +1 -1 @SUM(1) \t=cmd|' /C calc'!A0",
    "%{x} %{customdata[0]} {{x}} ${x} {0} %s %n",
    "\u202eevil\u202c \u2066x\u2069 \u061c \u200e\u200f",
    "a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg",
    "e\u0301" + "\u0316" * 50 + " \u0301 \u20dd",
    "\x00\x01\x07\x08\x0b\x0c\x1b[31m\x7f\x80\x85\x9f",
    "\u2028\u2029\r\n\r\n\t",
    "\ufffe\uffff\U0001fffe\U0010ffff\ufdd0",
    "".join(chr(0x10000 * plane + 0x41) for plane in range(17)),
    "👩‍👩‍👧‍👧🏽 🇩🇰 1️⃣ ☺︎ ☺️ \U000e0041\U000e007f",
    "مرحبا 123 שלום (abc) 456",
    "'; DROP TABLE x; --' OR 1=1 $(id) `id` && id | id ; id > x",
    "https://a.example/x HTTP://a.example www.a.example me@a.example https:\\//a.example",
    "&#58;streamlit&#58; :streamlit: :material_home: :100: a -> b <- c -- d >= e ~= f",
    "../../../etc/passwd %2e%2e%2f file:///etc/passwd C:\\con\\nul",
]
any_text = st.text(st.characters(exclude_categories=()), max_size=80)  # lone surrogates too


@cache
def bundled() -> Tokenizer:
    return load_tokenizer(gpt2viz.BUNDLED)


def check_round_trip(text: str) -> None:
    tokenizer = bundled()
    if any("\ud800" <= char <= "\udfff" for char in text):
        with pytest.raises(gpt2viz.TextError, match=r"Character \d+ of the text \(U\+D[89A-F]"):
            tokenizer.encode(text)
        return
    ids = tokenizer.encode(text)
    assert b"".join(map(tokenizer.token_bytes, ids)) == text.encode()
    assert tokenizer.decode(ids) == text


def test_nasty_texts_round_trip(subtests: pytest.Subtests) -> None:
    for text in NASTY:
        with subtests.test(text=text):
            check_round_trip(text)
            check_round_trip(text * 50)


@given(text=any_text)
@example(text="\ud83d\ude00")
@example(text="\udc80")
@settings(max_examples=200)
def test_any_text_round_trips_or_is_refused(text: str) -> None:
    check_round_trip(text)


def test_long_texts_round_trip(subtests: pytest.Subtests) -> None:
    for unit in (" ", "🦩", "word "):
        with subtests.test(unit=unit):
            check_round_trip(unit * (200_000 // len(unit.encode())))


rendered = MarkdownIt("commonmark").enable(["strikethrough", "table", "linkify"])


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
@settings(max_examples=300)
def test_literal_gives_plain_text_in_markdown(text: str) -> None:
    check_literal(text)


def test_literal_gives_plain_text_for_nasty_texts(subtests: pytest.Subtests) -> None:
    for text in NASTY:
        with subtests.test(text=text):
            check_literal(text)


def check_literal(text: str) -> None:
    """Check that the Markdown is one paragraph of plain text, control characters spelled out."""
    parsed = rendered.parse(f"x{literal(text)}x")
    assert [token.type for token in parsed] == ["paragraph_open", "inline", "paragraph_close"]
    kinds = {child.type for child in parsed[1].children or ()}
    assert kinds <= {"text", "text_special", "hardbreak", "softbreak"}
    for char in literal(text).replace("\n", ""):
        assert unicodedata.category(char) not in ("Cc", "Zl", "Zp")
        assert unicodedata.category(char) != "Cf" or char in "\u2060\u2068\u2069"
    # What Streamlit's parser replaces even in plain text: addresses, emoji names, arrows.
    result = "".join(child.content or "\n" for child in parsed[1].children or ())
    assert not re.search(r"https?://|www\.|[^\s\u2060]@\S|:[+-]*\w[\w+-]*:", result, re.IGNORECASE)
    assert not re.search(r"(^|\s)(<->|->|<-|--|>=|<=|~=)(\s|$)", result)


def test_right_to_left_words_are_isolated() -> None:
    for text in ("مرحبا", "שלום", "٣"):
        assert bidi_isolate(text) == f"\u2068{text}\u2069"
        assert literal(label(text.encode())) == f"\u2068{text}\u2069"
    assert bidi_isolate("crane 3 🦩") == "crane 3 🦩"
    assert literal(label("\u202e\u2067".encode())) == r"\\u202e\\u2067"

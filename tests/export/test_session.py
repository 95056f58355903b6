"""A saved session is read as it was written, and anything else is refused in one sentence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpt2viz
from gpt2viz.export import Session, read_session

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,39}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=50)


@given(TEXTS, st.dictionaries(NAMES, TEXTS, max_size=5))
def test_what_is_saved_comes_back(page: str, parameters: dict[str, str]) -> None:
    session = Session(page, parameters, "ab" * 32)
    assert read_session(session.to_json().encode()) == session


def test_it_says_which_version_saved_it() -> None:
    assert json.loads(Session("Attention", {}).to_json())["version"] == gpt2viz.__version__


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "isn't JSON"),
        (b"\xff\xfe{}", "isn't JSON"),
        (b"[" * 100_000, "isn't JSON"),
        (b"[1, 2]", "not a session that gpt2viz saved"),
        (b'{"page": "Attention"}', "not a session that gpt2viz saved"),
        (b'{"gpt2viz_session": 2}', "newer gpt2viz"),
        (b'{"gpt2viz_session": 1}', "damaged"),
        (b'{"gpt2viz_session": 1, "page": 3, "parameters": {}}', "damaged"),
        (b'{"gpt2viz_session": 1, "page": "A", "parameters": {"layer": 1}}', "damaged"),
        (b'{"gpt2viz_session": 1, "page": "A", "parameters": {"a&b": "1"}}', "damaged"),
        (b'{"gpt2viz_session": 1, "page": "A", "parameters": {"t": "\\ud800"}}', "damaged"),
        (b" " * 1_000_001, "too large"),
    ],
)
def test_anything_else_is_one_sentence(content: bytes, told: str) -> None:
    with pytest.raises(gpt2viz.ExportError, match=told):
        read_session(content)

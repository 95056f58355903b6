"""How GPT-2 cuts a text before its bytes are merged: by one regular expression."""

from __future__ import annotations

from collections.abc import Iterator

import regex

#: Contractions, words, numbers, other signs, white space, where a word takes the one space before
#: it along (Radford et al. 2019).
PIECES = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"

# ``\s+(?!\S)`` remembers every character of a run; tiktoken panics somewhere above half a million.
_LONG_SPACE = regex.compile(r"\p{White_Space}{100000,}+")


def pieces(text: str) -> list[str]:
    """The parts of a text that are merged each by itself."""
    found: list[str] = regex.findall(PIECES, text)
    return found


def within_reach(text: str) -> Iterator[str]:
    """Parts of a text that have, one after the other, the same pieces as the whole.

    A very long run of white space ends a part, but for its last character: that goes with the
    word after it, or stands alone.
    """
    start = 0
    for run in _LONG_SPACE.finditer(text):
        if run.end() < len(text):
            yield text[start : run.end() - 1]
            start = run.end() - 1
    yield text[start:]

"""Group tokens into words, and compute weights between words in place of tokens.

A new word begins at a token

- that starts with white space, of which one space belongs to the word after it, as in GPT-2;
- that follows a line break or a tab;
- where letters or digits change to other signs, or other signs to letters or digits;
- that is ``<|endoftext|>``, or follows it.

An apostrophe between letters is part of the word (*didn't*), a combining mark or joiner belongs to
the character before, and the bytes of one character stay together. In a script without spaces a
word runs from sign to sign, and consecutive signs, such as two emoji, are one word.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from gpt2viz.arrays import Array
from gpt2viz.errors import ArgumentError
from gpt2viz.model.config import END_OF_TEXT


def word_starts(token_bytes: Sequence[bytes], apart: bool = False) -> tuple[int, ...]:
    """The positions of the tokens that begin a word, of a trace's ``token_bytes``; the first is 0.

    A word extends to the start of the next. ``apart``, as a trace's ``tokens_are_words``, says that
    each token is a word, and none contains the white space between them.
    """
    if apart:
        return tuple(range(len(token_bytes)))
    begins = _beginnings(b"".join(token_bytes))
    starts, offset, before = [], 0, b""
    for position, token in enumerate(token_bytes):
        if offset in begins or END_OF_TEXT in (token, before):
            starts.append(position)
        offset, before = offset + len(token), token
    return tuple(starts)


def _beginnings(text: bytes) -> set[int]:
    """The offsets in the bytes of a text at which a word can begin."""
    chars = text.decode("utf-8", errors="surrogateescape")
    begins, offset, before = {0}, 0, ""
    for n, char in enumerate(chars):
        kind = _kind(char, before, following=chars[n + 1 : n + 2])
        if kind == "space" or (kind != before and chars[n - 1 : n] != " "):
            begins.add(offset)
        offset, before = offset + len(char.encode("utf-8", errors="surrogateescape")), kind
    return begins


def _kind(char: str, before: str, following: str) -> str:
    """ "word", "space" or "sign"; ``before`` is the kind of the character before."""
    if unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf") and before:
        return before
    if char.isspace():
        return "space"
    between = char in "'’" and before == "word" and following.isalpha()
    return "word" if between or unicodedata.category(char)[0] in "LN" else "sign"


def group_words(weights: Array, starts: Sequence[int]) -> Array:
    """Weights between words: (…, T, T) -> (…, W, W), for weights whose rows sum to 1.

    A word's row is the mean of its tokens' rows, its column the sum of its tokens' columns, so
    that rows still sum to 1 (Clark et al. 2019, "What Does BERT Look At? An Analysis of BERT's
    Attention", section 4.1). ``starts`` (W,) are those of ``word_starts``. Raises ``ArgumentError``
    for others.
    """
    if tuple(starts) != tuple(sorted({0, *starts})) or starts[-1] >= weights.shape[-1]:
        raise ArgumentError(
            f"Words start at tokens in ascending order from 0, of {weights.shape[-1]:,}: give what "
            "gpt2viz.word_starts returns."
        )
    sizes = np.diff([*starts, weights.shape[-1]]).astype(np.float32)  # (W,)
    columns = np.add.reduceat(weights, starts, axis=-1)  # (…, T, W)
    sums = np.add.reduceat(columns, starts, axis=-2)  # (…, W, W)
    return (sums / sizes[:, None]).astype(np.float32, copy=False)

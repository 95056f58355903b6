"""Checks of a vocabulary and its merges, before a tokenizer is made of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from gpt2viz.errors import CheckpointError
from gpt2viz.model.byte_letters import BYTE_OF, to_bytes

Pair = tuple[bytes, bytes]

# An entry of this form is a sign for something, though it can be made of two others.
_SIGN = re.compile(r"<.+>|\[.+\]", re.DOTALL)
# Longer entries aren't taken apart, which takes its time; the longest of GPT-2's has 128 letters.
_LONGEST = 128
#: Half of a surrogate pair, which JSON can spell and which stands for no character.
HALF = re.compile("[\ud800-\udfff]")


def check_ids(vocab: Mapping[str, int], file: str) -> None:
    """Raise ``CheckpointError`` unless every token has an id of its own."""
    owner: dict[int, str] = {}
    for token, i in vocab.items():
        if not isinstance(i, int) or isinstance(i, bool) or not 0 <= i < 2**31:
            raise CheckpointError(
                f"{file}: the id of {short(token)} must be 0 or more, and no more than 2^31 − 1, "
                f"not {short(i)}"
            )
        if i in owner:
            raise CheckpointError(
                f"{file}: {short(token)} and {short(owner[i])} both have the id {i}"
            )
        owner[i] = token


def check_list(tokens: Sequence[Any], file: str) -> None:
    """Raise ``CheckpointError`` unless each is a string of its own, which a text can have."""
    owner: dict[str, int] = {}
    for i, token in enumerate(tokens):
        if not isinstance(token, str) or not token or HALF.search(token):
            raise CheckpointError(
                f"{file}: token {i} must be one or more characters, not {short(token)}"
            )
        if token in owner:
            raise CheckpointError(f"{file}: {short(token)} is token {owner[token]} and token {i}")
        owner[token] = i
    if not owner:
        raise CheckpointError(f"{file}: the list has no tokens")
    if len(max(owner, key=len)) > _LONGEST:
        raise CheckpointError(f"{file}: a token has more than {_LONGEST} characters")


def short(value: Any) -> str:
    """A value from a file as a message can spell it."""
    return f"{value!r:.60}"


def check_made(
    vocab: Mapping[str, int],
    merged: Collection[str],
    known: Collection[str],
    files: tuple[str, str],
) -> None:
    """Raise ``CheckpointError`` for an entry that merges made once, and none of ``merged`` is.

    Byte-pair encoding makes an entry of two others. One that could be made so, and isn't, lost
    its merge: the file of merges was cut off, or is another model's. ``known`` are entries that
    are found in a text as they stand.
    """
    words, pairs = files
    for token in vocab:
        if token in merged or token in BYTE_OF or token in known:
            continue
        if len(token) > _LONGEST or _SIGN.fullmatch(token):
            continue
        if any(token[:n] in vocab and token[n:] in vocab for n in range(1, len(token))):
            raise CheckpointError(
                f"{pairs}: no merge makes {short(token)}, which {words} has. Merges are missing, "
                "or they are another model's; put the vocabulary and merges of one training there"
            )


def pairs_of(merges: Iterable[Any], file: str) -> list[tuple[str, str]]:
    """The pairs of merges: "left right" in older files and ["left", "right"] in newer ones.

    Raises ``CheckpointError`` for a merge of more or fewer parts.
    """
    pairs = []
    for merge in merges:
        parts = merge.split(" ") if isinstance(merge, str) else list(merge)
        if len(parts) != 2:
            raise CheckpointError(f"{file}: a merge must have two parts, not {short(merge)}")
        pairs.append((parts[0], parts[1]))
    return pairs


def ranked(
    merges: Iterable[tuple[str, str]], tokens: Collection[bytes], file: str
) -> dict[Pair, int]:
    """The place of every merge in a list, from 0; of one that stands there twice, the last.

    Raises ``CheckpointError``, which names the ``file``, for a merge of or to what is none of the
    ``tokens``.
    """
    ranks = {}
    for rank, (left, right) in enumerate(merges):
        pair, merge = (to_bytes(left, file), to_bytes(right, file)), f"{left!r:.60} {right!r:.60}"
        if b"".join(pair) not in tokens:
            raise CheckpointError(f"{file}: the merge {merge} makes no token")
        if any(part not in tokens for part in pair):
            raise CheckpointError(f"{file}: the merge {merge} is not of two tokens")
        ranks[pair] = rank
    return ranks

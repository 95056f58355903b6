"""Checks of a tokenizer's files, before a tokenizer is built from them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpt2viz.errors import CheckpointError

# An entry of this form is a special token, though it may equal two others joined.
_SIGN = re.compile(r"<.+>|\[.+\]", re.DOTALL)
# Longer entries aren't checked for splits, which takes long; GPT-2's longest has 128 letters.
_LONGEST = 128
#: Half of a surrogate pair, which JSON can spell and which stands for no character.
HALF = re.compile("[\ud800-\udfff]")
# Options of a model that make ids random, or the bytes of tokens unknown.
_REFUSED = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
# Steps that only cut a text; any other may lengthen it, at most this many times in all.
_CUTTING, _LONGER = ("Split", "Digits", "Punctuation", "UnicodeScripts"), 64


def check_model(model: Mapping[str, Any], file: str) -> None:
    """Raise ``CheckpointError`` unless it is byte-pair encoding that always gives the same ids."""
    if (kind := model.get("type") or "BPE") != "BPE":
        raise CheckpointError(f"{file}: only byte-pair encoding can be read, not {short(kind)}")
    if refused := [name for name in _REFUSED if model.get(name)]:
        raise CheckpointError(f"{file}: {' and '.join(refused)} can't be read")


def steps_of(values: Mapping[str, Any], file: str) -> list[dict[str, Any]]:
    """The steps that normalize a text and cut it, with sequences flattened.

    Raises ``CheckpointError`` if they may turn a short text into a very long one.
    """
    steps = [*_flat(values.get("normalizer")), *_flat(values.get("pre_tokenizer"))]
    longer = (step for step in steps if step["type"] not in _CUTTING)
    texts = (step.get("content") or step.get("prepend") or " " for step in longer)
    if math.prod(1 + len(text) for text in texts) > _LONGER:
        raise CheckpointError(
            f"{file}: can't be read (its normalizer may make a text more than {_LONGER} times as "
            "long)"
        )
    return steps


def _flat(step: Any) -> Iterator[dict[str, Any]]:
    if step and step["type"] == "Sequence":
        for inner in step.get("normalizers") or step.get("pretokenizers") or ():
            yield from _flat(inner)
    elif step:
        yield step


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
    """Raise ``CheckpointError`` unless each is a unique string that a text can have."""
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
    """A value from a file, shortened for a message."""
    return f"{value!r:.60}"


def check_merges(
    vocab: Mapping[str, int], pairs: Iterable[tuple[str, str]], known: Collection[str]
) -> None:
    """Raise ``CheckpointError`` for an entry that must have come from a merge missing in ``pairs``.

    Byte-pair encoding joins two entries to make another. One that equals two others joined but has
    no merge lost it: the file of merges was cut off, or is another model's. ``known`` are entries
    that are matched whole in a text.
    """
    made = {left + right for left, right in pairs}
    for token in vocab:
        if token in made or token in known or len(token) > _LONGEST or _SIGN.fullmatch(token):
            continue
        if any(token[:n] in vocab and token[n:] in vocab for n in range(1, len(token))):
            raise CheckpointError(
                f"merges.txt: no merge makes {short(token)}, which vocab.json has. Merges are "
                "missing, or they are another model's; put the vocabulary and merges of one "
                "training there"
            )


def pairs_of(merges: Iterable[Any], vocab: Collection[str], file: str) -> list[tuple[str, str]]:
    """The pairs of merges: "left right" in older files and ["left", "right"] in newer ones.

    Raises ``CheckpointError`` for a merge of more or fewer parts, and if a part or the result isn't
    in ``vocab``.
    """
    pairs = []
    for merge in merges:
        parts = merge.split(" ") if isinstance(merge, str) else list(merge)
        if len(parts) != 2:
            raise CheckpointError(f"{file}: a merge must have two parts, not {short(merge)}")
        left, right = parts
        if left not in vocab or right not in vocab or left + right not in vocab:
            wrong = "makes no token" if left in vocab and right in vocab else "is not of two tokens"
            raise CheckpointError(f"{file}: the merge {short(left)} {short(right)} {wrong}")
        pairs.append((left, right))
    return pairs

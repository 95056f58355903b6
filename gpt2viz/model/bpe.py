"""Byte-pair encoding by the rank of pairs (Sennrich et al. 2016), as GPT-2's files mean it.

``tiktoken`` joins two neighbours where *what they make* has a rank, whatever merge makes it. For a
list of merges as training writes it, that is the same. For one that contradicts itself it isn't:
with ``b c``, ``a b``, ``ab c``, in this order, the text "abc" becomes "a", "bc" and never "abc".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import pairwise

from gpt2viz.errors import CheckpointError
from gpt2viz.model.byte_letters import to_bytes

Pair = tuple[bytes, bytes]


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


def contradicts(ranks: Mapping[Pair, int]) -> bool:
    """Whether a list of merges makes a token in two ways, or one that it can't come to itself.

    ``ranks`` are places in the list, from 0. It is free of contradiction where the bytes of each
    token, merged by what stands before the token's own merge, end in the two parts of that merge.
    """
    made = {left + right: (rank, left, right) for (left, right), rank in ranks.items()}
    return len(made) < len(ranks) or any(_crossed(pair, ranks, made) for pair in ranks)


def _crossed(
    pair: Pair, ranks: Mapping[Pair, int], made: Mapping[bytes, tuple[int, bytes, bytes]]
) -> bool:
    """Whether a merge joins the two parts' inner ends before both are whole.

    Goes back in time, one merge of either end at a time (as in GitHub's ``bpe``, van Antwerpen
    2024). Of merges with the same rank the left one comes first.
    """
    (left, right), limit = pair, ranks[pair]
    byte = (-1, b"", b"")  # was there before all merges
    if max(made.get(left, byte)[0], made.get(right, byte)[0]) > limit:
        return True
    while ranks.get((left, right), limit) >= limit:
        (left_rank, _, left_end), (right_rank, right_end, _) = (
            made.get(left, byte),
            made.get(right, byte),
        )
        if left_rank == right_rank == -1:
            return False
        if left_rank > right_rank:
            limit, left = left_rank, left_end
        else:
            limit, right = right_rank + 1, right_end
    return True


def merged(word: bytes, ranks: Mapping[Pair, int]) -> list[bytes]:
    """The tokens of a word: its bytes, merged pair by pair, the lowest rank first.

    Among pairs of one rank the leftmost is first. Takes n log n steps for n bytes.
    """
    end = len(word)
    parts = [word[n : n + 1] for n in range(end)]  # b"" once it belongs to the part before it
    before, after = list(range(-1, end - 1)), list(range(1, end + 1))
    waiting = [(ranks[pair], n) for n, pair in enumerate(pairwise(parts)) if pair in ranks]
    heapify(waiting)
    while waiting:
        rank, at = heappop(waiting)
        following = after[at]
        if following == end or ranks.get((parts[at], parts[following])) != rank:
            continue  # what waited here is merged already
        parts[at], parts[following] = parts[at] + parts[following], b""
        after[at] = after[following]
        if after[at] < end:
            before[after[at]] = at
        for left, right in ((before[at], at), (at, after[at])):
            if left >= 0 and right < end and (parts[left], parts[right]) in ranks:
                heappush(waiting, (ranks[parts[left], parts[right]], left))
    return [part for part in parts if part]

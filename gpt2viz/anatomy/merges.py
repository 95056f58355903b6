"""Byte-pair encoding one merge at a time: which pair, why this one, and the resulting pieces.

Sennrich et al. 2016 on bytes, as in Radford et al. 2019. The tokenizer does all merges at once;
each result here is checked against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from gpt2viz.errors import TextError
from gpt2viz.model.tokenizer import Tokenizer

Pair = tuple[bytes, bytes]


@dataclass(frozen=True)
class Merge:
    """One step: ``pair`` became one piece, as no other pair had a lower ``rank``.

    ``others`` are the other pairs that could have been merged, with their ranks, lowest first;
    ``pieces`` is the word after the step.
    """

    pair: Pair
    rank: int
    others: tuple[tuple[Pair, int], ...]
    pieces: tuple[bytes, ...]


@dataclass(frozen=True)
class Word:
    """A part of the text that is merged separately: a word with the space before it, a number, …

    ``start`` are its bytes or characters, ``merges`` the steps, ``ids`` the final tokens.
    A ``whole`` part is a token without merges: it was added to the vocabulary later, or the
    tokenizer doesn't merge parts that are tokens.
    """

    start: tuple[bytes, ...]
    merges: tuple[Merge, ...]
    ids: tuple[int, ...]
    whole: bool

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """The bytes of its tokens."""
        return self.merges[-1].pieces if self.merges else self.start


def follow(tokenizer: Tokenizer, text: str) -> list[Word]:
    """Encode a short text step by step.

    Raises ``TextError`` as ``tokenizer.encode`` does, and if the steps don't end in its result.
    """
    ids = tokenizer.encode_part(text)
    rest, words = list(ids), []
    for start, whole in tokenizer.cut(text):
        merges = _merges(tokenizer, start)
        n = len(merges[-1].pieces if merges else start)
        words.append(Word(start, merges, tuple(rest[:n]), whole))
        rest = rest[n:]
    pieces = [piece for word in words for piece in word.pieces]
    if pieces != [tokenizer.token_bytes(i) for i in ids]:
        raise TextError("The merges of this text can't be followed one by one here.")
    return words


def _merges(tokenizer: Tokenizer, pieces: tuple[bytes, ...]) -> tuple[Merge, ...]:
    made = []
    while ranked := _rank_pairs(tokenizer, pieces):
        (rank, at), *rest = ranked
        others = {(pieces[n], pieces[n + 1]): other for other, n in rest if other != rank}
        pair = pieces[at], pieces[at + 1]
        pieces = (*pieces[:at], pair[0] + pair[1], *pieces[at + 2 :])
        made.append(Merge(pair, rank, tuple(others.items()), pieces))
    return tuple(made)


def _rank_pairs(tokenizer: Tokenizer, pieces: tuple[bytes, ...]) -> list[tuple[int, int]]:
    """(rank, index) of every pair that can be merged: the lowest rank first, then the leftmost."""
    pairs = enumerate(pairwise(pieces))
    ranks = ((tokenizer.merges.get(pair), at) for at, pair in pairs)
    return sorted((rank, at) for rank, at in ranks if rank is not None)

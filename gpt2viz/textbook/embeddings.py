"""From token ids to vectors, and where in the sentence each of them stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gpt2viz.textbook.claims import Claim, shape
from gpt2viz.textbook.steps import attend, rows

WORDS = ("crane", "ate", "fish")
WORD_VECTORS = ((0.9, 0.1), (0.1, 0.8), (0.7, 0.3))
POSITION_VECTORS = ((0.3, 0.0), (0.0, 0.3), (-0.3, 0.0))


class Embedded(NamedTuple):
    """tokens (B, T, C) by id, positions (T, C) by place, and their sum x (B, T, C)."""

    tokens: Tensor
    positions: Tensor
    x: Tensor


def look_up(table: ArrayLike, ids: Sequence[int]) -> Tensor:
    """Row ``id`` of a table (n_vocab, C) for each id: (T,) -> (T, C). No arithmetic at all."""
    return rows(table)[list(ids)]


def place(vectors: ArrayLike, positions: ArrayLike) -> Tensor:
    """Vectors (T, C) with the vectors of the first T positions (n_positions, C) added: (T, C)."""
    vectors = rows(vectors)
    return vectors + rows(positions)[: len(vectors)]


def embed(n_vocab: int, n_positions: int, C: int, ids: Tensor) -> Embedded:
    """Ids (B, T) through two ``nn.Embedding`` tables of random vectors, as GPT-2 starts."""
    wte, wpe = nn.Embedding(n_vocab, C), nn.Embedding(n_positions, C)
    tokens = wte(ids)  # (B, T, C)
    positions = wpe(torch.arange(ids.shape[1]))  # (T, C)
    return Embedded(tokens, positions, tokens + positions)  # (B, T, C): added to every text


def in_order(order: Sequence[int], positions: ArrayLike, words: ArrayLike = WORD_VECTORS) -> Tensor:
    """Words (T, C) in an order, with positions: (T, C).

    Row n is what becomes of word n, wherever it stands.
    """
    return place(look_up(words, order), positions)[_places(order)]


def read_in_order(
    order: Sequence[int],
    positions: ArrayLike,
    words: ArrayLike = WORD_VECTORS,
    *,
    causal: bool = False,
) -> Tensor:
    """``in_order``, and then through attention that learned nothing: (T, C).

    ``causal`` hides later words.
    """
    x = place(look_up(words, order), positions)
    mixed = attend(x, x, x, causal=causal).output
    return mixed[_places(order)]


def _places(order: Sequence[int]) -> list[int]:
    """Where each word stands: word n at place ``_places(order)[n]``."""
    return [list(order).index(n) for n in range(len(order))]


def token_claims() -> list[Claim]:
    """E2: 10 vectors of 3 numbers, two texts of 4 tokens."""
    table = nn.Embedding(10, 3)
    ids = torch.tensor([[5, 2, 1, 9], [0, 5, 5, 7]])
    vectors = table(ids)
    same = torch.equal(vectors[0, 0], vectors[1, 1])
    return [
        Claim("shape of the table", "(10, 3)", shape(table.weight)),
        Claim("shape of the ids", "(2, 4)", shape(ids)),
        Claim("shape of the vectors", "(2, 4, 3)", shape(vectors)),
        Claim("same id, same vector, in another text and place", "", str(same)),
    ]


def position_claims() -> list[Claim]:
    """E3: 8 positions of which 5 are used."""
    found = embed(10, 8, 3, torch.tensor([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]]))
    nowhere = torch.zeros(3, 2)
    one, other = (0, 1, 2), (2, 1, 0)

    def gap(positions: ArrayLike, causal: bool) -> Tensor:
        found = [read_in_order(order, positions, causal=causal) for order in (one, other)]
        return (found[0] - found[1]).abs().max()

    return [
        Claim("shape of the token vectors", "(2, 5, 3)", shape(found.tokens)),
        Claim("shape of the position vectors", "(5, 3)", shape(found.positions)),
        Claim("shape of their sum", "(2, 5, 3)", shape(found.x)),
        Claim("largest difference of the two orders, no positions", "", gap(nowhere, causal=False)),
        Claim("… with positions", "", gap(POSITION_VECTORS, causal=False)),
        Claim("… no positions, but the causal mask", "", gap(nowhere, causal=True)),
    ]

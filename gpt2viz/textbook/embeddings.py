"""Token and position embeddings, and token vectors as points of a plane."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gpt2viz.errors import GPT2VizError
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.tokenizer import Tokenizer
from gpt2viz.textbook.attention import attend
from gpt2viz.textbook.claims import Claim, shape
from gpt2viz.textbook.tensors import rows

WORDS = ("crane", "ate", "fish")
WORD_VECTORS = ((0.9, 0.1), (0.1, 0.8), (0.7, 0.3))
POSITION_VECTORS = ((0.3, 0.0), (0.0, 0.3), (-0.3, 0.0))


def look_up(table: ArrayLike, ids: Sequence[int]) -> Tensor:
    """Row ``id`` of a table (n_vocab, C) for each id: (T,) -> (T, C). No arithmetic at all."""
    return rows(table)[list(ids)]


def add_positions(vectors: ArrayLike, positions: ArrayLike) -> Tensor:
    """Vectors (T, C) with the vectors of the first T positions (n_positions, C) added: (T, C)."""
    vectors = rows(vectors)
    return vectors + rows(positions)[: len(vectors)]


def arrange(order: Sequence[int], positions: ArrayLike, words: ArrayLike) -> Tensor:
    """Words (T, C) in an order, with positions: (T, C).

    Row n is the vector of word n, whatever its position.
    """
    return add_positions(look_up(words, order), positions)[_positions_of(order)]


def attend_words(order: Sequence[int], positions: ArrayLike, *, causal: bool) -> Tensor:
    """``arrange``, then through attention without learned weights: (T, C).

    ``causal`` hides later words.
    """
    x = add_positions(look_up(WORD_VECTORS, order), positions)
    mixed = attend(x, x, x, causal=causal).output
    return mixed[_positions_of(order)]


def _positions_of(order: Sequence[int]) -> list[int]:
    """The position of each word: word n is at ``_positions_of(order)[n]``."""
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
    tokens = nn.Embedding(10, 3)(torch.tensor([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]]))
    positions = nn.Embedding(8, 3)(torch.arange(5))
    nowhere = torch.zeros(3, 2)
    forward, backward = (0, 1, 2), (2, 1, 0)

    def gap(positions: ArrayLike, causal: bool) -> Tensor:
        mixed = [attend_words(order, positions, causal=causal) for order in (forward, backward)]
        return (mixed[0] - mixed[1]).abs().max()

    return [
        Claim("shape of the token vectors", "(2, 5, 3)", shape(tokens)),
        Claim("shape of the position vectors", "(5, 3)", shape(positions)),
        Claim("shape of their sum", "(2, 5, 3)", shape(tokens + positions)),
        Claim("largest difference of the two orders, no positions", "", gap(nowhere, causal=False)),
        Claim("… with positions", "", gap(POSITION_VECTORS, causal=False)),
        Claim("… no positions, but the causal mask", "", gap(nowhere, causal=True)),
    ]


class Plane(NamedTuple):
    """A plane along the two directions in which vectors differ most.

    ``mean`` (C,) is their mean, ``directions`` (2, C) have length 1, or are 0 if the vectors
    differ in fewer. ``share`` (2,) is the share of their total variance along each.
    """

    mean: Tensor
    directions: Tensor
    share: Tensor


class Near(NamedTuple):
    """A token, and the cosine of the angle between its vector and the query vector."""

    id: int
    cosine: float


def token_of(word: str, tokenizer: Tokenizer) -> int | None:
    """The id of a word with a space before it; None if that isn't one token."""
    try:
        return tokenizer.id_of(f" {word}")
    except GPT2VizError:
        return None


def table_of(model: Model) -> Tensor:
    """The table of a model's token vectors (n_vocab, C)."""
    return model.network.embedding.weight.detach().float().cpu()


def plane(vectors: Tensor) -> Plane:
    """The first two principal components of vectors (n, C) (Pearson 1901).

    Each direction is turned so that its largest number is positive.
    """
    mean = vectors.mean(dim=0)
    _, sizes, directions = torch.linalg.svd(vectors - mean, full_matrices=False)
    missing = max(0, 2 - len(sizes))  # there may be one direction alone
    sizes = F.pad(sizes[:2], (0, missing))  # (2,)
    directions = F.pad(directions[:2], (0, 0, 0, missing))  # (2, C)
    largest = directions.gather(1, directions.abs().argmax(dim=1, keepdim=True))  # (2, 1)
    seen = directions * largest.sign() * (sizes > 1e-6 * vectors.norm())[:, None]
    whole = ((vectors - mean) ** 2).sum()
    return Plane(mean, seen, sizes**2 / whole.clamp(min=1e-12))


def onto_plane(seen_from: Plane, vectors: Tensor) -> Tensor:
    """Vectors (n, C) projected into a plane (n, 2)."""
    return (vectors - seen_from.mean) @ seen_from.directions.T


def cosines(table: ArrayLike, vectors: ArrayLike) -> Tensor:
    """Cosines between vectors (n, C) and each row of a table (n_vocab, C): (n, n_vocab).

    1 is the same direction, 0 a right angle; also 0 for a row of zeros, which has no direction.
    """
    table, vectors = rows(table), rows(vectors)
    lengths = vectors.norm(dim=1)[:, None] * table.norm(dim=1)  # (n, n_vocab)
    return vectors @ table.T / lengths.clamp(min=1e-12)  # type: ignore[no-any-return]


def nearest(cosine: Tensor, n: int, left_out: Collection[int] = ()) -> list[Near]:
    """The n tokens of the largest cosines (n_vocab,), best first, without some ids."""
    order = cosine.argsort(descending=True, stable=True)[: n + len(left_out)].tolist()
    return [Near(id, float(cosine[id])) for id in order if id not in left_out][:n]


def rank(cosine: Tensor, id: int, left_out: Collection[int] = ()) -> int:
    """The rank of a token by its cosine (n_vocab,), counted from 1, without some ids."""
    better = cosine > cosine[id]  # (n_vocab,)
    better[list(left_out)] = False
    return 1 + int(better.sum())


def sum_of(table: Tensor, ids: Sequence[int]) -> Tensor:
    """Row a minus row b plus row c of a table (n_vocab, C), for ids a, b and c: (C,)."""
    a, b, c = ids
    return table[a] - table[b] + table[c]

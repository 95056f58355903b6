"""Token vectors as points of a plane: which lie near one another, and what a sum of them is near.

Mikolov et al. 2013, "Linguistic Regularities in Continuous Space Word Representations".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gpt2viz.errors import GPT2VizError
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.tokenizer import Tokenizer


class Plane(NamedTuple):
    """Where vectors lie along the two directions in which they differ most.

    ``mean`` (C,) is their mean, ``directions`` (2, C) have length 1, or are 0 where the vectors
    differ in fewer. ``share`` (2,) is how much of their whole variance lies along each.
    """

    mean: Tensor
    directions: Tensor
    share: Tensor


class Near(NamedTuple):
    """A token, and the cosine of the angle between its vector and the one that was asked for."""

    id: int
    cosine: float


def token_of(word: str, tokenizer: Tokenizer) -> int | None:
    """The id of a word with a space before it; None where that isn't one token."""
    try:
        ids = tokenizer.encode_part(f" {word}")
    except GPT2VizError:
        return None
    return ids[0] if len(ids) == 1 else None


def table_of(model: Model) -> Tensor:
    """The table of a model's token vectors (n_vocab, C)."""
    return model.network.wte.weight.detach().float().cpu()


def plane(vectors: Tensor) -> Plane:
    """The first two principal components of vectors (n, C) (Pearson 1901).

    Each direction is turned so that its largest number is positive.
    """
    mean = vectors.mean(dim=0)
    _, sizes, directions = torch.linalg.svd(vectors - mean, full_matrices=False)
    sizes, directions = _two(sizes), _two(directions)  # (2,), (2, C)
    largest = directions.gather(1, directions.abs().argmax(dim=1, keepdim=True))  # (2, 1)
    seen = directions * largest.sign() * (sizes > 1e-6 * vectors.norm())[:, None]
    whole = ((vectors - mean) ** 2).sum()
    return Plane(mean, seen, sizes**2 / whole.clamp(min=1e-12))


def _two(rows: Tensor) -> Tensor:
    """The first two, with zeros for those that aren't there."""
    found = rows[:2]
    return torch.cat([found, found.new_zeros(2 - len(found), *found.shape[1:])])


def seen_in(found: Plane, vectors: Tensor) -> Tensor:
    """Vectors (n, C) as points of a plane (n, 2)."""
    return (vectors - found.mean) @ found.directions.T


def cosines(table: Tensor, vectors: Tensor) -> Tensor:
    """How nearly each row of a table (n_vocab, C) points the way of vectors (n, C): (n, n_vocab).

    1 is the same way, 0 at right angles; also of a row of zeros, which points nowhere.
    """
    lengths = vectors.norm(dim=1)[:, None] * table.norm(dim=1)  # (n, n_vocab)
    return vectors @ table.T / lengths.clamp(min=1e-12)  # type: ignore[no-any-return]


def nearest(cosine: Tensor, n: int, left_out: Collection[int] = ()) -> list[Near]:
    """The n tokens of the largest cosines (n_vocab,), best first, without some ids."""
    order = cosine.argsort(descending=True, stable=True)[: n + len(left_out)].tolist()
    return [Near(id, float(cosine[id])) for id in order if id not in left_out][:n]


def rank(cosine: Tensor, id: int, left_out: Collection[int] = ()) -> int:
    """The place of a token by its cosine (n_vocab,), counted from 1, without some ids."""
    better = cosine > cosine[id]  # (n_vocab,)
    better[list(left_out)] = False
    return 1 + int(better.sum())


def sum_of(table: Tensor, ids: Sequence[int]) -> Tensor:
    """Row a minus row b plus row c of a table (n_vocab, C), for ids a, b and c: (C,)."""
    a, b, c = ids
    return table[a] - table[b] + table[c]

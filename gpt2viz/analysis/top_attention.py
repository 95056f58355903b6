"""The strongest attention of every head from every token: to another token that isn't the first.

Many heads rest on the token itself or on the first one, whatever the text. Other weights
distinguish them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Array


class Link(NamedTuple):
    """A head's largest such weight from one token: the position of its ``key``, and the weight."""

    layer: int
    head: int
    key: int
    weight: float


@dataclass(frozen=True, eq=False)
class TopAttention:
    """The largest such weight of every head of every layer from every token.

    ``keys`` (n_layer, nh, T) are positions, and −1 where a row has no weight on another token that
    isn't the first; ``weights`` (n_layer, nh, T) are in [0, 1], and 0 there.
    """

    keys: NDArray[np.int64]
    weights: Array

    def at(self, layer: int, head: int, query: int) -> Link | None:
        """The strongest attention of a head from one token, None if there is none."""
        key = int(self.keys[layer, head, query])
        weight = float(self.weights[layer, head, query])
        return None if key < 0 else Link(layer, head, key, weight)

    def strongest(self, query: int, most: int = 5) -> list[Link]:
        """The heads that attend most strongly from a token, strongest first, up to ``most``.

        Equal ones are in the order of layers and heads; heads without a link are left out.
        """
        return self._links(slice(query, query + 1), most)[0]

    @cached_property
    def strongest_of_each(self) -> list[list[Link]]:
        """The five strongest heads from every token, in the order of the tokens."""
        return self._links(slice(None), 5)

    def _links(self, queries: slice, most: int) -> list[list[Link]]:
        n_head = self.weights.shape[1]
        keys, weights = (
            of.reshape(-1, of.shape[-1])[:, queries].T for of in (self.keys, self.weights)
        )  # (queries, all heads)
        heads = np.argsort(-weights, axis=1, kind="stable")[:, :most]
        values = (np.take_along_axis(of, heads, axis=1).tolist() for of in (keys, weights))
        return [
            [
                Link(n // n_head, n % n_head, key, weight)
                for n, key, weight in zip(*row, strict=True)
                if key >= 0
            ]
            for row in zip(heads.tolist(), *values, strict=True)
        ]

    def opening(self, layer: int | None = None, head: int | None = None) -> tuple[int, int]:
        """(layer, head) whose strongest attention differs least from half of a row's weight.

        By the mean over all tokens of |weight − 0.5|, with weight 0 where there is no link,
        as for the first token in every head; of equal heads the first. Such a head doesn't just
        rest, and its rows are spread out, so its picture has shades. Only in ``layer``, or only
        heads with the number ``head``, if given.
        """
        apart = np.abs(self.weights.astype(np.float64) - 0.5).mean(axis=-1)
        layers, heads = np.indices(apart.shape)
        among = (layers == layer) | (layer is None), (heads == head) | (head is None)
        best = np.where(among[0] & among[1], apart, np.inf).argmin()
        return int(layers.flat[best]), int(heads.flat[best])


def strongest_links(weights: Array) -> tuple[NDArray[np.int64], Array]:
    """Keys and weights of ``TopAttention`` for one layer: (nh, T, T) -> (nh, T) each.

    Of equal weights the first key counts. A row that contains NaN has no link.
    """
    n_head, T, _ = weights.shape
    keys = np.empty((n_head, T), np.int64)
    strongest = np.empty((n_head, T), np.float32)
    for n, head in enumerate(weights):
        others = head.copy()
        np.fill_diagonal(others, 0)
        others[:, 0] = 0
        keys[n] = others.argmax(axis=1)
        strongest[n] = others[np.arange(T), keys[n]]
    none = ~(strongest > 0)
    keys[none], strongest[none] = -1, 0
    return keys, strongest

"""The strongest attention of every head from every token: to another token that isn't the first.

Many heads rest on the token itself or on the first one, whatever the text. Other weights
distinguish them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Array


class Look(NamedTuple):
    """A head's largest such weight from one token: the position of its ``key``, and the weight."""

    layer: int
    head: int
    key: int
    weight: float


@dataclass(frozen=True, eq=False)
class Looks:
    """The largest such weight of every head of every layer from every token.

    ``keys`` (n_layer, nh, T) are positions, and −1 where a row has no weight on another token that
    isn't the first; ``weights`` (n_layer, nh, T) are in [0, 1], and 0 there.
    """

    keys: NDArray[np.int64]
    weights: Array

    def at(self, layer: int, head: int, query: int) -> Look | None:
        """The strongest attention of a head from one token, None if there is none."""
        key = int(self.keys[layer, head, query])
        weight = float(self.weights[layer, head, query])
        return None if key < 0 else Look(layer, head, key, weight)

    def hardest(self, query: int, most: int = 5) -> list[Look]:
        """The heads that attend most strongly from a token, strongest first, up to ``most``.

        Equal ones are in the order of layers and heads; heads without a look are left out.
        """
        return self._strongest(slice(query, query + 1), most)[0]

    def hardest_of_each(self) -> list[list[Look]]:
        """The five strongest heads from every token, in the order of the tokens."""
        return self._strongest(slice(None), 5)

    def _strongest(self, queries: slice, most: int) -> list[list[Look]]:
        n_head = self.weights.shape[1]
        keys, weights = (
            of.reshape(-1, of.shape[-1])[:, queries].T for of in (self.keys, self.weights)
        )  # (queries, all heads)
        heads = np.argsort(-weights, axis=1, kind="stable")[:, :most]
        values = (np.take_along_axis(of, heads, axis=1).tolist() for of in (keys, weights))
        return [
            [
                Look(n // n_head, n % n_head, key, weight)
                for n, key, weight in zip(*row, strict=True)
                if key >= 0
            ]
            for row in zip(heads.tolist(), *values, strict=True)
        ]

    def opening(self, layer: int | None = None, head: int | None = None) -> tuple[int, int]:
        """(layer, head) whose strongest attention differs least from half of a row's weight.

        By the mean over all tokens of |weight − 0.5|, 0 being the weight where there is no look,
        as for the first token in every head; of equal heads the first. Such a head doesn't just
        rest, and its rows are spread, so that its picture has shades. Of a ``layer``, or with the
        number ``head``, if given.
        """
        apart = np.abs(self.weights.astype(np.float64) - 0.5).mean(axis=-1)
        layers, heads = np.indices(apart.shape)
        among = (layers == layer) | (layer is None), (heads == head) | (head is None)
        best = np.where(among[0] & among[1], apart, np.inf).argmin()
        return int(layers.flat[best]), int(heads.flat[best])


def hardest_looks(weights: Array) -> tuple[NDArray[np.int64], Array]:
    """Keys and weights of a layer's strongest attention: (nh, T, T) -> (nh, T) each, see ``Looks``.

    Of equal weights the first key counts. A row with NaN among them has no look.
    """
    n_head, T, _ = weights.shape
    keys = np.empty((n_head, T), np.int64)
    hardest = np.empty((n_head, T), np.float32)
    for n, head in enumerate(weights):
        others = head.copy()
        np.fill_diagonal(others, 0)
        others[:, 0] = 0
        keys[n] = others.argmax(axis=1)
        hardest[n] = others[np.arange(T), keys[n]]
    none = ~(hardest > 0)
    keys[none], hardest[none] = -1, 0
    return keys, hardest

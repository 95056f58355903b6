"""What is kept of many passages: sums that can be merged, and the best passages of every head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpt2viz.files import whole

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]

#: So many passages are kept for every score of every head.
BEST = 3


class Where(NamedTuple):
    """Where a passage is: the document's number and its first token's place there, from 0."""

    document: int
    token: int


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over passages, for S scores of nh heads in L layers.

    ``count``, ``total`` and ``squares`` are (S, L, nh): how many passages had the score, the sum
    of their scores and of the squares. ``best`` and ``where`` hold the highest scores, best
    first: (S, L, nh, BEST), −∞ where there are fewer passages, and (S, L, nh, BEST, 2), each a
    ``Where``. ``texts`` are the passages that ``where`` names.
    """

    count: Counts
    total: Numbers
    squares: Numbers
    best: Numbers
    where: Counts
    texts: Mapping[Where, str]

    @property
    def mean(self) -> Numbers:
        """The mean score of a passage, (S, L, nh); NaN where no passage had it."""
        with np.errstate(invalid="ignore"):
            return self.total / self.count

    @property
    def margin(self) -> Numbers:
        """Half the width of the mean's 95 % confidence interval, (S, L, nh).

        1.96 standard errors: the sample's standard deviation over √count, taking passages as
        drawn independently. NaN for fewer than two passages.
        """
        count = np.where(self.count > 1, self.count, np.nan)
        spread = np.maximum(self.squares - self.total**2 / count, 0) / (count - 1)
        margin: Numbers = 1.96 * np.sqrt(spread / count)
        return margin


def of_passages(scores: Numbers, where: list[Where], texts: list[str]) -> Sums:
    """The sums of P passages' scores (P, S, L, nh); NaN is no score."""
    there = ~np.isnan(scores)
    values = np.where(there, scores, 0)
    places = np.array(where, np.int64).reshape(len(where), 1, 1, 1, 2)
    best = _best(
        np.moveaxis(np.where(there, scores, -np.inf), 0, -1),
        np.moveaxis(np.broadcast_to(places, (*scores.shape, 2)), 0, -2),
        dict(zip(where, texts, strict=True)),
    )
    return Sums(there.sum(axis=0), values.sum(axis=0), (values**2).sum(axis=0), *best)


def merge(one: Sums, other: Sums) -> Sums:
    """The sums of both together. Which best passages stay doesn't depend on the order."""
    best = _best(
        np.concatenate([one.best, other.best], axis=-1),
        np.concatenate([one.where, other.where], axis=-2),
        {**one.texts, **other.texts},
    )
    return Sums(
        one.count + other.count, one.total + other.total, one.squares + other.squares, *best
    )


def merged(every: Iterable[Sums]) -> Sums:
    """The sums of all together, added up in their order."""
    return reduce(merge, every)


def _best(
    values: Numbers, where: Counts, texts: Mapping[Where, str]
) -> tuple[Numbers, Counts, Mapping[Where, str]]:
    """The ``BEST`` highest of (…, N), earlier passages first among equals, and their texts."""
    missing = max(0, BEST - values.shape[-1])
    values = np.pad(values, [(0, 0)] * 3 + [(0, missing)], constant_values=-np.inf)
    where = np.pad(where, [(0, 0)] * 3 + [(0, missing), (0, 0)])
    order = np.lexsort((where[..., 1], where[..., 0], -values), axis=-1)[..., :BEST]
    values = np.take_along_axis(values, order, axis=-1)
    where = np.take_along_axis(where, order[..., None], axis=-2)
    named = {Where(int(d), int(t)) for d, t in where[np.isfinite(values)]}
    return values, where, {place: texts[place] for place in sorted(named)}


def save(sums: Sums, path: Path) -> None:
    """Write sums to a file, which is there as a whole or not at all."""
    places = list(sums.texts)
    with whole(path) as partial, partial.open("wb") as file:
        np.savez_compressed(
            file,
            count=sums.count,
            total=sums.total,
            squares=sums.squares,
            best=sums.best,
            where=sums.where,
            places=np.array(places, np.int64).reshape(-1, 2),
            texts=np.array([sums.texts[place] for place in places], np.str_),
        )


def load(path: Path) -> Sums:
    """Read what ``save`` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        places = [Where(int(d), int(t)) for d, t in stored["places"]]
        texts = dict(zip(places, map(str, stored["texts"]), strict=True))
        arrays = {name: stored[name] for name in ("count", "total", "squares", "best", "where")}
        return Sums(**arrays, texts=texts)

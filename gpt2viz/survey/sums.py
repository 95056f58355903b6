"""Mergeable sums over many passages, and the best passages of every head."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Numbers
from gpt2viz.files import whole

Counts = NDArray[np.int64]

#: The number of best passages stored for every score of every head.
BEST = 3
#: Fewer documents give no confidence interval: they hardly show the spread.
FEWEST = 5


class Where(NamedTuple):
    """A passage's position: the number of its document and of its first token there, from 0.

    A very long document is read in parts; ``token`` then counts from the start of its ``part``.
    """

    document: int
    token: int
    part: int = 0


class Documents(NamedTuple):
    """Sums over whole documents, (S, L, nh) each, of n scored passages with a total score of t.

    The ``number`` of documents with any, Σn², Σn³, Σn·t and Σt².
    """

    number: Numbers
    n2: Numbers
    n3: Numbers
    nt: Numbers
    t2: Numbers


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over passages, for S scores of nh heads in L layers.

    ``count`` and ``total`` are (S, L, nh): how many passages had the score, and the sum of their
    scores. ``documents`` are sums over the complete documents; ``open`` has count
    and total of those that may continue elsewhere, by their number. ``best`` and ``where`` hold the
    highest scores, best first: (S, L, nh, BEST), −∞ for missing passages, and
    (S, L, nh, BEST, 3), each a ``Where``. ``texts`` are the passages that ``where`` names.
    """

    count: Counts
    total: Numbers
    documents: Documents
    open: Mapping[int, tuple[Counts, Numbers]]
    best: Numbers
    where: Counts
    texts: Mapping[Where, str]

    @property
    def mean(self) -> Numbers:
        """The mean score of a passage, (S, L, nh); NaN if no passage had it."""
        with np.errstate(invalid="ignore"):
            return self.total / self.count

    @property
    def margin(self) -> Numbers:
        """Half the width of the mean's 95 % confidence interval, (S, L, nh).

        Documents are assumed to be independent, their passages not: the mean is the ratio of
        the documents' totals to their counts, and its error is from the residuals t − mean·n
        (Cochran 1977, "Sampling Techniques", chapter 6), unbiased if documents have equal variance.
        Student's t, with one degree of freedom less than the effective number of documents
        (Σn)² / Σn²: few, or a few that are much longer, make it wide (Carter, Schnepel &
        Steigerwald 2017, "Asymptotic Behavior of a t-Test Robust to Cluster Heterogeneity").
        NaN for fewer than ``FEWEST`` documents.
        """
        from scipy.special import stdtrit

        freedom, error = self.spread()
        margin: Numbers = stdtrit(freedom, 0.975) * error
        return margin

    def spread(self) -> tuple[Numbers, Numbers]:
        """The mean's degrees of freedom and its standard error, (S, L, nh): see ``margin``."""
        number, n2, n3, nt, t2 = self.close().documents
        with np.errstate(invalid="ignore", divide="ignore"):
            mean, n = self.mean, np.where(number < FEWEST, np.nan, self.count)
            residuals = np.maximum(t2 - 2 * mean * nt + mean**2 * n2, 0)  # Σ (t − mean·n)²
            error: Numbers = np.sqrt(residuals / (1 - 2 * n3 / n2 / n + n2 / n**2)) / n
            freedom: Numbers = n**2 / n2 - 1
        return freedom, error

    def close(self, but: Collection[int] = ()) -> Sums:
        """Close every open document, except those with the numbers ``but``."""
        done = [_document_sums(*self.open[number]) for number in sorted(self.open.keys() - but)]
        still_open = {number: both for number, both in self.open.items() if number in but}
        return replace(self, documents=reduce(_add, done, self.documents), open=still_open)


def _document_sums(count: Counts, total: Numbers) -> Documents:
    n: Numbers = count.astype(np.float64)
    return Documents(np.sign(n), n**2, n**3, n * total, total**2)


def _add(first: Documents, second: Documents) -> Documents:
    return Documents(*(a + b for a, b in zip(first, second, strict=True)))


def passage_sums(scores: Numbers, where: list[Where], texts: list[str]) -> Sums:
    """The sums of P passages' scores (P, S, L, nh), all documents open; NaN is no score."""
    there = ~np.isnan(scores)
    values = np.where(there, scores, 0)
    positions = np.array(where, np.int64).reshape(len(where), 1, 1, 1, 3)
    best = _best(
        np.moveaxis(np.where(there, scores, -np.inf), 0, -1),
        np.moveaxis(np.broadcast_to(positions, (*scores.shape, 3)), 0, -2),
        dict(zip(where, texts, strict=True)),
    )
    numbers = positions[:, 0, 0, 0, 0]
    opened = {
        int(n): (there[numbers == n].sum(axis=0), values[numbers == n].sum(axis=0))
        for n in np.unique(numbers)
    }
    none = Documents(*np.zeros((5, *scores.shape[1:])))
    return Sums(there.sum(axis=0), values.sum(axis=0), none, opened, *best)


def merge(first: Sums, second: Sums) -> Sums:
    """Add up two sums. The order doesn't affect which best passages are kept."""
    best = _best(
        np.concatenate([first.best, second.best], axis=-1),
        np.concatenate([first.where, second.where], axis=-2),
        {**first.texts, **second.texts},
    )
    opened = {**first.open, **second.open}
    for n in first.open.keys() & second.open.keys():
        (count, total), (more, added) = first.open[n], second.open[n]
        opened[n] = count + more, total + added
    documents = _add(first.documents, second.documents)
    return Sums(first.count + second.count, first.total + second.total, documents, opened, *best)


def merge_all(every: Iterable[Sums]) -> Sums:
    """Add up all sums, in order."""
    return reduce(merge, every)


def _best(
    values: Numbers, where: Counts, texts: Mapping[Where, str]
) -> tuple[Numbers, Counts, Mapping[Where, str]]:
    """The ``BEST`` highest of (…, N), earlier passages first among equals, and their texts."""
    missing = max(0, BEST - values.shape[-1])
    values = np.pad(values, [(0, 0)] * 3 + [(0, missing)], constant_values=-np.inf)
    where = np.pad(where, [(0, 0)] * 3 + [(0, missing), (0, 0)])
    earlier = (where[..., 1], where[..., 2], where[..., 0])  # token, part, document
    order = np.lexsort((*earlier, -values), axis=-1)[..., :BEST]
    values = np.take_along_axis(values, order, axis=-1)
    where = np.take_along_axis(where, order[..., None], axis=-2)
    named = {Where(*position) for position in where[np.isfinite(values)].tolist()}
    return values, where, {position: texts[position] for position in sorted(named)}


def save(sums: Sums, path: Path) -> None:
    """Write sums to a file atomically."""
    positions = list(sums.texts)
    opened = np.array(list(sums.open.values())).reshape(-1, 2, *sums.count.shape)
    with whole(path) as partial, partial.open("wb") as file:
        np.savez_compressed(
            file,
            count=sums.count,
            total=sums.total,
            documents=np.array(sums.documents),
            open=opened,
            numbers=np.array(list(sums.open), np.int64),
            best=sums.best,
            where=sums.where,
            places=np.array(positions, np.int64).reshape(-1, 3),
            texts=np.array([sums.texts[position] for position in positions], np.str_),
        )


def load(path: Path) -> Sums:
    """Read what ``save`` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        positions = [Where(*position) for position in stored["places"].tolist()]
        opened = zip(stored["numbers"].tolist(), stored["open"], strict=True)
        return Sums(
            stored["count"],
            stored["total"],
            Documents(*stored["documents"]),
            {number: (count.astype(np.int64), total) for number, (count, total) in opened},
            stored["best"],
            stored["where"],
            dict(zip(positions, map(str, stored["texts"]), strict=True)),
        )

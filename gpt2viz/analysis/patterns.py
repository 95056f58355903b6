"""Patterns that a user draws, and the similarity of heads' weights to them and to each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpt2viz.analysis.scores import Scores
from gpt2viz.arrays import Array, Numbers, Pairs
from gpt2viz.model.mask import hidden_pairs
from gpt2viz.run.trace import Trace

Kind = Literal["back", "column", "block", "stripes", "empty"]


class Cell(NamedTuple):
    """A query and a key, both from 0; written ``3:1``."""

    query: int
    key: int

    def __str__(self) -> str:
        return f"{self.query}:{self.key}"


def draw(kind: Kind, n_tokens: int, n: int, toggled: Iterable[Cell], causal: bool) -> Pairs:
    """The cells (T, T) of a drawn pattern, none of a later key if ``causal``.

    - ``back``: the key ``n`` tokens before the query, 0 for the query itself;
    - ``column``: key ``n`` from every query;
    - ``block``: keys of the query's own block, where the text is cut every ``n`` tokens;
    - ``stripes``: the keys n, 2n, 3n … tokens before the query;
    - ``empty``: none.

    Each of the ``toggled`` cells is then flipped: added, or removed. Cells outside the text are
    left out.
    """
    query, key = np.arange(n_tokens)[:, None], np.arange(n_tokens)
    pairs: dict[Kind, Pairs] = {
        "back": query - key == n,
        "column": np.broadcast_to(key == n, (n_tokens, n_tokens)),
        "block": query // max(n, 1) == key // max(n, 1),
        "stripes": (query > key) & ((query - key) % max(n, 1) == 0),
        "empty": np.zeros((n_tokens, n_tokens), bool),
    }
    result = pairs[kind].copy()
    for cell in toggled:
        if max(cell) < n_tokens:
            result[cell.query, cell.key] ^= True
    seen: Pairs = ~hidden_pairs(np.arange(n_tokens), causal)
    return result & seen


def as_weights(pairs: Pairs) -> Array:
    """The weights of a head that attends only to a pattern, equal within each row: (T, T).

    A row with cells of the pattern sums to 1, the others to 0.
    """
    rows = pairs.astype(np.float32)
    weights: Array = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)
    return weights


def similarity(weights: Array, pairs: Pairs) -> Scores:
    """Cosine similarity of weights and a drawn pattern: (…, T, T) -> (…), in [0, 1].

    ⟨w, p⟩ / (‖w‖ · ‖p‖) with p the pattern ``as_weights``, over the rows with a cell of it.
    The first query is left out, as under the causal mask it sees only itself. NaN where no row is
    left.
    """
    return _cosine(weights, as_weights(pairs), 1 + np.flatnonzero(pairs[1:].any(axis=1)))


def likeness(weights: Array, head: Array) -> Scores:
    """Cosine similarity of weights and those of one head, (T, T): (…, T, T) -> (…), in [0, 1].

    As ``similarity``, over all rows but the first.
    """
    return _cosine(weights, head, np.arange(1, len(head)))


def _cosine(weights: Array, target: Array, rows: NDArray[np.int64]) -> Scores:
    if not rows.size:
        return np.full(weights.shape[:-2], np.nan)
    theirs, ours = weights[..., rows, :], target[rows]
    shared = np.einsum("...qk,qk->...", theirs, ours, dtype=np.float64)
    squares = np.einsum("...qk,...qk->...", theirs, theirs, dtype=np.float64)
    cosine: Scores = shared / np.sqrt(squares * (ours.astype(np.float64) ** 2).sum())
    return cosine


def parse_cells(text: str) -> tuple[Cell, ...]:
    """Cells from their short form, such as ``3:1,4:2``. Raises ``ValueError`` for anything else."""
    if not re.fullmatch(r"(\d+:\d+(,\d+:\d+)*)?", text, re.ASCII):
        raise ValueError(text)
    return tuple(Cell(*map(int, pair)) for pair in re.findall(r"(\d+):(\d+)", text))


def remap_cells(cells: Iterable[Cell], to: Callable[[int], int | None]) -> tuple[Cell, ...]:
    """The cells moved by ``to``, without those of a token for which it is None."""
    moved = ((to(cell.query), to(cell.key)) for cell in cells)
    return tuple(Cell(q, k) for q, k in moved if q is not None and k is not None)


#: Bytes of weights held at a time, of all heads together.
BLOCK_BYTES = 128 * 2**20


def similarities(trace: Trace) -> Numbers:
    """Cosine similarity of every pair of heads' weights: (H, H), in [0, 1].

    H = n_layer · n_head heads, layer by layer. As ``likeness``: ⟨w, u⟩ / (‖w‖ · ‖u‖) over
    all rows but the first. NaN for a text of one token. The products are summed over blocks of
    queries, so that memory is bounded however long the text.
    """
    T, config = len(trace.token_ids), trace.config
    H = config.n_layer * config.n_head
    products = np.zeros((H, H))
    step = max(1, BLOCK_BYTES // (4 * H * T))
    for start in range(1, T, step):
        queries = slice(start, min(start + step, T))
        n_keys = queries.stop if trace.causal else T  # later keys have weight 0 in all heads
        block = np.empty((H, queries.stop - start, n_keys), np.float32)
        for layer in range(config.n_layer):
            heads = slice(layer * config.n_head, (layer + 1) * config.n_head)
            block[heads] = trace.weights_of_queries(layer, queries)[..., :n_keys]
        rows = block.reshape(H, -1)
        products += rows @ rows.T
    lengths = np.sqrt(np.diagonal(products))
    with np.errstate(invalid="ignore"):
        cosine: Numbers = np.clip(products / np.outer(lengths, lengths), 0, 1)
    return cosine

"""Which heads do the same on a text: how alike every two heads' attention weights are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpt2viz.run.trace import Trace

#: Bytes of weights that are held at a time, of all heads together.
BLOCK_BYTES = 128 * 2**20


def similarities(trace: Trace) -> NDArray[np.float64]:
    """Cosine similarity of every two heads' weights: (H, H), in [0, 1].

    H = n_layer · n_head heads, layer by layer. As ``patterns.likeness``: ⟨w, u⟩ / (‖w‖ · ‖u‖) over
    all rows but the first. NaN for a text of one token. Some queries of all heads at a time, so
    that the memory is bounded however long the text: the products of their rows add up.
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
        cosine: NDArray[np.float64] = np.clip(products / np.outer(lengths, lengths), 0, 1)
    return cosine

"""From logits to the next token: temperature, top-k, top-p and surprise.

Everything works on one position's logits (n_vocab,) at a time, in double precision: a long text
over a large vocabulary never becomes one (T, n_vocab) array.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Array, Numbers, largest
from gpt2viz.errors import ArgumentError
from gpt2viz.run.trace import Trace, check_trace

Probabilities = Numbers

#: Positions whose logits are computed together: 64 × 50,257 of them take 26 MB in double.
CHUNK = 64


def softmax(logits: NDArray[np.floating]) -> Probabilities:
    """exp(x) / Σ exp(x) over the last axis, in double precision; the shape stays."""
    exponentials = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    probabilities: Probabilities = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return probabilities


def log_softmax(logits: NDArray[np.floating]) -> Probabilities:
    """x − ln Σ exp(x) over the last axis, in double precision; the shape stays.

    It is finite even where ``softmax`` is so small that it is 0 in double precision.
    """
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    logs: Probabilities = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logs


def sampling_distribution(
    logits: Array, *, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0
) -> Probabilities:
    """The distribution to draw from: (n_vocab,) logits -> (n_vocab,) probabilities that sum to 1.

    The logits are divided by ``temperature``; 0 stands for its limit, the one most probable
    token. Then only the ``top_k`` most probable tokens stay (Fan et al. 2018, "Hierarchical
    Neural Story Generation", section 5.4), and of these the fewest whose probabilities reach
    ``top_p`` (Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", section 3.1).
    The rest are rescaled to sum to 1. Among equals the lower id comes first.

    Raises ``ArgumentError`` for a temperature below 0, a ``top_k`` below 1 or a ``top_p`` outside
    (0, 1].
    """
    check_settings(temperature, top_k, top_p)
    if temperature == 0:
        top_k, probabilities = 1, np.ones(len(logits))
    else:
        lower = logits.astype(np.float64) - logits.max()
        with np.errstate(over="ignore"):  # a temperature near 0 gives −∞
            probabilities = softmax(lower / temperature)
    if top_k is None and top_p == 1:
        return probabilities
    ids = largest(logits, top_k or len(logits))
    if top_p < 1:
        shares = probabilities[ids] / probabilities[ids].sum()
        ids = ids[: np.searchsorted(shares.cumsum(), top_p) + 1]
    out = np.zeros(len(logits))
    out[ids] = probabilities[ids] / probabilities[ids].sum()
    return out


def check_settings(temperature: float, top_k: int | None, top_p: float, seed: int = 0) -> None:
    """Raise ``ArgumentError`` for what ``sampling_distribution`` refuses, and a seed below 0."""
    if not temperature >= 0:  # NaN is neither
        raise ArgumentError(f"temperature must be 0 or more, not {temperature}")
    if top_k is not None and top_k < 1:
        raise ArgumentError(f"top_k must be 1 or more, not {top_k}")
    if not 0 < top_p <= 1:
        raise ArgumentError(f"top_p must be above 0 and at most 1, not {top_p}")
    if seed < 0:
        raise ArgumentError(f"seed must be 0 or more, not {seed}")


def surprise(trace: Trace) -> Probabilities:
    """−log₂ p of every token given those before it, in bits: (T,), NaN for the first token.

    Shannon 1948, "A Mathematical Theory of Communication". With the mask off the numbers say how
    well the model *recognises* a token that it has already seen, not how well it predicts it.
    """
    check_trace(trace)
    bits = np.full(len(trace.token_ids), np.nan)
    states = trace.stage("final_norm")[0]  # (T, C)
    for start in range(0, len(bits) - 1, CHUNK):
        rows = states[start : min(start + CHUNK, len(bits) - 1)]
        logs = log_softmax(rows @ trace.unembedding.T)  # (≤ chunk, n_vocab)
        following = np.array(trace.token_ids[start + 1 : start + 1 + len(rows)])
        bits[start + 1 : start + 1 + len(rows)] = -logs[np.arange(len(rows)), following] / np.log(2)
    return bits


def entropy(probabilities: Probabilities) -> float:
    """−Σ p log₂ p in bits, of (n_vocab,): 0 if one is certain, log₂ n_vocab if all are equal."""
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log2(positive)).sum()) + 0.0  # no −0


def divergence(new: NDArray[np.floating], old: NDArray[np.floating]) -> float:
    """Kullback-Leibler divergence of (n_vocab,) ``new`` logits' probabilities from ``old``'s.

    Σ p_old log₂(p_old / p_new), in bits: how many more bits a token of the old distribution
    costs if coded for the new one (Kullback & Leibler 1951). 0 if both are the same. Raises
    ``ArgumentError`` unless both are the logits of one position.
    """
    if np.ndim(new) != 1 or np.shape(new) != np.shape(old):
        raise ArgumentError("Give one position's logits twice, (n_vocab,): trace.logits_at(-1)")
    log_old, log_new = log_softmax(old), log_softmax(new)
    return float((np.exp(log_old) * (log_old - log_new)).sum() / np.log(2))

"""Beyond the weights: how much a token really contributes to another.

A large weight on a short value vector moves little, and a layer mixes what earlier ones mixed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpt2viz.arrays import Array
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.edits import attention_is_off, head_scale_factors
from gpt2viz.run.trace import Trace, check_run


def value_weighted(model: Model, trace: Trace, layer: int) -> Array:
    """‖α v W_O‖: the length of each key's contribution to each query, (nh, T, T).

    Kobayashi et al. 2020, "Attention is Not Only a Weight: Analyzing Transformers with Vector
    Norms", section 3: the weight α times the key's value vector (its bias included), projected
    by the head's rows of W_O. In units of the residual stream, 0 or more. Edits count: scaled
    heads contribute more or less, and no key does where attention is off, or a head outputs
    0 or a mean. Raises ``PlaceError`` for a layer that the model doesn't have, ``ArgumentError``
    for a trace of another model.
    """
    weights, v = _weights_and_values(trace, layer)
    with np.errstate(over="ignore", invalid="ignore"):  # the page warns about the run itself
        lengths = np.linalg.norm(v @ _projection(model, trace, layer), axis=-1)  # (nh, T)
    weighted: Array = weights * lengths[:, None, :]
    return weighted


def key_norm(model: Model, trace: Trace, layer: int, query: int, keys: Sequence[int]) -> Array:
    """‖Σ α v W_O‖: the length of the contribution of ``keys`` together to ``query``: (nh,).

    As ``value_weighted``, which it equals for one key. Several vectors are added before the
    length is taken: they may point in different directions. Raises ``PlaceError`` for a layer or
    token that doesn't exist, ``ArgumentError`` for a trace of another model.
    """
    weights, v = _weights_and_values(trace, layer)
    query, at = trace.index_of(query), [trace.index_of(key) for key in keys]
    mixed = np.einsum("hk,hkd->hd", weights[:, query, at], v[:, at])  # (nh, hs)
    written = np.einsum("hd,hdc->hc", mixed, _projection(model, trace, layer))  # (nh, C)
    length: Array = np.linalg.norm(written, axis=-1)
    return length


def difference_from_run(model: Model, trace: Trace, layer: int) -> tuple[float, float]:
    """Check that a layer's weights are what the model used: (difference, largest number).

    Weights times v for every head, merged and projected (W_O, b_O), are compared with what the
    run itself added to the residual stream; the first number is the largest distance over all
    tokens and channels (T, C), the second the largest number of the addition. Edits count:
    a head's output that an edit set to 0 or a mean is used as it is, and both numbers are 0
    where attention is off. Raises what ``value_weighted`` does.
    """
    weights, v = _weights_and_values(trace, layer)
    heads: Array = weights @ v  # (nh, T, hs)
    fixed = head_scale_factors(trace.edits, layer, len(heads)) == 0
    heads[fixed] = trace.stage("head_output", layer)[0, fixed]
    merged = heads.transpose(1, 0, 2).reshape(len(trace.tokens), -1)  # (T, C)
    projection = _projection(model, trace, layer)
    bias = model.output_weights(layer)[1].detach().cpu().numpy()
    written = merged @ projection.reshape(-1, projection.shape[-1]) + bias
    if attention_is_off(trace.edits, layer):
        written[:] = 0
    added = trace.stage("attention_output", layer)[0]
    return float(np.abs(written - added).max()), float(np.abs(added).max())


def _weights_and_values(trace: Trace, layer: int) -> tuple[Array, Array]:
    """The weights (nh, T, T) and values (nh, T, hs) that a layer's heads mix, after edits.

    Values are a head's own or its group's. Those of a scaled head are scaled; both are 0 where no
    key contributes.
    """
    config, weights = trace.config, trace.stage("weights", layer)[0]
    v = trace.stage("v", layer)[0, [config.group_of(head) for head in range(config.n_head)]]
    factors = head_scale_factors(trace.edits, layer, len(v))[:, None, None]
    if attention_is_off(trace.edits, layer):
        factors[:] = 0
    if (factors == 1).all():
        return weights, v
    return np.where(factors, weights, 0), np.where(factors, factors * v, 0)  # NaN times 0 is NaN


def _projection(model: Model, trace: Trace, layer: int) -> Array:
    """W_O of a layer, cut by head: (nh, hs, C)."""
    check_run(trace, model)
    return model.output_weights(layer)[0].detach().cpu().numpy()


def rollout(trace: Trace, layer: int) -> Array:
    """Attention rollout: each input token's share in every token after ``layer``: (T, T).

    Attention rollout (Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers",
    equation 1): the mean of a layer's heads, averaged with the identity for the residual stream,
    multiplied down to the first layer. It ignores values, MLPs and norms; but heads that edits
    leave without contributions are left out, and a layer of such heads mixes nothing. Raises
    ``PlaceError`` for a layer that the model doesn't have.
    """
    trace.stage("q", layer)  # raises if there is no such layer
    identity: Array = np.eye(len(trace.tokens), dtype=np.float32)
    mixed = identity
    for n in range(layer + 1):
        weights = trace.stage("weights", n)[0]
        used = head_scale_factors(trace.edits, n, len(weights)) != 0
        if used.any() and not attention_is_off(trace.edits, n):
            mixed = (weights[used].mean(axis=0) + identity) / 2 @ mixed
    return mixed


def drop_first(weights: Array) -> Array:
    """Rows rescaled to sum to 1 without the first key: (…, T, T) -> (…, T, T), column 0 NaN.

    Many heads rest on the first token (Xiao et al. 2023, "Efficient Streaming Language Models
    with Attention Sinks"); this shows how they divide the rest. A row with nothing left, such
    as the first token's own, is all NaN.
    """
    rest = weights.astype(np.float64)
    rest[..., 0] = np.nan
    total = np.nansum(rest, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        rescaled: Array = np.where(total > 0, rest / total, np.nan).astype(np.float32)
    return rescaled

"""From the residual stream to the prediction: when it is decided, and what contributed to it.

Both methods read the stream as the model's own last step does: with the final norm, then the
unembedding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpt2viz.analysis.cell import HeadCell
from gpt2viz.analysis.comparison import stream_sites, vector_at
from gpt2viz.analysis.explanation import Part, value_parts
from gpt2viz.analysis.sampling import CHUNK
from gpt2viz.arrays import Array, Numbers, largest
from gpt2viz.errors import ArgumentError
from gpt2viz.labels import pluralize
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.devices import double
from gpt2viz.model.transformer import Norm
from gpt2viz.run.edits import attention_is_off, check_decomposable, head_scale_factors
from gpt2viz.run.trace import Trace, check_run
from gpt2viz.run.tracer import token_id


@dataclass(frozen=True, eq=False, repr=False)
class LogitLens:
    """The model's predictions if the stream stopped at each of S points.

    ``sites`` are (stage key, layer): the embedding, then after attention and after the MLP of
    every layer. ``positions`` are the P tokens read. The arrays are (S, P): ``top`` the
    vocabulary ids of the most probable tokens, ``probability`` theirs, ``entropy`` of the whole
    distribution in bits, and ``rank`` that of ``answer`` (P,), by default the model's own token at
    the end of the stream: 1 is the most probable.
    """

    sites: tuple[tuple[str, int | None], ...]
    positions: tuple[int, ...]
    top: NDArray[np.int64]
    probability: Numbers
    entropy: Numbers
    rank: NDArray[np.int64]
    answer: NDArray[np.int64]

    def __repr__(self) -> str:
        S, P = self.top.shape
        read = f"{pluralize(P, 'tokens')} read at {pluralize(S, 'places')} of the stream"
        return f"LogitLens: {read}, arrays ({S}, {P})"


def logit_lens(
    model: Model,
    trace: Trace,
    positions: Sequence[int] | None = None,
    answers: Sequence[int | str] | None = None,
) -> LogitLens:
    """Read the stream after every step as if it were the last (nostalgebraist 2020).

    "interpreting GPT: the logit lens": final norm and unembedding of a stream (T, C) that
    they were not trained for; the result is a reading, not a prediction of the model, except at
    the end of the stream. ``positions`` are the tokens to read
    at, all by default; no (T, n_vocab) array is kept. ``answers``, a token for each position by its
    id or text, are followed in place of the model's own, to compare two runs. Raises ``PlaceError``
    for a position that the text doesn't have or an id outside the vocabulary, ``TextError`` for a
    text that isn't one token, ``ArgumentError`` for a trace of another model or another number of
    answers.
    """
    check_run(trace, model)
    read = range(len(trace.token_ids)) if positions is None else positions
    chosen = [trace.index_of(position) for position in read]
    sites = stream_sites(model.config.n_layer)[1:]  # not the token without its position
    shape = (len(sites), len(chosen))
    top, rank = np.empty(shape, np.int64), np.empty(shape, np.int64)
    probability, entropy = np.empty(shape), np.empty(shape)
    given = [0] * len(chosen) if answers is None else [token_id(model, token) for token in answers]
    answer = np.array(given, np.int64)
    if len(answer) != len(chosen):
        raise ArgumentError(f"{len(chosen)} positions need as many answers, not {len(answer)}")
    at_a_time = max(1, CHUNK // len(sites))
    for start in range(0, len(chosen), at_a_time):
        some = slice(start, start + at_a_time)
        stream = np.stack([trace.stage(*site)[0, chosen[some]] for site in sites])  # (S, P, C)
        logits = _stream_logits(model, stream)  # (S, P, n_vocab)
        if answers is None:
            answer[some] = logits[-1].argmax(dim=-1).numpy()
        followed = torch.from_numpy(answer[some])[None, :, None].expand(len(sites), -1, 1)
        logs = logits.log_softmax(dim=-1)
        best = logs.max(dim=-1)
        top[:, some], probability[:, some] = best.indices.numpy(), best.values.exp().numpy()
        entropy[:, some] = torch.special.entr(logs.exp()).sum(dim=-1).numpy() / np.log(2)
        rank[:, some] = 1 + (logits > logits.gather(2, followed)).sum(dim=-1).numpy()
    return LogitLens(sites, tuple(chosen), top, probability, entropy, rank, answer)


def _stream_logits(model: Model, stream: Array) -> Tensor:
    """Final norm and unembedding: streams (…, C) -> logits (…, n_vocab) in double.

    With ``forward``, which calls no hooks: a run in another thread may have hooked the modules.
    """
    network = model.network
    with torch.inference_mode():
        normed = network.final_norm.forward(torch.from_numpy(stream).to(network.device))
        return network.lm_head.forward(normed).cpu().double()  # MPS has no double


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """Each part's contribution to one logit, or to the difference of two.

    ``heads`` is (n_layer, n_head), ``attention_bias`` and ``mlp`` are (n_layer,), the others one
    number each; None is a part that the model doesn't have. They sum to ``total``, which equals
    ``logit``, the model's own number, except for rounding.
    """

    position: int
    token: int
    versus: int | None
    logit: float
    token_embedding: float
    position_embedding: float | None
    heads: Numbers
    attention_bias: Numbers | None
    mlp: Numbers
    norm_bias: float | None

    def __repr__(self) -> str:
        n_layer, n_head = self.heads.shape
        against = "" if self.versus is None else f" − {self.versus}"
        return (
            f"Contributions to the logit of token {self.token}{against} after position "
            f"{self.position}: {self.logit:.4f} nats, from {pluralize(n_layer, 'layers')} of "
            f"{pluralize(n_head, 'heads')}"
        )

    @property
    def parts(self) -> dict[Part, float]:
        """Every part by its name, as in ``Route.rest``, with every head's."""
        parts = {
            Part("token"): self.token_embedding,
            Part("position"): self.position_embedding,
            Part("constant"): self.norm_bias,
        }
        for layer, heads in enumerate(self.heads):
            parts |= {Part("head", layer, head): float(added) for head, added in enumerate(heads)}
            if self.attention_bias is not None:
                parts[Part("bias", layer)] = float(self.attention_bias[layer])
            parts[Part("mlp", layer)] = float(self.mlp[layer])
        return {part: added for part, added in parts.items() if added is not None}

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return sum(self.parts.values())


def contributions(
    model: Model,
    trace: Trace,
    token: int | str,
    versus: int | str | None = None,
    position: int = -1,
) -> Contributions:
    """Decompose a logit after the token at ``position`` by what each part wrote.

    The stream is a sum of what the embeddings, heads and MLPs wrote (Elhage et al. 2021, "A
    Mathematical Framework for Transformer Circuits"). With the final norm's scale frozen at the one
    of this run, the logit is linear in the stream: each part x adds ((x − mean x) / σ · gain) · u,
    without a mean for RMSNorm. Here u is the token's row of the unembedding, or the difference of
    two rows where ``versus`` is given; both are ids or texts. Unit: nats of logit. It leaves out
    a part's indirect effects, through later parts. A part that is switched off wrote nothing.

    Raises ``PlaceError`` for a position that the text doesn't have or an id outside the
    vocabulary, ``TextError`` for a text that isn't one token, ``EditError`` for an edit after
    which the run can't be decomposed, and ``ArgumentError`` for a trace of another model.
    """
    whole = route(model, trace, token, position, versus)
    rest, heads = whole.rest, whole.heads.sum(axis=2)
    for part in rest:
        if part.kind == "head":
            heads[part.of_head] = rest[part]
    biases, mlps = ([rest[p] for p in rest if p.kind == kind] for kind in ("bias", "mlp"))
    return Contributions(
        position=whole.query,
        token=whole.token,
        versus=whole.versus,
        logit=whole.logit,
        token_embedding=rest[Part("token")],
        position_embedding=rest.get(Part("position")),
        heads=heads,
        attention_bias=np.array(biases) if biases else None,
        mlp=np.array(mlps),
        norm_bias=rest.get(Part("constant")),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Route:
    """One logit, or the difference of two, split by the tokens that every head attended to.

    ``heads`` (n_layer, n_head, T) is the contribution of each source token through each head.
    ``rest`` has everything else by its ``Part``: "token" and "position", the query's embeddings;
    "bias 0" and "mlp 0" of every layer; "constant", the final norm's bias; "head 0.1" where an edit
    put a mean, which came from no token of this text; and "rounding", of the run's float32.
    ``heads`` and ``rest`` sum to ``logit``, the run's own number.
    """

    query: int
    token: int
    versus: int | None
    logit: float
    heads: Numbers
    rest: Mapping[Part, float]
    _model: Model = field(repr=False)
    _trace: Trace = field(repr=False)
    _shares: Numbers = field(repr=False)  # (n_layer, n_head, T): weights as edits scale them
    _toward: Numbers = field(repr=False)  # (n_layer, n_head, hs): W_O along the logit

    def top(self, n: int = 10) -> list[tuple[HeadCell, float]]:
        """The ``n`` largest of ``heads`` in size, largest first: ``key`` is the source token."""
        flat = largest(np.abs(self.heads).ravel(), n)
        cells = np.transpose(np.unravel_index(flat, self.heads.shape)).tolist()
        return [
            (HeadCell(layer, head, self.query, key), float(self.heads[layer, head, key]))
            for layer, head, key in cells
        ]

    def opened(self, layer: int, head: int, source: int) -> dict[Part, float]:
        """Split one cell by what wrote the source token's value.

        The parts are named as those of ``ScoreExplanation``, with b_V in "constant"; with
        "rounding" they sum to the cell. The weight and all norms' scales are fixed. Raises
        ``PlaceError`` for a layer, head or token that doesn't exist.
        """
        values = value_parts(self._model, self._trace, layer, head, source)
        along = self._shares[layer, head, source] * self._toward[layer, head]  # (hs,)
        parts = {part: float(value @ along) for part, value in values.items()}
        return _add_rounding(parts, float(self.heads[layer, head, source]))

    def __repr__(self) -> str:
        n_layer, n_head, T = self.heads.shape
        against = "" if self.versus is None else f" − {self.versus}"
        return (
            f"Route to the logit of token {self.token}{against} after position {self.query}: "
            f"{self.logit:.4f} nats, by {n_layer} × {n_head} heads from {pluralize(T, 'tokens')}"
        )


def route(
    model: Model,
    trace: Trace,
    token: int | str,
    query: int | None = None,
    versus: int | str | None = None,
) -> Route:
    """Decompose a logit after the token at ``query``, the last by default, by source tokens.

    As ``contributions``, with every head split: its output is a sum over the tokens that it
    attended to, of weight times value through W_O. The run's weights and norms' scales are fixed,
    so nothing is left over, in double precision. An edited run's weights and outputs are those
    after the edits.

    Raises what ``contributions`` raises.
    """
    return routes(model, trace, [token], query, versus)[0]


def routes(
    model: Model,
    trace: Trace,
    tokens: Sequence[int | str],
    query: int | None = None,
    versus: int | str | None = None,
) -> list[Route]:
    """As ``route``, for several tokens, reading each layer's W_O only once."""
    check_run(trace, model)
    check_decomposable(trace.edits)
    ids = [token_id(model, token) for token in tokens]
    versus = None if versus is None else token_id(model, versus)
    query = trace.index_of(-1 if query is None else query)
    norm = Norm.of(model.network.final_norm)
    sigma = norm.sigma(vector_at(trace, ("residual_out", model.config.n_layer - 1), query))
    rows = [_unembedding(model, token, versus) for token in ids]
    # Centring the direction is the same as subtracting the mean from every part.
    directions = [norm.centre(norm.gain * u / sigma) for u in rows]  # (C,) each
    by_layer = (model.output_weights(n)[0] for n in range(model.config.n_layer))  # (nh, hs, C)
    toward = np.array([[W_O @ d for d in directions] for W_O in map(double, by_layer)])
    return [
        _route(model, trace, query, token, versus, u, direction, toward[:, n])
        for n, (token, u, direction) in enumerate(zip(ids, rows, directions, strict=True))
    ]


def _route(
    model: Model,
    trace: Trace,
    query: int,
    token: int,
    versus: int | None,
    u: Numbers,
    direction: Numbers,
    toward: Numbers,
) -> Route:
    """The route of one token: its row ``u`` of the unembedding (C,), the ``direction`` in the
    stream that its logit measures, and that in each head's output, ``toward`` (n_layer, nh, hs)."""
    config, T = model.config, len(trace.token_ids)
    norm = Norm.of(model.network.final_norm)
    heads, shares = np.zeros((2, config.n_layer, config.n_head, T))
    rest = {Part("token"): float(vector_at(trace, ("token_embedding", None), query) @ direction)}
    if "position_embedding" in trace.graph:
        rest[Part("position")] = float(trace.stage("position_embedding")[query] @ direction)
    for n in range(config.n_layer):
        on = not attention_is_off(trace.edits, n)
        if on:
            shares[n], heads[n] = _shares(trace, n, query, toward[n])
            for head in np.flatnonzero(~shares[n].any(axis=1)).tolist():
                if (output := trace.stage("head_output", n, head)[query]).any():
                    rest[Part("head", n, head)] = float(output @ toward[n, head])
        if config.attention_bias:
            rest[Part("bias", n)] = float(on * (double(model.output_weights(n)[1]) @ direction))
        rest[Part("mlp", n)] = float(vector_at(trace, ("mlp_output", n), query) @ direction)
    if norm.centred:
        rest[Part("constant")] = float(norm.bias @ u)
    logit = float(vector_at(trace, ("final_norm", None), query) @ u)
    rest = _add_rounding(rest, logit, heads.sum())
    return Route(query, token, versus, logit, heads, rest, model, trace, shares, toward)


def _unembedding(model: Model, token: int, versus: int | None) -> Numbers:
    """A token's row of the unembedding, minus that of another if given: (C,)."""
    rows = model.network.lm_head.weight
    return double(rows[token]) - (0 if versus is None else double(rows[versus]))


def _shares(trace: Trace, layer: int, query: int, toward: Numbers) -> tuple[Numbers, Numbers]:
    """A query's weights, scaled by edits and 0 for heads with a fixed output, and these times the
    tokens' values along each head's direction ``toward`` (nh, hs): (nh, T) each.
    """
    weights = trace.weights_of_queries(layer, slice(query, query + 1))[:, 0].astype(np.float64)
    factors = head_scale_factors(trace.edits, layer, len(weights))[:, None]
    shares = np.where(factors, factors * weights, 0)
    v = trace.stage("v", layer)[0, [trace.config.group_of(head) for head in range(len(weights))]]
    with np.errstate(invalid="ignore"):
        along = (v.astype(np.float64) @ toward[:, :, None])[..., 0]  # (nh, T)
        return shares, np.where(shares, shares * along, 0)  # NaN times 0 is NaN


def _add_rounding(parts: dict[Part, float], whole: float, others: float = 0) -> dict[Part, float]:
    """Add float32's rounding in the run to the parts: with ``others`` they sum to the whole."""
    return parts | {Part("rounding"): float(whole - others - sum(parts.values()))}

"""From the residual stream to the prediction: when it is decided, and who wrote it.

Both methods read the stream as the model's own last step does: final norm, then the
unembedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpt2viz.analysis.comparison import stream_sites
from gpt2viz.analysis.sampling import CHUNK
from gpt2viz.errors import ArgumentError, PlaceError
from gpt2viz.labels import pluralize
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.devices import double
from gpt2viz.model.transformer import Norm
from gpt2viz.run.edits import attention_is_off, check_decomposable
from gpt2viz.run.stages import StageName
from gpt2viz.run.trace import Trace, check_run
from gpt2viz.run.tracer import token_id

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class LogitLens:
    """The model's predictions if the stream stopped at each of S places.

    ``sites`` are (stage key, layer): the embedding, then after attention and after the MLP of
    every layer. ``positions`` are the P tokens asked for. The arrays are (S, P): ``top`` the
    vocabulary ids of the most probable tokens, ``probability`` theirs, ``entropy`` of the whole
    distribution in bits, and ``rank`` the place of ``answer`` (P,), the model's own token at the
    end of the stream unless others were asked for: 1 is first.
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
    they were not trained for; what comes out is a reading, not a prediction of the model. Only
    the last place of the stream gives the model's own one. ``positions`` are the tokens to read
    at, all by default; no (T, n_vocab) array is kept. ``answers``, a token for each position by its
    id or text, are followed in place of the model's own, to compare two runs. Raises ``PlaceError``
    for a position that the text doesn't have, ``ArgumentError`` for a trace of another model or
    another number of answers.
    """
    check_run(trace, model)
    T = len(trace.token_ids)
    chosen = list(range(T) if positions is None else positions)
    for position in chosen:
        _index(position, T)
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
        logits = _read(model, stream)  # (S, P, n_vocab)
        if answers is None:
            answer[some] = logits[-1].argmax(dim=-1).numpy()
        followed = torch.from_numpy(answer[some])[None, :, None].expand(len(sites), -1, 1)
        logs = logits.log_softmax(dim=-1)
        best = logs.max(dim=-1)
        top[:, some], probability[:, some] = best.indices.numpy(), best.values.exp().numpy()
        entropy[:, some] = torch.special.entr(logs.exp()).sum(dim=-1).numpy() / np.log(2)
        rank[:, some] = 1 + (logits > logits.gather(2, followed)).sum(dim=-1).numpy()
    return LogitLens(sites, tuple(chosen), top, probability, entropy, rank, answer)


def _read(model: Model, stream: NDArray[np.float32]) -> Tensor:
    """Final norm and unembedding: streams (…, C) -> logits (…, n_vocab) in double.

    By ``forward``, which calls no hook: a run in another thread listens to the modules.
    """
    network = model.network
    with torch.inference_mode():
        normed = network.final_norm.forward(torch.from_numpy(stream).to(network.device))
        return network.lm_head.forward(normed).cpu().double()  # MPS has no double


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """The addition of each part of the model to one logit, or to the difference of two.

    ``heads`` is (n_layer, n_head), ``attention_bias`` and ``mlp`` are (n_layer,), the others one
    number each; None is a part that the model hasn't got. Together they are ``total``, which equals
    ``logit``, the model's own number, but for rounding.
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
    def total(self) -> float:
        """The sum of all parts."""
        parts = self.token_embedding, self.position_embedding, self.heads, self.attention_bias
        every = (*parts, self.mlp, self.norm_bias)
        return float(sum(np.sum(part) for part in every if part is not None))


def contributions(
    model: Model,
    trace: Trace,
    token: int | str,
    versus: int | str | None = None,
    position: int = -1,
) -> Contributions:
    """Take a logit after the token at ``position`` apart: who wrote how much of it.

    The stream is a sum of what the embeddings, heads and MLPs wrote (Elhage et al. 2021, "A
    Mathematical Framework for Transformer Circuits"). With the final norm's scale frozen at the one
    of this run, the logit is linear in the stream: each part x adds ((x − mean x) / σ · gain) · u,
    without a mean for RMSNorm. Here u is the token's row of the unembedding, or the difference of
    two rows where ``versus`` is given; both are ids or texts. Unit: nats of logit. Not in it: what
    a part did by changing what later parts read. A part switched off wrote nothing.

    Raises ``PlaceError`` for a position that the text doesn't have or an id outside the
    vocabulary, ``ArgumentError`` for a trace of another model.
    """
    check_run(trace, model)
    check_decomposable(trace.edits)
    token = token_id(model, token)
    versus = None if versus is None else token_id(model, versus)
    T, network = len(trace.token_ids), model.network
    position = _index(position, T)
    u = double(network.lm_head.weight[token])
    if versus is not None:
        u = u - double(network.lm_head.weight[versus])
    layers = range(model.config.n_layer)
    stage = partial(_at, trace, position)
    norm, end = Norm.of(network.final_norm), stage("residual_out", layers[-1])  # (C,)
    # To centre the direction is the same as taking the mean off every part.
    direction = norm.centre(norm.gain * u / norm.sigma(end))  # (C,)
    heads = np.array([_by_head(model, n, stage("head_output", n)) @ direction for n in layers])
    bias = np.array([double(model.merging(n)[1]) @ direction for n in layers])
    off = [attention_is_off(trace.edits, n) for n in layers]
    heads[off], bias[off] = 0, 0
    return Contributions(
        position=position,
        token=token,
        versus=versus,
        logit=float(stage("final_norm") @ u),
        token_embedding=float(stage("token_embedding") @ direction),
        position_embedding=_of_place(trace, position, direction),
        heads=heads,
        attention_bias=bias if model.config.attention_bias else None,
        mlp=np.array([stage("mlp_output", layer) @ direction for layer in layers]),
        norm_bias=float(norm.bias @ u) if norm.centred else None,
    )


def _at(trace: Trace, position: int, key: StageName, layer: int | None = None) -> Numbers:
    """A stage at one position, in double: (C,), or (nh, hs)."""
    here: Numbers = trace.stage(key, layer)[0][..., position, :].astype(np.float64)
    return here


def _of_place(trace: Trace, position: int, direction: Numbers) -> float | None:
    """The position's own vector along a direction (C,), where positions have vectors."""
    if "position_embedding" not in trace.graph:
        return None
    return float(trace.stage("position_embedding")[position] @ direction)


def _by_head(model: Model, layer: int, head_output: Numbers) -> Numbers:
    """Every head's output to the stream: (nh, hs) -> (nh, C)."""
    by_head = double(model.merging(layer)[0])  # (nh, hs, C)
    written: Numbers = np.einsum("hd,hdc->hc", head_output, by_head)
    return written


def _index(position: int, T: int) -> int:
    if not -T <= position < T:
        raise PlaceError(f"position {position} is outside {-T} to {T - 1}")
    return position % T

"""Continue a text: choose the next token from a trace, append it, run again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpt2viz.analysis.sampling import check_settings, log_softmax, sampling_distribution
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.trace import Trace, readable
from gpt2viz.run.tracer import token_ids
from gpt2viz.run.tracer import trace as run


@dataclass(frozen=True)
class Choice:
    """One token as the model saw it before it was appended.

    ``text`` is the token's own, for reading; for part of a character its bytes, as ``\\xNN``.
    ``probability`` is the model's own, over the whole vocabulary; ``rank`` 1 is the most
    probable token; ``surprise`` is −log₂ of the probability, in bits: finite even where the
    probability is so small that it is 0 in double precision.
    """

    token: int
    probability: float
    rank: int
    surprise: float
    text: str = ""


def draw(
    trace: Trace,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    seed: int = 0,
) -> int:
    """The id of the token that comes after the trace's last one.

    Drawn from ``sampling_distribution`` with the same arguments; temperature 0, the default,
    takes the most probable token ("greedy"). The draw depends only on the seed and the number of
    tokens, so going one step back and continuing gives the same text again. Raises
    ``ArgumentError`` for settings that ``sampling_distribution`` refuses, and a seed below 0.
    """
    check_settings(temperature, top_k, top_p, seed)
    shares = sampling_distribution(
        trace.logits_at(-1), temperature=temperature, top_k=top_k, top_p=top_p
    )
    quantile = np.random.default_rng([seed, len(trace.token_ids)]).random()
    upto = shares.cumsum()
    return int(np.searchsorted(upto, quantile * upto[-1], side="right"))


def appraise(trace: Trace, token: int, position: int = -1) -> Choice:
    """The model's probability of a token after the one at ``position``, by default the last."""
    logits = trace.logits_at(position)
    log_probability = log_softmax(logits)[token]
    rank = 1 + int((logits > logits[token]).sum())
    surprise = float(-log_probability / np.log(2)) + 0.0  # no −0
    text = readable(trace.spell(token))
    return Choice(token, float(np.exp(log_probability)), rank, surprise, text)


def generate(
    model: Model,
    text: str | Sequence[int],
    n_new: int,
    *,
    causal: bool = True,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    seed: int = 0,
) -> Iterator[Choice]:
    """Continue a text by up to ``n_new`` tokens, each chosen given all before it.

    Each is drawn by ``sampling_distribution`` and ``seed``; by default the most probable one. With
    the causal mask on, only the new token is run: see ``gpt2viz.trace``'s ``reuse``. Text and new
    tokens together never exceed ``n_positions``: a text that fills the context gets none. Ends
    there, or where the model ends the text. Raises what ``trace`` and ``sampling_distribution`` do.
    """
    check_settings(temperature, top_k, top_p, seed)
    ids, read = token_ids(model, text), None
    for _ in range(min(n_new, model.config.n_positions - len(ids))):
        read = run(model, ids, causal, reuse=read if causal else None)
        token = draw(read, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        yield appraise(read, token)
        ids.append(token)
        if token == model.tokenizer.end_of_text:
            return

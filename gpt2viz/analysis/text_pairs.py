"""Two texts to patch between: a second one for a first, and answers that tell their runs apart."""

from __future__ import annotations

import numpy as np
import torch

from gpt2viz.analysis.sampling import divergence, sampling_distribution
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.forward import run_from
from gpt2viz.run.trace import Trace

#: Tokens that are tried, from the last one back, and tokens that may take the place of each.
_PLACES, _GUESSES = 16, 20
#: Tokens that go through the model at once while they are tried.
_AT_ONCE = 1024


def one_token_changed(model: Model, run: Trace) -> list[int] | None:
    """The ids of a run's text with one token changed, such that the prediction changes most.

    At each of the last places but the very last, the token that the model found most probable
    there takes the place of the one that stands there; of these texts it is the one whose
    prediction at the end is furthest from the run's own, by the Kullback-Leibler divergence. None
    where no such text is read as the same number of tokens again.
    """
    ids, T = list(run.token_ids), len(run.token_ids)
    own = model.tokenizer.own(ids)
    places = range(max(own.start, own.stop - 1 - _PLACES), max(own.stop - 1, 1))
    found = [text for t in reversed(places) if (text := _changed(model, run, t)) is not None]
    tried = found[: max(1, _AT_ONCE // T)]
    if not tried:
        return None
    network = model.network
    with torch.inference_mode():
        read = torch.tensor(tried, device=network.wte.weight.device)  # (B, T)
        streams = network.wte.weight[read] + network.wpe.weight[:T]  # (B, T, C)
    logits = run_from(
        model, 0, streams, [], causal=run.causal, explicit=False, hidden=run.forbidden
    )
    before = run.logits_at(-1)
    return tried[int(np.argmax([divergence(one, before) for one in logits]))]


def _changed(model: Model, run: Trace, t: int) -> list[int] | None:
    """The ids with another token at ``t``: the most probable whose text is read so again."""
    ids = list(run.token_ids)
    own = model.tokenizer.own(ids)
    for new in np.argsort(-run.logits_at(max(t - 1, 0)), kind="stable")[:_GUESSES].tolist():
        text = [*ids[:t], new, *ids[t + 1 :]]
        again = model.tokenizer.encode_part(model.tokenizer.decode(text[own]))
        if new != ids[t] and again == text[own]:
            return text
    return None


def telling_answers(clean: Trace, corrupted: Trace) -> tuple[int, int]:
    """A right and a wrong next token, by their ids: each run's own most probable one.

    Where that is the same, the token whose probability falls most from the clean run to the
    corrupted one, and the one whose probability rises most.
    """
    before, after = (sampling_distribution(run.logits_at(-1)) for run in (clean, corrupted))
    right, wrong = int(before.argmax()), int(after.argmax())
    if right != wrong:
        return right, wrong
    change = after - before
    return int(change.argmin()), int(change.argmax())

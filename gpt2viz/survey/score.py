"""One shard scored: a pure function of the model and the texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from gpt2viz.analysis.batch_scores import attention_weights
from gpt2viz.analysis.scores import SCORES, Score
from gpt2viz.errors import SurveyError
from gpt2viz.model import devices
from gpt2viz.model.checkpoint import Model
from gpt2viz.survey.documents import Shard
from gpt2viz.survey.sums import Numbers, Sums, Where, merged, of_passages

#: Passages that go through the model together.
BATCH = 32
#: A passage of fewer tokens, the end of a document, is left out.
SHORTEST = 8


def score(
    model: Model,
    shard: Shard,
    n_tokens: int,
    device: str = "cpu",
    names: Sequence[str] | None = None,
) -> Sums:
    """Every score of every head on a shard's passages of ``n_tokens`` tokens each.

    Each document is cut into passages; what is left at its end is one too, if it has
    ``SHORTEST`` tokens. A passage is scored alone, as if nothing stood before it. Where ``names``
    are given, these scores and no others. Raises
    ``DeviceError`` where this machine has no such ``device``, ``SurveyError`` where it doesn't know
    a score, and ``PluginError`` where a score that others added can't be computed.
    """
    wanted = [_known(name) for name in (SCORES if names is None else names)]
    config, network = model.config, model.network.to(devices.find(device))
    found = [_nothing(len(wanted), config.n_layer, config.n_head)]
    for passages in _batches(model, shard, n_tokens):
        ids = [ids for _, ids in passages]
        layers = attention_weights(network, torch.tensor(ids, device=device))
        scores = np.stack(
            [
                [[one.measure(layer[n], ids[n]) for layer in layers] for one in wanted]
                for n in range(len(ids))
            ]
        )
        texts = [model.tokenizer.decode(row) for row in ids]
        found.append(of_passages(scores, [place for place, _ in passages], texts))
    return merged(found).closed(but=shard.cut)


def _known(name: str) -> Score:
    if name not in SCORES:
        raise SurveyError(
            f"A worker doesn't know the score {name!r}. Install the package that adds it on every "
            "machine, or take --workers 1 for one that only this program has."
        )
    return SCORES[name]


def _batches(model: Model, shard: Shard, n_tokens: int) -> Iterator[list[tuple[Where, list[int]]]]:
    """Passages of one length at a time, whole ones first, then the ends of documents."""
    by_length: dict[int, list[tuple[Where, list[int]]]] = {}
    for number, text in enumerate(shard.texts, start=shard.first):
        ids = model.tokenizer.encode(text)
        for start in range(0, len(ids), n_tokens):
            part = ids[start : start + n_tokens]
            if len(part) >= min(SHORTEST, n_tokens):
                place = Where(number, start, shard.part if number == shard.first else 0)
                by_length.setdefault(len(part), []).append((place, part))
    for length in sorted(by_length, reverse=True):
        some = by_length[length]
        yield from (some[n : n + BATCH] for n in range(0, len(some), BATCH))


def _nothing(n_scores: int, n_layer: int, n_head: int) -> Sums:
    none: Numbers = np.empty((0, n_scores, n_layer, n_head))
    return of_passages(none, [], [])

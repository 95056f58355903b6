"""The savings of a KV cache: running a text's last token alone, and caches that drop tokens.

With the causal mask on no token sees a later one, so keys and values stay the same when the
text continues, and a step computes those of its own token only (Pope et al. 2022, "Efficiently
Scaling Transformer Inference"). The cache grows with the text; a cache of a fixed size drops
some of it (Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpt2viz.errors import ArgumentError
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.mask import hidden_pairs
from gpt2viz.run.edits import Edit, edit_mask
from gpt2viz.run.forward import run_texts
from gpt2viz.run.hooks import shape_table
from gpt2viz.run.prefix import start_of
from gpt2viz.run.stages import masking
from gpt2viz.run.trace import TensorRecord, Trace

#: Which tokens a full cache drops: "keep all" none, "drop the oldest" the first read, "keep
#: the first" the oldest except the text's beginning.
POLICIES = ("keep all", "drop the oldest", "keep the first")


def last_token_alone(model: Model, trace: Trace) -> tuple[TensorRecord, ...]:
    """The shape table of a run of a text's last token, with the rest's keys and values cached.

    That token is run, with the keys and values of those before it from ``trace``. An axis that is T
    in a run of the whole text and 1 here is named "1": queries are (B, nh, 1, hs), scores (B, nh,
    1, T); keys and values are (B, nh, T, hs), with the cached ones. For a text of one token
    nothing is cached. Raises ``ArgumentError`` for the run of another model, with the mask off or
    with edits.
    """
    ids = list(trace.token_ids)
    start = start_of(trace, model, ids, trace.causal, trace.edits)
    past = None if start is None else start.past(model.network.device, explicit=False)
    _, seen = run_texts(model.network, [ids[-1:]], True, True, None, (), past)
    table = shape_table(seen.made, masking(causal=True, edited=False))
    return tuple(replace(row, axes=_step_axes(row, len(ids))) for row in table)


def _step_axes(record: TensorRecord, n_tokens: int) -> tuple[str, ...]:
    sizes = zip(record.axes, record.shape, strict=True)
    return tuple("1" if axis == "T" and size != n_tokens else axis for axis, size in sizes)


def cache_bytes(tensors: Iterable[TensorRecord]) -> int:
    """Bytes of the keys and values of all layers, in the shape table of a run.

    As they are cached here: for every token, even in a layer whose window hides the first ones.
    """
    return sum(record.nbytes for record in tensors if record.key in ("k", "v"))


def evictions(room: int, first: int) -> Mapping[str, tuple[Edit, ...]]:
    """Caches with room for ``room`` tokens, including the one being read, as edits of a run.

    By their policy, see ``POLICIES``: they drop nothing; the oldest token; or the oldest except the
    ``first`` of the text, which take up part of the room. A dropped token is hidden from
    every later one. Positions are counted in the text; Xiao et al. count them in the cache. Raises
    ``ArgumentError`` unless 0 < first < room.
    """
    if not 0 < first < room:
        raise ArgumentError(
            f"A cache for {room} tokens can't keep the first {first}: it needs room for one more."
        )
    window = Edit("window", width=room), Edit("window", width=room - first, first=first)
    return dict(zip(POLICIES, ((), window[:1], window[1:]), strict=True))


def held_tokens(edits: Sequence[Edit], n_tokens: int) -> int:
    """The number of ``n_tokens`` that a cache holds: those that the last token sees."""
    hidden = hidden_pairs(np.arange(n_tokens), True, edit_mask(edits, n_tokens), slice(-1, None))
    return int((~hidden).sum())

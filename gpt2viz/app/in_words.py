"""What a head does here, in one sentence that is made of the run's numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpt2viz import Trace
from gpt2viz.analysis.looks import Looks
from gpt2viz.app import run_cache
from gpt2viz.app.literal import literal


def does(
    trace: Trace,
    looks: Looks,
    layer: int,
    head: int,
    query: int | None,
    write: Callable[[str], str] = literal,
) -> str:
    """Where a head looks from the chosen token; from that of its hardest look where none is.

    With the causal mask off it says too where the head looks with the mask on. ``write`` makes
    what is written of a token's label: Markdown, or a plain text.
    """

    def named(position: int) -> str:
        return _named(trace, position, write)

    def looked_at(run: Trace, query: int) -> str:
        row = run.stage("weights", layer)[0, head, query]
        keys = [int(key) for key in np.argsort(-row, kind="stable")[:3] if row[key] >= 0.05]
        return ", ".join(f"{named(key)} ({row[key]:.2f})" for key in keys)

    why = ""
    if query is None:
        query = int(looks.weights[layer, head].argmax())
        if looks.at(layer, head, query) is None:
            if len(trace.token_ids) == 1:
                return "a single token can look only at itself."
            return "every token looks only at itself and at the first."
        why = ": of its rows the one with the hardest look at another token that isn't the first"
    if np.isnan(trace.stage("weights", layer)[0, head, query]).any():
        return f"the weights of {named(query)} are NaN, not numbers."
    at = looked_at(trace, query)
    if not trace.causal:
        masked = run_cache.run(replace(trace.key, causal=True))
        at += f" (with the mask on at {looked_at(masked, query)})"
    return f"{named(query)} looks at {at}{why}."


def names(trace: Trace) -> list[str]:
    """What the tokens are called in such a sentence, as plain texts."""
    return [_named(trace, position, str) for position in range(len(trace.labels))]


def _named(trace: Trace, position: int, write: Callable[[str], str]) -> str:
    """A token's label, with its place where others have the same."""
    text = trace.labels[position]
    place = f" ({position})" if trace.labels.count(text) > 1 else ""
    return f"{write(text)}{place}"

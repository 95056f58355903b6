"""Who a run is."""

from __future__ import annotations

from dataclasses import dataclass

from gpt2viz.run.edits import Edit


@dataclass(frozen=True)
class RunKey:
    """All that decides the numbers of a run, and the only thing that a run is remembered by.

    Two runs with the same key are the same run: the same ``model``, by the name that no other
    folder here has, the same ``token_ids``, the causal mask on or off, the same ``edits`` in the
    same order. ``Trace.key`` gives a run's own; ``dataclasses.replace(key, causal=False)`` is
    another run of the same text. Of plain values, so that every cache can hash it.
    """

    model: str
    token_ids: tuple[int, ...]
    causal: bool = True
    edits: tuple[Edit, ...] = ()

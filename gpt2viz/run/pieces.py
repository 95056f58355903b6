"""Texts whose tokens line up, so that one's run can be patched from the other's."""

from __future__ import annotations

from collections.abc import Sequence

from gpt2viz.errors import PatchError
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.key import alike


def check_as_long(model: Model, clean: Sequence[int], corrupted: Sequence[int]) -> None:
    """Raise ``PatchError``, which says where they part, unless both have as many tokens."""
    if len(clean) == len(corrupted):
        return
    start, end = _alike(clean, corrupted)
    part = [
        model.tokenizer.decode(ids[start : len(ids) - end]) or "nothing"
        for ids in (clean, corrupted)
    ]
    nearest = nearest_pair(clean, corrupted)
    raise PatchError(
        f"The texts have {len(clean)} and {len(corrupted)} tokens, and must have as many: from "
        f"token {start} on, {part[0]!r:.80} stands against {part[1]!r:.80}."
        + (f" This would do: {model.tokenizer.decode(nearest)!r}" if nearest else ""),
        nearest,
    )


def nearest_pair(clean: Sequence[int], corrupted: Sequence[int]) -> list[int] | None:
    """The corrupted ids, made as long as the clean ones between what both begin and end with.

    What is too long there loses its last tokens, what is too short gets the clean text's. None
    where both are as long already, or that would leave no difference.
    """
    if len(clean) == len(corrupted):
        return None
    start, end = _alike(clean, corrupted)
    old, new = clean[start : len(clean) - end], corrupted[start : len(corrupted) - end]
    found = [*clean[:start], *new[: len(old)], *old[len(new) :], *clean[len(clean) - end :]]
    return None if found == list(clean) else found


def _alike(one: Sequence[int], other: Sequence[int]) -> tuple[int, int]:
    """How many tokens both begin with, and end with besides."""
    start = alike(one, other)
    rest = min(len(one), len(other)) - start
    return start, min(rest, alike(reversed(one), reversed(other)))

"""Texts whose tokens line up, so that one's run can be patched from the other's."""

from __future__ import annotations

from collections.abc import Sequence

from gpt2viz.errors import PatchError
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.key import common_prefix_length


def check_as_long(model: Model, clean: Sequence[int], corrupted: Sequence[int]) -> None:
    """Raise ``PatchError``, which shows where they differ, unless both have equally many tokens."""
    if len(clean) == len(corrupted):
        return
    start, end = _common_ends(clean, corrupted)
    between = (ids[start : len(ids) - end] for ids in (clean, corrupted))
    part = [f"{model.tokenizer.decode(ids)!r:.80}" if ids else "nothing" for ids in between]
    nearest = nearest_pair(clean, corrupted)
    raise PatchError(
        f"The texts have {len(clean)} and {len(corrupted)} tokens, and must have as many: from "
        f"token {start} on, {part[0]} stands against {part[1]}."
        + (f" This would do: {model.tokenizer.decode(nearest)!r}" if nearest else ""),
        nearest,
    )


def nearest_pair(clean: Sequence[int], corrupted: Sequence[int]) -> list[int] | None:
    """The corrupted ids, cut or padded to the clean length between the common beginning and end.

    Extra tokens are cut at the end, missing ones come from the clean text. None if both already
    have the same length, or no difference would be left.
    """
    if len(clean) == len(corrupted):
        return None
    start, end = _common_ends(clean, corrupted)
    old, new = clean[start : len(clean) - end], corrupted[start : len(corrupted) - end]
    result = [*clean[:start], *new[: len(old)], *old[len(new) :], *clean[len(clean) - end :]]
    return None if result == list(clean) else result


def _common_ends(a: Sequence[int], b: Sequence[int]) -> tuple[int, int]:
    """The lengths of the common beginning and, beyond it, of the common end."""
    start = common_prefix_length(a, b)
    rest = min(len(a), len(b)) - start
    return start, min(rest, common_prefix_length(reversed(a), reversed(b)))

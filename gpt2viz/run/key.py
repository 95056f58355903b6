"""The identity of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile

from gpt2viz.run.edits import Edit


@dataclass(frozen=True)
class RunKey:
    """Everything that determines a run's numbers, and the only key that runs are cached by.

    Two runs with the same key are the same run: the same ``model``, by a name that no other
    folder here has, the same ``token_ids``, the causal mask on or off, the same ``edits`` in the
    same order, the same tokens of the text that they patch from, ``patch_from``, and means over
    the same texts, ``mean_over``, "" for our own. ``Trace.key`` is the key of a run;
    ``dataclasses.replace(key, causal=False)`` is another run of the same text. All values are
    plain, so every cache can hash it.
    """

    model: str
    token_ids: tuple[int, ...]
    causal: bool = True
    edits: tuple[Edit, ...] = ()
    patch_from: tuple[int, ...] = ()
    mean_over: str = ""

    def is_prefix_of(self, longer: RunKey) -> bool:
        """True if the first tokens of a ``longer`` run, or of this one, have this run's numbers.

        With the causal mask on they do: later tokens change nothing (though sums over other
        lengths may be rounded differently). Without it they don't.
        """
        first = longer.token_ids[: len(self.token_ids)]
        return self.causal and replace(longer, token_ids=first) == self

    def common_prefix_length(self, other: RunKey) -> int:
        """The number of first tokens that have the same numbers in both; 0 without the mask."""
        n = common_prefix_length(self.token_ids, other.token_ids) if self.causal else 0
        # Last, as it takes longest and few runs have a common prefix.
        return n if n and replace(other, token_ids=self.token_ids) == self else 0


def common_prefix_length(a: Iterable[int], b: Iterable[int]) -> int:
    """The number of first items that are the same in both."""
    pairs = zip(a, b, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

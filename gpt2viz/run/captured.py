"""What the hooks of a run kept, seen as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from gpt2viz.arrays import Array
from gpt2viz.model.devices import read_only

Place = tuple[str, int | None]
#: A stage's rows by token, from one run after the other.
Parts = tuple[Tensor, ...]


def array_name(place: Place) -> str:
    """What a stage is called in a file: ``weights.3`` is layer 3's, ``embedding`` has none."""
    key, layer = place
    return key if layer is None else f"{key}.{layer}"


class Captured(Mapping[Place, Array]):
    """Stages by key and layer. Tensors stay on the device where the run made them.

    A GPU's come to the CPU one by one, each time that they are looked at: one of GPT-2 small's
    long runs has 200 MB, a page shows a layer of it. On the CPU looking copies nothing. A stage
    that several runs made, each for some tokens, is kept in these parts, one below the other,
    until it is first looked at.
    """

    def __init__(self, kept: Mapping[Place, Tensor | Parts]) -> None:
        self._kept = dict(kept)

    def __getitem__(self, place: Place) -> Array:
        """A stage as a float32 array that can't be written to; ``KeyError`` for an unknown one."""
        return read_only(self._whole(place))

    def first(self, place: Place, n: int) -> Parts:
        """The rows of the first ``n`` tokens where runs made them, not to be written to.

        Raises ``KeyError`` for an unknown place.
        """
        parts = self._kept[place]
        if isinstance(parts, tuple) and sum(part.shape[-2] for part in parts) == n:
            return parts
        return (self._whole(place)[..., :n, :],)

    def _whole(self, place: Place) -> Tensor:
        found = self._kept[place]
        if isinstance(found, tuple):
            with torch.inference_mode():
                self._kept[place] = found = torch.cat(found, dim=-2)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of all stages; what several runs share counts for each of them."""
        every = (kept if isinstance(kept, tuple) else (kept,) for kept in self._kept.values())
        return sum(part.nbytes for parts in every for part in parts)

    def __contains__(self, place: object) -> bool:
        return place in self._kept  # Mapping's own would look at it

    def __iter__(self) -> Iterator[Place]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

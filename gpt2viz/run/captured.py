"""What the hooks of a run kept, seen as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from gpt2viz.arrays import Array
from gpt2viz.model.devices import read_only

Place = tuple[str, int | None]


def array_name(place: Place) -> str:
    """What a stage is called in a file: ``weights.3`` is layer 3's, ``embedding`` has none."""
    key, layer = place
    return key if layer is None else f"{key}.{layer}"


class Captured(Mapping[Place, Array]):
    """Stages by key and layer. Tensors stay on the device where the run made them.

    A GPU's come to the CPU one by one, each time that they are looked at: one of GPT-2 small's
    long runs has 200 MB, a page shows a layer of it. On the CPU looking copies nothing.
    """

    def __init__(self, kept: Mapping[Place, Tensor]) -> None:
        self._kept = kept

    def __getitem__(self, place: Place) -> Array:
        """A stage as a float32 array that can't be written to; ``KeyError`` for an unknown one."""
        return read_only(self._kept[place])

    def __contains__(self, place: object) -> bool:
        return place in self._kept  # Mapping's own would look at it

    def __iter__(self) -> Iterator[Place]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

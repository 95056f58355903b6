"""The tensors that a run kept, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from gpt2viz.arrays import Array
from gpt2viz.model.devices import to_numpy

Site = tuple[str, int | None]
#: A stage's rows by token, in parts: one tensor for each run that made some of them.
Parts = tuple[Tensor, ...]


def array_name(site: Site) -> str:
    """A stage's name in a file: ``weights.3`` is layer 3's, ``embedding`` is of no layer."""
    key, layer = site
    return key if layer is None else f"{key}.{layer}"


class Captured(Mapping[Site, Array]):
    """Stages by key and layer. Tensors stay on the device where the run made them.

    Those on a GPU are copied to the CPU one at a time, on each access: a long run of GPT-2 small
    has 200 MB, and a page shows one layer of it. Access on the CPU copies nothing. A stage that
    several runs made, each for some tokens, is kept in these parts until the first access.
    """

    def __init__(self, tensors: Mapping[Site, Tensor | Parts]) -> None:
        self._tensors = dict(tensors)

    def __getitem__(self, site: Site) -> Array:
        """A stage as a float32 array that can't be written to; ``KeyError`` for an unknown one."""
        return to_numpy(self._whole(site))

    def first_rows(self, site: Site, n: int) -> Parts:
        """The rows of the first ``n`` tokens, in the parts that the runs made. Don't write to them.

        Raises ``KeyError`` for an unknown stage.
        """
        parts = self._tensors[site]
        if isinstance(parts, tuple) and sum(part.shape[-2] for part in parts) == n:
            return parts
        return (self._whole(site)[..., :n, :],)

    def _whole(self, site: Site) -> Tensor:
        tensor = self._tensors[site]
        if isinstance(tensor, tuple):
            with torch.inference_mode():
                self._tensors[site] = tensor = torch.cat(tensor, dim=-2)
        return tensor

    @property
    def nbytes(self) -> int:
        """Bytes of all stages; memory that several runs share counts for each of them."""
        every = self._tensors.values()
        parts = (part for x in every for part in (x if isinstance(x, tuple) else (x,)))
        return sum(part.nbytes for part in parts)

    def __contains__(self, site: object) -> bool:
        return site in self._tensors  # Mapping's default would copy it

    def __iter__(self) -> Iterator[Site]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

"""The causal mask: which keys are hidden from which queries, for runs, proofs and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

#: NumPy's arrays or torch's tensors.
Kind = TypeVar("Kind", "NDArray[Any]", "Tensor")


def hidden_pairs(
    positions: Kind,
    causal: bool,
    forbidden: Kind | None = None,
    queries: slice | NDArray[Any] = slice(None),
    window: int | None = None,
) -> Kind:
    """True where a query (row) may not see a key (column): (T, T), or (r, T) for r ``queries``.

    ``positions`` (T,) are 0 to T−1; the mask has the same type, on the same device. With
    ``causal`` all later keys are hidden; ``forbidden`` (T, T) hides more, for edits, and so does
    a layer's ``window``: keys that are ``window`` or more positions away.
    """
    mask = (positions > positions[queries, None]) & causal  # (r, T)
    if window is not None:
        mask = mask | (abs(positions[queries, None] - positions) >= window)
    return mask if forbidden is None else mask | forbidden[queries]

"""What values an expression may have, and how large: looked at before an operation takes them."""

from __future__ import annotations

import math
from types import EllipsisType
from typing import Any

import torch
from torch import Tensor

#: Numbers of the largest tensor that is made, and axes of one.
LARGEST, MOST_AXES = 2**22, 6
#: Bytes that one evaluation may ask for in all, as if it gave none back before its end.
MOST_BYTES = 2**27
#: What one evaluation may do in all: numbers that are made or read; products count 1/64 each.
MOST_WORK = 2**25
#: Bytes of the widest number, a whole one.
_WIDEST = 8

Value = Tensor | bool | int | float | slice | tuple[Any, ...] | EllipsisType | None


class Misfit(ValueError):  # noqa: N818 - as the sentences that it holds
    """Values that an operation can't take; the message is one sentence for a reader."""


class Work:
    """How much may still be done; several evaluations may share one, one after the other."""

    def __init__(self, most: int = MOST_WORK) -> None:
        self.left = most
        self.begin()

    def begin(self) -> None:
        """An evaluation begins: of those before it, at most the result is still in memory."""
        self.bytes_left = MOST_BYTES

    def make(self, shape: tuple[int, ...], read: int = 0) -> None:
        """Take what a tensor of that shape costs, made from ``read`` numbers.

        Raises ``Misfit`` where it is too large, or too much has been done already.
        """
        size = math.prod(shape)
        if len(shape) > MOST_AXES:
            raise Misfit(f"this would have {len(shape)} axes; {MOST_AXES} are the most here.")
        if size > LARGEST:
            raise Misfit(f"this would make {size:,} numbers; {LARGEST:,} are the most here.")
        self.left -= max(size, read)
        self.bytes_left -= size * _WIDEST
        if self.left < 0 or self.bytes_left < 0:
            raise Misfit("by here this is too much to compute; write something smaller.")

    def cast(self, *values: Value) -> None:
        """Take what it costs to make whole numbers, True and False into numbers of another kind.

        PyTorch copies such tensors before it computes with them. Raises as ``make``.
        """
        for x in values:
            if isinstance(x, Tensor) and not x.is_floating_point():
                self.make(tuple(x.shape))


def tensor(x: Value) -> Tensor:
    """``x`` as it is. Raises ``Misfit`` where it is no tensor."""
    if isinstance(x, Tensor):
        return x
    raise Misfit(f"a tensor is needed, and this is {called(x)}.")


def called(x: Value) -> str:
    """What a value is, in words."""
    if isinstance(x, Tensor):
        return f"a tensor of shape {tuple(x.shape)}"
    return "a number" if isinstance(x, int | float) else "none"


def number(x: Value) -> int | float:
    """``x`` as it is. Raises ``Misfit`` where it is no number."""
    if isinstance(x, int | float):
        return x
    raise Misfit(f"a number is needed, and this is {called(x)}.")


def whole(x: Value) -> int:
    """``x``, also of True and False. Raises ``Misfit`` where it is no whole number."""
    if isinstance(x, int):
        return int(x)
    raise Misfit("a whole number is needed.")


def sizes(given: tuple[Value, ...]) -> tuple[int, ...]:
    """Sizes as PyTorch takes them: ``f(2, 3)`` or ``f((2, 3))``.

    Raises ``Misfit`` for what is none, for too many, and for one that is too large.
    """
    if len(given) == 1 and isinstance(given[0], tuple):
        given = given[0]
    found = tuple(map(whole, given))
    if len(found) > MOST_AXES:
        raise Misfit(f"this would have {len(found)} axes; {MOST_AXES} are the most here.")
    if any(abs(size) > LARGEST for size in found):
        raise Misfit(f"a size may be at most {LARGEST:,}.")
    return found


def joint(*values: Value) -> tuple[int, ...]:
    """The shape that tensors among the values are broadcast to. Raises as ``broadcast``."""
    return broadcast([tuple(x.shape) for x in values if isinstance(x, Tensor)])


def broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that all of these are broadcast to. Raises ``Misfit`` where there is none."""
    try:
        return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
    except RuntimeError:
        written = " and ".join(map(str, shapes))
        raise Misfit(
            f"{written} don't fit: counted from the last, sizes must be equal, or one of them 1."
        ) from None

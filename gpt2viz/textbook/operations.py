"""Tensor operations for an expression: PyTorch's own functions, each checked before it runs.

No operation changes a tensor in place or allocates one before its size is checked.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from types import EllipsisType, MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

#: The most numbers and the most axes that a tensor may have.
LARGEST, MOST_AXES = 2**22, 6
#: Bytes that one evaluation may allocate in all, counted as if none were freed before its end.
MOST_BYTES = 2**27
#: The work of one evaluation: numbers written or read; those of a matrix product count 1/64 each.
MOST_WORK = 2**25
#: Bytes of the widest number type, int64.
_WIDEST = 8

Value = Tensor | bool | int | float | slice | tuple[Any, ...] | EllipsisType | None


class Misfit(ValueError):  # noqa: N818 - it reads as in its sentences
    """Values that an operation can't take; the message is one sentence for a reader."""


class Work:
    """The work that is left; consecutive evaluations may share one budget."""

    def __init__(self, most: int = MOST_WORK) -> None:
        self.left = most
        self.begin()

    def begin(self) -> None:
        """Start an evaluation: of earlier ones at most the result is still in memory."""
        self.bytes_left = MOST_BYTES

    def make(self, shape: tuple[int, ...], read: int = 0) -> None:
        """Charge for a tensor of that shape, computed from ``read`` numbers.

        Raises ``Misfit`` if it is too large, or the budget is spent.
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
        """Charge for the conversion of integers and booleans to floats.

        PyTorch copies such tensors before it computes with them. Raises what ``make`` raises.
        """
        for x in values:
            if isinstance(x, Tensor) and not x.is_floating_point():
                self.make(tuple(x.shape))


class Function(NamedTuple):
    """A function of the language: what PyTorch runs, and the room that it needs.

    ``room`` gets the work and the same arguments. It charges for the result and for copies, and
    raises ``Misfit`` for arguments that don't fit together. Before, each argument is checked by
    its name: see ``_CHECKS``.
    """

    run: Callable[..., Any]
    room: Callable[..., None]

    def __call__(self, work: Work, *given: Any, **named: Any) -> Any:
        """Run it. Raises ``Misfit``, and what PyTorch raises."""
        arguments = signature(self.run).bind(*given, **named)
        for name, x in arguments.arguments.items():
            arguments.arguments[name] = _CHECKS[name](x) if name in _CHECKS else x
        arguments.apply_defaults()
        self.room(work, *arguments.args)
        return self.run(*arguments.args)


def tensor(x: Value) -> Tensor:
    """Return ``x``. Raises ``Misfit`` if it isn't a tensor."""
    if isinstance(x, Tensor):
        return x
    raise Misfit(f"a tensor is needed, and this is {describe(x)}.")


def describe(x: Value) -> str:
    """The kind of a value, in words."""
    if isinstance(x, Tensor):
        return f"a tensor of shape {tuple(x.shape)}"
    return "a number" if isinstance(x, int | float) else "none"


def number(x: Value) -> int | float:
    """Return ``x``. Raises ``Misfit`` if it isn't a number."""
    if isinstance(x, int | float):
        return x
    raise Misfit(f"a number is needed, and this is {describe(x)}.")


def whole(x: Value) -> int:
    """Return ``x`` as an int, also True and False. Raises ``Misfit`` unless it is whole."""
    if isinstance(x, int):
        return int(x)
    raise Misfit("a whole number is needed.")


def sizes(given: Value) -> tuple[int, ...]:
    """Sizes as PyTorch takes them: ``f(2, 3)``, ``f((2, 3))`` or ``f(2)``.

    Raises ``Misfit`` for anything else, for too many sizes, and for one that is too large.
    """
    if isinstance(given, tuple) and len(given) == 1 and isinstance(given[0], tuple):
        (given,) = given
    wholes = tuple(map(whole, given if isinstance(given, tuple) else (given,)))
    if len(wholes) > MOST_AXES:
        raise Misfit(f"this would have {len(wholes)} axes; {MOST_AXES} are the most here.")
    if any(abs(size) > LARGEST for size in wholes):
        raise Misfit(f"a size may be at most {LARGEST:,}.")
    return wholes


def _true_or_false(what: str, x: Value) -> Tensor:
    x = tensor(x)
    if x.dtype != torch.bool:
        raise Misfit(f"{what}: compare with ==, or call .bool().")
    return x


def _list(x: Value) -> tuple[Tensor, ...]:
    if not isinstance(x, tuple) or not x:
        raise Misfit("cat takes a list of tensors, such as [a, b].")
    return tuple(map(tensor, x))


def _equation(x: object) -> str:
    if not isinstance(x, str):
        raise Misfit(_EINSUM)
    return x


_EINSUM = "einsum takes one or two tensors here, as in 'bhid,bhjd->bhij'."
#: The name of a parameter -> the check of its argument, which returns it or raises ``Misfit``.
_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("x", "left", "right", "weight", "ids", "table"), tensor),
    **dict.fromkeys(("dim0", "dim1", "start_dim", "end_dim"), whole),
    **dict.fromkeys(("size", "shape", "dims"), sizes),
    **{"tensors": _list, "operands": lambda given: tuple(map(tensor, given))},
    **{"value": number, "fill_value": number, "equation": _equation},
    "dim": lambda x: x if x is None else sizes(x) if isinstance(x, tuple) else whole(x),
    **dict.fromkeys(("diagonal", "end"), lambda x: sizes(whole(x))[0]),
    **dict.fromkeys("ab", lambda x: x if isinstance(x, Tensor) else float(number(x))),
    "mask": partial(_true_or_false, "the mask must be True and False"),
    "condition": partial(_true_or_false, "the condition must be True and False"),
    "inverted": partial(_true_or_false, "~ turns True and False round"),
}


def _nothing(_work: Work, *_given: Value) -> None:
    """The same numbers with other axes."""


def _joint(work: Work, *given: Value) -> None:
    """As many numbers as one tensor has, or as several broadcast to; none where there is none."""
    if shapes := [tuple(x.shape) for x in given if isinstance(x, Tensor)]:
        work.make(broadcast(shapes))
        work.cast(*given)


def broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to which all of these broadcast. Raises ``Misfit`` if there is none."""
    try:
        return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
    except RuntimeError:
        written = " and ".join(map(str, shapes))
        raise Misfit(
            f"{written} don't fit: counted from the last, sizes must be equal, or one of them 1."
        ) from None


#: The largest whole number.
_WHOLE = 10**15

_ON_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floor_divide": operator.floordiv,
    "pow": lambda a, b: a**b if isinstance(b, int) and 0 <= b <= 16 else float(a) ** float(b),
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
}
_ON_TENSORS = _ON_NUMBERS | {"pow": operator.pow}


def _operator(name: str) -> Function:
    """``input + other`` and so on: element by element."""

    def run(input: Value, other: Value) -> Value:
        if isinstance(input, Tensor) or isinstance(other, Tensor):
            of_tensors: Tensor = _ON_TENSORS[name](input, other)
            return of_tensors
        result = _ON_NUMBERS[name](input, other)
        if isinstance(result, complex) or (isinstance(result, int) and abs(result) > _WHOLE):
            raise Misfit("this number can't be used here.")
        return number(result)

    def room(work: Work, *both: Value) -> None:
        for x in both:
            if not isinstance(x, Tensor):
                number(x)
        _joint(work, *both)

    return Function(run, room)


def _room_of_product(work: Work, a: Tensor, b: Tensor) -> None:
    """(…, m, k) times (…, k, n) is (…, m, n)."""
    written = f"{tuple(a.shape)} times {tuple(b.shape)}"
    if a.ndim < 2 or b.ndim < 2:
        raise Misfit(f"{written}: each must have two axes at least.")
    (m, k), (inner, n) = a.shape[-2:], b.shape[-2:]
    if k != inner:
        turn = " Transpose the right one." if b.shape[-1] == k else ""
        turn = turn or (" Transpose the left one." if m == inner else "")
        raise Misfit(
            f"{written} doesn't fit: the last size of the left, {k}, must equal the last but one "
            f"of the right, {inner}.{turn}"
        )
    batch = broadcast([tuple(a.shape[:-2]), tuple(b.shape[:-2])])
    for x in (a, b):  # either may be copied first, for each of the batch or to be contiguous
        if math.prod(batch) > 1 or 1 not in x.stride()[-2:]:
            work.make((*batch, *x.shape[-2:]))
    work.make((*batch, m, n), read=math.prod(batch) * m * n * k // 64)


def _room_of_linear(work: Work, x: Tensor, weight: Tensor) -> None:
    _room_of_swap(work, weight)
    _room_of_product(work, x, weight.mT)


def _room_of_bmm(work: Work, left: Tensor, right: Tensor) -> None:
    if left.ndim != 3 or right.ndim != 3:
        raise Misfit("bmm takes three axes of each; @ takes any.")
    _room_of_product(work, left, right)


def _room_of_einsum(work: Work, equation: str, *tensors: Tensor) -> None:
    """Each axis has a letter; axes whose letters aren't after the arrow are summed over."""
    terms, arrow, result = equation.replace(" ", "").partition("->")
    letters = terms.split(",")
    if not (arrow and 1 <= len(tensors) <= 2 and len(letters) == len(tensors)):
        raise Misfit(_EINSUM)
    sizes: dict[str, int] = {}
    for axes, x in zip(letters, tensors, strict=True):
        if len(axes) != x.ndim or len(set(axes)) < len(axes) or not axes.isalpha():
            raise Misfit(f"'{axes}' doesn't name the {x.ndim} axes of {tuple(x.shape)}, each once.")
        for axis, length in zip(axes, x.shape, strict=True):
            if sizes.setdefault(axis, length) != length:
                raise Misfit(f"axis {axis} is {sizes[axis]} in one tensor and {length} in another.")
    if len(set(result)) < len(result) or not set(result) <= sizes.keys():
        raise Misfit(f"'{result}' must name axes of the tensors, each once.")
    for x in tensors:  # each may be copied, with its axes in another order
        _joint(work, x)
    made = tuple(sizes[axis] for axis in result)
    work.make(made, read=math.prod(sizes.values()) // 64)
    work.make(made)  # and so may the result


def _room_of_cat(work: Work, parts: tuple[Tensor, ...], dim: int) -> None:
    shape = list(parts[0].shape)
    shape[dim] = sum(x.shape[dim] for x in parts)
    work.make(tuple(shape), read=sum(x.numel() for x in parts))
    work.cast(*parts)


def _room_of_item(work: Work, x: Value, index: Value) -> None:
    """Numbers, slices, ``None`` and ``...``; or one tensor of row numbers."""
    if isinstance(x, tuple):
        whole(index)
        return
    x = tensor(x)
    if isinstance(index, Tensor):
        if index.dtype != torch.int64:
            raise Misfit("an index must be whole numbers, such as ids.")
        work.make((*index.shape, *x.shape[1:]))
        return
    parts = index if isinstance(index, tuple) else (index,)
    if len(parts) > MOST_AXES or any(isinstance(part, bool | Tensor | tuple) for part in parts):
        raise Misfit("an index is numbers and slices, or a single tensor of whole numbers.")
    work.make(tuple(x[index].shape))  # type: ignore[index]  # PyTorch takes it, or says why not


def _reduce(how: Callable[..., Tensor]) -> Function:
    def axes(x: Tensor, dim: int | tuple[int, ...] | None) -> tuple[int, ...]:
        return tuple(range(x.ndim)) if dim is None else sizes(dim)

    def room(work: Work, x: Tensor, dim: Any, _keepdim: Value) -> None:
        gone = {axis % max(x.ndim, 1) for axis in axes(x, dim)}
        left = (size for axis, size in enumerate(x.shape) if axis not in gone)
        work.make(tuple(left), read=x.numel())
        work.cast(x)

    return Function(lambda x, dim=None, keepdim=False: how(x, axes(x, dim), bool(keepdim)), room)


def _filled(_work: Work, x: Tensor, *shape: int) -> None:
    known, inferred = math.prod(size for size in shape if size >= 0), shape.count(-1)
    if inferred > 1 or (x.numel() % known if inferred and known else known != x.numel()):
        raise Misfit(f"{tuple(x.shape)} is {x.numel():,} numbers, which don't fill {shape}.")


def _room_of_reshape(work: Work, x: Tensor, *shape: int) -> None:
    _filled(work, x, *shape)
    work.make(tuple(x.shape) if -1 in shape else shape)


def _view(x: Tensor, *shape: int) -> Tensor:
    """The same without a copy, where the memory layout allows it."""
    try:
        return x.view(shape)
    except RuntimeError:
        raise Misfit("after a transpose the numbers lie in another order: use .reshape.") from None


def _room_of_swap(_work: Work, x: Tensor) -> None:
    if x.ndim < 2:
        raise Misfit(f".mT needs two axes, and this is {describe(x)}.")


def _room_of_turn(_work: Work, x: Tensor) -> None:
    """For two axes only: with more, .T would reverse them all."""
    if x.ndim != 2:
        raise Misfit(f".T is for tables of two axes, and this is {describe(x)}; .mT swaps two.")


def _either(of_tensor: Callable[[Tensor], Tensor], of_number: Callable[[float], float]) -> Function:
    return Function(lambda a: (of_tensor if isinstance(a, Tensor) else of_number)(a), _joint)


_TURN = Function(lambda x: x.T, _room_of_turn)
_SWAP = Function(lambda x, dim0, dim1: x.transpose(dim0, dim1), _nothing)
#: Functions, called as ``f(x)`` or, except those of ``NO_METHODS``, as ``x.f()``.
FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "ones": Function(lambda *size: torch.ones(size), lambda work, *size: work.make(size)),
        "zeros": Function(lambda *size: torch.zeros(size), lambda work, *size: work.make(size)),
        "full": Function(
            lambda size, fill_value: torch.full(size, float(fill_value)),
            lambda work, size, _value: work.make(size),
        ),
        "arange": Function(lambda end: torch.arange(end), lambda work, end: work.make((end,))),
        "ones_like": Function(lambda x: torch.ones(x.shape), _joint),
        "zeros_like": Function(lambda x: torch.zeros(x.shape), _joint),
        "where": Function(lambda condition, a, b: torch.where(condition, a, b), _joint),
        "linear": Function(lambda x, weight: x @ weight.mT, _room_of_linear),
        "embedding": Function(
            lambda ids, table: table[ids], lambda work, ids, table: _room_of_item(work, table, ids)
        ),
        "softmax": Function(lambda x, dim: x.softmax(dim), _joint),
        **{"sqrt": _either(torch.sqrt, math.sqrt), "exp": _either(torch.exp, math.exp)},
        **{"log": _either(torch.log, math.log), "log2": _either(torch.log2, math.log2)},
        **{name: _operator(name) for name in _ON_NUMBERS},
        "matmul": Function(lambda left, right: left @ right, _room_of_product),
        "bmm": Function(lambda left, right: left @ right, _room_of_bmm),
        "einsum": Function(
            lambda equation, *operands: torch.einsum(equation, *operands), _room_of_einsum
        ),
        "cat": Function(lambda tensors, dim=0: torch.cat(tensors, dim), _room_of_cat),
        "unbind": Function(
            lambda x, dim=0: x.unbind(dim), lambda work, x, dim: work.make((x.shape[dim],))
        ),
        **{"sum": _reduce(torch.sum), "mean": _reduce(torch.mean), "amax": _reduce(torch.amax)},
        "tril": Function(lambda x, diagonal=0: x.tril(diagonal), _joint),
        "triu": Function(lambda x, diagonal=0: x.triu(diagonal), _joint),
        "masked_fill": Function(lambda x, mask, value: x.masked_fill(mask, value), _joint),
        **{"transpose": _SWAP, "swapaxes": _SWAP, "t": _TURN},
        "permute": Function(lambda x, *dims: x.permute(dims), _nothing),
        "reshape": Function(lambda x, *shape: x.reshape(shape), _room_of_reshape),
        "view": Function(_view, _filled),
        "flatten": Function(
            lambda x, start_dim=0, end_dim=-1: x.flatten(start_dim, end_dim), _joint
        ),
        "unsqueeze": Function(
            lambda x, dim: x.unsqueeze(dim), lambda work, x, _dim: work.make((1, *x.shape))
        ),
        "contiguous": Function(lambda x: x.contiguous(), _joint),
        "size": Function(lambda x, dim: x.shape[dim], _nothing),
        "bool": Function(lambda x: x.bool(), _joint),
        "float": _either(lambda x: x.to(torch.float32), float),
    }
)
#: Functions that can't be called as ``x.f()``.
NO_METHODS = frozenset(
    {
        *("ones", "zeros", "full", "arange", "ones_like", "zeros_like"),
        *("where", "linear", "embedding", "einsum", "cat"),
    }
)
#: Attributes of a tensor.
ATTRIBUTES: Mapping[str, Function] = MappingProxyType(
    {
        "T": _TURN,
        "mT": Function(lambda x: x.mT, _room_of_swap),
        "shape": Function(lambda x: tuple(x.shape), _nothing),
    }
)
#: ``x[index]``, and ``~x``.
ITEM = Function(lambda values, index: values[index], _room_of_item)
INVERT = Function(lambda inverted: ~inverted, _joint)

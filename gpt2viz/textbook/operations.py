"""Tensor operations for an expression: PyTorch's own functions, each checked before it runs.

No operation changes a tensor in place or allocates one before its size is checked.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from types import EllipsisType, MappingProxyType
from typing import Any

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


def sizes(given: tuple[Value, ...]) -> tuple[int, ...]:
    """Sizes as PyTorch takes them: ``f(2, 3)`` or ``f((2, 3))``.

    Raises ``Misfit`` for anything else, for too many sizes, and for one that is too large.
    """
    if len(given) == 1 and isinstance(given[0], tuple):
        given = given[0]
    wholes = tuple(map(whole, given))
    if len(wholes) > MOST_AXES:
        raise Misfit(f"this would have {len(wholes)} axes; {MOST_AXES} are the most here.")
    if any(abs(size) > LARGEST for size in wholes):
        raise Misfit(f"a size may be at most {LARGEST:,}.")
    return wholes


def joint(*values: Value) -> tuple[int, ...]:
    """The shape to which the tensors among these values broadcast. Raises as ``broadcast``."""
    return broadcast([tuple(x.shape) for x in values if isinstance(x, Tensor)])


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
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "**": lambda a, b: a**b if isinstance(b, int) and 0 <= b <= 16 else float(a) ** float(b),
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "&": operator.and_,
    "|": operator.or_,
}
_ON_TENSORS = _ON_NUMBERS | {"**": operator.pow}


def apply_operator(sign: str, a: Value, b: Value, work: Work) -> Value:
    """``a sign b``: element by element, or ``@``."""
    if sign == "@":
        return matmul(work, a, b)
    for x in (a, b):
        if not isinstance(x, Tensor):
            number(x)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        work.make(joint(a, b))
        work.cast(a, b)
        of_tensors: Tensor = _ON_TENSORS[sign](a, b)
        return of_tensors
    result = _ON_NUMBERS[sign](a, b)
    if isinstance(result, complex) or (isinstance(result, int) and abs(result) > _WHOLE):
        raise Misfit("this number can't be used here.")
    return number(result)


def bmm(work: Work, /, left: Value, right: Value) -> Tensor:
    """``bmm(left, right)``: (b, m, k) times (b, k, n), of three axes each."""
    if tensor(left).ndim != 3 or tensor(right).ndim != 3:
        raise Misfit("bmm takes three axes of each; @ takes any.")
    return matmul(work, left, right)


def einsum(work: Work, /, equation: str, *operands: Value) -> Tensor:
    """``einsum("bhid,bhjd->bhij", q, k)``: products of one or two tensors, summed over an axis.

    Each axis has a letter; axes whose letters aren't after the arrow are summed over.
    """
    tensors = [tensor(x) for x in operands]
    terms, arrow, result = equation.replace(" ", "").partition("->")
    letters = terms.split(",")
    if not (arrow and 1 <= len(tensors) <= 2 and len(letters) == len(tensors)):
        raise Misfit("einsum takes one or two tensors here, as in 'bhid,bhjd->bhij'.")
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
        work.make(tuple(x.shape))
        work.cast(x)
    made = tuple(sizes[axis] for axis in result)
    work.make(made, read=math.prod(sizes.values()) // 64)
    work.make(made)  # and so may the result
    return torch.einsum(equation, *tensors)


def cat(work: Work, /, tensors: Value, dim: Value = 0) -> Tensor:
    """``cat([a, b], dim=-1)``: tensors side by side along an axis."""
    parts = [tensor(x) for x in tensors] if isinstance(tensors, tuple) else []
    if not parts:
        raise Misfit("cat takes a list of tensors, such as [a, b].")
    shape = list(parts[0].shape)
    shape[whole(dim)] = sum(x.shape[whole(dim)] for x in parts)
    work.make(tuple(shape), read=sum(x.numel() for x in parts))
    work.cast(*parts)
    return torch.cat(parts, dim=whole(dim))


def unbind(work: Work, /, x: Value, dim: Value = 0) -> tuple[Tensor, ...]:
    """``x.unbind(1)``: the tensors along an axis, as a list."""
    x = tensor(x)
    work.make((x.shape[whole(dim)],))
    return x.unbind(whole(dim))


def invert(x: Value, work: Work) -> Tensor:
    """``~x``: True and False swapped."""
    x = tensor(x)
    if x.dtype != torch.bool:
        raise Misfit("~ turns True and False round: compare with ==, or call .bool().")
    work.make(tuple(x.shape))
    return ~x


def matmul(work: Work, /, left: Value, right: Value) -> Tensor:
    """``left @ right``: (…, m, k) times (…, k, n) is (…, m, n)."""
    a, b = tensor(left), tensor(right)
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
    return a @ b


def item(x: Value, index: Value, work: Work) -> Value:
    """``x[index]``: numbers, slices, ``None`` and ``...``; or one tensor of row numbers."""
    if isinstance(x, tuple):
        size: int = x[whole(index)]
        return size
    x = tensor(x)
    if isinstance(index, Tensor):
        if index.dtype != torch.int64:
            raise Misfit("an index must be whole numbers, such as ids.")
        work.make((*index.shape, *x.shape[1:]))
        return x[index]
    parts = index if isinstance(index, tuple) else (index,)
    if len(parts) > MOST_AXES or any(isinstance(part, bool | Tensor | tuple) for part in parts):
        raise Misfit("an index is numbers and slices, or a single tensor of whole numbers.")
    part: Tensor = x[index]  # type: ignore[index]  # PyTorch accepts it, or raises the reason
    work.make(tuple(part.shape))
    return part


def softmax(work: Work, /, x: Value, dim: Value) -> Tensor:
    """``softmax(x, dim)``: shares that sum to 1 along an axis, in x's shape."""
    x = tensor(x)
    work.make(tuple(x.shape))
    return torch.softmax(x, whole(dim))


def _elementwise(
    of_tensor: Callable[[Tensor], Tensor], of_number: Callable[[float], float]
) -> Callable[..., Value]:
    def act(work: Work, /, x: Value) -> Value:
        if not isinstance(x, Tensor):
            return of_number(number(x))
        work.make(tuple(x.shape))
        work.cast(x)
        return of_tensor(x)

    return act


def _sign(sign: str) -> Callable[..., Value]:
    def act(work: Work, /, x: Value, other: Value) -> Value:
        return apply_operator(sign, x, other, work)

    return act


def _reduce(how: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(work: Work, /, x: Value, dim: Value = None, keepdim: Value = False) -> Tensor:
        x = tensor(x)
        axes = tuple(range(x.ndim)) if dim is None else sizes((dim,))
        gone = {axis % max(x.ndim, 1) for axis in axes}
        left = (size for axis, size in enumerate(x.shape) if axis not in gone)
        work.make(tuple(left), read=x.numel())
        work.cast(x)
        return how(x, axes, bool(keepdim))

    return reduce


def masked_fill(work: Work, /, x: Value, mask: Value, value: Value) -> Tensor:
    """``x.masked_fill(mask, value)``: the number where the mask is True, else x."""
    x, mask = tensor(x), tensor(mask)
    if mask.dtype != torch.bool:
        raise Misfit("the mask must be True and False: compare with ==, or call .bool().")
    work.make(joint(x, mask))
    return x.masked_fill(mask, number(value))


def where(work: Work, /, condition: Value, a: Value, b: Value) -> Tensor:
    """``where(condition, a, b)``: a where it is True, else b."""
    condition = tensor(condition)
    if condition.dtype != torch.bool:
        raise Misfit("the condition must be True and False: compare with ==, or call .bool().")
    work.make(joint(condition, a, b))
    work.cast(a, b)
    a, b = (x if isinstance(x, Tensor) else float(number(x)) for x in (a, b))
    return torch.where(condition, a, b)


def _triangle(how: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    def cut(work: Work, /, x: Value, diagonal: Value = 0) -> Tensor:
        x = tensor(x)
        work.make(tuple(x.shape))
        return how(x, sizes((diagonal,))[0])

    return cut


def _constant(value: float) -> Callable[..., Tensor]:
    def fill(work: Work, /, *size: Value) -> Tensor:
        work.make(sizes(size))
        return torch.full(sizes(size), value)

    return fill


def full(work: Work, /, size: Value, fill_value: Value) -> Tensor:
    """``full((2, 3), value)``: a number everywhere."""
    work.make(sizes((size,)))
    return torch.full(sizes((size,)), float(number(fill_value)))


def _constant_like(value: float) -> Callable[..., Tensor]:
    def fill(work: Work, /, x: Value) -> Tensor:
        shape = tuple(tensor(x).shape)
        work.make(shape)
        return torch.full(shape, value)

    return fill


def arange(work: Work, /, end: Value) -> Tensor:
    """``arange(n)``: 0, 1 and so on, (n,)."""
    work.make(sizes((end,)))
    return torch.arange(whole(end))


def transpose(_work: Work, /, x: Value, dim0: Value, dim1: Value) -> Tensor:
    """``x.transpose(1, 2)``: two axes swapped."""
    return tensor(x).transpose(whole(dim0), whole(dim1))


def permute(_work: Work, /, x: Value, *dims: Value) -> Tensor:
    """``x.permute(0, 2, 1, 3)``: the axes in another order."""
    return tensor(x).permute(sizes(dims))


def reshape(work: Work, /, x: Value, *shape: Value) -> Tensor:
    """``x.reshape(B, T, C)``: the same numbers in the same order, with other axes."""
    return _reshape_to(work, tensor(x), sizes(shape))


def view(work: Work, /, x: Value, *shape: Value) -> Tensor:
    """``x.view(B, T, C)``: the same without a copy, where the memory layout allows it."""
    x, shape_given = tensor(x), sizes(shape)
    try:
        return x.view(shape_given)
    except RuntimeError:
        _reshape_to(work, x, shape_given)  # says if the sizes don't fit
        raise Misfit("after a transpose the numbers lie in another order: use .reshape.") from None


def _reshape_to(work: Work, /, x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    known = math.prod(size for size in sizes if size >= 0)
    inferred = sizes.count(-1)
    if inferred > 1 or (x.numel() % known if inferred and known else known != x.numel()):
        raise Misfit(f"{tuple(x.shape)} is {x.numel():,} numbers, which don't fill {sizes}.")
    work.make(tuple(x.shape) if inferred else sizes)
    return x.reshape(sizes)


def flatten(work: Work, /, x: Value, start_dim: Value = 0, end_dim: Value = -1) -> Tensor:
    """``x.flatten(2)``: axes from ``start_dim`` to ``end_dim`` merged into one."""
    x = tensor(x)
    work.make(tuple(x.shape))
    return x.flatten(whole(start_dim), whole(end_dim))


def unsqueeze(work: Work, /, x: Value, dim: Value) -> Tensor:
    """``x.unsqueeze(0)``: a new axis of size 1."""
    widened = tensor(x).unsqueeze(whole(dim))
    work.make(tuple(widened.shape))
    return widened


def contiguous(work: Work, /, x: Value) -> Tensor:
    """``x.contiguous()``: a copy whose memory layout follows its axes."""
    x = tensor(x)
    work.make(tuple(x.shape))
    return x.contiguous()


def _cast(dtype: torch.dtype) -> Callable[..., Value]:
    def cast(work: Work, /, x: Value) -> Value:
        if dtype == torch.float32 and isinstance(x, int | float):
            return float(x)
        x = tensor(x)
        work.make(tuple(x.shape))
        return x.to(dtype)

    return cast


def size(_work: Work, /, x: Value, dim: Value) -> int:
    """``x.size(-1)``: the size of one axis."""
    return int(tensor(x).shape[whole(dim)])


def linear(work: Work, /, x: Value, weight: Value) -> Tensor:
    """``linear(x, weight)``: x times the transposed weight, (…, in) -> (…, out)."""
    return matmul(work, x, last_two(work, weight))


def embedding(work: Work, /, ids: Value, table: Value) -> Value:
    """``embedding(ids, table)``: the table's rows, (…) -> (…, C)."""
    return item(table, tensor(ids), work)


def last_two(_work: Work, /, x: Value) -> Tensor:
    """``x.mT``: the last two axes swapped."""
    x = tensor(x)
    if x.ndim < 2:
        raise Misfit(f".mT needs two axes, and this is {describe(x)}.")
    return x.mT


def transpose_table(_work: Work, /, x: Value) -> Tensor:
    """``x.T``, for two axes only: with more, it would reverse them all."""
    x = tensor(x)
    if x.ndim != 2:
        raise Misfit(f".T is for tables of two axes, and this is {describe(x)}; .mT swaps two.")
    return x.T


def shape(_work: Work, /, x: Value) -> tuple[int, ...]:
    """``x.shape``."""
    return tuple(tensor(x).shape)


#: Functions, called as ``f(x)`` or, except those of the first line, as ``x.f()``.
FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **{"ones": _constant(1.0), "zeros": _constant(0.0), "full": full, "arange": arange},
        **{"ones_like": _constant_like(1.0), "zeros_like": _constant_like(0.0), "where": where},
        **{"linear": linear, "embedding": embedding},
        **{"softmax": softmax, "sqrt": _elementwise(torch.sqrt, math.sqrt)},
        **{"exp": _elementwise(torch.exp, math.exp), "log": _elementwise(torch.log, math.log)},
        **{"log2": _elementwise(torch.log2, math.log2)},
        **{"add": _sign("+"), "sub": _sign("-"), "mul": _sign("*"), "div": _sign("/")},
        **{"pow": _sign("**"), "eq": _sign("=="), "ne": _sign("!="), "lt": _sign("<")},
        **{"le": _sign("<="), "gt": _sign(">"), "ge": _sign(">=")},
        **{"matmul": matmul, "bmm": bmm, "einsum": einsum, "cat": cat, "unbind": unbind},
        **{"sum": _reduce(torch.sum), "mean": _reduce(torch.mean), "amax": _reduce(torch.amax)},
        **{"tril": _triangle(torch.tril), "triu": _triangle(torch.triu)},
        **{"masked_fill": masked_fill, "transpose": transpose, "swapaxes": transpose},
        **{"permute": permute, "t": transpose_table},
        **{"reshape": reshape, "view": view, "flatten": flatten, "unsqueeze": unsqueeze},
        **{"contiguous": contiguous, "size": size},
        **{"bool": _cast(torch.bool), "float": _cast(torch.float32)},
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
ATTRIBUTES: Mapping[str, Callable[[Work, Value], Any]] = MappingProxyType(
    {"T": transpose_table, "mT": last_two, "shape": shape}
)

"""A pickle's values, read without running anything that is in it.

A pickle is a program for a small stack machine (Python's ``pickletools`` describes each
instruction). Here it is followed as far as plain values go: wherever it would import, call or make
anything, an ``Object`` that remembers what was asked for stands instead. Each instruction takes
bounded time and memory, and there is a most of them.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass, field
from typing import Any, BinaryIO

# PyTorch's file of GPT-2 XL and its optimizer has 60,000; so many take some seconds.
_MOST = 1_000_000
# Beyond, whole numbers as keys can be chosen such that a dictionary finds each by passing all.
_LARGEST_KEY = 2**53
_LONGEST_NUMBER = 1000
_NOTHING = ("PROTO", "FRAME")
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = (
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING"),
    *("SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
)
_EMPTY: dict[str, type[list[Any] | dict[Any, Any]]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": list,
}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARK = object()


@dataclass(frozen=True, eq=False)
class Name:
    """A name that a pickle would import: "module.name"."""

    text: str


@dataclass(frozen=True, eq=False)
class Reference:
    """A persistent id: an object that is stored outside of the pickle."""

    to: Any


@dataclass(eq=False, slots=True)
class Object:
    """An object that a pickle would make by calling ``called``, and the state it would set."""

    called: str
    arguments: tuple[Any, ...] = ()
    state: Any = None
    entries: dict[Any, Any] = field(default_factory=dict)

    def get(self, name: str) -> Any:
        """An attribute of a plain object, or a dictionary's entry; None where it has none."""
        parts = self.state if isinstance(self.state, tuple) else (self.state,)
        for values in (self.entries, *parts):
            if isinstance(values, dict) and name in values:
                return values[name]
        return None


def read_pickle(opened: BinaryIO, references: list[Reference] | None = None) -> Any:
    """The value of the next pickle in a file; each of its references is added to ``references``.

    Sets are lists, and a dictionary has those entries whose keys are texts or whole numbers that
    aren't huge. Raises ``ValueError``, and others where the pickle is damaged.
    """
    machine = _Machine([] if references is None else references)
    for n, (instruction, argument, _place) in enumerate(pickletools.genops(opened)):
        if n == _MOST:
            raise ValueError(f"a pickle of more than {_MOST:,} instructions")
        if instruction.name == "STOP":
            return machine.stack.pop()
        machine.follow(instruction.name, argument)
    raise ValueError("a pickle without an end")


class _Machine:
    """The stack, and the memo."""

    def __init__(self, references: list[Reference]) -> None:
        self.references = references
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def follow(self, name: str, argument: Any) -> None:
        """Do what one instruction says, as far as it makes plain values."""
        stack = self.stack
        if name in _LITERALS:
            if isinstance(argument, int) and argument.bit_length() > _LONGEST_NUMBER:
                raise ValueError("it has a number that no message could spell")
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in _TUPLES:
            stack.append(tuple(self._last(_TUPLES[name])))
        elif name.endswith("GET"):
            stack.append(self.memo[int(argument)])
        elif name.endswith("PUT") or name == "MEMOIZE":
            self.memo[len(self.memo) if argument is None else int(argument)] = stack[-1]
        elif name not in _NOTHING:
            rule = getattr(self, f"_{name.lower()}", None)
            if rule is None:
                raise ValueError(f"it has the instruction {name}")
            rule(argument)

    def _last(self, n: int) -> list[Any]:
        """The last ``n`` values, taken off the stack."""
        if not 0 <= n <= len(self.stack):
            raise ValueError("a pickle that takes more values than there are")
        taken = self.stack[len(self.stack) - n :]
        del self.stack[len(self.stack) - n :]
        return taken

    def _marked(self) -> list[Any]:
        """The values from the last mark on, taken off the stack."""
        return self._last(len(self.stack) - self.marks.pop())

    def _mark(self, _: Any) -> None:
        self.marks.append(len(self.stack))

    def _pop(self, _: Any) -> None:
        if self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        else:
            self.stack.pop()

    def _pop_mark(self, _: Any) -> None:
        self._marked()

    def _dup(self, _: Any) -> None:
        self.stack.append(self.stack[-1])

    def _list(self, _: Any) -> None:
        self.stack.append(self._marked())

    def _frozenset(self, _: Any) -> None:
        self.stack.append(self._marked())

    def _tuple(self, _: Any) -> None:
        self.stack.append(tuple(self._marked()))

    def _dict(self, _: Any) -> None:
        values = self._marked()
        self.stack.append({})
        self._set(values)

    def _append(self, _: Any) -> None:
        self._add(self._last(1))

    def _appends(self, _: Any) -> None:
        self._add(self._marked())

    def _additems(self, _: Any) -> None:
        self._add(self._marked())

    def _setitem(self, _: Any) -> None:
        self._set(self._last(2))

    def _setitems(self, _: Any) -> None:
        self._set(self._marked())

    def _add(self, values: list[Any]) -> None:
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(values)
        elif not isinstance(self.stack[-1], Object):
            raise ValueError("a pickle that appends to what is no list")

    def _set(self, values: list[Any]) -> None:
        target = self.stack[-1]
        entries = target.entries if isinstance(target, Object) else target
        if not isinstance(entries, dict):
            raise ValueError("a pickle that sets an entry of what is no dictionary")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if isinstance(key, str) or (isinstance(key, int) and abs(key) <= _LARGEST_KEY):
                entries[key] = value

    def _global(self, argument: str) -> None:
        self.stack.append(Name(argument.replace(" ", ".", 1)))

    def _stack_global(self, _: Any) -> None:
        module, name = self._last(2)
        if not (isinstance(module, str) and isinstance(name, str)):
            raise ValueError("a pickle that imports what has no name")
        self.stack.append(Name(f"{module}.{name}"))

    def _persid(self, argument: str) -> None:
        self.stack.append(argument)
        self._binpersid(None)

    def _binpersid(self, _: Any) -> None:
        self.references.append(Reference(self.stack.pop()))
        self.stack.append(self.references[-1])

    def _inst(self, argument: str) -> None:
        self._made(Name(argument.replace(" ", ".", 1)), tuple(self._marked()))

    def _obj(self, _: Any) -> None:
        called, *arguments = self._marked()
        self._made(called, tuple(arguments))

    def _reduce(self, _: Any) -> None:
        self._made(*self._last(2))

    def _newobj(self, _: Any) -> None:
        self._made(*self._last(2))

    def _newobj_ex(self, _: Any) -> None:
        called, arguments, _named = self._last(3)
        self._made(called, arguments)

    def _made(self, called: Any, arguments: Any) -> None:
        if not isinstance(arguments, tuple):
            raise ValueError("a pickle that calls with what is no tuple")
        text = called.text if isinstance(called, Name) else type(called).__name__
        dictionary = text == "collections.OrderedDict" and not arguments
        self.stack.append({} if dictionary else Object(text, arguments))

    def _build(self, _: Any) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Object):
            self.stack[-1].state = state

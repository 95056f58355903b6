"""A small language of tensor expressions, such as ``q @ k.mT``: parsed and evaluated safely.

The grammar is that of Python's expressions, parsed by ``ast``; the names are the given ones and
those of ``operations``. Anything else in Python is an error. The cost of each step is checked
before it runs, so that no expression can stall the app or fill the memory.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import math
import re
from collections.abc import Iterable, Mapping
from threading import Lock
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch import Tensor

from gpt2viz.errors import GPT2VizError
from gpt2viz.textbook.operations import (
    ATTRIBUTES,
    FUNCTIONS,
    INVERT,
    ITEM,
    NO_METHODS,
    Function,
    Misfit,
    Value,
    Work,
)

#: The most characters of an expression, and the most nodes of its syntax tree.
LONGEST, MOST_PARTS = 200, 120

#: Python 3.11's parser now and then fails where two threads use it at once: SystemError, "AST
#: constructor recursion depth mismatch".
_PARSER = Lock()

_SIGNS = str.maketrans({"−": "-", "–": "-", "·": "*", "×": "*", "√": "sqrt"})
#: Common notation -> the same in this language: roots of a name or number, infinity as a string,
#: comments, and an assignment: its target is dropped, or with ``+=`` becomes the left operand.
_WAYS = (
    (r"√\s*([A-Za-z_][\w.]*(?:\[[^\]]*\])?|\d[\d.]*)(?!\s*\()", r"sqrt(\1)"),
    (r"""float\(\s*(["'])([-+]?inf)(?:inity)?\1\s*\)""", r"float(\2)"),
    (r"#[^\n]*", ""),
    (r"^\s*\w+\s*=(?!=)", ""),
    (r"^\s*(\w+)\s*([-+*/@])=\s*(?=\S)(.*)$", r"\1 \2 (\3)"),
)
_NOT_ALLOWED = re.compile(r"""[^A-Za-z0-9_\s+\-*/@()\[\],.:=<>!~&|"']""")
_OPERATORS: Mapping[type[ast.AST], str] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"},
    **{ast.FloorDiv: "floor_divide", ast.MatMult: "matmul"},
    **{ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or"},
    **{ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"},
}
_CONSTANTS: Mapping[str, float] = {"inf": math.inf, "pi": math.pi}
#: Modules that may prefix a function's name, as in PyTorch; the prefix is ignored.
_MODULES = frozenset({"torch", "math", "F", "nn", "functional"})
_LARGEST_NUMBER = 10**12
_TORCH = (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError)


class ExpressionError(GPT2VizError):
    """An expression that can't be parsed or evaluated: a sentence with the part and the reason."""


class Expression:
    """A parsed expression; ``text`` is its source, normalised.

    The target of an assignment is dropped. Raises ``ExpressionError`` for invalid text.
    """

    def __init__(self, given: str) -> None:
        for way, same in _WAYS:
            given = re.sub(way, same, given.replace("−", "-"), flags=re.DOTALL)
        self.text = given.translate(_SIGNS).strip()
        if len(self.text) > LONGEST:
            raise ExpressionError(f"This is too long: write at most {LONGEST} characters.")
        if not self.text:
            raise ExpressionError("There is nothing here yet.")
        if bad := _NOT_ALLOWED.search(self.text):
            raise ExpressionError(f"Character {bad.start() + 1} has no meaning here.")
        try:
            with _PARSER:
                self._root = ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            where = f" at character {error.offset}" if error.offset else ""
            raise ExpressionError(f"This can't be read: {error.msg}{where}.") from None
        except (ValueError, MemoryError, RecursionError):
            raise ExpressionError("This can't be read.") from None
        parts = list(ast.walk(self._root))
        if len(parts) > MOST_PARTS:
            raise ExpressionError("This has too many parts; write something shorter.")
        calls = [part for part in parts if isinstance(part, ast.Call) and part.args]
        equations = [call.args[0] for call in calls if ast.unparse(call.func)[-6:] == "einsum"]
        quoted = (x for x in parts if isinstance(getattr(x, "value", 0), str | bytes))
        if any(text not in equations for text in quoted):
            raise ExpressionError("Text in quotes has no meaning here. Infinity is `inf`.")

    @property
    def functions(self) -> set[str]:
        """The names of the functions that it calls, without methods."""
        calls = [part.func for part in ast.walk(self._root) if isinstance(part, ast.Call)]
        return {name.id for name in calls if isinstance(name, ast.Name)}

    def value(self, names: Mapping[str, Value], work: Work | None = None) -> Value:
        """The expression's value with these variables (``names``), none of which is changed.

        Raises ``ExpressionError`` if it can't be evaluated or would take too much ``work``.
        """
        work = work or Work()
        work.begin()
        with torch.inference_mode():
            value: Value = _Evaluation(self.text, names, work).visit(self._root)
        return value

    def tensor(self, names: Mapping[str, Value], work: Work | None = None) -> Tensor:
        """The same in float32; also raises ``ExpressionError`` if it isn't a tensor."""
        work = work or Work()
        value = self.value(names, work)
        if not isinstance(value, Tensor):
            raise ExpressionError(f"`{self.text}`: this isn't a tensor, but one is needed.")
        try:
            work.cast(value)
        except Misfit as error:
            raise ExpressionError(f"`{self.text}`: {error}") from None
        return value.to(torch.float32)


class _Evaluation(ast.NodeVisitor):
    """One recursive evaluation of an expression's syntax tree."""

    def __init__(self, text: str, names: Mapping[str, Value], work: Work) -> None:
        self.text, self.names, self.work = text, names, work

    def generic_visit(self, node: ast.AST) -> NoReturn:
        raise self._error(node, "this has no meaning here.")

    def _error(self, node: ast.AST, message: str) -> ExpressionError:
        part = ast.get_source_segment(self.text, node) or self.text
        return ExpressionError(f"`{' '.join(part.split())}`: {message}")

    def _unknown(self, node: ast.AST, name: str, known: Iterable[str]) -> ExpressionError:
        """The error for an unknown name; it says so if PyTorch has that name."""
        homes = (torch, Tensor, torch.nn.functional)
        theirs = [getattr(home, name) for home in homes if hasattr(home, name)]
        if theirs and not name.startswith("_") and not isinstance(theirs[0], ModuleType):
            return self._error(node, f"{name} exists in PyTorch, but not in this small language.")
        near = difflib.get_close_matches(name, list(known), 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        at_hand = ", ".join(self.names) if isinstance(node, ast.Name) else ""
        meant = meant or (f" At hand: {at_hand}." if at_hand else "")
        return self._error(node, f"unknown name.{meant}")

    def _do(self, node: ast.AST, function: Function, *given: Any, **named: Any) -> Value:
        """Run a function; every failure becomes one sentence after the source of the step."""
        try:
            value: Value = function(self.work, *given, **named)
        except Misfit as error:
            raise self._error(node, str(error)) from None
        except ZeroDivisionError:
            raise self._error(node, "a number is divided by 0.") from None
        except OverflowError:
            raise self._error(node, "a number gets too large.") from None
        except _TORCH as error:
            message = str(error).partition("\n")[0].replace("`", "")
            raise self._error(node, f"this can't be computed: {message}") from None
        return value

    def visit_Constant(self, node: ast.Constant) -> Value:
        value = node.value
        if value is None or value is Ellipsis or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and abs(value) <= _LARGEST_NUMBER:
            return value
        raise self._error(node, "only numbers of ordinary size can stand here.")

    def visit_Name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.names[node.id]
        if node.id in _CONSTANTS:
            return _CONSTANTS[node.id]
        if node.id in FUNCTIONS:
            raise self._error(node, "this is a function; brackets with what it takes must follow.")
        raise self._unknown(node, node.id, [*self.names, *_CONSTANTS, *FUNCTIONS])

    def visit_BinOp(self, node: ast.BinOp) -> Value:
        name = _OPERATORS.get(type(node.op))
        if name is None:
            raise self._error(node, "this operation has no meaning here.")
        left, right = self.visit(node.left), self.visit(node.right)
        return self._do(node, FUNCTIONS[name], left, right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Value:
        x: Value = self.visit(node.operand)
        if isinstance(node.op, ast.USub):
            return self._do(node, FUNCTIONS["mul"], x, -1)
        if isinstance(node.op, ast.Invert):
            return self._do(node, INVERT, x)
        if isinstance(node.op, ast.UAdd):
            return x
        raise self._error(node, "not has no meaning here; ~ turns True and False round.")

    def visit_Compare(self, node: ast.Compare) -> Value:
        name = _OPERATORS.get(type(node.ops[0]))
        if name is None or len(node.ops) > 1:
            raise self._error(node, "compare two things, with ==, !=, <, <=, > or >=.")
        left, right = self.visit(node.left), self.visit(node.comparators[0])
        return self._do(node, FUNCTIONS[name], left, right)

    def visit_Call(self, node: ast.Call) -> Value:
        called, first = self._resolve_call(node.func)
        named = {word.arg or "": self.visit(word.value) for word in node.keywords}
        equation: list[Any] = []
        if called == "einsum" and isinstance(text := (node.args or [node])[0], ast.Constant):
            equation = [str(text.value)]
        given = [*first, *equation, *map(self.visit, node.args[len(equation) :])]
        parameters = inspect.signature(FUNCTIONS[called].run)
        try:
            parameters.bind(*given, **named)
        except TypeError as error:
            takes = ", ".join(parameters.parameters)
            raise self._error(node, f"{error}; {called} takes ({takes}).") from None
        return self._do(node, FUNCTIONS[called], *given, **named)

    def _resolve_call(self, function: ast.expr) -> tuple[str, list[Value]]:
        """The name of the called function, and for a method the tensor that it is called on."""
        if isinstance(function, ast.Name):
            if function.id in FUNCTIONS:
                return function.id, []
            raise self._unknown(function, function.id, FUNCTIONS)
        if not isinstance(function, ast.Attribute):
            raise self._error(function, "this can't be called.")
        if _is_module(function.value) and function.attr in FUNCTIONS:
            return function.attr, []
        if function.attr in FUNCTIONS and function.attr not in NO_METHODS:
            return function.attr, [self.visit(function.value)]
        raise self._unknown(function, function.attr, FUNCTIONS)

    def visit_Attribute(self, node: ast.Attribute) -> Value:
        if _is_module(node.value) and node.attr in _CONSTANTS:
            return _CONSTANTS[node.attr]
        if node.attr not in ATTRIBUTES:
            known = [*ATTRIBUTES, *(set(FUNCTIONS) - NO_METHODS)]
            raise self._unknown(node, node.attr, known)
        return self._do(node, ATTRIBUTES[node.attr], self.visit(node.value))

    def visit_Subscript(self, node: ast.Subscript) -> Value:
        return self._do(node, ITEM, self.visit(node.value), self.visit(node.slice))

    def visit_Slice(self, node: ast.Slice) -> Value:
        ends = [None if x is None else self.visit(x) for x in (node.lower, node.upper, node.step)]
        if any(not isinstance(end, int | None) for end in ends):
            raise self._error(node, "the ends of a slice must be whole numbers.")
        return slice(*ends)

    def visit_Tuple(self, node: ast.Tuple | ast.List) -> Value:
        return tuple(map(self.visit, node.elts))

    visit_List = visit_Tuple  # noqa: N815 - a name of ast's


def _is_module(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):  # torch.nn.functional
        return node.attr in _MODULES and _is_module(node.value)
    return isinstance(node, ast.Name) and node.id in _MODULES

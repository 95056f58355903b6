"""What a reader types into a question's field: whether it is right, and what can be said if not."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

#: How far a number may be off: half a unit of the second decimal.
TOLERANCE = 0.0051
#: Characters of the longest answer that is read.
LONGEST = 80

_COUNTED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
_TENS = "thirty forty fifty sixty seventy eighty ninety hundred"
_WORDS = {word: str(n) for n, word in enumerate(_COUNTED.split())}
_WORDS |= {word: f"{n}0" for n, word in enumerate(_TENS.split(), start=3)}
_WORDS |= {"half": "0.5", "thousand": "1000"}
_SAID = _WORDS | {"x": "*", "times": "*", "over": "/", "minus": "-"}
_SIGNS = str.maketrans(dict.fromkeys("−–—", "-") | dict.fromkeys("·×⋅∙", "*") | {"÷": "/"})
_FUNCTIONS = {"ln": math.log, "log": math.log, "log2": math.log2, "sqrt": math.sqrt}
_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_TOKEN = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|log2|[^\W\d_]+|\S")
_GROUPED = r"(?<![\d.,])\d{1,3}(?:[%s]\d{3})+(?![\d])"
_FILLERS = {"a", "an", "at", "for", "is", "it", "of", "on", "the", "token", "word"}


def right(given: str, answer: str, also: Sequence[str] = ()) -> bool:
    """Whether a typed text is the answer, or one of those that are right ``also``.

    An answer of one number may be typed as a word ("six"), with a decimal comma ("1,39"), in
    groups ("38,597,376"), with a unit or as a calculation ("ln 4"), within ``TOLERANCE``. One of
    several numbers is a shape: what stands between them doesn't count. Of an answer in words,
    case, quotes and words such as "the" don't count.
    """
    return any(_same(given[:LONGEST], one) for one in (answer, *also))


def told(given: str, answer: str, near: Mapping[str, str]) -> str:
    """What a wrong answer would be right for, in a sentence; "" where that can't be told.

    ``near`` has a sentence for each wrong answer that is known, several of them with " | " between.
    """
    given = given[:LONGEST]
    for wrong, sentence in near.items():
        if any(_same(given, one) for one in wrong.split(" | ")):
            return sentence
    if _is_shape(answer):
        return _of_a_shape(_sizes(given), _sizes(answer))
    return _of_a_number(list(values(given)), answer) if _is_number(answer) else ""


def values(given: str) -> Iterator[float]:
    """What a typed number may mean: a comma or a point may stand for thousands or decimals."""
    plain = given.casefold().translate(_SIGNS).replace("√", "sqrt").rpartition("=")[2]
    plain = _ungrouped(plain, " '’_\u00a0\u202f")
    readings = (_ungrouped(plain, ","), plain.replace(",", "."), _ungrouped(plain, "."))
    for reading in dict.fromkeys(readings):
        try:
            yield _Calculation(_tokens(reading)).value()
        except (ArithmeticError, ValueError, IndexError):
            continue


def _same(given: str, answer: str) -> bool:
    if _is_shape(answer):
        return _sizes(given) == _sizes(answer)
    if _is_number(answer):
        return any(abs(value - float(answer)) <= TOLERANCE for value in values(given))
    return bool(_spoken(given)) and _spoken(given) == _spoken(answer)


def _is_shape(answer: str) -> bool:
    return answer.startswith("(")


def _is_number(answer: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", answer) is not None


def _sizes(shape: str) -> list[int]:
    found = re.findall(r"\d+|[^\W\d_]+", shape.casefold())
    return [int(n) for n in (_WORDS.get(part, part) for part in found) if n.isdecimal()]


def _spoken(text: str) -> list[str]:
    words = re.findall(r"[^\W\d_]+", text.casefold())
    return [word for word in words if word not in _FILLERS] or words


def _of_a_shape(found: list[int], wanted: list[int]) -> str:
    if not found:
        return "The answer is a shape: the sizes of all axes, such as (2, 3)."
    if len(found) != len(wanted):
        return f"The answer has {len(wanted)} axes; yours has {len(found)}."
    if sorted(found) == sorted(wanted):
        return "The right sizes in the wrong order: which axis comes first?"
    return ""


def _of_a_number(found: list[float], answer: str) -> str:
    wanted = float(answer)
    if not found:
        return "The answer is a number."
    if any(abs(value + wanted) <= TOLERANCE for value in found):
        return "Right except for the sign."
    if "." in answer and any(abs(value - wanted) <= 0.02 * abs(wanted) for value in found):
        return "Close: mind the decimals."
    return ""


def _ungrouped(text: str, separators: str) -> str:
    """Without the separators between groups of three digits."""
    found = re.compile(_GROUPED % re.escape(separators))
    return found.sub(lambda group: re.sub(f"[{re.escape(separators)}]", "", group[0]), text)


def _tokens(text: str) -> list[str]:
    """Numbers, signs and functions; "times" is a sign, other words are units and fall away."""
    apart = re.sub(r"(?<=[^\W\d_])-(?=[^\W\d_])", " ", text)  # twenty-five isn't 20 - 5
    found = [_SAID.get(token, token) for token in _TOKEN.findall(apart)]
    found = [token for token in found if token in _FUNCTIONS or not token.isalpha()]
    while found and found[0] in "*+~≈":
        del found[0]
    while found and found[-1] in "*.!%":
        del found[-1]
    return found


class _Calculation:
    """A sum of products of numbers, brackets and functions; ``ValueError`` for anything else."""

    def __init__(self, tokens: list[str]) -> None:
        self.left = tokens

    def value(self) -> float:
        found = self._sum()
        if self.left:
            raise ValueError(self.left)
        return found

    def _sum(self) -> float:
        found = self._product()
        while self.left and self.left[0] in "+-":
            found = _OPERATIONS[self.left.pop(0)](found, self._product())
        return found

    def _product(self) -> float:
        found = self._factor()
        while self.left and (self.left[0] in "*/(" or self.left[0] in _FUNCTIONS):
            sign = self.left.pop(0) if self.left[0] in "*/" else "*"  # 2 ln 2
            found = _OPERATIONS[sign](found, self._factor())
        return found

    def _factor(self) -> float:
        first = self.left.pop(0)
        if first == "-":
            return -self._factor()
        if first in _FUNCTIONS:
            return _FUNCTIONS[first](self._factor())
        if first == "(":
            found = self._sum()
            if self.left.pop(0) != ")":
                raise ValueError("no closing bracket")
            return found
        return float(first)

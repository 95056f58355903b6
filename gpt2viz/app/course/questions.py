"""A chapter's questions: answers typed or done on screen, hints for wrong ones, and progress."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import streamlit as st

from gpt2viz.app import prose
from gpt2viz.app.course import progress
from gpt2viz.textbook.expressions import Expression, ExpressionError

#: Tolerance of typed numbers: half a unit of the second decimal.
TOLERANCE = 0.0051
#: Most characters of an answer that are read.
LONGEST = 80
#: The mark of a question to answer in one's own words, to be compared with its ``why``; and the
#: least number of words.
EXPLAINED, _WORDS_OF_IT = "…", 12

_COUNTED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
_TENS = "thirty forty fifty sixty seventy eighty ninety hundred"
_WORDS = {word: str(n) for n, word in enumerate(_COUNTED.split())}
_WORDS |= {word: f"{n}0" for n, word in enumerate(_TENS.split(), start=3)}
#: A number below a hundred in two words, such as ninety nine.
_TWO_WORDS = re.compile(
    rf"\b(twenty|{'|'.join(_TENS.split()[:-1])}) (one|{'|'.join(_COUNTED.split()[2:10])})\b"
)
_WORDS |= {"half": "0.5", "thousand": "1000"}
_REPLACEMENTS = _WORDS | {"x": "*", "times": "*", "over": "/", "minus": "-", "ln": "log"}
_SIGNS = str.maketrans(dict.fromkeys("−–—", "-") | dict.fromkeys("·×⋅∙", "*") | {"÷": "/"})
_FUNCTIONS = {"log", "log2", "sqrt"}
_TOKEN = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|log2|[^\W\d_]+|\S")
_GROUPED = r"(?<![\d.,])\d{1,3}(?:[%s]\d{3})+(?![\d])"
_FILLERS = {"a", "an", "at", "for", "is", "it", "of", "on", "the", "token", "word"}


def is_right(given: str, answer: str, also: Sequence[str] = ()) -> bool:
    """Return whether a typed text is the answer, or one of ``also``, which are right too.

    A number may be typed as a word ("six"), with a decimal comma ("1,39"), in groups
    ("38,597,376"), with a unit or as a calculation ("ln 4"), within ``TOLERANCE``. A shape,
    "(2, 3)", is compared by its numbers, whatever is between them. An answer in words is compared
    without case, quotes and words such as "the".
    """
    if answer == EXPLAINED:
        return len(given.split()) >= _WORDS_OF_IT
    return any(_is_same(given[:LONGEST], right) for right in (answer, *also))


def explain_wrong(given: str, answer: str, near: Mapping[str, str]) -> str:
    """Return a hint on a wrong answer, or "".

    ``near`` has a sentence for each known wrong answer, or for several, separated by " | ".
    """
    given = given[:LONGEST]
    for wrong, sentence in near.items():
        if any(_is_same(given, answer_text) for answer_text in wrong.split(" | ")):
            return sentence
    if _is_shape(answer):
        return _shape_hint(_sizes(given), _sizes(answer))
    return _number_hint(list(values(given)), answer) if _is_number(answer) else ""


def values(given: str) -> Iterator[float]:
    """Yield the readings of a typed number: commas and points may mark thousands or decimals."""
    plain = given.casefold().translate(_SIGNS).replace("√", "sqrt").rpartition("=")[2]
    plain = _ungroup_digits(plain, " '’_\u00a0\u202f")
    readings = (_ungroup_digits(plain, ","), plain.replace(",", "."), _ungroup_digits(plain, "."))
    for reading in dict.fromkeys(readings):
        try:
            value = Expression(_expression(_tokens(reading))).value({})
        except ExpressionError:
            continue
        if isinstance(value, int | float) and not set("<>&|#") & set(reading):
            yield value


def _is_same(given: str, answer: str) -> bool:
    if _is_shape(answer):
        return _sizes(given) == _sizes(answer)
    if _is_number(answer):
        return any(abs(value - float(answer)) <= TOLERANCE for value in values(given))
    return bool(_content_words(given)) and _content_words(given) == _content_words(answer)


def _is_shape(answer: str) -> bool:
    return answer.startswith("(")


def _is_number(answer: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", answer) is not None


def _sizes(shape: str) -> list[int]:
    parts = re.findall(r"\d+|[^\W\d_]+", shape.casefold())
    return [int(n) for n in (_WORDS.get(part, part) for part in parts) if n.isdecimal()]


def _content_words(text: str) -> list[str]:
    words = re.findall(r"[^\W\d_]+", text.casefold())
    return [word for word in words if word not in _FILLERS] or words


def _shape_hint(sizes: list[int], right_sizes: list[int]) -> str:
    if not sizes:
        return "The answer is a shape: the sizes of all axes, such as (2, 3)."
    if len(sizes) != len(right_sizes):
        return f"The answer has {len(right_sizes)} axes; yours has {len(sizes)}."
    if sorted(sizes) == sorted(right_sizes):
        return "The right sizes in the wrong order: which axis comes first?"
    return ""


def _number_hint(numbers: list[float], answer: str) -> str:
    right = float(answer)
    if not numbers:
        return "The answer is a number."
    if any(abs(value + right) <= TOLERANCE for value in numbers):
        return "Right except for the sign."
    if "." in answer and any(abs(value - right) <= 0.02 * abs(right) for value in numbers):
        return "Close: mind the decimals."
    return ""


def _ungroup_digits(text: str, separators: str) -> str:
    """Remove the separators between groups of three digits."""
    grouped = re.compile(_GROUPED % re.escape(separators))
    return grouped.sub(lambda group: re.sub(f"[{re.escape(separators)}]", "", group[0]), text)


def _expression(tokens: list[str]) -> str:
    """Write a calculation as an expression: ln 4 as log(4), and 2 ln 2 as a product."""
    parts: list[str] = []
    for token in reversed(tokens):
        if token in _FUNCTIONS and parts and parts[0] != "(":
            parts[0] = f"{token}({parts[0]})"
        else:
            parts.insert(0, token)
    return re.sub(r"(?<!\S)([\d.]\S*|\S*\)) (?=[(ls])", r"\1 * ", " ".join(parts))


def _tokens(text: str) -> list[str]:
    """Split a text into numbers, signs and functions; "times" is a sign, units are dropped."""
    split = re.sub(r"(?<=[^\W\d_])-(?=[^\W\d_])", " ", text)  # twenty-five isn't 20 - 5
    split = _TWO_WORDS.sub(lambda both: str(int(_WORDS[both[1]]) + int(_WORDS[both[2]])), split)
    tokens = [_REPLACEMENTS.get(token, token) for token in _TOKEN.findall(split)]
    tokens = [token for token in tokens if token in _FUNCTIONS or not token.isalpha()]
    while tokens and tokens[0] in "*+~≈":
        del tokens[0]
    while tokens and tokens[-1] in "*.!%":
        del tokens[-1]
    return tokens


class Check(NamedTuple):
    """The fields of a ``Question`` that a chapter's example decides."""

    done: bool = False
    note: str = ""
    near: Mapping[str, str] = {}


class Question(NamedTuple):
    """A question: ``done`` if the screen shows what it asks for, or with an ``answer`` to type.

    ``also`` are other right answers. ``why`` is shown once it is answered; ``note`` until it is
    done: a remark on what is on screen now, or "". ``near`` has a sentence for each known wrong
    answer, or for several, separated by " | ".
    """

    id: str
    text: str
    hint: str
    why: str
    done: bool = False
    answer: str = ""
    also: tuple[str, ...] = ()
    note: str = ""
    near: Mapping[str, str] = {}


def ask(chapter: str, questions: Iterable[Question]) -> None:
    """Draw the questions and record those that are answered.

    ``questions`` may be a generator that draws the chapter between them, so that each question is
    drawn below what it is about.
    """
    for question in questions:
        _ask(question, progress.answers().setdefault(chapter, []))
    if st.session_state.pop("_noted", False):
        st.rerun()


def _ask(question: Question, answered: list[str]) -> None:
    """Draw one question; ``theme.css`` highlights its frame once it shows why.

    A reader's own words aren't judged: the answer to compare them with is shown below.
    """
    with st.container(border=True, key=f"question_{question.id}"):
        before, explained = question.id in answered, question.answer == EXPLAINED
        words, hint = st.columns([8, 1], vertical_alignment="center")
        tick = ":green[**✓**]" if before and not explained else "**?**"
        prose.markdown(f"{tick} {question.text}", slot=words)
        with hint.popover("Hint", type="tertiary"):
            prose.markdown(question.hint)
        done = _ask_explanation(question.id) if explained else before or _ask_answer(question)
        if before or done:
            with st.container(key=f"{'compare' if explained else 'why'}_{question.id}"):
                right = ":green-badge[done] " + f"**{question.answer}**. " * bool(question.answer)
                verdict = "**Compare for yourself.**\n\n" if explained else right
                prose.markdown(verdict + question.why)
            if not before:
                answered.append(question.id)
                st.session_state["_noted"] = True  # redraw the contents, which were drawn before


def _ask_explanation(id: str) -> bool:
    """Draw the field for an explanation; return whether it is long enough."""
    texts, key = progress.explanations(), f"answer_{id}"
    shown = texts.get(id, "")
    with st.form(f"own_{id}", border=False):
        given = st.text_area("In your own words", shown, key=key, height=100, max_chars=800)
        st.form_submit_button("Send")
    texts[id] = given
    done = is_right(given, EXPLAINED)
    if given and not done:
        prose.caption("A sentence or two, please.")
    return done


def _ask_answer(question: Question) -> bool:
    """Draw a question's field, if any; return whether it is answered now, or draw its note."""
    done, note = question.done, question.note
    if question.answer:
        key = f"answer_{question.id}"
        given = st.text_input("Your answer", key=key, width=260, max_chars=LONGEST)
        done = is_right(given, question.answer, question.also)
        if given and not done:
            note = explain_wrong(given, question.answer, question.near)
            note = f"Not yet. {note or 'Look again, or take the hint.'}"
    if note and not done:
        prose.caption(note)
    return done

"""A head's behaviour in one sentence, made of the numbers on screen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpt2viz import Trace
from gpt2viz.pictures.panel import Axis, Panel

#: A number that is a smaller share of its row than this isn't told.
_LEAST = np.float32(0.05)


class _Words(NamedTuple):
    """The words for numbers of one kind: what a query does to the keys that follow, and why it is
    this query where none is chosen."""

    takes: str
    why: str


_WEIGHTS = _Words("looks at", "the hardest look at another {0} that isn't the first")
#: By the name of the panel: a key in ``measures.MEASURES``.
_WORDS = {
    "rest": _Words(
        "gives the weight that it doesn't put on the first {0} to",
        "the largest share for another {0}",
    ),
    "norms": _Words(
        "takes its longest vectors from",
        "the longest vector from another {0} that isn't the first",
    ),
}


def describe_head(
    shown: Panel,
    masked: Panel | None = None,
    *,
    query: int | None,
) -> str:
    """A head's behaviour at the chosen ``query``, or else at the query of its hardest look.

    ``shown`` are the numbers (T, T) of the picture that the sentence stands at, between tokens or
    words; ``masked`` are those with the causal mask on where ``shown`` are without it. It is plain
    text, not Markdown.
    """
    noun = "token" if shown.rows.positions is None else "word"
    words, why = _WORDS.get(shown.name, _WEIGHTS), ""
    row = None if query is None else shown.rows.row_at(query)
    if row is None:
        hardest = _hardest(shown.values)
        row = int(hardest.argmax())
        if hardest[row] == 0:
            if len(hardest) == 1:
                return f"a single {noun} can look only at itself."
            return f"every {noun} looks only at itself and at the first."
        why = f": of its rows the one with {words.why.format(noun)}"
    name = _named(shown.rows, row)
    if np.isnan(shown.values[row]).any():
        return f"the weights of {name} are NaN, not numbers."
    takes = words.takes.format(noun)
    at = _looked_at(shown, row)
    if not at:
        return f"{name} {takes} nothing: its whole weight is on the first."
    if masked is not None:
        at += f" (with the mask on at {_looked_at(masked, row) or 'nothing'})"
    return f"{name} {takes} {at}{why}."


def _hardest(values: np.ndarray) -> np.ndarray:
    """Of every row (T,) the largest number at another key that isn't the first, 0 for none."""
    others = values.copy()
    others[:, 0] = 0
    np.fill_diagonal(others, 0)
    hardest: np.ndarray = others.max(axis=1)
    return hardest


def _looked_at(panel: Panel, row: int) -> str:
    """The keys with the three largest numbers of a row, each with its number; one at least, unless
    all are 0."""
    numbers = panel.values[row]
    least = _LEAST * (numbers.sum() if panel.name == "norms" else 1)
    most = [int(n) for n in np.argsort(-numbers, kind="stable")[:3] if numbers[n] > 0]
    keys = [n for n in most if numbers[n] >= least] or most[:1]
    return ", ".join(f"{_named(panel.columns, n)} ({numbers[n]:.2f})" for n in keys)


def token_names(trace: Trace) -> list[str]:
    """The tokens' names in such a sentence, as plain texts."""
    axis = Axis("query", trace.labels)
    return [_named(axis, position) for position in range(len(trace.labels))]


def _named(axis: Axis, row: int) -> str:
    """A token's label, with its place where others have the same."""
    text = axis.labels[row]
    suffix = f" ({axis.position(row)})" if axis.labels.count(text) > 1 else ""
    return f"{text}{suffix}"

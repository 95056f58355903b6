"""A head's behaviour in one sentence, made of the numbers on screen."""

from __future__ import annotations

import numpy as np

from gpt2viz import Trace
from gpt2viz.labels import sentence, template
from gpt2viz.pictures.panel import Axis, Panel

#: A number that is a smaller share of its row than this isn't told.
_LEAST = np.float32(0.05)


#: The sentences for other numbers than weights, by the name of the panel: a key in
#: ``measures.MEASURES``.
_SENTENCES = {"rest": "head.attends_past_first", "norms": "head.takes_vectors"}
#: The sentences that the browser fills by itself: ``does`` in scripts/head_picture.js.
IN_BROWSER = {
    "attends": template("head.attends"),
    "first": template("head.attends_only_to_first"),
    "itself": template("head.attends_to_itself"),
}


def describe_head(
    shown: Panel,
    masked: Panel | None = None,
    *,
    query: int | None,
) -> str:
    """A head's behaviour at the chosen ``query``, or else at that of its strongest link.

    ``shown`` are the numbers (T, T) of the picture that the sentence stands at, between tokens or
    words; ``masked`` are those with the causal mask on where ``shown`` are without it. It is plain
    text, not Markdown.
    """
    noun = "token" if shown.rows.positions is None else "word"
    row = None if query is None else shown.rows.row_at(query)
    if row is None:
        hardest = _hardest(shown.values)
        row = int(hardest.argmax())
        if hardest[row] == 0:
            alone = len(hardest) == 1
            return sentence(
                "head.attends_to_itself" if alone else "head.attends_only_to_first", noun=noun
            )
    name = _named(shown.rows, row)
    if np.isnan(shown.values[row]).any():
        return sentence("head.not_numbers", query=name)
    keys = _looked_at(shown, row)
    if not keys:
        return sentence("head.attends_to_nothing", query=name, noun=noun)
    if masked is not None:
        with_mask = _looked_at(masked, row) or "nothing"
        keys = sentence("head.with_mask", keys=keys, masked=with_mask)
    return sentence(_SENTENCES.get(shown.name, "head.attends"), query=name, keys=keys, noun=noun)


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

"""A head's behaviour in one sentence, from the numbers on screen."""

from __future__ import annotations

import numpy as np

from gpt2viz import Trace
from gpt2viz.arrays import largest
from gpt2viz.labels import sentence, template
from gpt2viz.pictures.panel import Axis, Panel

#: Numbers that are a smaller share of their row are left out.
LEAST = np.float32(0.05)


#: The sentences for numbers other than weights, by the panel's name, a key of
#: ``measures.MEASURES``.
_SENTENCES = {"rest": "head.attends_past_first", "norms": "head.takes_vectors"}
#: The sentences that the browser fills in itself: ``describeHead`` in scripts/head_picture.js.
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
    """Describe a head at the chosen ``query``, or else at the query of its strongest link.

    ``shown`` are the numbers (T, T) of the picture beside the sentence, between tokens or words;
    ``masked`` are those with the causal mask on, if ``shown`` are without it. Returns plain text,
    not Markdown.
    """
    noun = "token" if shown.rows.positions is None else "word"
    if shown.name == "norms" and not shown.values.any():  # a head that is off
        return sentence("head.takes_nothing", noun=noun)
    row = None if query is None else shown.rows.row_at(query)
    if row is None:
        row = strongest_query(shown.values)
    if row is None:
        which = "head.attends_to_itself" if len(shown.values) == 1 else "head.attends_only_to_first"
        return sentence(which, noun=noun)
    name = _token_name(shown.rows, row)
    if np.isnan(shown.values[row]).any():
        return sentence("head.not_numbers", query=name)
    keys = _strongest_keys(shown, row)
    if not keys:
        return sentence("head.attends_to_nothing", query=name, noun=noun)
    if masked is not None:
        with_mask = _strongest_keys(masked, row) or "nothing"
        keys = sentence("head.with_mask", keys=keys, masked=with_mask)
    return sentence(_SENTENCES.get(shown.name, "head.attends"), query=name, keys=keys, noun=noun)


def strongest_query(values: np.ndarray) -> int | None:
    """Return the row of the largest number off the diagonal and the first column, if any."""
    others = values.copy()
    others[:, 0] = 0
    np.fill_diagonal(others, 0)
    strongest = others.max(axis=1)
    return int(strongest.argmax()) if strongest.any() else None


def _strongest_keys(panel: Panel, row: int) -> str:
    """Return the keys of a row's three largest numbers, each with its number; at least one key
    unless all are 0."""
    numbers = panel.values[row]
    least = LEAST * (numbers.sum() if panel.name == "norms" else 1)
    most = [int(n) for n in largest(numbers, 3) if numbers[n] > 0]
    keys = [n for n in most if numbers[n] >= least] or most[:1]
    return ", ".join(f"{_token_name(panel.columns, n)}: {numbers[n]:.2f}" for n in keys)


def token_names(trace: Trace, form: str = "“{}”") -> list[str]:
    """Return the tokens' names, as plain text in a ``form``: by default that of such sentences."""
    axis = Axis("query", trace.labels)
    return [_token_name(axis, position, form) for position in range(len(trace.labels))]


def _token_name(axis: Axis, row: int, form: str = "“{}”") -> str:
    """Return a token's label, with its position if others have the same label."""
    text = axis.labels[row]
    suffix = f" ({axis.position(row)})" if axis.labels.count(text) > 1 else ""
    return f"{form.format(text)}{suffix}"

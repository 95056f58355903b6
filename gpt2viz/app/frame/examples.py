"""Examples: each is a view, a sentence with the head in which something can be seen there.

Which head that is is found on the sentence, whatever the model, and what it does is said with the
numbers of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import streamlit as st

from gpt2viz import GPT2VizError, Trace
from gpt2viz.app import address, output, pages, parameters, popover, run_cache
from gpt2viz.app.frame import sentence
from gpt2viz.app.literal import literal
from gpt2viz.labels import shorten
from gpt2viz.run.key import RunKey


@dataclass(frozen=True)
class Example:
    """A sentence, the word in it that asks, and how to find the head that is shown.

    That is the one with the most of a ``habit``, the name of a score, on this sentence; without a
    habit, the one that takes most ``of`` another word for the one that asks. ``shows`` says so.
    """

    name: str
    text: str
    word: str
    shows: str
    habit: str = ""
    of: str = ""


#: The first is what a newcomer reads.
EXAMPLES = (
    Example("Crane", "A crane ate fish", "fish", "spreads its weights most widely here", "entropy"),
    Example(
        "Pronoun",
        "The animal didn't cross the street because it was too tired",
        "it",
        "takes more of “animal” than any other head",
        of="animal",
    ),
    Example(
        "Repeated name",
        "When Mary and John went to the store, John gave a drink to Mary",
        "Mary",
        "looks most at what followed the same word before",
        "induction",
    ),
    Example(
        "Which name",
        "When Mary and John went to the store, John gave a drink to",
        "to",
        "takes more of “Mary” than any other head",
        of="Mary",
    ),
    Example(
        "Said twice",
        "The red bird sang all night. The red bird sang all",
        "sang",
        "looks most at what followed the same word before",
        "induction",
    ),
    Example(
        "Two banks",
        "He took money from the bank and sat by the bank of the river",
        "river",
        "takes more of the second “bank” than any other head",
        of="bank",
    ),
    Example(
        "Code",
        "def add(a, b): return a + b",
        "return",
        "looks most at the token just before",
        "previous token",
    ),
    Example(
        "Paragraph",
        "Alice was beginning to get very tired of sitting by her sister on the bank, and of having "
        "nothing to do: once or twice she had peeped into the book her sister was reading, but it "
        "had no pictures or conversations in it.",
        "sister",
        "reaches back furthest here",
        "mean distance",
    ),
)
#: A weight below this isn't told.
_LEAST = 0.1


class Seen(NamedTuple):
    """The view of an example: a head, and the positions of the token that asks and of the
    other word's, None where the example has none."""

    layer: int
    head: int
    query: int
    key: int | None


def button() -> None:
    """Draw the button, and what it opens: the examples. Choosing one closes the list."""
    popover.button("Examples", _body, key="examples")


def _body() -> None:
    for example in EXAMPLES:
        shown = f"**{example.name}** :gray[{literal(shorten(example.text, 60))}]"
        name = f"example_{example.name}"
        st.button(shown, key=name, type="tertiary", on_click=_open, args=(example,))


def _open(example: Example) -> None:
    """Set the sentence of the example, the token that asks, and the head that is found."""
    seen = None
    with suppress(GPT2VizError):  # the page says what is wrong
        model = run_cache.load(address.get(parameters.MODEL))
        ids, causal = sentence.encode(model, example.text), address.get(parameters.CAUSAL)
        seen = find(example, run_cache.run(RunKey(model.name, ids, causal)))
    address.put(parameters.TEXT, example.text)
    address.put(parameters.QUERY, seen and seen.query)
    if seen:
        address.put(parameters.LAYER, seen.layer)
        address.put(parameters.HEAD, seen.head)
    popover.close("examples")


def find(example: Example, trace: Trace) -> Seen | None:
    """The view of the example in a run of its sentence; None where no head is better."""
    query = _last(example.word, example.text, trace.token_bytes)
    key = _last(example.of, example.text, trace.token_bytes) if example.of else None
    if key is None:
        scores = run_cache.head_scores(trace.key)[example.habit]
    else:
        layers = range(trace.config.n_layer)
        scores = np.stack([trace.stage("weights", n)[0, :, query, key] for n in layers])
    if np.isnan(scores).any():
        return None
    layer, head = np.unravel_index(scores.argmax(), scores.shape)
    return Seen(int(layer), int(head), query, key)


def _last(word: str, text: str, token_bytes: Sequence[bytes]) -> int:
    """The place of the token that a word ends with, where it stands last in the text."""
    before_end = text.rindex(word) + len(word)
    after = len(text[before_end:].encode())
    n = len(token_bytes) - 1
    while after >= len(token_bytes[n]):
        after -= len(token_bytes[n])
        n -= 1
    return n


def subject(trace: Trace) -> tuple[int, int, int] | tuple[()]:
    """The layer, the head and the query that the frame's note is about, if there is one."""
    opened = _open_example(trace)
    return (opened[1].layer, opened[1].head, opened[1].query) if opened else ()


def _open_example(trace: Trace) -> tuple[Example, Seen] | None:
    """The example whose sentence is open, and where it is to be seen; not on every page."""
    text = address.get(parameters.TEXT)
    example = next((example for example in EXAMPLES if example.text == text), None)
    if example is None or pages.called(output.shown().page) not in parameters.HEAD.on:
        return None
    seen = find(example, trace)
    return seen and (example, seen)


def _shows_others() -> bool:
    """True if the address asks for other numbers than weights between tokens."""
    values = (address.raw(parameter) for parameter in (parameters.SHOW, parameters.WORDS))
    return not {*values} <= {None, parameters.SHOW.default, "false"}


def says(trace: Trace) -> str:
    """The note on an example whose view is open, Markdown; "" anywhere else.

    Its numbers are weights between tokens: nothing is said beside a picture of others.
    """
    opened = None if _shows_others() else _open_example(trace)
    chosen = [address.raw(p) for p in (parameters.LAYER, parameters.HEAD, parameters.QUERY)]
    if opened is None or chosen != [str(n) for n in opened[1][:3]]:
        return ""
    example, seen = opened
    weights = trace.stage("weights", seen.layer)[0, seen.head, seen.query]
    listed = [int(n) for n in (-weights).argsort()[:2] if weights[n] >= _LEAST]
    if seen.key is not None and seen.key not in listed:
        listed.append(seen.key)
    labels = [literal(label) for label in trace.labels]
    looks = ", ".join(f"{labels[n]} ({weights[n]:.2f})" for n in listed)
    at = f" looks at {looks}" if listed else " looks at nothing in particular"
    return f"**Layer {seen.layer} · Head {seen.head}** {example.shows}: {labels[seen.query]}{at}."

"""Examples: sentences, each with a kind of head that shows something there.

The head is looked for on the sentence, in any model, and described with the numbers of the run. An
example is offered only for models that have such a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import streamlit as st

from gpt2viz import GPT2VizError, Trace
from gpt2viz.app import address, parameters, popover, run_cache
from gpt2viz.app.frame import sentence
from gpt2viz.app.literal import literal
from gpt2viz.labels import percent, shorten
from gpt2viz.labels import sentence as words
from gpt2viz.model.config import sharing
from gpt2viz.run.key import RunKey


@dataclass(frozen=True)
class Example:
    """A sentence, its query ``word``, and the criterion for the head that is shown.

    It is the head with the largest score named ``habit`` on this sentence or, without a habit, the
    largest weight from the query word to an earlier word ``of``. ``shows`` describes that. The
    example promises a value of ``least`` or more and, if it has an ``answer``, a model that gives
    it a probability of at least a half.
    """

    name: str
    text: str
    word: str
    shows: str
    least: float
    habit: str = ""
    of: str = ""
    answer: str = ""


_COPIES = "looks most at what followed the same word before"
#: The example of a first visit.
FIRST = Example("Copying", parameters.TEXT.default, "sat", _COPIES, 0.5, "induction")
EXAMPLES = (
    Example(
        "Crane", "A crane ate fish", "fish", "spreads its weights most widely here", 1, "entropy"
    ),
    FIRST,
    Example(
        "Pronoun",
        "The animal didn't cross the street because it was too tired",
        "it",
        "takes more of “animal” than any other head",
        0.5,
        of="animal",
    ),
    Example(
        "Repeated name",
        "When Mary and John went to the store, John gave a drink to Mary",
        "Mary",
        _COPIES,
        0.5,
        "induction",
    ),
    Example(
        "Which name",
        "When Mary and John went to the store, John gave a drink to",
        "to",
        "takes more of “Mary” than any other head",
        0.5,
        of="Mary",
        answer=" Mary",
    ),
    Example(
        "Fact",
        "The Eiffel Tower is in the city of",
        "of",
        "takes more of “Tower” than any other head",
        0.1,
        of="Tower",
        answer=" Paris",
    ),
    Example(
        "Said twice",
        "The red bird sang all night. The red bird sang all",
        "sang",
        _COPIES,
        0.5,
        "induction",
    ),
    Example(
        "Two banks",
        "He took money from the bank and sat by the bank of the river",
        "river",
        "takes more of the second “bank” than any other head",
        0.1,
        of="bank",
    ),
    Example(
        "Code",
        "def add(a, b): return a + b",
        "return",
        "looks most at the token just before",
        0.5,
        "previous token",
    ),
    Example(
        "Paragraph",
        "Alice was beginning to get very tired of sitting by her sister on the bank, and of having "
        "nothing to do: once or twice she had peeped into the book her sister was reading, but it "
        "had no pictures or conversations in it.",
        "sister",
        "takes more of the first “sister”, far back, than any other head",
        0.5,
        of="sister",
    ),
)
#: The least probability of a promised answer.
_PROBABLE = 0.5


class Seen(NamedTuple):
    """The view of an example: a head, and the positions of the query and of the other word's
    token, None if the example has none."""

    layer: int
    head: int
    query: int
    key: int | None


def draw() -> None:
    """Draw the list of examples. Choosing one closes it."""
    n = 0
    for example in EXAMPLES:
        if is_offered(example, address.get(parameters.MODEL)):
            shown = f"**{example.name}** :gray[{literal(shorten(example.text, 60))}]"
            name = f"example_{example.name}"
            st.button(shown, key=name, type="tertiary", on_click=_open, args=(example,))
            n += 1
    if not n:
        st.caption(words("example.none"))


def is_offered(example: Example, model_name: str) -> bool:
    """Return whether the model can read the example and does what it promises."""
    with suppress(GPT2VizError):
        ids = run_cache.load(model_name).tokenizer.encode(example.text)
        return _works(example, RunKey(model_name, tuple(ids)))
    return False


@st.cache_data(
    max_entries=256, hash_funcs=run_cache.BY_KEY, show_spinner="Trying the examples on this model …"
)
def _works(example: Example, key: RunKey) -> bool:
    return find(example, run_cache.run(key)) is not None


def _open(example: Example) -> None:
    """Set the example's sentence, its query, and the head that shows it."""
    seen = None
    with suppress(GPT2VizError):  # the page says what is wrong
        model = run_cache.load(address.get(parameters.MODEL))
        ids, causal = sentence.encode(model, example.text), address.get(parameters.CAUSAL)
        seen = find(example, run_cache.run(RunKey(model.name, ids, causal)))
    chosen = {parameters.TEXT: example.text, parameters.QUERY: seen and seen.query}
    at = {parameters.LAYER: seen.layer, parameters.HEAD: seen.head} if seen else {}
    address.put_all(chosen | at)
    popover.close("examples")


def find(example: Example, trace: Trace) -> Seen | None:
    """Return the view of the example in a run of its sentence, or None if its promise fails."""
    text, asks = example.text, example.text.rindex(example.word)
    query, key = _position(text, asks + len(example.word), trace.token_bytes), None
    if example.of:
        end = text.rindex(example.of, 0, asks) + len(example.of)
        key = _position(text, end, trace.token_bytes)
    if key is None:
        scores = run_cache.score_run(trace.key).scores[example.habit]
    else:
        layers = range(trace.config.n_layer)
        scores = np.stack([trace.stage("weights", n)[0, :, query, key] for n in layers])
    enough = scores.max() >= example.least  # false if some are NaN
    if not enough or (example.answer and not _predicts(trace, example.answer)):
        return None
    layer, head = np.unravel_index(scores.argmax(), scores.shape)
    return Seen(int(layer), int(head), query, key)


def _predicts(trace: Trace, answer: str) -> bool:
    """Return whether the answer is the next token, with at least ``_PROBABLE``."""
    best = trace.next_tokens(1)[0]
    return best.text == answer and best.probability >= _PROBABLE


def _position(text: str, end: int, token_bytes: Sequence[bytes]) -> int:
    """Return the position of the token that holds the character before ``end``."""
    after = len(text[end:].encode())
    n = len(token_bytes) - 1
    while after >= len(token_bytes[n]):
        after -= len(token_bytes[n])
        n -= 1
    return n


def first_visit_view(trace: Trace) -> Seen | None:
    """Return the view of a first visit: the copying head, with the mask on. None if a sentence was
    chosen or no head copies."""
    if address.get_chosen(parameters.TEXT) is not None or not trace.text.endswith(FIRST.text):
        return None
    return find(FIRST, run_cache.run(replace(trace.key, causal=True)))


def other_copying_heads(trace: Trace, seen: Seen) -> str:
    """List the heads that share keys and values with the first visit's head, and copy as well."""
    scores = run_cache.score_run(replace(trace.key, causal=True)).scores[FIRST.habit][seen.layer]
    also = [n for n in sharing(trace.config, seen.head) if scores[n] >= FIRST.least]
    return ", ".join(f"{seen.layer}.{n}" for n in also)


def note(trace: Trace) -> str:
    """Return a note, Markdown, on the example whose sentence is open, else "".

    ``FIRST`` has none: a first visit's screen says it in the words beside its head.
    """
    text = address.get(parameters.TEXT)
    example = next((example for example in EXAMPLES if example.text == text), None)
    seen = example and example is not FIRST and find(example, trace)
    if not (example and seen):
        return ""
    at = f"{seen.layer}.{seen.head}"
    query = f"“{literal(trace.labels[seen.query])}” ({seen.query})"
    note = words("example.seen", head=at, query=query, shows=example.shows)
    return f"{note} {_answer(trace)}" if example.answer else note


def _answer(trace: Trace) -> str:
    """Name the next token, and the layer from which it stays the most probable."""
    best, lens = trace.next_tokens(1)[0], run_cache.lens(trace.key, (len(trace.token_ids) - 1,))
    after = [
        int(n)
        for (key, _), n in zip(lens.sites, lens.rank[:, 0], strict=True)
        if key == "residual_out"
    ]
    layer = max((n + 1 for n, rank in enumerate(after) if rank > 1), default=0)
    token = literal(run_cache.vocabulary(trace.key.model)[best.id])
    probability = percent(best.probability, 1)
    return words("example.answer", token=token, percent=probability, layer=layer)

"""Try sentences for the examples of the first screen: which of them do what is said of them?

    python -m tests.docs.examples

Each example promises something of the head that it finds. Of the sentences for it, in the order of
``CANDIDATES``, the first is shown that keeps the promise on the bundled model. The numbers are
those of a GPT-2 that shares no code with the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpt2viz.app.frame.examples import EXAMPLES, Example
from tests.bundled import bundled_model, place, weights


class Candidate(NamedTuple):
    """A sentence, the word that asks, and the one that it is asked about, if any."""

    text: str
    word: str
    of: str = ""


_ALICE = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having "
    "nothing to do: once or twice she had peeped into the book her sister was reading, but it had "
    "no pictures or conversations in it."
)
#: By the example's name. The sentence that readers may know from a text comes first.
CANDIDATES: Mapping[str, tuple[Candidate, ...]] = {
    "Crane": (
        Candidate("A crane ate fish", "fish"),
        Candidate("A crane lifted steel", "steel"),
    ),
    "Pronoun": (
        Candidate("The animal didn't cross the street because it was too tired", "it", "animal"),
        Candidate("The animal didn't cross the street because it was too wide", "it", "street"),
        Candidate("The trophy didn't fit in the suitcase because it was too big", "it", "trophy"),
    ),
    "Repeated name": (
        Candidate("When Mary and John went to the store, John gave a drink to Mary", "Mary"),
        Candidate("When Mary and John went to the garden, John gave the flower to Mary", "Mary"),
        Candidate("The cat sat on the mat and the cat sat", "sat"),
    ),
    "Which name": (
        Candidate("When Mary and John went to the store, John gave a drink to", "to", "Mary"),
    ),
    "Said twice": (
        Candidate("The red bird sang all night. The red bird sang all", "sang"),
        Candidate("The red bird sat in the tree. The red bird sat in the", "in"),
    ),
    "Two banks": (
        Candidate("He took money from the bank and sat by the bank of the river", "river", "bank"),
        Candidate(
            "She left the bank with her money and sat on the bank of the river", "river", "bank"
        ),
    ),
    "Code": (
        Candidate("def add(a, b): return a + b", "return"),
        Candidate("if x > 0: return x", "return"),
    ),
    "Paragraph": (
        Candidate(_ALICE, "sister"),
        Candidate(_ALICE, "reading"),
    ),
}


class Row(NamedTuple):
    """What a head gives to each token (T,) for the one at ``query``, and the place of the ``key``
    that it is asked about, if any."""

    weights: np.ndarray
    tokens: list[str]
    query: int
    key: int | None


@dataclass(frozen=True)
class Promise:
    """A number of a row, and from where to where it has to be."""

    what: str
    number: Callable[[Row], float]
    least: float
    most: float = 1.0

    def kept(self, row: Row) -> bool:
        """Whether the row's number is in bounds."""
        return bool(self.least <= self.number(row) <= self.most)


def _copied(row: Row) -> float:
    """Weight on what followed the query's token before."""
    after = [j + 1 for j in range(row.query) if row.tokens[j] == row.tokens[row.query]]
    return float(row.weights[after].sum())


#: By the habit that the example's head has most of; "" is for a look at a word.
PROMISES = {
    "entropy": Promise("largest weight", lambda row: row.weights.max(), 0.2, 0.7),
    "": Promise("weight on the other word", lambda row: float(row.weights[row.key or 0]), 0.1),
    "induction": Promise("weight on what followed", _copied, 0.5),
    "previous token": Promise(
        "weight on the token before", lambda row: row.weights[row.query - 1], 0.5
    ),
    "mean distance": Promise(
        "how far back its hardest look is, of all the way",
        lambda row: 1 - row.weights.argmax() / row.query,
        0.5,
    ),
}


def measured(habit: str, shown: np.ndarray, tokens: list[str], asked: int, seen: int) -> np.ndarray:
    """(n_layer, nh): how much of a habit each head has, by loops over its weights ``shown``.

    Without a habit: what it gives to token ``seen`` for the one ``asked``.
    """
    T = len(tokens)
    earlier = [[j for j in range(t) if tokens[j] == tokens[t]] for t in range(T)]
    rows: dict[str, Callable[[np.ndarray], list[float]]] = {
        "previous token": lambda w: [w[t][t - 1] for t in range(1, T)],
        "induction": lambda w: [
            sum(w[t][j + 1] for j in earlier[t]) for t in range(T) if earlier[t]
        ],
        "entropy": lambda w: [-sum(p * np.log2(p) for p in w[t] if p > 0) for t in range(1, T)],
        "mean distance": lambda w: [sum(w[t] * abs(np.arange(T) - t)) for t in range(1, T)],
        "": lambda w: [w[asked][seen]],
    }
    return np.array([[np.mean(rows[habit](head)) for head in layer] for layer in shown])


def row_of(habit: str, one: Candidate) -> tuple[tuple[int, int], Row]:
    """The head that has most of the habit on a sentence, and its row of the word that asks."""
    tokenizer = bundled_model().tokenizer
    tokens = [tokenizer.token_bytes(n).decode() for n in tokenizer.encode(one.text)]
    query, key = (
        max((n for n, token in enumerate(tokens) if word and token.strip() == word), default=None)
        for word in (one.word, one.of)
    )
    assert query is not None, f"{one.word} is no token of {one.text!r}"
    head = place(measured(habit, shown := weights(one.text), tokens, query, key or 0))
    return head, Row(shown[head][query], tokens, query, key)


def picked(example: Example) -> Candidate:
    """The first sentence that does what the example promises."""
    promise = PROMISES[example.habit]
    every = CANDIDATES[example.name]
    return next(one for one in every if promise.kept(row_of(example.habit, one)[1]))


def main() -> None:
    """Print what each candidate reaches, and which is picked."""
    for example in EXAMPLES:
        promise = PROMISES[example.habit]
        print(f"\n{example.name}: {promise.what}, {promise.least:g} to {promise.most:g}")
        for one in CANDIDATES[example.name]:
            (layer, head), row = row_of(example.habit, one)
            mark = "picked" if one == picked(example) else "kept" * promise.kept(row)
            text = one.text if len(one.text) < 70 else f"{one.text[:69]}…"
            print(f"  {promise.number(row):5.2f}  {layer}.{head}  {mark:6}  {text} ({one.word})")


if __name__ == "__main__":
    main()

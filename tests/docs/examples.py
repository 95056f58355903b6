"""Try sentences for the examples of the first screen, and print which of them keep their promise.

    python -m tests.docs.examples

Each example promises something about the head that it finds, and some how the text continues. The
bundled model offers those whose sentence keeps the promise; on another model a sentence of
``TRIED`` may do better. The numbers are those of a GPT-2 that shares no code with the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpt2viz.app.frame.examples import EXAMPLES, Example
from tests.bundled import best, bundled_model, ids_of, stages, weights
from tests.numpy_gpt2 import softmax

#: Other sentences, by the example's name: each with the word whose row is shown, and the word that
#: it should attend to, if any.
TRIED = {
    "Crane": [("A crane lifted steel", "steel", "")],
    "Pronoun": [
        ("The animal didn't cross the street because it was too wide", "it", "street"),
        ("The trophy didn't fit in the suitcase because it was too big", "it", "trophy"),
    ],
    "Repeated name": [
        ("When Mary and John went to the garden, John gave the flower to Mary", "Mary", "")
    ],
    "Said twice": [("The red bird sat in the tree. The red bird sat in the", "in", "")],
    "Two banks": [
        ("She left the bank with her money and sat on the bank of the river", "river", "bank")
    ],
    "Code": [("if x > 0: return x", "return", "")],
}


def tried(example: Example) -> list[Example]:
    """The example, then the same with other sentences."""
    others = TRIED.get(example.name, ())
    return [example, *(replace(example, text=t, word=word, of=of) for t, word, of in others)]


class Row(NamedTuple):
    """A head's weights (T,) from the token at ``query``, and the position of the ``key`` that it
    should attend to, if any. ``most`` is the head's score of the example's habit."""

    most: float
    weights: np.ndarray
    tokens: list[str]
    query: int
    key: int | None


def _copied(row: Row) -> float:
    """The weight on what followed earlier occurrences of the query's token."""
    after = [j + 1 for j in range(row.query) if row.tokens[j] == row.tokens[row.query]]
    return float(row.weights[after].sum())


#: The number that the row shows, by the habit that chooses the head; "" is attention to a word.
MEASURES: dict[str, tuple[str, Callable[[Row], float]]] = {
    "entropy": ("largest weight", lambda row: row.weights.max()),
    "": ("weight on the other word", lambda row: row.weights[row.key or 0]),
    "induction": ("weight on what followed", _copied),
    "previous token": ("weight on the token before", lambda row: row.weights[row.query - 1]),
}


def measured(
    habit: str, shown: np.ndarray, tokens: list[str], requested: int, seen: int
) -> np.ndarray:
    """(n_layer, nh): each head's score of a habit, by loops over its weights ``shown``.

    Without a habit: its weight from token ``requested`` on token ``seen``.
    """
    T = len(tokens)
    earlier = [[j for j in range(t) if tokens[j] == tokens[t]] for t in range(T)]
    rows: dict[str, Callable[[np.ndarray], list[float]]] = {
        "previous token": lambda w: [w[t][t - 1] for t in range(1, T)],
        "induction": lambda w: [
            sum(w[t][j + 1] for j in earlier[t]) for t in range(T) if earlier[t]
        ],
        "entropy": lambda w: [-sum(p * np.log2(p) for p in w[t] if p > 0) for t in range(1, T)],
        "": lambda w: [w[requested][seen]],
    }
    return np.array([[np.mean(rows[habit](head)) for head in layer] for layer in shown])


def row_of(example: Example) -> tuple[tuple[int, int], Row]:
    """The head with the highest score of the habit on a sentence, and its row of the word."""
    tokenizer = bundled_model().tokenizer
    tokens = [tokenizer.token_bytes(n).decode() for n in tokenizer.encode(example.text)]
    query = max(n for n, token in enumerate(tokens) if token.strip() == example.word)
    ends = (n for n in range(query) if example.of and example.of.endswith(tokens[n].strip()))
    key = max(ends, default=None)
    every = measured(example.habit, shown := weights(example.text), tokens, query, key or 0)
    head = best(every)
    return head, Row(float(every[head]), shown[head][query], tokens, query, key)


def answer_probability(example: Example) -> float:
    """The probability of the answer that the example promises, or 1 without one."""
    p = softmax(stages(example.text)["logits"][-1])
    return float(p[ids_of(example.answer)[0]]) if example.answer else 1.0


def keeps_promise(example: Example) -> bool:
    """True if the bundled model keeps the example's promise."""
    row = row_of(example)[1]
    least, most = (0.2, 0.7) if example.habit == "entropy" else (example.least, 1.0)
    shown = least <= MEASURES[example.habit][1](row) <= most and row.most >= example.least
    return bool(shown and answer_probability(example) >= 0.5)


def main() -> None:
    """Print the numbers of each sentence, and which keep the promise."""
    for example in EXAMPLES:
        what, number = MEASURES[example.habit]
        print(f"\n{example.name}: {what}; most of the habit; probability of the answer")
        for candidate in tried(example):
            (layer, head), row = row_of(candidate)
            numbers = f"{number(row):5.2f} {row.most:5.2f} {answer_probability(candidate):5.2f}"
            mark = "kept" * keeps_promise(candidate)
            print(f"  {numbers}  {layer}.{head}  {mark:4}  {candidate.text} ({candidate.word})")


if __name__ == "__main__":
    main()

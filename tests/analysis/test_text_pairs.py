"""A second text for a first one, and answers that tell them apart: by one run each."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import gpt2viz
from gpt2viz.analysis.text_pairs import one_token_changed, telling_answers
from tests.numpy_gpt2 import softmax


def bits(model: gpt2viz.Model, ids: list[int], other: list[int]) -> float:
    p, q = (softmax(gpt2viz.trace(model, one).logits_at(-1).astype(float)) for one in (other, ids))
    return float((p * np.log2(p / q)).sum())


@pytest.mark.parametrize("first", [False, True], ids=["", "end of text first"])
def test_the_token_is_changed_that_changes_the_prediction_most(
    model: gpt2viz.Model, first: bool
) -> None:
    ids = model.tokenizer.encode("The dog ran to the", bos=first)
    run = gpt2viz.trace(model, ids)
    found = one_token_changed(model, run)
    assert found is not None
    (place,) = np.flatnonzero(np.array(found) != ids).tolist()
    guess = softmax(run.logits_at(place - 1).astype(float))
    guess[ids[place]] = 0
    assert found[place] == guess.argmax()
    assert first <= place < len(ids) - 1
    own, best = bits(model, ids, found), 0.0
    for t in range(max(1, first), len(ids) - 1):
        guess = softmax(run.logits_at(t - 1).astype(float))
        guess[ids[t]] = 0
        best = max(best, bits(model, ids, [*ids[:t], int(guess.argmax()), *ids[t + 1 :]]))
    assert own == pytest.approx(best, rel=1e-4)


@pytest.mark.slow
def test_it_is_read_as_the_same_number_of_tokens(
    model: gpt2viz.Model, subtests: pytest.Subtests
) -> None:
    for text in (
        "A",
        "An odd “€” ☃\n\n",
        "twenty-one twenty-two",
        " the" * 200,
        "zzzzz zzzzz",
        "xyzzy xyzzy",
    ):
        with subtests.test(text=text):
            ids = model.tokenizer.encode(text)
            found = one_token_changed(model, gpt2viz.trace(model, ids))
            assert found is not None
            assert model.tokenizer.encode(model.tokenizer.decode(found)) == found
            assert sum(a != b for a, b in zip(ids, found, strict=True)) == 1


def test_answers_are_the_runs_own_or_what_changes_most(model: gpt2viz.Model) -> None:
    texts = "A crane ate fish. A crane ate", "A crane ate corn. A crane ate"
    runs = [gpt2viz.trace(model, text) for text in texts]
    fish, corn = (model.tokenizer.encode(word)[0] for word in (" fish", " corn"))
    assert telling_answers(*runs) == (fish, corn)
    pairs = (
        [gpt2viz.trace(model, f"Once there was a {one} named Tim. One day") for one in two]
        for two in combinations(("cat", "dog", "king", "boy", "bird"), 2)
    )
    alike = next(two for two in pairs if len({int(run.logits_at(-1).argmax()) for run in two}) == 1)
    p, q = (softmax(run.logits_at(-1).astype(float)) for run in alike)
    assert telling_answers(*alike) == ((q - p).argmin(), (q - p).argmax())

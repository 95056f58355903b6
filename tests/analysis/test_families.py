"""Analyses that run a model of any family themselves, against the NumPy model of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpt2viz
from gpt2viz.analysis.text_pairs import one_token_changed, telling_answers
from tests.numpy_gpt2 import softmax
from tests.oracles import FAMILIES, oracle, written

IDS, CORRUPTED, ANSWER = [5, 300, 17, 17, 219, 88], [5, 300, 23, 17, 91, 88], (12, 40)


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("families"), request.param)


def test_heads_that_are_given_up(folder: Path) -> None:
    """Each run of the oracle has the means of both texts where heads are gone."""
    result = gpt2viz.fewest_heads(gpt2viz.load_model(folder), IDS, CORRUPTED, ANSWER)
    of, apart = oracle(folder), []
    plain = [of.run(ids, True)["head_output"] for ids in (IDS, CORRUPTED)]
    for n in (0, 1, 5, 12):
        gone = result.given_up[:n]

        def become(layer: int, heads: np.ndarray, gone: tuple = gone) -> np.ndarray:  # type: ignore[type-arg]
            changed = heads.copy()
            for head in (head for at, head in gone if at == layer):
                changed[head] = (plain[0][layer][head] + plain[1][layer][head]) / 2
            return changed

        logits = [of.run(ids, True, heads_become=become)["logits"][-1] for ids in (IDS, CORRUPTED)]
        first, second = (row[ANSWER[0]] - row[ANSWER[1]] for row in logits)
        apart.append(first - second)
        assert result.faithfulness[n] == pytest.approx(apart[-1] / apart[0], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("first", [False, True], ids=["", "end of text first"])
def test_the_token_whose_change_moves_the_prediction_most(folder: Path, first: bool) -> None:
    """Of the likeliest tokens that are read so again, each tried in its place."""
    model, of = gpt2viz.load_model(folder), oracle(folder)
    tokenizer = model.tokenizer
    ids = tokenizer.encode("a b cat d e", bos=first)
    logits, after = of.run(ids, True)["logits"], dict[tuple[int, ...], np.ndarray]()
    for t in range(first, len(ids) - 1):
        likeliest = np.argsort(-logits[max(t - 1, 0)])[:20].tolist()
        texts = [[*ids[first:t], new, *ids[t + 1 :]] for new in likeliest if new != ids[t]]
        own = next(own for own in texts if tokenizer.encode(tokenizer.decode(own)) == own)
        text = (*ids[:first], *own)
        after[text] = of.run([*text], True)["logits"][-1]
    p, apart = softmax(logits[-1]), {text: softmax(row) for text, row in after.items()}
    best = max(after, key=lambda text: (apart[text] * np.log(apart[text] / p)).sum())
    run = gpt2viz.trace(model, ids)
    assert one_token_changed(model, run) == [*best]
    answer, changed = telling_answers(run, gpt2viz.trace(model, best)), apart[best] - p
    tops = logits[-1].argmax(), after[best].argmax()
    assert answer == (tops if tops[0] != tops[1] else (changed.argmin(), changed.argmax()))

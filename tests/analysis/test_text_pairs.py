"""A second text made of a first one, compared with transformers and NumPy by loops."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gpt2viz
from gpt2viz.analysis.text_pairs import (
    LIKELIEST,
    MOST,
    Change,
    change_one_token,
    one_word_changes,
    telling_answers,
)
from gpt2viz.model.checkpoint import BUNDLED
from tests.checkpoints import transformers_model
from tests.numpy_gpt2 import softmax
from tests.oracles import FAMILIES, oracle, write_model

GARDEN = "When Mary and John went to the garden, John gave the flower to Mary"


def changes(model: gpt2viz.Model, text: str, bos: bool = False) -> tuple[Change, ...]:
    ids = model.tokenizer.encode(text, bos=bos)
    return one_word_changes(gpt2viz.trace(model, ids), model.tokenizer)


@cache
def transformers_bundled() -> Any:
    return transformers_model(BUNDLED)


def expected(model: gpt2viz.Model, text: str) -> dict[int, int]:
    """Position -> token, of the one-token words of letters between the first and last token."""
    ids = model.tokenizer.encode(text)
    words = [model.tokenizer.decode([n]) for n in range(model.tokenizer.n_vocab)]
    with torch.no_grad():
        p = transformers_bundled()(torch.tensor([ids])).logits[0].log_softmax(-1).double().numpy()
    rows = transformers_bundled().transformer.wte.weight.detach().double().numpy()
    results: dict[int, int] = {}
    for position in sorted(range(1, len(ids) - 1), key=lambda n: p[n - 1, ids[n]]):
        old = words[ids[position]]
        whole = old[1:].isalpha() and old[0] == " " and not words[ids[position + 1]][0].isalpha()
        if not whole or len(results) == 4:
            continue
        alike: dict[int, float] = {}
        for n in sorted(range(len(words)), key=lambda n: -p[position - 1, n])[:30]:
            new = words[n]
            same = [(w[1:2].isupper(), w[1:].isupper()) for w in (new, old)]  # I isn't as Mary is
            capital = same[0] == same[1]
            if new[:1] == " " and new[1:].isalpha() and capital and new.lower() != old.lower():
                a, b = rows[n], rows[ids[position]]
                alike[n] = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        if alike:
            results[position] = max(alike, key=alike.__getitem__)
    return results


@pytest.mark.parametrize("text", ["A crane ate fish", GARDEN, "She sat by the bank of the river"])
def test_surprising_word_becomes_the_nearest_likely_one(model: gpt2viz.Model, text: str) -> None:
    result = changes(model, text)
    assert {position: token for position, token, _ in result} == expected(model, text)
    assert [change.position for change in result] == sorted(change.position for change in result)
    assert (MOST, LIKELIEST) == (4, 30)


@pytest.mark.slow
def test_changed_texts_differ_in_one_token(model: gpt2viz.Model, subtests: pytest.Subtests) -> None:
    cases = [
        "x",
        "Dog",
        "a b",
        "2 3 5",
        "the the the",
        "Don't stop",
        " two  spaces ",
        "a\nb\r\nc big",
    ]
    cases += [
        "naïve café was Ça",
        "мама мыла раму",
        "🦩 ate 🦩🦩 fish",
        "e\u0301te\u0301 \u202ebidi was",
    ]
    cases.append("the cat sat on the mat and " * 36)
    for text in cases:
        for bos in (False, True):
            with subtests.test(text=text, bos=bos):
                ids = model.tokenizer.encode(text, bos=bos)[:256]
                text = model.tokenizer.decode(ids[bos:])
                for position, token, changed in changes(model, text, bos):
                    new = model.tokenizer.encode(changed, bos=bos)
                    assert len(new) == len(ids)
                    assert [n for n, (a, b) in enumerate(zip(ids, new, strict=True)) if a != b] == [
                        position
                    ]
                    assert new[position] == token
                    old, word = (
                        model.tokenizer.token_bytes(n).decode() for n in (ids[position], token)
                    )
                    assert old.startswith(" ") == word.startswith(" ")
                    assert old.strip().lower() != word.strip().lower()


def test_ends_change_only_if_nothing_else_can(model: gpt2viz.Model) -> None:
    assert [change.position for change in changes(model, "x")] == [0]
    assert [change.position for change in changes(model, "a b")] == [1]
    assert [change.position for change in changes(model, "the the the")] == [1]


@pytest.mark.parametrize("text", ["🦩", "?!", "  ", "مرحبا", "Don't"])
def test_parts_of_words_and_punctuation_stay(model: gpt2viz.Model, text: str) -> None:
    assert changes(model, text) == ()


def test_nan_proposes_no_change(model: gpt2viz.Model) -> None:
    run = gpt2viz.trace(model, "A crane ate fish")
    broken = np.full_like(run.unembedding, np.nan)
    object.__setattr__(run, "unembedding", broken)
    assert one_word_changes(run, model.tokenizer) == ()


@pytest.mark.slow
def test_changed_text_has_the_same_number_of_tokens(
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
            result = change_one_token(model, gpt2viz.trace(model, ids))
            assert result is not None
            assert model.tokenizer.encode(model.tokenizer.decode(result)) == result
            assert sum(a != b for a, b in zip(ids, result, strict=True)) == 1


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("first", [False, True], ids=["", "end of text first"])
def test_change_with_the_largest_effect_is_chosen(tmp_path: Path, family: str, first: bool) -> None:
    """Of the likeliest tokens that survive re-encoding, each tried in its position."""
    folder = write_model(tmp_path, family)
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
    assert change_one_token(model, run) == [*best]
    answer, changed = telling_answers(run, gpt2viz.trace(model, best)), apart[best] - p
    tops = logits[-1].argmax(), after[best].argmax()
    assert answer == (tops if tops[0] != tops[1] else (changed.argmin(), changed.argmax()))

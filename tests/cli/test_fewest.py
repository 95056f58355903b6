"""``gpt2viz fewest``: the library's heads and shares, in words and for programs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from numpy.testing import assert_allclose

import gpt2viz
from tests.cli.conftest import Run, check_refused

PAIR = "A crane ate fish", "A crane ate steel"
ANSWER = "--right", "a", "--wrong", "b"


def answer(model: gpt2viz.Model) -> list[int]:
    return [model.tokenizer.encode(text)[0] for text in "ab"]


def test_fewest_prints_the_heads_and_what_each_step_costs(
    run: Run, tiny: gpt2viz.Model, tiny_folder: Path
) -> None:
    message = run("fewest", *PAIR, "-m", str(tiny_folder), *ANSWER, "--keep", "0.6")
    result = gpt2viz.fewest_heads(tiny, *PAIR, answer(tiny))
    heads = result.keeping(0.6)
    assert heads
    assert heads != result.keeping()
    text, _, heading, *rows = message.stdout.splitlines()
    assert text == f"{result.words(0.6)} The answers are 'a' and 'b'."
    assert heading.split() == ["heads", "left", "kept"]
    first = result.n_heads - len(heads)
    shares = [f"{100 * share:.0f}".replace("-", "−") for share in result.faithfulness[first:]]
    left = map(str, range(len(heads), -1, -1))
    assert [tuple(row.split()[:2]) for row in rows] == [*zip(left, shares, strict=True)]
    gone = [f"without {layer}.{head}" for layer, head in result.given_up[first:]]
    assert [row.partition("%  ")[2] for row in rows] == ["", *gone]
    assert "Giving up heads: 100 %" in message.stderr


def test_fewest_json_has_every_step(run: Run, tiny: gpt2viz.Model, tiny_folder: Path) -> None:
    texts = ["A crane lifted steel.", "The animal ate fish."]
    Path("texts.txt").write_text("\n".join(texts))
    options = ("--no-causal", "--mean-over", "texts.txt", "--keep", "0.6", "--json", "-q")
    message = run("fewest", *PAIR, "-m", str(tiny_folder), *ANSWER, *options)
    assert message.stderr == ""
    printed = json.loads(message.stdout)
    means = gpt2viz.mean_reference(tiny, texts)
    result = gpt2viz.fewest_heads(tiny, *PAIR, answer(tiny), causal=False, reference=means)
    assert_allclose(printed["faithfulness"], result.faithfulness)
    assert list(map(tuple, printed["given_up"])) == list(result.given_up)
    assert list(map(tuple, printed["kept"])) == list(result.keeping(0.6) or ())
    assert (printed["text"], printed["other"]) == PAIR
    assert [printed["right"], printed["wrong"]] == answer(tiny)
    assert printed["mean_over"].startswith("2 texts, sha256 ")
    assert (printed["causal"], printed["keep"]) == (False, 0.6)


def test_bad_arguments_are_refused(run: Run, tiny_folder: Path, subtests: pytest.Subtests) -> None:
    check_refused(
        partial(run, "fewest", "-m", str(tiny_folder)),
        subtests,
        ((PAIR[0], PAIR[0]), 1, "Both texts are the same"),
        ((PAIR[0], "A crane"), 1, "and must have as many"),
        ((*PAIR, "--right", " unbelievably"), 1, "isn't a single token; give one"),
        ((*PAIR, "--wrong", "a"), 2, "--wrong needs --right"),
        ((*PAIR, "--keep", "2"), 2, "--keep"),
        ((*PAIR, *ANSWER, "--keep", "nan", "-q"), 1, "A share is from 0 to 1, not nan."),
    )

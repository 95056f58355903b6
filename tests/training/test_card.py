"""The bundled model's card can't drift from its weights: the figures are measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gpt2viz
from gpt2viz.checkpoint import BUNDLED
from gpt2viz.training.evaluate import bits_per_byte, head_scores, repetition, rows_of

FIGURES = json.loads((BUNDLED / "evaluation.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def model() -> gpt2viz.Model:
    return gpt2viz.load_model()


def card() -> str:
    return (BUNDLED / "README.md").read_text(encoding="utf-8")


def test_bits_per_byte_of_the_sample(model: gpt2viz.Model) -> None:
    sample = (BUNDLED / "sample.txt").read_text(encoding="utf-8")
    found = bits_per_byte(model, rows_of(model, sample))
    assert found == pytest.approx(FIGURES["bits per byte of the sample"], rel=0.01)
    assert f"{FIGURES['bits per byte']:.2f} bits per byte" in card()


def test_copying_of_repeated_tokens(model: gpt2viz.Model) -> None:
    found = repetition(model)
    for period, halves in FIGURES["repetition"].items():
        assert found[period] == pytest.approx(halves, rel=0.01)
        assert f"| {period} | {halves['first']:.2f} | {halves['second']:.2f} |" in card()
    assert found["16"]["second"] < found["16"]["first"] / 2


def test_induction_scores(model: gpt2viz.Model) -> None:
    sample = (BUNDLED / "sample.txt").read_text(encoding="utf-8")
    found: Any = head_scores(model, rows_of(model, sample))["induction"]
    for layer, expected in zip(found, FIGURES["heads"]["induction"], strict=True):
        assert layer == pytest.approx(expected, abs=0.01)


def test_the_best_heads_are_in_the_card() -> None:
    for name, layers in FIGURES["heads"].items():
        best, where = max(
            (score, f"{n}.{h}") for n, row in enumerate(layers) for h, score in enumerate(row)
        )
        assert f"| {name} | {where} | {best:.2f} |" in card()


def test_what_is_bundled_is_small() -> None:
    assert (BUNDLED / "model.safetensors").stat().st_size < 16 * 2**20
    assert sum(file.stat().st_size for file in Path(BUNDLED).iterdir()) < 20 * 2**20

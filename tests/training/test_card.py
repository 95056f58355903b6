"""The bundled model's card can't drift from its weights: the figures are measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.training.card import FIRST_OF_OPENING, best_head, shortcomings
from gpt2viz.training.evaluate import bits_per_byte, head_scores, repetition, rows_of


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return json.loads((BUNDLED / "evaluation.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def model() -> gpt2viz.Model:
    return gpt2viz.load_model()


def card() -> str:
    return (BUNDLED / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def sample() -> str:
    return (BUNDLED / "sample.txt").read_text(encoding="utf-8")


def test_bits_per_byte_of_the_sample(
    model: gpt2viz.Model, sample: str, figures: dict[str, Any]
) -> None:
    found = bits_per_byte(model, rows_of(model, sample))
    assert found == pytest.approx(figures["bits per byte of the sample"], rel=0.01)
    assert f"{figures['bits per byte']:.2f} bits per byte" in card()
    grams = figures["n-gram bits per byte"]
    for order, bits in grams["Witten–Bell"].items():
        smoothed = f"{bits:.3f} | {grams['modified Kneser–Ney'][order]:.3f}"
        assert f"| n-gram, order {order} | {smoothed} |" in card()


def test_copying_of_repeated_tokens(model: gpt2viz.Model, figures: dict[str, Any]) -> None:
    found = repetition(model)
    assert set(found) == {"16", "32", "64"}
    for period, halves in figures["repetition"].items():
        assert found[period] == pytest.approx(halves, rel=0.01)
        assert f"| {period} | {halves['first']:.2f} | {halves['second']:.2f} |" in card()


KINDS = (
    *("previous token", "same token", "first token", FIRST_OF_OPENING),
    *("duplicate token", "induction"),
)


@pytest.fixture(scope="module")
def scores(model: gpt2viz.Model, sample: str) -> dict[str, list[list[float]]]:
    return head_scores(model, sample)


@pytest.mark.parametrize("name", KINDS)
def test_head_scores(
    scores: dict[str, list[list[float]]], figures: dict[str, Any], name: str
) -> None:
    for layer, expected in zip(scores[name], figures["heads on the sample"][name], strict=True):
        assert layer == pytest.approx(expected, rel=0.01, abs=0.002)  # stored with 3 decimals
    score, where = best_head(figures["heads"][name])
    assert f"| {name} | {where} | {score:.2f} |" in card()


def test_missed_targets_are_in_the_card(figures: dict[str, Any]) -> None:
    run = json.loads((BUNDLED / "training.json").read_text(encoding="utf-8"))
    for sentence in shortcomings(figures, run["curves"][-1]["tokens"]):
        assert sentence in card()


def test_what_is_bundled_is_small() -> None:
    assert (BUNDLED / "model.safetensors").stat().st_size < 16 * 2**20
    assert sum(file.stat().st_size for file in Path(BUNDLED).iterdir()) < 20 * 2**20

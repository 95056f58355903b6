"""The figures in the bundled model's card equal new measurements of its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gpt2viz
from gpt2viz.analysis.batch_scores import measure_probe
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.training.card import FIRST_OF_OPENING, missed_targets, targets_text
from gpt2viz.training.evaluate import (
    bits_per_byte,
    head_scores,
    repetition,
    rows_of,
    weight_figures,
)
from gpt2viz.training.targets import best_head, first_view


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return json.loads((BUNDLED / "evaluation.json").read_text(encoding="utf-8"))


def card() -> str:
    return (BUNDLED / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def sample() -> str:
    return (BUNDLED / "sample.txt").read_text(encoding="utf-8")


def test_bits_per_byte_of_the_sample(
    model: gpt2viz.Model, sample: str, figures: dict[str, Any]
) -> None:
    result = bits_per_byte(model, rows_of(model, sample))
    assert result == pytest.approx(figures["bits per byte of the sample"], rel=0.01)
    assert f"{figures['bits per byte']:.2f} bits per byte" in card()
    grams = figures["n-gram bits per byte"]
    for order, bits in grams["Witten–Bell"].items():
        smoothed = f"{bits:.3f} | {grams['modified Kneser–Ney'][order]:.3f}"
        assert f"| n-gram, order {order} | {smoothed} |" in card()


@pytest.mark.slow
def test_copying_of_repeated_tokens(model: gpt2viz.Model, figures: dict[str, Any]) -> None:
    result = repetition(model)
    assert set(result) == {"16", "32", "64"}
    for period, halves in figures["repetition"].items():
        assert result[period] == pytest.approx(halves, rel=0.01)
        assert f"| {period} | {halves['first']:.2f} | {halves['second']:.2f} |" in card()


KINDS = (
    *("previous token", "same token", "first token", FIRST_OF_OPENING),
    *("duplicate token", "induction"),
)


@pytest.fixture(scope="module")
def scores(model: gpt2viz.Model, sample: str) -> dict[str, list[list[float]]]:
    return head_scores(model, sample)


def test_head_scores(
    scores: dict[str, list[list[float]]], figures: dict[str, Any], subtests: pytest.Subtests
) -> None:
    for name in KINDS:
        with subtests.test(name=name):
            for layer, expected in zip(
                scores[name], figures["heads on the sample"][name], strict=True
            ):
                assert layer == pytest.approx(
                    expected, rel=0.01, abs=0.002
                )  # stored with 3 decimals
            score, where = best_head(figures["heads"][name])
            assert f"| {name} | {where} | {score:.2f} |" in card()


def test_figures_of_the_weights(model: gpt2viz.Model, sample: str, figures: dict[str, Any]) -> None:
    assert weight_figures(model, sample) == pytest.approx(
        figures["weights on the sample"], abs=0.002
    )
    assert first_view(model) == pytest.approx(figures["first view"], abs=0.001)
    assert first_view(model)["tokens"] == 4
    assert figures["bytes"] == 2 * sum(w.numel() for w in model.network.parameters())


def test_targets_are_in_the_card(figures: dict[str, Any]) -> None:
    assert targets_text({"this model": figures}) in card()
    for sentence in missed_targets(figures):
        assert sentence in card()


def test_card_reports_both_nudges_and_their_effect() -> None:
    """Head 2.7 lost the effect of the first nudge and kept that of the second."""
    curves = json.loads((BUNDLED / "training.json").read_text(encoding="utf-8"))["curves"]
    score = {point["step"]: f"{point['first'][2][7]:.2f}" for point in curves}
    assert min(score[1000], score[16575]) > "0.9" > "0.1" > score[16500]
    assert score[17100] > "0.5"
    assert f"| first token | 1–1,000 | 0.3 | {score[1000]} | {score[16500]} |" in card()
    assert f"| first token | 16,501–16,575 | 1 | {score[16575]} | {score[17100]} |" in card()


@pytest.mark.slow
def test_checkpoints_of_the_training_are_bundled(model: gpt2viz.Model) -> None:
    """The last point is the model, bit for bit; the others copy as well as recorded."""
    steps = gpt2viz.load_steps(BUNDLED)
    record = json.loads((BUNDLED / "steps" / "training.json").read_text(encoding="utf-8"))
    assert [point["step"] for point in record["curves"]] == list(steps)
    *_, last = steps.values()
    for name, weight in model.network.state_dict().items():
        assert torch.equal(last.network.state_dict()[name], weight), name
    for point, (step, then) in zip(record["curves"], steps.items(), strict=True):
        result = measure_probe(then)  # as shown by the page Training
        assert result is not None
        assert result.again == pytest.approx(point["second_half_loss"], rel=0.01), step
        np.testing.assert_allclose(result.scores["induction"], point["induction"], atol=0.005)


def test_bundled_files_are_small() -> None:
    assert (BUNDLED / "model.safetensors").stat().st_size < 16 * 2**20
    assert sum(file.stat().st_size for file in Path(BUNDLED).iterdir()) < 20 * 2**20
    assert sum(file.stat().st_size for file in (BUNDLED / "steps").iterdir()) < 45e6

"""The chapter on training: its loss, gradient and step, and the models that are trained."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose
from torch.testing import assert_close

from gpt2viz.textbook import learning
from gpt2viz.textbook.learning import IGNORED, PARTS, Corpus, Setting

#: A faster setting of the chapter's models: shorter stretches, fewer channels.
SHORT = Setting(T=12, C=24, steps=300, rate=0.01, points=1)
LOGITS = np.random.default_rng(3).normal(size=(6, 5)).astype(np.float32) * 3
TARGETS = torch.tensor([4, IGNORED, 0, 2, IGNORED, 2])


def numpy_loss(logits: np.ndarray, targets: list[int]) -> float:
    p = np.exp(logits.astype(float)) / np.exp(logits.astype(float)).sum(-1, keepdims=True)
    return float(-np.mean([np.log(p[n, t]) for n, t in enumerate(targets) if t >= 0]))


def test_targets_are_shifted_by_one_and_padded() -> None:
    result = learning.batch([[5, 3, 9, 7], [8, 6], [2]])
    assert result.inputs.tolist() == [[5, 3, 9], [8, 0, 0], [0, 0, 0]]
    assert result.targets.tolist() == [[3, 9, 7], [6, -100, -100], [-100, -100, -100]]
    words = learning.words()
    spelled = ["".join("abns"[n] for n in row) for row in words.inputs.tolist()]
    assert spelled == ["banan", "banaa"]  # padded with id 0
    assert words.targets.tolist() == [[0, 2, 0, 2, 0], [0, 2, 3, -100, -100]]


@pytest.mark.parametrize("times", [1, 50])  # e⁻³⁰⁰ must not become 0
def test_cross_entropy_is_the_mean_over_counted_targets(times: int) -> None:
    result = learning.cross_entropy(times * LOGITS, TARGETS)
    expected = numpy_loss(times * LOGITS, TARGETS.tolist())
    assert float(result.mean) == pytest.approx(expected, rel=1e-6)
    assert_close(result.mean, F.cross_entropy(torch.tensor(times * LOGITS), TARGETS))
    assert_close(result.mean, learning.torch_cross_entropy(times * LOGITS, TARGETS))
    assert result.each[[1, 4]].tolist() == [0, 0]
    assert_allclose(result.probabilities.sum(-1), np.ones(6), rtol=1e-6)


@pytest.mark.slow
def test_the_corpus_holds_out_every_tenth_passage() -> None:
    result = learning.corpus()
    assert set(result.letters) == set(" ',.abcdefghijklmnopqrstuvwxyz")
    read, held = ("".join(result.letters[n] for n in part) for part in result[1:])
    assert 0.08 < len(held) / (len(held) + len(read)) < 0.12
    stretches = {held[n : n + 60] for n in range(0, len(held) - 60, 60)}
    assert len(stretches) > 50
    assert not [stretch for stretch in stretches if stretch in read]


@pytest.mark.parametrize("name", PARTS)
def test_no_letter_sees_later_ones(name: str) -> None:
    model = learning.build(name, 5, SHORT, seed=0)
    ids = torch.tensor([[0, 3, 1, 4, 2, 2]])
    other = ids.clone()
    other[0, 4] = 1
    with torch.inference_mode():
        first, second = model(ids)[0], model(other)[0]
    assert first.shape == (6, 5)
    assert_close(first[:4], second[:4], rtol=0, atol=0)
    assert not torch.equal(first[4], second[4])


def test_the_held_out_loss_is_over_all_stretches() -> None:
    table = torch.nn.Embedding(5, 5)
    ids = torch.randint(5, (33,), generator=torch.Generator().manual_seed(1))
    logits = table.weight.detach().numpy()[ids[:30].numpy()]
    expected = numpy_loss(logits, ids[1:31].tolist())  # 33 letters hold three stretches of 10
    assert learning.held_out_loss(table, ids, 10) == pytest.approx(expected, abs=1e-6)


def test_letters_follow_the_models_probabilities() -> None:
    table = torch.nn.Embedding(4, 4)
    with torch.no_grad():  # after the space a, after a b, after b either
        table.weight.copy_(torch.full((4, 4), -50.0))
        for after, text in ((0, 1), (1, 2), (2, 1), (2, 3), (3, 1)):
            table.weight[after, text] = 50
    written = learning.write(table, " abc", T=3, n=400, seed=5)
    assert written == learning.write(table, " abc", T=3, n=400, seed=5)
    assert len(written) == 400
    assert set(pairwise(written)) == {*(("a", "b"), ("b", "a"), ("b", "c"), ("c", "a"))}
    after_b = written.count("ba") / (written.count("ba") + written.count("bc"))
    assert abs(after_b - 0.5) < 4 * np.sqrt(0.25 / 150)


@pytest.mark.slow
def test_additions_lower_the_loss() -> None:
    """Those whose effect shows in so short a training, whatever the seed."""
    text, seed = learning.corpus(), 0
    losses = {}
    for name in PARTS:
        model = learning.build(name, len(text.letters), SHORT, seed)
        points = list(learning.train(model, text, SHORT, seed))
        assert [point.step for point in points] == [0, 300]
        assert points[-1].loss < points[0].loss
        losses[name] = points[-1].loss
    shown = [losses[name] for name in ("a table", "+ attention", "+ heads", "+ residual")]
    assert all(after < before - 0.02 for before, after in pairwise(shown))
    assert max(losses[name] for name in ("+ norms", "+ MLP", "+ second layer")) < shown[2]


def test_training_yields_measured_points() -> None:
    ids = torch.arange(40) % 3
    text, size = Corpus("abc", ids, ids), Setting(T=4, steps=60, points=6)
    model = learning.build("a table", 3, size, seed=0)
    steps = learning.train(model, text, size, seed=0)
    first = next(steps)
    assert first.loss == pytest.approx(learning.held_out_loss(model, ids, 4))
    second = next(steps)
    assert (first.step, second.step) == (0, 10)
    assert second.loss == pytest.approx(learning.held_out_loss(model, ids, 4))
    assert second.loss < first.loss
    assert [point.step for point in steps] == [20, 30, 40, 50, 60]

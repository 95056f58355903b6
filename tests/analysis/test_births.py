"""The emergence of a head by its scores, on models whose attention is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

import gpt2viz
from gpt2viz.analysis.batch_scores import (
    HABITS,
    attention_weights,
    emergence,
    main_habit,
    measure_probe,
    partner,
    probe_rows,
    token_losses,
)
from gpt2viz.model.transformer import Transformer
from gpt2viz.run import forward
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import softmax
from tests.oracles import FAMILIES, oracle, write_model


def test_head_emerges_at_half_of_its_last_score(subtests: pytest.Subtests) -> None:
    cases: list[tuple[list[float], int | None]] = [
        ([0.0, 0.1, 0.39, 0.4, 0.7, 0.8], 3),  # half of the last score, not of the highest
        ([0.0, 0.35, 0.9, 0.1, 0.3, 0.6], 1),  # the first time, though it falls again
        ([0.3, 0.3, 0.4], 0),
        ([0.0, 0.9, 0.19], None),
        ([0.0, 0.5, np.nan], None),
        ([0.8], 0),
    ]
    for scores, point in cases:
        with subtests.test(scores=scores, point=point):
            assert emergence(np.array(scores)).point == point


@pytest.mark.parametrize("family", FAMILIES)
def test_habits_are_measured_on_repeated_random_tokens(tmp_path: Path, family: str) -> None:
    """By loops over NumPy's weights: each query's total weight on its targets."""
    model = gpt2viz.load_model(write_model(tmp_path / "model", family, seed=4))
    result = measure_probe(model)
    assert result is not None
    rows = probe_rows(420, model.config.n_positions).tolist()
    T, n = len(rows[0]), len(rows[0]) // 2
    assert all(ids[:n] == ids[n:] for ids in rows)
    runs = [oracle(tmp_path / "model").run(ids, True) for ids in rows]
    targets = {
        "previous token": lambda t: [t - 1],
        "same token": lambda t: [t],
        "first token": lambda _t: [0],
        "duplicate token": lambda t: [t - n] if t >= n else [],
        "induction": lambda t: [t - n + 1] if t >= n else [],
    }
    assert set(result.scores) == set(HABITS) == set(targets)
    for name, of in targets.items():
        for layer, weights in enumerate(np.mean([run["weights"] for run in runs], axis=0)):
            for head, matrix in enumerate(weights):
                got = [sum(matrix[t, j] for j in of(t)) for t in range(1, T) if of(t)]
                assert_allclose(result.scores[name][layer, head], np.mean(got), rtol=1e-4)
    shares = softmax(np.array([run["logits"] for run in runs]))[:, range(T - 1)]  # (8, T - 1, V)
    losses = -np.log(np.take_along_axis(shares, np.array(rows)[:, 1:, None], axis=2))[..., 0]
    halves = losses[:, : n - 1].mean(), losses[:, n:].mean()
    assert_allclose([result.first, result.again], halves, 1e-4)


@pytest.mark.parametrize("of", [attention_weights, token_losses])
def test_measures_wait_for_the_run_lock(
    tiny: gpt2viz.Model, of: Callable[[Transformer, Tensor], object]
) -> None:
    """Otherwise each would write into the other's numbers without an error."""
    started, done, rows = Event(), Event(), torch.tensor([[5, 6, 7, 5, 6, 7]])
    handle = tiny.network.ln_f.register_forward_hook(lambda *_: started.set())

    def measure() -> None:
        of(tiny.network, rows)
        done.set()

    try:
        with forward.RUN_LOCK:
            Thread(target=measure, daemon=True).start()
            assert not started.wait(0.5)
        assert done.wait(60)
        assert started.is_set()
    finally:
        handle.remove()


def test_model_with_one_position_has_no_habits(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model", n_positions=1)
    assert measure_probe(gpt2viz.load_model(tmp_path / "model")) is None


def test_partner_is_the_other_half_of_the_circuit() -> None:
    nothing = np.zeros((3, 2))
    back, copies = nothing.copy(), nothing.copy()
    back[0, 1], back[2, 0], copies[1, 0], copies[2, 1] = 0.5, 0.9, 0.8, 0.7
    last = {"previous token": back, "induction": copies}
    assert main_habit(last, 0, 1) == "previous token"
    assert main_habit(last, 1, 0) == "induction"
    assert partner(last, 1, 0) == (0, 1)  # the one in layer 2 comes too late
    assert partner(last, 0, 1) == (1, 0)
    assert partner(last, 2, 0) == (1, 0)
    only = {name: np.zeros((1, 1)) for name in last}
    assert partner(only, 0, 0) == (0, 0)

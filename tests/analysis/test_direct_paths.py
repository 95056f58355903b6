"""Direct paths equal TransformerLens'; ``test_edited_runs`` compares edited runs with NumPy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis import patching
from gpt2viz.analysis.direct_paths import WAYS
from tests.analysis import peer_patches
from tests.analysis.peer_patches import ANSWER, CLEAN, CORRUPTED
from tests.checkpoints import write_checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> gpt2viz.Model:
    return gpt2viz.load_model(
        write_checkpoint(tmp_path_factory.mktemp("model"), **peer_patches.SIZES)
    )


@pytest.mark.parametrize("rows", [1024, 1], ids=["together", "one at a time"])
def test_every_path_equals_transformer_lens(
    model: gpt2viz.Model, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ``get_act_patch_direct_path_all_sources``: see ``tests.analysis.peer_patches``."""
    monkeypatch.setattr(patching, "AT_ONCE", rows)
    peer = json.loads(Path(peer_patches.__file__).with_suffix(".json").read_text("utf-8"))["paths"]
    theirs = np.array([peer[into] for into in WAYS])  # (3, layer, head, to layer, to head)
    for layer in (1, 2):
        for head in range(4):
            result = gpt2viz.patch_paths(model, CLEAN, CORRUPTED, (layer, head), ANSWER)
            assert result.values.shape == (3, layer, 4)
            assert_allclose(result.values, theirs[:, :layer, :, layer, head], rtol=1e-5, atol=1e-5)
    assert np.ptp(theirs[:, 0, :, 1]) > 0.01


def test_one_path_equals_its_value_among_all(model: gpt2viz.Model) -> None:
    shares: list[float] = []
    every = gpt2viz.patch_paths(
        model, CLEAN, CORRUPTED, "2.1", ANSWER, direction="noise",
        progress=lambda _, share: shares.append(share),
    )  # fmt: skip
    path = gpt2viz.patch_path(model, CLEAN, CORRUPTED, "1.3", "2.1", "v", ANSWER, direction="noise")
    assert_allclose(every.values[2, 1, 3], path.value, rtol=1e-6)
    assert_allclose(every.restored[2, 1, 3], path.restored, rtol=1e-5)
    assert (every.receiver, every.direction) == ((2, 1), "noise")
    swapped = gpt2viz.patch_paths(model, CORRUPTED, CLEAN, "2.1", ANSWER)
    assert_allclose(every.values, swapped.values, rtol=1e-6)
    span = every.clean - every.corrupted
    assert_allclose(every.restored, (every.values - every.corrupted) / span)
    assert_allclose(shares, np.arange(1, 7) / 6)
    assert gpt2viz.patch_paths(model, CLEAN, CORRUPTED, "0.2", ANSWER).values.size == 0

"""``gpt2viz.show`` on real caches of TransformerLens; skipped if that isn't installed.

    python -m pytest tests/notebook/test_real_cache.py

in an environment with ``transformer_lens``. Run with 4.3.0 and, for HookedTransformer, which 4.0
removed, with 3.9.0.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from packaging.version import Version

import gpt2viz
from tests.checkpoints import write_checkpoint
from tests.notebook.test_show import decoded

pytest.importorskip("transformer_lens")
IDS = [5, 300, 17, 17, 219, 5]
#: Deprecation warnings of the libraries are no errors here.
pytestmark = pytest.mark.filterwarnings("default")


def bridge(folder: Path, compatible: bool) -> Any:
    """The checkpoint in a folder as TransformerLens 4 runs it."""
    from transformer_lens.model_bridge import TransformerBridge

    model = TransformerBridge.boot_transformers(str(folder), device="cpu", dtype=torch.float32)
    if compatible:
        model.enable_compatibility_mode(no_processing=True)
    return model


def hooked() -> Any:
    """A small model of random weights, as TransformerLens ran it before version 4."""
    if Version(version("transformer_lens")) >= Version("4"):
        pytest.skip("TransformerLens 4 has no HookedTransformer")
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    sizes = {"n_layers": 3, "d_model": 24, "n_ctx": 24, "n_heads": 4, "d_head": 6, "d_vocab": 420}
    config = HookedTransformerConfig(**sizes, act_fn="gelu_new", device="cpu", seed=0)
    return HookedTransformer(config).eval()


@pytest.mark.parametrize("kind", ["bridge", "compatible bridge", "hooked"])
def test_show_has_the_numbers_of_a_cache(tmp_path: Path, kind: str) -> None:
    write_checkpoint(tmp_path)
    model = hooked() if kind == "hooked" else bridge(tmp_path, kind.startswith("compatible"))
    with torch.inference_mode():
        _, cache = model.run_with_cache(torch.tensor([IDS]))
    assert type(cache).__name__ == "ActivationCache"
    patterns = np.stack([cache["pattern", n][0].numpy() for n in range(3)])
    np.testing.assert_array_equal(decoded(gpt2viz.show(cache).html()), patterns)
    if kind != "hooked":
        trace = gpt2viz.trace(gpt2viz.load_model(tmp_path), IDS)
        ours = np.stack([trace.stage("weights", n)[0] for n in range(3)])
        np.testing.assert_allclose(ours, patterns, atol=1e-5)
    with torch.inference_mode():
        _, single = model.run_with_cache(torch.tensor([IDS]), remove_batch_dim=True)
        _, texts = model.run_with_cache(torch.tensor([IDS, IDS[::-1]]))
    assert gpt2viz.show(single).about["queries"] == list("012345")
    second = np.stack([texts["pattern", n][1].numpy() for n in range(3)])
    np.testing.assert_array_equal(decoded(gpt2viz.show(texts, text=1).html()), second)

"""Means over many texts, position by position, against transformers with hooks of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor

import gpt2viz
from gpt2viz.analysis.attribution import difference_from_run
from gpt2viz.analysis.cell import cell_arithmetic
from gpt2viz.run.tracer import reference_run
from tests.checkpoints import transformers_model

TEXTS = [[5, 9, 300, 17, 3], [5, 7, 41, 17, 3, 88, 2], [8, 9, 41]]
IDS, HS = [11, 7, 300, 17, 3, 88], 6


@pytest.fixture(scope="module")
def pair(tiny_folder: Path, tiny: gpt2viz.Model) -> Any:
    return transformers_model(tiny_folder), tiny


def means(theirs: Any, layer: int) -> np.ndarray:
    """The mean input (T, C) of ``c_proj`` over the texts that reach a position."""
    by_place: list[list[Tensor]] = [[] for _ in range(7)]

    def keep(_module: Any, inputs: tuple[Tensor]) -> None:
        for t, at in enumerate(inputs[0][0]):
            by_place[t].append(at)

    handle = theirs.transformer.h[layer].attn.c_proj.register_forward_pre_hook(keep)
    with torch.no_grad():
        for ids in TEXTS:
            theirs(torch.tensor([ids]))
    handle.remove()
    return torch.stack([torch.stack(result).mean(dim=0) for result in by_place]).numpy()


@pytest.mark.parametrize("causal", [True, False], ids=["masked", "unmasked"])
def test_a_mean_over_texts_is_as_transformers_makes_it(pair: Any, causal: bool) -> None:
    theirs, ours = pair
    new = torch.from_numpy(means(theirs, 1))[: len(IDS)]

    def put(_module: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
        merged = inputs[0].clone()
        merged[0, :, 2 * HS : 3 * HS] = new[:, 2 * HS : 3 * HS]
        return (merged,)

    T = len(IDS)
    handle = theirs.transformer.h[1].attn.c_proj.register_forward_pre_hook(put)
    with torch.no_grad():
        mask = None if causal else torch.zeros(1, 1, T, T)
        expected = theirs(torch.tensor([IDS]), attention_mask=mask).logits
    handle.remove()
    reference = gpt2viz.mean_reference(ours, TEXTS)
    edits = gpt2viz.parse_edits("mean:1.2")
    for explicit in (True, False):
        run = gpt2viz.trace(ours, IDS, causal, explicit=explicit, edits=edits, reference=reference)
        assert_allclose(run.logits, expected, rtol=1e-5, atol=1e-5)
    plain = gpt2viz.trace(ours, IDS, causal, edits=edits)
    assert abs(run.logits - plain.logits).max() > 0.01
    apart, largest = difference_from_run(ours, run, 1)
    assert apart < 1e-6 * largest
    assert cell_arithmetic(run, 1, 2, 4, 3).largest_difference < 1e-5


def test_the_mean_of_a_text_alone_is_its_run(pair: Any) -> None:
    model = pair[1]
    reference = gpt2viz.mean_reference(model, [IDS])
    assert_array_equal(reference.means[2], gpt2viz.trace(model, IDS).stage("head_output", 2)[0])
    everywhere = gpt2viz.parse_edits(",".join(f"mean:{n}.{h}" for n in range(3) for h in range(4)))
    run = gpt2viz.trace(model, IDS, edits=everywhere, reference=reference)
    assert_allclose(run.logits, gpt2viz.trace(model, IDS).logits, rtol=1e-5, atol=1e-6)


def test_a_sweep_takes_it_for_both_runs(pair: Any) -> None:
    model, edits = pair[1], gpt2viz.parse_edits("mean:0.1")
    reference = gpt2viz.mean_reference(model, TEXTS)
    texts = IDS[:5], [11, 9, 300, 17, 3]
    sweep = gpt2viz.patch_sweep(model, *texts, answer=(4, 9), edits=edits, reference=reference)
    alone = [
        gpt2viz.trace(model, ids, edits=edits, reference=reference).logits_at(-1) for ids in texts
    ]
    differences = [float(logits[4] - logits[9]) for logits in alone]
    assert_allclose([sweep.clean, sweep.corrupted], differences, rtol=1e-5)
    assert_allclose(
        sweep.values[0],
        np.where(texts[0] == np.array(texts[1]), differences[1], differences[0]),
        rtol=1e-4,
    )


def test_a_run_says_over_which_texts(pair: Any) -> None:
    model, edits = pair[1], gpt2viz.parse_edits("mean:0.1")
    own, given, other = (
        gpt2viz.trace(model, IDS, edits=edits, reference=reference)
        for reference in (
            reference_run(model),
            gpt2viz.mean_reference(model, TEXTS),
            gpt2viz.mean_reference(model, TEXTS[1:]),
        )
    )
    assert own.key == gpt2viz.trace(model, IDS, edits=edits).key
    assert given.mean_over.startswith("3 texts, sha256 ")
    assert len({own.key, given.key, other.key}) == 3
    plain = gpt2viz.trace(model, IDS, reference=gpt2viz.mean_reference(model, TEXTS))
    assert plain.key == gpt2viz.trace(model, IDS).key


def test_what_has_no_mean(model: gpt2viz.Model, tiny: gpt2viz.Model) -> None:
    edits = gpt2viz.parse_edits("mean:0.1")
    with pytest.raises(gpt2viz.TextError, match="no text to take means over"):
        gpt2viz.mean_reference(tiny, [])
    short = gpt2viz.mean_reference(tiny, TEXTS)
    with pytest.raises(gpt2viz.EditError, match="at most 7 tokens, and this one has 8"):
        gpt2viz.trace(tiny, range(8), edits=edits, reference=short)
    other = gpt2viz.mean_reference(model, TEXTS)
    with pytest.raises(ValueError, match="not by"):
        gpt2viz.trace(tiny, IDS, edits=edits, reference=other)

"""Means over many texts, position by position, against NumPy's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.attribution import difference_from_run
from gpt2viz.analysis.cell import cell_arithmetic
from gpt2viz.run.tracer import reference_run
from tests.numpy_gpt2 import reference as numpy_reference

TEXTS = [[5, 9, 300, 17, 3], [5, 7, 41, 17, 3, 88, 2], [8, 9, 41]]
IDS = [11, 7, 300, 17, 3, 88]


@pytest.mark.parametrize("causal", [True, False], ids=["masked", "unmasked"])
def test_mean_over_texts_equals_numpy(tiny_folder: Path, tiny: gpt2viz.Model, causal: bool) -> None:
    outputs = [numpy_reference(tiny_folder, ids, True)["head_output"][1][2] for ids in TEXTS]
    means = [np.mean([z[t] for z in outputs if t < len(z)], axis=0) for t in range(len(IDS))]

    def become(layer: int, heads: np.ndarray) -> np.ndarray:
        return np.array([*heads[:2], means, heads[3]]) if layer == 1 else heads

    expected = numpy_reference(tiny_folder, IDS, causal, edit_heads=become)["logits"]
    reference = gpt2viz.mean_reference(tiny, TEXTS)
    edits = gpt2viz.parse_edits("mean:1.2")
    for explicit in (True, False):
        run = gpt2viz.trace(tiny, IDS, causal, explicit=explicit, edits=edits, reference=reference)
        assert_allclose(run.logits[0], expected, rtol=1e-5, atol=1e-5)
    plain = gpt2viz.trace(tiny, IDS, causal, edits=edits)
    assert abs(run.logits - plain.logits).max() > 0.01
    apart, largest = difference_from_run(tiny, run, 1)
    assert apart < 1e-6 * largest
    assert cell_arithmetic(run, 1, 2, 4, 3).largest_difference < 1e-5


def test_mean_over_one_text_is_its_run(tiny: gpt2viz.Model) -> None:
    reference = gpt2viz.mean_reference(tiny, [IDS])
    assert_array_equal(reference.means[2], gpt2viz.trace(tiny, IDS).stage("head_output", 2)[0])
    everywhere = gpt2viz.parse_edits(",".join(f"mean:{n}.{h}" for n in range(3) for h in range(4)))
    run = gpt2viz.trace(tiny, IDS, edits=everywhere, reference=reference)
    assert_allclose(run.logits, gpt2viz.trace(tiny, IDS).logits, rtol=1e-5, atol=1e-6)


def test_patch_sweep_uses_the_mean_in_both_runs(tiny: gpt2viz.Model) -> None:
    edits = gpt2viz.parse_edits("mean:0.1")
    reference = gpt2viz.mean_reference(tiny, TEXTS)
    texts = IDS[:5], [11, 9, 300, 17, 3]
    sweep = gpt2viz.patch_sweep(tiny, *texts, answer=(4, 9), edits=edits, reference=reference)
    alone = [
        gpt2viz.trace(tiny, ids, edits=edits, reference=reference).logits_at(-1) for ids in texts
    ]
    differences = [float(logits[4] - logits[9]) for logits in alone]
    assert_allclose([sweep.clean, sweep.corrupted], differences, rtol=1e-5)
    assert_allclose(
        sweep.values[0],
        np.where(texts[0] == np.array(texts[1]), differences[1], differences[0]),
        rtol=1e-4,
    )


def test_run_records_the_texts_of_its_mean(tiny: gpt2viz.Model) -> None:
    edits = gpt2viz.parse_edits("mean:0.1")
    own, given, other = (
        gpt2viz.trace(tiny, IDS, edits=edits, reference=reference)
        for reference in (
            reference_run(tiny),
            gpt2viz.mean_reference(tiny, TEXTS),
            gpt2viz.mean_reference(tiny, TEXTS[1:]),
        )
    )
    assert own.key == gpt2viz.trace(tiny, IDS, edits=edits).key
    assert given.mean_over.startswith("3 texts, sha256 ")
    assert len({own.key, given.key, other.key}) == 3
    plain = gpt2viz.trace(tiny, IDS, reference=gpt2viz.mean_reference(tiny, TEXTS))
    assert plain.key == gpt2viz.trace(tiny, IDS).key


def test_unusable_means_are_refused(model: gpt2viz.Model, tiny: gpt2viz.Model) -> None:
    edits = gpt2viz.parse_edits("mean:0.1")
    with pytest.raises(gpt2viz.TextError, match="no text to take means over"):
        gpt2viz.mean_reference(tiny, [])
    short = gpt2viz.mean_reference(tiny, TEXTS)
    with pytest.raises(gpt2viz.EditError, match="at most 7 tokens, and this one has 8"):
        gpt2viz.trace(tiny, range(8), edits=edits, reference=short)
    other = gpt2viz.mean_reference(model, TEXTS)
    with pytest.raises(ValueError, match="not by"):
        gpt2viz.trace(tiny, IDS, edits=edits, reference=other)

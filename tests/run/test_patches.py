"""A patch as an edit, checked against the NumPy GPT-2 with the same patch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.attribution import rollout, value_weighted
from gpt2viz.analysis.cell import cell_arithmetic
from gpt2viz.run.edit_kinds import OF_HEADS, STREAMS
from gpt2viz.run.edits import Edit, describe, parse_edits, remap_edits
from tests.analysis.peer_patches import CLEAN, CORRUPTED
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import PER_LAYER, Tolerance, reference, same_stage

TOLERANCE: Tolerance = {"rtol": 1e-5, "atol": 1e-5}
TEXTS = CLEAN, CORRUPTED


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(the folder of a checkpoint of odd sizes, the model loaded from it)."""
    folder = tmp_path_factory.mktemp("patches")
    sizes: dict[str, Any] = {"n_embd": 15, "n_head": 3, "scale_attn_by_inverse_layer_idx": True}
    return folder, gpt2viz.load_model(write_checkpoint(folder, **sizes))


def patch_text(stage: str, layer: int, head: int, position: int | None) -> str:
    target = f"{layer}" if stage in STREAMS else f"{layer}.{head}"
    return f"patch:{stage}:{target}" + ("" if position is None else f":{position}")


def patched_run(
    folder: Path, causal: bool, off: Sequence[tuple[int, int]], texts: Any, where: str, index: Any
) -> dict[str, Any]:
    """The run by NumPy, with a part of one stage from the second text's run."""

    def silence(layer: int, heads: np.ndarray) -> np.ndarray:
        on = [(layer, head) not in off for head in range(len(heads))]
        return heads * np.array(on)[:, None, None]

    def run(ids: list[int], becomes: Any = same_stage) -> dict[str, Any]:
        return reference(folder, ids, causal, edit_heads=silence, becomes=becomes)

    def replace(name: str, made: np.ndarray) -> np.ndarray:
        if name == where:
            made = made.copy()
            made[index] = pieces[where][index]
        return made

    (into, source), pieces = texts, dict[str, np.ndarray]()
    run(source, pieces.setdefault)
    return run(into, replace)


def test_patches_equal_numpy(pair: Any, subtests: pytest.Subtests) -> None:
    """In both directions, at one or all positions, alone and with other edits of both runs."""
    folder, ours = pair
    both_ways = ((), "", TEXTS), (((0, 0), (2, 2)), "off:0.0,off:2.2,", TEXTS[::-1])
    for causal, stage in product((True, False), STREAMS + OF_HEADS):
        # A layer's patched stream is recorded as the output of the layer before.
        made = [key for key in PER_LAYER if (stage, key) != ("residual_in", "residual_out")]
        with subtests.test(causal=causal, stage=stage):
            for off, others, (into, source) in both_ways:
                for layer, position in ((0, None), (1, 4), (2, None)):
                    edits = others + patch_text(stage, layer, 1, position)
                    at = slice(None) if position is None else position
                    index = at if stage in STREAMS else (1, at)
                    where = f"{stage}.{layer}"
                    expected = patched_run(folder, causal, off, (into, source), where, index)
                    for explicit in (True, False)[: 1 + (stage != "weights")]:
                        options: dict[str, Any] = {"edits": edits, "patch_from": source}
                        run = gpt2viz.trace(ours, into, causal, explicit=explicit, **options)
                        assert_allclose(run.logits[0], expected["logits"], **TOLERANCE)
                        for key in made:
                            values = run.all_layers(key)[:, 0]
                            assert_allclose(values, expected[key], **TOLERANCE, err_msg=key)
                plain = gpt2viz.trace(ours, into, causal, edits=others.rstrip(","))
                assert abs(plain.logits_at(-1) - run.logits_at(-1)).max() > 1e-3


def test_patched_values_are_recorded(tiny: gpt2viz.Model) -> None:
    source = gpt2viz.trace(tiny, CORRUPTED)
    run = gpt2viz.trace(
        tiny,
        CLEAN,
        edits=parse_edits("patch:residual_in:2:4,patch:weights:1.3"),
        patch_from=source,
    )
    assert_array_equal(run.stage("residual_out", 1)[0, 4], source.stage("residual_out", 1)[0, 4])
    assert_array_equal(run.stage("weights", 1, 3), source.stage("weights", 1, 3))
    assert run.key == gpt2viz.trace(tiny, CLEAN, edits=run.edits, patch_from=CORRUPTED).key
    assert run.key != gpt2viz.trace(tiny, CLEAN, edits=run.edits, patch_from=CLEAN).key


def test_patching_the_whole_stream_gives_the_other_run(tiny: gpt2viz.Model) -> None:
    other = gpt2viz.trace(tiny, CORRUPTED).next_token_probabilities
    for layer in range(3):
        edits = parse_edits(f"patch:residual_in:{layer}")
        run = gpt2viz.trace(tiny, CLEAN, edits=edits, patch_from=CORRUPTED)
        assert_array_equal(run.next_token_probabilities, other)


def test_patches_apply_in_order(tiny: gpt2viz.Model) -> None:
    """Scaling after the patch doubles it again; scaling before it applies to both runs."""
    plain = gpt2viz.trace(tiny, CORRUPTED).stage("head_output", 2, 1)
    for spelling, factor in (
        ("patch:head_output:2.1,scale:2.1:2", 4),
        ("scale:2.1:2,patch:head_output:2.1", 2),
    ):
        run = gpt2viz.trace(tiny, CLEAN, edits=parse_edits(spelling), patch_from=CORRUPTED)
        assert_allclose(run.stage("head_output", 2, 1), factor * plain, **TOLERANCE)


def test_short_forms_descriptions_and_positions() -> None:
    text = "patch:residual_in:2:1,patch:head_output:1.3,patch:weights:0.2:0,patch:mlp_output:3"
    edits = parse_edits(text)
    assert ",".join(map(str, edits)) == text
    assert edits[0] == Edit("patch", stage="residual_in", layer=2, position=1)
    assert [describe(edit, ["A", "crane"]) for edit in edits] == [
        "The stream at 1 (crane) before layer 2, as in the second text",
        "The output of head 1.3, as in the second text",
        "The attention weights of head 0.2 at 0 (A), as in the second text",
        "Layer 3's MLP output at every token, as in the second text",
    ]
    assert remap_edits(edits, lambda n: n + 1) == parse_edits(
        text.replace("2:1,", "2:2,").replace("0.2:0", "0.2:1")
    )
    assert (
        remap_edits(edits, lambda n: n - 1 if n else None)
        == (replaced_by_0 := parse_edits(text.replace("2:1", "2:0")))[:2] + replaced_by_0[3:]
    )


def test_invalid_patches_are_refused(tiny: gpt2viz.Model, subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Any, str]] = [
        ("patch:scores:1.2:0", CORRUPTED, "'scores' can't be patched. These can: residual_in"),
        ("patch:q:1:0", CORRUPTED, "patch:q needs a head"),
        ("patch:mlp_output:1.2", CORRUPTED, "patch:mlp_output has no head"),
        ("patch:residual_in:1:", CORRUPTED, "isn't an edit"),
        ("patch:residual_in:3:0", CORRUPTED, "names layer 3, but this model has layers 0 to 2"),
        ("patch:q:1.4", CORRUPTED, "names head 4"),
        ("patch:v:1.0:7", CORRUPTED, "names position 7, but this text has tokens 0 to 6"),
        ("patch:v:1.0:6", None, "patch:v:1.0:6 needs a second text.* give it as patch_from"),
        ("patch:v:1.0:6", [*CLEAN, 1], r"7 and 8 tokens, .* as many: from token 7 on, nothing st"),
    ]
    for text, patch_from, message in cases:
        with (
            subtests.test(text=text, patch_from=patch_from),
            pytest.raises(gpt2viz.GPT2VizError, match=message),
        ):
            gpt2viz.trace(tiny, CLEAN, edits=parse_edits(text), patch_from=patch_from)


def test_patch_source_needs_the_same_mask_and_edits(tiny: gpt2viz.Model) -> None:
    edits = parse_edits("off:0.1,patch:v:1.0")
    for source in (
        gpt2viz.trace(tiny, CORRUPTED),
        gpt2viz.trace(tiny, CORRUPTED, causal=False, edits=edits[:1]),
    ):
        with pytest.raises(ValueError, match="the same mask"):
            gpt2viz.trace(tiny, CLEAN, edits=edits, patch_from=source)
    weights = parse_edits("patch:weights:1.0")
    with pytest.raises(gpt2viz.EditError, match="makes no weights whole"):
        gpt2viz.trace(tiny, CLEAN, explicit=False, edits=weights, patch_from=CORRUPTED)


def test_patched_run_has_no_attribution(tiny: gpt2viz.Model) -> None:
    """Its numbers aren't sums over its own tokens, so attributions would be wrong."""
    run = gpt2viz.trace(
        tiny, CLEAN, edits=parse_edits("patch:residual_in:0:2"), patch_from=CORRUPTED
    )
    for take_apart in (
        lambda: gpt2viz.contributions(tiny, run, 5),
        lambda: gpt2viz.explain_row(tiny, run, 0, 1, 4),
        lambda: value_weighted(tiny, run, 2),
        lambda: rollout(run, 1),
        lambda: cell_arithmetic(run, 1, 1, 3, 2),
    ):
        with pytest.raises(gpt2viz.EditError, match="can't be taken apart"):
            take_apart()
    assert np.isfinite(gpt2viz.logit_lens(tiny, run, (6,)).probability).all()

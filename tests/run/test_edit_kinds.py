"""Kinds of edits that a program registers, checked against the NumPy GPT-2 or refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor

import gpt2viz
from gpt2viz import Edit, EditError, EditKind, parse_edits
from gpt2viz.analysis.attribution import rollout
from gpt2viz.errors import PluginError
from gpt2viz.run.edits import describe
from tests.checkpoints import weights_of
from tests.numpy_gpt2 import Tolerance, reference
from tests.run.test_tracing import n_hooks

TOLERANCE: Tolerance = {"rtol": 1e-5, "atol": 1e-5}
IDS = np.random.default_rng(3).integers(0, 420, 9).tolist()
C, HS = 24, 6


@pytest.fixture
def add(registries: None) -> Callable[..., EditKind]:
    """Register a kind of edit for one test."""
    return lambda name, of, **more: gpt2viz.register_edit(EditKind(name, "does so", of, **more))


def shift(heads: Tensor) -> Tensor:
    """Shift the outputs by one token, in place."""
    heads[:, 1:] = heads[:, :-1].clone()
    heads[:, 0] = 0
    return heads


@pytest.mark.parametrize("explicit", [True, False], ids=["captured", "derived"])
@pytest.mark.parametrize("causal", [True, False], ids=["masked", "unmasked"])
def test_function_of_a_heads_output(
    tiny_folder: Path,
    tiny: gpt2viz.Model,
    add: Callable[..., EditKind],
    causal: bool,
    explicit: bool,
) -> None:
    """Alone in its layer, beside other heads, and after a built-in edit."""
    add("late", shift)

    def late(layer: int, heads: np.ndarray) -> np.ndarray:
        if layer == 1:
            heads = heads.copy()
            heads[3] = np.concatenate([np.zeros((1, HS)), 2 * heads[3, :-1]])
        return heads

    expected = reference(tiny_folder, IDS, causal, edit_heads=late)
    edits = parse_edits("scale:1.3:2,late:1.3")
    run = gpt2viz.trace(tiny, IDS, causal, explicit=explicit, edits=edits)
    assert_allclose(run.logits[0], expected["logits"], **TOLERANCE)
    for key in ("weights", "head_output", "attention_output", "residual_out"):
        for layer in range(3):
            assert_allclose(run.stage(key, layer)[0], expected[key][layer], **TOLERANCE)
    plain = gpt2viz.trace(tiny, IDS, causal)
    assert abs(run.logits - plain.logits).max() > 0.01
    many = gpt2viz.trace_many(tiny, [IDS, IDS[::-1]], causal, explicit=explicit, edits=edits)
    assert_allclose(many[0].logits, run.logits, **TOLERANCE)


@pytest.mark.parametrize("explicit", [True, False], ids=["captured", "derived"])
@pytest.mark.parametrize("stage", ["q", "k", "v"])
def test_function_of_queries_keys_or_values(
    tiny_folder: Path,
    tiny: gpt2viz.Model,
    add: Callable[..., EditKind],
    stage: Any,
    explicit: bool,
    tmp_path: Path,
) -> None:
    """Tripling a stage equals a checkpoint whose weights for that stage are tripled."""
    add("threefold", lambda made: 3 * made, stage=stage)
    shutil.copytree(tiny_folder, tmp_path / "other")
    start = "qkv".index(stage) * C + 2 * HS
    with weights_of(tmp_path / "other") as stored:
        for name in ("weight", "bias"):
            stored[f"transformer.h.1.attn.c_attn.{name}"][..., start : start + HS] *= 3
    expected = reference(tmp_path / "other", IDS, True)
    run = gpt2viz.trace(tiny, IDS, explicit=explicit, edits=parse_edits("threefold:1.2"))
    assert_allclose(run.logits[0], expected["logits"], **TOLERANCE)
    for key in (stage, "weights", "head_output"):
        assert_allclose(run.stage(key, 1)[0], expected[key][1], **TOLERANCE)


def test_run_key_includes_the_function(tiny: gpt2viz.Model, add: Callable[..., EditKind]) -> None:
    add("own", shift)
    (edit,) = edits = parse_edits(" own:1.3 ")
    assert (str(edit), edit) == ("own:1.3", Edit("own", 1, 3))
    assert describe(edit) == "Layer 1 head 3 does so"
    before = gpt2viz.trace(tiny, IDS, edits=edits)
    add("own", torch.zeros_like)
    after = gpt2viz.trace(tiny, IDS, edits=parse_edits("own:1.3"))
    assert before.key != after.key
    assert_array_equal(gpt2viz.trace(tiny, IDS, edits=edits).logits, before.logits)
    assert not after.stage("head_output", 1, 3).any()
    off = gpt2viz.trace(tiny, IDS, edits=parse_edits("off:1.3"))
    assert_array_equal(after.logits, off.logits)


def test_gradients_pass_through_the_function(
    tiny: gpt2viz.Model, add: Callable[..., EditKind]
) -> None:
    """Patches are estimated as with the equivalent built-in edit."""
    add("doubled", lambda heads: 2 * heads)
    texts = [5, 9, 3, 8], [5, 7, 3, 8]
    own, ours = (
        gpt2viz.patch_estimate(tiny, *texts, answer=(1, 2), edits=parse_edits(edits)).values
        for edits in ("doubled:1.2", "scale:1.2:2")
    )
    assert_allclose(own, ours, rtol=1e-5)


def test_unsupported_analyses_of_such_a_run_are_refused(
    tiny: gpt2viz.Model, add: Callable[..., EditKind]
) -> None:
    add("own", shift)
    run = gpt2viz.trace(tiny, IDS, edits=parse_edits("own:1.3"))
    apart = r"can't be taken apart: own:1\.3 changed it by a function of this program"
    for ask in (
        lambda: gpt2viz.contributions(tiny, run, IDS[0]),
        lambda: gpt2viz.explain_row(tiny, run, 2, 0, 4),
        lambda: rollout(run, 2),
    ):
        with pytest.raises(EditError, match=apart):
            ask()
    with pytest.raises(ValueError, match="A run with edits can't reuse another"):
        gpt2viz.trace(tiny, IDS, edits=run.edits, reuse=gpt2viz.trace(tiny, IDS))
    with pytest.raises(gpt2viz.ExportError, match="edits of this program alone has no session"):
        gpt2viz.show(run).save("x.json")
    with pytest.raises(
        EditError, match=r"own:3\.0 names layer 3, but this model has layers 0 to 2"
    ):
        gpt2viz.trace(tiny, IDS, edits=parse_edits("own:3.0"))


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (
            lambda heads: heads[:, 1:],
            r"returned Tensor \(1, 8, 6\) instead of a tensor \(1, 9, 6\)",
        ),
        (lambda heads: heads.numpy(), r"returned ndarray \(1, 9, 6\) instead of a tensor"),
        (lambda heads: 1 / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
def test_failing_function_is_named(
    tiny: gpt2viz.Model, add: Callable[..., EditKind], of: Callable[[Tensor], Tensor], message: str
) -> None:
    add("own", of)
    with pytest.raises(
        PluginError, match=f"^The edit 'own' of this program {message}.*Fix or uninstall"
    ):
        gpt2viz.trace(tiny, IDS, edits=parse_edits("own:1.3"))
    assert n_hooks(tiny) == 0


@pytest.mark.parametrize("text", ["late:1.3", "prune:0.0"])
def test_unknown_edit_is_refused(text: str) -> None:
    name = text.partition(":")[0]
    expected = f"There is no edit '{name}' here. Install the package that adds it, or write off:1.3"
    with pytest.raises(EditError, match=expected):
        parse_edits(text)


def test_invalid_name_or_stage_is_refused() -> None:
    for name, why in (("off", "gpt2viz has one of that name"), ("my edit", "as in one_late")):
        with pytest.raises(EditError, match=f"not '{name}': {why}"):
            EditKind(name, "does so", shift)
    with pytest.raises(EditError, match=r"'weights' can't be changed\. These can: head_out"):
        EditKind("own", "does so", shift, "weights")  # type: ignore[arg-type]
    with pytest.raises(PluginError, match=r"function, not a gpt2viz\.EditKind"):
        gpt2viz.register_edit(shift)  # type: ignore[arg-type]

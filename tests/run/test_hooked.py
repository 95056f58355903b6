"""A user's function on any stage of one run, checked against NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz import export
from gpt2viz.run.stages import STAGES, axis_sizes
from tests.numpy_gpt2 import PER_LAYER, Tolerance, reference

IDS = [5, 300, 17, 9, 300]
TOLERANCE: Tolerance = {"rtol": 2e-5, "atol": 2e-5}
rng = np.random.default_rng(7)


def stages_by_hook(layer: int) -> dict[str, gpt2viz.Stage]:
    """Every stage of the graph by its hook's name."""
    return {f"{stage.key}.{layer}" if stage.per_layer else stage.key: stage for stage in STAGES}


def nonlinear(shape: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray]:
    """A change that no edit makes: nonlinear, and different at every position."""
    added = rng.normal(size=shape)
    return lambda x: np.where(np.isfinite(x), np.tanh(x) + added, x)


def test_every_stage_is_replaced_by_the_functions_result(
    tiny: gpt2viz.Model, tiny_folder: Path
) -> None:
    sizes, plain = axis_sizes(tiny.config, len(IDS)), gpt2viz.trace(tiny, IDS)
    for name, stage in stages_by_hook(1).items():
        shape = tuple(sizes[axis] for axis in stage.axes)
        change = nonlinear(shape)
        seen: list[np.ndarray] = []

        def function(
            x: Any, change: Any = change, seen: Any = seen, ours: Any = name
        ) -> np.ndarray:
            seen.append(x.copy())
            assert (x.dtype, x.flags.writeable) == (np.float32, True), ours
            x[...] = change(x)  # the function may change its array
            return x

        run = gpt2viz.trace(tiny, IDS, hooks={name: function})
        squeezed = change(np.zeros(shape)).shape[1:] if "B" in stage.axes else shape
        becomes = lambda key, x: (  # noqa: E731
            change(x).reshape(squeezed) if key == name else x  # noqa: B023
        )
        expected = reference(tiny_folder, IDS, True, becomes=becomes)
        assert [array.shape for array in seen] == [shape], name
        for key in PER_LAYER:
            for layer in range(3):
                assert_allclose(
                    run.stage(key, layer)[0], expected[key][layer], **TOLERANCE, err_msg=name
                )
        assert_allclose(run.logits[0], expected["logits"], **TOLERANCE, err_msg=name)
        assert_allclose(run.logits_at(-1), expected["logits"][-1], **TOLERANCE, err_msg=name)
        assert_allclose(
            run.next_token_probabilities[0], expected["next_token_probabilities"], **TOLERANCE
        )
        assert str(run.edits[0]) == f"hook:{name}"
        assert f"hook:{name}" in repr(run)
        assert export.about(run, "weights").edits == f"hook:{name}"
        assert not np.allclose(run.logits_at(-1), plain.logits_at(-1), atol=1e-3), name
    again = gpt2viz.trace(tiny, IDS)
    assert_array_equal(again.logits, plain.logits)  # no hook remains


def test_derived_run_with_hooks_equals_the_captured_run(
    tiny: gpt2viz.Model, tiny_folder: Path
) -> None:
    for name, stage in stages_by_hook(1).items():
        change = nonlinear(tuple(axis_sizes(tiny.config, len(IDS))[axis] for axis in stage.axes))
        make: Any = {"hooks": {name: change}}
        if stage.axes[-2:] == ("T", "T"):
            with pytest.raises(gpt2viz.EditError, match=f"hook:{name}: .* explicit=True"):
                gpt2viz.trace(tiny, IDS, explicit=False, **make)
            continue
        whole, short = (gpt2viz.trace(tiny, IDS, explicit=on, **make) for on in (True, False))
        for key in PER_LAYER:
            assert_allclose(whole.all_layers(key), short.all_layers(key), **TOLERANCE, err_msg=name)


def test_runs_with_hooks_are_never_equal(tiny: gpt2viz.Model, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return 2 * x

    hooks = {"mlp_output.0": function}
    plain, first, second = (gpt2viz.trace(tiny, IDS, hooks=h) for h in ({}, hooks, hooks))
    assert len({plain.key, first.key, second.key}) == 3
    assert not plain.key.common_prefix_length(first.key)
    assert not first.key.is_prefix_of(second.key)
    more: Any
    for earlier, more in ((first, {}), (plain, {"hooks": hooks})):
        with pytest.raises(gpt2viz.ArgumentError, match="with edits can't reuse another"):
            gpt2viz.trace(tiny, IDS, reuse=earlier, **more)
    means = gpt2viz.trace(tiny, IDS, edits="mean:1.2", reference=first).mean_over
    others = [gpt2viz.trace(tiny, IDS, edits="mean:1.2", reference=run) for run in (plain, second)]
    assert means not in {other.mean_over for other in others}
    texts = IDS, [*IDS[:-1], 8]
    refused: dict[str, Callable[[], object]] = {
        "taken apart": lambda: gpt2viz.contributions(tiny, first, 3),
        "taken apart.": lambda: gpt2viz.explain_row(tiny, first, 1, 1, 2),
        "belongs to one run": lambda: gpt2viz.trace(tiny, IDS, edits=first.edits),
        "belongs to one run.": lambda: gpt2viz.patch_sweep(tiny, *texts, edits=first.edits),
        "the same mask and the other edits": lambda: gpt2viz.trace(
            tiny, IDS, edits="patch:q:1.2", patch_from=first
        ),
        "no file holds": lambda: gpt2viz.load_trace(
            export.save_trace(first, tmp_path / "run.npz"), tiny
        ),
        "has no session": lambda: gpt2viz.show(first).save(tmp_path / "run.json"),
    }
    for message, call in refused.items():
        with pytest.raises(gpt2viz.GPT2VizError, match=re.escape(message.rstrip("."))):
            call()


def test_patch_source_runs_with_the_same_hooks(tiny: gpt2viz.Model) -> None:
    other, hooks = [8, *IDS[1:]], {"embedding": np.tanh}
    source = gpt2viz.trace(tiny, other, hooks=hooks)
    run = gpt2viz.trace(tiny, IDS, edits="patch:q:1.2", patch_from=other, hooks=hooks)
    assert_allclose(run.stage("q", 1, 2), source.stage("q", 1, 2), **TOLERANCE)


def test_invalid_hooks_are_refused(tiny: gpt2viz.Model) -> None:
    def run_inside(x: Any) -> Any:
        gpt2viz.trace(tiny, IDS)
        return x

    cases: dict[str, Any] = {
        "There is no stage 'wieghts.1'": {"wieghts.1": np.tanh},
        "needs a layer, as in weights.0": {"weights": np.tanh},
        "belongs to no layer": {"embedding.0": np.tanh},
        "has layers 0 to 2": {"weights.3": np.tanh},
        "is a function of an array": {"weights.1": 3},
        "a dictionary from stages": [np.tanh],
        "gave back NoneType, and must": {"q.1": lambda _x: None},
        "gave back ndarray (1, 4, 5), and": {"q.1": lambda x: x.sum(-1)},
        "gave back str": {"q.1": lambda _x: "q"},
        "can't run a model itself": {"q.1": run_inside},
    }
    for message, hooks in cases.items():
        with pytest.raises(gpt2viz.GPT2VizError, match=re.escape(message)):
            gpt2viz.trace(tiny, IDS, hooks=hooks)
    with pytest.raises(ZeroDivisionError):  # a function's own error passes through
        gpt2viz.trace(tiny, IDS, hooks={"q.1": lambda _x: 1 / 0})
    plain = gpt2viz.trace(tiny, IDS)
    named = gpt2viz.trace(tiny, IDS, hooks={"blocks.1.hook_resid_mid": np.negative})
    assert_allclose(named.stage("residual_mid", 1), -plain.stage("residual_mid", 1), **TOLERANCE)
    assert str(named.edits[0]) == "hook:residual_mid.1"

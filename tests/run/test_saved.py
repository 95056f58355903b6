"""A saved trace is loaded with the same numbers and everything derived from them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gpt2viz
from gpt2viz import export
from gpt2viz.model.tokenizer import TokenList
from tests.checkpoints import write_checkpoint
from tests.oracles import FAMILIES, write_model

EDITS = "off:1.2,forbid:3:1"


@pytest.fixture
def model(request: pytest.FixtureRequest, tmp_path: Path, tiny: gpt2viz.Model) -> gpt2viz.Model:
    family = getattr(request, "param", "gpt2")
    return tiny if family == "gpt2" else gpt2viz.load_model(write_model(tmp_path / "model", family))


of_every_family = pytest.mark.parametrize("model", FAMILIES, indirect=True)


@of_every_family
@pytest.mark.parametrize("kind", export.TRACE_KINDS)
@pytest.mark.parametrize("explicit", [True, False], ids=["captured", "derived"])
@pytest.mark.parametrize(
    ("ids", "causal", "edits"),
    [([5, 7, 5, 11, 2], True, EDITS), ([3], True, ""), ([5, 7, 5, 11], False, "scale:0.1:2")],
    ids=["edited", "one-token", "mask-off"],
)
def test_loaded_run_equals_the_saved_run(
    model: gpt2viz.Model,
    tmp_path: Path,
    kind: str,
    explicit: bool,
    ids: list[int],
    causal: bool,
    edits: str,
) -> None:
    changes = gpt2viz.parse_edits(edits)
    fresh = gpt2viz.trace(model, ids, causal, explicit=explicit, edits=changes)
    again = gpt2viz.load_trace(export.save_trace(fresh, tmp_path / f"run.{kind}"), model)
    assert (again.key, again.text, again.tokens) == (fresh.key, fresh.text, fresh.tokens)
    assert set(again.captured) == set(fresh.captured)
    for stage in (stage for stage in fresh.graph.values() if stage.keep):
        for layer in range(model.config.n_layer) if stage.per_layer else (None,):
            there, here = fresh.stage(stage.key, layer), again.stage(stage.key, layer)
            assert_array_equal(here, there, err_msg=stage.key)
            assert not here.flags.writeable
    assert_array_equal(again.logits, fresh.logits)
    assert_array_equal(again.next_token_probabilities, fresh.next_token_probabilities)
    for layer in (None, 2):
        assert_array_equal(again.hidden_pairs(layer), fresh.hidden_pairs(layer))
    assert again.tensors == fresh.tensors
    assert repr(again) == repr(fresh)
    last = len(ids) - 1
    parts = gpt2viz.explain_score(model, again, 2, 1, last, 0)
    assert_array_equal(parts.table, gpt2viz.explain_score(model, fresh, 2, 1, last, 0).table)


@of_every_family
@pytest.mark.parametrize("explicit", [True, False], ids=["captured", "derived"])
def test_patched_run_keeps_its_source_text(
    model: gpt2viz.Model, tmp_path: Path, explicit: bool
) -> None:
    """With a mean too, for a model whose vocabulary can't spell the default reference text."""
    model = replace(model, tokenizer=TokenList([chr(200 + n) for n in range(420)]))
    ids, edits = [5, 7, 5, 11], "patch:residual_in:2:1,patch:v:1.0,mean:0.1"
    other, means = [5, 9, 5, 11], gpt2viz.mean_reference(model, [ids])
    fresh = gpt2viz.trace(
        model, ids, explicit=explicit, edits=edits, patch_from=other, reference=means
    )
    again = gpt2viz.load_trace(export.save_trace(fresh, tmp_path / "run.npz"), model)
    assert (again.key, again.patch_text) == (fresh.key, model.tokenizer.decode(other))
    assert_array_equal(again.stage("residual_out", 1), fresh.stage("residual_out", 1))
    assert_array_equal(again.logits, fresh.logits)
    assert again.tensors == fresh.tensors
    assert repr(again) == repr(fresh)


def test_models_are_recognised_by_their_weights(model: gpt2viz.Model, tmp_path: Path) -> None:
    other = gpt2viz.load_model(write_checkpoint(tmp_path, seed=1), model.name)
    unnamed = gpt2viz.Model(model.name, model.config, model.network, model.tokenizer)
    for made, name in ((unnamed, "run.npz"), (model, "run.safetensors")):
        path = export.save_trace(gpt2viz.trace(made, [1, 2]), tmp_path / name)
        gpt2viz.load_trace(path, unnamed)
        gpt2viz.load_trace(path, model)
        with pytest.raises(gpt2viz.ExportError, match=rf"{name}: it was made by .* other weights"):
            gpt2viz.load_trace(path, other)


def compress(path: Path) -> None:
    with np.load(path) as saved:
        np.savez_compressed(path, more=np.zeros(10**6), **dict(saved))


def modify(name: str, make: Callable[[Any], Any]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with np.load(path) as saved:
            result = dict(saved)
        result[name] = make(result[name])
        np.savez(path, **{key: value for key, value in result.items() if value is not None})

    return change


def with_about(**values: str) -> Callable[[Path], None]:
    return modify("about", lambda about: np.array(json.dumps(json.loads(str(about)) | values)))


def write_junk(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as entries:
        entries.writestr("about.npy", b"junk")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(b"junk"), "no file of a trace"),
        (lambda path: path.unlink(), "no file of a trace"),
        (write_junk, "no file of a trace"),
        (compress, "its arrays are larger than the file"),
        (modify("q.1", lambda _: None), "no file of a trace"),
        (modify("q.1", lambda q: q[:, :2]), r"q\.1 is \(1, 2, 2, 6\) of float32, not \(1, 4, 2"),
        (modify("q.1", lambda q: q.astype(np.float64)), r"q\.1 is .* of float64"),
        (modify("next_token_probabilities", lambda p: p[:, :3]), r"_probabilities is \(1, 3\)"),
        (with_about(causal="maybe"), "no file of a trace"),
        (with_about(model="no-such-model"), "no-such-model"),
        (with_about(edits="off:9.9"), "layer 9"),
        (modify("token_ids", lambda ids: ids + 400), "other weights"),
        (modify("token_ids", lambda ids: ids + 419), "Token id 420 is outside"),
    ],
)
def test_damaged_files_are_refused(
    model: gpt2viz.Model, tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    path = export.save_trace(gpt2viz.trace(model, [1, 2]), tmp_path / "run.npz")
    spoil(path)
    by_name = "no-such-model" in message
    with pytest.raises(gpt2viz.GPT2VizError, match=message):
        gpt2viz.load_trace(path, None if by_name else model)

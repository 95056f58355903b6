"""A model on a GPU gives the CPU's numbers and copies only tensors that are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.attribution import value_weighted
from gpt2viz.model import devices
from tests import accelerator

TEXT = "A crane ate fish"
NEAR: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
REAL = [
    pytest.param(
        name, marks=pytest.mark.skipif(not there, reason=f"this machine has no {name}"), id=name
    )
    for name, there in (
        ("cuda", torch.cuda.is_available()),
        ("mps", torch.backends.mps.is_available()),
    )
]


@pytest.fixture
def fake_gpu() -> Iterator[accelerator.Accelerator]:
    """A simulated GPU, which computes on the CPU."""
    with accelerator.Accelerator() as device:
        yield device


def test_fake_gpu_is_as_strict_as_a_real_one(fake_gpu: accelerator.Accelerator) -> None:
    there = torch.ones(2).to(accelerator.NAME)
    assert (there + there).device.type == accelerator.NAME
    with pytest.raises(RuntimeError, match="of the CPU and of the device"):
        there + torch.ones(2)
    with pytest.raises(RuntimeError):
        there.numpy()
    assert (there + 1).cpu().tolist() == [2, 2]
    assert fake_gpu.moved == [torch.Size([2])]


@pytest.mark.parametrize("device", [accelerator.NAME, *REAL])
@pytest.mark.parametrize("explicit", [True, False], ids=["captured", "derived"])
@pytest.mark.parametrize(
    ("causal", "edits"),
    [(True, ""), (False, ""), (True, "off:1.3,mean:2.0,window:2,attn:0")],
    ids=["plain", "no mask", "edited"],
)
@pytest.mark.usefixtures("fake_gpu")
def test_every_stage_equals_the_cpus(
    model: gpt2viz.Model, device: str, explicit: bool, causal: bool, edits: str
) -> None:
    other = gpt2viz.load_model(device=device)
    assert other.network.lm_head.weight is other.network.wte.weight
    assert other.network.wte.weight.device.type == device
    changes = gpt2viz.parse_edits(edits)
    here, there = (
        gpt2viz.trace(m, TEXT, causal, explicit=explicit, edits=changes) for m in (model, other)
    )
    for stage in gpt2viz.STAGES:
        for layer in range(model.config.n_layer) if stage.keep and stage.per_layer else ():
            result = there.stage(stage.key, layer)
            assert (result.dtype, result.flags.writeable) == (np.dtype(np.float32), False)
            assert_allclose(result, here.stage(stage.key, layer), **NEAR, err_msg=stage.key)
    assert_allclose(there.logits, here.logits, **NEAR)
    assert_allclose(there.next_token_probabilities, here.next_token_probabilities, **NEAR)
    assert [r.shape for r in there.tensors] == [r.shape for r in here.tensors]
    assert there.nbytes == here.nbytes


@pytest.mark.parametrize("device", [accelerator.NAME, *REAL])
@pytest.mark.usefixtures("fake_gpu")
def test_analyses_equal_the_cpus(model: gpt2viz.Model, device: str) -> None:
    other = gpt2viz.load_model(device=device)
    here, there = gpt2viz.trace(model, TEXT), gpt2viz.trace(other, TEXT)
    lenses = [gpt2viz.logit_lens(m, t) for m, t in ((model, here), (other, there))]
    assert_array_equal(lenses[1].top, lenses[0].top)
    assert_allclose(lenses[1].probability, lenses[0].probability, **NEAR)
    parts = [gpt2viz.contributions(m, t, 300) for m, t in ((model, here), (other, there))]
    assert_allclose(parts[1].heads, parts[0].heads, **NEAR)
    assert parts[1].total == pytest.approx(parts[1].logit, abs=1e-4)
    lengths = [value_weighted(m, t, 2) for m, t in ((model, here), (other, there))]
    assert_allclose(lengths[1], lengths[0], **NEAR)
    texts = [[c.token for c in gpt2viz.generate(m, TEXT, 3)] for m in (model, other)]
    assert texts[1] == texts[0]
    compared = gpt2viz.compare_models(model, other, [TEXT], n_tokens=4)
    assert compared.words().endswith("are bit for bit the same.")
    assert {m.network.device.type for m in (compared.before, compared.after)} == {"cpu"}
    assert other.network.device.type == device


@pytest.mark.parametrize("explicit", [True, False], ids=["captured", "derived"])
def test_only_tensors_read_are_copied(fake_gpu: accelerator.Accelerator, explicit: bool) -> None:
    model = gpt2viz.load_model(device=accelerator.NAME)
    config, T = model.config, 4
    heads = (1, config.n_head, T)
    gpt2viz.trace(model, TEXT)
    fake_gpu.moved.clear()
    trace = gpt2viz.trace(model, TEXT, explicit=explicit)
    assert fake_gpu.moved == [(1, config.vocab_size)]  # the unembedding came with the first run
    assert trace.nbytes
    assert len(trace.tensors)
    assert ("weights", 2) in trace.captured or not explicit
    assert len(fake_gpu.moved) == 1
    trace.stage("weights", 2)
    one_layer = [(*heads, T)] if explicit else 3 * [(*heads, config.n_embd // config.n_head)]
    assert fake_gpu.moved[1:] == one_layer
    trace.stage("mlp_output", 3)
    assert fake_gpu.moved[1 + len(one_layer) :] == [(1, T, config.n_embd)]


@pytest.mark.parametrize("name", ["abacus", "meta", "cuda:99", ""])
def test_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(gpt2viz.DeviceError, match=f"There is no device '{name}' here; there is"):
        gpt2viz.load_model(device=name)


def test_gpu_out_of_memory_is_reported(
    model: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch, tiny_folder: Path
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(model.network, "forward", full)
    with pytest.raises(gpt2viz.TooLargeError, match="too little memory for 4 tokens"):
        gpt2viz.trace(model, TEXT)
    monkeypatch.setattr(torch.nn.Module, "to", full)
    with pytest.raises(gpt2viz.TooLargeError, match="too little memory for mine"):
        gpt2viz.load_model(tiny_folder, "mine")
    assert devices.find("cpu").type == model.network.wte.weight.device.type == "cpu"

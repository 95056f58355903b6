"""Checkpoints of a training are found in order, read as they are stored, or refused in a line."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.torch import load_file

import gpt2viz
from gpt2viz import settings
from gpt2viz.model.convert import convert
from gpt2viz.model.packed import write_packed
from tests import layouts
from tests.checkpoints import edit_json, weights_of, write_checkpoint
from tests.numpy_gpt2 import softmax
from tests.oracles import FAMILIES, oracle, write_model

#: Steps, each with a seed of its own.
SEEDS = {2: 1, 10: 2, 300: 3}


def write_steps(folder: Path, prefix: str = "step", family: str = "gpt2") -> None:
    """Write folders of a training's checkpoints, not in the order of the steps."""
    for step in sorted(SEEDS, key=str):
        write_model(folder / f"{prefix}-{step}", family, SEEDS[step])


@pytest.fixture(scope="module")
def packed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with checkpoints in ``run``, and in ``model`` the last with the others packed."""
    both = tmp_path_factory.mktemp("packed")
    write_steps(both / "run")
    shutil.copytree(both / "run" / "step-300", both / "model")
    (both / "model" / "steps").mkdir()
    originals = gpt2viz.load_steps(both / "run")
    for step in (2, 10):
        weights = dict(originals[step].network.named_parameters())
        write_packed(weights, both / "model" / "steps" / f"step-{step}.safetensors")
    (both / "model" / "steps" / "steps.json").write_text('{"model": 300}', encoding="utf-8")
    return both


@pytest.fixture
def packed(packed_once: Path, tmp_path: Path) -> Path:
    """The test's own model with packed checkpoints, to spoil; the originals are in ``../run``."""
    return Path(shutil.copytree(packed_once, tmp_path / "both")) / "model"


@pytest.mark.parametrize("prefix", ["step", "checkpoint"])
@pytest.mark.parametrize("family", FAMILIES)
def test_folders_are_found_in_the_order_of_their_steps(
    tmp_path: Path, prefix: str, family: str
) -> None:
    write_model(tmp_path / "model", family)
    write_steps(tmp_path / "model" / "steps", prefix, family)
    (tmp_path / "model" / "steps" / f"{prefix}-7").mkdir()  # being written
    steps = gpt2viz.load_steps(tmp_path / "model")
    assert list(steps) == [2, 10, 300]
    models = list(steps.values())
    assert [model.name for model in models] == [f"model, step {n}" for n in (2, 10, 300)]
    assert len({id(model.tokenizer) for model in models}) == 1
    for step, model in zip(steps, models, strict=True):
        ids = [5, 9, 5, 1]
        seen = gpt2viz.trace(model, tuple(ids)).next_token_probabilities[0]
        folder = tmp_path / "model" / "steps" / f"{prefix}-{step}"
        expected = softmax(oracle(folder).run(ids, True)["logits"][-1])
        assert_allclose(seen, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("prefix", ["checkpoint", "steps/step"])
def test_folder_of_checkpoints_loads_the_last_one(tmp_path: Path, prefix: str) -> None:
    write_steps(tmp_path / "mine", prefix)
    end = tmp_path / "mine" / f"{prefix}-300"
    model, last = map(gpt2viz.load_model, (tmp_path / "mine", end))
    assert model.name == "mine"
    assert settings.name_paths([tmp_path / "mine"])["mine"] == end
    assert torch.equal(model.network.wte.weight, last.network.wte.weight)
    for given in ("mine", f"mine/{prefix}-10"):  # one of them lists the others too
        assert list(gpt2viz.load_steps(tmp_path / given)) == [2, 10, 300]


def test_nanogpts_checkpoints_share_the_models_vocabulary(tmp_path: Path) -> None:
    network, ids = layouts.random_weights(layouts.CurrentGPT(nano=True)), [5, 9, 5, 1]
    write_checkpoint(tmp_path / "words")
    layouts.save_nano(network, tmp_path / "ckpt.pt", True)
    convert(tmp_path / "ckpt.pt", tmp_path / "mine", tokenizer=tmp_path / "words")
    expected = {}
    for step in (500, 1000):
        with torch.no_grad():
            network.get_parameter("transformer.wpe.weight").mul_(2)
            expected[step] = network(torch.tensor([ids]))[0]
        layouts.save_nano(network, tmp_path / "ckpt.pt", True)
        convert(tmp_path / "ckpt.pt", tmp_path / "mine" / "steps" / f"step-{step}")
    steps = gpt2viz.load_steps(tmp_path / "mine")
    assert list(steps) == [500, 1000]
    for step, model in steps.items():
        assert_allclose(gpt2viz.trace(model, ids).logits[0], expected[step], atol=1e-5)


def test_cached_revisions_are_checkpoints_of_the_model(tmp_path: Path) -> None:
    """As `hf download someone/grown --revision step10` leaves them: links to blobs, by commits."""
    home = tmp_path / "models--someone--grown"
    (home / "refs").mkdir(parents=True)
    for name, seed in (("main", 3), ("step10", 2), ("step2", 1), ("checkpoint-7", 4), ("v1", 5)):
        commit = f"{seed}" * 40
        write_checkpoint(home / "blobs" / commit, seed=seed)
        (home / "snapshots" / commit).mkdir(parents=True)
        for file in (home / "blobs" / commit).iterdir():
            (home / "snapshots" / commit / file.name).symlink_to(file)
        (home / "refs" / name).write_text(commit, encoding="utf-8")
    (home / "refs" / "step99").write_text("9" * 40, encoding="utf-8")  # not fetched
    steps = gpt2viz.load_steps(home / "snapshots" / ("3" * 40))
    assert list(steps) == [2, 7, 10]
    assert steps[10].name == "someone/grown, step 10"
    last = gpt2viz.load_model(home / "blobs" / ("2" * 40)).network.wte.weight
    assert torch.equal(steps[10].network.wte.weight, last)
    assert not gpt2viz.load_steps(home / "blobs" / ("3" * 40))


def test_model_without_checkpoints_has_no_steps(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model")
    write_checkpoint(tmp_path / "step-5")  # a neighbour of another kind
    assert not gpt2viz.load_steps(tmp_path / "model")
    for error in (KeyError, gpt2viz.GPT2VizError):
        with pytest.raises(error, match="no step 5 of model; it has none"):
            gpt2viz.load_steps(tmp_path / "model")[5]


def test_packed_weights_are_decoded_near_the_originals(packed: Path) -> None:
    """Decoded independently: whole multiples of a row's step, at most half a step off."""
    steps = gpt2viz.load_steps(packed)
    assert list(steps) == [2, 10, 300]
    original = gpt2viz.load_steps(packed.parent / "run")
    for step in (2, 10):
        stored = load_file(packed / "steps" / f"step-{step}.safetensors")
        first = dict(original[step].network.named_parameters())
        for name, weight in steps[step].network.named_parameters():
            if weight.ndim == 1:
                assert torch.equal(weight, first[name])
                continue
            rounded = np.frombuffer(zlib.decompress(stored[name].numpy().tobytes(), -15), np.int8)
            apart = stored[f"{name}.step"].numpy()[:, None]
            assert_array_equal(weight, rounded.reshape(weight.shape).astype(np.float32) * apart)
            assert ((weight - first[name]).abs().numpy() <= apart * 0.5001).all(), name
            spread = first[name].std(dim=1, unbiased=False).numpy()[:, None]
            assert_allclose(apart, spread / 8, rtol=1e-5)  # 5 bits: an eighth of the deviation
    assert steps[10].weight_files is not None
    assert steps[10].weight_files.files == ((packed / "steps" / "step-10.safetensors").absolute(),)


def test_the_model_itself_is_the_last_step(packed: Path) -> None:
    model, last = gpt2viz.load_model(packed), gpt2viz.load_steps(packed)[300]
    assert torch.equal(model.network.wte.weight, last.network.wte.weight)
    assert model.weight_files is not None
    assert last.weight_files is not None
    assert model.weight_files.is_same(last.weight_files)


def test_packing_keeps_zero_rows_and_outliers(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model")
    network = gpt2viz.load_model(tmp_path / "model").network
    weights = {name: weight.clone() for name, weight in network.named_parameters()}
    weights["wte.weight"][3] = 0
    weights["wte.weight"][4] = 1e-4
    weights["wte.weight"][4, 7] = 50.0
    (tmp_path / "model" / "steps").mkdir()
    write_packed(weights, tmp_path / "model" / "steps" / "step-1.safetensors", bits=8)
    result = gpt2viz.load_steps(tmp_path / "model")[1].network.wte.weight
    assert not result[3].any()
    assert_allclose(result[4, 7], 50.0, rtol=1e-5)


def test_packing_takes_five_bits_a_number(tmp_path: Path) -> None:
    torch.manual_seed(0)
    weight = torch.randn(400, 500)
    write_packed({"wte.weight": weight}, tmp_path / "w.safetensors")
    bits = 8 * (tmp_path / "w.safetensors").stat().st_size / weight.numel()
    assert 5.0 < bits < 5.2  # log2(√(2πe) · 8) is 5.05


WTE, GAIN, FC = "wte.weight", "ln_f.weight", "h.1.mlp.c_fc.weight"


def deflate(numbers: bytes) -> torch.Tensor:
    coder = zlib.compressobj(9, zlib.DEFLATED, -15)
    return torch.frombuffer(bytearray(coder.compress(numbers) + coder.flush()), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop(GAIN), "ln_f.weight is missing"),
        (lambda w: w.pop(f"{FC}.step"), r"c_fc.weight.step is missing"),
        (lambda w: w.update(more=torch.zeros(1)), "more has no place in this model"),
        (lambda w: w.update({GAIN: torch.zeros(25)}), r"ln_f.weight is \(25,\) of F32"),
        (lambda w: w.update({GAIN: torch.zeros(24).half()}), r"ln_f.weight is \(24,\) of F16"),
        (lambda w: w.update({f"{WTE}.step": torch.zeros(24)}), r"wte.weight.step is \(24,\)"),
        (lambda w: w.update({WTE: torch.zeros(420, 24)}), r"wte.weight is \(420, 24\) of F32"),
        (lambda w: w.update({WTE: torch.zeros(10**5, dtype=torch.uint8)}), "wte.weight is"),
        (lambda w: w.update({WTE: w[WTE][:-9]}), "wte.weight isn't 10,080 numbers"),
        (lambda w: w.update({WTE: torch.cat([w[WTE], w[WTE][:5]])}), "isn't 10,080 numbers"),
        (lambda w: w.update({WTE: deflate(b"\1" * 10_081)}), "isn't 10,080 numbers"),
        (lambda w: w.update({WTE: deflate(b"\1" * 10**7)}), "isn't 10,080 numbers"),
        (lambda w: w.update({WTE: deflate(b"\1" * 9)}), "isn't 10,080 numbers"),
        (lambda w: w.update({WTE: torch.full((99,), 255, dtype=torch.uint8)}), "wte.weight: Error"),
        (lambda w: w[f"{WTE}.step"].fill_(float("nan")), r"wte.weight.step holds nan"),
        (lambda w: w[f"{WTE}.step"].fill_(9e14), r"wte.weight holds .*e\+1"),
        (lambda w: w[GAIN].fill_(float("inf")), r"ln_f.weight holds inf"),
    ],
)
def test_wrong_packed_file_is_refused(
    packed: Path, change: Callable[[dict[str, torch.Tensor]], Any], message: str
) -> None:
    with weights_of(packed / "steps" / "step-2.safetensors") as tensors:
        change(tensors)
    with pytest.raises(gpt2viz.CheckpointError, match=rf"step-2\.safetensors.*{message}"):
        gpt2viz.load_steps(packed)[2]


@pytest.mark.parametrize("content", [b"", b"\x80\x04pickle", b"\xff" * 99])
def test_a_file_of_another_format_is_refused(packed: Path, content: bytes) -> None:
    (packed / "steps" / "step-2.safetensors").write_bytes(content)
    with pytest.raises(gpt2viz.CheckpointError, match=r"step-2\.safetensors: not a whole"):
        gpt2viz.load_steps(packed)[2]


def test_checkpoints_of_other_sizes_are_refused(tmp_path: Path) -> None:
    write_steps(tmp_path / "run")
    write_checkpoint(tmp_path / "run" / "step-10", n_layer=2)
    steps = gpt2viz.load_steps(tmp_path / "run")
    assert steps[2].config.n_layer == 3
    with pytest.raises(gpt2viz.CheckpointError, match=r"step-10: another config\.json"):
        steps[10]
    edit_json(tmp_path / "run" / "step-2" / "config.json", attn_pdrop=0.25)  # unused in a run
    assert steps[2].config.n_layer == 3


def test_duplicate_step_is_refused(tmp_path: Path) -> None:
    write_steps(tmp_path / "run")
    write_checkpoint(tmp_path / "run" / "checkpoint-10")
    with pytest.raises(gpt2viz.CheckpointError, match="checkpoint-10 and step-10 are one step"):
        gpt2viz.load_steps(tmp_path / "run")


@pytest.mark.parametrize("own", [None, 10, 2.5, "300", True])
def test_the_models_own_step_must_be_last(packed: Path, own: Any) -> None:
    (packed / "steps" / "steps.json").write_text(json.dumps({"model": own}), encoding="utf-8")
    with pytest.raises(gpt2viz.CheckpointError, match=r"steps\.json: .* must come after step 10"):
        gpt2viz.load_steps(packed)


@pytest.mark.parametrize("family", FAMILIES)
def test_checkpoints_with_the_same_weights_are_named(tmp_path: Path, family: str) -> None:
    """In folders and packed; files of the same size with other numbers aren't named."""
    write_steps(tmp_path / "run", family=family)
    for step in (11, 40):
        shutil.copytree(tmp_path / "run" / "step-10", tmp_path / "run" / f"step-{step}")
    with pytest.warns(UserWarning, match="steps 10, 11, 40 have the same weights"):
        steps = gpt2viz.load_steps(tmp_path / "run")
    assert steps.duplicates == ((10, 11, 40),)
    assert steps.dated == (2, 300)
    shutil.rmtree(tmp_path / "run" / "step-11")
    shutil.rmtree(tmp_path / "run" / "step-40")
    weights = dict(gpt2viz.load_steps(tmp_path / "run")[2].network.named_parameters())
    for step in (3, 4):
        write_packed(weights, tmp_path / "run" / f"step-{step}.safetensors")
    with pytest.warns(UserWarning, match="steps 3, 4 have"):
        assert gpt2viz.load_steps(tmp_path / "run").duplicates == ((3, 4),)


def test_no_two_checkpoints_of_the_bundled_model_are_the_same() -> None:
    steps = gpt2viz.load_steps()
    assert (steps.duplicates, steps.dated) == ((), tuple(steps))

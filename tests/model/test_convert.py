"""Converted files of nanoGPT and minGPT give the original network's logits."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from safetensors.torch import load_file
from torch import nn

import gpt2viz
from gpt2viz.model.convert import convert
from tests import layouts
from tests.checkpoints import write_checkpoint, write_tokenizer
from tests.model.test_token_list import Calls
from tests.processes import full_disk

IDS = [5, 429, 17, 5, 0, 301, 44]


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    folder = tmp_path / "vocabulary"
    folder.mkdir()
    write_tokenizer(folder)
    return folder


def assert_same_logits(folder: Path, network: nn.Module) -> None:
    trace = gpt2viz.trace(gpt2viz.load_model(folder), IDS)
    with torch.no_grad():
        assert_allclose(trace.logits, network(torch.tensor([IDS])), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize("bias", [False, True], ids=["without biases", "with biases"])
def test_nanogpt(tmp_path: Path, vocabulary: Path, bias: bool, compiled: bool) -> None:
    network = layouts.random_weights(layouts.CurrentGPT(nano=True, bias=bias, mask=compiled))
    layouts.save_nano(network, tmp_path / "ckpt.pt", bias, compiled)
    config = convert(tmp_path / "ckpt.pt", tmp_path / "out", tokenizer=vocabulary)
    assert (config.vocab_size, config.n_head, config.tie_word_embeddings) == (430, 4, True)
    assert config == gpt2viz.load_model(tmp_path / "out").config
    assert_same_logits(tmp_path / "out", network)


@pytest.mark.parametrize(
    "make",
    [lambda: layouts.CurrentGPT(nano=False, mask=True), layouts.OldMinGPT],
    ids=["minGPT", "minGPT of 2020"],
)
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before PyTorch 1.6"])
def test_mingpt(tmp_path: Path, vocabulary: Path, make: Any, zipped: bool) -> None:
    network, file = layouts.random_weights(make()), tmp_path / "model.pt"
    torch.save(network.state_dict(), file, _use_new_zipfile_serialization=zipped)
    config = convert(str(file), str(tmp_path / "out"), 4, str(vocabulary))
    assert not config.tie_word_embeddings
    assert_same_logits(tmp_path / "out", network)


def test_mismatched_tokenizer_is_refused_by_name(tmp_path: Path, vocabulary: Path) -> None:
    network = layouts.random_weights(layouts.CurrentGPT(nano=True, bias=False, mask=False))
    layouts.save_nano(network, tmp_path / "ckpt.pt", False, False)
    (tmp_path / "none").mkdir()
    with pytest.raises(gpt2viz.CheckpointError, match=f"^{tmp_path / 'none'}"):
        convert(tmp_path / "ckpt.pt", tmp_path / "out", tokenizer=tmp_path / "none")
    with pytest.raises(
        gpt2viz.CheckpointError, match=r"the tokenizer has 5,120 tokens, .* but the model only 430"
    ):
        convert(tmp_path / "ckpt.pt", tmp_path / "out", tokenizer=gpt2viz.BUNDLED)
    assert not (tmp_path / "out").exists()


def test_nonempty_output_folder_is_refused(tmp_path: Path, vocabulary: Path) -> None:
    network = layouts.random_weights(layouts.CurrentGPT(nano=True, bias=False))
    layouts.save_nano(network, tmp_path / "ckpt.pt", bias=False)
    convert(tmp_path / "ckpt.pt", tmp_path / "out")
    for file in vocabulary.iterdir():
        file.rename(tmp_path / "out" / file.name)
    assert_same_logits(tmp_path / "out", network)
    with pytest.raises(gpt2viz.CheckpointError, match="out is not empty; give a new folder"):
        convert(tmp_path / "ckpt.pt", tmp_path / "out")


@dataclass
class Settings:
    """As build-nanogpt saves them beside the weights."""

    n_layer: int
    n_head: int


def test_settings_are_read_without_their_class(tmp_path: Path, vocabulary: Path) -> None:
    network, mark = layouts.random_weights(layouts.CurrentGPT(nano=False)), tmp_path / "ran"
    beside: list[dict[str, Any]] = [
        {"config": Settings(layouts.L, layouts.H), "val_loss": 3.0},
        {"args": argparse.Namespace(n_head=layouts.H), "step": torch.tensor(5)},
        {"config": {"n_head": layouts.H}, "best_val_loss": np.float64(1.5)},
        {"args": {"n_head": layouts.H}, "why": Calls(exec, f"open({str(mark)!r}, 'w')")},
    ]
    for n, more in enumerate(beside):
        torch.save({"model": network.state_dict(), **more}, tmp_path / "ckpt.pt")
        config = convert(tmp_path / "ckpt.pt", tmp_path / f"out{n}", tokenizer=vocabulary)
        assert config.n_head == layouts.H
        assert_same_logits(tmp_path / f"out{n}", network)
    assert not mark.exists()


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before PyTorch 1.6"])
@pytest.mark.parametrize("function", [os.system, exec, eval])
def test_functions_in_a_pickle_are_never_called(
    tmp_path: Path, function: Callable[..., Any], zipped: bool
) -> None:
    mark = tmp_path / "ran"
    code = f"touch {mark}" if function is os.system else f"open({str(mark)!r}, 'w')"
    weights, file = layouts.CurrentGPT(nano=False).state_dict(), tmp_path / "ckpt.pt"
    for saved in (
        {"model": Calls(function, code)},
        {"model": weights, "why": Calls(function, code)},
    ):
        torch.save(saved, file, _use_new_zipfile_serialization=zipped)
        with pytest.raises(gpt2viz.CheckpointError, match=f"^{file}") as why:
            convert(file, tmp_path / "out")
        assert str(why.value).isprintable()
    assert not mark.exists()


def test_object_in_place_of_the_weights_is_named(tmp_path: Path) -> None:
    network = layouts.CurrentGPT(nano=False)
    weights = network.state_dict()
    for saved, name in (
        ({"model": Calls(os.system, "false")}, "posix.system"),
        (weights | {"transformer.h.0.note": Settings(1, 2)}, f"{__name__}.Settings"),
        (network, f"{layouts.__name__}.CurrentGPT"),
        ({"model": network, "step": 1}, f"{layouts.__name__}.CurrentGPT"),
    ):
        torch.save(saved, tmp_path / "ckpt.pt")
        with pytest.raises(gpt2viz.CheckpointError, match=rf"{name}.*torch\.save\(model") as why:
            convert(tmp_path / "ckpt.pt", tmp_path / "out")
        assert str(why.value).isprintable()


def test_unknown_contents_are_refused(tmp_path: Path) -> None:
    def assert_refused(saved: Any, message: str, **more: Any) -> None:
        torch.save(saved, tmp_path / "file.pt")
        with pytest.raises(gpt2viz.CheckpointError, match=message):
            convert(tmp_path / "file.pt", tmp_path / "out", **more)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["file.pt"]

    weights = layouts.CurrentGPT(nano=False).state_dict()
    assert_refused(weights, "doesn't say how many heads a layer has; name their number")
    assert_refused(weights, r"n_embd \(24\) must be a multiple of n_head \(5\)", n_head=5)
    assert_refused([1, 2], "neither nanoGPT's dictionary nor minGPT's weights")
    assert_refused({"model": {"a": 1}}, "neither nanoGPT's dictionary nor minGPT's weights")
    assert_refused({"weight": torch.zeros(3)}, r"no wte\.weight; only nanoGPT's and minGPT's")
    without = {n: w for n, w in weights.items() if n != "transformer.h.1.mlp.c_fc.weight"}
    assert_refused(without, r"h\.1\.mlp\.c_fc\.weight .* is missing", n_head=4)
    for name, size in (("wte", (24,)), ("wpe", ()), ("h.0.mlp.c_fc", ())):
        flat = weights | {f"transformer.{name}.weight": torch.zeros(size)}
        assert_refused(flat, f"{name}.weight isn't a table", n_head=4)
    named = weights | {"transformer.h.first.ln_1.weight": torch.zeros(3)}
    assert_refused(named, r"h\.first\.ln_1\.\w+ \(3,\) has no place", n_head=4)
    assert_refused(
        weights | {7: torch.zeros(3)}, "neither nanoGPT's dictionary nor minGPT's weights"
    )
    assert_refused({"model": weights, "model_args": [4]}, "neither nanoGPT's dictionary")
    more = weights | {"transformer.h.0.attn.rotary": torch.zeros(3)}
    assert_refused(more, r"h\.0\.attn\.rotary \(3,\) has no place", n_head=4)


def test_hugging_faces_layout_and_damaged_files_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "theirs")
    theirs = load_file(tmp_path / "theirs" / "model.safetensors")
    torch.save(theirs, tmp_path / "pytorch_model.bin")
    with pytest.raises(gpt2viz.CheckpointError, match=r"only the layout of nn\.Linear"):
        convert(tmp_path / "pytorch_model.bin", tmp_path / "out", n_head=4)
    (tmp_path / "cut.pt").write_bytes((tmp_path / "pytorch_model.bin").read_bytes()[:500])
    for name in ("cut.pt", "nowhere.pt"):
        with pytest.raises(gpt2viz.CheckpointError, match=r"not weights that torch\.save wrote"):
            convert(tmp_path / name, tmp_path / "out", n_head=4)


MLP, POSITIONS = "transformer.h.0.mlp.c_fc.weight", "transformer.wpe.weight"
ODD: dict[str, tuple[str, Callable[[torch.Tensor], Any]]] = {
    "sparse": (MLP, lambda w: w.to_sparse()),
    "compressed": (MLP, lambda w: w.to_sparse_csr()),
    "meta": (MLP, lambda w: w.to("meta")),
    "quantised": (MLP, lambda w: torch.quantize_per_tensor(w, 0.1, 0, torch.qint8)),
    "nested": (MLP, lambda w: torch.nested.nested_tensor([w, w[:3]])),
    "8 bits": (MLP, lambda w: w.to(torch.float8_e4m3fn)),
    "complex": (MLP, lambda w: w.to(torch.complex64)),
    "a number": ("transformer.h.0.ln_1.weight", lambda w: torch.tensor(1.0)),
    "a cube": ("transformer.h.1.attn.c_attn.weight", lambda w: torch.zeros(2, 2, 2)),
    "half a pair": ("transformer.h.1.\ud800", lambda w: torch.zeros(2)),
    "an escape": ("transformer.h.1.\x1b[2J", lambda w: torch.zeros(2)),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.filterwarnings("ignore")  # torch's warnings about them
def test_unsupported_tensors_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    weights = layouts.CurrentGPT(nano=False).state_dict()
    name, change = ODD[kind]
    weights[name] = change(weights.get(name, torch.zeros(1)))
    torch.save(weights, tmp_path / "file.pt")
    with pytest.raises(gpt2viz.CheckpointError) as refusal:
        convert(tmp_path / "file.pt", tmp_path / "out", n_head=4)
    message = str(refusal.value)
    assert repr(name)[1:-1].removeprefix("transformer.") in message
    assert message.isprintable()
    assert not (tmp_path / "out").exists()


def test_weights_larger_than_memory_are_refused_unread(tmp_path: Path) -> None:
    weights = layouts.CurrentGPT(nano=False).state_dict()
    torch.save(weights | {POSITIONS: torch.zeros(1, 1).expand(2**40, layouts.C)}, tmp_path / "f.pt")
    with pytest.raises(
        gpt2viz.TooLargeError, match=r"f\.pt: its weights need 211,106 GB of memory"
    ):
        convert(tmp_path / "f.pt", tmp_path / "out", n_head=4)


def test_shared_negated_and_transposed_tensors_are_converted(tmp_path: Path) -> None:
    network = layouts.random_weights(layouts.CurrentGPT(nano=False))
    blocks: Any = network.get_submodule("transformer.h")
    blocks[1].mlp["c_fc"].weight = blocks[0].mlp["c_fc"].weight
    weights = dict(network.state_dict())
    weights[POSITIONS] = torch._neg_view(-weights[POSITIONS])
    weights[MLP] = weights[MLP].t().contiguous().t()
    torch.save(weights, tmp_path / "file.pt")
    convert(tmp_path / "file.pt", tmp_path / "out", n_head=4)
    write_tokenizer(tmp_path / "out")
    assert_same_logits(tmp_path / "out", network)


def test_named_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pt")
    with pytest.raises(gpt2viz.CheckpointError, match=rf"^{tmp_path}/pipe.pt: .*not an ordinary f"):
        convert(tmp_path / "pipe.pt", tmp_path / "out")


def test_full_disk_gives_one_message_and_leaves_no_files(tmp_path: Path) -> None:
    torch.save(layouts.CurrentGPT(nano=False).state_dict(), tmp_path / "file.pt")
    message = rf"^{tmp_path}/out: can't be written \(.*too large"
    with full_disk(), pytest.raises(gpt2viz.CheckpointError, match=message):
        convert(tmp_path / "file.pt", tmp_path / "out", n_head=4)
    assert [path.name for path in tmp_path.iterdir()] == ["file.pt"]

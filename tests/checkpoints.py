"""Tiny random checkpoints, in files as transformers writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import ByteLevelBPETokenizer

import gpt2viz
from gpt2viz.model import preload
from gpt2viz.model.memory import total_memory
from gpt2viz.run.captured import Captured

if TYPE_CHECKING:
    import pytest

TEXT = (
    "A crane ate fish. A crane lifted steel. The animal didn't cross the street because it was "
    "too tired; she'll say it's 42 degrees, they've said, we're naïve, ÆØÅ, 東京, مرحبا, 🦩🦩!"
)

CONFIG: dict[str, Any] = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}
CONFIG |= {"vocab_size": 420, "n_positions": 24, "n_embd": 24, "n_layer": 3, "n_head": 4}
CONFIG |= {"activation_function": "gelu_new", "n_inner": None, "layer_norm_epsilon": 1e-5}
CONFIG |= {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
CONFIG |= {"reorder_and_upcast_attn": False, "tie_word_embeddings": True}
CONFIG |= {"bos_token_id": 0, "eos_token_id": 0}
#: Odd sizes, an untied unembedding, another ε, scores also divided by the layer's number.
ODD: dict[str, Any] = {"n_embd": 15, "n_head": 3, "tie_word_embeddings": False}
ODD |= {"layer_norm_epsilon": 0.3, "scale_attn_by_inverse_layer_idx": True}
SHAPES: dict[str, dict[str, Any]] = {"plain": {}, "odd": ODD}


def write_tokenizer(folder: Path, vocab_size: int = 400) -> ByteLevelBPETokenizer:
    """Train a BPE on ``TEXT`` and write vocab.json and merges.txt."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        [TEXT] * 20,
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    tokenizer.save_model(str(folder))
    return tokenizer


def write_checkpoint(
    folder: Path, *, seed: int = 0, dtype: torch.dtype = torch.float32, **changes: Any
) -> Path:
    """Write a whole checkpoint, laid out as by transformers, into a folder; return the folder.

    Weights and biases are large and random, so that a wrong formula shows in the numbers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    config = CONFIG | changes | {"dtype": str(dtype).removeprefix("torch.")}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    ends = {name: config[name] for name in ("bos_token_id", "eos_token_id")}
    (folder / "generation_config.json").write_text(json.dumps(ends), encoding="utf-8")
    torch.manual_seed(seed)
    draw_as_transformers_does(config)
    weights = {}
    for name, shape in shapes(config):
        around = 1.0 if ".ln_" in name and name.endswith("weight") else 0.0
        weights[name] = (around + 0.7 * config["n_embd"] ** -0.5 * torch.randn(shape)).to(dtype)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def draw_as_transformers_does(config: Mapping[str, Any]) -> None:
    """Draw the random numbers that initialise a model in transformers, and drop them.

    The stored answers of TransformerLens are for the weights that a seed gives after those.
    """
    for name, shape in shapes({**config, "tie_word_embeddings": False}):
        if len(shape) == 2:
            (torch.rand if name == "lm_head.weight" else torch.randn)(shape)
            torch.randn(shape)
        if name.endswith("c_proj.weight"):
            torch.randn(shape)


def shapes(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The tensors of a GPT-2 by the names of transformers; its Conv1D keeps (in, out)."""
    C = config["n_embd"]
    hidden = config["n_inner"] or 4 * C
    yield "transformer.wte.weight", (config["vocab_size"], C)
    yield "transformer.wpe.weight", (config["n_positions"], C)
    sizes = {
        "ln_1": (C,),
        "attn.c_attn": (C, 3 * C),
        "attn.c_proj": (C, C),
        "ln_2": (C,),
        "mlp.c_fc": (C, hidden),
        "mlp.c_proj": (hidden, C),
    }
    blocks = product(range(config["n_layer"]), sizes.items())
    for name, size in [*((f"h.{n}.{part}", size) for n, (part, size) in blocks), ("ln_f", (C,))]:
        yield f"transformer.{name}.weight", size
        yield f"transformer.{name}.bias", size[-1:]
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], C)


def transformers_model(folder: Path) -> Any:
    """A checkpoint of any family as transformers loads it, in float32 with eager attention.

    transformers takes seconds to import: only the tests that compare with it do.
    """
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    )
    return model.eval()


def edit_json(path: Path, **changes: Any) -> None:
    """Change fields of a JSON file; None removes one."""
    values = json.loads(path.read_text(encoding="utf-8")) | changes
    fields = {name: value for name, value in values.items() if value is not None}
    path.write_text(json.dumps(fields), encoding="utf-8")


@contextmanager
def weights_of(path: Path) -> Iterator[dict[str, torch.Tensor]]:
    """The tensors of a checkpoint or of one file, which are written back with any changes."""
    path = path / "model.safetensors" if path.is_dir() else path
    weights = load_file(path)
    yield weights
    save_file(weights, path, metadata={"format": "pt"})


def outgrow_the_memory(folder: Path) -> None:
    """Enlarge the vocabulary in a sparse file until the weights need twice the machine's memory."""
    path = folder / "model.safetensors"
    vocab = total_memory() // (24 * 4) * 2
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(length))
        more = vocab * 24 * 4 - 420 * 24 * 4
        first = entries["transformer.wte.weight"]["data_offsets"][1]
        for name, entry in entries.items():
            if name != "__metadata__":
                entry["data_offsets"] = [n + more * (n >= first) for n in entry["data_offsets"]]
        entries["transformer.wte.weight"] |= {"shape": [vocab, 24]}
        end = max(entry["data_offsets"][1] for n, entry in entries.items() if n != "__metadata__")
        header = json.dumps(entries).encode()
        file.seek(0)
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + end)
    edit_json(folder / "config.json", vocab_size=vocab)


def load_ahead(monkeypatch: pytest.MonkeyPatch, folders: Mapping[str, Path]) -> None:
    """Load models ahead, by name, as a server does before it forks its workers."""
    monkeypatch.setattr(preload, "_loaded", {})
    preload.load(folders, 10**9)


def with_stages(
    trace: gpt2viz.Trace, stages: Mapping[tuple[str, int | None], np.ndarray]
) -> gpt2viz.Trace:
    """A run with some stages replaced by other numbers."""
    every = {**trace.captured, **stages}
    tensors = {key: torch.tensor(array) for key, array in every.items()}
    return replace(trace, captured=Captured(tensors))

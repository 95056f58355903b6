"""Tiny random checkpoints, written by transformers: the files that the package has to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer

import gpt2viz
from gpt2viz.model import preload
from gpt2viz.model.memory import total_memory
from gpt2viz.run.captured import Captured

if TYPE_CHECKING:
    import pytest
    from transformers import GPT2LMHeadModel

TEXT = (
    "A crane ate fish. A crane lifted steel. The animal didn't cross the street because it was "
    "too tired; she'll say it's 42 degrees, they've said, we're naïve, ÆØÅ, 東京, مرحبا, 🦩🦩!"
)


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
) -> GPT2LMHeadModel:
    """Write a whole checkpoint and return transformers' own model of it, in eager attention.

    Weights and biases are large and random, so that a wrong formula shows in the numbers.
    transformers takes seconds to import, and most tests write no checkpoint.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    sizes = {"vocab_size": 420, "n_positions": 24, "n_embd": 24, "n_layer": 3, "n_head": 4}
    special = {"bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(**{**sizes, **special, **changes})
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model: Any = GPT2LMHeadModel(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            around = 1.0 if ".ln_" in name and name.endswith("weight") else 0.0
            weight.copy_(around + 0.7 * config.n_embd**-0.5 * torch.randn_like(weight))
    model = model.to(dtype)
    model.save_pretrained(folder, max_shard_size="5GB")
    return model.float().eval()


def edit_json(path: Path, **changes: Any) -> None:
    """Change fields of a JSON file; None removes one."""
    values = json.loads(path.read_text(encoding="utf-8")) | changes
    kept = {name: value for name, value in values.items() if value is not None}
    path.write_text(json.dumps(kept), encoding="utf-8")


def outgrow_the_memory(folder: Path) -> None:
    """Give a checkpoint so many tokens that its weights take twice the memory; most is a hole."""
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
    """A run that says of some stages what it never computed."""
    every = {**trace.captured, **stages}
    kept = {place: torch.tensor(array) for place, array in every.items()}
    return replace(trace, captured=Captured(kept))

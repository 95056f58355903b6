"""A checkpoint's files as bytes in memory: to spoil, and to write out again."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from safetensors.torch import load_file, save

from tests.checkpoints import write_checkpoint

Files = dict[str, bytes]
Header = dict[str, Any]

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def bases(folder: Path) -> list[Files]:
    """A tiny checkpoint in three layouts: two tokenizers, and weights in one file or two."""
    from transformers import GPT2Tokenizer

    write_checkpoint(folder / "tiny")
    plain = read(folder / "tiny")
    plain.pop("generation_config.json")
    vocab, merges = (str(folder / "tiny" / name) for name in ("vocab.json", "merges.txt"))
    GPT2Tokenizer(vocab=vocab, merges=merges).save_pretrained(folder / "fast")
    fast = (folder / "fast" / "tokenizer.json").read_bytes()
    with_fast = {n: b for n, b in plain.items() if n not in ("vocab.json", "merges.txt")}
    with_fast["tokenizer.json"] = fast
    weights = load_file(folder / "tiny" / WEIGHTS)
    names = sorted(weights)
    halves = {"model-00001-of-00002.safetensors": names[::2]}
    halves["model-00002-of-00002.safetensors"] = names[1::2]
    sharded = {name: content for name, content in plain.items() if name != WEIGHTS}
    for file, part in halves.items():
        sharded[file] = save({name: weights[name] for name in part}, {"format": "pt"})
    places = {name: file for file, part in halves.items() for name in part}
    sharded[INDEX] = json.dumps({"metadata": {}, "weight_map": places}).encode()
    return [plain, with_fast, sharded]


def read(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def write(files: Files, folder: Path) -> None:
    """Make ``folder`` hold these files and nothing else."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def weights_of(files: Files, rng: Random) -> str:
    """The name of one of the files that hold weights."""
    return rng.choice([name for name in files if name.endswith(".safetensors")])


def words_of(files: Files) -> str:
    """The name of the file that holds the vocabulary."""
    return "tokenizer.json" if "tokenizer.json" in files else "vocab.json"


def split(content: bytes) -> tuple[Header, bytes]:
    """Header and data of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def join(header: Header | bytes, data: bytes) -> bytes:
    """The other way round."""
    written = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(written).to_bytes(8, "little") + written + data


def array(header: Header, data: bytearray, name: str) -> np.ndarray:
    """A float32 tensor's numbers, to change in place."""
    first, last = header[name]["data_offsets"]
    return np.frombuffer(memoryview(data)[first:last], np.float32)


def tensor_names(header: Header) -> list[str]:
    return [name for name in header if name != "__metadata__"]


def link(folder: Path, name: str, target: Path | str) -> None:
    """Put a link in a file's place."""
    (folder / name).unlink(missing_ok=True)
    os.symlink(target, folder / name)

"""Turn a nanoGPT or minGPT file into a folder that the app loads, as ``gpt2viz convert`` does.

Both (Karpathy, github.com/karpathy/nanoGPT and /minGPT) write a pickle with the weights of
``nn.Linear``, (out, in); GPT-2's own layout has them the other way round. The pickle is only read
with ``weights_only=True``, which runs no code from it.
"""

from __future__ import annotations

import json
import pickle
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from gpt2viz.checkpoint import weight_bytes
from gpt2viz.config import GPT2Config
from gpt2viz.errors import CheckpointError
from gpt2viz.tokenizer import load_tokenizer
from gpt2viz.weights import CONV1D

_TOKENIZER = ("tokenizer.json", "vocab.json", "merges.txt", "added_tokens.json")
# What torch.compile, DataParallel and the model itself put before a name.
_BEFORE = re.compile(r"^(_orig_mod\.|module\.|transformer\.)+")
_LAYER = re.compile(r"h\.(\d{1,6})\.")
_MASKS = (".attn.mask", ".attn.masked_bias")
# minGPT's names of 2020, and today's.
_OF_2020 = {
    "tok_emb.": "wte.",
    "blocks.": "h.",
    ".ln1.": ".ln_1.",
    ".ln2.": ".ln_2.",
    ".attn.proj.": ".attn.c_proj.",
    ".mlp.0.": ".mlp.c_fc.",
    ".mlp.2.": ".mlp.c_proj.",
}


def convert(
    file: Path, folder: Path, n_head: int | None = None, tokenizer: Path | None = None
) -> GPT2Config:
    """Write ``folder`` (``config.json``, ``model.safetensors``) from a nanoGPT or minGPT file.

    ``n_head`` is needed where the file doesn't say it, as in minGPT's; the tokenizer's files are
    copied from the folder ``tokenizer``. Missing biases become 0, a padded vocabulary stays.
    Raises ``CheckpointError`` for a file that is neither, and where ``folder`` isn't empty;
    ``folder`` is then as it was.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CheckpointError(f"{folder} is not empty; give a new folder")
    weights, saved = _load(file)
    curve = "gelu" if saved else "gelu_new"  # nanoGPT's, minGPT's
    if "tok_emb.weight" in weights:
        weights, curve = _renamed(weights), "gelu"
    config = _config(file, weights, saved.get("n_head", n_head), curve)
    weights = _stored(weights, config)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".convert-") as made:
        save_file(weights, Path(made, "model.safetensors"), metadata={"format": "pt"})
        written = json.dumps({"model_type": "gpt2", **asdict(config)}, indent=2)
        Path(made, "config.json").write_text(written + "\n", encoding="utf-8")
        weight_bytes(made)  # what isn't a whole GPT-2 is refused here
        for source in (tokenizer / name for name in _TOKENIZER) if tokenizer else ():
            if source.is_file():
                shutil.copy(source, made)
        if tokenizer:
            load_tokenizer(Path(made))
        folder.mkdir(exist_ok=True)
        for path in Path(made).iterdir():
            shutil.move(path, folder)
    return config


def _load(file: Path) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
    """The tensors by their names, without prefixes and masks; nanoGPT's ``model_args`` or {}."""
    try:
        saved = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        why = str(error).split("\n")[0]
        raise CheckpointError(f"{file}: not weights that torch.save wrote ({why})") from None
    parts = saved if isinstance(saved, dict) else {}
    found, arguments = parts.get("model", saved), parts.get("model_args", {})
    if not (
        (isinstance(found, dict) and isinstance(arguments, dict))
        and all(isinstance(name, str) and isinstance(w, Tensor) for name, w in found.items())
    ):
        raise CheckpointError(f"{file}: neither nanoGPT's dictionary nor minGPT's weights")
    weights = {_BEFORE.sub("", name): weight for name, weight in found.items()}
    masks = {n for n, w in weights.items() if n.endswith(".attn.bias") and w.ndim == 4}
    masks |= {n for n in weights if n.endswith(_MASKS)}
    return {n: w for n, w in weights.items() if n not in masks}, arguments


def _renamed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """minGPT's names of 2020 as today's: query, key and value become one matrix."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if re.search(r"\.attn\.(key|value)\.", name):
            continue
        if ".attn.query." in name:
            parts = (name.replace("query", part) for part in ("query", "key", "value"))
            own = [weights[part] for part in parts if part in weights]
            if not weight.ndim or any(part.shape != weight.shape for part in own):
                raise CheckpointError(f"{name}: queries, keys and values have different sizes")
            weight = torch.cat(own)
            name = name.replace("query", "c_attn")
        for old, new in _OF_2020.items():
            name = name.replace(old, new)
        found[{"head.weight": "lm_head.weight", "pos_emb": "wpe.weight"}.get(name, name)] = weight
    if "wpe.weight" in found:
        found["wpe.weight"] = found["wpe.weight"].squeeze(0)  # (1, T, C) -> (T, C)
    return found


def _config(
    file: Path, weights: Mapping[str, Tensor], n_head: int | None, curve: str
) -> GPT2Config:
    """The sizes that the weights have. Raises ``CheckpointError`` where they don't tell them."""
    needed = ("wte.weight", "wpe.weight", "h.0.mlp.c_fc.weight", "h.0.attn.c_attn.weight")
    missing = [name for name in needed if name not in weights]
    if missing:
        raise CheckpointError(f"{file}: no {missing[0]}; only nanoGPT's and minGPT's can be read")
    for name in needed:
        if weights[name].ndim != 2:
            raise CheckpointError(f"{file}: {name} is no table, but {tuple(weights[name].shape)}")
    vocab_size, C = weights["wte.weight"].shape
    if weights["h.0.attn.c_attn.weight"].shape != (3 * C, C):
        raise CheckpointError(
            f"{file}: h.0.attn.c_attn.weight is {tuple(weights['h.0.attn.c_attn.weight'].shape)}, "
            f"not {(3 * C, C)}; only the layout of nn.Linear can be converted"
        )
    if n_head is None:
        raise CheckpointError(f"{file} doesn't say how many heads a layer has; add --heads N")
    head = weights.get("lm_head.weight")
    return GPT2Config(
        vocab_size=vocab_size,
        n_positions=len(weights["wpe.weight"]),
        n_embd=C,
        n_layer=1 + max(int(layer[1]) for layer in map(_LAYER.match, weights) if layer),
        n_head=n_head,
        n_inner=len(weights["h.0.mlp.c_fc.weight"]),
        activation_function=curve,
        tie_word_embeddings=head is None or torch.equal(head, weights["wte.weight"]),
    )


def _stored(weights: Mapping[str, Tensor], config: GPT2Config) -> dict[str, Tensor]:
    """The weights as GPT-2's files have them: (in, out), each with a bias."""
    found = {n: w.t() if n.endswith(CONV1D) else w for n, w in weights.items()}
    if config.tie_word_embeddings:
        found.pop("lm_head.weight", None)
    for name, weight in list(found.items()):
        bias = name.removesuffix("weight") + "bias"
        if name.startswith(("h.", "ln_f")) and name.endswith("weight") and bias not in found:
            found[bias] = weight.new_zeros(weight.shape[-1])
    return {name: weight.contiguous() for name, weight in found.items()}

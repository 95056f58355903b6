"""Weights in formats other than safetensors: recognize them, and say how to convert them.

They aren't read here. Each remedy is a command or some lines of Python for users who trust the
files, as most of these formats can run code, or need libraries that gpt2viz doesn't use.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

# Code to paste: not indented, and with full paths.
_PICKLE = """\
{folder}: the weights are only there as a pickle ({names}), which can run code when it is
opened. Convert it once, in Python, on a machine where you trust the file:

import torch
from safetensors.torch import save_file
weights = {{}}
for file in {files!r}: weights |= torch.load(file, weights_only=True)
save_file({{k: v.clone().contiguous() for k, v in weights.items()}}, {target!r})"""
_FOREIGN = (
    "{folder}: the weights are only there as {names}, which is made for another program. Take the "
    "safetensors that it was made from"
)

#: Files that a folder can hold without a ``config.json``, and the remedies.
ALONE: Mapping[str, str] = {
    r"adapter_(config\.json|model\.(safetensors|bin))": (
        "{folder}: an adapter ({names}), and no whole model. Merge it into the model that it was "
        "trained on, in Python with peft: AutoPeftModelForCausalLM.from_pretrained({path!r})"
        ".merge_and_unload().save_pretrained({path!r} + '-merged'), and put the tokenizer there"
    ),
    r".+\.gguf": (
        "{folder}: the model is only there as {names}. Give that file itself in place of the "
        "folder: {path}/{first}"
    ),
    # Not the other files that a trainer saves beside the weights.
    r"(?!(optimizer|scheduler|scaler|rng_state|model).*\.).+\.(pt|pth|ckpt)": (
        "{folder}: {names} can't be used as it is. If nanoGPT, minGPT or a script like theirs "
        "wrote it: gpt2viz convert FILE NEW-FOLDER"
    ),
}
#: Files that it can hold instead of ``model.safetensors``, the likeliest first.
INSTEAD: Mapping[str, str] = {
    **dict.fromkeys((r"pytorch_model\.bin", r"model\.bin", r"model\.pt"), _PICKLE),
    r"pytorch_model-\d+-of-\d+\.bin": _PICKLE,
    r"(flax_model|tf_model|model.*\.ckpt).*\.(msgpack|h5|index)|.+\.(ggml|onnx|ot)": _FOREIGN,
    **ALONE,
    r"model-\d+-of-\d+\.safetensors": (
        "{folder}: {names} are parts, and model.safetensors.index.json, which says what is in "
        "which, is missing. Fetch it, too"
    ),
    r"(?!model\.safetensors$).+\.safetensors": (
        "{folder}: {names} isn't looked for. Call it model.safetensors if it holds the whole model"
    ),
}


def remedy(folder: Path, ways: Mapping[str, str] = INSTEAD) -> str:
    """A sentence on a folder's weights in an unusable format, and the remedy; "" if it has none."""
    path = os.path.abspath(folder)
    for pattern, way in ways.items():
        if names := _matching(pattern, _names(folder)):
            ends = " … ".join(dict.fromkeys((names[0], names[-1])))
            files = [f"{path}/{name}" for name in names]
            target = f"{path}/model.safetensors"
            named = {"folder": folder, "names": ends, "first": names[0], "path": path}
            return way.format(**named, files=files, target=target)
    return ""


def other_weights(names: Iterable[str]) -> str:
    """The first of these files that has weights in an unusable format; "" if none has."""
    names = sorted(names)
    return next((name for pattern in INSTEAD for name in _matching(pattern, names)), "")


def _matching(pattern: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if re.fullmatch(pattern, name)]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except (OSError, ValueError):  # not a folder, or not a readable one
        return []

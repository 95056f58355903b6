"""Convert a nanoGPT or minGPT file into a folder that the app loads, as ``gpt2viz convert`` does.

Both (Karpathy, github.com/karpathy/nanoGPT and /minGPT) write a pickle with the weights of
``nn.Linear``, (out, in); GPT-2's own layout is transposed. Nothing in the pickle is run: see
``gpt2viz.model.pickles``. Other content, such as settings in a class of the script that saved it,
does no harm. A vocabulary of characters is in ``meta.pkl``.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from gpt2viz.errors import CheckpointError, TooLargeError
from gpt2viz.files import read_list, reading
from gpt2viz.model.checkpoint import weight_bytes
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.memory import free_memory, spell
from gpt2viz.model.pickles import REMEDY, Stub, read_torch_file, tokens_of
from gpt2viz.model.tokenizer import load_tokenizer
from gpt2viz.model.tokenizer_files import FILES
from gpt2viz.model.vocabulary import check_list
from gpt2viz.model.weights import CONV1D, FLOATS, plain_name

# Keys under which training scripts store the weights, and the settings: nanoGPT's names first.
_WEIGHTS = ("model", "model_state_dict", "state_dict")
_ARGUMENTS = "model_args"
_SETTINGS = (_ARGUMENTS, "config", "args", "hparams", "hyper_parameters")
_ONLY_WEIGHTS = "{file}: {what} isn't weights, and nothing in the file is run; " + REMEDY
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
    file: str | Path,
    folder: str | Path,
    n_head: int | None = None,
    tokenizer: str | Path | None = None,
) -> GPT2Config:
    """Write ``folder`` (``config.json``, ``model.safetensors``) from a nanoGPT or minGPT file.

    ``n_head`` is needed if the file doesn't have it, as minGPT's. ``tokenizer`` is a folder
    whose tokenizer is copied, nanoGPT's ``meta.pkl``, or a JSON list of one string per id; the
    last two become ``tokens.json``. Missing biases become 0, a padded vocabulary stays padded.
    Raises ``CheckpointError`` for a file that is neither, and where ``folder`` isn't empty or
    can't be written; ``folder`` is then unchanged.
    """
    file, folder = Path(file), Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CheckpointError(f"{folder} is not empty; give a new folder")
    weights, saved = _load(file)
    curve = "gelu" if saved.get(_ARGUMENTS) else "gelu_new"  # nanoGPT's, minGPT's
    if "tok_emb.weight" in weights:
        weights, curve = _rename(weights), "gelu"
    config = _config(file, weights, _heads(saved) or n_head, curve)
    weights = _layout(file, weights, config)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".convert-") as made:
            _write(Path(made), weights, config, file, Path(tokenizer) if tokenizer else None)
            folder.mkdir(exist_ok=True)
            for path in Path(made).iterdir():
                shutil.move(path, folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder}: can't be written ({error})") from None
    return config


def _write(
    made: Path,
    weights: Mapping[str, Tensor],
    config: GPT2Config,
    file: Path,
    tokenizer: Path | None,
) -> None:
    """Write the checkpoint's files. Raises ``CheckpointError`` unless they are a complete GPT-2."""
    save_file(dict(weights), made / "model.safetensors", metadata={"format": "pt"})
    written = json.dumps({"model_type": "gpt2", **asdict(config)}, indent=2)
    (made / "config.json").write_text(written + "\n", encoding="utf-8")
    try:
        weight_bytes(made)
    except CheckpointError as error:
        raise CheckpointError(str(error).replace(str(made), str(file))) from None
    if tokenizer:
        _copy_vocabulary(tokenizer, made)
        try:
            load_tokenizer(made).fit(config.vocab_size, str(tokenizer))
        except CheckpointError as error:
            raise CheckpointError(str(error).replace(str(made), str(tokenizer))) from None


def _copy_vocabulary(source: Path, made: Path) -> None:
    if source.is_dir():
        for file in (source / name for name in FILES):
            if file.is_file():
                shutil.copy(file, made)
        return
    tokens = read_list(source) if source.suffix == ".json" else tokens_of(source)
    check_list(tokens, str(source))
    written = json.dumps(tokens, ensure_ascii=False)
    (made / "tokens.json").write_text(written + "\n", encoding="utf-8")


def _load(file: Path) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
    """The tensors by their names, without prefixes and masks, and the file's other content."""
    saved = read_torch_file(file)
    whole = saved if isinstance(saved, dict) else {}
    stored = next((whole[key] for key in _WEIGHTS if key in whole), saved)
    if isinstance(stored, Stub):
        raise CheckpointError(_ONLY_WEIGHTS.format(file=file, what=_class_of(stored)))
    if not isinstance(stored, dict) or not isinstance(whole.get(_ARGUMENTS, {}), dict):
        raise CheckpointError(f"{file}: neither nanoGPT's dictionary nor minGPT's weights")
    for name, value in stored.items():
        _check_tensor(file, name, value)
    needed, free = 2 * sum(weight.nbytes for weight in stored.values()), free_memory()
    if needed > free:
        raise TooLargeError(
            f"{file}: its weights need {spell(needed)} of memory to be converted; {spell(free)} is "
            "free"
        )
    weights: dict[str, Tensor] = {}
    for name, weight in stored.items():
        if plain_name(name) in weights:
            raise CheckpointError(f"{file}: {name:.100} is there already under another name")
        with reading(file, f"{name:.100} can't be read"):
            # In memory of its own: two tensors may share memory in the file.
            weights[plain_name(name)] = weight.detach().resolve_neg().clone()
    masks = {n for n, w in weights.items() if n.endswith(".attn.bias") and w.ndim == 4}
    masks |= {n for n in weights if n.endswith(_MASKS)}
    return {n: w for n, w in weights.items() if n not in masks}, whole


def _check_tensor(file: Path, name: Any, value: Any) -> None:
    """Raise ``CheckpointError`` unless it is a dense tensor of floats with a printable name."""
    if isinstance(value, Stub):
        what = f"{_short(name)}, an object of {_class_of(value)},"
        raise CheckpointError(_ONLY_WEIGHTS.format(file=file, what=what))
    if not (isinstance(name, str) and isinstance(value, Tensor)):
        raise CheckpointError(f"{file}: neither nanoGPT's dictionary nor minGPT's weights")
    if not name.isprintable():
        raise CheckpointError(f"{file}: {name!r:.100} isn't a tensor's name")
    dense = value.layout is torch.strided and value.device.type == "cpu" and not value.is_nested
    if not dense or value.dtype not in FLOATS.values():
        raise CheckpointError(f"{file}: {name:.100} isn't a plain table of numbers")


def _class_of(value: Stub) -> str:
    """The name of the class that an object would have, for a message."""
    return _short(type(value).__name__)


def _short(name: object) -> str:
    """A name from the file, for a message."""
    return repr(name)[1:-1][:100] if isinstance(name, str) else f"{name!r:.100}"


def _heads(saved: Mapping[str, Any]) -> int | None:
    """The number of heads in a layer, from the settings beside the weights; None if missing."""
    for key in _SETTINGS:
        settings = saved.get(key)
        values = vars(settings) if isinstance(settings, Stub) else settings
        n_head = values.get("n_head") if isinstance(values, dict) else None
        if isinstance(n_head, int):
            return n_head
    return None


def _rename(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename minGPT's tensors of 2020 to today's: query, key and value become one matrix."""
    result: dict[str, Tensor] = {}
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
        result[{"head.weight": "lm_head.weight", "pos_emb": "wpe.weight"}.get(name, name)] = weight
    if "wpe.weight" in result:
        result["wpe.weight"] = result["wpe.weight"].squeeze(0)  # (1, T, C) -> (T, C)
    return result


def _config(
    file: Path, weights: Mapping[str, Tensor], n_head: int | None, curve: str
) -> GPT2Config:
    """The sizes of the weights. Raises ``CheckpointError`` if they can't be derived."""
    needed = ("wte.weight", "wpe.weight", "h.0.mlp.c_fc.weight", "h.0.attn.c_attn.weight")
    missing = [name for name in needed if name not in weights]
    if missing:
        raise CheckpointError(f"{file}: no {missing[0]}; only nanoGPT's and minGPT's can be read")
    for name in needed:
        if weights[name].ndim != 2:
            raise CheckpointError(f"{file}: {name} isn't a table, but {tuple(weights[name].shape)}")
    vocab_size, C = weights["wte.weight"].shape
    if weights["h.0.attn.c_attn.weight"].shape != (3 * C, C):
        raise CheckpointError(
            f"{file}: h.0.attn.c_attn.weight is {tuple(weights['h.0.attn.c_attn.weight'].shape)}, "
            f"not {(3 * C, C)}; only the layout of nn.Linear can be converted"
        )
    if n_head is None:
        raise CheckpointError(f"{file} doesn't say how many heads a layer has; name their number")
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


def _layout(file: Path, weights: Mapping[str, Tensor], config: GPT2Config) -> dict[str, Tensor]:
    """The weights in the layout of GPT-2's files: (in, out), each with a bias."""
    for name, weight in weights.items():
        if weight.ndim != 2 if name.endswith(CONV1D) else not weight.ndim:
            raise CheckpointError(
                f"{file}: {name} has the size {tuple(weight.shape)}, which GPT-2's never has"
            )
    result = {n: w.t() if n.endswith(CONV1D) else w for n, w in weights.items()}
    if config.tie_word_embeddings:
        result.pop("lm_head.weight", None)
    for name, weight in list(result.items()):
        bias = name.removesuffix("weight") + "bias"
        if name.startswith(("h.", "ln_f")) and name.endswith("weight") and bias not in result:
            result[bias] = weight.new_zeros(weight.shape[-1])
    return {name: weight.contiguous() for name, weight in result.items()}

"""Read a GPT-2 from a folder in Hugging Face's layout. Only safetensors: a pickle can run code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gpt2viz.config import GPT2Config
from gpt2viz.errors import CheckpointError
from gpt2viz.model import GPT2
from gpt2viz.tokenizer import Tokenizer, load_tokenizer, read_json

#: The model that comes with the package.
BUNDLED = Path(__file__).parent.parent / "assets" / "models" / "stories"

# The released files store these four as (in, out), the other way round than torch's Linear.
_CONV1D = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
# Masks that old files carry as if they were weights.
_IGNORED = (".attn.bias", ".attn.masked_bias")

_CONVERT = """\
{folder}: the weights are only there as a pickle ({file}), which can run code when it is opened.
Convert it once, on a machine where you trust the file:
  import torch; from safetensors.torch import save_file
  weights = torch.load("{file}", weights_only=True)
  save_file({{k: v.clone().contiguous() for k, v in weights.items()}}, "model.safetensors")"""


@dataclass(frozen=True, eq=False)
class Model:
    """A network in eval mode with its tokenizer; ``name`` is its folder's name."""

    name: str
    config: GPT2Config
    network: GPT2
    tokenizer: Tokenizer


def load_model(folder: str | Path = BUNDLED) -> Model:
    """Load a checkpoint folder: ``config.json``, safetensors and tokenizer files.

    Weights become float32. Raises ``CheckpointError`` that names the file, the tensor, what was
    found and what was expected.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder}: no config.json; give a folder in Hugging Face's layout")
    config = GPT2Config.from_dict(read_json(folder / "config.json"))
    tokenizer = load_tokenizer(folder)
    if tokenizer.n_vocab > config.vocab_size:
        raise CheckpointError(
            f"tokenizer: {tokenizer.n_vocab} tokens, but config.json has "
            f"vocab_size {config.vocab_size}"
        )
    with torch.device("meta"):
        network = GPT2(config)
    weights = _read_weights(folder, network.state_dict(), config.tie_word_embeddings)
    network.load_state_dict(weights, assign=True)
    if config.tie_word_embeddings:
        network.lm_head.weight = network.wte.weight
    network.eval().requires_grad_(False)
    return Model(folder.resolve().name, config, network, tokenizer)


def _read_weights(folder: Path, expected: Mapping[str, Tensor], tied: bool) -> dict[str, Tensor]:
    """All tensors of the folder by the model's names; ``expected`` gives names and sizes."""
    weights: dict[str, Tensor] = {}
    for file in _weight_files(folder):
        try:
            with safe_open(file, framework="pt") as tensors:
                for stored in tensors.keys():  # noqa: SIM118 (a safetensors handle is no dict)
                    name = stored.removeprefix("transformer.")
                    if name in expected:
                        where = f"{file.name}: {stored}"
                        weights[name] = _read(tensors, stored, where, tuple(expected[name].shape))
                    elif not name.endswith(_IGNORED):
                        size = tuple(tensors.get_slice(stored).get_shape())
                        raise CheckpointError(
                            f"{file.name}: {stored} {size} has no place in a GPT-2 of "
                            "config.json's sizes"
                        )
        except SafetensorError as error:
            raise CheckpointError(f"{file.name}: not a whole safetensors file ({error})") from None
    if tied:
        _tie(weights)
    missing = [name for name in expected if name not in weights]
    if missing:
        size = tuple(expected[missing[0]].shape)
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CheckpointError(f"{folder}: {missing[0]} {size}{others} missing from the weights")
    return weights


def _read(tensors: Any, stored: str, where: str, wanted: tuple[int, ...]) -> Tensor:
    """One tensor as the model wants it: float32, and turned round where Conv1D stored it."""
    turned = stored.endswith(_CONV1D)
    expected = wanted[::-1] if turned else wanted
    found = tuple(tensors.get_slice(stored).get_shape())
    if found != expected:
        raise CheckpointError(f"{where} has size {found}, but config.json asks for {expected}")
    tensor: Tensor = tensors.get_tensor(stored)
    if not tensor.is_floating_point():
        raise CheckpointError(f"{where} holds {tensor.dtype}, but weights are floating-point")
    tensor = tensor.to(torch.float32)
    return tensor.t().contiguous() if turned else tensor


def _tie(weights: dict[str, Tensor]) -> None:
    """One matrix for both ends; a file may carry it twice, but not two different ones."""
    if "wte.weight" not in weights:
        return
    head = weights.get("lm_head.weight", weights["wte.weight"])
    if not torch.equal(head, weights["wte.weight"]):
        raise CheckpointError(
            "lm_head.weight differs from wte.weight, but config.json ties them; "
            "set tie_word_embeddings to false to use both"
        )
    weights["lm_head.weight"] = weights["wte.weight"]


def _weight_files(folder: Path) -> list[Path]:
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(dict(read_json(index).get("weight_map") or {}).values()))
        for name in names:
            if Path(name).name != name or not (folder / name).is_file():
                raise CheckpointError(f"{index.name}: {name!r} is not a file in {folder}")
        return [folder / name for name in names]
    for name in ("pytorch_model.bin", "model.bin", "model.pt"):
        if (folder / name).is_file():
            raise CheckpointError(_CONVERT.format(folder=folder, file=name))
    raise CheckpointError(f"{folder}: no model.safetensors and no model.safetensors.index.json")

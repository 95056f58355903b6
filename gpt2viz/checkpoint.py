"""Read a GPT-2 from a folder in Hugging Face's layout. Only safetensors: a pickle can run code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gpt2viz import memory
from gpt2viz.config import GPT2Config
from gpt2viz.errors import CheckpointError
from gpt2viz.fingerprint import WeightFiles
from gpt2viz.model import GPT2
from gpt2viz.settings import BUNDLED as BUNDLED
from gpt2viz.tokenizer import Tokenizer, load_tokenizer, read_json

# Masks that old files carry as if they were weights.
_IGNORED = (".attn.bias", ".attn.masked_bias")
# What can be read; narrower formats need scales of their own.
_FLOATS = ("F16", "BF16", "F32", "F64")
# Stored as (in, out), the other way round than torch's Linear.
_CONV1D = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")

_CONVERT = """\
{folder}: the weights are only there as a pickle ({file}), which can run code when it is opened.
Convert it once, on a machine where you trust the file:
  import torch; from safetensors.torch import save_file
  weights = torch.load("{file}", weights_only=True)
  save_file({{k: v.clone().contiguous() for k, v in weights.items()}}, "model.safetensors")"""


@dataclass(frozen=True, eq=False)
class Model:
    """A network in eval mode with its tokenizer; ``name`` is its folder's unless it was given.

    ``weights`` are the files that it was read from, if it was, for their checksum.
    """

    name: str
    config: GPT2Config
    network: GPT2
    tokenizer: Tokenizer
    weights: WeightFiles | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of its weights; the float32 ones are mapped from their file."""
        return sum(weight.nbytes for weight in self.network.parameters())


@dataclass(frozen=True)
class _Stored:
    """A tensor as the header of its file declares it; nothing of it is read yet."""

    file: Path
    key: str
    size: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.file.name}: {self.key}"


def load_model(folder: str | Path = BUNDLED, name: str | None = None) -> Model:
    """Load a checkpoint folder: ``config.json``, safetensors and tokenizer files.

    Weights become float32; those that are so already stay in their file, which is mapped into
    memory: a page of it is read when it is used, and shared with others who map it. Raises
    ``CheckpointError`` that names the file, the tensor, what was found and what was expected,
    and ``TooLargeError`` before anything is read where the memory is too small.
    """
    folder = Path(folder)
    name = name or folder.resolve().name
    config, stored = _survey(folder)
    tokenizer = load_tokenizer(folder)
    if tokenizer.n_vocab > config.vocab_size:
        raise CheckpointError(
            f"tokenizer: {tokenizer.n_vocab} tokens, but config.json has "
            f"vocab_size {config.vocab_size}"
        )
    memory.check(name, _bytes(config, stored), config, memory.free_memory())
    weights = _read(stored)
    with torch.device("meta"):
        network = GPT2(config)
    if config.tie_word_embeddings:
        _tie(weights)
    network.load_state_dict(weights, assign=True)
    if config.tie_word_embeddings:
        network.lm_head.weight = network.wte.weight
    network.eval().requires_grad_(False)
    return Model(name, config, network, tokenizer, WeightFiles.of(_weight_files(folder)))


def weight_bytes(folder: str | Path) -> int:
    """Bytes that the weights in a folder will take, known from the files' headers alone.

    Raises ``CheckpointError`` as ``load_model`` does.
    """
    return _bytes(*_survey(Path(folder)))


def read_config(folder: Path) -> GPT2Config:
    """The sizes of the model in a folder. Raises ``CheckpointError`` where it is no GPT-2."""
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder}: no config.json; give a folder in Hugging Face's layout")
    return GPT2Config.from_dict(read_json(folder / "config.json"))


def _survey(folder: Path) -> tuple[GPT2Config, dict[str, _Stored]]:
    """What ``config.json`` asks for and the weights' files declare, compared; nothing is read."""
    config = read_config(folder)
    stored = _headers(folder)
    _compare(folder, stored, config)
    return config, stored


def _bytes(config: GPT2Config, stored: Mapping[str, _Stored]) -> int:
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    return sum(4 * math.prod(stored[name].size) for name in stored.keys() - tied)


def _sizes(config: GPT2Config) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and size of every tensor, as the released files store them."""
    C, F = config.n_embd, config.mlp_dim
    layer = {
        "ln_1.weight": (C,),
        "ln_1.bias": (C,),
        "attn.c_attn.weight": (C, 3 * C),
        "attn.c_attn.bias": (3 * C,),
        "attn.c_proj.weight": (C, C),
        "attn.c_proj.bias": (C,),
        "ln_2.weight": (C,),
        "ln_2.bias": (C,),
        "mlp.c_fc.weight": (C, F),
        "mlp.c_fc.bias": (F,),
        "mlp.c_proj.weight": (F, C),
        "mlp.c_proj.bias": (C,),
    }
    yield "wte.weight", (config.vocab_size, C)
    yield "wpe.weight", (config.n_positions, C)
    for i in range(config.n_layer):
        yield from ((f"h.{i}.{name}", size) for name, size in layer.items())
    yield from (("ln_f.weight", (C,)), ("ln_f.bias", (C,)))
    yield "lm_head.weight", (config.vocab_size, C)


def _headers(folder: Path) -> dict[str, _Stored]:
    """What the files hold, by the model's names."""
    stored: dict[str, _Stored] = {}
    for file in _weight_files(folder):
        with _open(file) as tensors:
            for key in tensors.keys():  # noqa: SIM118 (a safetensors handle is no dict)
                name = key.removeprefix("transformer.")
                part = tensors.get_slice(key)
                found = _Stored(file, key, tuple(part.get_shape()), part.get_dtype())
                if name in stored:
                    raise CheckpointError(f"{found} is there already as {stored[name]}")
                if not name.endswith(_IGNORED):
                    stored[name] = found
    return stored


def _compare(folder: Path, stored: Mapping[str, _Stored], config: GPT2Config) -> None:
    """Refuse files that aren't what ``config.json`` says, before anything of that size is made."""
    names = set()
    for name, size in _sizes(config):
        names.add(name)
        found = stored.get(name)
        if found is None and name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if found is None:
            raise CheckpointError(
                f"{folder}: {name} {size}, which config.json asks for, is missing from the weights"
            )
        if found.size != size:
            raise CheckpointError(f"{found} has size {found.size}, but config.json asks for {size}")
        if found.dtype not in _FLOATS:
            raise CheckpointError(
                f"{found} holds {found.dtype}; only {', '.join(_FLOATS)} can be read"
            )
    for name, extra in stored.items():
        if name not in names:
            raise CheckpointError(
                f"{extra} {extra.size} has no place in a GPT-2 of config.json's sizes"
            )


@contextmanager
def _open(file: Path) -> Iterator[Any]:
    try:
        with safe_open(file, framework="pt") as tensors:
            yield tensors
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{file.name}: not a whole safetensors file ({error})") from None


def _read(stored: Mapping[str, _Stored]) -> dict[str, Tensor]:
    """Every tensor as the model wants it: float32, and turned round where Conv1D stored it."""
    weights: dict[str, Tensor] = {}
    for file in {found.file for found in stored.values()}:
        with _open(file) as tensors:  # once: each time would map the whole file again
            for name, found in stored.items():
                if found.file == file:
                    tensor = tensors.get_tensor(found.key).to(torch.float32)
                    weights[name] = tensor.t() if name.endswith(_CONV1D) else tensor
    return weights


def _tie(weights: dict[str, Tensor]) -> None:
    """One matrix for both ends; a file may carry it twice, but not two different ones."""
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
        places = read_json(index).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise CheckpointError(f"{index.name}: weight_map, from tensor to file, is missing")
        names = sorted({str(name) for name in places.values()})
        for name in names:
            if Path(name).name != name or not (folder / name).is_file():
                raise CheckpointError(f"{index.name}: {name!r} is not a file in {folder}")
        return [folder / name for name in names]
    for name in ("pytorch_model.bin", "model.bin", "model.pt"):
        if (folder / name).is_file():
            raise CheckpointError(_CONVERT.format(folder=folder, file=name))
    raise CheckpointError(f"{folder}: no model.safetensors and no model.safetensors.index.json")

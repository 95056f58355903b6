"""Read a model from a folder in Hugging Face's layout or a GGUF file, never from a pickle."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gpt2viz.arrays import Array
from gpt2viz.errors import CheckpointError
from gpt2viz.files import is_gguf, is_there, read_json
from gpt2viz.labels import shorten
from gpt2viz.model import devices, gguf_file, memory, model_registry
from gpt2viz.model.config import GPT2Config, ModelConfig, config_from
from gpt2viz.model.devices import to_numpy
from gpt2viz.model.fingerprint import WeightFiles
from gpt2viz.model.llama import Llama
from gpt2viz.model.network import GPT2
from gpt2viz.model.other_formats import ALONE, remedy
from gpt2viz.model.tokenizer import Tokenizer, load_tokenizer
from gpt2viz.model.transformer import Transformer
from gpt2viz.model.weights import FLOATS, Stored, headers, is_of_task_head, read, weight_files
from gpt2viz.settings import BUNDLED as BUNDLED


@dataclass(frozen=True, eq=False)
class Model:
    """A network in eval mode with its tokenizer; ``name`` is its folder's unless given.

    ``weight_files`` are those it was read from, if any, for their checksum. ``set_aside``
    are the tensors of other tasks' heads, such as a classifier's ``score.weight``: they aren't run,
    and the trunk below such a head is run unchanged.
    """

    name: str
    config: ModelConfig
    network: Transformer = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    weight_files: WeightFiles | None = field(default=None, repr=False)
    set_aside: tuple[str, ...] = ()

    @property
    def unembedding(self) -> Array:
        """The unembedding matrix (n_vocab, C), which turns the end of the stream into logits.

        It shares the network's memory; that of a GPU is copied once.
        """
        weight = self.network.lm_head.weight
        return to_numpy(weight) if weight.device.type == "cpu" else self._unembedding

    @cached_property
    def _unembedding(self) -> Array:
        return to_numpy(self.network.lm_head.weight)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of its weights."""
        return sum(weight.nbytes for weight in self.network.parameters())

    def output_weights(self, layer: int) -> tuple[Tensor, Tensor]:
        """The projection that merges a layer's heads: W_O by head (nh, hs, C), and b_O (C,)."""
        return self.network.blocks[layer].attention.output_weights()


def load_model(folder: str | Path = BUNDLED, name: str | None = None, device: str = "cpu") -> Model:
    """Load a model by its name, or a folder: ``config.json``, safetensors, tokenizer files; or a
    GGUF file, llama.cpp's, which needs the extra ``gguf``.

    A name is one that ``gpt2viz models`` lists, such as "gpt2" after ``gpt2viz fetch gpt2``;
    see ``model_registry.find``.

    Weights become float32, in memory of their own, so the files may change afterwards. ``device``
    is where the model computes, such as "cuda" or "mps". Raises ``CheckpointError``, which names
    the file, the tensor, its value and the expected one (NaN and infinity are refused too),
    ``TooLargeError``, before anything is read, where the memory or a GPU's is too small, and
    ``DeviceError`` for a device that this machine doesn't have.
    """
    torch_device = devices.find(device)
    own_name, folder = model_registry.find(folder)
    return read_model(folder, name or own_name, torch_device)


def read_model(
    folder: Path, name: str, device: torch.device, tokenizer: Tokenizer | None = None
) -> Model:
    """Read the model in a folder, with its own tokenizer or the given one.

    Raises what ``load_model`` raises.
    """
    config, stored, aside = _check_headers(folder)
    files = WeightFiles.of(files_of(folder))
    tokenizer = load_tokenizer(folder) if tokenizer is None else tokenizer
    tokenizer.fit(config.vocab_size, str(folder))
    gguf_file.forget()
    memory.check(name, _bytes(config, stored), config, memory.free_memory())
    model = assemble(name, config, read(stored), tokenizer, files, device)
    return replace(model, set_aside=aside)


def assemble(
    name: str,
    config: ModelConfig,
    weights: dict[str, Tensor],
    tokenizer: Tokenizer,
    files: WeightFiles,
    device: torch.device,
) -> Model:
    """Build a model, ready to run, from weights in torch's layout that were read from ``files``.

    Raises ``CheckpointError`` if the files have changed meanwhile, or tied matrices
    differ, and ``TooLargeError`` if ``device`` has no room.
    """
    if files.have_changed():
        named = ", ".join(str(file) for file in files.files)
        raise CheckpointError(f"{named}: the weights were changed while they were read; try again")
    if config.tie_word_embeddings:
        tie(weights, config.embedding_name)
    network = network_of(config, weights)
    with devices.require_memory(name, device):
        network.to(device)
    if config.tie_word_embeddings:
        network.lm_head.weight = network.embedding.weight
    return Model(name, config, network, tokenizer, files)


def network_of(config: ModelConfig, weights: Mapping[str, Tensor]) -> Transformer:
    """Build the network with these weights, ready to run.

    Each is assigned to its module: ``load_state_dict`` searches all of them for every module,
    which took 19 s of the 25 that 3,000 layers needed.
    """
    with torch.device("meta"):
        network = GPT2(config) if isinstance(config, GPT2Config) else Llama(config)
    for module_name, module in network.named_modules():
        for name, _ in list(module.named_parameters(recurse=False)):
            weight = weights[f"{module_name}.{name}"]
            setattr(module, name, nn.Parameter(weight, requires_grad=False))
    return network.eval()


def weight_bytes(folder: str | Path) -> int:
    """Bytes that the weights in a folder will take, known from the files' headers alone.

    Raises ``CheckpointError``, as ``load_model`` does.
    """
    config, stored, _aside = _check_headers(Path(folder))
    return _bytes(config, stored)


def task_heads(folder: Path) -> tuple[str, ...]:
    """The tensors of other tasks' heads in a folder: see ``Model.set_aside``."""
    return _check_headers(folder)[2]


def stored_numbers(folder: Path) -> dict[str, int]:
    """The count of numbers by format in the weights' files, such as {"F16": 1_407_168}.

    Those that are ``set_aside`` are counted too.
    """
    counts: dict[str, int] = {}
    for tensor in _headers(folder).values():
        counts[tensor.dtype] = counts.get(tensor.dtype, 0) + math.prod(tensor.size)
    return counts


def files_of(folder: Path) -> list[Path]:
    """The files that hold a model's weights. Raises ``CheckpointError`` if there are none."""
    return [folder] if is_gguf(folder) else weight_files(folder)


def read_config(folder: Path) -> ModelConfig:
    """The sizes of the model in a folder. Raises ``CheckpointError`` if it can't be read."""
    values = config_values(folder)
    with _naming(folder):
        return config_from(values)


def config_values(folder: Path) -> dict[str, Any]:
    """The content of ``config.json``, or a GGUF file's equivalent. Raises ``CheckpointError``."""
    if not is_there(folder):
        raise CheckpointError(
            f"{shorten(str(folder), 300)}: there is no such folder. Give one in Hugging Face's "
            "layout; `gpt2viz fetch NAME` fetches a model by its name on the hub"
        )
    if is_gguf(folder):
        return gguf_file.read_config(folder)
    if not is_there(folder / "config.json"):
        raise CheckpointError(
            remedy(folder, ALONE)
            or f"{folder}: no config.json; give a folder in Hugging Face's layout"
        )
    return read_json(folder / "config.json")


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Make messages about ``config.json`` name the GGUF file that has its fields."""
    try:
        yield
    except CheckpointError as error:
        name = folder.name if is_gguf(folder) else "config.json"
        raise CheckpointError(str(error).replace("config.json", name)) from None


def _check_headers(folder: Path) -> tuple[ModelConfig, dict[str, Stored], tuple[str, ...]]:
    """The config, the weights' headers, checked against it, and the names of tensors set aside.

    No weights are read.
    """
    config = read_config(folder)
    stored = _headers(folder)
    aside = tuple(sorted(filter(is_of_task_head, stored)))
    stored = {name: tensor for name, tensor in stored.items() if name not in aside}
    with _naming(folder):
        _compare(folder, stored, config)
    return config, stored, aside


def _headers(folder: Path) -> Mapping[str, Stored]:
    return gguf_file.read_header(folder).tensors if is_gguf(folder) else headers(folder)


def _bytes(config: ModelConfig, stored: Mapping[str, Stored]) -> int:
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    return sum(4 * math.prod(stored[name].size) for name in stored.keys() - tied)


def _compare(folder: Path, stored: Mapping[str, Stored], config: ModelConfig) -> None:
    """Refuse files that contradict ``config.json``, before anything of that size is allocated."""
    names = set()
    for name, size in config.tensors():
        names.add(name)
        tensor = stored.get(name)
        if tensor is None and name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if tensor is None:
            raise CheckpointError(
                f"{folder}: {name} {size}, which config.json asks for, is missing from the weights"
            )
        problem = ""
        if tensor.size != size:
            problem = f"has size {tensor.size}, but config.json asks for {size}"
        elif not tensor.is_readable:
            problem = f"holds {tensor.dtype}; only {', '.join(FLOATS)} can be read"
        if problem:
            raise CheckpointError(f"{tensor} {problem}")
    for extra in (stored[name] for name in stored if name not in names):
        raise CheckpointError(
            f"{extra} {extra.size} has no place in a model of config.json's sizes"
        )


def tie(weights: dict[str, Tensor], embedding: str) -> None:
    """Tie both ends to one matrix; a file may store it twice, but not two different ones."""
    head = weights.get("lm_head.weight", weights[embedding])
    if not torch.equal(head, weights[embedding]):
        raise CheckpointError(
            f"lm_head.weight differs from {embedding}, but config.json ties them; "
            "set tie_word_embeddings to false to use both"
        )
    weights["lm_head.weight"] = weights[embedding]

"""A trace from the file that ``gpt2viz.export.save_trace`` wrote, held against its model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray

from gpt2viz.errors import CheckpointError, ExportError
from gpt2viz.files import LARGEST_TEXT, ordinary, reading
from gpt2viz.model.archive import Member, members
from gpt2viz.model.checkpoint import Model, load_model
from gpt2viz.model.weights import Stored, declared
from gpt2viz.run.captured import Captured, Site, array_name
from gpt2viz.run.derived import FROM_HEADS, FROM_STREAM, Derived
from gpt2viz.run.edits import Edit, check, forbidden, parse_edits
from gpt2viz.run.hooks import network_graph
from gpt2viz.run.stages import axis_sizes, module_names
from gpt2viz.run.trace import TensorRecord, Trace, readable
from gpt2viz.run.tracer import token_ids, trace


def load_trace(path: str | Path, model: Model | None = None) -> Trace:
    """The trace that ``save_trace``, the app or ``gpt2viz trace --out`` wrote to a file.

    It shows, compares and explains like the run that it was saved from, from the file's numbers:
    nothing of it is computed again but the table of shapes, when that is asked for. ``model`` is
    the one that made it, by default the one that goes by its name here.

    Raises ``ExportError`` where the file can't be read, isn't whole, or was made by other weights,
    and what ``load_model`` does where the model isn't here.
    """
    path = Path(path)
    read_header = _npz if path.suffix.lower() == ".npz" else _safetensors
    try:
        with reading(path.name, _NO_TRACE, ExportError), ordinary(path).open("rb") as opened:
            file = read_header(path, opened)
            model = load_model(file.about["model"]) if model is None else model
            return _again(file, model)
    except _UnfitError as error:
        raise ExportError(f"{path.name}: {error}") from None


_NO_TRACE = "no file of a trace"
#: NumPy's names of a header's types.
_NUMBERS = {"F32": "float32", "I64": "int64", "BOOL": "bool"}


class _UnfitError(ExportError):
    """A file that contradicts the model or itself."""


@dataclass(frozen=True)
class _Array:
    """An array as its header declares it: nothing of it is read yet."""

    size: tuple[int, ...]
    numbers: str
    start: int


@dataclass(frozen=True)
class _File:
    """An opened file of a trace: its arrays by name, and ``about``, what the run was."""

    opened: BinaryIO
    arrays: Mapping[str, _Array]
    about: Mapping[str, str]

    def read(self, name: str, size: tuple[int, ...], numbers: str) -> NDArray[Any]:
        """An array of that size and of those numbers.

        Raises ``_UnfitError`` before any of another is read.
        """
        array = self.arrays[name]
        if array.size != size or array.numbers != numbers:
            raise _UnfitError(f"{name} is {array.size} of {array.numbers}, not {size}")
        self.opened.seek(array.start)
        return _numbers(self.opened, np.dtype(numbers), array.size)


def _numbers(opened: BinaryIO, dtype: np.dtype[Any], size: tuple[int, ...]) -> NDArray[Any]:
    """The numbers that follow in a file."""
    return np.fromfile(opened, dtype, math.prod(size)).reshape(size)


def _npz(_path: Path, opened: BinaryIO) -> _File:
    """NumPy's archive of arrays, each with a header of its own."""
    arrays, about = {}, "{}"
    for name, member in members(opened).items():
        dtype, size = _npy_header(opened, name, member)
        if name == "about.npy":
            if dtype.kind != "U" or size or dtype.itemsize > 4 * LARGEST_TEXT:
                raise ValueError("about isn't a text")
            about = str(_numbers(opened, dtype, size))
        else:
            arrays[name.removesuffix(".npy")] = _Array(size, dtype.name, opened.tell())
    return _File(opened, arrays, _texts(json.loads(about)))


def _npy_header(
    opened: BinaryIO, name: str, member: Member
) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Kind and size of an array that fills its member; the file then stands at its numbers."""
    opened.seek(member.start)
    if npy.read_magic(opened) != (1, 0):
        raise ValueError(f"{name:.80} isn't an array as NumPy's first format has it")
    size, in_columns, dtype = npy.read_array_header_1_0(opened)
    end = opened.tell() + math.prod(size) * dtype.itemsize
    if in_columns or dtype.hasobject or end != member.start + member.nbytes:
        raise ValueError(f"{name:.80} isn't as large as it says")
    return dtype, size


def _safetensors(path: Path, opened: BinaryIO) -> _File:
    try:
        tensors, about = declared(path, opened)
    except CheckpointError as error:
        raise ValueError(str(error).removeprefix(f"{path.name}: ")) from None
    return _File(opened, {tensor.key: _array(tensor) for tensor in tensors}, _texts(about))


def _array(tensor: Stored) -> _Array:
    numbers = _NUMBERS.get(tensor.dtype, tensor.dtype)
    if tensor.dtype in _NUMBERS:
        nbytes = math.prod(tensor.size) * np.dtype(numbers).itemsize
        if nbytes != tensor.end - tensor.start:
            raise ValueError(f"{tensor.key:.80} isn't as large as it says")
    return _Array(tensor.size, numbers, tensor.start)


def _texts(about: Any) -> dict[str, str]:
    """The run's description: texts by name."""
    if not isinstance(about, dict) or not all(isinstance(text, str) for text in about.values()):
        raise ValueError("what the run was isn't a list of texts by their names")
    return about


def _again(file: _File, model: Model) -> Trace:
    """The trace, once all that the file says has been held against the model and itself."""
    about, config = file.about, model.config
    T = min(file.arrays["token_ids"].size[0], config.n_positions)
    ids = token_ids(model, file.read("token_ids", (T,), "int64").tolist())
    causal = {"true": True, "false": False}[about["causal"]]
    edits, explicit = _edits(about["edits"]), "weights.0" in file.arrays
    check(edits, config, T, causal, explicit)
    patched = "patch_from" in file.arrays
    patch_from = tuple(file.read("patch_from", (T,), "int64").tolist()) if patched else ()
    stages = dict(_stages(file, model, T))
    _check_weights(about, model, stages["token_embedding", None][0], ids)
    captured, hidden = Captured(stages), forbidden(edits, T)
    token_bytes = tuple(model.tokenizer.token_bytes(i) for i in ids)
    probabilities = file.read("next_token_probabilities", (1, config.vocab_size), "float32")
    probabilities.flags.writeable = False

    def describe() -> tuple[TensorRecord, ...]:
        return trace(
            model, ids, causal, explicit=explicit, edits=edits, patch_from=patch_from
        ).tensors

    return Trace(
        model_name=model.name,
        config=config,
        text=about["text"],
        token_ids=tuple(ids),
        tokens=tuple(map(readable, token_bytes)),
        token_bytes=token_bytes,
        causal=causal,
        explicit=explicit,
        next_token_probabilities=probabilities,
        captured=captured,
        unembedding=model.unembedding,
        derived=Derived(captured, config, T, causal, hidden),
        graph=network_graph(model.network),
        describe=describe,
        edits=edits,
        forbidden=hidden,
        patch_from=patch_from,
        patch_text=about.get("patch_from", ""),
        mean_over=about.get("mean_over", ""),
        weights=model.weights,
        apart=model.tokenizer.apart,
        spell=model.tokenizer.token_bytes,
    )


def _edits(text: str) -> tuple[Edit, ...]:
    if any(part.startswith("hook:") for part in text.split(",")):
        raise _UnfitError(
            "hooks, functions that no file holds, changed its run; numpy.load or safetensors reads "
            "its arrays"
        )
    return parse_edits(text)


def _stages(file: _File, model: Model, T: int) -> Iterator[tuple[Site, torch.Tensor]]:
    """The stages that the run kept, of T tokens: all but those that a long one leaves out."""
    sizes = axis_sizes(model.config, T)
    there = {name.partition(".")[0] for name in file.arrays}
    for _, stage, layer in module_names(model.config.n_layer, network_graph(model.network)):
        left_out = stage.key in (*FROM_HEADS, *FROM_STREAM) and stage.key not in there
        if stage.keep and not left_out:
            name, size = array_name((stage.key, layer)), tuple(sizes[axis] for axis in stage.axes)
            yield (stage.key, layer), torch.from_numpy(file.read(name, size, "float32"))


def _check_weights(
    about: Mapping[str, str], model: Model, embedded: torch.Tensor, ids: list[int]
) -> None:
    """Refuse another model's file: by the checksum, where there is one, and by its embeddings."""
    mine = model.weights.sha256 if model.weights else ""
    known = bool(mine and about["sha256"])
    embedding = model.network.embedding.weight
    if (known and mine != about["sha256"]) or not torch.equal(embedding[ids].cpu(), embedded):
        raise _UnfitError(
            f"it was made by {about['model']:.100} with other weights than {model.name} has here; "
            "give the model that made it: load_trace(path, model)"
        )

"""Read a trace that ``gpt2viz.export.save_trace`` wrote, and check it against its model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open

from gpt2viz.errors import ExportError
from gpt2viz.files import ordinary, reading
from gpt2viz.model.checkpoint import Model, load_model
from gpt2viz.run.captured import Site, array_name
from gpt2viz.run.derived import FROM_HEADS, FROM_STREAM
from gpt2viz.run.edits import Edit, check, edit_mask, parse_edits
from gpt2viz.run.hooks import Recording, network_graph
from gpt2viz.run.stages import axis_sizes, module_names
from gpt2viz.run.trace import TensorRecord, Trace
from gpt2viz.run.tracer import make_trace, token_ids, trace


def load_trace(path: str | Path, model: Model | None = None) -> Trace:
    """The trace that ``save_trace``, the app or ``gpt2viz trace --out`` wrote to a file.

    It can be shown, compared and explained like the original run, from the file's numbers: only the
    shape table is computed again, on demand. ``model`` is the one that made it, by default the one
    with that name here.

    Raises ``ExportError`` if the file can't be read, is incomplete, or was made by other
    weights, and what ``load_model`` raises where the model isn't here.
    """
    path = Path(path)
    read_file = _npz if path.suffix.lower() == ".npz" else _safetensors
    try:
        with reading(path.name, "no file of a trace", ExportError):
            file = read_file(ordinary(path))
            model = load_model(file.about["model"]) if model is None else model
            return _rebuild(file, model)
    except _UnfitError as error:
        raise ExportError(f"{path.name}: {error}") from None


class _UnfitError(ExportError):
    """A file that contradicts the model or itself."""


@dataclass(frozen=True)
class _File:
    """A file of a trace: its arrays by name, and ``about``, the description of the run."""

    arrays: Mapping[str, NDArray[Any]]
    about: Mapping[str, str]

    def read(self, name: str, size: tuple[int, ...], numbers: str) -> NDArray[Any]:
        """Return an array of that size and type. Raises ``_UnfitError`` for another."""
        array = self.arrays[name]
        if array.shape != size or array.dtype != numbers:
            raise _UnfitError(f"{name} is {array.shape} of {array.dtype}, not {size}")
        return array


def _npz(path: Path) -> _File:
    """Read NumPy's archive. Compressed ones, which could expand to any size, are refused."""
    with np.load(path) as opened:
        if sum(member.file_size for member in opened.zip.infolist()) > path.stat().st_size:
            raise ValueError("its arrays are larger than the file")
        arrays = dict(opened)
    return _File(arrays, _texts(json.loads(str(arrays.pop("about")))))


def _safetensors(path: Path) -> _File:
    with safe_open(path, "np") as opened:
        names = opened.keys()
        return _File({name: opened.get_tensor(name) for name in names}, _texts(opened.metadata()))


def _texts(about: Any) -> dict[str, str]:
    """The run's description: texts by name."""
    if not isinstance(about, dict) or not all(isinstance(text, str) for text in about.values()):
        raise ValueError("what the run was isn't a list of texts by their names")
    return about


def _rebuild(file: _File, model: Model) -> Trace:
    """Rebuild the trace, and check the file against the model and itself."""
    about, config = file.about, model.config
    T = min(len(file.arrays["token_ids"]), config.n_positions)
    ids = token_ids(model, file.read("token_ids", (T,), "int64").tolist())
    causal = {"true": True, "false": False}[about["causal"]]
    edits, explicit = _edits(about["edits"]), "weights.0" in file.arrays
    check(edits, config, T, causal, explicit)
    patched = "patch_from" in file.arrays
    patch_from = tuple(file.read("patch_from", (T,), "int64").tolist()) if patched else ()
    stages = dict(_stages(file, model, T))
    _check_weights(about, model, stages["token_embedding", None][0], ids)
    probabilities = file.read("next_token_probabilities", (1, config.vocab_size), "float32")
    probabilities.flags.writeable = False

    def describe() -> tuple[TensorRecord, ...]:
        run = trace(model, ids[:1])  # any means will do: the table has no numbers
        return trace(
            model, ids, causal, explicit=explicit, edits=edits, reference=run, patch_from=patch_from
        ).tensors

    hidden, seen = edit_mask(edits, T), Recording(stages)
    return replace(
        make_trace(model, ids, causal, explicit, hidden, probabilities, seen),
        text=about["text"],
        describe=describe,
        edits=edits,
        patch_from=patch_from,
        patch_text=about.get("patch_from", ""),
        mean_over=about.get("mean_over", ""),
    )


def _edits(text: str) -> tuple[Edit, ...]:
    if any(part.startswith("hook:") for part in text.split(",")):
        raise _UnfitError(
            "hooks, functions that no file holds, changed its run; numpy.load or safetensors reads "
            "its arrays"
        )
    return parse_edits(text)


def _stages(file: _File, model: Model, T: int) -> Iterator[tuple[Site, torch.Tensor]]:
    """Read the stages that the run kept, of T tokens: all but those that a long one leaves out."""
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
    """Refuse another model's file: by the checksum, if there is one, and by its embeddings."""
    mine = model.weight_files.sha256 if model.weight_files else ""
    known = bool(mine and about["sha256"])
    embedding = model.network.embedding.weight
    if (known and mine != about["sha256"]) or not torch.equal(embedding[ids].cpu(), embedded):
        raise _UnfitError(
            f"it was made by {about['model']:.100} with other weights than {model.name} has here; "
            "give the model that made it: load_trace(path, model)"
        )

"""A trace from the file that ``gpt2viz.export.save_trace`` wrote, held against its model."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gpt2viz.errors import ExportError, GPT2VizError
from gpt2viz.model.checkpoint import Model, load_model
from gpt2viz.model.config import GPT2Config
from gpt2viz.run.captured import Captured, Place, array_name
from gpt2viz.run.derived import FROM_HEADS, FROM_STREAM, Derived
from gpt2viz.run.edits import check, forbidden, parse_edits
from gpt2viz.run.stages import STAGES
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
    try:
        found, said = (_read_npz if path.suffix.lower() == ".npz" else _read_safetensors)(path)
        model = load_model(said["model"]) if model is None else model
        return _again(found, said, model)
    except ExportError as error:
        raise ExportError(f"{path.name}: {error}") from None
    except GPT2VizError:
        raise
    except (OSError, SafetensorError, zipfile.BadZipFile, ValueError, KeyError, TypeError) as error:
        raise ExportError(f"{path.name}: no file of a trace ({error!r:.200})") from None


def _read_npz(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    with zipfile.ZipFile(path) as entries:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries.infolist()):
            raise ExportError("compressed arrays, which a trace's file doesn't have")
    with np.load(path, allow_pickle=False) as saved:
        found = {name: saved[name] for name in saved.files}
    return found, json.loads(str(found.pop("about")))


def _read_safetensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    with safe_open(path, framework="np") as saved:
        found = {name: saved.get_tensor(name) for name in saved.keys()}  # noqa: SIM118
        return found, saved.metadata() or {}


def _again(found: Mapping[str, NDArray[Any]], said: Mapping[str, str], model: Model) -> Trace:
    """The trace, once all that the file says has been held against the model and itself."""
    ids = token_ids(model, [int(i) for i in found["token_ids"]])
    causal = bool(json.loads(said["causal"]))
    if any(part.startswith("hook:") for part in said["edits"].split(",")):
        raise ExportError(
            "hooks, functions that no file holds, changed its run; numpy.load or safetensors reads "
            "its arrays"
        )
    edits, explicit = parse_edits(said["edits"]), "weights.0" in found
    config, T = model.config, len(ids)
    check(edits, config, T, causal, explicit)
    patch_from = tuple(int(i) for i in found.get("patch_from", ()))
    kept = dict(_kept(found, config, T))
    _check_weights(said, model, kept["token_embedding", None][0], ids)
    captured, hidden = Captured(kept), forbidden(edits, T)
    token_bytes = tuple(model.tokenizer.token_bytes(i) for i in ids)
    probabilities = found["next_token_probabilities"].astype(np.float32)
    if probabilities.shape != (1, config.vocab_size):
        raise ExportError(f"next_token_probabilities is {probabilities.shape}")
    probabilities.flags.writeable = False

    def describe() -> tuple[TensorRecord, ...]:
        return trace(
            model, ids, causal, explicit=explicit, edits=edits, patch_from=patch_from
        ).tensors

    return Trace(
        model_name=model.name,
        config=config,
        text=said["text"],
        token_ids=tuple(ids),
        tokens=tuple(map(readable, token_bytes)),
        token_bytes=token_bytes,
        causal=causal,
        explicit=explicit,
        next_token_probabilities=probabilities,
        captured=captured,
        unembedding=model.unembedding,
        derived=Derived(captured, config, T, causal, hidden),
        describe=describe,
        edits=edits,
        forbidden=hidden,
        patch_from=patch_from,
        patch_text=said.get("patch_from", ""),
        mean_over=said.get("mean_over", ""),
        weights=model.weights,
        apart=model.tokenizer.apart,
        spell=model.tokenizer.token_bytes,
    )


def _kept(
    found: Mapping[str, NDArray[Any]], config: GPT2Config, T: int
) -> Iterator[tuple[Place, Tensor]]:
    """What the run kept, of T tokens. Raises ``ExportError`` for another size or type."""
    sizes = {"B": 1, "T": T, "C": config.n_embd, "nh": config.n_head, "hs": config.head_dim}
    for place, axes in _places(found, config.n_layer):
        array, size = found[array_name(place)], tuple(sizes[axis] for axis in axes)
        if array.shape != size or array.dtype != np.float32:
            raise ExportError(f"{array_name(place)} is {array.shape} of {array.dtype}, not {size}")
        yield place, torch.from_numpy(array.copy())


def _places(found: Collection[str], n_layer: int) -> Iterator[tuple[Place, tuple[str, ...]]]:
    """What a run kept, and its axes: every stage, but for those that a long one leaves out."""
    follow = (*FROM_HEADS, *FROM_STREAM)
    for stage in STAGES:
        layers = range(n_layer) if stage.per_layer else (None,)
        places = [(stage.key, layer) for layer in layers]
        left_out = stage.key in follow and not any(array_name(place) in found for place in places)
        if stage.kept and not left_out:
            yield from ((place, stage.axes) for place in places)


def _check_weights(
    said: Mapping[str, str], model: Model, embedded: torch.Tensor, ids: list[int]
) -> None:
    """Refuse another model's file: by the checksum, where there is one, and by its embeddings."""
    mine = model.weights.sha256 if model.weights else ""
    known = bool(mine and said["sha256"])
    wte = model.network.wte.weight
    if (known and mine != said["sha256"]) or not torch.equal(wte[ids].cpu(), embedded):
        raise ExportError(
            f"it was made by {said['model']} with other weights than {model.name} has here; "
            "give the model that made it: load_trace(path, model)"
        )

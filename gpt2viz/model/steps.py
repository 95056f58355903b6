"""A model at earlier points of its training: the checkpoints beside its weights.

Each is a folder, named ``step-N`` or, by transformers' trainer, ``checkpoint-N``, in the model's
folder or in ``steps`` below it. In ``steps`` it may also be a packed file ``step-N.safetensors``
(see ``gpt2viz.model.packed``); ``steps.json`` beside them then gives the step of the model
itself, whose weights aren't stored twice: ``{"model": 22500}``. For a model in the hub's cache
they are its revisions there, named ``step1000`` as Pythia's (Biderman et al. 2023), or like
such folders.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch

from gpt2viz.errors import CheckpointError, StageError
from gpt2viz.files import is_there, own_file, read_json, read_text, steps_in
from gpt2viz.model import devices, memory, model_registry
from gpt2viz.model.checkpoint import Model, assemble, read_config, read_model
from gpt2viz.model.config import GPT2Config, ModelConfig
from gpt2viz.model.fingerprint import WeightFiles, equal_files
from gpt2viz.model.packed import read_packed, weight_sizes
from gpt2viz.model.tokenizer import Tokenizer, load_tokenizer
from gpt2viz.settings import BUNDLED, real

FOLDER = "steps"
#: Gives the step of the model itself.
INDEX = "steps.json"
_REVISION = re.compile(r"(?:step-?|checkpoint-)(\d{1,12})")


class Steps(Mapping[int, Model]):
    """The checkpoints of one training run: step -> model, in order.

    A model is read on each access, so that only those in use are in memory. All have the
    final model's sizes and share its tokenizer.
    """

    def __init__(self, name: str, folder: Path, paths: Mapping[int, Path], device: torch.device):
        self.name, self.folder = name, folder
        self._paths, self._device = dict(sorted(paths.items())), device

    def __repr__(self) -> str:
        return f"<Steps {', '.join(map(str, self))} of {self.name}>"

    def __iter__(self) -> Iterator[int]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, step: int) -> Model:
        """The model after ``step`` steps, named "name, step 500".

        Raises ``StageError``, a ``KeyError``, for a step without a checkpoint, and what
        ``load_model`` raises.
        """
        if step not in self._paths:
            there = ", ".join(map(str, self)) or "none"
            raise StageError(f"no step {step} of {self.name}; it has {there}")
        path, name = self._paths[step], f"{self.name}, step {step:,}"
        if path.suffix == ".safetensors":
            return self._load_packed(path, name)
        if _run_config(read_config(path)) != _run_config(self.config):
            raise CheckpointError(
                f"{path}: another config.json than that of {self.name}; the checkpoints of a "
                "training have the same sizes"
            )
        return read_model(path, name, self._device, self.tokenizer)

    @cached_property
    def duplicates(self) -> tuple[tuple[int, ...], ...]:
        """The steps whose files hold the same weights, byte by byte; normally none.

        All but one of them were stored under a wrong number, so nothing can be said about when
        something changed between them.
        """
        files = {
            step: [path] if path.suffix == ".safetensors" else sorted(path.glob("*.safetensors"))
            for step, path in self._paths.items()
        }
        try:
            return equal_files(files)
        except OSError:  # reading that model will raise the error
            return ()

    @property
    def dated(self) -> tuple[int, ...]:
        """The steps with a reliable number: the last, and all others that aren't ``duplicates``."""
        return tuple(
            step
            for step in self
            if step == max(self) or not any(step in same for same in self.duplicates)
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """A warning about each group of ``duplicates``."""
        return tuple(
            f"{self.name}: steps {', '.join(f'{step:,}' for step in same)} have the same weights. "
            "All but one of them are stored under a wrong number: what changed between them can't "
            "be told, nor when a head was born there."
            for same in self.duplicates
        )

    @cached_property
    def config(self) -> ModelConfig:
        """The sizes of every one of them."""
        return read_config(self.folder)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that all of them share."""
        return load_tokenizer(self.folder)

    def _load_packed(self, file: Path, name: str) -> Model:
        config, files = self.config, WeightFiles.of([own_file(file)])
        nbytes = 4 * sum(math.prod(size) for _, size in weight_sizes(config))
        memory.check(name, nbytes, config, memory.free_memory())
        weights = read_packed(file, config)
        return assemble(name, config, weights, self.tokenizer, files, self._device)


def _run_config(config: ModelConfig) -> ModelConfig:
    """The config that determines a run; dropout in training may differ."""
    if isinstance(config, GPT2Config):
        return replace(config, embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0)
    return config


def load_steps(folder: str | Path = BUNDLED, name: str | None = None, device: str = "cpu") -> Steps:
    """The checkpoints of a model's training, in order: step -> ``Model``.

    ``folder`` is a model's, by its name or its path as for ``load_model``, or one that holds
    only checkpoints. For a folder that is itself a checkpoint, they are those beside it. There may
    be none. Warns if some have the same weights (``Steps.duplicates``). Raises ``CheckpointError``
    if there is no such folder, two have the same step, or ``steps.json`` can't be read, and
    ``DeviceError`` for a device that this machine doesn't have.
    """
    own_name, folder = model_registry.find(folder)
    if not is_there(folder):
        raise CheckpointError(f"{folder}: there is no such folder, and so no checkpoints")
    at = next((path for path in _around(folder) if steps_in(path)), folder)
    paths: dict[int, Path] = {}
    for step, path in steps_in(at) or _revisions(folder):
        if step in paths:
            raise CheckpointError(f"{at}: {paths[step].name} and {path.name} are one step")
        paths[step] = path
    if paths and at == folder / FOLDER and is_there(at / INDEX):
        last = read_json(at / INDEX).get("model")
        if type(last) is not int or last <= max(paths):
            raise CheckpointError(
                f"{INDEX}: the model's own step must come after step {max(paths)}, not {last!r:.40}"
            )
        paths[last] = folder
    steps = Steps(name or own_name, folder, paths, devices.find(device))
    for doubt in steps.doubts:
        warnings.warn(doubt, stacklevel=2)
    return steps


def _around(folder: Path) -> Iterator[Path]:
    """Folders that may hold the checkpoints of a model's training, the nearest first."""
    yield from (folder / FOLDER, folder)
    beside = folder.absolute().parent
    if any(path.name == folder.name for _, path in steps_in(beside)):
        yield beside


def _revisions(folder: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a model in the hub's cache, by step, given its folder there.

    The cache keeps a folder for each commit in ``snapshots``; a file in ``refs`` for each revision
    that was fetched by name says which commit it is.
    """
    snapshots = real(folder).parent
    if snapshots.name != "snapshots":
        return []
    try:
        refs = [
            (_REVISION.fullmatch(ref.name), ref) for ref in (snapshots.parent / "refs").iterdir()
        ]
        commits = [(int(match[1]), read_text(ref).strip()) for match, ref in refs if match]
    except (OSError, ValueError):
        return []
    here = {path.name: path for path in snapshots.iterdir() if any(path.glob("*.safetensors"))}
    return sorted((step, here[commit]) for step, commit in commits if commit in here)

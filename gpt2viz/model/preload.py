"""Models loaded before a process forks, so that its children share their memory.

Nothing writes to a model's weights, so the kernel never needs to copy them; they aren't mapped
from their files, so a change to those ends no process.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import torch

from gpt2viz.errors import CheckpointError
from gpt2viz.model.checkpoint import Model, load_model, weight_bytes
from gpt2viz.model.steps import load_steps

#: The most bytes for all checkpoints of one model's training; more are read on demand.
STEPS = 512 * 2**20

#: By name, folder and the step of the training, which is None for the model itself.
_loaded: dict[tuple[str, Path, int | None], Model] = {}


def load(folders: Mapping[str, Path], budget: int) -> None:
    """Load the models of these folders, by name, as far as ``budget`` bytes allow.

    Then all checkpoints of a model's training, if the rest of the budget allows. A model that
    fails to load is skipped here; loading it on demand then raises the error.
    """
    # With more, torch would start threads, for which a forked process would wait forever.
    torch.set_num_threads(1)
    for name, folder in folders.items():
        with suppress(CheckpointError):
            if weight_bytes(folder) <= budget - _loaded_bytes():
                _loaded[name, folder, None] = load_model(folder, name)
    for name, folder in folders.items():
        if model := find(name, folder):
            with suppress(CheckpointError):
                steps = load_steps(folder, name)
                if len(steps) * model.nbytes <= min(STEPS, budget - _loaded_bytes()):
                    _loaded.update({(name, folder, step): steps[step] for step in steps})


def find(name: str, folder: Path, step: int | None = None) -> Model | None:
    """The model of that name and folder, or a step of its training, if it was preloaded."""
    return _loaded.get((name, folder, step))


def _loaded_bytes() -> int:
    """Bytes of all that is loaded."""
    return sum(model.nbytes for model in _loaded.values())

"""Models that are loaded before a process is forked, so that its children share their memory.

Nobody writes to a model's weights, so the kernel never needs to copy them; and they are in memory
of their own, so a change to their files ends no process.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import torch

from gpt2viz.errors import CheckpointError
from gpt2viz.model.checkpoint import Model, load_model, weight_bytes
from gpt2viz.model.steps import load_steps

#: Bytes that all checkpoints of a model's training may take; more are read once they are asked for.
STEPS = 512 * 2**20

#: By name, folder and the step of the training, which is None for the model itself.
_loaded: dict[tuple[str, Path, int | None], Model] = {}


def load(folders: Mapping[str, Path], budget: int) -> None:
    """Load the models of these folders, by name, as far as ``budget`` bytes take them.

    Then the checkpoints of their trainings, as far as what is left takes all of a model's. What
    can't be loaded is left to whoever asks for it, and is told why then.
    """
    # With more, torch would start threads, and a forked process waits for them for ever.
    torch.set_num_threads(1)
    for name, folder in folders.items():
        with suppress(CheckpointError):
            if weight_bytes(folder) <= budget - _held():
                _loaded[name, folder, None] = load_model(folder, name)
    for name, folder in folders.items():
        if model := find(name, folder):
            with suppress(CheckpointError):
                steps = load_steps(folder, name)
                if len(steps) * model.nbytes <= min(STEPS, budget - _held()):
                    _loaded.update({(name, folder, step): steps[step] for step in steps})


def find(name: str, folder: Path, step: int | None = None) -> Model | None:
    """The model of that name and folder, or a step of its training, if it was preloaded."""
    return _loaded.get((name, folder, step))


def _held() -> int:
    """Bytes of all that is loaded."""
    return sum(model.nbytes for model in _loaded.values())

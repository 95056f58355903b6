"""Models that are loaded before a process is forked: those that it becomes share their memory.

Nobody writes to a model's weights, so the kernel never needs to copy them; and they are in memory
of their own, so what happens to the files they came from ends nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from gpt2viz.errors import CheckpointError
from gpt2viz.model.checkpoint import Model, load_model, weight_bytes

_loaded: dict[tuple[str, Path], Model] = {}


def load(folders: Mapping[str, Path], budget: int) -> None:
    """Load the models of these folders, by name, as far as ``budget`` bytes take them.

    What can't be loaded is left to whoever asks for it, and is told why then.
    """
    # With more, torch would start threads, and a forked process waits for them for ever.
    torch.set_num_threads(1)
    for name, folder in folders.items():
        try:
            if sum(one.nbytes for one in _loaded.values()) + weight_bytes(folder) <= budget:
                _loaded[name, folder] = load_model(folder, name)
        except CheckpointError:
            continue


def find(name: str, folder: Path) -> Model | None:
    """The model of that name and folder, if it was loaded ahead."""
    return _loaded.get((name, folder))

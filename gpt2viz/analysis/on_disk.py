"""Numbers that follow from a model's weights alone, cached on disk.

Each is a file in the folder ``weights`` of ``settings.cache()``, named after the checksum of
everything that determines it: the weights' files, the model's config, and the code that computes
it. So numbers of other weights, or of another version, are never used by mistake.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from inspect import getfile
from pathlib import Path
from typing import get_args

import numpy as np

from gpt2viz import settings
from gpt2viz.analysis.circuits import HeadCircuit, Into
from gpt2viz.analysis.composition import Composition, composition
from gpt2viz.analysis.scores import Scores
from gpt2viz.analysis.weight_scores import weight_scores
from gpt2viz.arrays import Numbers
from gpt2viz.files import whole
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.fingerprint import sha256_of

#: The most bytes of all files together; the least recently used one is deleted first.
LARGEST = 500_000_000

Arrays = Mapping[str, Numbers]
#: Called with the share that is done; an exception that it raises ends the work.
Progress = Callable[[float], object]

#: The files whose code determines the numbers.
_CODE = [Path(getfile(x)) for x in (HeadCircuit, composition, weight_scores)]

_WAYS: tuple[Into, ...] = get_args(Into)


def cached_scores(model: Model, progress: Progress) -> dict[str, Scores]:
    """``weight_scores``, computed once for the same weights."""
    return dict(load_or_make(model, "scores", lambda: weight_scores(model, progress)))


def cached_composition(model: Model, progress: Progress) -> Composition:
    """``composition``, computed once for the same weights."""
    names = [field.name for field in fields(Composition)]

    def make() -> Arrays:
        result = composition(model, progress)
        return {f"{name}.{way}": getattr(result, name)[way] for name in names for way in _WAYS}

    arrays = load_or_make(model, "composition", make)
    return Composition(**{n: {way: arrays[f"{n}.{way}"] for way in _WAYS} for n in names})


def load_or_make(model: Model, what: str, make: Callable[[], Arrays]) -> Arrays:
    """The result of ``make``, cached for the same weights; ``what`` names the numbers.

    A broken file is made again. If nothing can be written, nothing is cached, without an
    error. A model that wasn't read from files, or whose files have changed, is never cached.
    """
    path = _path(model, what)
    if path is None:
        return make()
    arrays = _read(path)
    if arrays is None:
        arrays = make()
        _write(path, arrays)
    return arrays


def _path(model: Model, what: str) -> Path | None:
    folder, weights = settings.cache(), model.weight_files
    if folder is None or weights is None or not weights.sha256:
        return None
    decides = what, weights.sha256, model.config, sha256_of(*_CODE)
    return folder / "weights" / f"{hashlib.sha256(repr(decides).encode()).hexdigest()}.npz"


def _read(path: Path) -> Arrays | None:
    """Read a file and note that it was used; None if there is none, or it is broken."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = dict(stored)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None
    with suppress(OSError):
        os.utime(path)
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    if sum(array.nbytes for array in arrays.values()) > LARGEST:
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as partial, partial.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        _make_room(path)


def _make_room(newest: Path) -> None:
    """Delete the least recently used files, until all are within ``LARGEST``."""
    others = [(path, path.stat()) for path in newest.parent.glob("*.npz") if path != newest]
    room = LARGEST - newest.stat().st_size
    for path, status in sorted(others, key=lambda entry: entry[1].st_mtime_ns, reverse=True):
        room -= status.st_size
        if room < 0:
            path.unlink(missing_ok=True)

"""Read pickles without running anything that is in them.

A file written by ``torch.save`` is read by torch's own loader of weights, which makes tensors and
plain values and calls nothing that the file names. Any other object in it, such as a program's
settings, becomes a ``Stub``. nanoGPT's ``meta.pkl`` has only plain values, and is
refused if it names anything else.
"""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any, NoReturn

import torch

from gpt2viz.errors import CheckpointError
from gpt2viz.files import ordinary, own_file, reading, reason

# A vocabulary of 65 characters takes 1 kB.
_LARGEST = 1_000_000
#: The advice for a file with more than weights.
REMEDY = (
    "where the model is defined, save its weights alone: "
    "torch.save(model.state_dict(), 'weights.pt')"
)


class Stub:
    """Replaces an object of any class: with the same attributes and the same name of its class."""

    def __init__(self, *_arguments: Any) -> None:
        """Ignore the arguments that the original class would be called with."""

    def __setstate__(self, state: Any) -> None:
        """Take over the attributes, if the object has any."""
        if isinstance(state, dict):
            vars(self).update(state)


def read_torch_file(file: Path) -> Any:
    """The content of a file of ``torch.save``, with a ``Stub`` for each object that isn't torch's.

    Tensors' numbers stay in the file until accessed, except in files of PyTorch before 1.6, which
    may hold no such objects. Raises ``CheckpointError``, which names the file, if it is of neither
    kind.
    """
    with reading(file, "not weights that torch.save wrote"):
        zipped = zipfile.is_zipfile(ordinary(file))
        names = torch.serialization.get_unsafe_globals_in_checkpoint(file) if zipped else ()
        stubs: list[Any] = [(type(name, (Stub,), {}), name) for name in names]
        try:
            with torch.serialization.safe_globals(stubs):
                return torch.load(file, map_location="cpu", weights_only=True, mmap=zipped)
        except pickle.UnpicklingError as error:
            own = error.__context__  # torch wraps it in paragraphs of advice
            why = reason(own if isinstance(own, pickle.UnpicklingError) else error)
            raise CheckpointError(
                f"{file}: can't be read without running what is in it ({why}); {REMEDY}"
            ) from None


class _PlainValues(pickle.Unpickler):
    """Reads only numbers, texts, lists and dictionaries, restricted as Python's docs recommend."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse every import."""
        raise ValueError(f"it names {module}.{name}, which isn't imported")


def tokens_of(file: Path) -> list[Any]:
    """The tokens in ``itos`` of nanoGPT's ``meta.pkl``, for the ids 0, 1, …

    ``data/shakespeare_char/prepare.py`` (Karpathy, github.com/karpathy/nanoGPT) pickles a
    dictionary, ``{"vocab_size": 65, "itos": {0: "\\n", …}, "stoi": {"\\n": 0, …}}``. Raises
    ``CheckpointError``, which names the file, if it can't be read, or has no ``itos`` with an entry
    for each id.
    """
    with reading(file, "no meta.pkl"), own_file(file).open("rb") as opened:
        if file.stat().st_size > _LARGEST:
            raise ValueError(f"more than {_LARGEST // 10**6} MB")
        value = _PlainValues(opened).load()
        names = value.get("itos") if isinstance(value, dict) else None
        if not isinstance(names, dict) or not names:
            raise ValueError("no itos, from id to token")
        for i in range(len(names)):
            if i not in names:
                raise ValueError(f"itos has no token {i}")
            if not isinstance(names[i], str | int | float | None):
                raise ValueError(f"token {i} of itos isn't a text")
        return [names[i] for i in range(len(names))]

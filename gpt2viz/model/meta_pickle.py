"""The vocabulary in nanoGPT's ``meta.pkl``, read without running anything that is in it.

``data/shakespeare_char/prepare.py`` (Karpathy, github.com/karpathy/nanoGPT) pickles a dictionary,
``{"vocab_size": 65, "itos": {0: "\\n", …}, "stoi": {"\\n": 0, …}}``.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from gpt2viz.files import own_file, reading
from gpt2viz.model.inert_pickle import read_pickle

# A vocabulary of 65 characters takes 1 kB.
_LARGEST = 1_000_000


def tokens_of(file: Path) -> list[Any]:
    """The tokens in ``itos`` of a ``meta.pkl``, for the ids 0, 1, …

    Raises ``CheckpointError`` naming the file where it can't be read, or has no ``itos`` with an
    entry for each id.
    """
    with reading(file, "no meta.pkl"), own_file(file).open("rb") as opened:
        content = opened.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ValueError(f"more than {_LARGEST // 10**6} MB")
        value = read_pickle(io.BytesIO(content))
        names = value.get("itos") if isinstance(value, dict) else None
        if not isinstance(names, dict) or not names:
            raise ValueError("no itos, from id to token")
        for i in range(len(names)):
            if i not in names:
                raise ValueError(f"itos has no token {i}")
            if not isinstance(names[i], str | int | float | None):
                raise ValueError(f"token {i} of itos isn't a text")
        return [names[i] for i in range(len(names))]

"""The files that a model was read from, with what tells them from all others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpt2viz.errors import CheckpointError
from gpt2viz.files import own_file
from gpt2viz.model.fingerprint import sha256_of
from gpt2viz.model.tokenizer_files import FILES

#: A larger file isn't read just for its hash.
HASHED = 64 * 10**6

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StoredFile:
    """``sha256`` is empty for a file over ``HASHED`` bytes, unless the hub's cache names it."""

    name: str
    nbytes: int
    sha256: str


def stored_files(folder: Path) -> list[StoredFile]:
    """The files of a model that gpt2viz reads, the weights last."""
    weights = sorted(folder.glob("model*.safetensors*"))
    paths = [*(folder / name for name in ("README.md", "config.json", *FILES)), *weights]
    return [StoredFile(p.name, p.stat().st_size, _sha256(p)) for p in paths if _is_own(p)]


def _is_own(path: Path) -> bool:
    try:
        return bool(own_file(path))
    except CheckpointError:
        return False


def _sha256(path: Path) -> str:
    blob = path.resolve().name  # in the hub's cache a large file is called by its hash
    if _SHA256.fullmatch(blob):
        return blob
    return sha256_of(path) if path.stat().st_size <= HASHED else ""

"""The other tools, each in an environment of its own, or the reason why one is absent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / "build" / "peers"


class Peer(NamedTuple):
    """A tool: what pip installs, and which of ``contenders`` runs it."""

    requirements: tuple[str, ...]
    contender: str


PEERS: Mapping[str, Peer] = {
    "TransformerLens 4.3": Peer(("transformer-lens==4.3.*",), "transformer_lens_bridge"),
    # 2.18 wants NumPy 1, which newer pyarrow refuses.
    "TransformerLens 2.18": Peer(("transformer-lens==2.18.*", "pyarrow==21.*"), "transformer_lens"),
    "nnsight": Peer(("nnsight",), "nnsight"),
}


class AbsentError(Exception):
    """A peer can't be run here; the message says why."""


def python_of(name: str) -> Path:
    """The interpreter of a peer's environment, which is made where it is missing.

    torch comes first and pinned: left to itself pip fetches gigabytes of CUDA. Raises
    ``AbsentError``.
    """
    folder = ENVIRONMENTS / name.replace(" ", "-").lower()
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([*pip, "torch==2.13.0"])
        _run([*pip, "torch==2.13.0", *PEERS[name].requirements])
        (folder / "complete").touch()
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise AbsentError(f"{' '.join(command[1:4])} failed: {' '.join(last)[:200]}")

"""The other tools, each in its own environment, or the reason why one is absent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / "build" / "peers"
#: GPT-2 small's sizes with random weights: the model that every tool runs, made once.
FOLDER = ROOT / "build" / "gpt2-small-random"


class Peer(NamedTuple):
    """A tool: what pip installs, and which of ``contenders`` or ``peer_pages`` runs it."""

    requirements: tuple[str, ...]
    contenders: Mapping[str, str]


#: Tools that run a model, by the name of their environment.
CAPTURE: Mapping[str, Peer] = {
    "TransformerLens 4.3": Peer(
        ("transformer-lens==4.3.*",), {"TransformerLens 4.3": "transformer_lens_bridge"}
    ),
    # 2.18 needs NumPy 1, which newer pyarrow doesn't support.
    "TransformerLens 2.18": Peer(
        ("transformer-lens==2.18.*", "pyarrow==21.*"), {"TransformerLens 2.18": "transformer_lens"}
    ),
    "nnsight": Peer(("nnsight",), {"nnsight": "nnsight"}),
}

#: Tools that draw attention weights in a browser.
DRAWING: Mapping[str, Peer] = {
    "BertViz": Peer(
        ("bertviz==1.4.*",),
        {
            "BertViz head_view, 12 heads": "bertviz_head_view",
            "BertViz head_view, 12 heads, other layers to choose": "bertviz_head_view_layers",
            "BertViz model_view, 144 heads": "bertviz_model_view",
        },
    ),
    "CircuitsVis": Peer(
        ("circuitsvis==1.43.*",),
        {
            "CircuitsVis attention_heads, 12 heads": "circuitsvis_heads",
            "CircuitsVis attention_patterns, 12 heads": "circuitsvis_patterns",
        },
    ),
}
PEERS = {**CAPTURE, **DRAWING}

#: The scripts that BertViz's pages load from the internet: the npm package, and the file in it. The
#: pages load jQuery 2.0.0, which npm does not have.
_SCRIPTS: Mapping[str, tuple[str, str]] = {
    "require.min.js": ("requirejs@2.3.6", "require.js"),
    "d3.min.js": ("d3@5.7.0", "dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.1.0", "dist/jquery.min.js"),
}


class AbsentError(Exception):
    """A peer can't be run here; the message says why."""


def python_of(name: str) -> Path:
    """The interpreter of a peer's environment, which is made if it is missing.

    torch is installed first and pinned: otherwise pip downloads gigabytes of CUDA. Raises
    ``AbsentError``.
    """
    folder = ENVIRONMENTS / name.replace(" ", "-").lower()
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([sys.executable, "-m", "venv", "--clear", str(folder)])
        run([*pip, "torch==2.13.0"])
        run([*pip, "torch==2.13.0", *PEERS[name].requirements])
        (folder / "complete").touch()
    return python


def scripts() -> dict[str, Path]:
    """The scripts that BertViz's pages load, by file name. Raises ``AbsentError`` without npm."""
    folder = ENVIRONMENTS / "scripts"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]
        run([*npm, str(folder), *(package for package, _ in _SCRIPTS.values())])
        (folder / "complete").touch()
    modules = folder / "node_modules"
    return {
        name: modules / package.split("@")[0] / file for name, (package, file) in _SCRIPTS.items()
    }


def run(command: list[str]) -> None:
    """Run a command silently. Raises ``AbsentError`` with the last line of its error output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError as reason:
        raise AbsentError(f"{command[0]} is not installed") from reason
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise AbsentError(f"{' '.join(command[1:4])} failed: {' '.join(last)[:200]}")

"""`make run` and the container install PyTorch without CUDA, or PyPI's if that is unavailable."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.package.licences import ROOT
from tests.package.test_lock import entries

TORCH = next(entry for entry in entries() if entry.requirement.name == "torch")


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder without logging."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def index(folder: Path) -> Iterator[str]:
    """The address of an index whose only file is a CPU build of PyTorch."""
    name = f"torch-{TORCH.version}+cpu"
    (folder / "torch").mkdir(parents=True)
    message = f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH.version}+cpu\n"
    with ZipFile(folder / "torch" / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.dist-info/METADATA", f"{message}Requires-Dist: no-such\n")
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def install_torch(folder: Path, address: str) -> tuple[str, list[str]]:
    """Run `make` in a new clone with that index: its output, and what it installed."""
    folder.mkdir()
    for name in ("Makefile", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    venv.create(folder / ".venv", symlinks=True, with_pip=False)
    pip = f"{sys.executable} -m pip --python .venv/bin/python install --quiet"
    alone = {n: v for n, v in os.environ.items() if not n.startswith(("PIP_", "MAKE", "CUDA"))}
    made = subprocess.run(
        ["make", "--silent", ".venv/.torch", f"PIP={pip}", f"CPU_TORCH={address}"],
        cwd=folder,
        env=alone | {"PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (made.returncode, made.stderr) == (0, "")
    return made.stdout, [path.name for path in folder.glob(".venv/lib/*/site-packages/*-info")]


def test_make_installs_only_torch_from_its_index_if_that_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refusing = f"http://127.0.0.1:{closed.getsockname()[1]}"
    folders = [tmp_path / name for name in ("there", "silent", "refused")]
    with (
        index(tmp_path / "index") as there,
        silent() as waiting,
        ThreadPoolExecutor(len(folders)) as pool,  # each waits for pip, and one for its timeout
    ):
        made, *without = pool.map(install_torch, folders, (there, waiting, refusing))
    printed, result = made
    assert result == [f"torch-{TORCH.version}+cpu.dist-info"]
    assert len(printed.splitlines()) == 1
    for text, nothing in without:
        assert nothing == []
        assert len(text.splitlines()) == 2
        assert "PyPI's, which brings CUDA" in text.splitlines()[1]


@pytest.mark.parametrize(("cuda", "reached"), [("", True), ("", False), ("1", True)])
def test_the_container_drops_cuda_packages_from_the_lock(
    tmp_path: Path, cuda: str, reached: bool
) -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", "")
    (script,) = re.findall(r"^RUN (if .*)$", text, re.MULTILINE)
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    pip = tmp_path / "pip"
    fails = "" if reached else 'case "$*" in *--index-url*) exit 1;; esac\n'
    pip.write_text(f'#!/bin/sh\necho "$*" >> asked\n{fails}')
    pip.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CUDA": cuda}
    subprocess.run(["sh", "-c", script], cwd=tmp_path, env=variables, check=True)
    requested = (tmp_path / "asked").read_text().splitlines()
    assert requested[-1].endswith("--require-hashes -r requirements.lock")
    assert [line.endswith(f" {TORCH.requirement}") for line in requested[:-1]] == [True] * (
        not cuda
    )
    left = entries(tmp_path / "requirements.lock")
    gone = {e.requirement.name for e in entries()} - {e.requirement.name for e in left}
    if cuda or not reached:
        assert not gone
        return
    assert all(e.hashes for e in left)
    assert "torch" in gone
    assert {n for n in gone if not n.startswith(("nvidia-", "cuda-"))} == {"torch", "triton"}
    assert not [e for e in left if Requirement(str(e.requirement)).name.startswith("nvidia")]

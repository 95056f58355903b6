"""The packages of `make run` are pinned with hashes, and the tests run with the same versions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.package.licences import ROOT, closure, lines, required

LOCK = ROOT / "requirements.lock"
TOOLS, TOOLS_LOCK = ROOT / "requirements-dev.txt", ROOT / "requirements-dev.lock"


class Pinned(NamedTuple):
    """An entry of the lock: a name with one version and a marker, and the files' hashes."""

    requirement: Requirement
    hashes: list[str]

    @property
    def version(self) -> Version:
        (only,) = self.requirement.specifier
        assert only.operator == "=="
        return Version(only.version)

    @property
    def here(self) -> bool:
        return self.requirement.marker is None or self.requirement.marker.evaluate()


def entries(lock: Path = LOCK) -> list[Pinned]:
    text = re.sub(r"^#.*\n", "", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    results = []
    for entry in re.split(r"\n(?=\S)", text.strip()):
        first, *hashes = entry.split(" \\\n")
        results.append(Pinned(Requirement(first), [line.strip() for line in hashes]))
    return results


def test_every_file_has_a_hash() -> None:
    assert len(entries()) > 50
    for entry in entries():
        assert entry.version
        assert entry.hashes, entry.requirement
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", option) for option in entry.hashes)


def test_the_lock_satisfies_the_requirements() -> None:
    by_name: dict[str, list[Version]] = {}
    for entry in entries():
        by_name.setdefault(canonicalize_name(entry.requirement.name), []).append(entry.version)
    for need in required("app"):
        assert by_name[canonicalize_name(need.name)], need
        assert all(v in need.specifier for v in by_name[canonicalize_name(need.name)]), need


def test_the_tools_lock_satisfies_the_requirements_and_agrees_with_the_app() -> None:
    """A new version of an oracle, such as transformers, must not break the tests by itself."""
    locked = {(canonicalize_name(e.requirement.name), e.version) for e in entries(TOOLS_LOCK)}
    assert len(lines(TOOLS)) > 20
    for tool in lines(TOOLS):
        results = [v for name, v in locked if name == canonicalize_name(tool.name)]
        assert results, tool
        assert all(v in tool.specifier for v in results), (tool, results)
    assert {(canonicalize_name(e.requirement.name), e.version) for e in entries()} <= locked


def test_the_tests_run_with_the_locked_versions() -> None:
    """Except for torch's build: +cpu has the same version, but not PyPI's file."""
    for lock, extra, more in (
        (LOCK, "app", set()),
        (TOOLS_LOCK, "all", {"transformers", "pytest"}),
    ):
        here = {canonicalize_name(e.requirement.name): e.version for e in entries(lock) if e.here}
        needed = closure(extra) | more
        assert needed <= here.keys()
        message = {name: Version(version(name)) for name in map(canonicalize_name, needed)}
        assert {name: v.public for name, v in message.items()} == {n: str(here[n]) for n in message}


def test_make_installs_the_locked_versions() -> None:
    alone = {n: v for n, v in os.environ.items() if n not in ("LOCKED", "MAKEFLAGS")}

    def commands(target: str, *arguments: str) -> str:
        made = subprocess.run(
            ["make", "--dry-run", "--always-make", target, *arguments],
            cwd=ROOT,
            env=alone,
            capture_output=True,
            text=True,
            check=True,
        )
        return made.stdout

    assert "-r requirements.txt -c .venv/.versions" in commands("run")
    for cuda in ("CUDA=1", "DEVICE=cuda:1", "LOCKED=1"):
        assert "--index-url" not in commands("run", cuda), cuda
    assert ("--no-deps" in commands("unit")) == (sys.platform == "linux")
    assert "-r requirements-dev.txt -c requirements-dev.lock" in commands("unit")
    plain = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in plain if not line.startswith("#")] == ["-e .[app]"]
    assert "--require-hashes -r requirements.lock" in commands("run", "LOCKED=1")
    (taken,) = re.findall(r"^sed -E '(.*)' requirements.lock", commands("run"), re.MULTILINE)
    versions = subprocess.run(
        ["sed", "-E", taken, str(LOCK)], capture_output=True, text=True, check=True
    ).stdout
    plain = [line for line in versions.splitlines() if not line.startswith("#")]
    assert [Requirement(line) for line in plain] == [entry.requirement for entry in entries()]

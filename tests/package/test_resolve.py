"""gpt2viz can be installed beside Colab's packages, and on every Python version it names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.package.licences import lines, pyproject, required

#: Colab's packages, and their source.
COLAB = Path(__file__).with_name("colab.txt")
#: Supported Python versions that the tests don't run on; wheels are looked up for Linux.
OTHERS = ("3.12", "3.13", "3.14")
LINUX = "x86_64-manylinux_2_28"


def resolved(expected: list[Requirement], python: str) -> dict[str, str]:
    """The versions by name that uv would install, as wheels only; nothing is downloaded.

    Skips the test if no index answers.
    """
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "compile", "--quiet", "--no-config"]
    uv += ["--no-header", "--no-annotate", "--python-version", python, "--python-platform", LINUX]
    done = subprocess.run(
        [*uv, "--only-binary", ":all:", "-"],
        input="\n".join(map(str, expected)),
        env=os.environ | {"UV_PYTHON_DOWNLOADS": "never"},
        capture_output=True,
        text=True,
    )
    if done.returncode and re.search("error sending request|[Ff]ailed to fetch", done.stderr):
        pytest.skip("no package index answers")
    assert not done.returncode, done.stderr
    return dict(line.split("==") for line in done.stdout.splitlines())


def test_colab_keeps_its_versions() -> None:
    """Colab had everything that gpt2viz needs, in versions that may stay."""
    here = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in lines(COLAB)}
    outside = [
        str(need)
        for need in required()
        if not need.specifier.contains(here[canonicalize_name(need.name)], prereleases=True)
    ]
    assert outside == []
    result = resolved([*required(), *lines(COLAB)], "3.12")
    cuda = {name for name in result if name.startswith(("nvidia-", "cuda-"))}  # of torch
    assert {name: result[name] for name in result.keys() - cuda} == here


def test_all_requirements_have_wheels_for_every_python_version() -> None:
    every = list(required("all"))
    with ThreadPoolExecutor(len(OTHERS)) as pool:
        for result in pool.map(lambda python: resolved(every, python), OTHERS):
            assert {canonicalize_name(need.name) for need in every} <= result.keys()


def test_the_named_python_versions_are_those_tested() -> None:
    project = pyproject()["project"]
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert named == ["3.11", *OTHERS]
    assert project["requires-python"] == ">=3.11"

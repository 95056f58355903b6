"""gpt2viz fits in beside what people have: a notebook's own packages, and each Python it names."""

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

#: What Colab had, and from where that is known.
COLAB = Path(__file__).with_name("colab.txt")
#: The Pythons that are named and that the tests don't run on; wheels are looked for on Linux.
OTHERS = ("3.12", "3.13", "3.14")
LINUX = "x86_64-manylinux_2_28"


def resolved(expected: list[Requirement], python: str) -> dict[str, str]:
    """The versions by name that uv would install, as wheels only; no file is fetched.

    Skips where no index answers.
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


def test_a_notebook_keeps_all_that_it_has() -> None:
    """Of what gpt2viz needs, that Colab lacked nothing, and nothing had to change there."""
    here = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in lines(COLAB)}
    outside = [
        str(need)
        for need in required()
        if not need.specifier.contains(here[canonicalize_name(need.name)], prereleases=True)
    ]
    assert outside == []
    result = resolved([*required(), *lines(COLAB)], "3.12")
    cuda = {name for name in result if name.startswith(("nvidia-", "cuda-"))}  # torch's own
    assert {name: result[name] for name in result.keys() - cuda} == here


def test_every_other_python_that_is_named_has_wheels_of_all() -> None:
    every = list(required("all"))
    with ThreadPoolExecutor(len(OTHERS)) as pool:
        for result in pool.map(lambda python: resolved(every, python), OTHERS):
            assert {canonicalize_name(need.name) for need in every} <= result.keys()


def test_the_pythons_that_are_named_are_those_that_were_tried() -> None:
    project = pyproject()["project"]
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert named == ["3.11", *OTHERS]
    assert project["requires-python"] == ">=3.11"

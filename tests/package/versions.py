"""The library's tests with the oldest versions that it allows, and with the newest.

python -m tests.package.versions          both
python -m tests.package.versions oldest   or "newest"

Each gets an environment of its own below build/versions: what a plain ``pip install gpt2viz``
brings, in the oldest or newest version of each range, and the tests' own tools. PyPI's PyTorch for
Linux brings CUDA: 5 GB an environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv

from packaging.requirements import Requirement

from tests.package.licences import ROOT, asked

#: What the tests need on top, in a version that gets on with ours: an independent GPT-2 above all.
TOOLS = {
    "oldest": ("transformers==5.0.0", "pytest>=9,<10", "hypothesis>=6.150,<7"),
    "newest": ("transformers>=5.20,<6", "pytest>=9,<10", "hypothesis>=6.150,<7"),
}
TESTS = (
    "tests/analysis/test_lens.py",
    *(f"tests/model/test_{name}.py" for name in ("checkpoint", "tokenizer", "hub", "compat")),
    *(f"tests/run/test_{name}.py" for name in ("parity", "edits_parity", "tracing")),
    # What the old tokenizers, an oracle too, says of how it reads its own files.
    "-Wignore:Deprecated in 0.9.0:DeprecationWarning",
    # It asks `gpt2viz trace`, which needs an extra.
    "--deselect=tests/model/test_hub.py::"
    "test_the_command_says_the_size_first_and_goes_on_where_it_was",
)


def wanted(which: str) -> list[str]:
    """What pip is asked for: each range's oldest version, or the range itself."""
    if which == "newest":
        return [str(one) for one in asked()]
    return [f"{one.name}=={least(one)}" for one in asked()]


def least(one: Requirement) -> str:
    """The oldest version of a range."""
    return next(bound.version for bound in one.specifier if bound.operator == ">=")


def check(which: str) -> int:
    """Make the environment anew and run the tests there; pytest's exit code."""
    folder = ROOT / "build" / "versions" / which
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    subprocess.run([*install, *wanted(which), *TOOLS[which]], check=True)
    print(f"\n{which}: {' '.join(wanted(which))}", flush=True)
    alone = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    return subprocess.run(command, cwd=ROOT, env=alone).returncode


if __name__ == "__main__":
    sys.exit(max(map(check, sys.argv[1:] or TOOLS)))

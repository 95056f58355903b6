"""Plant one fault at a time in a copy of the app, and demand that the named test turns red.

    python -m tests.mutants             all but those that only a browser shows
    python -m tests.mutants lens words  those whose file or test has one of these words
    python -m tests.mutants browser     those

A fault stands beside the test that must notice it, in the test's file, under ``MUTANTS``: faults
that were made once, or would be easy to make.

Every invariant (rows sum to 1, zeros above the diagonal) also holds for a wrong scale, so the
numbers are compared with independent oracles; this shows that the comparison bites.
"""

from __future__ import annotations

import ast
import compileall
import gc
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from importlib.util import cache_from_source
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
#: Faults that one process plants in a row: with many more, it would work alone at last.
SHARE = 50


class Mutant(NamedTuple):
    """A fault: in ``file``, ``right`` becomes ``wrong``; ``test``, of the same file, must notice.

    ``file`` is one of the package, such as "model/mask.py", or of the clone.
    """

    name: str
    file: str
    right: str
    wrong: str
    test: str


def mutants() -> Iterator[Mutant]:
    """Every fault that stands beside a test, with the test's path before its name.

    They are read, not imported: what a test loads has to be loaded by pytest first.
    """
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MUTANTS":
                for call in node.value.elts:  # type: ignore[attr-defined]  # Mutant("…", …)
                    name, file, right, wrong, test = map(ast.literal_eval, call.args)
                    test = f"{path.relative_to(ROOT)}::{test}"
                    yield Mutant(name, file, right, wrong, test)


def place(mutant: Mutant, root: Path) -> Path:
    """The file of a fault: in the package, or a page beside it."""
    inside = root / "gpt2viz" / mutant.file
    return inside if inside.is_file() else root / mutant.file


def planted(mutant: Mutant, copy: Path) -> Path:
    """The file in the copy, with the fault in it. Raises ``ValueError`` where it has no place."""
    path = place(mutant, copy)
    source = path.read_text(encoding="utf-8")
    if source.count(mutant.right) != 1:
        raise ValueError(f"{mutant.name}: {mutant.right!r} must stand once in {mutant.file}")
    path.write_text(source.replace(mutant.right, mutant.wrong), encoding="utf-8")
    Path(cache_from_source(str(path))).unlink(missing_ok=True)  # as the code was before
    return path


class Outcome:
    """What became of some tests: pytest's exit code, what it printed, and what turned red."""

    code: int
    printed: str

    def __init__(self) -> None:
        self.red: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails, or that can't be set up, by its name and parameters."""
        if report.failed:
            self.red.append(report.nodeid)


def outcome(tests: Iterable[str], *options: str) -> Outcome:
    """Run tests on the copy in the working folder.

    All in this process, with the package loaded anew: loading torch each time would take longer
    than the tests do. Streamlit's caches outlive that, with what the last fault put into them.
    """
    if streamlit := sys.modules.get("streamlit"):  # imported here, it would come before pytest
        streamlit.cache_data.clear()
        streamlit.cache_resource.clear()
    for name in list(sys.modules):
        if name.split(".")[0] in ("gpt2viz", "tests"):
            del sys.modules[name]
    ours = sys.modules["__main__"]  # a page under test takes its place
    found = Outcome()
    with redirect_stdout(StringIO()) as printed:
        arguments = ["-x", "-q", "-p", "no:cacheprovider", *options, *tests]
        found.code = int(pytest.main(arguments, [found]))
    sys.modules["__main__"] = ours
    found.printed = printed.getvalue()
    return found


def turned_red(mutant: Mutant) -> list[str]:
    """What failed of the test, with its parameters: the first, or none.

    Raises ``RuntimeError`` where it can't be found or collected: that is an error, not red.
    """
    found = outcome([mutant.test])
    if found.code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"{mutant.name}: the test did not run\n{found.printed}")
    return found.red


def enter_a_copy(folder: str) -> None:
    """Make a copy of the clone for this process, and go there."""
    logging.raiseExceptions = False  # Streamlit goes on logging to the stderr of a test before
    copy = Path(tempfile.mkdtemp(dir=folder))
    for name in ("gpt2viz", "tests", "pages"):
        left = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / name, copy / name, ignore=left)
    for name in ("app.py", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    for name in (".streamlit", "assets", "deploy", "docs", "examples"):
        (copy / name).symlink_to(ROOT / name)
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    compileall.compile_dir("gpt2viz", quiet=1)  # once, for all that are planted here


def dealt(chosen: Sequence[Mutant]) -> Iterator[list[Mutant]]:
    """Shares for one process at a time: those of one room, and of a large one a part."""
    for _, of_one in groupby(chosen, lambda mutant: Path(mutant.test.split("::")[0]).parent):
        room = list(of_one)
        for start in range(0, len(room), SHARE):
            yield room[start : start + SHARE]


def survivors(share: Sequence[Mutant]) -> int:
    """Plant a share of the mutants in the copy, one by one; how many no test noticed.

    Raises ``RuntimeError`` where a test that turned red doesn't pass as the code is. The others,
    and those with other parameters, are run by `make test`.
    """
    turned: set[str] = set()
    survived = 0
    sys.dont_write_bytecode = False  # the tests too are compiled once
    outcome(sorted({mutant.test for mutant in share}), "--collect-only")
    sys.dont_write_bytecode = True  # two mutants of one length within a second look alike to it
    gc.freeze()  # pytest looks through all that is in memory, each time it ends
    for mutant in share:
        path = planted(mutant, Path.cwd())
        red = turned_red(mutant)
        turned.update(red)
        survived += not red
        verdict = "noticed" if red else "SURVIVED"
        print(f"{mutant.name:34} {verdict:9} {mutant.test.split('::')[-1]}", flush=True)
        shutil.copy(place(mutant, ROOT), path)
    if turned and (found := outcome(sorted(turned))).code:
        raise RuntimeError(f"{found.printed}\nThis must pass where no fault is planted.")
    gc.unfreeze()
    return survived


def main(wanted: list[str]) -> int:
    """Try the mutants, or those that the words name; 0 where each one was noticed."""
    if wanted:
        chosen = [m for m in mutants() if any(word in m.file + m.test for word in wanted)]
    else:
        chosen = [m for m in mutants() if not m.test.startswith("tests/browser/")]
    if not chosen:
        print(f"No fault is in a file or test named {' or '.join(wanted)}.")
        return 1
    os.environ["OMP_NUM_THREADS"] = "1"  # each core has a process of its own
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # what a test starts leaves no fault behind
    shares = sorted(dealt(chosen), key=len, reverse=True)  # longest first
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(initializer=enter_a_copy, initargs=(folder,)) as processes,
    ):
        survived = sum(processes.map(survivors, shares))
    print(f"mutants: {len(chosen) - survived} noticed, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

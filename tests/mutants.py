"""Make one function after another return a wrong number, and check that some test fails.

    python -m tests.mutants             every function of the rooms of numbers
    python -m tests.mutants lens mask   those with one of these words in their name
    python -m tests.mutants --since HEAD~5   those whose source has changed since that commit

Each function that returns numbers, alone or as fields of a value, gives a mutant: floats become 1 %
too large, integers one too large, booleans their opposite. No source is quoted, so the code can be
rewritten. A test of the same room must fail: first run are those of the function's module
(``run/edits.py``: ``tests/run/test_edits.py``) and those that mention it, then the others.

Invariants (rows sum to 1, zeros above the diagonal) also hold at a wrong scale, so this shows that
tests compare with independent oracles.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import importlib.abc
import importlib.machinery
import multiprocessing
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

ROOT = Path(__file__).parents[1]
ROOMS = ("model", "run", "analysis", "anatomy", "survey", "textbook", "pictures")
#: Return types without numbers, or whose numbers are computed after the function returns.
NO_NUMBERS = re.compile(r"^(None|str|bytes|Path|Any|Figure)\b|Iterator|Callable|\bstr\b")
#: Exit codes of a mutant's process.
KILLED, SURVIVED, NOTHING_CHANGED = 10, 11, 12
VERDICTS = {KILLED: "noticed", SURVIVED: "SURVIVED", NOTHING_CHANGED: "no number"}
#: Imported before forking, as each process would spend seconds on them.
PRELOADED = (
    *("torch", "pandas", "plotly.graph_objects", "transformers.models.gpt2.modeling_gpt2"),
    *("pytest", "hypothesis.strategies"),
)
#: Seconds; a test that hangs on a wrong number has noticed it.
LIMIT = 120

#: Functions whose number is never shown, or that may differ, with the reason.
EXEMPT: dict[str, str] = {
    "analysis.batch_scores._token_ids": "ids that are only compared with one another",
    "model.fingerprint._stamp": "a mark that is only compared for equality",
    "model.hub._Watched.write": "the number of bytes written, which the hub's client ignores",
    "model.tokenizer.Tokenizer._cutting": "a key: equal tokenizers have equal ones",
    "model.tokenizer.TokenList._cutting": "a key: equal tokenizers have equal ones",
    "model.tuning.tune_process": "called only in processes of its own",
    "run.forward.gradients": "for estimates alone: tests/analysis holds these against slopes",
    "run.tracer._reference": "the given run, or one that reference_run made",
    "run.tracer._source": "the given run, or one that trace made",
    "run.tracer.reference_run": "a run that trace made",
}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A function, by its module and name, that is to return a wrong number."""

    module: str
    function: str

    def __str__(self) -> str:
        return f"{self.module.removeprefix('gpt2viz.')}.{self.function}"

    def tests(self) -> tuple[list[str], list[str]]:
        """The test files that mention its module, and the others of its room."""
        room, name = self.module.split(".")[1], self.module.split(".")[-1]
        room_tests = sorted((ROOT / "tests" / room).glob("test_*.py"))
        own = [path for path in room_tests if path.stem == f"test_{name}"]
        importers = [
            path
            for path in room_tests
            if re.search(rf"\b{name}\b", path.read_text(encoding="utf-8")) and path not in own
        ]
        near = own + importers
        rest = [path for path in room_tests if path not in near]
        return [str(p.relative_to(ROOT)) for p in near], [str(p.relative_to(ROOT)) for p in rest]


def mutants(since: str = "") -> Iterator[Mutant]:
    """Every function and method of ``ROOMS`` that may return numbers, by its annotation.

    With a commit, only those that are new or changed since.
    """
    for room in ROOMS:
        for path in sorted((ROOT / "gpt2viz" / room).rglob("*.py")):
            name = path.relative_to(ROOT)
            before = _numeric(_git("show", f"{since}:{name}", missing="")) if since else {}
            module = ".".join(name.with_suffix("").parts).removesuffix(".__init__")
            for function, code in _numeric(path.read_text(encoding="utf-8")).items():
                if before.get(function) != code:
                    yield Mutant(module, function)


def _numeric(source: str) -> dict[str, str]:
    """The functions of a module that may return numbers, with their code."""

    def walk(body: Sequence[ast.stmt], owner: str) -> Iterator[tuple[str, str]]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{owner}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                returns = ast.unparse(node.returns) if node.returns else "None"
                if not NO_NUMBERS.search(returns):
                    yield owner + node.name, ast.dump(node)

    return dict(walk(ast.parse(source).body, ""))


def wrong(value: Any) -> Any:
    """``value`` with each of its numbers a little off."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 + 1e-3
    if isinstance(value, dict):
        off = {key: wrong(item) for key, item in value.items()}
        return off if any(off[key] is not item for key, item in value.items()) else value
    if isinstance(value, (list, tuple)):
        items = list(map(wrong, value))
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        kind = str(value.dtype)
        if "bool" in kind:
            return ~value
        return value + 1 if "int" in kind else value * 1.01 + 1e-3
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _wrong_fields(value)
    return value


def _wrong_fields(value: Any) -> Any:
    """A dataclass with its floats and float arrays a little off."""
    off = {
        field.name: wrong(number)
        for field in dataclasses.fields(value)
        if field.init
        and (isinstance(number := getattr(value, field.name), float) or _floats(number))
    }
    return dataclasses.replace(value, **off) if off else value


def _floats(value: Any) -> bool:
    return "float" in str(getattr(value, "dtype", ""))


def broken(right: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns ``wrong`` numbers."""

    @functools.wraps(right)
    def function(*arguments: Any, **named: Any) -> Any:
        value = right(*arguments, **named)
        planted = wrong(value)
        returned.add(planted is not value)
        return planted

    return function


#: For the calls of this process's mutant: True if the value that it returned was changed.
returned = set[bool]()


class Planting(importlib.abc.MetaPathFinder):
    """Decorates the mutant with ``broken`` while its module is loaded, before anyone can import it.

    It becomes the innermost decorator: properties, caches and tables get the broken function.
    """

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """The usual spec, with a loader that adds the decorator."""
        if name != self.mutant.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None
        vars(spec.loader)["exec_module"] = self._load
        return spec

    def _load(self, module: ModuleType) -> None:
        assert module.__file__
        tree: Any = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        nodes = [tree]
        for name in self.mutant.function.split("."):
            nodes = [n for node in nodes for n in node.body if getattr(n, "name", "") == name]
        for node in nodes:
            node.decorator_list.append(ast.Name("_broken", ast.Load()))
        vars(module)["_broken"] = broken
        exec(compile(ast.fix_missing_locations(tree), module.__file__, "exec"), vars(module))  # noqa: S102 (our own)


def run_tests(mutant: Mutant) -> None:
    """Run the tests with the mutant in this process; exit with ``KILLED`` if one fails.

    The room's other tests are collected only if those that mention the module pass: collecting a
    whole room takes longer than most tests of a function.
    """
    import pytest

    sys.meta_path.insert(0, Planting(mutant))
    sys.dont_write_bytecode = True
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # loaded before pytest was
        for files in filter(None, mutant.tests()):
            code = pytest.main([*options, *files])
            if code in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
                os._exit(KILLED)
            if code != pytest.ExitCode.OK:
                os._exit(int(code))
            if returned == {False}:
                os._exit(NOTHING_CHANGED)
    os._exit(SURVIVED if any(returned) else NOTHING_CHANGED)


def survivors(chosen: Sequence[Mutant]) -> list[Mutant]:
    """The mutants that no test notices; one process each, as many at a time as there are cores."""
    for library in PRELOADED:
        importlib.import_module(library)
    sys.modules["torch"].set_num_threads(1)  # threads don't survive a fork
    fork = multiprocessing.get_context("fork")
    running: dict[Any, tuple[Mutant, ForkProcess, float]] = {}
    waiting, survived = list(reversed(chosen)), []
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            process = fork.Process(target=run_tests, args=(mutant := waiting.pop(),))
            process.start()
            running[process.sentinel] = mutant, process, time.monotonic()
        ended = wait(list(running), timeout=1)
        late = [n for n, (*_, start) in running.items() if time.monotonic() - start > LIMIT]
        for sentinel in {*ended, *late}:
            mutant, process, _ = running.pop(sentinel)
            process.kill()
            process.join()
            code = KILLED if sentinel in late else process.exitcode or 0
            if code not in VERDICTS:
                raise RuntimeError(f"{mutant}: its tests did not run (exit code {code})")
            survived += [mutant] if code == SURVIVED else []
            print(f"{VERDICTS[code]:9} {mutant}", flush=True)
    return survived


def _git(*arguments: str, missing: str | None = None) -> str:
    """The output of git, or ``missing`` if git fails."""
    command = ["git", *arguments]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=missing is None)
    return made.stdout if made.returncode == 0 or missing is None else missing


def main() -> int:
    """Try the mutants that the command line names; return 0 if all of them were noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--since", default="", help="only what has changed since this commit")
    parser.add_argument("--at-most", type=int, help="so many of them, mixed, the same each time")
    given = parser.parse_args()
    if gone := EXEMPT.keys() - set(map(str, mutants())):
        parser.error(f"EXEMPT names functions that are gone: {', '.join(sorted(gone))}")
    chosen = [mutant for mutant in mutants(given.since) if str(mutant) not in EXEMPT]
    if given.words:
        chosen = [m for m in chosen if any(word in str(m) for word in given.words)]
    if given.at_most and len(chosen) > given.at_most:
        chosen = sorted(chosen, key=lambda mutant: crc32(str(mutant).encode()))[: given.at_most]
    os.environ["OMP_NUM_THREADS"] = "1"  # each core has a process of its own
    os.chdir(ROOT)
    survived = survivors(chosen)
    print(f"mutants: {len(chosen) - len(survived)} noticed, {len(survived)} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())

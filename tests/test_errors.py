"""Every error of the package can be pickled, to leave a process, and copied."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import gpt2viz
from gpt2viz.errors import ContextError, PatchError

DECLARED = re.compile(r"^class (\w+)\(\w*(?:Error|Exception)\b", re.MULTILINE)
#: The arguments of errors that take more than a message.
ARGUMENTS: dict[type[BaseException], tuple[Any, ...]] = {
    ContextError: (3000, 1024, "this server"),
    PatchError: ("Both texts are the same.", [1, 2]),
}


def error_classes() -> list[type[BaseException]]:
    """The error classes that modules declare, by the name of their first base class."""
    folder = Path(gpt2viz.__file__).parent
    results = []
    for path in folder.rglob("*.py"):
        for name in DECLARED.findall(path.read_text("utf-8")):
            module = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
            results.append(getattr(import_module(module), name))
    return results


def test_errors_survive_pickling_and_copying() -> None:
    methods: dict[str, Callable[[Any], Any]] = {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "the oldest pickle": lambda error: pickle.loads(pickle.dumps(error, 0)),  # noqa: S301
        "pickle": lambda error: pickle.loads(pickle.dumps(error)),  # noqa: S301
    }
    wrong = []
    for kind in error_classes():
        error = kind(*ARGUMENTS.get(kind, ("What to do.",)))
        for name, copy_of in methods.items():
            try:
                other = copy_of(error)
            except Exception as failed:
                wrong.append(f"{kind.__name__} by {name}: {failed!r}")
                continue
            if (type(other), str(other), vars(other)) != (kind, str(error), vars(error)):
                wrong.append(f"{kind.__name__} by {name}: {other!r}")
    assert not wrong
    assert len(error_classes()) > 10

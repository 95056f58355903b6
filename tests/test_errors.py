"""Every error that the package raises travels: out of a process by a pickle, and as a copy."""

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
#: What those are made of that take more than a message.
MADE_OF: dict[type[BaseException], tuple[Any, ...]] = {
    ContextError: (3000, 1024, "this server"),
    PatchError: ("Both texts are the same.", [1, 2]),
}


def errors() -> list[type[BaseException]]:
    """Those that some module declares, by what their first base is called."""
    folder = Path(gpt2viz.__file__).parent
    results = []
    for path in folder.rglob("*.py"):
        for name in DECLARED.findall(path.read_text("utf-8")):
            module = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
            results.append(getattr(import_module(module), name))
    return results


def test_every_error_is_pickled_and_copied_as_it_is() -> None:
    ways: dict[str, Callable[[Any], Any]] = {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "the oldest pickle": lambda error: pickle.loads(pickle.dumps(error, 0)),  # noqa: S301
        "pickle": lambda error: pickle.loads(pickle.dumps(error)),  # noqa: S301
    }
    wrong = []
    for kind in errors():
        error = kind(*MADE_OF.get(kind, ("What to do.",)))
        for name, way in ways.items():
            try:
                other = way(error)
            except Exception as failed:
                wrong.append(f"{kind.__name__} by {name}: {failed!r}")
                continue
            if (type(other), str(other), vars(other)) != (kind, str(error), vars(error)):
                wrong.append(f"{kind.__name__} by {name}: {other!r}")
    assert not wrong
    assert len(errors()) > 10

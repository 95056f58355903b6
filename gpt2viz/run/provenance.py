"""The origin of a tensor: the operation that made it, and the line of the model's source."""

from __future__ import annotations

import inspect
import linecache
import textwrap
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from torch import nn

from gpt2viz.model import llama, network
from gpt2viz.run.compat import frame_of_model

#: Written above the line that made a tensor.
MARK = "# ↓ made here"

#: The modules that models are written in, by their files.
_SOURCES = {str(module.__file__): module for module in (network, llama)}


class Origin(NamedTuple):
    """A line of the model's source, counted from 1, and its file; ("", 0) for none."""

    file: str
    line: int


def operation(module: nn.Module, formula: str) -> str:
    """The operation of a module; for a tap or a container, its ``formula``."""
    if isinstance(module, nn.Linear):
        return f"Linear {module.in_features} → {module.out_features}"
    if isinstance(module, nn.Embedding):
        return f"Embedding {module.num_embeddings} × {module.embedding_dim}"
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return f"{type(module).__name__} {module.normalized_shape[0]}, ε = {module.eps:g}"
    if isinstance(module, nn.Identity | nn.Dropout) or next(module.children(), None) is not None:
        return formula
    return type(module).__name__


def line_of_model() -> Origin:
    """The line of the model that is running, if any; for use inside a hook."""
    frame = frame_of_model()
    while frame is not None and frame.f_code.co_filename not in _SOURCES:
        frame = frame.f_back
    return Origin(frame.f_code.co_filename, frame.f_lineno) if frame else Origin("", 0)


def code_of(origin: Origin) -> str:
    """A line of the model without its comment; "" for none."""
    return linecache.getline(origin.file, origin.line).split("#")[0].strip()


@lru_cache(maxsize=64)
def method_at(file: str, line: int) -> tuple[str, str]:
    """(name, source) of the method of the model that a line is in, such as "Attend.forward".

    ``file`` is one of ``gpt2viz/model``, such as "network.py". ``MARK`` stands above the line
    itself. Raises ``LookupError`` for a line outside all methods.
    """
    # Not with ``ast``: Python 3.11's parser sometimes fails when two threads use it.
    module = next((of for path, of in _SOURCES.items() if Path(path).name == file), network)
    for holder in filter(inspect.isclass, vars(module).values()):
        for part in filter(inspect.isfunction, vars(holder).values()):
            if part.__module__ != module.__name__:
                continue
            shown, first = inspect.getsourcelines(part)
            if first <= line < first + len(shown):
                code = shown[line - first]
                indent = code[: len(code) - len(code.lstrip())]
                shown.insert(line - first, f"{indent}{MARK}\n")
                source = textwrap.dedent("".join(shown)).rstrip()
                return f"{holder.__name__}.{part.__name__}", source
    raise LookupError(f"line {line} of {file} is in no method")

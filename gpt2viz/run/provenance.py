"""The origin of a tensor: the operation that made it, and the line of ``network.py``."""

from __future__ import annotations

import inspect
import textwrap
from functools import lru_cache
from pathlib import Path

from torch import nn

from gpt2viz.model import network as model_source
from gpt2viz.run.compat import frame_of_model

#: Stands above the line that made a tensor.
MARK = "# ↓ made here"

_SOURCE = model_source.__file__


def operation(module: nn.Module, formula: str) -> str:
    """The module's operation, from the module itself; a tap or a container is its ``formula``."""
    if isinstance(module, nn.Linear):
        return f"Linear {module.in_features} → {module.out_features}"
    if isinstance(module, nn.Embedding):
        return f"Embedding {module.num_embeddings} × {module.embedding_dim}"
    if isinstance(module, nn.LayerNorm):
        return f"LayerNorm {module.normalized_shape[0]}, ε = {module.eps:g}"
    if isinstance(module, nn.Identity | nn.Dropout) or next(module.children(), None) is not None:
        return formula
    return type(module).__name__


def line_of_model() -> int:
    """The line of ``network.py`` that is running, or 0; for use inside a hook."""
    frame = frame_of_model()
    while frame is not None and frame.f_code.co_filename != _SOURCE:
        frame = frame.f_back
    return frame.f_lineno if frame else 0


def code_of(line: int) -> str:
    """A line of ``network.py`` without its comment; "" for line 0."""
    return _source_lines()[line - 1].split("#")[0].strip() if line else ""


@lru_cache(maxsize=64)
def method_at(line: int) -> tuple[str, str]:
    """(name, source) of the method of ``network.py`` that a line is in, such as "Attend.forward".

    ``MARK`` stands above the line itself. Raises ``LookupError`` for a line outside all methods.
    """
    # Not through ``ast``: Python 3.11's parser fails now and then where two threads use it.
    for holder in filter(inspect.isclass, vars(model_source).values()):
        for part in filter(inspect.isfunction, vars(holder).values()):
            if part.__module__ != model_source.__name__:
                continue
            shown, first = inspect.getsourcelines(part)
            if first <= line < first + len(shown):
                code = shown[line - first]
                indent = code[: len(code) - len(code.lstrip())]
                shown.insert(line - first, f"{indent}{MARK}\n")
                source = textwrap.dedent("".join(shown)).rstrip()
                return f"{holder.__name__}.{part.__name__}", source
    raise LookupError(f"line {line} of network.py is in no method")


@lru_cache(maxsize=1)
def _source_lines() -> tuple[str, ...]:
    return tuple(Path(_SOURCE).read_text(encoding="utf-8").splitlines())

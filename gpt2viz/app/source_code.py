"""The code behind what is on screen, read from the source files that ran."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import streamlit as st

from gpt2viz import Trace
from gpt2viz.model.network import Attend
from gpt2viz.run.provenance import method_at


class Line(NamedTuple):
    """The model's line that made a stage of a run; ``layer`` is None outside the layers."""

    trace: Trace
    key: str
    layer: int | None = None


#: The code of a picture: a line of the model, or a function that used its tensors.
Code = Line | Callable[..., Any]


def listing(*made: Code) -> None:
    """Draw each function, and the method of each line with that line marked."""
    for source in made:
        if isinstance(source, Line):
            _line(source)
        else:
            st.markdown(f"`{name(source)}` in `{source.__module__.replace('.', '/')}.py`")
            st.code(_source(source))


def name(made: Code) -> str:
    """Return the name of the function, class or method: "attend", "Attend.forward"."""
    if isinstance(made, Line):
        record = made.trace.record(made.key, made.layer)
        return method_at(record.file, record.line)[0] if record else name(Attend.forward)
    return made.__qualname__


def _line(line: Line) -> None:
    record = line.trace.record(line.key, line.layer)
    if record is None:
        st.markdown("A long text runs fused; this was worked out from its q, k and v by:")
        st.code(_source(Attend.forward))
    else:
        method, source = method_at(record.file, record.line)
        st.markdown(f"`{method}`, line {record.line} of `gpt2viz/model/{record.file}`")
        st.code(source)


@lru_cache(maxsize=128)
def _source(of: Callable[..., Any]) -> str:
    return textwrap.dedent(inspect.getsource(of)).rstrip()

"""The code beside a picture: the method that made its tensor, with that line marked."""

from __future__ import annotations

import inspect
import textwrap

import pytest

import gpt2viz
from gpt2viz.model.network import Attend, Block
from gpt2viz.run.provenance import MARK, method_at


def test_line_of_every_tensor_is_marked_in_its_method(tiny: gpt2viz.Model) -> None:
    for record in gpt2viz.trace(tiny, "A crane ate fish").tensors:
        name, source = method_at(record.file, record.line)
        assert name.endswith((".forward", ".embed"))
        assert source.count(MARK) == 1
        assert record.code in source.partition(MARK)[2].splitlines()[1]


def test_source_is_the_modules_method(tiny: gpt2viz.Model) -> None:
    run = gpt2viz.trace(tiny, "A crane ate fish", explicit=True)
    for key, owner in (("weights", Attend), ("residual_mid", Block)):
        record = run.record(key, 0)
        assert record is not None
        name, source = method_at(record.file, record.line)
        assert name == f"{owner.__name__}.forward"
        plain = "\n".join(line for line in source.splitlines() if MARK not in line)
        assert plain.strip() == textwrap.dedent(inspect.getsource(owner.forward)).strip()


def test_line_outside_methods_is_an_error() -> None:
    with pytest.raises(LookupError, match="line 1 "):
        method_at("network.py", 1)

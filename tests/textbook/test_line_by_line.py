"""The eighty lines, run one by one: each makes its pair's stages, as do the lines beside it."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

import gpt2viz
from gpt2viz.model import network
from gpt2viz.run.stages import GPT2_GRAPH, axis_sizes, module_names
from gpt2viz.textbook import eighty_lines
from gpt2viz.textbook.gaps import FILLED, Draft
from gpt2viz.textbook.line_by_line import PAIRS, Pair, line_by_line
from tests.numpy_gpt2 import reference

TEXT = "A crane ate fish"
#: Lines that only the package has, for its cache, fused attention and an error.
PACKAGE_ONLY = """
first = past[0].k.shape[2] if past else 0
n_positions = self.config.n_positions
if T > n_positions:
return heads if past is None else torch.cat([past, heads], dim=2)
whole = forbidden is None and n_queries == len(positions)
return cls(hidden, causal and whole, whole and not causal, explicit, positions)
position_ids = torch.arange(T, device=ids.device)
n_queries = T if past and past[0].q is not None else T - first
mask = Mask.of(n_queries, position_ids, causal, explicit, forbidden)
if mask.explicit:
"""


def run_by_line(file: str, run: Callable[[], object]) -> dict[int, list[dict[str, Any]]]:
    """Line -> the local variables after each time that it ran, and its "return"."""
    results: dict[int, list[dict[str, Any]]] = defaultdict(list)
    running: dict[FrameType, int] = {}

    def step(frame: FrameType, event: str, result: Any) -> Any:
        if frame in running:
            made = {"return": result} if event == "return" else {}
            results[running.pop(frame)].append({**frame.f_locals, **made})
        if event == "line":
            running[frame] = frame.f_lineno
        return step

    def enter(frame: FrameType, _event: str, _result: Any) -> Any:
        code = frame.f_code
        return step if code.co_filename == file and not code.co_name.startswith("<") else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        with torch.inference_mode():
            run()
    finally:
        sys.settrace(before)
    return dict(results)


def stage_outputs(model: gpt2viz.Model, ids: Tensor) -> dict[str, list[Tensor]]:
    """The outputs of the package's own modules for a text, by stage: one per layer."""
    made: dict[str, list[Tensor]] = defaultdict(list)

    def record(key: str) -> Callable[..., None]:
        return lambda _module, _given, out: made[key].append(out)

    modules = dict(model.network.named_modules())
    hooks = [
        modules[path].register_forward_hook(record(stage.key))
        for path, stage, _ in module_names(model.config.n_layer)
    ]
    with torch.inference_mode():
        model.network(ids, explicit=True)
    for hook in hooks:
        hook.remove()
    return made


def same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-5, atol=1e-5)


def all_in(values: Iterable[Tensor], others: Iterable[Tensor]) -> bool:
    others = list(others)
    return all(any(same(value, other) for other in others) for value in values)


def test_every_line_makes_the_stages_of_its_pair_and_no_others(
    tiny: gpt2viz.Model, tiny_folder: Path
) -> None:
    ids = tiny.tokenizer.encode(TEXT)
    sizes = axis_sizes(tiny.config, len(ids))
    stages, expected = stage_outputs(tiny, torch.tensor([ids])), reference(tiny_folder, ids, True)
    for key in stages.keys() & expected.keys():
        layers = expected[key] if GPT2_GRAPH[key].per_layer else [expected[key]]
        assert_allclose(torch.cat(stages[key]), np.stack(layers), rtol=1e-4, atol=1e-5)
    assert_allclose(stages["last_logits"][0][0], expected["logits"], rtol=1e-4, atol=1e-5)

    mine = Draft(FILLED).build(tiny)
    ran = run_by_line(eighty_lines.__file__, lambda: mine.logits(torch.tensor([ids])))
    before = inspect.getsourcelines(eighty_lines.GPT2)[1] - 1
    listed = line_by_line()
    checked = 0
    for pair in PAIRS:
        line = listed.line_number(pair)
        code, _, comment = listed.lines[line - 1].strip().partition("  # ")
        targets = re.findall(r"\w+", code.partition(" = ")[0]) if " = " in code else ["return"]
        if not pair.makes + pair.axes + pair.sizes:
            continue
        values = [names[target] for names in ran[before + line] for target in targets]
        if pair.sizes:
            assert pair.sizes == tuple(targets)
            assert set(values) == {sizes[axis] for axis in pair.sizes}
            continue
        shapes = {tuple(value.shape) for value in values}
        if comment:
            assert shapes == {tuple(sizes[axis] for axis in comment.strip("()").split(", "))}
        if pair.axes:
            assert shapes == {tuple(sizes[axis] for axis in pair.axes)}
            continue
        correct = [tensor for key in pair.makes for tensor in stages[key]]
        assert all_in(values, correct), pair.begins
        assert all_in(correct, values), pair.begins
        if pair.makes != ("last_logits",):
            kinds = {tuple(sizes[axis] for axis in GPT2_GRAPH[key].axes) for key in pair.makes}
            assert shapes == kinds, pair.begins
        checked += 1
    assert checked == sum(bool(pair.makes) for pair in PAIRS) > 15


def test_lines_beside_make_the_same_stages(tiny: gpt2viz.Model) -> None:
    run = gpt2viz.trace(tiny, TEXT, explicit=True)
    for pair in PAIRS:
        for record in run.tensors:
            if record.key in pair.makes:
                assert record.line in pair.lines_beside, (pair.begins, record.key)


def test_every_executed_line_of_the_package_is_beside_one(tiny: gpt2viz.Model) -> None:
    ids = torch.tensor([tiny.tokenizer.encode(TEXT)])
    ran = run_by_line(network.__file__, lambda: tiny.network(ids, explicit=True))
    beside = {line for pair in PAIRS for line in pair.lines_beside}
    lines = inspect.getsource(network).splitlines()
    left = {lines[n - 1].split("  #")[0].strip() for n in ran.keys() - beside}
    assert left == set(PACKAGE_ONLY.strip().splitlines())


def test_every_statement_has_a_pair_of_its_own() -> None:
    listed = line_by_line()
    (whole,) = ast.parse("\n".join(listed.lines)).body
    statements = [node.lineno for node in ast.walk(whole) if isinstance(node, ast.stmt)]
    assert sorted(statements) == [listed.line_number(pair) for pair in PAIRS]
    empty = [not line.strip() for line in listed.lines]
    assert [pair is None for pair in listed.pairs] == empty
    assert len(inspect.getsource(eighty_lines).splitlines()) <= 80


@pytest.mark.parametrize("part", ["GPT2.forward: no such", "Block.forward: normed"])
def test_missing_or_ambiguous_part_is_an_error(part: str) -> None:
    with pytest.raises(LookupError, match="lines of"):
        _ = Pair("x", "", (part,)).lines_beside


def test_every_stage_of_a_run_has_its_lines() -> None:
    assert {key for pair in PAIRS for key in pair.makes + pair.towards} == set(GPT2_GRAPH)

"""The crane's arrows: what the browser draws is the tables, and what follows from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpt2viz.textbook import geometry, steps
from tests.app.pages import figure, heatmaps, open_chapter, sent
from tests.app.test_textbook_written import follows, formula, numbers
from tests.js.test_scripts import HERE, run
from tests.numpy_gpt2 import softmax

#: The address, and what query, keys and values are then.
STATES: dict[str, tuple[dict[str, str], Any, Any, Any]] = {
    "as it is": ({}, [0.7, 0.7], steps.CRANE_KEYS["bird"], steps.CRANE_VALUES["bird"]),
    "the other sentence": (
        {"crane": "machine", "crane_heat": "0.05", "crane_q": "0.12345,0.4567"},
        [0.12345, 0.4567],
        steps.CRANE_KEYS["machine"],
        steps.CRANE_VALUES["machine"],
    ),
    "edited": (
        {
            "crane_q": "-1.5,0.25",
            "crane_k_bird": "1,-2,0.3,0.4,-0.5,0.6",
            "crane_v_bird": "-1,0,2,-3,0.5,50",
            "crane_heat": "5.0",
        },
        [-1.5, 0.25],
        [[1, -2], [0.3, 0.4], [-0.5, 0.6]],
        [[-1, 0], [2, -3], [0.5, 50]],
    ),
    "no query, and the largest numbers": (
        {"crane_q": "0,0", "crane_k_bird": "100,-100,100,100,-100,0", "crane_heat": "0.05"},
        [0, 0],
        [[100, -100], [100, 100], [-100, 0]],
        steps.CRANE_VALUES["bird"],
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_arrows_are_the_tables_and_what_follows_from_them(state: str) -> None:
    address, q, k, v = STATES[state]
    at = open_chapter("crane", **address)
    found, query = sent(at, "crane_arrows"), np.array(q, float)
    assert_allclose(found["arrows"], [q, *k], atol=1e-12)
    assert_allclose(found["values"], v, atol=1e-12)
    size = query @ query
    feet = np.outer(np.array(k) @ query / size, query) if size else np.zeros((3, 2))
    assert_allclose(found["shadows"], feet, atol=1e-5)
    scores = np.array(k) @ query
    assert_allclose(found["scores"], scores, rtol=1e-6, atol=1e-6)
    weights = softmax(scores / float(address.get("crane_heat", 1)))
    assert_allclose(found["weights"], weights, atol=1e-6)
    assert_allclose(np.diff(found["ends"], axis=0), weights[:, None] * v, atol=1e-5)
    assert_allclose(
        heatmaps(figure(at, "crane_weights"))["weights of crane"][0], weights, atol=1e-6
    )
    heat = float(address.get("crane_heat", 1))
    written = formula(at, r"\text{softmax} " if heat == 1 else rf"\text{{softmax}}(s / {heat:g}) ")
    follows(written, weights)
    # What is written follows from what is written.
    follows(written, softmax(numbers(formula(at, r"q \cdot K^\top ")) / heat))


def test_what_the_browser_draws_on_the_way_is_what_is_computed_here(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0)
    cases: list[dict[str, Any]] = []
    for T, size, heat in [(1, 1, 1), (3, 1, 0.05), (3, 100, 10), (4, 3, 0.5), (3, 0, 1)]:
        q, k, v = (drawn.uniform(-size, size, shape) for shape in ((1, 2), (T, 2), (T, 2)))
        cases.append({"arrows": np.vstack([q, k]), "values": v, "heat": heat})
    written = [{name: np.asarray(x).tolist() for name, x in case.items()} for case in cases]
    (tmp_path / "points").write_text(json.dumps(written))
    answers = json.loads(run(HERE / "followed.js", tmp_path / "points").stdout)
    for case, found in zip(cases, answers, strict=True):
        (q, *k), v = case["arrows"], case["values"]
        asked, keys = np.tile(q, (len(k), 1)), np.array(k)
        here = steps.attend(asked, keys, v, scaled=False, temperature=float(case["heat"]))
        assert_allclose(found["scores"], here.scores[0], rtol=1e-5, atol=1e-4)
        assert_allclose(found["weights"], here.weights[0], rtol=1e-3, atol=1e-6)
        assert_allclose(found["shadows"], geometry.shadows(q, keys), rtol=1e-4, atol=1e-5)
        ends = geometry.laid_out(here.weights[0], v)
        assert_allclose(found["ends"], ends, rtol=1e-3, atol=1e-4)
        assert [found[name] for name in ("arrows", "values")] == [
            case[name].tolist() for name in ("arrows", "values")
        ]
        weights = softmax(keys @ q / float(case["heat"]))  # shares no code with either
        assert_allclose(found["weights"], weights, atol=1e-12)

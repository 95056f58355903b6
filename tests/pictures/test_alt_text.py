"""A picture in words says what is largest in it, and where: cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gpt2viz.export import alt_text
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Curve, Curves, Heatmaps, Lens, Reading
from gpt2viz.pictures.prediction import probability_bars

LABELS = ("A", "·<b>crane</b>", "·ate")
WEIGHTS = ((1, 0, 0), (0.25, 0.75, 0), (0.8, 0.15, 0.05))


def panel(values: object, title: str = "Head 2") -> Panel:
    numbers = np.array(values, np.float32)
    return Panel(title, numbers, Axis("query", LABELS), Axis("key", LABELS), name="2")


def test_a_matrix(subtests: pytest.Subtests) -> None:
    cases: list[tuple[object, str]] = [
        (WEIGHTS, "3 × 3, largest 0.8 at query 2 ·ate, key 0 A."),  # not the first row's 1
        (
            ((1, -3, 0), (0.5, 0, 0.25), (2.5, 0, -4.125)),
            "3 × 3, largest 2.5 at query 2 ·ate, key 0 A, smallest -4.12 at query 2 ·ate,"
            " key 2 ·ate.",
        ),
        (np.eye(3), "3 × 3, largest 1 at query 0 A, key 0 A."),
        (np.zeros((3, 3)), "All are 0."),
        (np.full((3, 3), np.nan), "No finite number."),
        (
            ((2, np.nan, np.nan), (5, -np.inf, 1), (0, 1, np.inf)),
            "3 × 3, largest 5 at query 1 ·<b>crane</b>, key 0 A.",
        ),
    ]
    for values, said in cases:
        with subtests.test(values=values, said=said):
            assert alt_text(Heatmaps("what", [panel(values)])) == said


def test_several_matrices_by_their_titles() -> None:
    two = [panel(WEIGHTS, "Mask on"), panel(np.zeros((3, 3)), "Mask off")]
    assert alt_text(Heatmaps("what", two, n_columns=2)) == (
        "Mask on: 3 × 3, largest 0.8 at query 2 ·ate, key 0 A. Mask off: all are 0."
    )
    many = [panel(np.array(WEIGHTS) / n, f"Head {n}") for n in range(1, 7)]
    assert alt_text(Heatmaps("what", many[::-1], n_columns=3)) == (
        "6 matrices; of all of them Head 1: 3 × 3, largest 0.8 at query 2 ·ate, key 0 A."
    )


def test_bars_and_curves() -> None:
    bars = probability_bars("what", ["·fish", "·<b>"], {"on": [12.5, 40], "off": [3, 1]})
    assert alt_text(bars) == "On: 2 bars, highest 40 at ·<b>. Off: 2 bars, highest 3 at ·fish."
    curve = Curve("held-out text", [0, 1, 2], [10.5, 4, 3.761], "accent", ("", "", ""))
    across = Curves("what", [curve], "x", "y")
    assert alt_text(across) == "Held-out text: from 10.5 at 0 to 3.76 at 2."
    panel = Panel(
        "next",
        np.array([[0.5], [1]], np.float32),
        Axis("", ["embeddings", "layer 3"], numbered=False),
        Axis("after token", ["A"]),
    )
    down = Reading("", [5120, 1], [2.5, 0], ("accent", "second"), "circle")
    assert alt_text(Lens("what", panel, [down])) == (
        "2 × 1, largest 1 at layer 3, after token 0 A. Rank of the answer: from 5,120 at "
        "embeddings to 1 at layer 3. Entropy (bits): from 2.5 at embeddings to 0 at layer 3."
    )
    assert alt_text(Curves("what", (), "x", "y")) == ""

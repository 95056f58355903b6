"""Lines: each goes where the matrix has its number, and what is left out is counted."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpt2viz.pictures.lines import AT_REST, MOST_LINES, lines
from gpt2viz.pictures.panel import Axis, Panel


def panel(values: np.ndarray, masked: np.ndarray | None = None) -> Panel:
    names = [f"t{n}" for n in range(len(values))]
    return Panel(
        "", values.astype(np.float32), Axis("query", names), Axis("key", names), masked=masked
    )


def test_a_line_goes_from_its_row_to_its_column() -> None:
    values = np.array([[1, 0, 0], [0.995, 0.005, 0], [0.25, 0.5, 0.25]])
    found = lines("what", [panel(values)], ["Head 0"])
    (only,) = found.sources
    ends = list(zip(only.queries.tolist(), only.keys.tolist(), strict=True))
    assert ends == [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2)]
    assert_allclose(only.weights, [1, 0.995, 0.25, 0.5, 0.25], rtol=1e-6)
    assert (found.kept, found.at_rest, found.peak) == (0.01, 0.01, 1)
    assert_allclose(found.lost, 0.005 / 3, rtol=1e-5)


def test_a_masked_cell_and_one_without_a_number_are_no_lines() -> None:
    values = np.array([[1, 0.5], [np.nan, 1]])
    masked = np.array([[False, True], [False, False]])
    (only,) = lines("what", [panel(values, masked)], ["Head 0"]).sources
    assert only.queries.tolist() == only.keys.tolist() == [0, 1]


def test_lengths_are_drawn_on_their_own_scale() -> None:
    found = lines("what", [panel(np.array([[8, 0.05], [0.1, 4]]))], ["Head 0"], unit=False)
    assert found.peak == 8
    assert found.kept == 0.08
    assert found.sources[0].weights.tolist() == pytest.approx([8, 0.1, 4])


def test_a_long_text_keeps_its_widest_lines_and_says_which() -> None:
    generator = np.random.default_rng(0)
    four = [panel(generator.dirichlet(np.full(256, 0.3), 256)) for _ in range(4)]
    found = lines("what", four, list("abcd"))
    every = np.stack([one.values for one in four])
    assert (every >= found.at_rest).sum() <= AT_REST
    assert sum(len(source.weights) for source in found.sources) <= MOST_LINES
    assert min(source.weights.min() for source in found.sources) >= found.kept
    assert_allclose(found.lost, every[every < found.kept].sum() / every.sum(), rtol=1e-4)


@pytest.mark.parametrize(("n_panels", "n_tokens"), [(5, 3), (1, 257)])
def test_more_than_can_be_told_apart_is_refused(n_panels: int, n_tokens: int) -> None:
    with pytest.raises(ValueError, match="at most 4 of 256"):
        lines("what", [panel(np.eye(n_tokens))] * n_panels, ["Head"] * n_panels)

"""Rows without their first weight; ``test_edited_runs`` compares the rest with NumPy."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from gpt2viz.analysis.attribution import drop_first


def test_rows_without_the_first_token() -> None:
    weights = np.array([[1, 0, 0], [0.9, 0.1, 0], [0.6, 0.3, 0.1]], np.float32)
    nan = np.nan
    expected = [[nan, nan, nan], [nan, 1, 0], [nan, 0.75, 0.25]]
    assert_allclose(drop_first(weights), expected, rtol=1e-6)
    assert_allclose(drop_first(weights[None])[0], expected, rtol=1e-6)

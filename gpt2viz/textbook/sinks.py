"""Where a head rests that has nothing to say: its weights must sum to 1 all the same.

G. Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gpt2viz.textbook.steps import rows

# The last word's scores of all four, and what each of them hands over: the first next to nothing.
SCORES = (4.0, 3.0, 2.0, 3.0)
VALUES = ((0.1, 0.0), (1.0, 0.2), (0.1, 0.9), (0.8, -0.6))


class Look(NamedTuple):
    """One query's weights (T,), the mixture of the values (d,), and how long that vector is."""

    weights: Tensor
    output: Tensor
    length: float


def look(scores: ArrayLike, values: ArrayLike, forget_first: bool = False) -> Look:
    """Scores (T,) to weights, and the mixture of values (T, d).

    ``forget_first`` hides token 0, as a cache does that drops the oldest.
    """
    seen = rows(scores).clone()
    if forget_first:
        seen[0] = -math.inf
    weights = torch.softmax(seen, dim=-1)  # sums to 1, whatever the scores are
    output = weights @ rows(values)
    return Look(weights, output, float(output.norm()))

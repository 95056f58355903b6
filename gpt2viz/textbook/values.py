"""Why values aren't the words' own vectors: what a word is found by, and what it hands over.

The values may have another size than queries and keys (Vaswani et al. 2017, section 3.2.1, where
they are d_v and d_k).
"""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import ArrayLike

from gpt2viz.textbook.steps import Steps, attend, project

WORDS = ("crane", "ate", "fish")
#: What the numbers of x stand for: two say what kind of word it is, three what it tells.
KINDS, TOLD = ("thing", "action"), ("flies", "eats", "swims")
X = (
    (1.0, 0.0, 1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0, 1.0, 0.0),
    (1.0, 0.0, 0.0, 0.0, 1.0),
)
#: Things look for actions, and actions for things: (2, 5).
LOOKS_FOR = ((0.0, 3.0, 0.0, 0.0, 0.0), (3.0, 0.0, 0.0, 0.0, 0.0))
#: A word is found by its kind: (2, 5).
FOUND_BY = ((1.0, 0.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0, 0.0))
#: It hands over what it tells: (3, 5).
HANDS_OVER = ((0.0, 0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 0.0, 1.0))


class HandedOver(NamedTuple):
    """The same weights, with two kinds of values: x itself (T, C), and ``chosen`` (T, d_v)."""

    itself: Steps
    chosen: Steps


def hand_over(x: ArrayLike, w_q: ArrayLike, w_k: ArrayLike, w_v: ArrayLike) -> HandedOver:
    """Words x (T, C) through one head, whose values are x itself, and then x W_Vᵀ.

    W_Q and W_K are (d_k, C): queries meet keys, so both have d_k numbers. W_V is (d_v, C), for
    any d_v.
    """
    q, k = project(x, w_q), project(x, w_k)  # (T, d_k)
    return HandedOver(attend(q, k, x), attend(q, k, project(x, w_v)))

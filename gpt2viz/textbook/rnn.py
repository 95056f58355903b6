"""A recurrent network and attention compared: sequential steps, and how far gradients reach.

Elman 1990, "Finding Structure in Time"; Bengio et al. 1994, "Learning Long-Term Dependencies with
Gradient Descent Is Difficult".
"""

from __future__ import annotations

from functools import lru_cache, partial

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.autograd.functional import jacobian as jacobian_of

from gpt2viz.textbook.attention import attend, project
from gpt2viz.textbook.tensors import normal, rows

#: Random networks over which a gradient's size is averaged.
DRAWS = 20

#: A small network for words of two numbers: tables (2, 2).
W_X = ((1.0, 0.0), (0.0, 1.0))
W_H = ((0.5, -0.5), (0.5, 0.5))


def run_rnn(x: ArrayLike, w_x: ArrayLike, w_h: ArrayLike) -> Tensor:
    """The state after each word of x (T, C): (T, C). Each depends on the one before."""
    words, w_x, w_h = rows(x), rows(w_x), rows(w_h)
    states = [torch.zeros(words.shape[1])]
    for word in words:
        states.append(torch.tanh(w_x @ word + w_h @ states[-1]))  # (C,)
    return torch.stack(states[1:])


def random_rnn(x: Tensor, seed: int) -> Tensor:
    """The last state (C,) of a random network that reads x (T, C)."""
    C = x.shape[1]
    w_x, w_h = normal(2, C, C, seed=seed) / C**0.5
    return run_rnn(x, w_x, w_h)[-1]


def random_attention(x: Tensor, seed: int) -> Tensor:
    """A random causal head's output for the last word of x (T, C): (C,)."""
    C = x.shape[1]
    q, k, v = (project(x, w / C**0.5) for w in normal(3, C, C, seed=seed))
    return attend(q, k, v, causal=True).output[-1]


@lru_cache(maxsize=8)
def reach(T: int, C: int = 16) -> dict[str, tuple[float, ...]]:
    """The last word's dependence on each word: gradients from T − 1 words before to 0.

    The size is the Frobenius norm of the Jacobian of the last output (C,) in each word (C,), a
    mean over ``DRAWS`` random networks and texts. By the network's name.
    """
    by_network = {}
    for name, last in {"RNN": random_rnn, "attention": random_attention}.items():
        sizes = torch.zeros(T)
        for seed in range(DRAWS):
            x = normal(T, C, seed=1000 + seed)
            jacobian = jacobian_of(  # type: ignore[no-untyped-call]
                partial(last, seed=seed), x
            )  # (C, T, C)
            sizes += jacobian.square().sum(dim=(0, 2)).sqrt() / DRAWS
        by_network[name] = tuple(sizes.tolist())
    return by_network

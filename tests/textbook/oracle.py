"""The examples' expected results, by NumPy in double precision or from published figures.

Shares no code with ``gpt2viz.textbook``. ``RESULTS`` has an entry for each claim of an example, in
the claims' order: numbers, a text, or None for a random number, which tests bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np
import torch

from tests.numpy_gpt2 import ACTIVATIONS, softmax


def draw(*size: int, scale: float = 1.0) -> np.ndarray:
    """Normal numbers, always the same ones for a size."""
    return np.random.default_rng(sum(size)).normal(0, scale, size)


def hide(x: np.ndarray) -> np.ndarray:
    return np.where(np.tri(len(x), dtype=bool), x, -np.inf)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The causal weights of a head, and its output."""
    weights = softmax(hide(q @ k.T / np.sqrt(q.shape[1])))
    return weights, weights @ v


def crane(keys: Any, values: Any) -> np.ndarray:
    return softmax(np.array(keys) @ [0.7, 0.7]) @ np.array(values)


def sentence() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.array([[0.1, 0.1], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0]])
    torch.manual_seed(42)
    w_q, w_k, w_v = (torch.randn(2, 2).double().numpy() for _ in range(3))
    scores = x @ w_q.T @ w_k @ x.T
    weights = softmax(scores / sqrt(2))
    return scores, weights, weights @ x @ w_v.T


def gelu(x: Any) -> np.ndarray:
    return ACTIVATIONS["gelu"](np.array(x))


def gelu_tanh(x: Any) -> np.ndarray:
    return ACTIVATIONS["gelu_new"](np.array(x))


def mixed_words(order: list[int], positions: Any, causal: bool) -> np.ndarray:
    """The outputs of crane, ate and fish attending in that order, sorted by word: (3, 2)."""
    x = np.array([[0.9, 0.1], [0.1, 0.8], [0.7, 0.3]])[order] + np.array(positions)
    scores = x @ x.T / sqrt(2)
    return (softmax(hide(scores) if causal else scores) @ x)[order]


def order_difference(positions: Any, causal: bool) -> np.ndarray:
    """The largest difference between the words of "crane ate fish" and of "fish ate crane"."""
    first, second = (mixed_words(order, positions, causal) for order in ([0, 1, 2], [2, 1, 0]))
    return np.abs(first - second).max()


def tiny_scores(x: np.ndarray) -> list[np.ndarray]:
    """The scaled scores of the tiny crane's heads: for the subject, and for one word back."""
    thing, deed = x[:, 0], x[:, 1]
    quarters = np.subtract.outer(np.arange(4), np.arange(4)) - 1
    subject = np.outer(thing + deed, thing - 2 * deed)
    return [subject / sqrt(2), 4 * np.cos(np.pi / 2 * quarters) / sqrt(2)]


def tiny_run() -> dict[str, np.ndarray]:
    """The tiny crane's run from text to next word, written out for its four words."""
    words = {"A": (-1, 1), "crane": (2, 0), "ate": (0, 2), "fish": (2, 1), ".": (-1, -1)}
    table = np.array([[*pair, 0, 0] for pair in words.values()], float)
    turned = np.pi / 2 * np.arange(4)
    hand = np.stack([np.zeros(4), np.zeros(4), np.sin(turned), np.cos(turned)], axis=1)
    x = table[:4] + hand
    subject, previous = (softmax(hide(scores)) for scores in tiny_scores(x))
    merged = np.concatenate([subject @ x[:, :2], previous @ x[:, :2]], axis=1)
    attention = np.stack([merged[:, 0] / 2, merged[:, 3] / 2, *np.zeros((2, 4))], axis=1)
    mid = x + attention
    thing, deed = mid[:, 0], mid[:, 1]
    widened = np.stack([thing - 2 * deed, deed - thing, thing + 2 * deed - 6], axis=1)
    none, a, has = activated = np.maximum(widened, 0).T
    mlp = np.stack([a - none - 6 * has, none - a - 6 * has, *np.zeros((2, 4))], axis=1)
    end = mid + mlp
    logits = end @ table.T
    return {
        "tokens": table[:4],
        "positions": hand,
        "x": x,
        "merged": merged,
        "attention": attention,
        "mid": mid,
        "widened": widened,
        "bent": activated.T,
        "mlp": mlp,
        "end": end,
        "logits": logits,
        "probabilities": softmax(logits),
    }


def tiny_run_with(tables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tiny crane's run with any tables; the last column of ``widen`` has the biases."""
    words, merge, back = (tables[name] for name in ("tokens", "merge", "back"))
    heads = [[tables[f"{part}{head}"] for part in "qkv"] for head in (0, 1)]
    x = words[:4] + tables["positions"]
    scaled = [x @ q.T @ k @ x.T / sqrt(2) for q, k, _ in heads]
    weights = [softmax(hide(scores)) for scores in scaled]
    merged = np.hstack([w @ x @ v.T for w, (_, _, v) in zip(weights, heads, strict=True)])
    mid = x + merged @ merge.T
    widened = np.einsum("tc,fc->tf", np.hstack([mid, np.ones((4, 1))]), tables["widen"])
    end = mid + np.where(widened > 0, widened, 0) @ back.T
    return {
        "x": x,
        "free": softmax(scaled[0]),
        "looks": np.stack(weights),
        "merged": merged,
        "attention": merged @ merge.T,
        "mid": mid,
        "widened": widened,
        "bent": np.where(widened > 0, widened, 0),
        "mlp": end - mid,
        "end": end,
        "logits": end @ words.T,
        "probabilities": softmax(end @ words.T),
    }


JOURNEY = np.array(
    [
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ]
)
RAW = np.array(
    [
        [0.0531, 0.4137, 0.1802, 0.2721],
        [0.1782, 1.3888, 0.6053, 0.9101],
        [0.0618, 0.4815, 0.2098, 0.3151],
        [0.1260, 0.9822, 0.4280, 0.6433],
    ]
)
SCALED = np.array(
    [
        [0.0375, 0.2925, 0.1274, 0.1924],
        [0.1260, 0.9822, 0.4280, 0.6433],
        [0.0437, 0.3405, 0.1484, 0.2228],
        [0.0891, 0.6945, 0.3023, 0.4549],
    ]
)
WALKED = [2.40, -0.50, 1.88, -1.91, 2.08, 1.16, 0.41, -2.12]
FIVE = [2.4, 1.0, 0.0, -0.5, -2.0]
POSITIONS = [[0.3, 0.0], [0.0, 0.3], [-0.3, 0.0]]
BIRD = ([[0.7, 0.7], [0.9, 0.1], [0.9, 0.1]], [[0.5, 0.5], [0.9, 0.1], [0.8, 0.2]])
MACHINE = ([[0.7, 0.7], [0.1, 0.9], [0.1, 0.9]], [[0.5, 0.5], [0.1, 0.9], [0.2, 0.8]])
#: The released models' parameters, and their heads (Hugging Face's checkpoints).
RELEASED = (124_439_808, 354_823_168, 774_030_080, 1_557_611_200)
HEADS = (12, 16, 20, 25)
SUM = np.array([0.3, 0.0, 0.5, 0.1])
PIPELINE = (
    *("(2, 6, 768)", "(2, 6, 768)", "(2, 6, 12, 64)", "(2, 12, 6, 64)", "(2, 12, 6, 6)"),
    *(
        "(2, 12, 6, 6)",
        "(2, 12, 6, 6)",
        "(2, 12, 6, 64)",
        "(2, 6, 12, 64)",
        "(2, 6, 768)",
        "(2, 6, 768)",
    ),
)

_scores, _weights, _output = sentence()
_journey = softmax(JOURNEY @ JOURNEY.T)
_formula = 50_304 * 768 + 1_024 * 768 + 12 * (12 * 768**2 + 4 * 768) + 2 * 768

RESULTS: dict[str, list[Any]] = {
    "E1": [[50257, 1024, 12, 12, 768], "True"],
    "E2": ["(10, 3)", "(2, 4)", "(2, 4, 3)", "True"],
    "E3": [
        *("(2, 5, 3)", "(5, 3)", "(2, 5, 3)"),
        [order_difference(np.zeros((3, 2)), causal=False)],
        [order_difference(POSITIONS, causal=False)],
        [order_difference(np.zeros((3, 2)), causal=True)],
    ],
    "E4": [
        [0.98, 0.7, 0.7],
        softmax(np.array([0.98, 0.7, 0.7])),
        crane(*BIRD),
        crane(*MACHINE),
        [0.5, 0.5],
    ],
    "E5": ["(1, 4, 2)", "(1, 4, 4)", _scores, _weights, _output],
    "E6": ["True"],
    "E7": [
        *(np.tri(4), np.tri(5), RAW / sqrt(2), softmax(hide(SCALED))),
        *softmax(SCALED)[:3, :3],
    ],
    "E8": ["(1, 4, 768)", "(1, 12, 4, 64)", "(1, 12, 4, 64)", "(1, 4, 768)", "(1, 4, 768)"],
    "E9": [[1.5, 0.5, -2.0, 0.0]],
    "E10": [*([value] for value in gelu(FIVE)), gelu(WALKED), gelu_tanh(WALKED)],
    "E11": [SUM],
    "E12": [[SUM.mean()], [SUM.var()], (SUM - SUM.mean()) / np.sqrt(SUM.var() + 1e-5), None, None],
    "E13": [None, [1 / 0.9], "True"],
    "E14": ["(1, 5, 50)", "(1, 1, 50)", "True"],
    "E15": [
        gelu_tanh(FIVE),
        gelu(FIVE),
        np.maximum(FIVE, 0),
        [x / (1 + np.exp(-x)) for x in FIVE],
        [2048],
    ],
    "E16": [
        *([_formula], [_formula], [RELEASED[0]], [RELEASED[0]]),
        *([50_304 * 768], [50_304 * 768 / (RELEASED[0] + 47 * 768)]),
        *([50_304 * 1600], [50_304 * 1600 / (RELEASED[3] + 47 * 1600)], [0]),
    ],
    "E17": [[1000 * 0.02 / sqrt(24)], None, None],
    "E18": [
        [64, 64, 64, 64],
        [256, 96],
        [1024 / 24, 1280 / 36],
        [6_050_882_784],  # as Hugging Face counts its checkpoint
        [20_554_567_680],  # Black et al. 2022, table 1
        *([n] for total, heads in zip(RELEASED, HEADS, strict=True) for n in (total, total, heads)),
    ],
    "E19": [JOURNEY @ JOURNEY[1], _journey[1], _journey[1], _journey[1] @ JOURNEY],
    "E20": ["(1, 6, 2)", [4 * 768**2 + 768], _journey[0] @ JOURNEY, None, None],
    "E21": list(PIPELINE),
    "E22": [None, None, None, None],
    "E23": [
        *("AssertionError", "AttributeError", "RuntimeError", "RuntimeError", "RuntimeError"),
    ],
    "E24": ["True"],
    "E25": [None],
    "E26": ["True", None],
}

"""Attention by hand: a few rows of numbers in, every intermediate tensor out.

Vaswani et al. 2017, "Attention Is All You Need", equation 1. Rows of the (T, T) matrices are
queries, columns are keys.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gpt2viz.textbook.claims import Claim, shape
from gpt2viz.textbook.tensors import normal, rows


class Steps(NamedTuple):
    """q, k (…, T, hs), v (…, T, d), four matrices (…, T, T) made of them, the output (…, T, d)."""

    q: Tensor
    k: Tensor
    v: Tensor
    scores: Tensor
    scaled_scores: Tensor
    masked_scores: Tensor
    weights: Tensor
    output: Tensor


def attend(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    scaled: bool = True,
    causal: bool = False,
    temperature: float = 1,
) -> Steps:
    """Every step from queries, keys and values to the weighted sum of values.

    ``scaled`` divides the scores by √hs; ``causal`` masks later keys; ``temperature``, above 0,
    divides the input of softmax.
    """
    q, k, v = rows(q), rows(k), rows(v)  # (…, T, hs), (…, T, hs), (…, T, d)
    scores = q @ k.mT  # (…, T, T)
    smaller = scores / math.sqrt(q.shape[-1]) if scaled else scores  # (…, T, T)
    masked = hide_later(smaller) if causal else smaller  # (…, T, T)
    weights = torch.softmax(masked / temperature, dim=-1)  # (…, T, T), each row sums to 1
    return Steps(q, k, v, scores, smaller, masked, weights, weights @ v)


def project(x: ArrayLike, w: ArrayLike) -> Tensor:
    """Each row of x (T, C) times w (hs, C): its query, key or value (T, hs)."""
    return rows(x) @ rows(w).T


def hide_later(scores: Tensor) -> Tensor:
    """(…, T, T) scores with −∞ where the key comes after the query, so that its weight is 0."""
    may_see = torch.ones_like(scores).tril()  # 1 on and below the diagonal
    return scores.masked_fill(may_see == 0, -math.inf)


def qkv(x: ArrayLike, w_q: ArrayLike, w_k: ArrayLike, w_v: ArrayLike) -> list[Tensor]:
    """q, k and v (T, C) from one multiplication: the three matrices stacked, the result split."""
    stacked = torch.cat([rows(w_q), rows(w_k), rows(w_v)])  # (3C, C)
    return list((rows(x) @ stacked.T).chunk(3, dim=-1))  # (T, 3C) -> three times (T, C)


# E4. One ambiguous word in a plane: first coordinate "animal", second "machine". Only the crane has
# a query; those of "ate" and the others are never needed.
CRANE_WORDS = {"bird": ("crane", "ate", "fish"), "machine": ("crane", "lifted", "steel")}
CRANE_QUERY = ((0.7, 0.7),)
CRANE_KEYS = {
    "bird": ((0.6, 0.8), (0.9, 0.1), (0.8, 0.2)),
    "machine": ((0.8, 0.6), (0.1, 0.9), (0.2, 0.8)),
}
#: The texts' own keys. They give the same scores, but three arrows of four would hide each other.
_PRINTED_KEYS = {
    "bird": ((0.7, 0.7), (0.9, 0.1), (0.9, 0.1)),
    "machine": ((0.7, 0.7), (0.1, 0.9), (0.1, 0.9)),
}
CRANE_VALUES = {
    "bird": ((0.5, 0.5), (0.9, 0.1), (0.8, 0.2)),
    "machine": ((0.5, 0.5), (0.1, 0.9), (0.2, 0.8)),
}

# E5. Four words in a plane: first coordinate "object", second "action".
SENTENCE = ("A", "crane", "ate", "fish")
SENTENCE_X = ((0.1, 0.1), (1.0, 0.2), (0.1, 0.9), (0.8, 0.0))
SEED = 42

# E19. Six words in space.
JOURNEY = ("Your", "journey", "starts", "with", "one", "step")
JOURNEY_X = (
    (0.43, 0.15, 0.89),
    (0.55, 0.87, 0.66),
    (0.57, 0.85, 0.64),
    (0.22, 0.58, 0.33),
    (0.77, 0.25, 0.10),
    (0.05, 0.80, 0.55),
)

# E5's raw scores and E7's scaled ones, as the texts print them.
PRINTED_SCORES = (
    (0.0531, 0.4137, 0.1802, 0.2721),
    (0.1782, 1.3888, 0.6053, 0.9101),
    (0.0618, 0.4815, 0.2098, 0.3151),
    (0.1260, 0.9822, 0.4280, 0.6433),
)
PRINTED_SCALED = (
    (0.0375, 0.2925, 0.1274, 0.1924),
    (0.1260, 0.9822, 0.4280, 0.6433),
    (0.0437, 0.3405, 0.1484, 0.2228),
    (0.0891, 0.6945, 0.3023, 0.4549),
)


def crane(sentence: str, causal: bool = False) -> Steps:
    """E4: the crane's query with its own key and its neighbours'; no scaling, as in the texts."""
    keys = _PRINTED_KEYS[sentence]
    query = CRANE_QUERY * len(keys)
    return attend(query, keys, CRANE_VALUES[sentence], scaled=False, causal=causal)


def random_weights(seed: int = SEED) -> list[Tensor]:
    """E5: W_Q, W_K and W_V (2, 2), standard normal numbers drawn in this order from a seed."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 2, generator=generator) for _ in range(3)]


#: E5 with matrices chosen by hand: objects attend to actions and actions to objects; a word's key
#: and value are its own kind.
NAMED_WEIGHTS = (((0, 4), (4, 0)), ((1, 0), (0, 1)), ((1, 0), (0, 1)))


def sentence_steps() -> Steps:
    """E5: "A crane ate fish" through one head, with the weights of the texts' seed."""
    q, k, v = (project(SENTENCE_X, w) for w in random_weights())
    return attend(q, k, v)


def crane_claims() -> list[Claim]:
    """E4."""
    bird, machine = crane("bird"), crane("machine")
    return [
        Claim("scores of crane", "0.98 0.70 0.70", bird.scores[0]),
        Claim("weights of crane", "0.4 0.3 0.3", bird.weights[0]),
        Claim("crane after “ate fish”", "0.71 0.29", bird.output[0]),
        Claim("crane after “lifted steel”", "0.29 0.71", machine.output[0]),
        Claim("crane after “ate fish”, with the mask on", "", crane("bird", causal=True).output[0]),
    ]


_NOT_LINEAR = (
    "No W_Q and W_K give these numbers. x of “A” is an eleventh of “crane” plus “ate”, so its row "
    "of scores is an eleventh of the sum of their rows: 0.1700 for “crane”, not 0.4137."
)
_NO_VALUES = (
    "No W_V gives these rows from softmax of the printed scores: the best one is still off by "
    "0.0107 somewhere."
)
_FULL = "Three of the four weights already sum to 1, which leaves nothing for the fourth."
_THREE_OFF = (
    "Three of the sixteen are not the printed raw scores over √2: 0.9822, 0.6433 and 0.3023 should "
    "be 0.9820, 0.6435 and 0.3026."
)


def _format_table(table: tuple[tuple[float, ...], ...]) -> str:
    return " ".join(f"{x:.4f}" for row in table for x in row)


def sentence_claims() -> list[Claim]:
    """E5."""
    steps = sentence_steps()
    mixed = "0.0652 -0.1691 0.1147 -0.2974 0.0768 -0.1991 0.1005 -0.2607"
    return [
        Claim("shape of q, k and v", "(1, 4, 2)", shape(steps.q[None])),
        Claim("shape of the scores", "(1, 4, 4)", shape(steps.scores[None])),
        Claim("raw scores", _format_table(PRINTED_SCORES), steps.scores, _NOT_LINEAR),
        Claim("weights", "", steps.weights),
        Claim("output", mixed, steps.output, _NO_VALUES),
    ]


def fused_claims() -> list[Claim]:
    """E6."""
    steps = sentence_steps()
    q, k, v = qkv(SENTENCE_X, *random_weights())
    same = torch.allclose(attend(q, k, v).output, steps.output)
    return [Claim("fused and separate outputs are the same", "True", str(same))]


def mask_claims() -> list[Claim]:
    """E7."""
    scaled = rows(PRINTED_SCALED)
    weights = torch.softmax(hide_later(scaled), dim=-1)
    four = "1 0 0 0  1 1 0 0  1 1 1 0  1 1 1 1"
    five = "1 0 0 0 0  1 1 0 0 0  1 1 1 0 0  1 1 1 1 0  1 1 1 1 1"
    printed = (
        "1.0000 0.0000 0.0000 0.0000 0.2995 0.7005 0.0000 0.0000 "
        "0.3129 0.3807 0.3064 0.0000 0.2186 0.3999 0.2445 0.1370"
    )
    before = torch.softmax(scaled, dim=-1)[:, :3]
    rows_before = ("0.37 0.32 0.31", "0.31 0.37 0.32", "0.36 0.31 0.33")
    return [
        Claim("mask of 4 tokens", four, torch.ones(4, 4).tril()),
        Claim("mask of 5 tokens", five, torch.ones(5, 5).tril()),
        Claim(
            "scaled scores from the printed raw ones",
            _format_table(PRINTED_SCALED),
            rows(PRINTED_SCORES) / math.sqrt(2),
            _THREE_OFF,
        ),
        Claim(
            "causal weights from the printed scaled scores",
            printed,
            weights,
            "Softmax of the masked scores printed just above them gives other numbers.",
        ),
        *(
            Claim(f"weights of “{word}” before masking, first three of four", row, computed, _FULL)
            for word, row, computed in zip(SENTENCE, rows_before, before, strict=False)
        ),
    ]


def journey_claims() -> list[Claim]:
    """E19, the word "journey": vectors are queries, keys and values at once, nothing is learned."""
    steps = attend(JOURNEY_X, JOURNEY_X, JOURNEY_X, scaled=False)
    return [
        Claim("scores", "0.9544 1.4950 1.4754 0.8434 0.7070 1.0865", steps.scores[1]),
        Claim("weights", "0.1385 0.2379 0.2333 0.1240 0.1082 0.1581", steps.weights[1]),
        Claim(
            "the same weights where the text first gives them",
            "0.14 0.24 0.23 0.13 0.11 0.16",
            steps.weights[1],
            "0.1240 rounds to 0.12; as printed, the six sum to 1.01.",
        ),
        Claim("context vector", "0.4419 0.6515 0.5683", steps.output[1]),
    ]


def added_mask(T: int) -> Tensor:
    """M (T, T): 0 where a query may see a key, −∞ where the key comes later."""
    return torch.full((T, T), -math.inf).triu(diagonal=1)


def add_mask(scores: Tensor) -> Tensor:
    """(T, T) scores + M: where M is 0 they stay, where it is −∞ they become −∞."""
    return scores + added_mask(len(scores))


class StoredMask(nn.Module):
    """The triangle for n_positions, made once and kept as a buffer, as in minGPT (Karpathy 2020).

    (B, nh, T, T) scores -> (B, nh, T, T), with −∞ where the key comes later. A buffer moves along
    with the module, to a GPU and into its file, but is never trained.
    """

    bias: Tensor

    def __init__(self, n_positions: int) -> None:
        super().__init__()
        triangle = torch.ones(n_positions, n_positions).tril()
        self.register_buffer("bias", triangle.view(1, 1, n_positions, n_positions))

    def forward(self, scores: Tensor) -> Tensor:
        T = scores.shape[-1]
        may_see = self.bias[:, :, :T, :T]  # (1, 1, T, T)
        return scores.masked_fill(may_see == 0, -math.inf)  # (B, nh, T, T)


def stored_mask_steps(n_positions: int, B: int, nh: int, T: int) -> list[tuple[str, str]]:
    """(operation, shape after it) where a stored mask is applied to scores (B, nh, T, T)."""
    module, scores = StoredMask(n_positions), torch.zeros(B, nh, T, T)
    triangle = module.bias[0, 0]
    return [
        ("ones(n, n).tril()", str(tuple(triangle.shape))),
        (".view(1, 1, n, n), kept as a buffer", str(tuple(module.bias.shape))),
        ("[:, :, :T, :T]: what this text needs", str(tuple(module.bias[:, :, :T, :T].shape))),
        ("the scores that it meets", str(tuple(scores.shape))),
        ("masked_fill: stretched over B and nh", str(tuple(module(scores).shape))),
    ]


class Closed(NamedTuple):
    """Scores and their softmax (T, T), with the mask applied to the first rows only."""

    scores: Tensor
    weights: Tensor


def closing(scores: ArrayLike) -> list[Closed]:
    """The mask applied to scores (T, T) row by row: T + 1 steps, the first without any of it."""
    scores = rows(scores)
    hidden, counts = hide_later(scores), range(len(scores) + 1)
    partly = (torch.cat([hidden[:n], scores[n:]]) for n in counts)  # n rows are closed
    return [Closed(now, torch.softmax(now, dim=-1)) for now in partly]


def shadows(q: ArrayLike, k: ArrayLike) -> Tensor:
    """Each key (T, hs) projected onto the line through 0 and the query (hs,): points (T, hs).

    A score q · k is the query's length times how far its point lies from 0, with a minus on the far
    side of 0. For a query that is 0 there is no line, and all points are 0.
    """
    q, k = rows(q), rows(k)
    size = q @ q
    along = k @ q / size if size > 0 else torch.zeros(len(k))  # (T,), in lengths of the query
    return along[:, None] * q


def tip_to_tail(weights: ArrayLike, v: ArrayLike) -> Tensor:
    """Values (T, d) scaled by their weights (T,) and put tip to tail: (T + 1, d).

    The first point is 0, the last the weighted sum weights · v.
    """
    pieces = rows(weights)[:, None] * rows(v)  # (T, d)
    return torch.cat([torch.zeros(1, pieces.shape[1]), pieces.cumsum(dim=0)])


VALUE_WORDS = ("crane", "ate", "fish")
#: The channels of x: two for the kind of word, three for its meaning.
VALUE_KINDS, VALUE_WRITTEN = ("thing", "action"), ("flies", "eats", "swims")
VALUE_X = (
    (1.0, 0.0, 1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0, 1.0, 0.0),
    (1.0, 0.0, 0.0, 0.0, 1.0),
)
#: W_Q: the query of a thing is for actions, that of an action for things: (2, 5).
VALUE_WQ = ((0.0, 3.0, 0.0, 0.0, 0.0), (3.0, 0.0, 0.0, 0.0, 0.0))
#: W_K: a word's key is its kind: (2, 5).
VALUE_WK = ((1.0, 0.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0, 0.0))
#: W_V: a word's value is its meaning: (3, 5).
VALUE_WV = ((0.0, 0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 0.0, 1.0))


def compare_values(
    x: ArrayLike, w_q: ArrayLike, w_k: ArrayLike, w_v: ArrayLike
) -> tuple[Steps, Steps]:
    """Words x (T, C) through one head, with x itself as the values, and with x W_Vᵀ.

    W_Q and W_K are (d_k, C): queries and keys are compared, so both have d_k numbers. W_V is
    (d_v, C), for any d_v.
    """
    q, k = project(x, w_q), project(x, w_k)  # (T, d_k)
    return attend(q, k, x), attend(q, k, project(x, w_v))


SCALE_DRAWS = 400


class Spread(NamedTuple):
    """A mean, and the 10th and 90th percentile."""

    mean: float
    low: float
    high: float


@lru_cache(maxsize=32)
def score_variance(hs: int) -> tuple[float, float]:
    """Variance of q·k, and of q·k / √hs, for random q and k (40000, hs).

    Each of their numbers is drawn from a normal distribution of variance 1, so that q·k is a sum
    of hs products of variance 1: its variance is hs (Vaswani et al. 2017, footnote 4).
    """
    q, k = normal(2, 40_000, hs, seed=0)
    scores = (q * k).sum(dim=-1)  # (40000,)
    return float(scores.var()), float((scores / math.sqrt(hs)).var())


def random_scores(hs: int) -> Tensor:
    """The scores (n_draws, 8) of random queries, each with eight random keys of its own."""
    drawn = normal(SCALE_DRAWS, 1 + 8, hs, seed=0)
    queries, keys = drawn[:, 0], drawn[:, 1:]  # (n_draws, hs), (n_draws, 8, hs)
    return (keys @ queries[:, :, None])[:, :, 0]


def sharpness(scores: ArrayLike, divisor: float) -> Tensor:
    """Softmax of scores (…, n) over a divisor, the largest weight first: (…, n)."""
    weights = torch.softmax(rows(scores) / divisor, dim=-1)
    return weights.sort(dim=-1, descending=True).values


def largest_weight(scores: ArrayLike, divisor: float) -> Spread:
    """The largest weight of each draw of ``random_scores``: its mean and spread."""
    first = sharpness(scores, divisor)[:, 0]
    low, high = first.quantile(torch.tensor([0.1, 0.9])).tolist()
    return Spread(float(first.mean()), low, high)


def scale_claims() -> list[Claim]:
    """E22, with 64 channels."""
    raw, scaled = score_variance(64)
    scores = random_scores(64)
    return [
        Claim("variance of the scores, hs = 64", "~64", raw),
        Claim("variance of the scores over √64", "~1", scaled),
        Claim(
            f"largest weight of 8, mean of {SCALE_DRAWS} draws, unscaled",
            "",
            largest_weight(scores, 1).mean,
        ),
        Claim(
            f"largest weight of 8, mean of {SCALE_DRAWS} draws, over √64",
            "",
            largest_weight(scores, 8).mean,
        ),
    ]

"""The MLP, two linear layers with an activation between, for each token separately; and dropout."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gpt2viz.arrays import Array
from gpt2viz.model.checkpoint import Model
from gpt2viz.textbook.claims import Claim
from gpt2viz.textbook.tensors import normal, randomize, rows

Curve = Callable[[Tensor], Tensor]


def linear(x: ArrayLike, weight: ArrayLike, bias: ArrayLike) -> Tensor:
    """x Wᵀ + b: (…, C_in) with W (C_out, C_in) and b (C_out,) -> (…, C_out)."""
    return rows(x) @ rows(weight).T + rows(bias)


def relu(x: Tensor) -> Tensor:
    """Negative numbers become 0, the others stay."""
    return x.clamp(min=0)


def gelu(x: Tensor) -> Tensor:
    """x times the probability of a standard normal number below x (Hendrycks & Gimpel 2016)."""
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU with tanh, as GPT-2 was trained."""
    return x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def silu(x: Tensor) -> Tensor:
    """x times its sigmoid, also called swish (Ramachandran et al. 2017)."""
    return x / (1 + torch.exp(-x))


CURVES: dict[str, Curve] = {
    "GELU (tanh)": gelu_tanh,
    "GELU (erf)": gelu,
    "ReLU": relu,
    "SiLU": silu,
}


def walk(
    x: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike,
    back: ArrayLike,
    curve: str = "GELU (erf)",
) -> tuple[Tensor, Tensor, Tensor]:
    """(widened, activated, output): x (C,) -> (F,) -> (F,) -> (C,).

    ``weight`` (F, C) and ``bias`` (F,) widen, ``back`` (C, F) narrows, without a bias.
    """
    widened = linear(x, weight, bias)
    activated = CURVES[curve](widened)
    return widened, activated, activated @ rows(back).T


def random_weights(seed: int) -> tuple[Tensor, Tensor]:
    """E10's two matrices from a seed: W (8, 2), twice standard normal, and W_back (2, 8)."""
    drawn = normal(2, 8, 2, seed=seed)
    return 2 * drawn[0], drawn[1].T


class FeedForward(nn.Module):
    """GPT-2's MLP, with any of ``CURVES`` and with or without biases: (…, C) -> (…, C)."""

    def __init__(self, C: int, curve: str = "GELU (tanh)", bias: bool = True) -> None:
        super().__init__()
        self.widen = nn.Linear(C, 4 * C, bias=bias)
        self.back = nn.Linear(4 * C, C, bias=bias)
        self.curve = CURVES[curve]

    def inside(self, x: Tensor) -> Tensor:
        return self.curve(self.widen(x))  # (…, 4C)

    def forward(self, x: Tensor) -> Tensor:
        return self.back(self.inside(x))  # type: ignore[no-any-return]


class SwiGLU(nn.Module):
    """A gate scales each channel: (…, C) -> (…, C) (Shazeer 2020).

    Three matrices without biases. With F = 8 C / 3 it has as many weights as the plain MLP.
    """

    def __init__(self, C: int, F: int) -> None:
        super().__init__()
        self.gate = nn.Linear(C, F, bias=False)
        self.up = nn.Linear(C, F, bias=False)
        self.down = nn.Linear(F, C, bias=False)

    def inside(self, x: Tensor) -> Tensor:
        return silu(self.gate(x)) * self.up(x)  # type: ignore[no-any-return]  # (…, F)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.inside(x))  # type: ignore[no-any-return]


class Gated(NamedTuple):
    """One token in a SwiGLU: four vectors (F,), ``passed`` = ``opened`` · ``up``; and y (C,)."""

    gate: Tensor
    opened: Tensor
    up: Tensor
    passed: Tensor
    output: Tensor


def walk_swiglu(x: ArrayLike, gate: ArrayLike, up: ArrayLike, down: ArrayLike) -> Gated:
    """A SwiGLU step by step for x (C,): ``gate`` and ``up`` are (F, C), ``down`` is (C, F)."""
    gates, made = rows(x) @ rows(gate).T, rows(x) @ rows(up).T
    opened = silu(gates)
    passed = opened * made
    return Gated(gates, opened, made, passed, passed @ rows(down).T)


def swiglu_width(C: int, multiple: int = 256) -> int:
    """8 C / 3, rounded up to a multiple that suits the hardware: the text's rule for F."""
    return multiple * -(-int(8 * C / 3) // multiple)


def forms(C: int) -> dict[str, list[Any]]:
    """GPT-2's MLP and a SwiGLU of the text's width, both without biases, as columns of a table.

    One row per form: its matrices, its inner width, its parameters, and the shape of its output for
    one vector (1, C). Both are built and run on PyTorch's meta device, which stores no numbers.
    """
    with torch.device("meta"):
        both = {"MLP": FeedForward(C, bias=False), "SwiGLU": SwiGLU(C, swiglu_width(C))}
        shapes = {name: tuple(form(torch.zeros(1, C)).shape) for name, form in both.items()}
    tables = [list(form.parameters()) for form in both.values()]
    return {
        "form": list(both),
        "tables": [len(weights) for weights in tables],
        "channels inside": [weights[0].shape[0] for weights in tables],
        "parameters": [sum(table.numel() for table in weights) for weights in tables],
        "comes out": [str(shape) for shape in shapes.values()],
    }


def drop(x: ArrayLike, p: float, training: bool, seed: int = 0) -> Tensor:
    """Dropout: in training each number becomes 0 with probability p, others times 1 / (1 − p).

    That keeps the mean. Outside training nothing changes (Srivastava et al. 2014).
    """
    x = rows(x)
    if not training:
        return x
    survives = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)) >= p
    return torch.where(survives, x / (1 - p), 0)


# E9: two numbers in, four out.
LINEAR_X = (0.5, -0.5)
LINEAR_WEIGHT = ((1.0, 0.0), (-1.0, 0.0), (0.0, 2.0), (0.0, -2.0))
LINEAR_BIAS = (1.0, 1.0, -1.0, -1.0)

# E10: the text draws its weights without a seed; the example starts from the numbers it prints.
WIDENED = (2.40, -0.50, 1.88, -1.91, 2.08, 1.16, 0.41, -2.12)
TABLE = (2.4, 1.0, 0.0, -0.5, -2.0)

# A SwiGLU of three channels: the first and the second gate open for opposite inputs.
GATED_X = (1.0, 0.5)
GATE = ((2.0, 0.0), (-2.0, 0.0), (0.0, 3.0))
UP = ((1.0, 1.0), (0.0, 2.0), (2.0, -1.0))
DOWN = ((1.0, 0.0, 0.5), (0.0, 1.0, -0.5))


def linear_claims() -> list[Claim]:
    """E9."""
    result = linear(LINEAR_X, LINEAR_WEIGHT, LINEAR_BIAS)
    return [Claim("W x + b", "1.5000 0.5000 -2.0000 0.0000", result)]


def walk_claims() -> list[Claim]:
    """E10. The two numbers after the second layer can't be computed: its weights had no seed."""
    table = gelu(rows(TABLE))
    near = "GELU({}) rounds to {}."
    return [
        Claim("GELU(2.4)", "~2.39", table[0], near.format("2.4", "2.38")),
        Claim("GELU(1.0)", "~0.84", table[1]),
        Claim("GELU(0.0)", "0.0", table[2]),
        Claim("GELU(−0.5)", "-0.15", table[3]),
        Claim(
            "GELU(−2.0)",
            "-0.00",
            table[4],
            "GELU does not reach 0 there: 2.3 % of a normal distribution lie below −2.",
        ),
        Claim(
            "GELU of the eight printed numbers",
            "2.3900 -0.1500 1.8700 -0.0100 2.0600 1.0300 0.3100 -0.0000",
            gelu(rows(WIDENED)),
            "GELU of the printed inputs gives other numbers, by erf as well as by tanh.",
        ),
        Claim("the same by tanh", "", gelu_tanh(rows(WIDENED))),
    ]


def dropout_claims() -> list[Claim]:
    """E13, with p = 0.1 and 100,000 ones."""
    ones = torch.ones(100_000)
    trained = drop(ones, 0.1, training=True)
    same = torch.equal(drop(ones, 0.1, training=False), ones)
    return [
        Claim("share of zeros in training", "10%", (trained == 0).float().mean()),
        Claim("what a surviving 1 becomes", "", trained.max()),
        Claim("unchanged once training is over", "", str(same)),
    ]


def curve_claims() -> list[Claim]:
    """E15, at the five numbers of E10's table; and how wide a SwiGLU is for 768 channels."""
    x = rows(TABLE)
    curves = [Claim(f"{name} of 2.4, 1, 0, −0.5, −2", "", f(x)) for name, f in CURVES.items()]
    return [*curves, Claim("width of a SwiGLU for C = 768", "", swiglu_width(768))]


class BlockRun(NamedTuple):
    """A block of ``n_parameters`` run on x (T, C): ``inside`` (T, F), ``output`` (T, C)."""

    n_parameters: int
    inside: Tensor
    output: Tensor


@lru_cache(maxsize=8)
def three_blocks(C: int, seed: int) -> dict[str, FeedForward | SwiGLU]:
    """The blocks, without biases, with matrices from a seed; GELU's and ReLU's have the same."""
    blocks: dict[str, nn.Module] = {
        "GELU": FeedForward(C, "GELU (tanh)", bias=False),
        "ReLU": FeedForward(C, "ReLU", bias=False),
        "SwiGLU": SwiGLU(C, swiglu_width(C, multiple=1)),
    }
    return {name: randomize(block, seed) for name, block in blocks.items()}  # type: ignore[misc]


def run_blocks(x: ArrayLike, seed: int) -> dict[str, BlockRun]:
    """The same x (T, C) through each of the three blocks."""
    given = rows(x)
    with torch.inference_mode():
        return {
            name: BlockRun(
                sum(t.numel() for t in block.parameters()), block.inside(given), block(given)
            )
            for name, block in three_blocks(given.shape[-1], seed).items()
        }


class Neurons(NamedTuple):
    """An MLP's F hidden numbers, ``widened`` and then ``bent`` by the activation function: (F,)
    each, or (T, F) for T tokens.

    The MLP's output is ``back @ bent + bias``, with ``back`` (C, F) and ``bias`` (C,).
    """

    widened: Array
    bent: Array
    back: Array
    bias: Array


def neurons_at(model: Model, layer: int, stream: Array) -> Neurons:
    """A layer's neurons for a token, from its residual ``stream`` (C,) after the layer's attention;
    for all tokens with a stream (T, C).

    Uses the layer's weights, not its modules: hooks on those belong to other runs.
    """
    block = model.network.h[layer]
    weights = _weights(block, "ln_2.", "mlp.")

    def params(name: str) -> tuple[Tensor, Tensor]:
        return weights[f"{name}.weight"], weights[f"{name}.bias"]

    with torch.inference_mode():
        x = torch.tensor(stream)  # (…, C)
        normed = F.layer_norm(x, x.shape[-1:], *params("ln_2"), block.ln_2.eps)  # (…, C)
        widened = F.linear(normed, *params("mlp.c_fc"))  # (…, F)
        bent = type(block.mlp.act)()(widened)  # (…, F)
    return Neurons(widened.numpy(), bent.numpy(), *(part.numpy() for part in params("mlp.c_proj")))


def gated_at(model: Model, layer: int, stream: Array) -> Gated:
    """A layer's gated MLP step by step for a token, as ``neurons_at``; in Llama's family."""
    block = model.network.layers[layer]
    weights = _weights(block, "post_attention_layernorm.", "mlp.")

    def project(x: Tensor, name: str) -> Tensor:
        matrix = f"mlp.{name}_proj."
        return F.linear(x, weights[f"{matrix}weight"], weights.get(f"{matrix}bias"))

    with torch.inference_mode():
        x = torch.tensor(stream)  # (C,)
        gain, eps = weights["post_attention_layernorm.weight"], block.post_attention_layernorm.eps
        normed = F.rms_norm(x, x.shape, gain, eps)  # (C,)
        gate, up = project(normed, "gate"), project(normed, "up")  # (F,) each
        opened = type(block.mlp.act_fn)()(gate)  # (F,)
        passed = opened * up
        return Gated(gate, opened, up, passed, project(passed, "down"))


def _weights(block: nn.Module, *parts: str) -> dict[str, Tensor]:
    """A layer's weights whose names begin with these, on the CPU in float32."""
    return {
        name: weight.detach().to("cpu", torch.float32)
        for name, weight in block.named_parameters()
        if name.startswith(parts)
    }

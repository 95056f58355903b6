"""The size of a GPT-2: its parameters by part, and the shapes of its tensors as a page to print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from html import escape

import torch

from gpt2viz.model.config import GPT2Config, ModelConfig
from gpt2viz.model.network import GPT2
from gpt2viz.run.stages import AXES, STAGES, axis_sizes
from gpt2viz.textbook.claims import Claim

#: The four released models (Radford et al. 2019).
RELEASED = {
    "small": GPT2Config(n_layer=12, n_head=12, n_embd=768),
    "medium": GPT2Config(n_layer=24, n_head=16, n_embd=1024),
    "large": GPT2Config(n_layer=36, n_head=20, n_embd=1280),
    "XL": GPT2Config(n_layer=48, n_head=25, n_embd=1600),
}

#: The vocabulary of the Deep Dive Tutorial: 50,257 rounded up to a multiple of 64.
PADDED_VOCABULARY = 50_304


def parts(config: GPT2Config) -> dict[str, int]:
    """Parameters by part, with all biases; the tied output matrix counts once."""
    C, F, L = config.n_embd, config.mlp_dim, config.n_layer
    return {
        "token embedding": config.vocab_size * C,
        "position embedding": config.n_positions * C,
        "attention: Q, K and V": L * (C * 3 * C + 3 * C),
        "attention: output": L * (C * C + C),
        "MLP: widen": L * (C * F + F),
        "MLP: back": L * (F * C + C),
        "LayerNorms": L * 2 * 2 * C + 2 * C,
        "output matrix": 0 if config.tie_word_embeddings else config.vocab_size * C,
    }


@lru_cache(maxsize=16)
def count_parameters(config: GPT2Config) -> int:
    """The same total, counted in a model of that size on the meta device, which uses no memory."""
    with torch.device("meta"):
        return sum(weights.numel() for weights in GPT2(config).parameters())


def tutorial_total(config: GPT2Config) -> int:
    """The Deep Dive Tutorial's total: as ``parts``, without the linear layers' biases."""
    C, L = config.n_embd, config.n_layer
    embeddings = config.vocab_size * C + config.n_positions * C
    return embeddings + L * (12 * C**2 + 4 * C) + 2 * C


def knob_claims() -> list[Claim]:
    """E1."""
    default = GPT2Config()
    knobs = (
        default.vocab_size,
        default.n_positions,
        default.n_layer,
        default.n_head,
        default.n_embd,
    )
    with torch.device("meta"):
        biased = GPT2(GPT2Config(n_layer=1)).get_parameter("h.0.attn.c_attn.bias") is not None
    return [
        Claim("vocabulary, context, layers, heads, channels", "50,257 1024 12 12 768", knobs),
        Claim(
            "biases for Q, K and V",
            "False",
            str(biased),
            "GPT-2's Q, K and V have biases; Burume's configurations say False.",
        ),
    ]


def parameter_claims() -> list[Claim]:
    """E16."""
    padded = GPT2Config(vocab_size=PADDED_VOCABULARY)
    padded_xl = replace(RELEASED["XL"], vocab_size=PADDED_VOCABULARY)
    small, xl = (PADDED_VOCABULARY * model.n_embd for model in (padded, padded_xl))
    total = count_parameters(GPT2Config())
    not_tied = "GPT-J's output matrix is a separate one, not the tied embedding: nothing is saved."
    return [
        Claim("the tutorial's formula, vocabulary 50,304", "~124M", tutorial_total(padded)),
        Claim("… exactly; it leaves out biases", "", tutorial_total(padded)),
        Claim("GPT-2 small, all parameters", "~124M", total),
        Claim("GPT-2 small, exactly", "", total),
        Claim("embedding of small with 50,304 rows, saved by tying", "38.6M", small),
        Claim("its share of that model", "31%", small / count_parameters(padded)),
        Claim("embedding of XL with 50,304 rows, saved by tying", "80.5M", xl),
        Claim("its share of that model", "5%", xl / count_parameters(padded_xl)),
        Claim("saved by tying in GPT-J 6B", "200M", 0, not_tied),
    ]


#: Layer by layer, with each model's biases and norms: GPT-J has no biases in attention, one norm a
#: layer and an output matrix with a bias; GPT-NeoX's output matrix isn't tied either.
_GPT_J = 28 * (12 * 4096**2 + 7 * 4096) + 2 * 50_400 * 4096 + 50_400 + 2 * 4096
_GPT_NEOX = 44 * (12 * 6144**2 + 13 * 6144) + 2 * 50_432 * 6144 + 2 * 6144

_OLD = "The models' original names; OpenAI later corrected the counts."
_SPLIT = "{C} channels can't be shared by {nh} heads. The released model has {right}, of 64 each."


def size_claims() -> list[Claim]:
    """E18: the tables of the Deep Dive Tutorial and of Burume."""
    first = ("124M", "350M", "774M", "1.5B")
    second = ("117M", "345M", "762M", "1.5B")
    coarse = (
        "",
        "Rounded to tens of millions.",
        "",
        "1.558 billion; 1.5B is the model's old name.",
    )
    heads = ("12", "24", "36", "25")
    claims = [
        Claim(
            "head size of all four (Deep Dive Tutorial)",
            "64 64 64 64",
            [config.head_dim for config in RELEASED.values()],
        ),
        Claim(
            "head sizes of GPT-J and GPT-NeoX (Deep Dive Tutorial)",
            "256 96",
            [4096 / 16, 6144 / 64],
        ),
        Claim(
            "head sizes of medium and large, by its heads (Burume)",
            "~43 ~36",
            [RELEASED["medium"].n_embd / 24, RELEASED["large"].n_embd / 36],
        ),
        Claim("parameters of GPT-J (Deep Dive Tutorial)", "6B", _GPT_J),
        Claim(
            "parameters of GPT-NeoX (Deep Dive Tutorial)",
            "20B",
            _GPT_NEOX,
            "20.55 billion; 20B is its name.",
        ),
    ]
    for n, (name, config) in enumerate(RELEASED.items()):
        total = count_parameters(config)
        wrong = _SPLIT.format(C=config.n_embd, nh=heads[n], right=config.n_head)
        claims += [
            Claim(f"{name}: parameters (Deep Dive Tutorial)", first[n], total, coarse[n]),
            Claim(f"{name}: parameters (Burume)", second[n], total, _OLD if n < 3 else coarse[n]),
            Claim(f"{name}: heads (Burume)", heads[n], config.n_head, wrong),
        ]
    return [claim if claim.verdict == "differs" else replace(claim, why="") for claim in claims]


_STYLE = """
body { font: 10.5pt/1.35 Georgia, serif; color: #000; max-width: 46em; margin: 1.5em auto;
  padding: 0 1em; background: #fff; }
h1 { font-size: 1.5em; }
table { border-collapse: collapse; margin: .6em 0; }
th, td { border: 1px solid #555; padding: .15em .6em; text-align: left; }
tr { break-inside: avoid; }
code { white-space: nowrap; }
@page { size: A4; margin: 14mm; }
@media print { body { margin: 0; padding: 0; max-width: none; } }
"""


def shape_sheet(config: ModelConfig, name: str, T: int) -> str:
    """The shapes of all tensors as a page of HTML, for one text of T tokens.

    They are in the order of the run; tensors that every layer has are listed once.
    """
    sizes = axis_sizes(config, T)
    axes = [(axis, meaning, f"{sizes[axis]:,}") for axis, meaning in AXES.items()]
    tensors = [
        (
            stage.label,
            stage.formula,
            f"({', '.join(stage.axes)})",
            str(tuple(sizes[axis] for axis in stage.axes)),
        )
        for stage in STAGES
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f"<title>Shapes of {escape(name)}</title>\n<style>{_STYLE}</style>\n"
        f"<h1>Shapes of {escape(name)}</h1>\n"
        f"<p>One text of T = {T} tokens; {config.n_layer} layers, each with tensors of its own.</p>"
        f"\n{_table(('axis', 'how many of what', 'here'), axes)}"
        f"{_table(('tensor', 'made by', 'axes', 'shape here'), tensors)}</html>\n"
    )


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [_row("th", head), *(_row("td", row) for row in body)]
    return f"<table>\n{''.join(lines)}</table>\n"


def _row(kind: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>\n"

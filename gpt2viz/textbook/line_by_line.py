"""The eighty lines with their gaps filled, and the lines of ``network.py`` that do the same."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from gpt2viz.model import network
from gpt2viz.textbook.gaps import Draft


class Pair(NamedTuple):
    """A line of the eighty, by how it ``begins``, and what it ``does``.

    It goes on to where the next begins. The same is done ``beside`` it in ``network.py``: each is
    "Attend.forward: scores =", a part of the one line there that has it. ``makes`` are the
    stages that the line makes, ``towards`` those that it helps to make; ``sizes`` the axes whose
    sizes it reads, and ``axes`` those of a tensor that is no stage.
    """

    begins: str
    does: str
    beside: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    towards: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()

    @property
    def lines_beside(self) -> list[int]:
        """Their numbers in ``network.py``, from 1.

        Raises ``LookupError`` where a part stands in no line, or in more than one.
        """
        return sorted(map(_line_of, self.beside))


def _line_of(part: str) -> int:
    """The number of the line of ``network.py`` that has a part, such as "Attend.forward: hs ="."""
    owner, _, text = part.partition(": ")
    source, first = inspect.getsourcelines(attrgetter(owner)(network))
    matches = [first + n for n, line in enumerate(source) if text in line]
    if len(matches) != 1:
        raise LookupError(f"{text!r} is in {len(matches)} lines of {owner}")
    return matches[0]


_NORMS = ("ln_1", "ln_2", "final_norm")
_NORMED = (
    "Block.forward: self.ln_1(x)",
    "Block.forward: self.ln_2(x)",
    "GPT2.forward: self.ln_f(x)",
)
_ADDED = ("Block.forward: x + self.attn(", "Block.forward: x + self.mlp(")
_STREAM = ("B", "T", "C")

PAIRS: tuple[Pair, ...] = (
    Pair(
        "class GPT2:",
        "Declares the model. Its parts are methods here, and classes in the package.",
        ("GPT2: class GPT2(",),
        towards=("last_logits",),
    ),
    Pair(
        '"""Token ids',
        "Says what goes in and what comes out. `gap` is for *Build it yourself*, which leaves "
        "eight places blank. Here they are filled.",
        ('GPT2: """Token ids',),
        towards=("last_logits",),
    ),
    Pair(
        "def __init__(",
        "Declares what a model is made from: its sizes, and a table of weights by name.",
        ("GPT2.__init__: def __init__(",),
        towards=("last_logits",),
    ),
    Pair(
        "self.config, self.weights",
        "Keeps them. The package makes a module for each table. A file fills them later.",
        (
            "GPT2.__init__: self.config =",
            "GPT2.__init__: self.wte =",
            "GPT2.__init__: self.wpe =",
            "GPT2.__init__: self.h =",
            "GPT2.__init__: self.ln_f =",
            "GPT2.__init__: self.lm_head = ",
        ),
        towards=("last_logits",),
    ),
    Pair(
        "self.activation =",
        "Picks the curve that the model's config names. In GPT-2 it is GELU.",
        ("MLP.__init__: self.act =",),
        towards=("mlp_act",),
    ),
    Pair(
        "def linear(",
        "Declares a linear layer. The package takes PyTorch's own: four in each layer.",
        (
            "SelfAttention.__init__: self.c_attn =",
            "SelfAttention.__init__: self.c_proj =",
            "MLP.__init__: self.c_fc =",
            "MLP.__init__: self.c_proj =",
        ),
        towards=("qkv", "projected", "mlp_in", "mlp_projected"),
    ),
    Pair(
        "return x @ ",
        "Multiplies by a table of weights, then adds a bias. Each layer does so four times.",
        (
            "SelfAttention.forward: self.c_attn(x)",
            "SelfAttention.forward: self.c_proj(y)",
            "MLP.forward: self.c_fc(x)",
            "MLP.forward: self.c_proj(x)",
        ),
        makes=("qkv", "projected", "mlp_in", "mlp_projected"),
    ),
    Pair(
        "def norm(",
        "Declares LayerNorm. The package takes PyTorch's own: two in each layer, one at the end.",
        (
            "Block.__init__: self.ln_1 =",
            "Block.__init__: self.ln_2 =",
            "GPT2.__init__: self.ln_f =",
        ),
        towards=_NORMS,
    ),
    Pair(
        "centred =",
        "Takes away each token's mean. In the package this happens inside LayerNorm.",
        _NORMED,
        towards=_NORMS,
        axes=_STREAM,
    ),
    Pair(
        "variance =",
        "The mean of the squares: one number a token. It says how far its numbers spread.",
        _NORMED,
        towards=_NORMS,
        axes=("B", "T", "1"),
    ),
    Pair(
        "even =",
        "Divides by that spread. A tiny ε keeps this from dividing by 0.",
        _NORMED,
        towards=_NORMS,
        axes=_STREAM,
    ),
    Pair(
        "return even *",
        "Stretches and shifts each channel by numbers that were learned.",
        _NORMED,
        makes=_NORMS,
    ),
    Pair(
        "def attention(",
        "Declares attention. The package has two classes for it: one makes Q, K and V, the other "
        "mixes.",
        ("SelfAttention: class SelfAttention(", "Attend: class Attend("),
        towards=("attention_output",),
    ),
    Pair(
        "B, T, C =",
        "Reads the sizes: texts, tokens, channels.",
        ("SelfAttention.forward: B, T, C =", "SelfAttention.split_heads: B, T, C ="),
        towards=("qkv",),
        sizes=_STREAM,
    ),
    Pair(
        "nh =",
        "Reads how many heads there are.",
        ("SelfAttention.__init__: self.n_head, ",),
        towards=("q",),
        sizes=("nh",),
    ),
    Pair(
        "hs =",
        "The heads share the channels equally: so many for each.",
        ("Attend.forward: hs =",),
        towards=("q",),
        sizes=("hs",),
    ),
    Pair(
        "qkv =",
        "One linear layer makes queries, keys and values at once.",
        ("SelfAttention.forward: self.c_attn(x)",),
        makes=("qkv",),
    ),
    Pair(
        "q, k, v =",
        "Cuts them into three, and each into heads. Then the heads come before the tokens.",
        (
            "SelfAttention.forward: self.c_attn(x)",
            "SelfAttention.forward: self.q(",
            "SelfAttention.forward: self.k(",
            "SelfAttention.forward: self.v(",
            "SelfAttention.split_heads: heads =",
        ),
        makes=("q", "k", "v"),
    ),
    Pair(
        "scores =",
        "Each query meets each key. Their product is one number for each pair of tokens.",
        ("Attend.forward: self.scores(",),
        makes=("scores",),
    ),
    Pair(
        "scaled =",
        "Makes the scores smaller. The divisor of the package is 1 in GPT-2.",
        ("Attend.forward: self.scaled_scores(",),
        makes=("scaled_scores",),
    ),
    Pair(
        "masked =",
        "Hides later keys: their scores become −∞. With the mask off, the package hides none.",
        ("Mask.of: hidden = hidden_pairs(", "Attend.forward: self.masked_scores("),
        makes=("masked_scores",),
    ),
    Pair(
        "weights =",
        "Makes shares of the scores. Those of each query sum to 1.",
        ("Attend.forward: self.weights(",),
        makes=("weights",),
    ),
    Pair(
        "heads =",
        "Mixes the values, each as much as its weight says. Dropout does nothing when reading.",
        ("Attend.forward: self.head_output(", "SelfAttention.forward: y = self.attend("),
        makes=("head_output",),
    ),
    Pair(
        "merged =",
        "Puts the outputs of all heads side by side again, token by token.",
        ("SelfAttention.forward: y = y.transpose(",),
        towards=("head_output", "projected"),
        axes=_STREAM,
    ),
    Pair(
        "return self.linear(merged",
        "Mixes the heads' outputs. This is what attention will add to the stream.",
        (
            "SelfAttention.forward: self.c_proj(y)",
            "SelfAttention.forward: return self.resid_dropout(y)",
        ),
        makes=("projected",),
    ),
    Pair(
        "def mlp(",
        "Declares the MLP, which works on each token alone.",
        ("MLP: class MLP(",),
        towards=("mlp_output",),
    ),
    Pair(
        "wide =",
        "Widens each token's vector, four times in GPT-2, and bends it with the curve.",
        ("MLP.forward: self.c_fc(x)", "MLP.forward: self.act(x)"),
        makes=("mlp_act",),
    ),
    Pair(
        "return self.linear(wide",
        "Back to as many channels as before. This is what the MLP will add to the stream.",
        ("MLP.forward: self.c_proj(x)", "MLP.forward: return self.dropout(x)"),
        makes=("mlp_projected",),
    ),
    Pair(
        "def layer(",
        "Declares one layer. The package calls it a block.",
        ("Block: class Block(",),
        towards=("residual_out",),
    ),
    Pair(
        "for norm, part in",
        "Does the same twice: first with attention, then with the MLP.",
        _NORMED[:2],
        towards=("ln_1", "ln_2"),
    ),
    Pair(
        "made =",
        "Each part reads the stream through a norm, and makes what it will add.",
        (*_NORMED[:2], *_ADDED),
        makes=("attention_output", "mlp_output"),
    ),
    Pair(
        "x = x + made",
        "Adds it to the stream. Nothing is erased.",
        _ADDED,
        makes=("residual_mid", "residual_out"),
    ),
    Pair(
        "return x",
        "Hands the stream on to the next layer.",
        ("Block.forward: return self.residual_out(",),
        makes=("residual_out",),
    ),
    Pair(
        "def logits(",
        "Declares the way from token numbers to logits.",
        ("GPT2.forward: def forward(",),
        towards=("last_logits",),
    ),
    Pair(
        "T = ids.shape",
        "Counts the tokens. The package also adds those that a cache holds.",
        ("GPT2.forward: T = first +",),
        towards=("token_embedding",),
        sizes=("T",),
    ),
    Pair(
        "wte, wpe =",
        "Fetches two tables: a row for each token of the vocabulary, and one for each position.",
        ("GPT2.__init__: self.wte =", "GPT2.__init__: self.wpe ="),
        towards=("token_embedding", "position_embedding"),
    ),
    Pair(
        "x = wte[ids]",
        "Adds the vector of each token and that of its position. Here the stream begins.",
        (
            "GPT2.forward: x = self.embed(",
            "GPT2.embed: tokens =",
            "GPT2.embed: positions = self.wpe",
            "GPT2.embed: self.drop(",
        ),
        makes=("embedding",),
    ),
    Pair(
        "for n in range(self",
        "Goes through all layers, one after the other.",
        ("GPT2.forward: for n, block in",),
        towards=("residual_out",),
    ),
    Pair(
        "x = self.layer(",
        "Each layer reads the stream and adds to it.",
        ("GPT2.forward: x = block(", "Block.forward: return self.residual_out("),
        makes=("residual_out",),
    ),
    Pair(
        "x = self.norm(",
        "A last norm, after all layers.",
        ("GPT2.forward: self.ln_f(x)",),
        makes=("final_norm",),
    ),
    Pair(
        "return x @ wte.mT",
        "Each token's vector meets each row of the token table. While reading, the package keeps "
        "the last token's logits alone.",
        (
            "GPT2.__init__: self.lm_head.weight = self.wte.weight",
            "GPT2.forward: return self.lm_head(",
        ),
        makes=("last_logits",),
    ),
    Pair(
        "def write(",
        "Declares how the model writes. The file beside has nothing for it: a loop outside does "
        "that, on the page *Predict*.",
    ),
    Pair('"""The most', "Says what it gives: the most probable tokens, one after the other."),
    Pair("new: list[int] =", "Begins with no new token."),
    Pair("for _ in range(min(", "Writes so many tokens at most, and none without a place for it."),
    Pair(
        "logits = self.logits(",
        "Runs the whole model on the text so far, with what it has written.",
        towards=("last_logits",),
    ),
    Pair(
        "new.append(",
        "Takes the token with the highest logit after the last one.",
        towards=("last_logits",),
    ),
    Pair("if new[-1] ==", "Asks whether the text has ended."),
    Pair("break", "Then it stops."),
    Pair("return new", "Hands over what it has written."),
)


#: What belongs in the gaps.
FILLED = {
    "embedding": "wte[ids] + wpe[:T]",
    "scores": "q @ k.mT",
    "scale": "scores / sqrt(hs)",
    "mask": "scaled.masked_fill(triu(ones(T, T), 1) == 1, -inf)",
    "softmax": "softmax(masked, dim=-1)",
    "merge": "heads.transpose(1, 2).reshape(B, T, C)",
    "residual": "x + made",
    "head": "x @ wte.mT",
}


class Listed(NamedTuple):
    """The eighty ``lines``; for each the pair that it belongs to, None for one that is empty."""

    lines: Sequence[str]
    pairs: Sequence[Pair | None]

    def first(self, pair: Pair) -> int:
        """The number, from 1, of the line that a pair begins with."""
        return self.pairs.index(pair) + 1


@lru_cache(maxsize=1)
def line_by_line() -> Listed:
    """The eighty lines with all gaps filled, and the pair of each.

    Raises ``LookupError`` where a pair begins with no line of them.
    """
    lines = Draft(FILLED).source().splitlines()
    pairs: list[Pair | None] = []
    begun = 0
    for line in lines:
        if begun < len(PAIRS) and line.strip().startswith(PAIRS[begun].begins):
            begun += 1
        pairs.append(PAIRS[begun - 1] if line.strip() else None)
    if begun < len(PAIRS):
        raise LookupError(f"no line begins with {PAIRS[begun].begins!r}")
    return Listed(lines, pairs)

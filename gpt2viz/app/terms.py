"""The words on the pages, each explained in a sentence or two: the one place where they stand.

Layers and heads count from 0. Where other tools have another name for the same, it is given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """A word, what it means, and where it was first described or named, "" for common words."""

    name: str
    meaning: str
    source: str = ""

    @property
    def key(self) -> str:
        """Its spelling in the address: "attention-sink"."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


_NMT = "Bahdanau et al. 2014, Neural Machine Translation by Jointly Learning to Align and Translate"
_VASWANI = "Vaswani et al. 2017, Attention Is All You Need"
_CIRCUITS = "Elhage et al. 2021, A Mathematical Framework for Transformer Circuits"

TERMS: tuple[Term, ...] = (
    Term(
        "Activation patching",
        "Putting numbers of one run into another run, to see what they change.",
    ),
    Term(
        "Attention",
        "The part of a layer in which tokens take information from one another.",
        _NMT,
    ),
    Term(
        "Attention sink",
        "A token, mostly the first, on which a head rests when it finds nothing to do: each row "
        "must sum to 1.",
        "Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks",
    ),
    Term(
        "Attention weight",
        "How much of a key's value a query takes: between 0 and 1, each row sums to 1. Elsewhere:"
        " pattern, attn.",
        _NMT,
    ),
    Term("Baseline", "The unchanged model, with which a changed run is compared."),
    Term("Bias", "A learned number that is added to a result, whatever the input was."),
    Term(
        "Causal mask",
        "The rule that a token sees itself and those before it, never a later one. Scores of "
        "later keys are set to −∞ before softmax.",
        _VASWANI,
    ),
    Term("Channel", "One of the numbers of a vector. C is how many a token's vector has (n_embd)."),
    Term(
        "Composition",
        "How much of what one head writes a later one reads, into its queries, keys or values, by "
        "the weights alone.",
        _CIRCUITS,
    ),
    Term(
        "Context",
        "All tokens that the model can read at once; their largest number is n_positions.",
    ),
    Term(
        "Copying score",
        "Whether a head raises the logits of the tokens that it looks at, by its weights alone: "
        "from −1, where it lowers each, to 1, where it raises each.",
        _CIRCUITS,
    ),
    Term(
        "Cosine similarity",
        "How closely two vectors point the same way: 1 the same, 0 at right angles, −1 opposite.",
    ),
    Term(
        "Direct contribution",
        "What a head, MLP or embedding wrote into the stream, read as a part of a logit. All "
        "parts add up to the logit.",
        _CIRCUITS,
    ),
    Term(
        "Dropout",
        "In training, numbers set to 0 at random, so that no part can rely on another one being "
        "there. Off when the model is read.",
        "Hinton et al. 2012, Improving Neural Networks by Preventing Co-adaptation of Feature "
        "Detectors",
    ),
    Term(
        "Embedding", "The vector that stands for a token or for a place: a row of a learned table."
    ),
    Term(
        "Entropy",
        "How undecided a distribution is, in bits: 0 where one token has all, one bit more each "
        "time the number of equally probable ones doubles.",
        "Shannon 1948, A Mathematical Theory of Communication",
    ),
    Term(
        "Flash attention",
        "A way to compute attention a few keys at a time, so that the whole table of scores is "
        "never kept. The outputs are the same, up to rounding.",
        "Dao et al. 2022, FlashAttention: Fast and Memory-Efficient Exact Attention with "
        "IO-Awareness",
    ),
    Term(
        "GELU",
        "The curve inside GPT-2's MLP: x times the chance that a normal random number lies below "
        "x.",
        "Hendrycks & Gimpel 2016, Gaussian Error Linear Units",
    ),
    Term(
        "Gradient",
        "For each number, how fast the loss would change if that number grew a little. Training "
        "moves each parameter against its own.",
    ),
    Term(
        "Grouped-query attention",
        "Several heads share one set of keys and values, and each keeps queries of its own: less "
        "has to be kept for the tokens to come. GPT-2 doesn't share them.",
        "Ainslie et al. 2023, GQA: Training Generalized Multi-Query Transformer Models from "
        "Multi-Head Checkpoints",
    ),
    Term(
        "Head",
        "One of several attentions that work side by side in a layer, with queries, keys and "
        "values of its own. Counted from 0.",
        _VASWANI,
    ),
    Term(
        "Head output",
        "Weights times values: what a head has gathered for each token. Elsewhere: z.",
        _VASWANI,
    ),
    Term(
        "Induction head",
        "A head that looks back to what followed the same token earlier, and so copies: after "
        "“Mary … Mary” it looks at the word after the first Mary.",
        _CIRCUITS,
    ),
    Term("Key", "The vector by which a token is found: it is compared with the queries.", _VASWANI),
    Term(
        "KL divergence",
        "How far one distribution is from another: the bits that are lost by believing the wrong "
        "one. 0 where both are the same.",
        "Kullback & Leibler 1951, On Information and Sufficiency",
    ),
    Term(
        "KV cache",
        "The keys and values of the tokens that were read, kept for those to come, so that each "
        "token is run once. Filling it with the sentence is called prefill.",
    ),
    Term(
        "Layer",
        "Attention and MLP, one after the other; GPT-2 is a stack of them. Counted from 0.",
        _VASWANI,
    ),
    Term(
        "LayerNorm",
        "Brings a vector to mean 0 and standard deviation 1, then scales and shifts it by learned"
        " numbers.",
        "Ba et al. 2016, Layer Normalization",
    ),
    Term(
        "Logit",
        "The model's score for a token of the vocabulary, before softmax turns all scores into "
        "probabilities.",
    ),
    Term(
        "Logit lens",
        "The stream read after every step as if that step were the last: what would the model say "
        "here?",
        "nostalgebraist 2020, interpreting GPT: the logit lens",
    ),
    Term(
        "Loss",
        "−ln of the probability that the model gave to the token that came next. Training makes"
        " it small.",
    ),
    Term(
        "MLP",
        "Multi-layer perceptron, the other part of a layer: two tables with a curve between, for "
        "each token alone. Elsewhere: feed-forward network.",
        _VASWANI,
    ),
    Term(
        "Nat and bit",
        "Units of surprise: −ln of a probability is in nats, −log₂ in bits. One nat is 1.44 bits.",
    ),
    Term("Parameter", "A number of the model that was learned. Elsewhere: weight."),
    Term(
        "Pre-norm",
        "LayerNorm on what a part reads, not on the stream itself; GPT-2's way. Post-norm is the "
        "other order.",
        "Wang et al. 2019, Learning Deep Transformer Models for Machine Translation",
    ),
    Term(
        "Previous-token head", "A head in which each token looks at the one before it.", _CIRCUITS
    ),
    Term(
        "Query",
        "The vector with which a token asks: it is compared with the keys of the tokens it may "
        "see. Rows of a picture are queries.",
        _VASWANI,
    ),
    Term(
        "Residual stream",
        "A token's vector on its way through the layers. Each part reads it and adds to it.",
        _CIRCUITS,
    ),
    Term(
        "RMSNorm",
        "A LayerNorm without the mean: a vector is divided by the root of its mean square, then "
        "scaled by learned numbers.",
        "Zhang & Sennrich 2019, Root Mean Square Layer Normalization",
    ),
    Term(
        "RNN",
        "Recurrent neural network: it reads one token after the other, and all it knows of those "
        "before is in one vector, which each token changes.",
        "Elman 1990, Finding Structure in Time",
    ),
    Term(
        "Rollout",
        "Weights of all layers multiplied: how much of each token's start reaches a later one, if"
        " only attention moved anything. A rough guide.",
        "Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers",
    ),
    Term(
        "RoPE",
        "Rotary position embedding: queries and keys are turned by an angle that grows with the "
        "position, so that of two positions only their distance counts in a score.",
        "Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding",
    ),
    Term(
        "Score",
        "Query times key, number by number, added up: how well they match. Divided by √hs it is the"
        " scaled score.",
        "Luong et al. 2015, Effective Approaches to Attention-based Neural Machine Translation",
    ),
    Term(
        "Shape",
        "How many numbers a tensor has along each axis. B texts at once, T tokens, C channels, nh"
        " heads, hs channels of one head.",
    ),
    Term(
        "Softmax",
        "Turns scores into weights: e to the power of each, divided by the sum of these. Larger "
        "scores get more, all weights are above 0, and together they are 1.",
    ),
    Term(
        "Surprise",
        "−log₂ of the probability that a token had before it was read. 0 bits: expected with "
        "certainty.",
    ),
    Term(
        "SwiGLU",
        "An MLP with a gate: one table's results, bent by the curve SiLU, say how much of another "
        "table's results passes.",
        "Shazeer 2020, GLU Variants Improve Transformer",
    ),
    Term(
        "Temperature",
        "What logits, or scores, are divided by before softmax: below 1 the largest gets more, "
        "above 1 it gets less.",
    ),
    Term("Tensor", "A table of numbers with any number of axes."),
    Term(
        "Token",
        "What the model reads in place of letters: a word or a part of one, with its number in "
        "the vocabulary.",
        "Sennrich et al. 2016, Neural Machine Translation of Rare Words with Subword Units",
    ),
    Term(
        "Top-k and top-p",
        "Drawing only from the k most probable tokens, or from the fewest that together have the "
        "probability p.",
        "Top-k: Fan et al. 2018, Hierarchical Neural Story Generation; top-p: Holtzman et al. "
        "2020, The Curious Case of Neural Text Degeneration",
    ),
    Term(
        "Unembedding",
        "The table that turns the last vector into logits: one row per token. GPT-2 uses the token "
        "table again (weight tying).",
        "Weight tying: Press & Wolf 2017, Using the Output Embedding to Improve Language Models",
    ),
    Term("Value", "The vector that a token passes to those that look at it.", _VASWANI),
    Term(
        "Value-weighted attention",
        "Each weight times the length of what it lets through: a large weight on a short vector "
        "moves little.",
        "Kobayashi et al. 2020, Attention is Not Only a Weight",
    ),
    Term(
        "Virtual head",
        "Two heads as one: what a later head takes of what an earlier one took.",
        _CIRCUITS,
    ),
    Term("Vocabulary", "All tokens that a model knows, each with a number."),
    Term("Zero ablation", "Switching a part off by setting what it writes to 0."),
)

TERM: Mapping[str, Term] = {term.key: term for term in TERMS}

#: Other ways to write a term than its name and that with an s.
_ALSO = {
    "biases": "bias",
    "entropies": "entropy",
    "losses": "loss",
    "mask": "causal-mask",
    "queries": "query",
    "stream": "residual-stream",
    "vocabularies": "vocabulary",
    **dict.fromkeys(("bit", "bits", "nat", "nats"), "nat-and-bit"),
    **dict.fromkeys(("top-k", "top-p"), "top-k-and-top-p"),
}
#: The term of each way to write one, in small letters.
SPELLED: Mapping[str, Term] = {spelling: TERM[key] for spelling, key in _ALSO.items()} | {
    term.name.lower() + s: term for term in TERMS for s in ("", "s")
}
#: A regular expression for any of them as a word of its own, the longest first.
A_TERM = (
    rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(SPELLED, key=len, reverse=True)))})(?![\w-])"
)


def containing(text: str) -> tuple[Term, ...]:
    """The terms with a text in their name or meaning, whatever its case; all for no text."""
    needle = text.casefold().strip()
    return tuple(term for term in TERMS if needle in f"{term.name}\n{term.meaning}".casefold())

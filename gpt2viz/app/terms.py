"""The glossary: the pages' terms, each explained in a sentence or two.

Layers and heads count from 0. A term that other tools call differently gives their name too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """A term, its meaning, and the ``source`` that first described or named it, if any."""

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
        "Copying numbers from one run into another, to see what they change.",
    ),
    Term(
        "Attention",
        "The part of a layer in which tokens read information from other tokens.",
        _NMT,
    ),
    Term(
        "Attention sink",
        "A token, usually the first, that absorbs the attention a head has no use for: each row "
        "must sum to 1.",
        "Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks",
    ),
    Term(
        "Attention weight",
        "How much a query attends to a key, from 0 to 1; each row sums to 1. Elsewhere: pattern, "
        "attn.",
        _NMT,
    ),
    Term("Baseline", "The unchanged run that a changed one is compared with."),
    Term("Bias", "A learned number that is added to a result, whatever the input was."),
    Term(
        "Causal mask",
        "The rule that a token sees only itself and the tokens before it. Scores of later keys "
        "are set to −∞ before softmax.",
        _VASWANI,
    ),
    Term("Channel", "One of the numbers in a vector. A token's vector has C of them (n_embd)."),
    Term(
        "Composition",
        "How strongly a head reads what an earlier one writes, in its queries, keys or values, by "
        "the weights alone.",
        _CIRCUITS,
    ),
    Term(
        "Context",
        "The tokens that the model reads at once: n_positions at most.",
    ),
    Term(
        "Copying score",
        "How far a head raises the logits of the tokens that it looks at, by its weights alone: "
        "from −1 (it lowers all of them) to 1 (it raises all of them).",
        _CIRCUITS,
    ),
    Term(
        "Cosine similarity",
        "How closely two vectors point the same way: 1 is the same direction, 0 a right angle, −1 "
        "the opposite.",
    ),
    Term(
        "Direct contribution",
        "What a head, an MLP or an embedding adds to a logit through the stream. All the "
        "contributions add up to the logit.",
        _CIRCUITS,
    ),
    Term(
        "Dropout",
        "In training, numbers are set to 0 at random, so that the model doesn't rely on any single "
        "one. It is off here.",
        "Hinton et al. 2012, Improving Neural Networks by Preventing Co-adaptation of Feature "
        "Detectors",
    ),
    Term(
        "Embedding", "The vector that stands for a token or a position: a row of a learned table."
    ),
    Term(
        "Entropy",
        "How undecided a distribution is, in bits: 0 if one token has all the probability, and "
        "one more each time the number of equally likely tokens doubles.",
        "Shannon 1948, A Mathematical Theory of Communication",
    ),
    Term(
        "Flash attention",
        "A way to compute attention a few keys at a time, without ever storing the whole table of "
        "scores. The outputs are the same, up to rounding.",
        "Dao et al. 2022, FlashAttention: Fast and Memory-Efficient Exact Attention with "
        "IO-Awareness",
    ),
    Term(
        "GELU",
        "The curve inside GPT-2's MLP: x times the chance that a normal random number is below x.",
        "Hendrycks & Gimpel 2016, Gaussian Error Linear Units",
    ),
    Term(
        "Gradient",
        "How fast the loss changes as a number grows a little. Training moves each parameter "
        "against its gradient.",
    ),
    Term(
        "Grouped-query attention",
        "Several heads share one set of keys and values but have their own queries, so that the KV "
        "cache is smaller. GPT-2 doesn't share them.",
        "Ainslie et al. 2023, GQA: Training Generalized Multi-Query Transformer Models from "
        "Multi-Head Checkpoints",
    ),
    Term(
        "Head",
        "One of several attention units that work side by side in a layer, each with its own "
        "queries; keys and values are its own or its group's. Counted from 0.",
        _VASWANI,
    ),
    Term(
        "Head output",
        "Weights times values: what a head gathered for each token. Elsewhere: z.",
        _VASWANI,
    ),
    Term(
        "Induction head",
        "A head that copies: it looks at what followed the token's previous occurrence. After "
        "“Mary … Mary” that is the word after the first Mary.",
        _CIRCUITS,
    ),
    Term("Key", "What a token can be found by: a vector that is compared with queries.", _VASWANI),
    Term(
        "KL divergence",
        "How far one distribution is from another: the bits lost by believing the wrong one. 0 if "
        "they are the same.",
        "Kullback & Leibler 1951, On Information and Sufficiency",
    ),
    Term(
        "KV cache",
        "The keys and values of the tokens read so far, kept so that each token is run only once. "
        "Filling it with the sentence is called prefill.",
    ),
    Term(
        "Layer",
        "Attention followed by an MLP; GPT-2 is a stack of layers. Counted from 0.",
        _VASWANI,
    ),
    Term(
        "LayerNorm",
        "Gives a vector mean 0 and standard deviation 1, then scales and shifts it by learned "
        "numbers.",
        "Ba et al. 2016, Layer Normalization",
    ),
    Term(
        "Logit",
        "The model's score for a token of the vocabulary, before softmax turns all scores into "
        "probabilities.",
    ),
    Term(
        "Logit lens",
        "Stops after each step and asks for a prediction: what would the model say if this step "
        "were its last?",
        "nostalgebraist 2020, interpreting GPT: the logit lens",
    ),
    Term(
        "Loss",
        "−ln of the probability that the model gave to the next token. Training makes it small.",
    ),
    Term(
        "MLP",
        "Multi-layer perceptron, the second half of a layer: two matrices with a curve between "
        "them, or three if one is a gate, applied to each token alone. Elsewhere: feed-forward "
        "network.",
        _VASWANI,
    ),
    Term(
        "Nat and bit",
        "Units of surprise: −ln of a probability is in nats, −log₂ in bits. One nat is 1.44 bits.",
    ),
    Term("Parameter", "A number that the model learned. Elsewhere: weight."),
    Term(
        "Pre-norm",
        "LayerNorm before attention and MLP, not on the stream itself, as in GPT-2. Post-norm is "
        "the other order.",
        "Wang et al. 2019, Learning Deep Transformer Models for Machine Translation",
    ),
    Term(
        "Previous-token head", "A head in which each token looks at the one before it.", _CIRCUITS
    ),
    Term(
        "Query",
        "What a token is looking for: a vector that is compared with the keys of the tokens it "
        "may see. Rows of a picture are queries.",
        _VASWANI,
    ),
    Term(
        "Residual stream",
        "A token's vector on its way through the layers. Heads and MLPs read it and add to it.",
        _CIRCUITS,
    ),
    Term(
        "RMSNorm",
        "LayerNorm without the mean: a vector is divided by the root of its mean square, then "
        "scaled by learned numbers.",
        "Zhang & Sennrich 2019, Root Mean Square Layer Normalization",
    ),
    Term(
        "RNN",
        "Recurrent neural network: it reads token by token, and keeps all that it knows in one "
        "vector, which each token changes.",
        "Elman 1990, Finding Structure in Time",
    ),
    Term(
        "Rollout",
        "All layers' weights multiplied: how much of each token reaches a later one, if only "
        "attention moved information. A rough guide.",
        "Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers",
    ),
    Term(
        "RoPE",
        "Rotary position embedding: queries and keys are turned by an angle that grows with their "
        "position, so that only the distance between two positions affects their score.",
        "Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding",
    ),
    Term(
        "Score",
        "How well a query and a key match: their dot product. Divided by √hs it is the scaled "
        "score.",
        "Luong et al. 2015, Effective Approaches to Attention-based Neural Machine Translation",
    ),
    Term(
        "Shape",
        "How many numbers a tensor has along each axis: B texts at once, T tokens, C channels, nh "
        "heads, hs channels of a head.",
    ),
    Term(
        "Softmax",
        "Turns scores into weights that are above 0 and sum to 1: e to the power of each score, "
        "divided by the sum of these. Larger scores get more.",
    ),
    Term(
        "Surprise",
        "−log₂ of the probability that the model gave to a token before it saw it: 0 bits is "
        "certain, 10 bits is 1 in 1,024.",
    ),
    Term(
        "SwiGLU",
        "An MLP with a gate: one matrix's results, bent by the curve SiLU, decide how much of "
        "another's passes.",
        "Shazeer 2020, GLU Variants Improve Transformer",
    ),
    Term(
        "Temperature",
        "Logits are divided by it before softmax: below 1 the likeliest token gets more, above 1 "
        "less.",
    ),
    Term("Tensor", "A table of numbers with any number of axes."),
    Term(
        "Token",
        "What the model reads in place of letters: a word or a piece of one, with a number in its "
        "vocabulary.",
        "Sennrich et al. 2016, Neural Machine Translation of Rare Words with Subword Units",
    ),
    Term(
        "Top-k and top-p",
        "Draw only from the k most probable tokens, or from the fewest that together have "
        "probability p.",
        "Top-k: Fan et al. 2018, Hierarchical Neural Story Generation; top-p: Holtzman et al. "
        "2020, The Curious Case of Neural Text Degeneration",
    ),
    Term(
        "Unembedding",
        "The table that turns the last vector into logits, with one row per token. GPT-2 reuses "
        "its token embeddings (weight tying).",
        "Weight tying: Press & Wolf 2017, Using the Output Embedding to Improve Language Models",
    ),
    Term("Value", "The vector that a token passes on to the tokens that look at it.", _VASWANI),
    Term(
        "Value-weighted attention",
        "Each weight times the length of the vector that it passes on: a large weight on a short "
        "vector has little effect.",
        "Kobayashi et al. 2020, Attention is Not Only a Weight",
    ),
    Term(
        "Virtual head",
        "Two heads in a row seen as one: a later head moves what an earlier one gathered.",
        _CIRCUITS,
    ),
    Term("Vocabulary", "All the tokens that a model knows, each with a number."),
    Term("Zero ablation", "Switching a head or an MLP off by setting its output to 0."),
)

TERM: Mapping[str, Term] = {term.key: term for term in TERMS}

#: Spellings of a term other than its name and its name with an s.
_VARIANTS = {
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
#: The term by spelling, in lower case.
SPELLED: Mapping[str, Term] = {spelling: TERM[key] for spelling, key in _VARIANTS.items()} | {
    term.name.lower() + s: term for term in TERMS for s in ("", "s")
}
#: A regular expression for any spelling as a whole word, the longest first.
A_TERM = (
    rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(SPELLED, key=len, reverse=True)))})(?![\w-])"
)


def find_terms(text: str) -> tuple[Term, ...]:
    """Return the terms whose name or meaning contains ``text``, ignoring case; all for ""."""
    needle = text.casefold().strip()
    return tuple(term for term in TERMS if needle in f"{term.name}\n{term.meaning}".casefold())

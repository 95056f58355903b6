"""Logits for the next token: after every token in training, after the last when generating."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from gpt2viz.textbook.claims import Claim, shape
from gpt2viz.textbook.tensors import randomize, rows

# E14 on a plane: a vocabulary of four words, and the vector of the last token.
FOUR = ("fish", "steel", "the", "ate")
EMBEDDING = ((0.9, 0.1), (0.1, 0.9), (0.3, 0.3), (0.8, -0.4))
LAST = ((1.6, 0.4),)


def logits(x: ArrayLike, embedding: ArrayLike) -> Tensor:
    """One score for every token of the vocabulary: x (T, C) -> (T, n_vocab).

    The output matrix is the token embedding (n_vocab, C) itself (Press & Wolf 2017).
    """
    return rows(x) @ rows(embedding).T


def next_token(scores: ArrayLike, temperature: float = 1.0) -> Tensor:
    """Scores (n_vocab,) as probabilities (n_vocab,); a high temperature makes them more uniform."""
    return torch.softmax(rows(scores) / temperature, dim=-1)


def loss(scores: ArrayLike, target: int) -> Tensor:
    """−ln of the probability of the actual next token, in nats: the loss that training reduces."""
    return -torch.log_softmax(rows(scores), dim=-1)[target]


def logit_claims() -> list[Claim]:
    """E14, on a GPT-2 of 50 tokens and two layers that reads 5 tokens."""
    config = GPT2Config(vocab_size=50, n_positions=8, n_embd=12, n_layer=2, n_head=3)
    tiny, ids = randomize(GPT2(config), seed=0), torch.tensor([[3, 1, 4, 1, 5]])
    with torch.inference_mode():
        every, last = tiny(ids), tiny(ids, last_only=True)
    return [
        Claim("training: (B, T, n_vocab)", "", shape(every)),
        Claim("writing: (B, 1, n_vocab)", "", shape(last)),
        Claim("the last row is the same", "", str(torch.allclose(every[:, -1:], last, atol=1e-5))),
    ]

"""Training: a batch, its loss by hand, one gradient step, and small models that are trained.

Shapes: B texts, T tokens, N targets, V tokens or letters of the vocabulary, C channels.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from gpt2viz.settings import BUNDLED
from gpt2viz.textbook.heads import CausalAttention, MultiHeadAttention
from gpt2viz.textbook.mlp import FeedForward
from gpt2viz.textbook.residual import PreNorm, Residual
from gpt2viz.textbook.tensors import randomize, rows

#: A target that is left out of the loss. PyTorch calls it ``ignore_index``; this is its default.
IGNORED = -100

# Two words as a batch, and the letters that they are made of.
LETTERS = ("a", "b", "n", "s")
WORDS = ("banana", "bans")
#: A table's initial logits: a row for each letter read.
LOGITS = ((0.0, 0.5, 1.0, 0.0), (1.0, 0.0, 0.0, 0.0), (0.5, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 0.0))


class Batch(NamedTuple):
    """Input ids (B, T), and the target ids, each the next token (B, T)."""

    inputs: Tensor
    targets: Tensor


class Costs(NamedTuple):
    """Probabilities (N, V), −ln p of each target (N,), 0 if it is ignored, and the mean loss."""

    probabilities: Tensor
    each: Tensor
    mean: Tensor


def batch(texts: Sequence[Sequence[int]]) -> Batch:
    """Texts of any length as rows: the target of each token is the one that follows it.

    Shorter rows are padded with id 0 in the inputs and ignored targets.
    """
    every = [torch.tensor(ids, dtype=torch.long) for ids in texts]
    inputs = pad_sequence([ids[:-1] for ids in every], batch_first=True)
    targets = pad_sequence([ids[1:] for ids in every], batch_first=True, padding_value=IGNORED)
    return Batch(inputs, targets)


def cross_entropy(logits: ArrayLike, targets: Tensor) -> Costs:
    """The loss of logits (N, V) in nats: the mean of −ln p over the targets (N,) not ignored."""
    logs = torch.log_softmax(rows(logits), dim=-1)  # (N, V): ln p, however small p is
    counts = targets != IGNORED  # (N,)
    each = torch.zeros(len(targets))
    each[counts] = -logs[counts, targets[counts]]
    return Costs(logs.exp(), each, each.sum() / counts.sum())


def torch_cross_entropy(logits: ArrayLike, targets: Tensor) -> Tensor:
    """The same mean from PyTorch's own function: a scalar tensor, with gradients to the logits."""
    return F.cross_entropy(rows(logits), targets, ignore_index=IGNORED)


def gradient(logits: ArrayLike, targets: Tensor) -> Tensor:
    """The loss's gradient in the logits, (N, V): (p − 1 at the target) / targets counted."""
    probabilities = torch.softmax(rows(logits), dim=-1)  # (N, V)
    counts = targets != IGNORED  # (N,)
    target = torch.zeros_like(probabilities)
    target[counts, targets[counts]] = 1.0
    return (probabilities - target) * counts[:, None] / counts.sum()


def step(table: ArrayLike, lessons: Batch, rate: float) -> Tensor:
    """A table of logits (V, V), a row for each letter read, after one step against the gradient."""
    read, targets = lessons.inputs.flatten(), lessons.targets.flatten()  # (N,)
    uphill = gradient(rows(table)[read], targets)  # (N, V)
    of_rows = torch.zeros_like(rows(table)).index_add_(0, read, uphill)  # (V, V)
    return rows(table) - rate * of_rows


def words() -> Batch:
    """The two words as a batch."""
    return batch([[LETTERS.index(letter) for letter in word] for word in WORDS])


def perplexity(loss: float) -> float:
    """exp(loss): the number of equally likely tokens that would give this loss."""
    return math.exp(loss)


class Setting(NamedTuple):
    """A context of T letters, batches of B sequences; C channels, ``nh`` heads.

    Training takes ``steps`` of AdamW with a learning ``rate``; the loss is measured ``points``
    times on the way.
    """

    T: int = 32
    B: int = 16
    C: int = 32
    nh: int = 4
    steps: int = 1000
    rate: float = 0.005
    points: int = 20


class Corpus(NamedTuple):
    """The alphabet (``letters``), and ids: for training ``read`` (n,), and ``held_out`` (m,)."""

    letters: str
    read: Tensor
    held_out: Tensor


class Point(NamedTuple):
    """The loss on held-out text, in nats a letter, after so many steps."""

    step: int
    loss: float


class Reader(nn.Module):
    """Letter and position embeddings, then ``parts``, then logits: (B, T) -> (B, T, V)."""

    def __init__(self, V: int, T: int, C: int, parts: nn.Module) -> None:
        super().__init__()
        self.letters, self.positions = nn.Embedding(V, C), nn.Embedding(T, C)
        self.parts, self.out = parts, nn.Linear(C, V)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.letters(ids) + self.positions(torch.arange(ids.shape[1]))  # (B, T, C)
        return self.out(self.parts(x))  # type: ignore[no-any-return]


def blocks(size: Setting, n_layer: int) -> nn.Sequential:
    """Pre-norm layers as in GPT-2, of attention and MLP, and a final LayerNorm."""
    layers: list[nn.Module] = []
    for _ in range(n_layer):
        layers += [PreNorm(size.C, attention(size)), PreNorm(size.C, FeedForward(size.C))]
    return nn.Sequential(*layers, nn.LayerNorm(size.C))


def attention(size: Setting) -> MultiHeadAttention:
    """Multi-head attention, with the matrix that mixes the heads."""
    return MultiHeadAttention(size.C, size.nh, size.T)


#: The parts of each model, named by what it adds to the one before.
PARTS: Mapping[str, Callable[[Setting], nn.Module] | None] = {
    "a table": None,
    "vectors, output table": lambda _: nn.Identity(),
    "+ attention": lambda size: CausalAttention(size.C, size.C),
    "+ heads": attention,
    "+ residual": lambda size: Residual(attention(size)),
    "+ norms": lambda size: nn.Sequential(PreNorm(size.C, attention(size)), nn.LayerNorm(size.C)),
    "+ MLP": lambda size: blocks(size, 1),
    "+ second layer": lambda size: blocks(size, 2),
}


def build(name: str, V: int, size: Setting, seed: int) -> nn.Module:
    """One of ``PARTS`` as a model of V letters, its parameters drawn from a seed.

    The table has a row of logits for each letter, without context: (B, T) -> (B, T, V).
    """
    parts = PARTS[name]
    table = nn.Embedding(V, V)
    return randomize(Reader(V, size.T, size.C, parts(size)) if parts else table, seed)


@lru_cache(maxsize=1)
def corpus() -> Corpus:
    """The passages of old books that come with the bundled model; every tenth is held out.

    Lower-cased; all but letters, commas, full stops and apostrophes become spaces.
    """
    with (BUNDLED / "survey" / "passages.csv").open(encoding="utf-8", newline="") as file:
        rows_of = csv.DictReader(file)
        passages = {(row["document"], row["part"], row["token"]): row["text"] for row in rows_of}
    texts = [re.sub(r"[^a-z,.']+", " ", text.lower()).strip() for text in passages.values()]
    letters = "".join(sorted(set(" ".join(texts))))
    halves = [
        " ".join(text for n, text in enumerate(texts) if (n % 10 == 0) == out) for out in (0, 1)
    ]
    read, held_out = (torch.tensor([letters.index(letter) for letter in half]) for half in halves)
    return Corpus(letters, read, held_out)


def train(model: nn.Module, text: Corpus, size: Setting, seed: int) -> Iterator[Point]:
    """Train on random stretches of the training text; yields the loss before and on the way."""
    draws = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=size.rate, fused=True)
    for n in range(size.steps + 1):
        if n % (size.steps // size.points) == 0:
            yield Point(n, held_out_loss(model, text.held_out, size.T))
        if n == size.steps:
            return
        starts = torch.randint(len(text.read) - size.T, (size.B, 1), generator=draws)
        positions = starts + torch.arange(size.T)  # (B, T)
        loss = loss_of(model, text.read[positions], text.read[positions + 1])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy of ids (B, T) and their targets (B, T): a scalar to backpropagate from."""
    return torch_cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


@torch.inference_mode()
def held_out_loss(model: nn.Module, ids: Tensor, T: int) -> float:
    """The loss over all of a text (m,), read in stretches of T."""
    n = (len(ids) - 1) // T * T
    return float(loss_of(model, ids[:n].view(-1, T), ids[1 : n + 1].view(-1, T)))


@torch.inference_mode()
def write(model: nn.Module, letters: str, T: int, n: int, seed: int) -> str:
    """``n`` letters, each drawn from the model's probabilities after the last T."""
    draws = torch.Generator().manual_seed(seed)
    ids = torch.tensor([[letters.index(" ")]])
    for _ in range(n):
        chances = torch.softmax(model(ids[:, -T:])[:, -1], dim=-1)  # (1, V)
        ids = torch.cat([ids, torch.multinomial(chances, 1, generator=draws)], dim=1)
    return "".join(letters[int(id)] for id in ids[0, 1:])

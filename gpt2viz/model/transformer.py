"""The interface of a language model of any family, for runs and analyses.

Every family names its modules as its checkpoints do, and maps them to common names here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gpt2viz.arrays import Numbers
from gpt2viz.model.config import ModelConfig
from gpt2viz.model.devices import double


def named(name: str) -> Any:
    """A common name for the module that a family's checkpoints call ``name``."""
    return property(attrgetter(name))


class Transformer(nn.Module, ABC):
    """Token ids (B, T) -> logits (B, T, n_vocab), or (B, 1, n_vocab) for the last token only.

    A stack of pre-norm ``blocks``, whose arguments are those of ``GPT2.forward``. ``embedding`` has
    the vector of every token, (n_vocab, C), and ``position_embedding`` that of every position,
    (n_positions, C), if positions are learned vectors. ``final_norm`` is before the unembedding.
    """

    config: ModelConfig
    embedding: nn.Embedding
    position_embedding: nn.Embedding | None = None
    blocks: Sequence[Block]
    final_norm: nn.Module
    lm_head: nn.Linear

    if TYPE_CHECKING:  # a family's own modules, under its checkpoints' names

        def __getattr__(self, name: str) -> Any: ...

    @property
    def device(self) -> torch.device:
        """The device where it computes."""
        return self.embedding.weight.device

    @abstractmethod
    def embed(self, ids: Tensor, position_ids: Tensor) -> Tensor:
        """The residual stream at the start, of tokens (B, T) at positions (T,): (B, T, C)."""


class Attention(nn.Module, ABC):
    """A layer's attention, (B, T, C) -> (B, T, C), and its weights by head.

    ``rotates`` is True if positions rotate its queries and keys.
    """

    rotates = False

    @abstractmethod
    def input_weights(self, into: str, head: int) -> tuple[Tensor, Tensor]:
        """W_Q, W_K or W_V of a head (C, hs), ``into`` being "q", "k" or "v", and its bias (hs,)."""

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate queries or keys (…, T, hs) by their positions (T,), if positions do that."""
        return x

    def head_norm(self, into: str) -> nn.Module | None:
        """The norm of a head's own q or k (…, hs) before these are rotated, if there is one."""
        return None

    @abstractmethod
    def output_weights(self) -> tuple[Tensor, Tensor]:
        """The projection that merges the heads: W_O by head (nh, hs, C), and b_O (C,) or zeros."""


class Block(nn.Module):
    """One layer: attention, then MLP, each after its norm and added to the stream (B, T, C)."""

    attention_norm: nn.Module
    attention: Attention
    mlp_norm: nn.Module
    mlp: nn.Module


class Norm(NamedTuple):
    """The numbers of a LayerNorm or RMSNorm: x -> ``centre(x) / sigma(x)`` · gain + bias.

    LayerNorm (Ba et al. 2016) subtracts the mean over the channels first and is ``centred``;
    RMSNorm (Zhang & Sennrich 2019) doesn't, and has no bias: zeros. ``gain`` and ``bias`` are (C,).
    """

    gain: Numbers
    bias: Numbers
    eps: float
    centred: bool

    @classmethod
    def of(cls, module: nn.Module) -> Norm:
        """The numbers of a ``nn.LayerNorm`` or ``nn.RMSNorm``."""
        gain = double(module.weight)  # type: ignore[arg-type]
        bias = getattr(module, "bias", None)
        zeros = np.zeros_like(gain)
        centred = isinstance(module, nn.LayerNorm)
        return cls(gain, zeros if bias is None else double(bias), float(module.eps or 0), centred)  # type: ignore[arg-type]

    def centre(self, x: Numbers, axis: int = -1) -> Numbers:
        """``x`` without its mean over the channels, along ``axis``; RMSNorm subtracts none."""
        return x - x.mean(axis, keepdims=True) if self.centred else x

    def sigma(self, x: Numbers) -> Numbers:
        """The scale that streams (…, C) are divided by: (…,)."""
        sigma: Numbers = np.sqrt((self.centre(x) ** 2).mean(-1) + self.eps)
        return sigma

"""GPT-2 in PyTorch, top to bottom as the data flows, under the released checkpoints' names.

Radford et al. 2019, "Language Models are Unsupervised Multitask Learners": a stack of pre-norm
transformer blocks with learned positions. Shapes are written at the end of the line that makes
them: B batch, T tokens, C channels (n_embd), nh heads, hs channels of one head, F channels
inside the MLP (n_inner, or 4 C).

Each ``nn.Identity`` below is a tap: it gives a tensor a name that PyTorch's own forward hooks
can reach. It has no weights and changes no number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gpt2viz.errors import ContextError
from gpt2viz.model import transformer
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.mask import hidden_pairs
from gpt2viz.model.transformer import named


class Past(NamedTuple):
    """Queries, keys and values of the P tokens before the given ones: (B, nh, P, hs).

    ``q`` is None if the scores of these queries aren't needed.
    """

    q: Tensor | None
    k: Tensor
    v: Tensor

    def expand(self, B: int) -> Past:
        """The same ``Past`` for each of B texts."""
        q, k, v = (x if x is None else x.expand(B, -1, -1, -1) for x in self)
        return Past(q, k, v)  # type: ignore[arg-type]


class Mask(NamedTuple):
    """The keys (columns) that each query (row) may not see: one mask for all layers of a run.

    ``hidden`` (r, P + T) is True where a key is hidden from one of the last r queries. ``causal``
    says that it hides exactly the later keys, and ``open`` that it hides none. With ``explicit``
    every score and weight is a tensor of its own. ``positions`` (P + T,) are those of all tokens.
    """

    hidden: Tensor
    causal: bool
    open: bool
    explicit: bool
    positions: Tensor

    @classmethod
    def of(
        cls,
        n_queries: int,
        positions: Tensor,
        causal: bool = True,
        explicit: bool = False,
        forbidden: Tensor | None = None,
    ) -> Mask:
        """The mask of the last queries of a text whose tokens have these positions (P + T,)."""
        hidden = hidden_pairs(positions, causal, forbidden, slice(-n_queries, None))
        whole = forbidden is None and n_queries == len(positions)
        return cls(hidden, causal and whole, whole and not causal, explicit, positions)

    def apply_window(self, window: int | None) -> Mask:
        """The mask of a layer whose queries see no key ``window`` positions away or more."""
        if window is None or window >= len(self.positions):
            return self
        queries = slice(-len(self.hidden), None)
        far = hidden_pairs(self.positions, False, queries=queries, window=window)  # (r, P + T)
        return self._replace(hidden=self.hidden | far, causal=False, open=False)


class Attend(nn.Module):
    """softmax(q kᵀ / √hs + mask) v, step by step (Vaswani et al. 2017, equation 1).

    Some models divide the scores of a layer by ``divisor`` as well (Stanford's Mistral, 2021).
    Takes q, k, v of shape (B, nh, T, hs) and returns (B, nh, T, hs). Rows of the (T, T) matrices
    are queries, columns are keys; ``hidden`` (T, T) is True where the mask is −∞.
    """

    def __init__(self, divisor: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.divisor = divisor
        self.scores = nn.Identity()
        self.scaled_scores = nn.Identity()
        self.masked_scores = nn.Identity()
        self.weights = nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.head_output = nn.Identity()

    def forward(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> Tensor:
        hs = q.shape[-1]
        scores = self.scores(q @ k.transpose(-2, -1))  # (B, nh, T, T)
        scaled = self.scaled_scores(scores / (math.sqrt(hs) * self.divisor))  # (B, nh, T, T)
        masked = self.masked_scores(scaled.masked_fill(hidden, -math.inf))  # (B, nh, T, T)
        weights = self.weights(F.softmax(masked, dim=-1))  # (B, nh, T, T)
        return self.head_output(self.dropout(weights) @ v)  # (B, nh, T, hs)

    def fused(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """The same by one kernel, which makes no scores and no weights."""
        dropout = self.dropout.p if self.training else 0.0
        visible = None if mask.causal or mask.open else ~mask.hidden
        scale = 1 / (math.sqrt(q.shape[-1]) * self.divisor)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=visible, dropout_p=dropout, is_causal=mask.causal, scale=scale
        )
        return self.head_output(y)  # (B, nh, T, hs)


class SelfAttention(transformer.Attention):
    """Multi-head self-attention: (B, T, C) -> (B, T, C)."""

    def __init__(self, config: GPT2Config, layer: int) -> None:
        super().__init__()
        C = config.n_embd
        self.n_head = config.n_head
        self.c_attn = nn.Linear(C, 3 * C)
        self.q, self.k, self.v = nn.Identity(), nn.Identity(), nn.Identity()
        self.attend = Attend(config.layer_divisor(layer), config.attn_pdrop)
        self.c_proj = nn.Linear(C, C)
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def split_heads(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        B, T, C = x.shape
        heads = x.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, nh, T, hs)
        return heads if past is None else torch.cat([past, heads], dim=2)  # (B, nh, P + T, hs)

    def forward(self, x: Tensor, mask: Mask, past: Past | None = None) -> Tensor:
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=-1)  # (B, T, 3C) -> three times (B, T, C)
        q = self.q(self.split_heads(q, past and past.q))  # (B, nh, T, hs)
        k = self.k(self.split_heads(k, past and past.k))  # (B, nh, T, hs)
        v = self.v(self.split_heads(v, past and past.v))  # (B, nh, T, hs)
        if mask.explicit:  # scores of earlier queries are computed too, but not their outputs
            y = self.attend(q, k, v, mask.hidden)[:, :, -T:]  # (B, nh, T, hs)
        else:
            y = self.attend.fused(q, k, v, mask)  # (B, nh, T, hs)
        y = y.transpose(1, 2).reshape(B, T, C)
        y = self.c_proj(y)  # (B, T, C)
        return self.resid_dropout(y)  # (B, T, C)

    def input_weights(self, into: str, head: int) -> tuple[Tensor, Tensor]:
        C, hs = len(self.c_proj.bias), len(self.c_proj.bias) // self.n_head
        start = "qkv".index(into) * C + head * hs
        rows = slice(start, start + hs)
        return self.c_attn.weight[rows].t(), self.c_attn.bias[rows]

    def output_weights(self) -> tuple[Tensor, Tensor]:
        W_O = self.c_proj.weight.t()  # (C, C)
        return W_O.reshape(self.n_head, -1, len(W_O)), self.c_proj.bias


class GELUTanh(nn.GELU):
    """GELU in its tanh approximation, "gelu_new" in config.json (Hendrycks & Gimpel 2016)."""

    def __init__(self) -> None:
        super().__init__(approximate="tanh")


ACTIVATION = {
    "gelu_new": GELUTanh,
    "gelu_fast": GELUTanh,
    "gelu_pytorch_tanh": GELUTanh,
    "gelu_python_tanh": GELUTanh,
    "gelu": nn.GELU,
    "gelu_python": nn.GELU,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "tanh": nn.Tanh,
}


class MLP(nn.Module):
    """Two linear layers with an activation between them, for each token separately: (B, T, C)."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, config.mlp_dim)
        self.act = ACTIVATION[config.activation_function]()
        self.c_proj = nn.Linear(config.mlp_dim, config.n_embd)
        self.dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x: Tensor) -> Tensor:
        x = self.c_fc(x)  # (B, T, F)
        x = self.act(x)  # (B, T, F)
        x = self.c_proj(x)  # (B, T, C)
        return self.dropout(x)  # (B, T, C)


class Block(transformer.Block):
    """One layer: attention, then MLP, each added to the residual stream (B, T, C)."""

    attention_norm = named("ln_1")
    attention = named("attn")
    mlp_norm = named("ln_2")

    def __init__(self, config: GPT2Config, layer: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.attn = SelfAttention(config, layer)
        self.residual_mid = nn.Identity()
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.mlp = MLP(config)
        self.residual_out = nn.Identity()

    def forward(self, x: Tensor, mask: Mask, past: Past | None = None) -> Tensor:
        normed = self.ln_1(x)  # (B, T, C)
        x = self.residual_mid(x + self.attn(normed, mask, past))  # (B, T, C)
        normed = self.ln_2(x)  # (B, T, C)
        return self.residual_out(x + self.mlp(normed))  # (B, T, C)


def empty_embedding(n: int, C: int) -> nn.Embedding:
    """A table (n, C) to be filled later. To initialize it on PyTorch's device "meta" would load its
    compiler, which took three seconds in each process.
    """
    return nn.Embedding.from_pretrained(torch.empty(n, C), freeze=False)  # type: ignore[no-untyped-call]


class GPT2(transformer.Transformer):
    """Token ids (B, T) -> logits (B, T, n_vocab), or (B, 1, n_vocab) for the last token only."""

    config: GPT2Config
    embedding = named("wte")
    position_embedding = named("wpe")
    blocks = named("h")
    final_norm = named("ln_f")

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.config = config
        self.wte = empty_embedding(config.vocab_size, config.n_embd)
        self.wpe = empty_embedding(config.n_positions, config.n_embd)
        self.drop = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList(Block(config, n) for n in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.wte.weight

    def embed(self, ids: Tensor, position_ids: Tensor) -> Tensor:
        tokens = self.wte(ids)  # (B, T, C)
        positions = self.wpe(position_ids)  # (T, C)
        return self.drop(tokens + positions)  # (B, T, C)

    def forward(
        self,
        ids: Tensor,
        *,
        causal: bool = True,
        explicit: bool = False,
        last_only: bool = False,
        forbidden: Tensor | None = None,
        past: Sequence[Past] | None = None,
    ) -> Tensor:
        """Run the model.

        With ``causal`` a token sees itself and those before it, and no others. ``explicit`` makes
        every score and weight a tensor of its own; otherwise the same attention runs fused.
        ``forbidden`` (T, T) is True where a query (row) may not see a key (column) either; each
        query must have a key left to see.
        ``past`` is what every layer computed for P tokens before ``ids``, in a run with
        the mask on: they aren't run again. Keys and values are then of all P + T tokens.
        Raises ``ContextError`` if P + T is more than ``n_positions``.
        """
        first = past[0].k.shape[2] if past else 0
        T = first + ids.shape[1]
        n_positions = self.config.n_positions
        if T > n_positions:
            raise ContextError(T, n_positions)
        position_ids = torch.arange(T, device=ids.device)  # (P + T,)
        n_queries = T if past and past[0].q is not None else T - first
        mask = Mask.of(n_queries, position_ids, causal, explicit, forbidden)
        x = self.embed(ids, position_ids[first:])  # (B, T, C)
        for n, block in enumerate(self.blocks):
            x = block(x, mask, past[n] if past else None)  # (B, T, C)
        x = self.final_norm(x)  # (B, T, C)
        return self.lm_head(x[:, -1:] if last_only else x)  # (B, T, n_vocab)

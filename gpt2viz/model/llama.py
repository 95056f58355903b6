"""Llama's family in PyTorch, in the order of the data flow, with its checkpoints' names.

Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models": pre-norm blocks like
GPT-2's, with RMSNorm for LayerNorm, gated MLPs (Shazeer 2020), and queries and keys rotated by
their position (Su et al. 2021) in place of learned positions. Heads may share keys and values
(Ainslie et al. 2023). Mistral adds a window, Qwen2 biases, Qwen3 norms on queries and keys.

Shapes are written as in ``network.py``; nkv are groups of heads that share keys and values.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor, nn

from gpt2viz.model import transformer
from gpt2viz.model.config import LlamaConfig, Rope
from gpt2viz.model.network import ACTIVATION, GPT2, Attend, Mask, Past, empty_embedding
from gpt2viz.model.transformer import named


@lru_cache(maxsize=8)
def speeds(rope: Rope, hs: int) -> Tensor:
    """The angle by which each pair of a head's channels rotates from one position to the next.

    In radians: (hs / 2,). See ``config.Rope``.
    """
    angles = 1.0 / rope.base ** (torch.arange(0, hs, 2, device="cpu").double() / hs)
    if rope.kind == "linear":
        return angles / rope.factor
    if rope.kind == "llama3":
        wavelength = 2 * math.pi / angles  # positions per full turn
        unscaled = (rope.original / wavelength - rope.low) / (rope.high - rope.low)
        unscaled = unscaled.clamp(0, 1)
        return unscaled * angles + (1 - unscaled) * angles / rope.factor
    return angles


class SelfAttention(transformer.Attention):
    """Multi-head self-attention, whose heads may share keys and values: (B, T, C) -> (B, T, C)."""

    rotates = True

    def __init__(self, config: LlamaConfig, layer: int) -> None:
        super().__init__()
        C, hs, nh, nkv = config.n_embd, config.head_dim, config.n_head, config.n_kv_head
        self.config, self.window = config, config.window(layer)
        self.q_proj = nn.Linear(C, nh * hs, bias=config.qkv_bias)
        self.k_proj = nn.Linear(C, nkv * hs, bias=config.qkv_bias)
        self.v_proj = nn.Linear(C, nkv * hs, bias=config.qkv_bias)
        if config.qk_norm:
            self.q_unnormed, self.k_unnormed = nn.Identity(), nn.Identity()
            self.q_norm = nn.RMSNorm(hs, eps=config.rms_norm_eps)
            self.k_norm = nn.RMSNorm(hs, eps=config.rms_norm_eps)
        else:
            self.q_unrotated, self.k_unrotated = nn.Identity(), nn.Identity()
        self.q, self.k, self.v = nn.Identity(), nn.Identity(), nn.Identity()
        self.attend = Attend(config.layer_divisor(layer))
        self.o_proj = nn.Linear(nh * hs, C, bias=config.attention_bias)

    def split_heads(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        return x.view(B, T, -1, self.config.head_dim).transpose(1, 2)  # (B, nh or nkv, T, hs)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        by = speeds(self.config.rope, self.config.head_dim)  # (hs / 2,)
        angles = positions[:, None] * by.to(x)  # (T, hs / 2)
        cos, sin = angles.cos(), angles.sin()
        a, b = x.chunk(2, dim=-1)  # channel i is paired with i + hs / 2
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def forward(self, x: Tensor, mask: Mask, past: Past | None = None) -> Tensor:
        T = x.shape[1]
        mask, positions = mask.apply_window(self.window), mask.positions[-T:]
        q = self.split_heads(self.q_proj(x))  # (B, nh, T, hs)
        k = self.split_heads(self.k_proj(x))  # (B, nkv, T, hs)
        v = self.split_heads(self.v_proj(x))  # (B, nkv, T, hs)
        if self.config.qk_norm:
            q = self.q_norm(self.q_unnormed(q))  # (B, nh, T, hs)
            k = self.k_norm(self.k_unnormed(k))  # (B, nkv, T, hs)
        else:
            q, k = self.q_unrotated(q), self.k_unrotated(k)  # the same
        q, k = self.rotate(q, positions), self.rotate(k, positions)  # the same
        q = self.q(q if past is None or past.q is None else torch.cat([past.q, q], dim=2))
        k = self.k(k if past is None else torch.cat([past.k, k], dim=2))  # (B, nkv, P + T, hs)
        v = self.v(v if past is None else torch.cat([past.v, v], dim=2))  # (B, nkv, P + T, hs)
        shared = q.shape[1] // k.shape[1]
        keys, values = (y.repeat_interleave(shared, dim=1) for y in (k, v))  # (B, nh, P + T, hs)
        if mask.explicit:  # scores of earlier queries are computed too, but not their outputs
            y = self.attend(q, keys, values, mask.hidden)[:, :, -T:]  # (B, nh, T, hs)
        else:
            y = self.attend.fused(q, keys, values, mask)  # (B, nh, T, hs)
        return self.o_proj(y.transpose(1, 2).flatten(2))  # (B, T, C)

    def input_weights(self, into: str, head: int) -> tuple[Tensor, Tensor]:
        project: nn.Linear = self.get_submodule(f"{into}_proj")  # type: ignore[assignment]
        hs, n = self.config.head_dim, head if into == "q" else self.config.group_of(head)
        rows = slice(n * hs, (n + 1) * hs)
        weight = project.weight[rows].t()  # (C, hs)
        return weight, weight.new_zeros(hs) if project.bias is None else project.bias[rows]

    def head_norm(self, into: str) -> nn.Module | None:
        return self.get_submodule(f"{into}_norm") if self.config.qk_norm and into != "v" else None

    def output_weights(self) -> tuple[Tensor, Tensor]:
        W_O, bias = self.o_proj.weight.t(), self.o_proj.bias  # (nh · hs, C)
        none = W_O.new_zeros(W_O.shape[1])
        return W_O.reshape(self.config.n_head, -1, W_O.shape[1]), none if bias is None else bias


class MLP(nn.Module):
    """A gated MLP: two projections up, one gating the other, and one back: (B, T, C)."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        C, width = config.n_embd, config.mlp_dim
        self.gate_proj = nn.Linear(C, width, bias=config.mlp_bias)
        self.up_proj = nn.Linear(C, width, bias=config.mlp_bias)
        self.act_fn = ACTIVATION[config.hidden_act]()
        self.product = nn.Identity()
        self.down_proj = nn.Linear(width, C, bias=config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.act_fn(self.gate_proj(x))  # (B, T, F)
        return self.down_proj(self.product(gate * self.up_proj(x)))  # (B, T, C)


class Block(transformer.Block):
    """One layer: attention, then MLP, each added to the residual stream (B, T, C)."""

    attention_norm = named("input_layernorm")
    attention = named("self_attn")
    mlp_norm = named("post_attention_layernorm")

    def __init__(self, config: LlamaConfig, layer: int) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.n_embd, eps=config.rms_norm_eps)
        self.self_attn = SelfAttention(config, layer)
        self.residual_mid = nn.Identity()
        self.post_attention_layernorm = nn.RMSNorm(config.n_embd, eps=config.rms_norm_eps)
        self.mlp = MLP(config)
        self.residual_out = nn.Identity()

    def forward(self, x: Tensor, mask: Mask, past: Past | None = None) -> Tensor:
        x = self.residual_mid(x + self.self_attn(self.input_layernorm(x), mask, past))  # (B, T, C)
        return self.residual_out(x + self.mlp(self.post_attention_layernorm(x)))  # (B, T, C)


class Llama(transformer.Transformer):
    """Token ids (B, T) -> logits (B, T, n_vocab), or (B, 1, n_vocab) for the last token only."""

    config: LlamaConfig
    embedding = named("embed_tokens")
    blocks = named("layers")
    final_norm = named("norm")

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = empty_embedding(config.vocab_size, config.n_embd)
        self.start = nn.Identity()
        self.layers = nn.ModuleList(Block(config, n) for n in range(config.n_layer))
        self.norm = nn.RMSNorm(config.n_embd, eps=config.rms_norm_eps)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.embed_tokens.weight

    def embed(self, ids: Tensor, position_ids: Tensor) -> Tensor:
        return self.start(self.embed_tokens(ids))  # (B, T, C): positions come in with RoPE

    #: The same way through embedding, blocks, norm and head.
    forward = GPT2.forward

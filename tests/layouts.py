"""nanoGPT's and minGPT's networks in few lines, with their names, layouts and files.

Written from the two projects' published classes, for files and logits that share no code with the
package.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

V, T, C, L, H = 430, 24, 24, 3, 4


class Norm(nn.Module):
    """nanoGPT's LayerNorm, with or without a bias."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(C))
        self.bias = nn.Parameter(torch.zeros(C)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (C,), self.weight, self.bias, 1e-5)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.view(1, -1, H, C // H).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(C // H)
    later = torch.ones(scores.shape[2:]).triu(1).bool()
    y = scores.masked_fill(later, -math.inf).softmax(-1) @ v
    return y.transpose(1, 2).reshape(1, -1, C)


class Attention(nn.Module):
    def __init__(self, bias: bool, mask: bool) -> None:
        super().__init__()
        self.c_attn = nn.Linear(C, 3 * C, bias=bias)
        self.c_proj = nn.Linear(C, C, bias=bias)
        if mask:
            self.register_buffer("bias", torch.ones(T, T).tril().view(1, 1, T, T))

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(attend(*self.c_attn(x).split(C, dim=2)))


class OldAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(C, C) for _ in range(3))
        self.proj = nn.Linear(C, C)
        self.register_buffer("mask", torch.ones(T, T).tril().view(1, 1, T, T))

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(attend(self.query(x), self.key(x), self.value(x)))


class Block(nn.Module):
    def __init__(self, bias: bool, mask: bool, curve: nn.Module) -> None:
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = Norm(bias), Attention(bias, mask), Norm(bias)
        self.mlp = nn.ModuleDict(
            {
                "c_fc": nn.Linear(C, 4 * C, bias=bias),
                "c_proj": nn.Linear(4 * C, C, bias=bias),
                "act": curve,
            }
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        mlp = self.mlp
        return x + mlp["c_proj"](mlp["act"](mlp["c_fc"](self.ln_2(x))))


class OldBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.attn, self.ln2 = nn.LayerNorm(C), OldAttention(), nn.LayerNorm(C)
        self.mlp = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(), nn.Linear(4 * C, C), nn.Dropout(0))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class CurrentGPT(nn.Module):
    """nanoGPT (its exact GELU, tied) or minGPT (the tanh GELU, a head of its own)."""

    def __init__(self, nano: bool, bias: bool = True, mask: bool = False) -> None:
        super().__init__()
        curve = nn.GELU(approximate="none" if nano else "tanh")
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(V, C),
                "wpe": nn.Embedding(T, C),
                "h": nn.ModuleList(Block(bias, mask, curve) for _ in range(L)),
                "ln_f": Norm(bias),
            }
        )
        self.lm_head = nn.Linear(C, V, bias=False)
        if nano:
            self.transformer["wte"].weight = self.lm_head.weight

    def forward(self, ids: Tensor) -> Tensor:
        parts: Any = self.transformer
        x = parts["wte"](ids) + parts["wpe"](torch.arange(ids.shape[1]))
        for block in parts["h"]:
            x = block(x)
        return self.lm_head(parts["ln_f"](x))


class OldMinGPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tok_emb = nn.Embedding(V, C)
        self.pos_emb = nn.Parameter(torch.zeros(1, T, C))
        self.blocks = nn.Sequential(*(OldBlock() for _ in range(L)))
        self.ln_f = nn.LayerNorm(C)
        self.head = nn.Linear(C, V, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok_emb(ids) + self.pos_emb[:, : ids.shape[1]]
        return self.head(self.ln_f(self.blocks(x)))


def random_weights(network: nn.Module) -> nn.Module:
    """Large random weights and biases, so that a wrong layout shows in the numbers."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            around = 1.0 if ".ln" in name and name.endswith("weight") else 0.0
            weight.copy_(around + 0.7 * C**-0.5 * torch.randn_like(weight))
    return network.eval()


def save_nano(network: nn.Module, file: Path, bias: bool, compiled: bool = False) -> None:
    """``ckpt.pt`` as nanoGPT's train.py writes it."""
    prefix = "_orig_mod." if compiled else ""
    arguments: dict[str, Any] = {"n_layer": L, "n_head": H, "n_embd": C, "block_size": T}
    arguments |= {"bias": bias, "vocab_size": V, "dropout": 0.0}
    optimizer = torch.optim.AdamW(network.parameters())
    saved = {
        "model": {prefix + name: weight for name, weight in network.state_dict().items()},
        "optimizer": optimizer.state_dict(),
        "model_args": arguments,
        "iter_num": 5000,
        "best_val_loss": torch.tensor(3.1),
        "config": {"dataset": "openwebtext", **arguments},
    }
    torch.save(saved, file)

"""GPT-2 in eighty lines with gaps in eight places, each filled by a call with the gap's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import ACTIVATION


class GPT2:
    """Token ids (B, T) -> logits (B, T, n_vocab).

    ``weights`` have the names of a checkpoint, linear layers as (out, in). ``gap`` gets the name
    of a gap and the variables there, and returns the tensor that belongs in it.
    """

    def __init__(
        self, config: GPT2Config, weights: Mapping[str, Tensor], gap: Callable[..., Tensor]
    ) -> None:
        self.config, self.weights, self.gap = config, weights, gap
        self.activation = ACTIVATION[config.activation_function]()

    def linear(self, x: Tensor, name: str) -> Tensor:
        return x @ self.weights[f"{name}.weight"].mT + self.weights[f"{name}.bias"]

    def norm(self, x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)  # (B, T, C)
        variance = (centred**2).mean(-1, keepdim=True)  # (B, T, 1)
        even = centred / (variance + self.config.layer_norm_epsilon).sqrt()  # (B, T, C)
        return even * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, x: Tensor, name: str) -> Tensor:
        B, T, C = x.shape
        nh = self.config.n_head
        hs = C // nh
        qkv = self.linear(x, f"{name}.attn.c_attn")  # (B, T, 3C)
        q, k, v = (part.view(B, T, nh, hs).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        scores = self.gap("scores", q=q, k=k)  # (B, nh, T, T)
        scaled = self.gap("scale", scores=scores, C=C, nh=nh, hs=hs)  # (B, nh, T, T)
        masked = self.gap("mask", scaled=scaled, T=T)  # (B, nh, T, T)
        weights = self.gap("softmax", masked=masked)  # (B, nh, T, T)
        heads = weights @ v  # (B, nh, T, hs)
        merged = self.gap("merge", heads=heads, B=B, T=T, C=C)  # (B, T, C)
        return self.linear(merged, f"{name}.attn.c_proj")  # (B, T, C)

    def mlp(self, x: Tensor, name: str) -> Tensor:
        wide = self.activation(self.linear(x, f"{name}.mlp.c_fc"))  # (B, T, F)
        return self.linear(wide, f"{name}.mlp.c_proj")  # (B, T, C)

    def layer(self, x: Tensor, name: str) -> Tensor:
        for norm, part in (("ln_1", self.attention), ("ln_2", self.mlp)):
            made = part(self.norm(x, f"{name}.{norm}"), name)  # (B, T, C)
            x = self.gap("residual", x=x, made=made)  # (B, T, C)
        return x

    def logits(self, ids: Tensor) -> Tensor:
        T = ids.shape[1]
        wte, wpe = self.weights["wte.weight"], self.weights["wpe.weight"]
        x = self.gap("embedding", ids=ids, wte=wte, wpe=wpe, T=T)  # (B, T, C)
        for n in range(self.config.n_layer):
            x = self.layer(x, f"h.{n}")  # (B, T, C)
        x = self.norm(x, "ln_f")  # (B, T, C)
        return self.gap("head", x=x, wte=wte)  # (B, T, n_vocab)

    def write(self, ids: list[int], n_new: int, end: int | None) -> list[int]:
        """The most probable tokens, one after the other; none after ``end`` or a full context."""
        new: list[int] = []
        for _ in range(min(n_new, self.config.n_positions - len(ids))):
            logits = self.logits(torch.tensor([ids + new]))
            new.append(int(logits[0, -1].argmax()))
            if new[-1] == end:
                break
        return new

"""A hand-built model that copies, so that its explanation is known."""

from __future__ import annotations

from typing import Any

import torch

import gpt2viz
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from tests.bundled import bundled_model


def copying_model() -> gpt2viz.Model:
    """Two layers: head 0.0 attends one back, head 1.0 to the successor of its token.

    Channels: 12 of the token, 12 of its position, 12 where head 0.0 writes the previous token, and
    the same again with the opposite sign, so that LayerNorm finds a mean of 0 and one length.
    """
    n, T = 12, 12
    config = GPT2Config(
        vocab_size=n, n_positions=T, n_embd=6 * n, n_layer=2, n_head=2, n_inner=1,
        layer_norm_epsilon=1e-9,
    )  # fmt: skip
    network = GPT2(config)
    inner: Any = network  # torch types its modules' parts as tensors or modules
    eye, C, hs = torch.eye(n), 6 * n, 3 * n
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()
        for norm in (inner.ln_f, *(x for b in inner.h for x in (b.ln_1, b.ln_2))):
            norm.weight.fill_(1)
        inner.wte.weight[:, :n], inner.wte.weight[:, hs : hs + n] = eye, -eye
        inner.wpe.weight[:, n : 2 * n], inner.wpe.weight[:, hs + n : hs + 2 * n] = eye, -eye
        for layer, block in enumerate(inner.h):
            qkv = block.attn.c_attn.weight  # (3C, C)
            if layer == 0:
                back = torch.roll(eye, 1, 0)
                qkv[:n, n : 2 * n] = 40 * back.T  # the query matches the previous position
                qkv[C : C + n, n : 2 * n] = eye
                qkv[2 * C : 2 * C + n, :n] = eye  # the value is the token
                block.attn.c_proj.weight[2 * n : 3 * n, :n] = eye
                block.attn.c_proj.weight[hs + 2 * n : hs + 3 * n, :n] = -eye
            else:
                qkv[:n, :n] = 40 * eye  # the query matches its own token
                qkv[C : C + n, 2 * n : 3 * n] = eye  # … among previous tokens
    tokenizer = bundled_model().tokenizer
    return gpt2viz.Model("by hand", config, network.eval(), tokenizer)

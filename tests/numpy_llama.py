"""Llama's family in plain NumPy and double precision: the formulas again, without the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

Numbers = NDArray[np.float64]


def rms_norm(x: Numbers, gain: Numbers, epsilon: float) -> Numbers:
    result: Numbers = gain * x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
    return result


def angles(config: dict[str, Any], T: int) -> Numbers:
    """Angle of each pair of channels at each position: (T, hs / 2)."""
    rope, hs = config["rope_parameters"], config["head_dim"]
    speeds = np.array([rope["rope_theta"] ** (-2 * i / hs) for i in range(hs // 2)])
    if rope["rope_type"] == "linear":
        speeds = speeds / rope["factor"]
    if rope["rope_type"] == "llama3":
        turns = rope["original_max_position_embeddings"] * speeds / (2 * np.pi)
        for i, n_turns in enumerate(turns):  # in the first training's context
            slow, fast = rope["low_freq_factor"], rope["high_freq_factor"]
            if n_turns <= slow:
                speeds[i] /= rope["factor"]
            elif n_turns < fast:
                share = (n_turns - slow) / (fast - slow)
                speeds[i] = (1 - share) * speeds[i] / rope["factor"] + share * speeds[i]
    return np.outer(np.arange(T), speeds)


def turned(x: Numbers, by: Numbers) -> Numbers:
    """Pairs (i, i + hs / 2) of x (…, T, hs) as complex numbers, turned."""
    half = x.shape[-1] // 2
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * by)
    return np.concatenate([z.real, z.imag], axis=-1)


def windows(config: dict[str, Any]) -> list[int | None]:
    """Keys that a query of each layer sees at most."""
    layers, width = range(config["num_hidden_layers"]), config.get("sliding_window")
    if config["model_type"] == "mistral":
        return [width for _ in layers]
    if not config.get("use_sliding_window"):
        return [None for _ in layers]
    kinds = config.get("layer_types")
    if kinds is None:
        return [width if n >= config["max_window_layers"] else None for n in layers]
    return [width if kind == "sliding_attention" else None for kind in kinds]


def reference(folder: Path, ids: list[int], causal: bool = True) -> dict[str, Any]:
    """Every stage by name, without the batch axis, one entry a layer where layers have it."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = {k: v.astype(np.float64) for k, v in load_file(folder / "model.safetensors").items()}
    epsilon, T = config["rms_norm_eps"], len(ids)
    nh, nkv, hs = (config[n] for n in ("num_attention_heads", "num_key_value_heads", "head_dim"))

    def linear(x: Numbers, name: str) -> Numbers:
        result: Numbers = x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)
        return result

    def heads(x: Numbers, n: int) -> Numbers:
        return x.reshape(T, n, hs).transpose(1, 0, 2)

    by, t = angles(config, T), np.arange(T)
    x = weights["model.embed_tokens.weight"][ids]
    made: dict[str, Any] = {"token_embedding": x, "embedding": x}

    def keep(key: str, value: Numbers) -> Numbers:
        made.setdefault(key, []).append(value)
        return value

    for n, window in enumerate(windows(config)):
        block = f"model.layers.{n}"
        normed = rms_norm(x, weights[f"{block}.input_layernorm.weight"], epsilon)
        q = heads(linear(normed, f"{block}.self_attn.q_proj"), nh)
        k = heads(linear(normed, f"{block}.self_attn.k_proj"), nkv)
        v = keep("v", heads(linear(normed, f"{block}.self_attn.v_proj"), nkv))
        if config["model_type"] == "qwen3":
            keep("q_unnormed", q), keep("k_unnormed", k)
            q = rms_norm(q, weights[f"{block}.self_attn.q_norm.weight"], epsilon)
            k = rms_norm(k, weights[f"{block}.self_attn.k_norm.weight"], epsilon)
        keep("q_unrotated", q), keep("k_unrotated", k)
        q, k = keep("q", turned(q, by)), keep("k", turned(k, by))
        outputs = []
        for key in ("scores", "scaled_scores", "masked_scores", "weights"):
            keep(key, np.empty((nh, T, T)))
        for head in range(nh):
            group = head // (nh // nkv)
            scores = q[head] @ k[group].T
            masked = scores / hs**0.5
            hidden = (t[None] > t[:, None]) & causal
            if window is not None:
                hidden |= np.abs(t[None] - t[:, None]) >= window
            masked = np.where(hidden, -np.inf, masked)
            shares = np.exp(masked - masked.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            made["scores"][n][head], made["scaled_scores"][n][head] = scores, scores / hs**0.5
            made["masked_scores"][n][head], made["weights"][n][head] = masked, shares
            outputs.append(shares @ v[group])
        z = keep("head_output", np.array(outputs))
        merged = z.transpose(1, 0, 2).reshape(T, nh * hs)
        x = keep(
            "residual_mid",
            x + keep("attention_output", linear(merged, f"{block}.self_attn.o_proj")),
        )
        normed = rms_norm(x, weights[f"{block}.post_attention_layernorm.weight"], epsilon)
        gate = linear(normed, f"{block}.mlp.gate_proj")
        wide = gate / (1 + np.exp(-gate)) * linear(normed, f"{block}.mlp.up_proj")
        x = keep("residual_out", x + keep("mlp_output", linear(wide, f"{block}.mlp.down_proj")))
    made["final_norm"] = rms_norm(x, weights["model.norm.weight"], epsilon)
    ends = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    made["logits"] = made["final_norm"] @ ends.T
    return made

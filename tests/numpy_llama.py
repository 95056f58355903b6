"""Llama's family in plain NumPy and double precision, without the package."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from tests.numpy_gpt2 import hide, same_heads, same_stage, softmax

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
        for i, n_turns in enumerate(turns):  # turns within the original context length
            slow, fast = rope["low_freq_factor"], rope["high_freq_factor"]
            if n_turns <= slow:
                speeds[i] /= rope["factor"]
            elif n_turns < fast:
                share = (n_turns - slow) / (fast - slow)
                speeds[i] = (1 - share) * speeds[i] / rope["factor"] + share * speeds[i]
    return np.outer(np.arange(T), speeds)


def rotate(x: Numbers, by: Numbers) -> Numbers:
    """RoPE: pairs (i, i + hs / 2) of x (…, T, hs) as complex numbers, rotated."""
    half = x.shape[-1] // 2
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * by)
    return np.concatenate([z.real, z.imag], axis=-1)


def windows(config: dict[str, Any]) -> list[int | None]:
    """The width of each layer's sliding window, None without one."""
    layers, width = range(config["num_hidden_layers"]), config.get("sliding_window")
    if config["model_type"] == "mistral":
        return [width for _ in layers]
    if not config.get("use_sliding_window"):
        return [None for _ in layers]
    kinds = config.get("layer_types")
    if kinds is None:
        return [width if n >= config["max_window_layers"] else None for n in layers]
    return [width if kind == "sliding_attention" else None for kind in kinds]


class Checkpoint(NamedTuple):
    """A checkpoint's config, its weights by name, and the operations on them."""

    config: dict[str, Any]
    w: dict[str, Numbers]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Heads, groups, and channels of a head."""
        nh, nkv, hs = "num_attention_heads", "num_key_value_heads", "head_dim"
        return self.config[nh], self.config[nkv], self.config[hs]

    def norm(self, x: Numbers, name: str) -> Numbers:
        """The RMSNorm of that name: (…, C) -> (…, C)."""
        return rms_norm(x, self.w[f"{name}.weight"], self.config["rms_norm_eps"])

    def linear(self, x: Numbers, name: str) -> Numbers:
        """The matrix of that name, and its bias if it has one."""
        result: Numbers = x @ self.w[f"{name}.weight"].T + self.w.get(f"{name}.bias", 0.0)
        return result

    def mlp(self, x: Numbers, layer: int) -> Numbers:
        """The output of a layer's MLP on a residual stream: (…, C) -> (…, C)."""
        block = f"model.layers.{layer}"
        normed = self.norm(x, f"{block}.post_attention_layernorm")
        gate = self.linear(normed, f"{block}.mlp.gate_proj")
        wide = gate / (1 + np.exp(-gate)) * self.linear(normed, f"{block}.mlp.up_proj")
        return self.linear(wide, f"{block}.mlp.down_proj")

    def heads(
        self, x: Numbers, layer: int, keep: Callable[[str, Numbers], Numbers]
    ) -> list[Numbers]:
        """Q (nh, T, hs), K and V (nkv, T, hs) of a layer that reads ``x`` (T, C)."""
        nh, nkv, hs = self.sizes
        block, made = f"model.layers.{layer}", dict[str, Numbers]()
        normed = self.norm(x, f"{block}.input_layernorm")
        for name, n in (("q", nh), ("k", nkv), ("v", nkv)):
            parts = self.linear(normed, f"{block}.self_attn.{name}_proj").reshape(len(x), n, hs)
            made[name] = parts.transpose(1, 0, 2)
        for name in "qk":
            if self.config["model_type"] == "qwen3":
                made[name] = keep(f"{name}_unnormed", made[name])
                made[name] = self.norm(made[name], f"{block}.self_attn.{name}_norm")
            made[name] = keep(f"{name}_unrotated", made[name])
            made[name] = rotate(made[name], angles(self.config, len(x)))
        return [keep(name, made[name]) for name in "qkv"]


def read(folder: Path) -> Checkpoint:
    """A checkpoint from its own files."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    stored = load_file(folder / "model.safetensors")
    return Checkpoint(config, {name: weight.astype(np.float64) for name, weight in stored.items()})


def reference(
    of: Path | Checkpoint,
    ids: list[int],
    causal: bool = True,
    *,
    edit_heads: Callable[[int, Numbers], Numbers] = same_heads,
    silent: Collection[str] = (),
    pairs: Iterable[tuple[int, int]] = (),
    becomes: Callable[[str, Numbers], Numbers] = same_stage,
) -> dict[str, Any]:
    """Every stage by name, without the batch axis, one entry a layer where layers have it.

    With the edits of ``numpy_gpt2.reference``, where parts have the same names.
    """
    model = read(of) if isinstance(of, Path) else of
    config, w = model
    (nh, nkv, hs), T = model.sizes, len(ids)
    x = w["model.embed_tokens.weight"][ids]
    made: dict[str, Any] = {"token_embedding": x, "embedding": x}
    for n, window in enumerate(windows(config)):

        def keep(key: str, value: Numbers, n: int = n) -> Numbers:
            value = becomes(f"{key}.{n}", value)
            made.setdefault(key, []).append(value)
            return value

        x = becomes(f"residual_in.{n}", x)
        q, k, v = model.heads(x, n, keep)
        k, v = (np.array([y[head * nkv // nh] for head in range(nh)]) for y in (k, v))
        scores = keep("scores", np.einsum("hid,hjd->hij", q, k))
        scaled = keep("scaled_scores", scores / hs**0.5)
        far = [(i, j) for i in range(T) for j in range(T) if window and abs(i - j) >= window]
        masked = keep("masked_scores", hide(scaled, causal, [*pairs, *far]))
        weights = keep("weights", softmax(masked))
        z = keep("head_output", edit_heads(n, np.einsum("hij,hjd->hid", weights, v)))
        merged = model.linear(
            z.transpose(1, 0, 2).reshape(T, nh * hs), f"model.layers.{n}.self_attn.o_proj"
        )
        x = keep(
            "residual_mid", x + keep("attention_output", merged * (f"h.{n}.attn" not in silent))
        )
        mlp = model.mlp(x, n) * (f"h.{n}.mlp" not in silent)
        x = keep("residual_out", x + keep("mlp_output", mlp))
    made["final_norm"] = model.norm(x, "model.norm")
    ends = w.get("lm_head.weight", w["model.embed_tokens.weight"])
    made["logits"] = made["final_norm"] @ ends.T
    return made

"""GPT-2 in NumPy and double precision, written from the papers. Shares no code with the package.

Reads the checkpoint's files itself: a mistake in loading shows as well as one in computing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from math import erf
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
from safetensors.numpy import load_file


class Tolerance(TypedDict):
    """The tolerance around the oracle's numbers, as ``assert_allclose`` takes it."""

    rtol: float
    atol: float


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x: np.ndarray, gain: np.ndarray, shift: np.ndarray, eps: float) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


PER_LAYER: list[Any] = [
    *("q", "k", "v", "scores", "scaled_scores", "masked_scores", "weights", "head_output"),
    *("attention_output", "residual_mid", "mlp_output", "residual_out"),
]

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "gelu": lambda x: x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2,
    "gelu_new": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
}
ACTIVATIONS["gelu_python"] = ACTIVATIONS["gelu"]
ACTIVATIONS["swish"] = ACTIVATIONS["silu"]
for _name in ("gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh"):
    ACTIVATIONS[_name] = ACTIVATIONS["gelu_new"]


def same_heads(_layer: int, heads: np.ndarray) -> np.ndarray:
    """No edit of the heads (nh, T, hs)."""
    return heads


def same_stage(_name: str, made: np.ndarray) -> np.ndarray:
    """No edit of a stage."""
    return made


class Checkpoint(NamedTuple):
    """A checkpoint's config, its weights by name without the prefix, and the operations on them."""

    config: dict[str, Any]
    w: dict[str, np.ndarray]

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        """The LayerNorm of that name: (…, C) -> (…, C)."""
        shift, eps = self.w[f"{name}.bias"], self.config["layer_norm_epsilon"]
        return layer_norm(x, self.w[f"{name}.weight"], shift, eps)

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        """The Conv1D of that name: (…, its inputs) -> (…, its outputs)."""
        return x @ self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def mlp(
        self,
        x: np.ndarray,
        layer: int,
        becomes: Callable[[str, np.ndarray], np.ndarray] = same_stage,
    ) -> np.ndarray:
        """The output of a layer's MLP on a residual stream: (…, C) -> (…, C)."""
        act, h = ACTIVATIONS[self.config["activation_function"]], f"h.{layer}"
        normed = becomes(f"ln_2.{layer}", self.norm(x, f"{h}.ln_2"))
        wide = becomes(f"mlp_in.{layer}", self.linear(normed, f"{h}.mlp.c_fc"))
        active = becomes(f"mlp_act.{layer}", act(wide))
        return becomes(f"mlp_projected.{layer}", self.linear(active, f"{h}.mlp.c_proj"))


def read(folder: Path) -> Checkpoint:
    """A checkpoint from its own files, which are read again once they have changed."""
    files = (folder / "config.json", folder / "model.safetensors")
    return _read(*files, *(file.stat().st_mtime_ns for file in files))


@lru_cache(maxsize=4)
def _read(config_file: Path, weights_file: Path, *_changed: int) -> Checkpoint:
    config = json.loads(config_file.read_text(encoding="utf-8"))
    weights = {}
    for name, stored in load_file(weights_file).items():
        weights[name.removeprefix("transformer.")] = weight = stored.astype(np.float64)
        weight.flags.writeable = False
    return Checkpoint(config, weights)


def by_head(x: np.ndarray, n_head: int) -> np.ndarray:
    """(T, C) cut into heads: (nh, T, hs)."""
    hs = x.shape[1] // n_head
    return np.stack([x[:, n * hs : (n + 1) * hs] for n in range(n_head)])


def hide(scaled: np.ndarray, causal: bool, pairs: Iterable[tuple[int, int]]) -> np.ndarray:
    """Scores (nh, T, T) with −∞ for later keys, if ``causal``, and for the (query, key) pairs."""
    masked = scaled.copy()
    if causal:
        for i in range(masked.shape[1]):
            masked[:, i, i + 1 :] = -np.inf
    for i, j in pairs:
        masked[:, i, j] = -np.inf
    return masked


def split_heads(
    model: Checkpoint, x: np.ndarray, layer: int, becomes: Callable[[str, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, K and V (nh, T, hs) of a layer that reads ``x`` (T, C)."""
    normed = becomes(f"ln_1.{layer}", model.norm(x, f"h.{layer}.ln_1"))
    qkv = becomes(f"qkv.{layer}", model.linear(normed, f"h.{layer}.attn.c_attn"))
    q, k, v = (
        becomes(f"{name}.{layer}", by_head(part, model.config["n_head"]))
        for name, part in zip("qkv", np.split(qkv, 3, axis=1), strict=True)
    )
    return q, k, v


def reference(
    of: Path | Checkpoint,
    ids: list[int],
    causal: bool,
    *,
    edit_heads: Callable[[int, np.ndarray], np.ndarray] = same_heads,
    silent: Collection[str] = (),
    pairs: Iterable[tuple[int, int]] = (),
    becomes: Callable[[str, np.ndarray], np.ndarray] = same_stage,
) -> dict[str, Any]:
    """Every stage of every layer: {"weights": [layer 0 (nh, T, T), …], …, "logits": (T, V)}.

    ``of`` is a checkpoint, or its folder.

    With edits: ``edit_heads`` maps a layer and its heads (nh, T, hs) to other heads, parts that are
    ``silent``, such as "h.1.attn", add 0, and the ``pairs`` (query, key) are hidden. After that
    ``becomes`` maps each stage, by its name such as "residual_mid.2", or "residual_in.2" for a
    layer's input, to what the run continues with.
    """
    model = read(of) if isinstance(of, Path) else of
    config, w = model
    out: dict[str, Any] = {key: [] for key in PER_LAYER}
    tokens = becomes("token_embedding", w["wte.weight"][ids])
    positions = becomes("position_embedding", w["wpe.weight"][: len(ids)])
    x = out["embedding"] = becomes("embedding", tokens + positions)
    for layer in range(config["n_layer"]):
        h = f"h.{layer}"
        x = becomes(f"residual_in.{layer}", x)
        q, k, v = split_heads(model, x, layer, becomes)
        scores = becomes(f"scores.{layer}", np.einsum("hid,hjd->hij", q, k))
        deeper = layer + 1 if config.get("scale_attn_by_inverse_layer_idx") else 1
        scaled = becomes(f"scaled_scores.{layer}", scores / q.shape[-1] ** 0.5 / deeper)
        masked = becomes(f"masked_scores.{layer}", hide(scaled, causal, pairs))
        weights = becomes(f"weights.{layer}", softmax(masked))
        heads = edit_heads(layer, np.einsum("hij,hjd->hid", weights, v))
        heads = becomes(f"head_output.{layer}", heads)
        merged = model.linear(np.concatenate(list(heads), axis=1), f"{h}.attn.c_proj")
        merged = becomes(f"projected.{layer}", merged) * (f"{h}.attn" not in silent)
        attention = becomes(f"attention_output.{layer}", merged)
        middle = becomes(f"residual_mid.{layer}", x + attention)
        mlp = model.mlp(middle, layer, becomes) * (f"{h}.mlp" not in silent)
        mlp = becomes(f"mlp_output.{layer}", mlp)
        x = becomes(f"residual_out.{layer}", middle + mlp)
        made = (q, k, v, scores, scaled, masked, weights, heads, attention, middle, mlp, x)
        for key, value in zip(PER_LAYER, made, strict=True):
            out[key].append(value)
    out["final_norm"] = becomes("final_norm", model.norm(x, "ln_f"))
    out["logits"] = out["final_norm"] @ w.get("lm_head.weight", w["wte.weight"]).T
    out["logits"][-1:] = becomes("last_logits", out["logits"][-1:])
    out["next_token_probabilities"] = softmax(out["logits"][-1])
    return out

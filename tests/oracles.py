"""Models of every family in NumPy and double precision, with one interface: ``Oracle``."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests import numpy_gpt2, numpy_llama
from tests.checkpoints import write_checkpoint
from tests.llama_checkpoints import write_llama

_FOUR: dict[str, Any] = {"num_attention_heads": 4, "head_dim": 6}
#: Small models, all of 3 layers with 4 heads: what ``write_model`` writes, by family.
FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {},
    "llama, two groups": {**_FOUR, "num_key_value_heads": 2},
    "mistral, one group, wide heads": {
        **_FOUR,
        "model_type": "mistral",
        "sliding_window": 4,
        "num_key_value_heads": 1,
        "head_dim": 8,
    },
    "qwen2, a group for each head, untied": {
        **_FOUR,
        "model_type": "qwen2",
        "num_key_value_heads": 4,
        "tie_word_embeddings": False,
    },
    "qwen3, biases, a window in deeper layers": {
        **_FOUR,
        "model_type": "qwen3",
        "num_key_value_heads": 2,
        "head_dim": 10,
        "attention_bias": True,
        "use_sliding_window": True,
        "sliding_window": 3,
        "max_window_layers": 1,
    },
}


def write_model(folder: Path, family: str, seed: int = 0, **changes: Any) -> Path:
    """Write a checkpoint of a family, with changes of its config; give its folder back."""
    write = write_checkpoint if family == "gpt2" else write_llama
    return write(folder, seed=seed, **FAMILIES[family], **changes)


def oracle(folder: Path) -> Oracle:
    """The oracle of a checkpoint."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return GPT2(folder) if config["model_type"] == "gpt2" else Llama(folder)


class Oracle(ABC):
    """A model as the papers describe it. ``layer`` None is the end of the residual stream.

    ``run`` is the ``reference`` of its family; ``groups`` has the row of K and V that each head
    reads.
    """

    of: Any
    n_layer: int
    groups: list[int]
    embedding: np.ndarray
    unembedding: np.ndarray
    eps: float
    run: partial[dict[str, Any]]

    @abstractmethod
    def divisor(self, layer: int) -> float:
        """The divisor of the scores."""

    @abstractmethod
    def scale(self, stream: np.ndarray) -> np.ndarray:
        """The divisor in the norm of a residual stream (…, C): (…, 1)."""

    @abstractmethod
    def norm(self, x: np.ndarray, stream: np.ndarray, layer: int | None) -> np.ndarray:
        """The norm of a part x, without bias, at the scale of the whole stream."""

    @abstractmethod
    def out_proj(self, layer: int) -> tuple[np.ndarray, np.ndarray | None]:
        """W_O by head (nh, hs, C), and b_O."""

    @abstractmethod
    def read(self, into: str, layer: int, x: np.ndarray, biased: bool = False) -> np.ndarray:
        """W_Q, W_K or W_V times a normed stream (T, C): (rows, T, hs), with or without biases."""

    def position_vectors(self, T: int) -> dict[str, np.ndarray]:
        """The position embedding (T, C), if the family has learned positions."""
        return {}

    def bias(self, layer: int | None) -> np.ndarray:
        """The bias of the norm, or zeros: (C,)."""
        return np.zeros(self.embedding.shape[1])

    def qk_gain(self, into: str, layer: int) -> np.ndarray | None:
        """The gain of the QK-norm (hs,), if the family has one."""
        return None

    def rotate(self, x: np.ndarray, positions: Sequence[int]) -> np.ndarray:
        """Queries or keys (…, T, hs) after RoPE, if the family has it."""
        return x

    def qk_norm(self, into: str, layer: int, x: np.ndarray, run: np.ndarray) -> np.ndarray:
        """The QK-norm (…, hs), if the family has one, at the scale of ``run``."""
        gain = self.qk_gain(into, layer)
        return x if gain is None else x / self.scale(run) * gain

    def finish(self, into: str, layer: int, x: np.ndarray, run: np.ndarray) -> np.ndarray:
        """QK-norm and RoPE of what ``read`` gave, (rows, T, hs), at the scale of ``run``."""
        if into == "v":
            return x
        return self.rotate(self.qk_norm(into, layer, x, run), range(x.shape[1]))

    def normed(self, x: np.ndarray, layer: int | None) -> np.ndarray:
        return self.norm(x, x, layer) + self.bias(layer)

    def qkv(self, into: str, layer: int, stream: np.ndarray) -> np.ndarray:
        """Queries, keys or values (rows, T, hs) of a whole stream (T, C)."""
        made = self.read(into, layer, self.normed(stream, layer), biased=True)
        return self.finish(into, layer, made, made)

    def row(self, stage: str, head: int) -> int:
        """The row of a stage that a head reads: its group's for K and V."""
        return self.groups[head] if stage in ("k", "v") else head


class GPT2(Oracle):
    def __init__(self, folder: Path) -> None:
        self.of = numpy_gpt2.read(folder)
        config, w = self.of
        self.n_layer, self.eps = config["n_layer"], config["layer_norm_epsilon"]
        self.groups = list(range(config["n_head"]))
        self.embedding = w["wte.weight"]
        self.unembedding = w.get("lm_head.weight", self.embedding)
        self.run = partial(numpy_gpt2.reference, self.of)

    def divisor(self, layer: int) -> float:
        deeper = layer + 1 if self.of.config["scale_attn_by_inverse_layer_idx"] else 1
        return float((self.embedding.shape[1] / len(self.groups)) ** 0.5 * deeper)

    def position_vectors(self, T: int) -> dict[str, np.ndarray]:
        return {"position": self.of.w["wpe.weight"][:T]}

    def scale(self, stream: np.ndarray) -> np.ndarray:
        return np.sqrt(stream.var(axis=-1, keepdims=True) + self.eps)

    def norm(self, x: np.ndarray, stream: np.ndarray, layer: int | None) -> np.ndarray:
        gain = self.of.w[f"{self.norm_name(layer)}.weight"]
        return (x - x.mean(axis=-1, keepdims=True)) / self.scale(stream) * gain

    def bias(self, layer: int | None) -> np.ndarray:
        return self.of.w[f"{self.norm_name(layer)}.bias"]

    def norm_name(self, layer: int | None) -> str:
        return "ln_f" if layer is None else f"h.{layer}.ln_1"

    def out_proj(self, layer: int) -> tuple[np.ndarray, np.ndarray | None]:
        W_O = self.of.w[f"h.{layer}.attn.c_proj.weight"]
        return W_O.reshape(len(self.groups), -1, len(W_O)), self.of.w[f"h.{layer}.attn.c_proj.bias"]

    def read(self, into: str, layer: int, x: np.ndarray, biased: bool = False) -> np.ndarray:
        name = f"h.{layer}.attn.c_attn"
        made = x @ self.of.w[f"{name}.weight"] + biased * self.of.w[f"{name}.bias"]
        part = np.split(made, 3, axis=1)["qkv".index(into)]
        return numpy_gpt2.by_head(part, len(self.groups))


class Llama(Oracle):
    def __init__(self, folder: Path) -> None:
        self.of = numpy_llama.read(folder)
        config, w = self.of
        self.n_layer, self.eps = config["num_hidden_layers"], config["rms_norm_eps"]
        nh, nkv, _ = self.of.sizes
        self.groups = [head * nkv // nh for head in range(nh)]
        self.embedding = w["model.embed_tokens.weight"]
        self.unembedding = w.get("lm_head.weight", self.embedding)
        self.run = partial(numpy_llama.reference, self.of)

    def divisor(self, layer: int) -> float:
        return float(self.of.sizes[2] ** 0.5)

    def scale(self, stream: np.ndarray) -> np.ndarray:
        return np.sqrt((stream**2).mean(axis=-1, keepdims=True) + self.eps)

    def norm(self, x: np.ndarray, stream: np.ndarray, layer: int | None) -> np.ndarray:
        name = "model.norm" if layer is None else f"model.layers.{layer}.input_layernorm"
        return x / self.scale(stream) * self.of.w[f"{name}.weight"]

    def out_proj(self, layer: int) -> tuple[np.ndarray, np.ndarray | None]:
        name = f"model.layers.{layer}.self_attn.o_proj"
        W_O = self.of.w[f"{name}.weight"].T
        return W_O.reshape(len(self.groups), -1, W_O.shape[1]), self.of.w.get(f"{name}.bias")

    def read(self, into: str, layer: int, x: np.ndarray, biased: bool = False) -> np.ndarray:
        name = f"model.layers.{layer}.self_attn.{into}_proj"
        made = self.of.linear(x, name) if biased else x @ self.of.w[f"{name}.weight"].T
        return made.reshape(len(x), -1, self.of.sizes[2]).transpose(1, 0, 2)

    def qk_gain(self, into: str, layer: int) -> np.ndarray | None:
        return self.of.w.get(f"model.layers.{layer}.self_attn.{into}_norm.weight")

    def rotate(self, x: np.ndarray, positions: Sequence[int]) -> np.ndarray:
        by = numpy_llama.angles(self.of.config, max(positions) + 1)
        return numpy_llama.rotate(x, by[list(positions)])

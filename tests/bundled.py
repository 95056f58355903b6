"""The bundled model as tests need it: its sizes, and which of its heads does what.

Another model may take its place. So no test names a head for what it does: it is found here, by
the numbers of a GPT-2 that shares no code with the package.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from typing import Any

import numpy as np
from safetensors.numpy import load_file

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from tests.numpy_gpt2 import reference

_CONFIG = json.loads((BUNDLED / "config.json").read_text(encoding="utf-8"))
N_LAYER: int = _CONFIG["n_layer"]
N_HEAD: int = _CONFIG["n_head"]
C: int = _CONFIG["n_embd"]
VOCABULARY: int = _CONFIG["vocab_size"]
#: Channels of a head.
HS = C // N_HEAD
#: Heads of all layers.
HEADS = N_LAYER * N_HEAD
#: All numbers that were learned; the unembedding is the embedding.
PARAMETERS = sum(weight.size for weight in load_file(BUNDLED / "model.safetensors").values())

CRANE = "A crane ate fish"
TWICE = f"{CRANE} {CRANE}"
CATS = "The cat sat on the mat and the cat sat"


@cache
def bundled_model() -> gpt2viz.Model:
    """The model itself, read from disk once in a process: a tenth of a second each time."""
    return gpt2viz.load_model()


def ids_of(text: str) -> list[int]:
    """A text's tokens, by their numbers."""
    return bundled_model().tokenizer.encode(text)


@lru_cache(16)
def stages(text: str, causal: bool = True) -> dict[str, Any]:
    """Every stage of a text's run, by the NumPy GPT-2: see ``reference``."""
    return reference(BUNDLED, ids_of(text), causal)


@cache
def weights(text: str, causal: bool = True) -> np.ndarray:
    """(n_layer, nh, T, T)."""
    return np.stack(stages(text, causal)["weights"])


def hardest(of: np.ndarray) -> np.ndarray:
    """The largest weight of each row, but for the token itself and the first: (…, T)."""
    T = of.shape[-1]
    others = ~np.eye(T, dtype=bool) & (np.arange(T) > 0)
    result: np.ndarray = np.where(others, of, 0).max(axis=-1)
    return result


def opening(text: str = CRANE) -> tuple[int, int]:
    """The head whose hardest looks differ least, on average, from half of a row's weight."""
    return best(-np.abs(hardest(weights(text)) - 0.5).mean(axis=-1))


def back() -> tuple[int, int]:
    """The head that looks one token back."""
    return best(np.diagonal(weights(CATS), -1, 2, 3).mean(axis=-1))


def rests() -> tuple[int, int]:
    """The head that rests most on the first token, of those that don't copy."""
    on_first = weights(CATS)[:, :, 1:, 0].mean(axis=-1)
    for head in copiers():
        on_first[head] = 0
    return best(on_first)


def itself() -> tuple[int, int]:
    """The head that looks most at the query's own token."""
    return best(weights(CATS).diagonal(0, 2, 3)[:, :, 1:].mean(axis=-1))


def copiers() -> list[tuple[int, int]]:
    """The heads that give half of their weight to what followed the same token, most first."""
    after = weights(CATS)[:, :, [8, 9], [2, 3]].mean(axis=-1)
    order = (divmod(int(n), N_HEAD) for n in (-after).argsort(axis=None))
    return [head for head in order if after[head] > 0.5]


def by_copying() -> list[tuple[int, int]]:
    """Heads by how much they give to what followed, on fifty random tokens said twice."""
    half = np.random.default_rng(0).choice(VOCABULARY, 50, replace=False)
    result = np.stack(reference(BUNDLED, [*half, *half], True)["weights"])
    scores = result.diagonal(-49, axis1=2, axis2=3)[:, :, 1:].mean(axis=-1)
    return [divmod(int(n), N_HEAD) for n in (-scores).argsort(axis=None) if scores.flat[n] > 0.5]


def copiers_of(text: str) -> list[tuple[int, int]]:
    """Those of them that copy on a text too, half said twice."""
    shown = weights(text)
    half = shown.shape[-1] // 2
    on = shown.diagonal(1 - half, axis1=2, axis2=3)[:, :, 1:].max(axis=-1)
    return [head for head in by_copying() if on[head] > 0.5]


def copier() -> tuple[int, int]:
    """The first of them."""
    return copiers()[0]


def best(scores: np.ndarray) -> tuple[int, int]:
    """The head with the highest of all scores (n_layer, nh)."""
    return divmod(int(scores.argmax()), N_HEAD)

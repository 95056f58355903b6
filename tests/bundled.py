"""The bundled model as tests need it: its sizes, and which of its heads does what.

Another model may replace it. So no test names a head by its number: the head is found here by what
it does, with a GPT-2 in NumPy that shares no code with the package.
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
#: The channels of a head.
HS = C // N_HEAD
#: The number of heads in all layers.
HEADS = N_LAYER * N_HEAD
#: The number of parameters; the unembedding is the embedding.
PARAMETERS = sum(weight.size for weight in load_file(BUNDLED / "model.safetensors").values())

CRANE = "A crane ate fish"
TWICE = f"{CRANE} {CRANE}"
CATS = "The cat sat on the mat and the cat sat"


@cache
def bundled_model() -> gpt2viz.Model:
    """The model itself, read from disk once in a process: a tenth of a second each time."""
    return gpt2viz.load_model()


def ids_of(text: str) -> list[int]:
    """The token ids of a text."""
    return bundled_model().tokenizer.encode(text)


@lru_cache(16)
def stages(text: str, causal: bool = True) -> dict[str, Any]:
    """Every stage of a text's run, by the NumPy GPT-2: see ``reference``."""
    return reference(BUNDLED, ids_of(text), causal)


@cache
def weights(text: str, causal: bool = True) -> np.ndarray:
    """A text's attention weights (n_layer, nh, T, T), in NumPy."""
    return np.stack(stages(text, causal)["weights"])


def hardest(of: np.ndarray) -> np.ndarray:
    """The largest weight of each row, except on the token itself and the first: (…, T)."""
    T = of.shape[-1]
    others = ~np.eye(T, dtype=bool) & (np.arange(T) > 0)
    result: np.ndarray = np.where(others, of, 0).max(axis=-1)
    return result


def opening(text: str = CRANE) -> tuple[int, int]:
    """The head whose largest weights are closest to a half, on average: the app opens with it."""
    return best(-np.abs(hardest(weights(text)) - 0.5).mean(axis=-1))


def back() -> tuple[int, int]:
    """The previous-token head."""
    return best(np.diagonal(weights(CATS), -1, 2, 3).mean(axis=-1))


def rests() -> tuple[int, int]:
    """The head that attends most to the first token, of those that don't copy."""
    on_first = weights(CATS)[:, :, 1:, 0].mean(axis=-1)
    for head in copiers():
        on_first[head] = 0
    return best(on_first)


def itself() -> tuple[int, int]:
    """The head that attends most to the query's own token."""
    return best(weights(CATS).diagonal(0, 2, 3)[:, :, 1:].mean(axis=-1))


def copiers() -> list[tuple[int, int]]:
    """Induction heads: more than half of their weight is on what followed the same token."""
    after = weights(CATS)[:, :, [8, 9], [2, 3]].mean(axis=-1)
    order = (divmod(int(n), N_HEAD) for n in (-after).argsort(axis=None))
    return [head for head in order if after[head] > 0.5]


def by_copying() -> list[tuple[int, int]]:
    """Induction heads on fifty random tokens, repeated once; the strongest first."""
    half = np.random.default_rng(0).choice(VOCABULARY, 50, replace=False)
    result = np.stack(reference(BUNDLED, [*half, *half], True)["weights"])
    scores = result.diagonal(-49, axis1=2, axis2=3)[:, :, 1:].mean(axis=-1)
    return [divmod(int(n), N_HEAD) for n in (-scores).argsort(axis=None) if scores.flat[n] > 0.5]


def copiers_of(text: str) -> list[tuple[int, int]]:
    """Those of ``by_copying`` that also copy in a text whose second half repeats the first."""
    shown = weights(text)
    half = shown.shape[-1] // 2
    on = shown.diagonal(1 - half, axis1=2, axis2=3)[:, :, 1:].max(axis=-1)
    return [head for head in by_copying() if on[head] > 0.5]


def copier() -> tuple[int, int]:
    """The strongest of ``copiers``."""
    return copiers()[0]


def best(scores: np.ndarray) -> tuple[int, int]:
    """The (layer, head) with the highest score, of scores (n_layer, nh)."""
    return divmod(int(scores.argmax()), N_HEAD)

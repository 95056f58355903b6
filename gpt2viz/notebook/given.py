"""Attention as people hold it: arrays, an output of transformers, TransformerLens' cache, a trace.

No library is imported for that: what is given is known by what it answers to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpt2viz.arrays import Array
from gpt2viz.errors import AttentionError
from gpt2viz.labels import counted, label
from gpt2viz.run import transformer_lens
from gpt2viz.run.stages import STAGE
from gpt2viz.run.trace import Trace

#: The stages that have a number for every query and key.
PAIRS = tuple(key for key, stage in STAGE.items() if stage.axes[-2:] == ("T", "T") and stage.kept)
_HOOK = re.compile(r"blocks\.([0-9]{1,6})\.(attn\.hook_\w+)")
#: What a byte-level tokenizer and SentencePiece write for a space before a word.
_SPACES = ("Ġ", "▁")


class Given(NamedTuple):
    """``layer`` reads one of ``n_layer`` layers, (nh, T, S), anew each time it is asked; the labels
    are those of T queries and S keys. ``model`` is its name, where that is known."""

    n_layer: int
    layer: Callable[[int], Array]
    queries: Sequence[str]
    keys: Sequence[str]
    model: str = ""


def given(attention: Any, tokens: Any, ids: Any, stage: str, text: int | None) -> Given:
    """What ``gpt2viz.show`` was given. Raises ``AttentionError`` where it doesn't fit together."""
    if stage not in PAIRS:
        raise AttentionError(
            f"Stage {stage!r} has no number for each query and key; these have: {' '.join(PAIRS)}."
        )
    layers = _layers(attention, stage)
    shape = _one_text(layers[0](), text).shape

    def layer(n: int) -> Array:
        found = _one_text(layers[n](), text)
        if found.shape != shape:
            raise AttentionError(
                f"Layer {n} is of {_size(found.shape)}, but layer 0 of {_size(shape)}: show layers "
                "of one size together."
            )
        return found

    model = attention.model_name if isinstance(attention, Trace) else ""
    if isinstance(attention, Trace) and tokens is None:
        return Given(len(layers), layer, attention.labels, attention.labels, model)
    return Given(len(layers), layer, *_labels(_named(tokens, ids, text), *shape[1:]), model)


def _size(shape: tuple[int, ...]) -> str:
    heads, queries, keys = shape
    return f"{counted(heads, 'heads')} with {queries:,} queries and {keys:,} keys"


def _layers(attention: Any, stage: str) -> list[Callable[[], Any]]:
    """A call for each layer that gives its numbers: (B, nh, T, S), (nh, T, S) or (T, S)."""
    if isinstance(attention, Trace):
        return [partial(attention.stage, stage, n) for n in range(attention.config.n_layer)]
    if hasattr(attention, "keys"):
        attention = _from_names(attention, stage)
    if not (isinstance(attention, list | tuple) and all(_is_array(one) for one in attention)):
        attention = _split(attention)
    if not attention:
        raise AttentionError("Attention has 0 layers: give at least one.")
    return [partial(_as_array, one) for one in attention]


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _split(attention: Any) -> list[Any]:
    """The layers of one array: all but those of three axes and fewer, which are one layer."""
    if isinstance(attention, list | tuple) and any(one is None for one in attention):
        raise AttentionError(_NO_ATTENTION)
    if isinstance(attention, list | tuple) and any(map(_nested, attention)):
        raise AttentionError(
            f"Attention is {len(attention):,} lists of arrays, as generate() returns one a step: "
            "show one step's, attention[0]."
        )
    whole = attention if _is_array(attention) else _as_array(attention)
    return list(whole) if len(whole.shape) > 3 else [whole]


def _nested(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(map(_is_array, value))


_NO_ATTENTION = (
    "This output holds no attention: load the model with attn_implementation='eager' and call "
    "it with output_attentions=True."
)


def _from_names(found: Mapping[str, Any], stage: str) -> list[Any]:
    """The layers of an output of transformers, or of a cache with TransformerLens' names."""
    names = [str(name) for name in found.keys()]  # noqa: SIM118 (a cache iterates otherwise)
    hooks = {
        int(hook[1]): hook[0]
        for hook in map(_HOOK.fullmatch, names)
        if hook and transformer_lens.NAMES.get(f"blocks.N.{hook[2]}") == stage
    }
    if hooks:
        if sorted(hooks) != list(range(len(hooks))):
            layers = ", ".join(map(str, sorted(hooks)))
            raise AttentionError(
                f"The cache has {counted(len(hooks), 'layers')}, {layers}, and not all from 0 on: "
                "pass a list of those that you want to see."
            )
        return [found[hooks[n]] for n in sorted(hooks)]
    ends = (name for name in names if name.endswith("attentions"))
    kinds = [name for name in ends if found[name] is not None and len(found[name])]
    if len(kinds) > 1:
        choices = " or ".join(f"output.{name}" for name in kinds)
        raise AttentionError(
            f"This output has {len(kinds)} kinds of attention: show {choices}, with the tokens of "
            "its queries and keys."
        )
    if kinds:
        return list(found[kinds[0]])
    if any("hook_" in name for name in names):
        if wanted := transformer_lens.name_of(stage, 0):
            raise AttentionError(f"The cache has no {wanted}: stage {stage!r} is not in it.")
        there = " ".join(key for key in PAIRS if transformer_lens.name_of(key, 0))
        raise AttentionError(
            f"TransformerLens keeps nothing of stage {stage!r}. Of these it does: {there}."
        )
    raise AttentionError(_NO_ATTENTION)


def _as_array(values: Any) -> Array:
    """Numbers of any library as float32; a tensor on another device is fetched."""
    try:
        if hasattr(values, "detach"):
            values = values.detach().cpu().float()  # NumPy knows no bfloat16
        found = np.asarray(values)
        if found.dtype.kind not in "cO":
            return found.astype(np.float32, copy=False)
    except (TypeError, ValueError):
        pass
    raise AttentionError(
        f"Attention can't be read from {type(values).__name__}: give arrays of numbers, such as "
        "a list of layers of (heads, queries, keys)."
    )


def _one_text(layer: Any, text: int | None) -> Array:
    """One text's part of a layer: (nh, T, S)."""
    whole = _as_array(layer)
    if whole.ndim == 4:
        n_texts = len(whole)
        if text is None and n_texts != 1:
            raise AttentionError(
                f"Attention is of {n_texts} texts, and 1 is shown at a time: choose with text=0 to "
                f"{n_texts - 1}."
            )
        if text is not None and not 0 <= text < n_texts:
            raise AttentionError(f"There is no text {text} among {n_texts}: they count from 0.")
        whole = whole[text or 0]
    if whole.ndim == 2:
        whole = whole[None]
    if whole.ndim != 3 or not whole.size:
        raise AttentionError(
            f"A layer has the shape {whole.shape}, and 3 axes with something in each are needed: "
            "(heads, queries, keys), or one more before them for several texts."
        )
    return whole


def _named(tokens: Any, ids: Any, text: int | None) -> Any:
    """The tokens; where a tokenizer stands in their place, those of the ids."""
    if not hasattr(tokens, "decode") or isinstance(tokens, bytes | str):
        return tokens
    if ids is None:
        raise AttentionError("A tokenizer needs the ids too: show(output, tokenizer, ids).")
    ids = ids["input_ids"] if hasattr(ids, "keys") else ids
    rows = np.asarray(ids.detach().cpu() if hasattr(ids, "detach") else ids)
    return [_written(tokens, int(n)) for n in (rows[text or 0] if rows.ndim == 2 else rows)]


def _written(tokenizer: Any, token: int) -> str:
    """One token's text, with the space that it begins with, where its bytes are whole characters.

    Otherwise its name in the vocabulary.
    """
    text = str(tokenizer.decode([token]))
    named = getattr(tokenizer, "convert_ids_to_tokens", None)
    name = str(named(token)) if named else text
    if "\ufffd" in text or not text:
        return name
    return f" {text}" if name.startswith(_SPACES) and not text.startswith(" ") else text


def _labels(tokens: Any, n_queries: int, n_keys: int) -> tuple[Sequence[str], Sequence[str]]:
    """The labels of queries and keys, from one list, a list for each, or none: their numbers."""
    if tokens is None:
        return [str(n) for n in range(n_queries)], [str(n) for n in range(n_keys)]
    if isinstance(tokens, str | bytes):
        raise AttentionError(
            f"The tokens are one text, but attention is of {n_queries:,} queries: pass a list of "
            "them, one a position."
        )
    sides = list(tokens)
    if len(sides) != 2 or not all(isinstance(one, list | tuple | np.ndarray) for one in sides):
        if n_queries != n_keys:
            raise AttentionError(
                f"Attention has {n_queries:,} queries and {n_keys:,} keys, but one list of "
                f"{counted(len(sides), 'tokens')} was given: pass two, (queries, keys)."
            )
        sides = [sides, sides]
    for names, size, what in zip(sides, (n_queries, n_keys), ("queries", "keys"), strict=True):
        if len(names) != size:
            raise AttentionError(
                f"Attention has {size:,} {what}, but {counted(len(names), 'tokens')} were given: "
                "pass one a position, special tokens such as [CLS] among them."
            )
    queries, keys = ([_label(one) for one in side] for side in sides)
    return queries, keys


def _label(token: Any) -> str:
    return label(token if isinstance(token, bytes) else str(token).encode("utf-8", "replace"))

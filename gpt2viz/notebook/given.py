"""The inputs of ``gpt2viz.show``: arrays, an output of transformers, TransformerLens' cache, a run.

None of these libraries is imported: inputs are recognized by their attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Array, Pairs
from gpt2viz.errors import AttentionError
from gpt2viz.labels import label, pluralize
from gpt2viz.model.byte_letters import decode_tokens
from gpt2viz.pictures.from_trace import Hidden, mask_causes
from gpt2viz.run.stages import PAIR_STAGES, STAGE, TRANSFORMER_LENS
from gpt2viz.run.trace import Trace
from gpt2viz.run.watch import Watched

_HOOK = re.compile(r"blocks\.([0-9]{1,6})\.(attn\.hook_\w+)")

#: A score of this or less was filled in by a mask, such as −1e4 or a type's least number: softmax
#: makes it 0.
FILL = -5000
_Calls = list[Callable[[], Any]]


class Given(NamedTuple):
    """``layer`` reads one of ``n_layer`` layers, (nh, T, S), on each call; the labels
    are those of T queries and S keys. ``model`` is its name, if known; ``filled`` is True
    if some scores were a mask's fill, which are −∞ here; ``notes`` are sentences on the origin, and
    ``patches`` the keys that a processor marks as a picture's. ``mask`` are the cells (T, S) that
    the mask of a trace hid in every layer, and their causes; None if no mask is known."""

    n_layer: int
    layer: Callable[[int], Array]
    queries: Sequence[str]
    keys: Sequence[str]
    model: str = ""
    filled: bool = False
    notes: Sequence[str] = ()
    patches: Sequence[int] | None = None
    mask: tuple[Pairs, Hidden] | None = None


def check(attention: Any, tokens: Any, ids: Any, stage: str, text: int | None, part: str) -> Given:
    """Check the arguments of ``gpt2viz.show``. Raises ``AttentionError`` if they don't fit."""
    if stage not in PAIR_STAGES:
        raise AttentionError(
            f"Stage {stage!r} has no number for each query and key; these have: "
            f"{' '.join(PAIR_STAGES)}."
        )
    if isinstance(text, bool) or not isinstance(text, int | np.integer | None):
        raise AttentionError(f"text={text!r:.40} must be a number: texts count from 0.")
    layers, generated = _layers(attention, stage, text, part, ids)
    first = layers[0]()
    shape = _one_text(first, text).shape
    masked = stage == "masked_scores" and not isinstance(attention, Trace)
    filled = masked and any(_fills(_one_text(read(), text)).any() for read in layers)

    def layer(n: int) -> Array:
        numbers = _one_text(layers[n](), text)
        if filled:
            numbers = np.where(_fills(numbers), -np.inf, numbers)
        if numbers.shape != shape:
            raise AttentionError(
                f"Layer {n} is of {_size(numbers.shape)}, but layer 0 of {_size(shape)}: show "
                "layers of one size together."
            )
        return numbers

    model = attention.model_name if isinstance(attention, Trace) else ""
    if isinstance(attention, Trace) and tokens is None:
        names = attention.labels
        return Given(len(layers), layer, names, names, model, mask=_mask(attention))
    if generated and tokens is not None and ids is None and hasattr(attention, "keys"):
        ids = attention["sequences"] if "sequences" in list(attention.keys()) else None
    if text is not None and isinstance(tokens, list) and len(tokens) == len(first):
        tokens = tokens[text] if isinstance(tokens[text], list | tuple) else tokens
    names = _token_names(tokens, ids, text)
    notes = attention.notes if isinstance(attention, Watched) else ()
    unread = np.inf if getattr(attention, "full", False) else float(generated)
    queries, keys = _labels(names, (shape[1], shape[2]), unread)
    patches = None
    if (marked := getattr(tokens, "image_token_id", None)) is not None and ids is not None:
        patches = np.flatnonzero(_ids(ids, text)[: shape[2]] == marked).tolist()
    return Given(len(layers), layer, queries, keys, model, filled, notes, patches)


def _mask(run: Trace) -> tuple[Pairs, Hidden]:
    layers = range(run.config.n_layer)
    hidden: Pairs = np.all([run.hidden_pairs(n) for n in layers], axis=0)
    return hidden, min(mask_causes(run, layer=n) for n in layers)  # a window if all have one


def _fills(scores: Array) -> Pairs:
    filled: Pairs = np.isfinite(scores) & (scores <= FILL)
    return filled


def _size(shape: tuple[int, ...]) -> str:
    heads, queries, keys = shape
    return f"{pluralize(heads, 'heads')} with {queries:,} queries and {keys:,} keys"


def _layers(attention: Any, stage: str, text: Any, part: str, ids: Any) -> tuple[_Calls, bool]:
    """A call for each layer that returns its numbers: (B, nh, T, S), (nh, T, S) or (T, S).

    And whether they were joined from the steps of a generated text.
    """
    if isinstance(attention, Trace):
        of_run: Callable[..., Array] = attention.stage
        return [partial(of_run, stage, n) for n in range(attention.config.n_layer)], False
    if isinstance(attention, Watched):
        return _watched_layers(attention, stage, part, ids), True
    if hasattr(attention, "keys"):
        attention = _layers_by_name(attention, stage)
    if isinstance(attention, list | tuple) and attention and all(map(_is_nested, attention)):
        return _steps(attention), True
    if not (isinstance(attention, list | tuple) and all(_is_array(layer) for layer in attention)):
        attention = _split(attention, text)
    if not attention:
        raise AttentionError("Attention has 0 layers: give at least one.")
    return [partial(_as_array, layer) for layer in attention], False


def _watched_layers(run: Watched, stage: str, part: str, ids: Any) -> _Calls:
    """The layers of a part of a model; ``ids`` may be ``generate``'s output, with its beams."""
    kinds = {"weights": run.weights, "masked_scores": run.scores}
    if stage not in kinds:
        raise AttentionError(f"A watched model has {' and '.join(kinds)}, and no stage {stage!r}.")
    output = ids[0] if isinstance(ids, tuple) and ids else ids
    beams = output.get("beam_indices") if hasattr(output, "get") else None
    return [partial(kinds[stage], n, part=part, beams=beams) for n in run.layers(part)]


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _split(attention: Any, text: int | None) -> list[Any]:
    """The layers of one array: one for up to three axes, else those of its first axis.

    With ``text`` the first of four axes are texts, and the array is one layer.
    """
    if isinstance(attention, list | tuple) and any(layer is None for layer in attention):
        raise AttentionError(_NO_ATTENTION)
    whole = attention if _is_array(attention) else _as_array(attention)
    return list(whole) if len(whole.shape) > 3 + (text is not None) else [whole]


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_array, value))


def _steps(steps: Sequence[Sequence[Any]]) -> _Calls:
    """The layers of transformers' ``generate`` output, which has each step's arrays by layer."""
    if len(sizes := {len(step) for step in steps}) > 1:
        raise AttentionError(
            f"The steps have {min(sizes)} to {max(sizes)} layers: give those of one generate()."
        )
    return [partial(_stitch, [step[n] for step in steps]) for n in range(len(steps[0]))]


def _stitch(steps: Sequence[Any]) -> Array:
    """A layer's rows of all steps, concatenated: (…, T, S).

    A step has rows for the tokens that it read: with a cache only the new one, without a cache
    all of them again. Keys that a row didn't have yet are 0.
    """
    parts = [_as_array(step) for step in steps]
    rows, keys = ([part.shape[axis] for part in parts] for axis in (-2, -1))
    if len(set(keys)) == 1:  # the keys are another text's
        again = len(parts) > 1 and max(rows[1:]) > 1
        return parts[-1] if again else np.concatenate(parts, axis=-2)
    whole = np.zeros((*parts[-1].shape[:-2], keys[-1], keys[-1]), np.float32)
    end = 0
    for part, T, S in zip(parts, rows, keys, strict=True):
        if not (part.shape[:-2] == whole.shape[:-2] and T <= S <= keys[-1] and S - T <= end <= S):
            raise AttentionError(
                f"The steps don't follow each other: {T:,} queries and {S:,} keys come after "
                f"{end:,} tokens. Give those of one generate(), in their order."
            )
        whole[..., S - T : S, :S], end = part, S
    return whole


_NO_ATTENTION = (
    "This output holds no attention: load the model with attn_implementation='eager' and call "
    "it with output_attentions=True."
)


def _layers_by_name(output: Mapping[str, Any], stage: str) -> list[Any]:
    """The layers of an output of transformers, or of a cache with TransformerLens' names."""
    names = [str(name) for name in output.keys()]  # noqa: SIM118 (a cache iterates otherwise)
    hooks = {
        int(hook[1]): hook[0]
        for hook in map(_HOOK.fullmatch, names)
        if hook and TRANSFORMER_LENS.get(f"blocks.N.{hook[2]}") == stage
    }
    if hooks:
        if sorted(hooks) != list(range(len(hooks))):
            layers = ", ".join(map(str, sorted(hooks)))
            raise AttentionError(
                f"The cache has {pluralize(len(hooks), 'layers')}, {layers}, and not all from 0 "
                "on: pass a list of those that you want to see."
            )
        return [output[hooks[n]] for n in sorted(hooks)]
    if "beam_indices" in names and output["beam_indices"] is not None:
        raise AttentionError(
            "Beam search changes from text to text between its steps: generate with num_beams=1."
        )
    ends = (name for name in names if name.endswith("attentions"))
    kinds = [name for name in ends if output[name] is not None and len(output[name])]
    if len(kinds) > 1:
        choices = " or ".join(f"output.{name}" for name in kinds)
        raise AttentionError(
            f"This output has {len(kinds)} kinds of attention: show {choices}, with the tokens of "
            "its queries and keys."
        )
    if kinds:
        return list(output[kinds[0]])
    if any("hook_" in name for name in names):
        if hook_name := STAGE[stage].in_transformer_lens(0):
            raise AttentionError(f"The cache has no {hook_name}: stage {stage!r} is not in it.")
        there = " ".join(key for key in PAIR_STAGES if STAGE[key].hook)
        raise AttentionError(
            f"TransformerLens keeps nothing of stage {stage!r}. Of these it does: {there}."
        )
    if type(output) is dict and names:
        raise AttentionError(
            f"This dictionary has no 'attentions' but {names[0]!r:.60}"
            f"{' and others' if len(names) > 1 else ''}: pass its arrays in the order of the "
            "layers, list(found.values())."
        )
    raise AttentionError(_NO_ATTENTION)


def _as_array(values: Any) -> Array:
    """Numbers of any library as float32; a tensor on another device is copied here."""
    try:
        if hasattr(values, "detach"):
            values = values.detach().cpu().float()  # NumPy has no bfloat16
        array = np.asarray(values)
        if array.dtype.kind not in "cO":
            return array.astype(np.float32, copy=False)
    except (TypeError, ValueError):
        pass
    raise AttentionError(
        f"Attention can't be read from {type(values).__name__}: give arrays of numbers, such as "
        "a list of layers of (heads, queries, keys)."
    )


def _one_text(layer: Any, text: int | None) -> Array:
    """One text's part of a layer: (nh, T, S)."""
    whole = _as_array(layer)
    if text is not None and whole.ndim < 3:
        raise AttentionError(
            f"text={text} chooses along the first axis, and a layer's axes are queries and keys "
            "alone: leave it out."
        )
    if whole.ndim == 4 or text is not None:
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


def _token_names(tokens: Any, ids: Any, text: int | None) -> Any:
    """The tokens; if a tokenizer is given instead, those of the ids."""
    if hasattr(tokens, "keys"):
        return _encoding_tokens(tokens, text or 0)
    if not hasattr(tokens, "decode") or isinstance(tokens, bytes | str):
        return tokens
    if ids is None:
        raise AttentionError("A tokenizer needs the ids too: show(output, tokenizer, ids).")
    if isinstance(ids, tuple) and len(ids) == 2 and not isinstance(ids[0], int):
        return [_decode(tokens, side, text) for side in ids]
    return _decode(tokens, ids, text)


def _encoding_tokens(encoding: Any, text: int) -> list[str | bytes]:
    """The tokens of one text in a fast tokenizer's output, by their names there."""
    try:
        names = encoding.tokens(text)
    except (AttributeError, TypeError, ValueError, IndexError):
        raise AttentionError(
            "These are a tokenizer's ids: give the tokenizer before them, show(attention, "
            "tokenizer, encoding)."
        ) from None
    return list(decode_tokens(names))


def _ids(ids: Any, text: int | None) -> NDArray[np.int64]:
    """The ids, or those of one ``text`` among several."""
    values = getattr(ids, "ids", ids)
    if hasattr(ids, "keys"):
        values = ids["sequences" if "sequences" in list(ids.keys()) else "input_ids"]
    values = values.detach().cpu() if hasattr(values, "detach") else values
    try:
        rows = np.asarray(values)
        row = rows[text or 0] if rows.ndim == 2 else rows
    except (TypeError, ValueError, IndexError):
        row = np.zeros(())
    if row.ndim != 1 or row.dtype.kind not in "iu":
        raise AttentionError(
            f"The ids are {type(ids).__name__}: pass the whole numbers that the model was given, "
            "such as tokenizer(text)['input_ids']; for cross-attention (ids of queries, of keys)."
        )
    return row.astype(np.int64)


def _decode(tokenizer: Any, ids: Any, text: int | None) -> list[Any]:
    """Decode ids to one text or name each."""
    row = _ids(ids, text)
    texts = [str(tokenizer.decode([int(n)])) for n in row]
    named = getattr(tokenizer, "convert_ids_to_tokens", None)
    names = [named(int(n)) for n in row] if named else texts
    if (bytes_of := decode_tokens(names)) is not names:
        return list(bytes_of)
    pairs = zip(texts, names, strict=True)
    return [name if "\ufffd" in text or not text else text for text, name in pairs]


def _labels(tokens: Any, sizes: tuple[int, int], unread: float) -> tuple[list[str], list[str]]:
    """The labels of queries and keys: from one list, from a list for each, or their numbers.

    Up to ``unread`` of the last tokens may have no row, such as the last one of a generated text.
    """
    n_queries, n_keys = sizes
    if tokens is None:
        return [str(n) for n in range(n_queries)], [str(n) for n in range(n_keys)]
    if isinstance(tokens, str | bytes):
        raise AttentionError(
            f"The tokens are one text, but attention is of {n_queries:,} queries: pass a list of "
            "them, one a position."
        )
    try:
        sides = list(tokens)
    except TypeError:
        raise AttentionError(
            f"The tokens are {type(tokens).__name__}: pass a list of texts, one a position."
        ) from None
    if len(sides) != 2 or not all(isinstance(side, list | tuple | np.ndarray) for side in sides):
        if n_queries != n_keys:
            raise AttentionError(
                f"Attention has {n_queries:,} queries and {n_keys:,} keys, but one list of "
                f"{pluralize(len(sides), 'tokens')} was given: pass two, (queries, keys)."
            )
        sides = [sides, sides]
    pairs = zip(sides, sizes, strict=True)
    sides = [side[:size] if len(side) <= size + unread else side for side, size in pairs]
    for names, size, what in zip(sides, sizes, ("queries", "keys"), strict=True):
        if len(names) != size:
            raise AttentionError(
                f"Attention has {size:,} {what}, but {pluralize(len(names), 'tokens')} were given: "
                "pass one a position, special tokens such as [CLS] among them."
            )
    queries, keys = ([_label(name) for name in decode_tokens(list(side))] for side in sides)
    return queries, keys


def _label(token: Any) -> str:
    return label(token if isinstance(token, bytes) else str(token).encode("utf-8", "replace"))

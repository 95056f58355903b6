"""Widgets that several pages share. Their values live in the address."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import streamlit as st

from gpt2viz.app import address, parameters, prose, run_cache
from gpt2viz.app.frame import examples
from gpt2viz.app.pages import Page
from gpt2viz.app.parameters import SelectParam
from gpt2viz.app.view import View

_HEAD_OR_WHOLE = "_head_or_whole"
Value = TypeVar("Value")

#: (chosen layer or None, chosen head or None) -> the layer and head that a page opens with.
Opening = Callable[[int | None, int | None], tuple[int, int]]


def pick(
    label: str,
    parameter: SelectParam,
    options: Sequence[Value] | Mapping[Value, str],
    default: Value | None = None,
    *,
    tip: str = "",
    hidden: bool = False,
    **look: Any,
) -> Value:
    """Draw buttons to pick one of ``options``; they and ``default`` are as for ``address.choice``.

    ``tip`` is Markdown behind a question mark; a ``hidden`` label is for screen readers only.
    """
    chosen: Value = st.segmented_control(
        label,
        required=True,
        help=prose.tip(tip) if tip else None,
        label_visibility="collapsed" if hidden else "visible",
        **look,
        **address.choice(parameter, options, default),
    )
    return chosen


def mode(which: Page, without: Collection[str] = ()) -> str:
    """Pick one of a page's modes: a key of ``which.modes`` that isn't in ``without``."""
    modes = {key: name for key, name in which.modes.items() if key not in without}
    return pick("What to show", parameters.MODE[which], modes, hidden=True, wrap=True)


def layer(view: View, among: int | None = None, opening: Opening | None = None) -> int:
    """Pick a layer: 0 is the first after the embeddings; ``among`` replaces the model's n_layer."""
    layers = range(view.model.config.n_layer if among is None else among)
    tip = "Layers run one after another, each building on the previous one; 0 is the first."
    opening = opening or opening_head(view)
    return _number("Layer", tip, _layers(opening, layers, view.model.config.n_head))


def head(view: View, among: int | None = None, opening: Opening | None = None) -> int:
    """Pick one of the layer's heads; ``among`` replaces the model's number of heads."""
    heads = range(view.model.config.n_head if among is None else among)
    tip = (
        "Each layer has several heads, and each decides for itself how much every token looks at "
        "every other."
    )
    return _number("Head", tip, _heads(opening or opening_head(view), heads))


def _number(name: str, tip: str, given: Mapping[str, Any]) -> int:
    chosen: int = st.segmented_control(name, required=True, wrap=True, help=prose.tip(tip), **given)
    return chosen


def layer_and_head(view: View, opening: Opening | None = None) -> tuple[int, int]:
    """Return the chosen layer and head, without widgets: a picture picks them.

    By default they are those of ``opening``, or of ``opening_head`` if it isn't given.
    """
    config, opening = view.model.config, opening or opening_head(view)
    _layers(opening, range(config.n_layer), config.n_head)
    _heads(opening, range(config.n_head))
    return address.get(parameters.LAYER), address.get(parameters.HEAD)


def _layers(opening: Opening, layers: range, n_head: int) -> dict[str, Any]:
    """Return the arguments of a layer's widget: by default the best for the address's head."""

    def best() -> int:
        raw = address.raw(parameters.HEAD)
        head = next((n for n in range(n_head) if str(n) == raw), None)
        return min(opening(None, head)[0], layers.stop - 1)

    return address.choice(parameters.LAYER, layers, best) | {"on_change": _keep_head, "args": ()}


def _heads(opening: Opening, heads: range) -> dict[str, Any]:
    """Return the arguments of a head's widget: by default the best of the layer."""

    def best() -> int:
        return min(opening(address.get(parameters.LAYER), None)[1], heads.stop - 1)

    return address.choice(parameters.HEAD, heads, best) | {"on_change": _keep_head, "args": ()}


def opening_head(view: View) -> Opening:
    """Return the opening head: the copying head for a first visit's sentence, else the one with
    the strongest link. It is chosen with the mask on, so it stays the same with the mask off."""

    def opening(layer: int | None, head: int | None) -> tuple[int, int]:
        copies = examples.first_visit_view(view.trace)
        if copies and layer in (None, copies.layer) and head in (None, copies.head):
            return copies.layer, copies.head
        links = run_cache.every_head(replace(view.trace.key, causal=True), False).links
        return links.opening(layer, head)

    return opening


def _keep_head() -> None:
    """Keep both layer and head for other sentences once either is picked. For callbacks."""
    numbers = [n for n in (parameters.LAYER, parameters.HEAD) if n.name in st.session_state]
    address.put_all({number: st.session_state[number.name] for number in numbers})


def more_heads(view: View) -> list[int]:
    """Return the layer's heads that are chosen besides the chosen head."""
    heads = range(view.model.config.n_head)
    chosen: list[int] = address.read(address.choices(parameters.MORE, heads))
    return chosen


def key_token(view: View, default: int) -> int:
    """Pick the key token."""
    tokens, labels = range(view.n_tokens), view.labels
    chosen: int = st.selectbox(
        "Key token",
        format_func=lambda n: f"{n} {labels[n]}",
        width=225,
        help=prose.tip("The token being looked at; initially the one with the largest weight."),
        **address.choice(parameters.KEY, tokens, default),
    )
    return chosen


def pick_layers(view: View, layer: int) -> list[int]:
    """Pick two to four layers: by default the first and the chosen ``layer``, or else the last."""
    layers = range(view.model.config.n_layer)
    chosen: list[int] = st.pills(
        "Layers",
        selection_mode="multi",
        wrap=True,
        help=prose.tip("Choose two to four; the first is compared with each of the others."),
        **address.choices(parameters.LAYERS, layers, sorted({0, layer or layers[-1]})),
    )
    if len(chosen) > 4:
        prose.caption("Four layers fit side by side; the first four chosen are shown.")
    return chosen[:4]


def pick_head_or_whole(view: View, head: int) -> int | str:
    """Pick a head, by default the chosen one, "mean" for a layer's mean, or "rollout"."""
    whole, heads = ["mean", "rollout"], range(view.model.config.n_head)
    chosen_whole = address.read(address.choice(parameters.COMPARE, whole))
    st.session_state[_HEAD_OR_WHOLE] = chosen_whole or head

    def choose() -> None:
        picked = st.session_state[_HEAD_OR_WHOLE]
        address.put(parameters.COMPARE, picked if picked in whole else None)
        if picked not in whole:
            st.session_state[parameters.HEAD.name] = picked
            _keep_head()

    bound: dict[str, Any] = {"key": _HEAD_OR_WHOLE, "on_change": choose}
    chosen: str | int = st.segmented_control(
        "Head",
        [*whole, *heads],
        required=True,
        wrap=True,
        help=prose.tip(
            "One head, the average over all heads of the layer, or the attention rollout: these "
            "averages multiplied up to this layer, each mixed half and half with the residual "
            "stream."
        ),
        **bound,
    )
    return chosen

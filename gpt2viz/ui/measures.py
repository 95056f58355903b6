"""What the Attention page shows of every head: its weights, or what they come to."""

from __future__ import annotations

import numpy as np
import streamlit as st

from gpt2viz.attribution import rollout, value_weighted, without_first
from gpt2viz.figures.from_trace import Measure, one_head, weights_measure, weights_or_mean
from gpt2viz.figures.panel import Panel
from gpt2viz.ui import address
from gpt2viz.ui.frame import View

#: Value in the address -> (name, what a square then shows).
MEASURES = {
    "weights": (
        "Attention weights",
        "Each square is one head's **attention weights**: how much each token (row, the *query*) "
        "takes from each token (column, the *key*). Every row sums to 1. Click one to enlarge it.",
    ),
    "rest": (
        "Weights without the first token",
        "The weights with the **first column left out** and each row rescaled to sum to 1: how a "
        "head divides what it doesn't rest on the first token. Not what the model used.",
    ),
    "norms": (
        "Value-weighted: ‖α·v·W_O‖",
        "The **length of what each key gives**: weight α times its value vector v, through the "
        "head's part of W_O (Kobayashi et al. 2020). A large weight on a short v moves little.",
    ),
}


def choose() -> str:
    """Pick what is shown; returns the key in ``MEASURES``."""
    chosen: str = st.selectbox(
        "What is shown",
        list(MEASURES),
        format_func=lambda key: MEASURES[key][0],
        label_visibility="collapsed",
        **address.choice("show", list(MEASURES), "weights"),
    )
    return chosen


def measure(view: View, layer: int, chosen: str) -> Measure:
    """The numbers of a layer's heads under that measure."""
    weights = weights_measure(view.trace, layer)
    if chosen == "norms":
        lengths = value_weighted(view.model, view.trace, layer)
        return Measure(lengths, weights.hidden, "‖α·v·W_O‖", weights.hidden_text, scale="amount")
    if chosen == "rest":
        rest = without_first(weights.values)
        return Measure(
            np.nan_to_num(rest),
            np.isnan(rest) | weights.hidden,
            "share of the rest",
            "left out: the first token, or masked",
            "left out or masked",
        )
    return weights


def layer_panel(view: View, layer: int, which: int | str, title: str) -> Panel:
    """One matrix for a layer: a head's weights, the "mean" of all heads, or the "rollout"."""
    if which != "rollout":
        head = which if isinstance(which, int) else None
        return weights_or_mean(view.trace, view.labels, layer, head, title)
    mixed = Measure(
        rollout(view.trace, layer)[None],
        weights_measure(view.trace, layer).hidden[:1],
        "share of the token's start",
        "masked: exactly 0, because this key comes later",
    )
    return one_head(mixed, view.labels, 0, title, "rollout")

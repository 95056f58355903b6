"""The Predictions page's own widgets: which token to predict from, how to draw, what to explain."""

from __future__ import annotations

from typing import TypedDict

import streamlit as st

from gpt2viz.app import address, prose, run_cache
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal

TEMPERATURES = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0]
SHARES = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0]
COUNTS = ["all", 1, 2, 3, 5, 10, 20, 40, 50, 100, 200]

#: Columns of the lens: as many tokens as can be read in one row.
LENS_WIDTH = 10
#: So many candidates are offered for a logit to take apart; any other token can be typed.
CANDIDATES = 100

NONE = "nothing"


class Sampling(TypedDict):
    """Arguments of ``gpt2viz.sampling_distribution``."""

    temperature: float
    top_k: int | None
    top_p: float


#: The model's own distribution, left as it is.
UNCHANGED: Sampling = {"temperature": 1.0, "top_k": None, "top_p": 1.0}


def sampling(prefix: str = "", temperature: float = 1.0) -> Sampling:
    """Pick temperature, top-k and top-p. ``prefix`` tells one page's settings from another's."""
    heat, count, share = st.columns([5, 4, 4], gap="small")
    chosen = heat.select_slider(
        "Temperature",
        TEMPERATURES,
        help=prose.tip(
            "Divides the logits: below 1 the probable tokens gain, above 1 they lose, "
            "at 0 only the most probable one is left."
        ),
        **address.choice(f"{prefix}temperature", TEMPERATURES, temperature),
    )
    kept = count.select_slider(
        "Top-k",
        COUNTS,
        help=prose.tip("Keeps only the k most probable tokens."),
        **address.choice(f"{prefix}top_k", COUNTS, "all"),
    )
    part = share.select_slider(
        "Top-p",
        SHARES,
        help=prose.tip("Keeps the fewest tokens that together reach this probability."),
        **address.choice(f"{prefix}top_p", SHARES, 1.0),
    )
    return {"temperature": chosen, "top_k": None if kept == "all" else kept, "top_p": part}


def lens_positions(view: View, position: int) -> range:
    """Up to ``LENS_WIDTH`` positions, the chosen one among them, as late as can be."""
    last = min(view.n_tokens, max(position + 1, LENS_WIDTH))
    return range(max(0, last - LENS_WIDTH), last)


def explained(view: View, best: list[int]) -> tuple[int, int | None]:
    """Pick the token whose logit is taken apart, and one to compare it with or None.

    ``best`` are the candidates, most probable first. Any token can be typed instead.
    """
    names = run_cache.vocabulary(view.model.name)
    offered = [names[n] for n in best[:CANDIDATES]]
    one, other = st.columns(2, gap="medium")
    with one:
        token = _pick(view, "Logit of", "explain", offered, offered[0])
    with other:  # a logit minus itself is nothing
        others = [name for name in offered if name != st.session_state["explain"]]
        versus = _pick(view, "minus the logit of", "minus", [NONE, *others], NONE)
    return (best[0] if token is None else token), versus


def _pick(view: View, title: str, name: str, offered: list[str], default: str) -> int | None:
    widget = address.text(name, default)
    written = st.session_state[name]
    st.selectbox(
        title,
        offered if written in offered else [written, *offered],
        accept_new_options=True,
        help=prose.tip(
            "The most probable tokens are offered. Any other can be typed; · is a space."
        ),
        **widget,
    )
    if written == NONE:
        return None
    token = _token(view, written)
    if token is None:
        st.warning(
            f"{literal(written)} is not a single token of this model's vocabulary. "
            "Type another, or choose one from the list.",
            icon=":material/edit:",
        )
        st.stop()
    return token


def _token(view: View, written: str) -> int | None:
    """The id of a token as it is written on screen, or as a person types it: he for ·he."""
    ids = run_cache.token_of_label(view.model.name)
    if written in ids:
        return ids[written]
    plain = written.strip()
    return ids.get(f"·{plain}", ids.get(plain))

"""The cache of keys and values: what reading one more token takes, and what dropping some does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from gpt2viz import Edit, TensorRecord, Trace, surprise
from gpt2viz.anatomy.cost import products, products_of
from gpt2viz.anatomy.kv_cache import POLICIES, cache_bytes, evictions, kept, last_token_alone
from gpt2viz.app import address, output, parameters, prose, run_cache, server_config
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.labels import pluralize
from gpt2viz.pictures.prediction import surprise_curves
from gpt2viz.run.key import RunKey

#: The tensors of a layer whose shapes stand side by side.
_STAGES = ("qkv", "q", "k", "v", "scores", "weights", "head_output", "residual_out")


def draw(view: View, text: RunKey) -> None:
    """Offer what the cache holds of ``text``, the sentence and what was written; draw it if wanted.

    Without the mask there is none, and the page says why.
    """
    if not text.causal:
        prose.caption(
            "The KV cache isn't shown: with the mask off a token's keys and values depend on those "
            "after it, so none could be kept as the text goes on."
        )
        return
    shown = st.toggle(
        "The KV cache",
        help=prose.tip(
            "A KV cache keeps what was made of the tokens so far. What does reading one more take "
            "then, and what becomes of the predictions where some tokens are dropped?"
        ),
        **address.switch(parameters.CACHE),
    )
    if not shown:
        return
    whole = run_cache.run(text)
    if len(whole.token_ids) == 1:
        prose.caption("Nothing stands before the only token. Write another to see what is kept.")
        return
    step, dropped = st.columns(2, gap="large")
    with step:
        _step(view, whole)
    with dropped:
        _dropped(whole)


def _step(view: View, whole: Trace) -> None:
    """The tensors of a run of all tokens beside those of the last alone, and what that saves."""
    alone, n = _alone(whole.key), len(whole.token_ids)
    written = n - view.n_tokens
    prose.markdown(f"#### Reading “{literal(whole.labels[-1])}”, with {n - 1:,} kept")
    output.table(
        _shapes(whole, alone),
        "Shapes of a run of all tokens and of the last alone",
        height="content",
    )
    config = whole.config
    makers = ", and each group of heads" if config.n_kv_head < config.n_head else ","
    prose.caption(
        f"Prefill reads the sentence's {pluralize(view.n_tokens, 'tokens')} at once"
        + (f"; the {pluralize(written, 'tokens')} written came one by one" if written else "")
        + f". A step reads one token: each head of a layer makes one query{makers} one key and one "
        f"value of {pluralize(config.head_dim, 'numbers')}, (1, nh, 1, hs) in place of (1, nh, T, "
        f"hs), and compares that query with {n:,} keys, its own and the {n - 1:,} that were kept."
        + _beyond_windows(whole)
    )
    all_of_it = sum(product.multiply_adds for product in products(whole))
    of_step = sum(product.multiply_adds for product in products_of(alone, config))
    each, before = cache_bytes(alone) // n, pluralize(n - 1, "tokens")
    prose.markdown(
        f"The step takes **{of_step:,} multiply-adds** in place of {all_of_it:,}, "
        f"{100 * of_step / all_of_it:.1f} %. For that the keys and values of the {before} before "
        f"it are kept: **{each * (n - 1):,} bytes**, {each:,} each in "
        f"{pluralize(config.n_layer, 'layers')}."
    )


def _beyond_windows(whole: Trace) -> str:
    """A sentence on layers whose window hides a part of this text, of which all is kept here."""
    n, windows = len(whole.token_ids), map(whole.config.window, range(whole.config.n_layer))
    shorter = [window for window in windows if window is not None and window < n]
    if not shorter:
        return ""
    return (
        f" In {pluralize(len(shorter), 'layers')} a query sees the last "
        f"{pluralize(shorter[0], 'tokens')} alone, the layer's window: a cache could drop what is "
        "further back there, but here all is kept and compared."
    )


def _shapes(whole: Trace, alone: tuple[TensorRecord, ...]) -> pd.DataFrame:
    """One row a tensor of a layer: its axes and shape, of all tokens at once and of the last."""
    made = {str(record.key): record for record in alone if record.layer in (0, None)}
    return pd.DataFrame(
        {
            "tensor of a layer": whole.graph[key].label,
            "all at once": _shape(whole.record(key, 0)),
            "the last alone": _shape(made[key]),
            "its axes": f"({', '.join(made[key].axes)})",
        }
        for key in _STAGES
        if key in whole.graph
    )


def _shape(record: TensorRecord | None) -> str:
    """A shape as it is written; a long text's scores are made inside of one fused step."""
    return "in a fused step" if record is None else f"({', '.join(f'{n:,}' for n in record.shape)})"


def _dropped(whole: Trace) -> None:
    """Surprise under caches of a fixed size, beside one that keeps all."""
    prose.markdown("#### A cache that drops tokens")
    with st.container(horizontal=True, gap="medium"):
        edits = evictions(*_sizes(server_config.longest_text(whole.config)))
    runs = {name: run_cache.run(replace(whole.key, edits=of)) for name, of in edits.items()}
    for name, run in runs.items():
        if run.key not in output.shown().runs.values():  # as the text's own is, before a step
            output.run(f"The cache: {name}", run)
    bits = {name: _bits(run.key) for name, run in runs.items()}
    output.picture(
        surprise_curves(
            "Surprise of every token in bits, where all are kept and where some are dropped",
            whole.labels,
            bits,
        ),
        key="cache_curves",
        made_by=(evictions, surprise),
    )
    _means(whole, edits, bits)
    _words(edits, fits=kept(edits["drop the oldest"], len(whole.labels)) == len(whole.labels))


def _sizes(longest: int) -> tuple[int, int]:
    """Pick the room of the caches, and how many first tokens one of them keeps."""
    room: int = st.number_input(
        "Room for",
        help=prose.tip("Tokens whose keys and values are kept, the one that is read among them."),
        width=230,
        **address.number(
            parameters.ROOM, range(2, longest + 1), min(parameters.ROOM.default, longest)
        ),
    )
    sinks: int = st.number_input(
        "Of these the first",
        help=prose.tip("The text's first tokens, where heads rest: attention sinks."),
        width=280,
        **address.number(parameters.SINKS, range(1, room)),
    )
    return room, sinks


def _means(
    whole: Trace,
    edits: Mapping[str, tuple[Edit, ...]],
    bits: Mapping[str, NDArray[np.float64]],
) -> None:
    """The contents of each cache after the last token, and its surprise per token."""
    n = len(whole.token_ids)
    each = cache_bytes(_alone(whole.key)) // n
    held = [kept(edits[name], n) for name in POLICIES]
    output.table(
        {
            "cache": POLICIES,
            "tokens kept": held,
            "bytes kept": [each * tokens for tokens in held],
            "surprise per token (bits)": [np.nanmean(bits[name]) for name in POLICIES],
        },
        "Tokens that a cache keeps, and surprise per token",
        height="content",
        formats={"bytes kept": "localized", "surprise per token (bits)": "%.3f"},
    )


def _words(edits: Mapping[str, tuple[Edit, ...]], fits: bool) -> None:
    """Explain the curves; ``fits`` says that nothing had to be dropped."""
    (oldest,), (first,) = edits["drop the oldest"], edits["keep the first"]
    prose.caption(
        ("**The text fits: nothing is dropped yet.** " if fits else "")
        + "A token that is dropped is hidden from every later one, in every head of every layer: "
        f"the edits `{oldest}` and `{first}` of **What if**. Xiao et al. (2023) found that large "
        "models lose the thread where the first tokens are dropped, and keep it where a few of "
        "them stay, as attention sinks: the curves say what this model does. Here positions stay "
        "the text's own; theirs are counted within the cache, so that a text can outgrow the "
        "context."
    )


@st.cache_data(max_entries=64, hash_funcs=run_cache.BY_KEY, show_spinner=False)
def _alone(text: RunKey) -> tuple[TensorRecord, ...]:
    return last_token_alone(run_cache.load(text.model), run_cache.run(text))


@st.cache_data(max_entries=64, hash_funcs=run_cache.BY_KEY, show_spinner=False)
def _bits(text: RunKey) -> NDArray[np.float64]:
    return surprise(run_cache.run(text))

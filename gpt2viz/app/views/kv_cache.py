"""The KV cache: the cost of reading one more token, and the effect of dropping tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st

from gpt2viz import Edit, TensorRecord, Trace, surprise
from gpt2viz.anatomy.cost import products, products_of
from gpt2viz.anatomy.kv_cache import POLICIES, cache_bytes, evictions, held_tokens, last_token_alone
from gpt2viz.app import address, output, parameters, prose, run_cache, server_config
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.arrays import Numbers
from gpt2viz.labels import pluralize, sentence
from gpt2viz.pictures.prediction import surprise_curves
from gpt2viz.run.key import RunKey

#: The tensors of a layer whose shapes are compared.
_STAGES = ("qkv", "q", "k", "v", "scores", "weights", "head_output", "residual_out")


def draw(view: View, text: RunKey) -> None:
    """Draw the switch for the KV cache of ``text``, sentence and continuation, and the cache if on.

    With the mask off there is none, and the page says why.
    """
    if not text.causal:
        prose.caption(
            "There is no KV cache here: with the mask off a token's keys and values depend on "
            "those after it, so none can be kept."
        )
        return
    shown = st.toggle(
        "The KV cache",
        help=prose.tip(
            "A KV cache keeps the keys and values of earlier tokens. See what reading one more "
            "token takes, and how predictions change when some are dropped."
        ),
        **address.switch(parameters.CACHE),
    )
    if not shown:
        return
    whole = run_cache.run(text)
    if len(whole.token_ids) == 1:
        prose.caption("There is only one token. Write another to see what is kept.")
        return
    step, dropped = st.columns(2, gap="large")
    with step:
        _step(whole)
    with dropped:
        _draw_evictions(whole)


def _step(whole: Trace) -> None:
    """Draw the shapes of a run of all tokens and of the last alone, and what the cache saves."""
    alone, n, config = _last_token_tensors(whole.key), len(whole.token_ids), whole.config
    last, before = literal(whole.labels[-1]), pluralize(n - 1, "tokens")
    prose.markdown(sentence("kv_cache.step", token=last, before=before))
    which = "kv_cache.shared" if config.n_kv_head < config.n_head else "kv_cache.each"
    prose.caption(f"{sentence(which, before=before)} {_window_note(whole)}")
    output.table(
        _shapes(whole, alone),
        "Shapes of a run of all tokens and of the last alone",
        height="content",
    )
    all_of_it = sum(product.multiply_adds for product in products(whole))
    of_step = sum(product.multiply_adds for product in products_of(alone, config))
    each = cache_bytes(alone) // n
    prose.markdown(
        sentence("kv_cache.saves", share=100 * of_step / all_of_it, all=all_of_it)
        + " "
        + sentence("kv_cache.keeps", bytes=each * (n - 1)),
        help=prose.tip(sentence("kv_cache.counts", step=of_step, each=each)),
    )


def _window_note(whole: Trace) -> str:
    """Return a note on layers whose window hides a part of this text; the cache here keeps all."""
    shorter = [window for window in whole.windows if window < len(whole.token_ids)]
    if not shorter:
        return ""
    layers, window = pluralize(len(shorter), "layers"), pluralize(shorter[0], "tokens")
    return sentence("kv_cache.windows", layers=layers, window=window)


def _shapes(whole: Trace, alone: tuple[TensorRecord, ...]) -> pd.DataFrame:
    """Return a row per tensor of a layer: its axes and shape, of all tokens and of the last."""
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
    """Format a shape; a long text's scores are computed inside a fused kernel."""
    return "in a fused step" if record is None else f"({', '.join(f'{n:,}' for n in record.shape)})"


def _draw_evictions(whole: Trace) -> None:
    """Draw the surprise under caches of a fixed size, beside one that keeps all tokens."""
    prose.markdown("#### A cache that drops tokens")
    with st.container(horizontal=True, gap="medium"):
        edits = evictions(*_sizes(server_config.longest_text(whole.config)))
    runs = {name: run_cache.run(replace(whole.key, edits=of)) for name, of in edits.items()}
    for name, run in runs.items():
        if run.key not in output.page_outputs().runs.values():  # the text's own is, until a step
            output.run(f"The cache: {name}", run)
    bits = {name: _bits(run.key) for name, run in runs.items()}
    held = held_tokens(edits["drop the oldest"], len(whole.labels))
    _words(edits, fits=held == len(whole.labels))
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


def _sizes(longest: int) -> tuple[int, int]:
    """Pick the size of the caches, and how many first tokens one of them keeps."""
    room: int = st.number_input(
        "Room for",
        help=prose.tip("Tokens whose keys and values are kept, including the one being read."),
        width=230,
        **address.number(
            parameters.ROOM, range(2, longest + 1), min(parameters.ROOM.default, longest)
        ),
    )
    sinks: int = st.number_input(
        "Of these the first",
        help=prose.tip("The text's first tokens, where idle heads rest: attention sinks."),
        width=280,
        **address.number(parameters.SINKS, range(1, room)),
    )
    return room, sinks


def _means(
    whole: Trace,
    edits: Mapping[str, tuple[Edit, ...]],
    bits: Mapping[str, Numbers],
) -> None:
    """List the number of tokens in each cache after the last token, and the surprise per token."""
    n = len(whole.token_ids)
    each = cache_bytes(_last_token_tensors(whole.key)) // n
    held = [held_tokens(edits[name], n) for name in POLICIES]
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
    if fits:
        prose.caption("**The text fits: nothing is dropped yet.**")
    (oldest,), (first,) = edits["drop the oldest"], edits["keep the first"]
    prose.caption(sentence("kv_cache.dropped", oldest=oldest, first=first))


@st.cache_data(max_entries=64, hash_funcs=run_cache.BY_KEY, show_spinner=False)
def _last_token_tensors(text: RunKey) -> tuple[TensorRecord, ...]:
    return last_token_alone(run_cache.load(text.model), run_cache.run(text))


@st.cache_data(max_entries=64, hash_funcs=run_cache.BY_KEY, show_spinner=False)
def _bits(text: RunKey) -> Numbers:
    return surprise(run_cache.run(text))

"""A head that copies, opened where there is nothing to copy: the sentence said twice, one click
away."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import streamlit as st

from gpt2viz import TextError, Trace
from gpt2viz.analysis.scores import duplicate_token, induction
from gpt2viz.app import address, parameters, run_cache, server_config
from gpt2viz.app.frame import sentence
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View

#: A head copies that scores at least so much for induction on random tokens said twice, and on
#: the sentence said twice has a look at least so hard.
_COPIES = 0.5


class Copied(NamedTuple):
    """A head's hardest look at what followed the query's token before: the ``text``, the places of
    ``query`` and ``key``, how both are written, and the ``weight``."""

    text: str
    query: int
    key: int
    labels: tuple[str, str]
    weight: float


def offer(view: View, layer: int, head: int) -> None:
    """Offer the sentence said twice, where nothing comes twice and the head would copy then."""
    if duplicate_token(view.trace.token_ids).any():
        return
    if (found := on_twice(view, layer, head)) is None:
        return
    asks, copied = map(literal, found.labels)
    with st.container(key="copying", horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(
            f"Head {layer}.{head} copies, but here nothing comes twice. With the sentence said "
            f"twice, “{asks}” looks at what followed it before: “{copied}” ({found.weight:.2f}).",
            width="content",
        )
        st.button(
            "Say it twice",
            icon=":material/repeat:",
            type="tertiary",
            on_click=_show,
            args=(found, layer, head),
        )


def on_twice(view: View, layer: int, head: int) -> Copied | None:
    """Where the head copies on the sentence said twice; None where it doesn't, or has no room."""
    probe = run_cache.probe(view.trace.key)
    if probe is None or run_cache.head_scores(probe.key)["induction"][layer, head] < _COPIES:
        return None
    if (found := said_twice(view)) is None:
        return None
    twice, run = found
    on = run.stage("weights", layer)[0, head] * induction(run.token_ids)
    query, key = divmod(int(on.argmax()), len(run.token_ids))
    if not on[query, key] >= _COPIES:  # nor where it is NaN
        return None
    labels = run.labels[query], run.labels[key]
    return Copied(twice, query, key, labels, float(on[query, key]))


def said_twice(view: View) -> tuple[str, Trace] | None:
    """The sentence said twice, and its run; None where that is too long, or has no space."""
    text: str = address.chosen(parameters.TEXT)
    twice = f"{text} {text}"
    try:
        ids = view.model.tokenizer.encode(twice, end_of_text_first=sentence.has_end_of_text())
    except TextError:
        return None
    if len(ids) > server_config.longest_text(view.model.config):
        return None
    return twice, run_cache.run(replace(view.trace.key, token_ids=tuple(ids)))


def _show(found: Copied, layer: int, head: int) -> None:
    address.put(parameters.TEXT, found.text)
    address.put(parameters.LAYER, layer)
    address.put(parameters.HEAD, head)
    address.put(parameters.QUERY, found.query)
    address.put(parameters.KEY, found.key)

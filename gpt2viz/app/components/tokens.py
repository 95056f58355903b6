"""The tokens of a sentence, to choose one, and the note on the part of it that pictures show.

If the page's scripts can draw the result of a choice, the browser makes it, otherwise the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st

from gpt2viz.app import address, parameters
from gpt2viz.app.clicks import open_head
from gpt2viz.app.components import mount
from gpt2viz.app.describe import strongest_query
from gpt2viz.app.view import View
from gpt2viz.arrays import largest
from gpt2viz.labels import bidi_isolate

#: Arcs of a word: ``strongest`` in scripts/words.js draws at most as many, none of small weights.
_MOST = 6


def draw_chips(
    name: str,
    labels: Sequence[str],
    ids: Sequence[int],
    *,
    shown: range,
    query: int | None,
    enabled: bool,
) -> None:
    """Draw the ``shown`` tokens of a text, once on a page; ``name`` labels the whole row.

    The chosen ``query``, of ``parameters.QUERY``, may be none of these. Unless ``enabled``, no
    token can be chosen.
    """
    chips = _chips(name, labels, ids, shown, query) | {"disabled": not enabled}
    mount({"script": "choices.tokens"} | chips, key="token_chips", on_query_change=_pick)


def _chips(
    name: str, labels: Sequence[str], ids: Sequence[int], shown: range, query: int | None
) -> dict[str, Any]:
    return {
        "name": name,
        "first": shown.start,
        "labels": [bidi_isolate(labels[n]) for n in shown],
        "ids": [ids[n] for n in shown],
        "part": len(shown) < len(labels),
        "chosen": query,
        "disabled": False,
    }


def draw_words(
    view: View,
    name: str,
    shown: range,
    at: tuple[int, int],
    *,
    numbers: str,
    coming: Sequence[Mapping[str, Any]],
    before: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Draw the ``shown`` tokens as large words, with arcs to what each attends to in a head.

    ``at`` is the layer and the head; ``numbers`` is the browser's name for the weights of every
    head, "" if they weren't sent. ``coming`` are the next tokens at the line's end: label, percent
    and where each comes from; ``before``, crossed out, is the next token with every head on. If the
    user opened one of its heads at a key, *Head* opens there.
    """
    (layer, head), trace = at, view.trace
    weights = np.nan_to_num(trace.stage("weights", layer)[0, head])
    rows = weights[:0] if numbers else weights[shown.start : shown.stop]
    clicked = mount(
        {
            "script": "words",
            **_chips(name, trace.labels, trace.token_ids, shown, view.query),
            "n_tokens": view.n_tokens,
            "layer": layer,
            "head": head,
            "n_head": trace.config.n_head,
            "numbers": numbers,
            "arcs": [[(n, float(row[n])) for n in largest(row, _MOST).tolist()] for row in rows],
            "strongest": strongest_query(weights),
            "next": coming,
            "before": before,
        },
        key="token_chips",
        on_query_change=_pick,
        on_open_change=lambda: None,
    )
    if clicked.open:
        layer, head, key = map(int, str(clicked.open).split("."))
        address.put_all({parameters.QUERY: view.n_tokens - 1, parameters.KEY: key})
        open_head(layer, head)


def _pick() -> None:
    position = int(st.session_state["token_chips"].query)
    address.put(parameters.QUERY, position if position >= 0 else None)

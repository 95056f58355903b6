"""The tokens of a sentence, to choose one.

If the page's scripts can draw the result of a choice, the browser makes it, otherwise the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from gpt2viz.app import address, parameters
from gpt2viz.app.components import mount
from gpt2viz.labels import bidi_isolate


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
    drawn = chips(name, labels, ids, shown, query) | {"disabled": not enabled}
    mount({"script": "choices.tokens"} | drawn, key="token_chips", on_query_change=pick)


def chips(
    name: str, labels: Sequence[str], ids: Sequence[int], shown: range, query: int | None
) -> dict[str, Any]:
    """Return what the browser draws of the ``shown`` tokens of a text."""
    return {
        "name": name,
        "first": shown.start,
        "labels": [bidi_isolate(labels[n]) for n in shown],
        "ids": [ids[n] for n in shown],
        "part": len(shown) < len(labels),
        "chosen": query,
        "disabled": False,
    }


def pick() -> None:
    """Choose the clicked token, or none. For callbacks."""
    position = int(st.session_state["token_chips"].query)
    address.put(parameters.QUERY, position if position >= 0 else None)

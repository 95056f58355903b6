"""The tokens of a sentence, of which one can be chosen: by the browser, where its page's scripts
draw what comes of that, else by the server."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from gpt2viz.app import address, parameters
from gpt2viz.app.components import brought
from gpt2viz.labels import isolated

_draw = brought(__name__, '<div class="chips" role="radiogroup"></div>').draw


def draw(
    name: str,
    labels: Sequence[str],
    ids: Sequence[int],
    *,
    shown: range,
    query: int | None,
    enabled: bool,
) -> None:
    """Draw the ``shown`` ones of all tokens, which together have a ``name``, once on a page.

    The chosen ``query``, of ``parameters.QUERY``, may be none of these; where it isn't
    ``enabled``, none can be chosen.
    """
    _draw(
        key="token_chips",
        data={
            "name": name,
            "first": shown.start,
            "labels": [isolated(labels[n]) for n in shown],
            "ids": [ids[n] for n in shown],
            "part": len(shown) < len(labels),
            "chosen": query,
            "disabled": not enabled,
        },
        on_query_change=_picked,
    )


def _picked() -> None:
    place = int(st.session_state["token_chips"].query)
    address.put(parameters.QUERY, place if place >= 0 else None)

"""The tokens of a sentence, of which one can be chosen: by the browser, where its page's scripts
draw what comes of that, else by the server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from gpt2viz.app import address, parameters
from gpt2viz.app.components import beside, parted, whole
from gpt2viz.labels import isolated

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

#: How the script has its style.
_STYLE = 'const STYLE = ""'
_HTML = '<div class="chips" role="radiogroup"></div>'


def _registered() -> tuple[ComponentRenderer, ComponentRenderer]:
    """What brings the script, and what draws with it.

    The style is written into the script: then a strip is sent as little more than its tokens.
    """
    name, style = "gpt2viz_token_chips", json.dumps(beside(__name__, "style.css"))
    script = whole(beside(__name__, "component.js"))
    loading, drawing = parted(name, script.replace(_STYLE, f"{_STYLE[:-2]}{style}"))
    return (
        st.components.v2.component(f"{name}_script", js=loading),
        st.components.v2.component(name, html=_HTML, js=drawing),
    )


_bring, _draw = _registered()


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
    _bring(key="token_chips_script", data={})
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

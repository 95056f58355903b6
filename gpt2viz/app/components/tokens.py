"""The tokens of a sentence, of which one can be chosen, and the part of it that pictures show.

Either is chosen by the browser where its page's scripts draw what comes of that, and by the server
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from gpt2viz.app import address, parameters
from gpt2viz.app.components import mount
from gpt2viz.labels import bidi_isolate, pluralize
from gpt2viz.pictures.canvas import Shown


def draw_chips(
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
    mount(
        key="token_chips",
        data={
            "script": "choices.tokens",
            "name": name,
            "first": shown.start,
            "labels": [bidi_isolate(labels[n]) for n in shown],
            "ids": [ids[n] for n in shown],
            "part": len(shown) < len(labels),
            "chosen": query,
            "disabled": not enabled,
        },
        on_query_change=_pick,
    )


def _pick() -> None:
    position = int(st.session_state["token_chips"].query)
    address.put(parameters.QUERY, position if position >= 0 else None)


def draw_part(shown: Shown, *, here: bool, back: Callable[[], None]) -> None:
    """Draw the part of the text that the pictures show, with the way back; nothing for all of it.

    Once on a page that has such pictures. Where the browser draws parts by itself, ``here``, it
    goes back to the whole by itself too; else ``back`` is called before the page runs again.
    """
    mount(
        key="part_note",
        data={
            "script": "choices.part",
            "part": shown.part or None,
            "end": shown.n_tokens,
            "here": here,
            "lead": "Only a part is shown",
            "of": f"of {pluralize(shown.n_tokens, 'tokens')}. What the page says about a whole row "
            "or column holds for the whole text.",
        },
        on_whole_change=back,
    )

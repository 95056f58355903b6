"""Matrix or lines, chosen in the browser, which has the numbers for both."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, parameters
from gpt2viz.app.components import brought

_draw = brought(__name__, '<div class="switch" role="radiogroup" aria-label="Picture"></div>').draw


def draw(*, enabled: bool) -> None:
    """Draw the switch for ``parameters.PICTURE``, which the page has read already."""

    def picked() -> None:
        address.put(parameters.PICTURE, st.session_state["picture_switch"].picture)

    _draw(
        key="picture_switch",
        data={
            "names": {name: name.capitalize() for name in ("matrix", "lines")},
            "chosen": address.chosen(parameters.PICTURE) if enabled else "matrix",
            "disabled": not enabled,
        },
        on_picture_change=picked,
        width="content",
    )

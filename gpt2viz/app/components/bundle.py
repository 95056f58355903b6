"""The scripts and styles of the components that draw most, sent together and once.

The text is the same for every page, so that Streamlit sends it no more than once to a browser.
"""

from __future__ import annotations

import streamlit as st

from gpt2viz.app.components import beside, bundled, handed_as

#: By their folders.
_PARTS = ("lines", "model_map", "part_note", "picture_switch", "tiles", "token_chips")
#: These draw tiles or lines, in their styles too.
_EITHER = ("head_picture", "matrix_or_lines")


def _style(name: str) -> str:
    own = beside(name, "style.css")
    if name not in _EITHER:
        return own
    of_tiles, of_lines = (beside(one, "style.css") for one in ("tiles", "lines"))
    return f"{of_tiles}\n.as-lines {{ {of_lines} }}\n{own}"  # lines' speaks of every button


_bring = st.components.v2.component(
    "gpt2viz_bundle",
    js=bundled(
        {
            handed_as(name): (beside(name, "component.js"), _style(name))
            for name in (*_PARTS, *_EITHER)
        }
    ),
)


def bring() -> None:
    """Bring them. For the frame, once on every page; draws nothing."""
    _bring(key="bundle", data={})

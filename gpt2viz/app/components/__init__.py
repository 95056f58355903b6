"""Parts of a page that the browser draws by a script of ``app/scripts``, a module a story.

Streamlit knows one component: ``index.js`` there, which draws by the script that a message names.
``gpt2viz/pyproject.toml`` tells it of the folder, and browsers read scripts and styles from there
as they need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import streamlit as st

if TYPE_CHECKING:
    from streamlit.components.v2.bidi_component import ComponentResult
    from streamlit.components.v2.types import ComponentRenderer


@lru_cache(maxsize=1)
def _component() -> ComponentRenderer:
    """The component, registered with the first page: without a server there is no folder of it."""
    return st.components.v2.component("gpt2viz.scripts", js="index.js")


def mount(data: Mapping[str, Any] | bytes, *, key: str, **options: Any) -> ComponentResult:
    """Draw ``data``, by the ``script`` that it or its header names; the rest is Streamlit's.

    Bytes are a ``message`` of ``pictures.canvas``.
    """
    return _component()(key=key, data=data, **options)

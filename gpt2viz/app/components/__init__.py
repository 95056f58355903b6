"""Components: parts of a page that the browser draws with a script of ``app/scripts``.

Streamlit has one component, ``index.js`` there, which loads the script that a message names.
``gpt2viz/pyproject.toml`` registers the folder, from which browsers load scripts and styles as they
need them.
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
    """Register the component with the first page: before, no server serves its folder."""
    return st.components.v2.component("gpt2viz.scripts", js="index.js")


def mount(data: Mapping[str, Any] | bytes, *, key: str, **options: Any) -> ComponentResult:
    """Draw ``data`` with the ``script`` that it or its header names; ``options`` are Streamlit's.

    Bytes are a ``message`` of ``pictures.canvas``.
    """
    return _component()(key=key, data=data, **options)

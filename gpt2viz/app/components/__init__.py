"""Components: parts of a page that the browser draws with a script of ``app/scripts``.

Streamlit has one component, ``index.js`` there, which loads the script that a message names.
``gpt2viz/pyproject.toml`` registers the folder, from which browsers load scripts and styles as they
need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import streamlit as st

if TYPE_CHECKING:
    from streamlit.components.v2.bidi_component import ComponentResult
    from streamlit.components.v2.types import ComponentRenderer

#: Tells screen readers where the numbers of a picture are.
NUMBERS = "All its numbers are in the menu, under Numbers."
#: What a component's messages do, by name: a callback gets what the browser sent, before the page
#: reruns; with None the page just reruns, and reads it from the component's result. Any client can
#: send anything. Streamlit keeps callbacks for the session, so none may reference a run: let them
#: hold labels and sizes only.
Answers = Mapping[str, Callable[[Any], object] | None]


@lru_cache(maxsize=1)
def _component() -> ComponentRenderer:
    """Register the component with the first page: before that, no server serves its folder."""
    return st.components.v2.component("gpt2viz.scripts", js="index.js")


def mount(
    data: Mapping[str, Any] | bytes,
    *,
    key: str,
    on: Answers = MappingProxyType({}),
    **options: Any,
) -> ComponentResult:
    """Draw ``data`` with the ``script`` that it or its header names; ``options`` are Streamlit's.

    Bytes are a ``message`` of ``pictures.canvas``.
    """
    for name, call in on.items():
        options[f"on_{name}_change"] = partial(_answer, key, name, call)
    return _component()(key=key, data=data, **options)


def _answer(key: str, name: str, call: Callable[[Any], object] | None) -> None:
    sent = st.session_state[key][name]
    if call is not None and sent is not None:
        call(sent)

"""What is wrong with what other packages add: said where it would be, and the page goes on."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app.literal import literal


def draw(*said: str) -> None:
    """One warning with each sentence once; nothing where there is none."""
    if said:
        told = "\n\n".join(map(literal, dict.fromkeys(said)))
        st.warning(told, icon=":material/extension_off:")

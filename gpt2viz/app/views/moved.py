"""Where a page once was: links to it lead on, with all that they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import streamlit as st

from gpt2viz.app import parameters


def show(script: str) -> NoReturn:
    """Go to the page that formerly had the name of this ``script``."""
    page, asked = parameters.of_now(Path(script).stem, st.query_params.to_dict())
    st.switch_page(page.path, query_params=asked)

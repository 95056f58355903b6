"""Where a page once was: links to it lead on, with all that they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import streamlit as st

from gpt2viz.app import pages


def show(script: str) -> NoReturn:
    """Go to the page that formerly had the name of this ``script``."""
    page = pages.called(Path(script).stem)
    if page is None:
        raise ValueError(f"no page was ever called {Path(script).stem}")
    st.switch_page(page.path, query_params=st.query_params.to_dict())

"""Textbook: the worked examples of five introductions to GPT-2, alive."""

import streamlit as st

from gpt2viz.app.course import contents
from gpt2viz.app.frame import page

colors = page.open_menu("Textbook")
side, chapter = st.columns([1, 4], gap="large")
with side:
    chosen = contents.choose()
with chapter:
    contents.show(chosen, colors)

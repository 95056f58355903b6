"""Models: what can be loaded, what it takes, and how to get another one."""

import streamlit as st

from gpt2viz import GPT2VizError
from gpt2viz.ui import frame, models
from gpt2viz.ui.text import literal

frame.open_menu("Models")
try:
    st.markdown("#### Models that can be chosen")
    models.table()
    st.markdown("#### Get one by its name")
    models.by_name()
except GPT2VizError as error:
    st.error(literal(str(error)), icon=":material/error:")

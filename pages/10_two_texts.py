"""Two texts: where this page once was. Links to it lead on to Compare."""

import streamlit as st

st.switch_page("pages/10_compare.py", query_params=st.query_params.to_dict())

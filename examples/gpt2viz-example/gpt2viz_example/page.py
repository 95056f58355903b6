"""Surest heads: which heads have made up their mind about the chosen token."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from gpt2viz.app import output
from gpt2viz.app.view import View
from gpt2viz.pictures.find import head_map
from gpt2viz.pictures.picture import Heatmaps


def draw(view: View) -> None:
    """Draw what stands below the menu, the sentence and its tokens: these gpt2viz draws."""
    query = view.n_tokens - 1 if view.query is None else view.query
    if view.n_tokens == 1 or (query == 0 and view.trace.causal):
        st.info("This token sees no other than the first. Choose a later one.")
        return
    layers = range(view.trace.config.n_layer)
    weights = np.stack([view.trace.stage("weights", n)[0, :, query, 1:] for n in layers])
    surest, keys = weights.max(axis=-1), 1 + weights.argmax(axis=-1)  # (n_layer, nh)
    st.markdown(f"The largest weight that each head gives from token {query}, the first left out.")
    output.picture(
        Heatmaps("The largest weight of every head", [head_map(surest, "largest weight")]),
        key="surest_heads",
    )
    layer, head = np.indices(surest.shape)
    found = pd.DataFrame(
        {
            "layer": layer.ravel(),
            "head": head.ravel(),
            "weight": surest.ravel(),
            "looks at": [view.labels[key] for key in keys.ravel()],
        }
    )
    best = found.sort_values("weight", ascending=False, kind="stable").head(10)
    output.table(best, "The surest heads", hide_index=True)

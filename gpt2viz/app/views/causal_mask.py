"""The causal mask itself: who may see whom, in words and as a picture."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import output, prose
from gpt2viz.app.clicks import choose_query
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View, Window
from gpt2viz.app.views.stages import mask_in_words
from gpt2viz.pictures.from_trace import who_sees_whom
from gpt2viz.pictures.picture import Heatmaps


def draw(view: View, part: Window) -> None:
    """What the mask of a run with the mask on hides, in the part that is shown."""
    seen = who_sees_whom(view.trace, view.labels, "Mask on: who may see whom")
    prose.markdown("#### Who may see whom?")
    words, picture = st.columns([2, 1], gap="large", vertical_alignment="center")
    prose.markdown(mask_in_words(seen, view.query if view.query is not None else 0), place=words)
    shown = part.fit(seen)
    with picture, st.container(key="mask"):
        output.picture(
            Heatmaps(
                shown.named("Which query may see which key with the mask on"),
                [shown],
                height=280,
                row=view.query,
                numbers=0,
            ),
            view.colors,
            key="seen",
            made_by=(who_sees_whom, Line(view.trace, "masked_scores", 0)),
            choose=choose_query(shown.rows),
            drag=part.drag(shown),
        )

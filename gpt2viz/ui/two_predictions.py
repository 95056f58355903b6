"""Two predictions side by side: the best of each, and the tokens whose probability changed most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from gpt2viz.figures.charts import probability_bars
from gpt2viz.figures.palette import Palette
from gpt2viz.labels import isolated
from gpt2viz.ui import say, show
from gpt2viz.ui.source import Made


def most_probable(place: Any, title: str, p: NDArray[np.float64], names: Sequence[str]) -> None:
    """The token with the largest of the probabilities ``p``, (n_vocab,), and how large it is."""
    best = int(p.argmax())
    place.metric(title, f"“{isolated(names[best])}” {100 * p[best]:.2f} %")


def draw(
    table: pd.DataFrame,
    colors: Palette,
    *,
    key: str,
    alt: str,
    name: str,
    order: str,
    made_by: Sequence[Made],
) -> None:
    """A table of ``tables.largest_changes`` as bars and as numbers; ``order`` says its order."""
    bars, numbers = st.columns([5, 4], gap="medium")
    cases = {column.removesuffix(" (%)"): table[column] for column in table.columns[2:4]}
    show.picture(
        probability_bars(table["token"], cases, colors),
        place=bars,
        key=key,
        alt=alt,
        made_by=made_by,
    )
    formats = {
        column: st.column_config.NumberColumn(format="%+.3f" if "points" in column else "%.3f")
        for column in table.columns[2:]
    }
    say.caption(order, place=numbers)
    show.table(
        table,
        name,
        place=numbers,
        hide_index=True,
        column_config=formats | {"id": None},
        height=460,
    )

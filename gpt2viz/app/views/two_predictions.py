"""Two predictions side by side: the best of each, and the tokens whose probability changed most."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from gpt2viz import divergence, sampling_distribution
from gpt2viz.app import output, prose
from gpt2viz.app.source_code import Made
from gpt2viz.app.views.two_runs import Sides
from gpt2viz.labels import isolated
from gpt2viz.pictures import tables
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.prediction import probability_bars


def compare(both: Sides, names: tuple[str, str], titles: Sequence[str]) -> pd.DataFrame:
    """What comes after the token on both sides, under their ``titles``, and how far apart it is.

    Returns the ``tables.largest_changes`` from the first to the second, called by their ``names``:
    of the tokens that both models' vocabularies have.
    """
    logits = [side.trace.logits_at(side.token) for side in both.both]
    vocabulary = both.vocabulary()
    predicted = [sampling_distribution(row) for row in logits]
    *places, distance = st.columns(3)
    for place, title, p in zip(places, titles, predicted, strict=True):
        best = int(p.argmax())
        place.metric(title, f"“{isolated(vocabulary[best])}” {100 * p[best]:.2f} %")
    first, second = names
    if len(logits[0]) == len(logits[1]):
        distance.metric(
            f"KL divergence of {second} from {first}",
            f"{divergence(logits[1], logits[0]):.4f} bits",
            help=prose.tip(
                f"How many extra bits the next token costs on average if it follows {first} but "
                f"{second} is believed: Σ p log₂(p / q), p from {first}, q from {second}. 0 where "
                "both predict the same."
            ),
        )
    shared = min(map(len, logits))
    one, other = (p[:shared] for p in predicted)
    return tables.largest_changes(one, other, vocabulary, top=6, names=names)


def draw(
    table: pd.DataFrame,
    colors: Palette,
    *,
    key: str,
    alt: str,
    name: str,
    order: str,
    made_by: Sequence[Made] = (),
) -> None:
    """A table of ``tables.largest_changes`` as bars and as numbers; ``order`` says its order."""
    bars, numbers = st.columns([5, 4], gap="medium")
    cases = {column.removesuffix(" (%)"): table[column] for column in table.columns[2:4]}
    output.picture(
        probability_bars(alt, table["token"], cases),
        colors,
        place=bars,
        key=key,
        made_by=(*made_by, sampling_distribution, divergence),
    )
    formats = {
        column: st.column_config.NumberColumn(format="%+.3f" if "points" in column else "%.3f")
        for column in table.columns[2:]
    }
    prose.caption(order, place=numbers)
    output.table(
        table,
        name,
        place=numbers,
        hide_index=True,
        column_config=formats | {"id": None},
        height=460,
    )

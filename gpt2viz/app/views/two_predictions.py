"""Two predictions side by side: the best of both, and the tokens whose probability changed most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from gpt2viz import divergence, sampling_distribution
from gpt2viz.app import output, prose
from gpt2viz.app.frame import page
from gpt2viz.app.source_code import Made
from gpt2viz.app.views.two_runs import Sides
from gpt2viz.arrays import Array
from gpt2viz.labels import isolated
from gpt2viz.pictures import tables
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.prediction import probability_bars

#: So many of the most probable tokens are drawn.
_BEST = 5


def compare(both: Sides, names: tuple[str, str], titles: Sequence[str]) -> pd.DataFrame:
    """What comes after the token on both sides, under their ``titles``, and how far apart it is.

    Returns the ``tables.largest_changes`` from the first to the second, called by their ``names``:
    of the tokens that both models' vocabularies have.
    """
    page.stop_without_numbers(*both.traces)
    logits = [side.trace.logits_at(side.token) for side in both.both]
    vocabulary = both.vocabulary()
    predicted = [sampling_distribution(row) for row in logits]
    shared = min(map(len, logits))
    one, other = (p[:shared] for p in predicted)
    with st.container(key="coming", horizontal=True, gap="medium"):
        with (numbers := st.container(key="in_numbers", width=235, gap="xsmall")):
            _in_numbers(vocabulary, logits, predicted, names, titles)
        best = tables.most_probable_of_two(one, other, vocabulary, top=_BEST, names=names)
        alt = f"The most probable next tokens, {' and '.join(names)}"
        _bars(best, both.a.view.colors, "best", alt)
        output.code(sampling_distribution, divergence, of=[alt], place=numbers)
    return tables.largest_changes(one, other, vocabulary, top=6, names=names)


def _in_numbers(
    vocabulary: Sequence[str],
    logits: Sequence[Array],
    predicted: Sequence[NDArray[np.float64]],
    names: tuple[str, str],
    titles: Sequence[str],
) -> None:
    """The most probable token of both, (n_vocab,) each, and how far apart they are."""
    for title, p in zip(titles, predicted, strict=True):
        best = int(p.argmax())
        st.metric(title, f"“{isolated(vocabulary[best])}” {100 * p[best]:.2f} %")
    first, second = names
    if len(logits[0]) == len(logits[1]):
        st.metric(
            "KL divergence",
            f"{divergence(logits[1], logits[0]):.4f} bits",
            help=prose.tip(
                f"How many extra bits the next token costs on average if it follows {first} but "
                f"{second} is believed: Σ p log₂(p / q), p from {first}, q from {second}. 0 where "
                "both predict the same."
            ),
        )


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
    with bars:
        _bars(table, colors, key, alt, (*made_by, sampling_distribution, divergence))
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


def _bars(
    table: pd.DataFrame, colors: Palette, key: str, alt: str, made_by: Sequence[Made] = ()
) -> None:
    """Both probabilities of the tokens in a table, in pairs."""
    cases = {column.removesuffix(" (%)"): table[column] for column in table.columns[2:4]}
    picture = probability_bars(alt, table["token"], cases)
    output.picture(picture, colors, key=key, made_by=made_by)

"""Two runs side by side: a head's weights on one scale, their difference, and both predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import streamlit as st

from gpt2viz import divergence, sampling_distribution
from gpt2viz.analysis.comparison import (
    Path,
    addition_sites,
    align,
    largest_differences,
    nearest,
    path,
    stream_sites,
)
from gpt2viz.analysis.scores import Scores
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.clicks import Cell, Drag
from gpt2viz.app.components import lines
from gpt2viz.app.components.lines import Lined
from gpt2viz.app.frame import page
from gpt2viz.app.source_code import Code
from gpt2viz.app.view import View, Window
from gpt2viz.labels import bidi_isolate, percent, sentence, shorten
from gpt2viz.pictures import tables
from gpt2viz.pictures.compare import (
    aligned_bars,
    difference_of_matched,
    nearest_table,
    path_lines,
    side_panel,
)
from gpt2viz.pictures.from_trace import mask_causes
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.prediction import probability_bars
from gpt2viz.run.key import RunKey
from gpt2viz.run.trace import Trace

#: A layer and a head of it, or None for the mean of its heads.
Head = tuple[int, int | None]
#: A callback for the position of a chosen token.
Choose = Callable[[int], None]
#: Pixels of a row of matrices, so that the pictures below fit on the same screen.
HEIGHT = 280
#: How many of the most probable tokens are drawn.
_BEST = 5


@dataclass(frozen=True)
class Side:
    """One side: its name, its run, and the position of its chosen token."""

    name: str
    view: View
    token: int

    @property
    def trace(self) -> Trace:
        """The run of this side."""
        return self.view.trace

    def title(self, of: Head) -> str:
        """Return the title of a picture of this side."""
        layer, head = of
        which = "mean of heads" if head is None else f"head {head}"
        return f"{shorten(self.name, 24)} · layer {layer}, {which}"


@dataclass(frozen=True)
class Sides:
    """Two sides, and the position in B of the partner of each of A's tokens that has one."""

    a: Side
    b: Side
    matches: Mapping[int, int]

    @property
    def both(self) -> tuple[Side, Side]:
        """A, then B."""
        return self.a, self.b

    @property
    def of_one_text(self) -> bool:
        """True if both sides read the same tokens, with the same token chosen."""
        a, b = self.both
        return (a.trace.token_ids, a.token) == (b.trace.token_ids, b.token)

    @property
    def traces(self) -> tuple[Trace, Trace]:
        """The run of A, then that of B."""
        return self.a.trace, self.b.trace

    def head_differences(self) -> Scores:
        """Return the largest difference of a weight in every head: (n_layer, n_head)."""
        return compare(self.a.trace.key, self.b.trace.key, tuple(self.matches.items()))

    def vocabulary(self) -> tuple[str, ...]:
        """Return the longer of both models' vocabularies; one may have more ids than the other."""
        return max((run_cache.vocabulary(side.view.model.name) for side in self.both), key=len)


@st.cache_data(max_entries=32, hash_funcs=run_cache.BY_KEY, show_spinner="Comparing every head …")
def compare(a: RunKey, b: RunKey, matches: tuple[tuple[int, int], ...]) -> Scores:
    """Return the largest difference of a weight between two runs per head: (n_layer, n_head)."""
    return largest_differences(run_cache.run(a), run_cache.run(b), matches)


def sides_of_text(names: tuple[str, str], a: View, b: View) -> Sides:
    """Return two runs of the same tokens, compared at the chosen token, or the last."""
    sides = Side(names[0], a, a.position), Side(names[1], b, a.position)
    return Sides(*sides, {n: n for n in range(a.n_tokens)})


@dataclass(frozen=True)
class Weights:
    """Attention weights of both sides (T, T) and B's minus A's, by A's tokens that have partners.

    After ``fit``, only the part of them that is shown.
    """

    a: Panel
    b: Panel
    change: Panel

    def fit(self, parts: tuple[Window, Window]) -> Weights:
        """Fit the matrices to the ``parts`` of both texts that are shown."""
        return Weights(parts[0].fit(self.a), parts[1].fit(self.b), parts[0].fit(self.change))

    def choose_row(self, choose: tuple[Choose, Choose]) -> Callable[[Cell], None]:
        """Return a callback that chooses a clicked row's token: B's in B's matrix, else A's."""
        rows, b = {panel.name: panel.rows for panel in (self.a, self.b, self.change)}, self.b.name
        return lambda cell: choose[cell.panel == b](rows[cell.panel].position(cell.row))


def weights(both: Sides, heads: Sequence[Head], titles: tuple[str, str], change: str) -> Weights:
    """Return the weights of two ``heads`` with ``titles``, and their difference, named ``change``.

    Cells of hidden keys say why they are hidden; in the legend they share one name.
    """
    hidden = mask_causes(*both.traces).name
    a, b = (
        replace(
            side_panel(side.trace, side.view.labels, *head, title), name=name, masked_name=hidden
        )
        for name, side, head, title in zip("ab", both.both, heads, titles, strict=True)
    )
    return Weights(a, b, difference_of_matched(a, b, list(both.matches.items()), change))


def draw(
    both: Sides,
    shown: Weights,
    alt: tuple[str, str],
    *,
    as_lines: bool,
    made_by: Sequence[Code],
    tokens: tuple[Choose, Choose],
    choose: Callable[[Cell], None],
    drag: Drag | None,
    hint: str,
) -> None:
    """Draw two matrices on one scale, or their lines, and the difference beside them.

    ``alt`` names the two, and the difference. ``choose`` gets a clicked cell, ``tokens`` the tokens
    clicked among A's and B's lines. Below are the code, ``made_by`` and more, and a ``hint`` on
    what a click does.
    """
    of_both, of_change = shown.a.label(alt[0]), shown.change.label(alt[1])
    drawn = [of_both]
    answers: dict[str, Any] = {"choose": choose, "drag": drag}
    pair, third = st.columns([25, 16] if both.of_one_text else [13, 8])  # equally large matrices
    with pair:
        if both.of_one_text:
            picture = _matrices(both.a, of_both, shown.a, shown.b)
            lined = [_as_lines(shown.a, tokens[0]), _as_lines(shown.b, tokens[1])]
            lines.draw(both.a.view, picture, lined, as_lines=as_lines, key="both_sides", **answers)
        else:
            drawn = _draw_separately(both, shown, tokens, as_lines=as_lines, **answers)
    with third:
        picture = _matrices(both.a, of_change, shown.change)
        output.picture(picture, key="difference", **answers)
    with st.container(horizontal=True, vertical_alignment="center"):
        output.code(*made_by, difference_of_matched, of=[*drawn, of_change])
        prose.caption(hint, width="content")


def _matrices(side: Side, alt: str, *panels: Panel, bar: bool = True) -> Heatmaps:
    """Return matrices of one text on one scale, with the row of the chosen token framed."""
    return Heatmaps(
        alt,
        panels,
        scale="signed" if panels[0].name == "difference" else "unit",
        n_columns=len(panels),
        height=HEIGHT,
        row=side.token,
        bar=panels[0].quantity if bar else "",
    )


def _as_lines(panel: Panel, choose: Choose) -> Lined:
    """Return one side as lines, with the chosen token highlighted."""
    return Lined(panel.label(panel.title), [panel.title], choose)


def _draw_separately(
    both: Sides, shown: Weights, tokens: tuple[Choose, Choose], **answers: Any
) -> list[str]:
    """Draw a picture for each side, for texts with different tokens; return their names."""
    panels = shown.a, shown.b
    sides = zip(both.both, panels, tokens, st.columns(2), strict=True)
    for side, panel, choose, column in sides:
        with column:
            lines.draw(
                side.view,
                _matrices(side, panel.title, panel, bar=False),
                [_as_lines(panel, choose)],
                key=f"weights_{panel.name}",
                **answers,
            )
    return [panel.title for panel in panels]


def compare_predictions(both: Sides, names: tuple[str, str], titles: Sequence[str]) -> pd.DataFrame:
    """Draw both predictions after the token, under their ``titles``, and the divergence.

    Returns a table of the ``tables.largest_changes`` from the first to the second, with columns by
    ``names``, of the tokens in both models' vocabularies.
    """
    page.stop_without_numbers(*both.traces)
    logits = [side.trace.logits_at(side.token) for side in both.both]
    vocabulary, (first, second) = both.vocabulary(), names
    predicted = [sampling_distribution(row) for row in logits]
    a, b = (p[: min(map(len, logits))] for p in predicted)
    with st.container(key="coming", horizontal=True, gap="medium", wrap=False):
        with (numbers := st.container(key="in_numbers", width=235, gap="xsmall")):
            for title, p in zip(titles, predicted, strict=True):
                best = int(p.argmax())
                st.metric(title, f"“{bidi_isolate(vocabulary[best])}” {percent(p[best], 2)}")
            if len(logits[0]) == len(logits[1]):
                st.metric(
                    "KL divergence",
                    f"{divergence(logits[1], logits[0]):.4f} bits",
                    help=prose.tip(sentence("two_runs.divergence", first=first, second=second)),
                )
        best_of_two = tables.most_probable_of_two(a, b, _BEST)
        table = tables.table_of_two(best_of_two, a, b, vocabulary, names)
        alt = f"The most probable next tokens, {first} and {second}"
        _probabilities(table, "best", alt)
        output.code(sampling_distribution, divergence, of=[alt], slot=numbers)
    return tables.table_of_two(tables.largest_changes(b - a, 6), a, b, vocabulary, names)


def draw_changes(
    table: pd.DataFrame,
    *,
    key: str,
    alt: str,
    name: str,
    order: str,
    made_by: Sequence[Code] = (),
) -> None:
    """Draw a table of ``tables.largest_changes`` as bars and numbers; ``order`` says its order."""
    bars, numbers = st.columns([5, 4], gap="medium")
    with bars:
        _probabilities(table, key, alt, (*made_by, sampling_distribution, divergence))
    prose.caption(order, slot=numbers)
    output.table(
        table,
        name,
        slot=numbers,
        formats={column: "%+.3f" if "points" in column else "%.3f" for column in table.columns[2:]},
        column_config={"id": None},
        height=460,
    )


def _probabilities(table: pd.DataFrame, key: str, alt: str, made_by: Sequence[Code] = ()) -> None:
    """Draw both probabilities of the tokens in a table, in pairs of bars."""
    cases = {column.removesuffix(" (%)"): table[column] for column in table.columns[2:4]}
    picture = probability_bars(alt, table["token"], cases)
    output.picture(picture, key=key, made_by=made_by)


def draw_rows(both: Sides, drawn: Weights) -> None:
    """Draw the chosen token's row of both sides as bars."""
    a, b = both.both
    name_a, name_b = (
        f"{side.name}, from {side.token} {side.view.labels[side.token]}" for side in (a, b)
    )
    output.picture(
        aligned_bars(
            f"Attention weights of the token on both sides ({drawn.a.title}; {drawn.b.title})",
            align(a.trace.token_ids, b.trace.token_ids),
            (a.view.labels, b.view.labels),
            (drawn.a.values[a.token], drawn.b.values[b.token]),
            (name_a, name_b),
        ),
        key="bars",
        made_by=(align, aligned_bars),
    )


def paths(
    pairs: Mapping[str, Sequence[Trace]], at: tuple[int, int]
) -> dict[str, tuple[Path, Path]]:
    """Return the paths of the token ``at`` one position per run: its stream's, and its additions'.

    Pairs of models of different sizes are left out: their vectors can't be compared.
    """
    return {
        name: (
            path(a, b, at, stream_sites(a.config.n_layer)),
            path(a, b, at, addition_sites(a.config.n_layer)),
        )
        for name, (a, b) in pairs.items()
        if (a.config.n_layer, a.config.n_embd) == (b.config.n_layer, b.config.n_embd)
    }


def draw_paths(both: Sides, drawn: dict[str, tuple[Path, Path]], note: str = "") -> None:
    """Draw the paths as curves, beside the tokens nearest to each side's stream."""
    sites = stream_sites(both.a.trace.config.n_layer)
    prose.markdown("#### The path of the token's vector through the layers")
    curve, numbers = st.columns([4, 5], gap="large")
    with curve:
        prose.caption(
            "**Cosine similarity**: 1 where both vectors point the same way, 0 where they are at "
            "right angles. Solid line: the residual stream. Dotted: what each attention and MLP "
            f"adds to it.{note}"
        )
        output.picture(
            path_lines("Cosine similarity of the token's two vectors after every step", drawn),
            key="path",
            made_by=(path, nearest),
        )
    with numbers:
        prose.caption(
            "After every step, the three tokens whose rows of the unembedding are **nearest** to "
            "the stream, by cosine similarity."
        )
        tokens = {side.name: nearest(side.trace, side.token, sites, top=3) for side in both.both}
        table = nearest_table(tokens, sites, both.vocabulary())
        output.table(table, "Nearest tokens to the stream", hide_index=None, tallest=440)


def pick_whole() -> bool:
    """Pick whether the mean of a layer's heads replaces the chosen one."""
    return st.toggle(
        "Mean of all heads",
        help=prose.tip("Averages over all heads of the layer instead of showing one."),
        **address.switch(parameters.WHOLE),
    )

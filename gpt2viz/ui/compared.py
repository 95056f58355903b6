"""What Compare shows of both sides: paths, every head at a glance, and what comes next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import streamlit as st

from gpt2viz import divergence, sampling_distribution, tables
from gpt2viz.comparison import Path, addition_places, largest_differences, path, stream_places
from gpt2viz.figures.panel import Axis
from gpt2viz.heads import Scores
from gpt2viz.ui import address, cache, find, frame, say, two_predictions, two_texts
from gpt2viz.ui.clicks import Cell, choose_map_head
from gpt2viz.ui.compare import Sides
from gpt2viz.ui.lines import on_every_page
from gpt2viz.ui.text import literal

#: Said below the path where there is more to know.
PATH_NOTE = {
    "model": " Two checkpoints of one training share their directions; models that were trained "
    "apart don't, so that their similarity means nothing.",
}
#: Above and below the map of heads: where the sides differ by more than a head, and where not.
MAP_TITLE = ("Which heads differ most?", "Which heads are like A?")
MAP_CAPTION = (
    "The largest |B − A| of any weight, in every head that both have. Click one to see it above.",
    "The cosine similarity of each head's weights with those of A's head, over all rows but the "
    "first. Click one to see it as B.",
)


Choose = Callable[[int], None]


def choose_token(both: Sides, what: str) -> tuple[Choose, Choose]:
    """What to do where a token of A, or of B, is chosen: it is on both sides, with its partner."""
    if what == "text":
        return on_every_page, partial(two_texts.choose_from_second, both.matches, both.a.token)
    return on_every_page, on_every_page


def choose_row(rows: Axis, choose: Choose) -> Callable[[Cell], None]:
    """A click on a row chooses its token."""
    return lambda cell: choose(rows.position(cell.row))


def choose_head(what: str) -> Callable[[Cell], None]:
    """A click in the map of heads shows that head on both sides, or as B."""
    choose = choose_map_head("2" if what == "head" else "")

    def clicked(cell: Cell) -> None:
        choose(cell)
        address.put("whole", False)

    return clicked


def every_head(both: Sides, what: str, place: tuple[int, int | None]) -> tuple[str, Scores]:
    """What the map of heads shows, and its numbers (n_layer, n_head)."""
    if what == "head":
        layer, head = place
        return "cosine similarity", find.alike(both.a.view, layer, head)
    return "largest difference", apart(both)


def paths(both: Sides, what: str) -> dict[str, tuple[Path, Path]]:
    """The chosen token's path through the layers, by what was run: that of the stream, and that
    of what the parts add. None where both sides are one run, or models of different sizes."""
    a, b = both.a.trace, both.b.trace
    at = both.a.token, both.b.token
    if what == "text":
        return two_texts.paths(both.a.view, both.b.view, at)
    n_layer = a.config.n_layer
    if what == "head" or (n_layer, a.config.n_embd) != (b.config.n_layer, b.config.n_embd):
        return {}
    return {
        "A and B": (
            path(a, b, at, stream_places(n_layer)),
            path(a, b, at, addition_places(n_layer)),
        )
    }


def apart(both: Sides) -> Scores:
    """How far apart the weights of A and B lie at most, in every head: (n_layer, n_head)."""
    runs = [side.trace for side in (both.a, both.b)]
    a, b = ((run.model_name, run.token_ids, run.causal, run.edits) for run in runs)
    return _apart(a, b, tuple(both.matches.items()), both)


@st.cache_data(max_entries=32, show_spinner="Comparing every head …")
def _apart(a: object, b: object, matches: tuple[tuple[int, int], ...], _both: Sides) -> Scores:
    return largest_differences(_both.a.trace, _both.b.trace, matches)


def vocabulary(both: Sides) -> tuple[str, ...]:
    """Every token that either model has a number for; one may have more than its text needs."""
    named = (cache.vocabulary(side.view.model.name) for side in (both.a, both.b))
    return max(named, key=len)


def next_tokens(both: Sides) -> None:
    """What comes after the token on both sides, and how far the two predictions are apart."""
    sides = (both.a, both.b)
    frame.stop_without_numbers(both.a.trace, both.b.trace)
    logits = [side.trace.logits_at(side.token) for side in sides]
    predicted = [sampling_distribution(row) for row in logits]
    names = vocabulary(both)
    say.markdown("#### What comes next?")
    places = st.columns(3)
    for column, letter, side, p in zip(places[:2], "AB", sides, predicted, strict=True):
        after = f"{side.token} “{literal(side.view.labels[side.token])}”"
        two_predictions.most_probable(column, f"{letter}: most probable after {after}", p, names)
    if len(logits[0]) == len(logits[1]):
        places[2].metric(
            "KL divergence of B from A",
            f"{divergence(logits[1], logits[0]):.4f} bits",
            help="How many more bits A's next token costs on average when B is believed: "
            "Σ p log₂(p / q), p of A, q of B. 0 where both predict the same.",
        )
    shared = min(map(len, logits))
    one, other = (p[:shared] for p in predicted)
    table = tables.largest_changes(one, other, names, top=6, names=("A", "B"))
    if table.empty:
        say.caption("Both predict the same, to the last digit.")
        return
    colors = both.a.view.colors
    two_predictions.draw(
        table,
        # A and B in the colours of the lower and upper end of B − A
        replace(colors, accent=colors.second, second=colors.accent),
        key="next",
        alt="Tokens whose probability differs most between A and B",
        name="Largest differences of next-token probabilities",
        order="Where B is above A most, then where it is below, over the whole vocabulary.",
        made_by=(sampling_distribution, divergence),
    )

"""Two of anything on one scale, with what differs between them."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz.analysis.comparison import Path, align
from gpt2viz.app import output, prose
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View, Window
from gpt2viz.app.views import causal_mask, measures, pick_sides, two_outcomes, two_runs, two_texts
from gpt2viz.app.views import edits as editing
from gpt2viz.app.views.two_runs import Place, Sides, Weights
from gpt2viz.pictures.compare import aligned_bars
from gpt2viz.pictures.from_trace import difference_in_words


def draw(view: View, what: str, choices: DeltaGenerator) -> None:
    """Draw the mode ``what``, a key of the page's modes, with what is picked among ``choices``."""
    pictures = st.container(key="sides", gap="xsmall")  # they stand above what they come of
    both = pick_sides.sides(view, what, choices)
    for letter, side in zip("AB", both.both, strict=True):
        if side.trace is not view.trace:
            output.run(letter, side.trace)
    parts = pick_sides.parts(both, what)
    with choices:
        *places, as_lines = pick_sides.places(both, what, parts)
    with pictures:
        drawn = _side_by_side(both, what, places, as_lines, parts)
    first, heads = st.columns([8, 5], gap="medium")
    with heads, st.container(gap="xsmall"):
        two_outcomes.draw_map(both, what, places)
    with first, st.container(gap="xsmall"):
        if what == "head":
            _rows(both, drawn)
        else:
            changed = two_outcomes.next_tokens(both)
    paths = two_outcomes.paths(both, what)
    _words(both, what, places, paths)
    if what == "mask":
        causal_mask.draw(both.a.view, parts[0])
    if what != "head":
        _rows(both, drawn)
    if paths:
        names = [f"{letter}: {side.name}" for letter, side in zip("AB", both.both, strict=True)]
        two_outcomes.draw_paths(both, paths, what, names)
    if what != "head":
        two_outcomes.draw_changes(both, changed)


def _side_by_side(
    both: Sides, what: str, places: Sequence[Place], as_lines: bool, parts: tuple[Window, Window]
) -> Weights:
    """The weights of both sides and their difference, which answer a click alike; all of them."""
    a, b = (
        f"{letter}: {side.title(place)}"
        for letter, side, place in zip("AB", both.both, places, strict=True)
    )
    found = two_runs.weights(both, places, (a, b), "B − A")
    shown, tokens = found.fit(parts), two_outcomes.choose_token(both, what)
    traces = zip(both.traces, places, strict=True)
    two_runs.draw(
        both,
        shown,
        (f"Weights of both sides ({a}; {b})", f"Weights of B minus weights of A ({b}; {a})"),
        as_lines=as_lines,
        made_by=[Line(trace, "weights", layer) for trace, (layer, _head) in traces],
        tokens=tokens,
        choose=shown.choose_row(tokens),
        drag=None if what == "text" else parts[0].drag(shown.a),  # two texts aren't one window
        hint="Click a row, or a query among lines, to choose its token on both sides."
        + (" Only tokens with a partner have a difference." if what == "text" else ""),
    )
    return found


def _words(
    both: Sides, what: str, places: Sequence[Place], paths: dict[str, tuple[Path, Path]]
) -> None:
    """What there is to know about the pictures above."""
    if what == "text":
        two_texts.verdict(both.a.view, both.b.view, (both.a.token, both.b.token), paths)
    prose.caption(
        "Attention weights, A and B on one scale from 0 to 1. "
        + difference_in_words("B − A", "A", "B")
        + f" {pick_sides.NOTES.get(what, '')}"
    )
    editing.note_means(both.a.view, both.b.trace.edits)
    measures.proof(both.a.view, sorted({layer for layer, _head in places}), "the run of A")


def _rows(both: Sides, drawn: Weights) -> None:
    """The chosen token's row of both sides as bars."""
    a, b = both.both
    one, other = (
        f"{letter}: {side.name}, from {side.token} {side.view.labels[side.token]}"
        for letter, side in zip("AB", both.both, strict=True)
    )
    titles = f"{drawn.a.title}; {drawn.b.title}"
    output.picture(
        aligned_bars(
            f"Attention weights of the token on both sides ({titles})",
            align(a.trace.token_ids, b.trace.token_ids),
            (a.view.labels, b.view.labels),
            (drawn.a.values[a.token], drawn.b.values[b.token]),
            (one, other),
        ),
        a.view.colors,
        key="bars",
        made_by=(align, aligned_bars),
    )

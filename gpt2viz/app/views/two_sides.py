"""Two of anything on one scale, with what differs between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from gpt2viz.analysis.comparison import align
from gpt2viz.app import output, prose
from gpt2viz.app.clicks import Dragged
from gpt2viz.app.components import lines
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.views import causal_mask, measures, pick_sides, two_outcomes, two_runs, two_texts
from gpt2viz.app.views.two_outcomes import Choose
from gpt2viz.app.views.two_runs import HEIGHT, Place, Side, Sides
from gpt2viz.app.views.zoom import Window
from gpt2viz.pictures.compare import aligned_bars
from gpt2viz.pictures.from_trace import difference_in_words
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Heatmaps


@dataclass(frozen=True)
class _Drawn:
    """One side's weights: where they are from, the whole matrix, and the part that is shown."""

    letter: str
    side: Side
    place: Place
    title: str
    whole: Panel
    panel: Panel


def draw(view: View, what: str) -> None:
    """Draw the mode ``what``, a key of the page's modes."""
    both = pick_sides.sides(view, what)
    parts = pick_sides.parts(both, what)
    for letter, side in zip("AB", both.both, strict=True):
        if side.trace is not view.trace:
            output.run(letter, side.trace)
    paths = two_outcomes.paths(both, what)
    if what == "text":
        two_texts.verdict(view, both.b.view, (both.a.token, both.b.token), paths)
    places = _side_by_side(view, both, what, parts)
    if what == "mask":
        causal_mask.draw(both.a.view, parts[0])
    two_outcomes.draw_map(both, what, places)
    if paths:
        names = [f"{letter}: {side.name}" for letter, side in zip("AB", both.both, strict=True)]
        two_outcomes.draw_paths(both, paths, what, names)
    if what != "head":
        two_outcomes.next_tokens(both)


def _side_by_side(
    view: View, both: Sides, what: str, parts: tuple[Window, Window]
) -> tuple[Place, Place]:
    """The weights of both sides, their difference and the chosen token's row; where they are
    from."""
    *places, as_lines = pick_sides.places(both, what, parts)
    drawn = []
    for letter, side, place, part in zip("AB", both.both, places, parts, strict=True):
        title = pick_sides.title(side, letter, place)
        whole = side.weights(place, title)
        drawn.append(_Drawn(letter.lower(), side, place, title, whole, part.fit(whole)))
    a, b = drawn
    change = parts[0].fit(both.difference(a.whole, b.whole, "B − A"))
    choose = two_outcomes.choose_token(both, what)
    drag = None if what == "text" else parts[0].drag(a.panel)  # two sentences aren't one window
    *pictures, third = st.columns([4, 4, 5])
    for one, picture, chosen in zip(drawn, pictures, choose, strict=True):
        with picture, st.container(key=f"side_{one.letter}"):
            _one_side(one, as_lines, chosen, drag)
    with third, st.container(key="side_change"):
        alt = change.named(f"Weights of B minus weights of A ({b.title}; {a.title})")
        row = two_outcomes.choose_row(change.rows, choose[0])
        two_runs.draw_difference(
            view, change, alt, key="difference", row=both.a.token, choose=row, drag=drag
        )
    prose.caption(
        "Attention weights, A and B on one scale from 0 to 1. "
        + difference_in_words("B − A", "A", "B")
        + (" Only tokens with a partner are shown." if what == "text" else "")
        + f" Click a {'query' if as_lines else 'row'} to choose its token on both sides."
    )
    measures.proof(
        both.a.view,
        sorted({a.place[0], b.place[0]}),
        "the run of A",
    )
    _rows(view, drawn)
    return a.place, b.place


def _one_side(
    one: _Drawn, as_lines: bool, choose: Choose, drag: Callable[[Dragged], None] | None
) -> None:
    """The weights of one side as a matrix or lines."""
    made_by, alt = (Line(one.side.trace, "weights", one.place[0]),), one.panel.named(one.title)
    if as_lines:
        prose.markdown(f":small[{literal(one.title)}]")
        lines.draw(
            replace(one.side.view, query=one.side.token),
            [one.panel],
            [one.title],
            key=f"lines_{one.letter}",
            alt=alt,
            made_by=made_by,
            choose=choose,
        )
    else:
        output.picture(
            Heatmaps(alt, [one.panel], height=HEIGHT, row=one.side.token),
            one.side.view.colors,
            key=f"weights_{one.letter}",
            made_by=made_by,
            choose=two_outcomes.choose_row(one.panel.rows, choose),
            drag=drag,
        )


def _rows(view: View, drawn: Sequence[_Drawn]) -> None:
    """The chosen token's row of both sides as bars."""
    (a, b), (one, other) = (drawn[0].side, drawn[1].side), map(_row_of, drawn)
    output.picture(
        aligned_bars(
            f"Attention weights of the token on both sides ({drawn[0].title}; {drawn[1].title})",
            align(a.trace.token_ids, b.trace.token_ids),
            (a.view.labels, b.view.labels),
            (drawn[0].whole.values[a.token], drawn[1].whole.values[b.token]),
            (one, other),
        ),
        view.colors,
        key="bars",
        made_by=(align, aligned_bars),
    )


def _row_of(one: _Drawn) -> str:
    """What the bars of one side are called."""
    side = one.side
    token = side.view.labels[side.token]
    return f"{one.letter.upper()}: {side.name}, from {side.token} {token}"

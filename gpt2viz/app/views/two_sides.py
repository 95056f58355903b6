"""Two of anything on one scale, with what differs between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz.analysis.comparison import Path, align
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
from gpt2viz.pictures.compare import aligned_bars, difference_of_matched
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

    @property
    def name(self) -> str:
        """What its picture is called."""
        return self.panel.named(self.title)


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
    drawn = _drawn(both, places, parts)
    with pictures:
        _side_by_side(view, both, what, drawn, as_lines, parts[0])
    first, heads = st.columns([8, 5], gap="medium")
    with heads, st.container(gap="xsmall"):
        two_outcomes.draw_map(both, what, places)
    with first, st.container(gap="xsmall"):
        if what == "head":
            _rows(view, drawn)
        else:
            changed = two_outcomes.next_tokens(both)
    paths = two_outcomes.paths(both, what)
    _words(both, what, drawn, paths)
    if what == "mask":
        causal_mask.draw(both.a.view, parts[0])
    if what != "head":
        _rows(view, drawn)
    if paths:
        names = [f"{letter}: {side.name}" for letter, side in zip("AB", both.both, strict=True)]
        two_outcomes.draw_paths(both, paths, what, names)
    if what != "head":
        two_outcomes.draw_changes(both, changed)


def _drawn(both: Sides, places: Sequence[Place], parts: tuple[Window, Window]) -> list[_Drawn]:
    """The weights of both sides."""
    drawn = []
    for letter, side, place, part in zip("AB", both.both, places, parts, strict=True):
        title = pick_sides.title(side, letter, place)
        whole = side.weights(place, title)
        drawn.append(_Drawn(letter.lower(), side, place, title, whole, part.fit(whole)))
    return drawn


def _side_by_side(
    view: View, both: Sides, what: str, drawn: Sequence[_Drawn], as_lines: bool, part: Window
) -> None:
    """The weights of both sides and their difference, which answer a click alike."""
    a, b = drawn
    change = part.fit(both.difference(a.whole, b.whole, "B − A"))
    choose = two_outcomes.choose_token(both, what)
    drag = None if what == "text" else part.drag(a.panel)  # two sentences aren't one window
    *pictures, third = st.columns([4, 4, 5])
    for one, picture, chosen in zip(drawn, pictures, choose, strict=True):
        with picture, st.container(key=f"side_{one.letter}"):
            _one_side(one, as_lines, chosen, drag)
    alt = change.named(f"Weights of B minus weights of A ({b.title}; {a.title})")
    with third, st.container(key="side_change"):
        row = two_outcomes.choose_row(change.rows, choose[0])
        two_runs.draw_difference(
            view, change, alt, key="difference", row=both.a.token, choose=row, drag=drag
        )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        made_by = [Line(one.side.trace, "weights", one.place[0]) for one in drawn]
        output.code(*made_by, difference_of_matched, of=[*(one.name for one in drawn), alt])
        prose.caption(
            f"Click a {'query' if as_lines else 'row'} to choose its token on both sides."
            + (" Only tokens with a partner have a difference." if what == "text" else ""),
            width="content",
        )


def _words(
    both: Sides, what: str, drawn: Sequence[_Drawn], paths: dict[str, tuple[Path, Path]]
) -> None:
    """What there is to know about the pictures above."""
    if what == "text":
        two_texts.verdict(both.a.view, both.b.view, (both.a.token, both.b.token), paths)
    prose.caption(
        "Attention weights, A and B on one scale from 0 to 1. "
        + difference_in_words("B − A", "A", "B")
        + f" {pick_sides.NOTES.get(what, '')}"
    )
    measures.proof(both.a.view, sorted({one.place[0] for one in drawn}), "the run of A")


def _one_side(
    one: _Drawn, as_lines: bool, choose: Choose, drag: Callable[[Dragged], None] | None
) -> None:
    """The weights of one side as a matrix or lines."""
    if as_lines:
        prose.markdown(f":small[{literal(one.title)}]")
        lines.draw(
            replace(one.side.view, query=one.side.token),
            [one.panel],
            [one.title],
            key=f"lines_{one.letter}",
            alt=one.name,
            choose=choose,
        )
    else:
        output.picture(
            Heatmaps(one.name, [one.panel], height=HEIGHT, row=one.side.token),
            one.side.view.colors,
            key=f"weights_{one.letter}",
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

"""How heads are wired: a graph of the edges above chance, and the one that is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, get_args

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import PatchedPath
from gpt2viz.analysis.composition import Composition, Edge, Measure, composition
from gpt2viz.analysis.folding import Into
from gpt2viz.analysis.wiring import (
    CHANCE,
    Carried,
    EdgeName,
    Wired,
    copying_edge,
    parse_edge,
    wired,
)
from gpt2viz.app import address, jobs, output, parameters, prose, run_cache
from gpt2viz.app.clicks import Cell
from gpt2viz.app.view import View
from gpt2viz.app.views import one_edge
from gpt2viz.labels import counted
from gpt2viz.pictures.wiring import Wire, Wiring, wire_table

#: What is picked, by its value in the address.
_MEASURES: dict[Measure, str] = {"kernel": "Projection Kernel", "ratio": "Ratio of norms"}
_INTO = {"all": "All", "q": "Into Q", "k": "Into K", "v": "Into V"}
_MOST = (10, 20, 50, 100)
#: Pixels of the table: it scrolls.
_TABLE = 178
#: What is measured, beside chance.
_NOUN: dict[Measure, str] = {"kernel": "Projection Kernel", "ratio": "squared ratio of norms"}


def draw(view: View, choices: DeltaGenerator) -> None:
    """The model as a graph of its heads, and all that is known of the chosen edge."""
    if view.model.config.n_layer == 1:
        st.info(
            "There is nothing to wire: this model has one layer, so no head reads what another "
            "one wrote.",
            icon=":material/info:",
        )
        return
    with choices:
        wanted = _choices()
    reading = jobs.read_weights(view.model)
    jobs.weights_bar(reading)
    if (found := reading.wiring) is None:
        return
    drawn = wired(found, *wanted)
    if not drawn.pairs:
        st.info(
            "There is nothing to wire by this measure: each head reads or writes all that there "
            "is, or nothing, so every two overlap as chance has it.",
            icon=":material/info:",
        )
        return
    copying, edges = _copying(view, found), drawn.edges
    chosen = _chosen(view, found, drawn, wanted, copying)
    if chosen is not None and chosen[:3] not in [edge[:3] for edge in edges]:
        edges = (*edges, chosen)
    told = [one_edge.carries(view, edge) for edge in edges]
    left, right = st.columns([7, 6], gap="medium")
    patched = None
    with right:
        _table(edges, wanted.by, told)
        if chosen is not None:
            patched = one_edge.draw(view, found, chosen, wanted.by, drawn.limit)
    with left:
        _graph(view, edges, told, chosen, wanted.by, patched)
        if copying is not None:
            _habits(copying, wanted.by, drawn.limit)
        _note(drawn, wanted)


class Wanted(NamedTuple):
    """The measure, what edges go into, and how many there are at most."""

    by: Measure
    into: Sequence[Into]
    most: int


def _choices() -> Wanted:
    """Pick what is drawn."""
    by: Measure = st.segmented_control(
        "Measured by",
        list(_MEASURES),
        format_func=_MEASURES.__getitem__,
        required=True,
        label_visibility="collapsed",
        help=prose.tip(
            "How much of what one head writes another reads. The Projection Kernel counts the "
            "directions that both share (Yamagiwa et al. 2026), the ratio how large the product "
            "of their matrices is beside both (Elhage et al. 2021)."
        ),
        **address.choice(parameters.MEASURE, list(_MEASURES)),
    )
    into: str = st.segmented_control(
        "Edges",
        list(_INTO),
        format_func=_INTO.__getitem__,
        required=True,
        label_visibility="collapsed",
        **address.choice(parameters.INTO, list(_INTO)),
    )
    most: int = st.segmented_control(
        "At most",
        _MOST,
        format_func=lambda n: f"{n}" if n != _MOST[0] else f"At most {n}",
        required=True,
        label_visibility="collapsed",
        **address.choice(parameters.MOST, _MOST),
    )
    return Wanted(by, [way for way in get_args(Into) if into in ("all", way)], most)


class Copying(NamedTuple):
    """The edge that copying is made of, how much its sender looks ``back`` one token, and how much
    its receiver ``copies``."""

    edge: Edge
    back: float
    copies: float


def _copying(view: View, found: Composition) -> Copying | None:
    """The edge that copying is made of, by the scores on random tokens said twice."""
    probe = run_cache.probe(replace(view.trace.key, causal=True))
    if probe is None:
        return None
    scores = run_cache.head_scores(probe.key)
    edge = copying_edge(found, scores)
    if edge is None:
        return None
    back, copies = scores["previous token"][edge.sender], scores["induction"][edge.receiver]
    return Copying(edge, float(back), float(copies))


def _chosen(
    view: View, found: Composition, drawn: Wired, wanted: Wanted, copying: Copying | None
) -> Edge | None:
    """The chosen edge: at first the one that copying is made of, else the strongest of all."""
    config = view.model.config

    def parse(raw: str) -> tuple[EdgeName, ...]:
        name = parse_edge(raw)
        (a, b), (c, d), _ = name
        if not (a < c < config.n_layer and max(b, d) < config.n_head):
            raise ValueError(raw)
        return (name,)

    expected = "a head, one of a later layer, and q, k or v, such as 0.0:1.0:k"
    if names := address.several_values(parameters.EDGE, parse, expected):
        edge = found.edge(*names[0])
        if not np.isnan(edge.z(wanted.by)):
            return edge
    above = copying is not None and copying.edge.z(wanted.by) > drawn.limit
    if copying is not None and above and copying.edge.into in wanted.into:
        return copying.edge
    return drawn.edges[0] if drawn.edges else None


def _choose(cell: Cell) -> None:
    """A click chooses an edge, whose name travels with it: "0.0 → 1.4.k"."""
    heads, _, into = cell.panel.rpartition(".")
    address.put(parameters.EDGE, (parse_edge(f"{heads.replace(' → ', ':')}:{into}"),))


def _choose_row(names: Sequence[EdgeName]) -> Callable[[], None]:
    """A row of the table that is ticked chooses its edge."""

    def choose() -> None:
        for row in st.session_state["edges"]["selection"]["rows"]:
            address.put(parameters.EDGE, (names[row],))

    return choose


def _said(view: View, edge: Edge, by: Measure, told: Carried, patched: str) -> str:
    """The three kinds of evidence for an edge, for the pointer."""
    at = " → ".join(f"{n} {view.labels[n]}" for n in (told.query, told.key))
    z, share = one_edge.number(edge.z(by)), one_edge.percent(told.share)
    return f"{edge}\nweights: z {z}\nthis sentence, {at}: {share}\npatched: {patched}"


def _graph(
    view: View,
    edges: Sequence[Edge],
    told: Sequence[Carried],
    chosen: Edge | None,
    by: Measure,
    patched: PatchedPath | None,
) -> None:
    """The picture; a click on an edge's letter chooses it."""
    config, wires = view.model.config, []
    for edge, carries in zip(edges, told, strict=True):
        path = "choose it to patch its path"
        if patched is not None and chosen is not None and edge[:3] == chosen[:3]:
            path = one_edge.percent(patched.restored)
        wires.append(Wire(edge, edge.z(by), _said(view, edge, by, carries, path)))
    what = f"How the heads of {view.model.name} are wired, by the {_MEASURES[by]}"
    output.picture(
        Wiring(what, config.n_layer, config.n_head, wires, chosen),
        view.colors,
        key="wiring",
        made_by=(composition, wired),
        choose=_choose,
    )


def _note(drawn: Wired, wanted: Wanted) -> None:
    """What is drawn, and from which z on."""
    kind = f" into {one_edge.PARTS[wanted.into[0]]}" if len(wanted.into) == 1 else ""
    shown = f"All {counted(drawn.above, f'edges{kind}')} above chance are drawn"
    if not drawn.above:
        shown = f"No edge{kind} is above chance"
    elif len(drawn.edges) < drawn.above:
        shown = f"The strongest {len(drawn.edges)} of {drawn.above:,} edges{kind} above chance"
    prose.caption(
        f"{shown}: **z > {drawn.limit:.1f}**, which not one of all {drawn.pairs:,} pairs exceeds "
        f"by chance in {100 * (1 - CHANCE):.0f} of 100 models (Bonferroni, if z is normal). z, an "
        f"edge's width, is how far the {_NOUN[wanted.by]} is above what random rotations of what "
        "is written give, in standard deviations. Click its letter, or a row of the table."
    )


def _table(edges: Sequence[Edge], by: Measure, told: Sequence[Carried]) -> None:
    """The edges as a list to choose from."""
    if not edges:
        return
    table = wire_table(edges, by, told)
    output.table(
        table,
        "Edges between heads above chance",
        key="edges",
        hide_index=True,
        height=min(_TABLE, 38 + 35 * len(table)),
        column_config={
            column: st.column_config.NumberColumn(format=form)
            for column, form in (("z", "%.1f"), (by, "%.3g"), ("carries here (%)", "%.0f"))
        },
        on_select=_choose_row([EdgeName(*edge[:3]) for edge in edges]),
        selection_mode="single-row",
    )


def _habits(copying: Copying, by: Measure, limit: float) -> None:
    """What the two heads of copying do, and whether one reads the other by their weights."""
    (a, b), (c, d) = copying.edge.sender, copying.edge.receiver
    z = copying.edge.z(by)
    reads = (
        f"By the weights, {c}.{d} reads in its keys what {a}.{b} writes"
        if z > limit
        else f"Yet by the weights {c}.{d} reads no more of what {a}.{b} writes than by chance"
    )
    prose.markdown(
        f"**The heads that copy.** On random tokens said twice, {c}.{d} looks most of all heads "
        f"above layer 0 at what followed the same token before ({copying.copies:.2f} of its "
        f"weight), and {a}.{b} most of all below it at the token before ({copying.back:.2f}). "
        f"{reads}: **z {one_edge.number(z)}**."
    )

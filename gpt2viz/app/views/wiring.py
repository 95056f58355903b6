"""The wiring of heads: a graph of the edges above chance, and the chosen edge in detail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, get_args

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import PatchedPath, patch_path, virtual_head
from gpt2viz.analysis.circuits import Into
from gpt2viz.analysis.composition import (
    CHANCE,
    Carried,
    Composition,
    Edge,
    EdgeName,
    Measure,
    Wired,
    composition,
    copying_edge,
    edge_share,
    parse_edge,
    top_edges,
)
from gpt2viz.analysis.text_pairs import telling_answers
from gpt2viz.app import address, jobs, output, parameters, prose, run_cache
from gpt2viz.app.clicks import Cell, choose_query
from gpt2viz.app.frame import controls
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.app.views import two_texts
from gpt2viz.labels import numeral, percent, pluralize, sentence
from gpt2viz.pictures.circuits import Wire, Wiring, joint_pattern, wire_table
from gpt2viz.pictures.patching import READS
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.pooling import GRID, pool_panel
from gpt2viz.run.key import RunKey

#: The choices, by their values in the address.
_MEASURES: dict[Measure, str] = {"kernel": "Projection Kernel", "ratio": "Ratio of norms"}
_INTO = {"all": "All", "q": "Into Q", "k": "Into K", "v": "Into V"}
_MOST = {10: "At most 10", 20: "20", 50: "50", 100: "100"}
#: The largest height of the table, which scrolls, in pixels.
_TABLE = 178
#: The quantity that is compared with chance.
_NOUN: dict[Measure, str] = {"kernel": "Projection Kernel", "ratio": "squared ratio of norms"}


def draw(view: View, choices: DeltaGenerator) -> None:
    """Draw the model as a graph of its heads, and the evidence for the chosen edge."""
    if view.model.config.n_layer == 1:
        st.info(
            "There is nothing to wire: this model has one layer, so no head reads what another "
            "one wrote.",
            icon=":material/info:",
        )
        return
    with choices:
        choice = _pick_choices()
    reading = jobs.read_weights(view.model)
    jobs.weights_bar(reading)
    if (every_edge := reading.result.wiring) is None:
        return
    drawn = top_edges(every_edge, *choice)
    if not drawn.pairs:
        st.info(
            "There is nothing to wire by this measure: each head reads or writes everything, or "
            "nothing, so any two overlap just by chance.",
            icon=":material/info:",
        )
        return
    copying, edges = _copying(view, every_edge), drawn.edges
    kind = f" into {READS[choice.into[0]]}" if len(choice.into) == 1 else ""
    chosen = _chosen_edge(view, every_edge, drawn, choice, copying)
    if chosen is not None and chosen[:3] not in [edge[:3] for edge in edges]:
        edges = (*edges, chosen)
    carries_here = [_contribution(view, edge) for edge in edges]
    lead = st.container()
    left, right = st.columns([7, 6], gap="medium")
    patched = None
    with right:
        if chosen is not None:
            words = _describe(view, chosen, choice.by, drawn.limit, copying)
            prose.markdown(f"**{words}**", slot=lead)
            with st.expander("Both as one virtual head"):
                _draw_virtual_head(view, chosen)
                _describe_copying(view, every_edge, chosen, choice.by)
            patched = _path(view, chosen)
        _table(edges, choice.by, carries_here)
        with st.expander("How this is measured"):
            if chosen is not None:
                _name_cell(view, chosen)
            if copying is not None:
                _habits(copying, choice.by, drawn.limit)
            _note(drawn, choice, kind)
    with left:
        prose.caption(sentence("wiring.choose" if edges else "wiring.none", kind=kind))
        _graph(view, edges, carries_here, chosen, choice.by, patched)


class Choices(NamedTuple):
    """A measure, the parts that edges go into, and the largest number of edges."""

    by: Measure
    into: Sequence[Into]
    most: int


def _pick_choices() -> Choices:
    """Pick the measure, the parts that edges go into, and their largest number."""
    by = controls.pick(
        "Measured by",
        parameters.MEASURE,
        _MEASURES,
        tip="How much of what one head writes another reads: by the directions that both share "
        "(Projection Kernel, Yamagiwa et al. 2026), or by how large the product of their "
        "matrices is beside both (ratio, Elhage et al. 2021).",
        hidden=True,
    )
    into = controls.pick("Edges", parameters.INTO, _INTO, hidden=True)
    most = controls.pick("At most", parameters.MOST, _MOST, hidden=True)
    return Choices(by, [way for way in get_args(Into) if into in ("all", way)], most)


class Copying(NamedTuple):
    """The edge of the induction circuit, its sender's previous-token score ``back``, and its
    receiver's induction score ``copies``."""

    edge: Edge
    back: float
    copies: float


def _copying(view: View, every_edge: Composition) -> Copying | None:
    """Return the induction circuit's edge, by the scores on repeated random tokens, or None."""
    probe = run_cache.probe(replace(view.trace.key, causal=True))
    if probe is None:
        return None
    scores = run_cache.score_run(probe.key).scores
    edge = copying_edge(every_edge, scores)
    if edge is None:
        return None
    back, copies = scores["previous token"][edge.sender], scores["induction"][edge.receiver]
    return Copying(edge, float(back), float(copies))


def _chosen_edge(
    view: View, every_edge: Composition, drawn: Wired, choice: Choices, copying: Copying | None
) -> Edge | None:
    """Return the chosen edge: by default the induction circuit's, or else the strongest drawn."""
    config = view.model.config

    def parse(raw: str) -> tuple[EdgeName, ...]:
        name = parse_edge(raw)
        (a, b), (c, d), _ = name
        if not (a < c < config.n_layer and max(b, d) < config.n_head):
            raise ValueError(raw)
        return (name,)

    expected = "a head, one of a later layer, and q, k or v, such as 0.0:1.0:k"
    if names := address.values(parameters.EDGE, parse, expected):
        edge = every_edge.edge(*names[0])
        if not np.isnan(edge.z(choice.by)):
            return edge
    above = copying is not None and copying.edge.z(choice.by) > drawn.limit
    if copying is not None and above and copying.edge.into in choice.into:
        return copying.edge
    return drawn.edges[0] if drawn.edges else None


def _choose(cell: Cell) -> None:
    """Choose the edge that a clicked cell names: "0.0:1.4:k"."""
    address.put(parameters.EDGE, (parse_edge(cell.panel),))


def _evidence(view: View, edge: Edge, by: Measure, carried: Carried, patched: str) -> str:
    """Return an edge's hover text: the three kinds of evidence for it."""
    at = " → ".join(f"{n} {view.labels[n]}" for n in (carried.query, carried.key))
    z, here = numeral(edge.z(by), ".1f"), _share_in_words(carried.share)
    return f"{edge}\nweights: z {z}\nthis sentence, {at}: {here}\npatched: {patched}"


def _graph(
    view: View,
    edges: Sequence[Edge],
    carries_here: Sequence[Carried],
    chosen: Edge | None,
    by: Measure,
    patched: PatchedPath | None,
) -> None:
    """Draw the graph; a click on an edge's letter chooses it."""
    config, wires = view.model.config, []
    for edge, carries in zip(edges, carries_here, strict=True):
        path = "choose it to patch its path"
        if patched is not None and chosen is not None and edge[:3] == chosen[:3]:
            path = _share_in_words(patched.restored)
        wires.append(Wire(edge, edge.z(by), _evidence(view, edge, by, carries, path)))
    what = f"How the heads of {view.model.name} are wired, by the {_MEASURES[by]}"
    output.picture(
        Wiring(what, config.n_layer, config.n_head, wires, chosen),
        key="wiring",
        made_by=(composition, top_edges),
        choose=_choose,
    )


def _note(drawn: Wired, choice: Choices, kind: str) -> None:
    """Explain how many edges are drawn, of a ``kind`` such as " into keys", and their least z."""
    name = "wiring.all"
    if not drawn.above:
        name = "wiring.none"
    elif len(drawn.edges) < drawn.above:
        name = "wiring.strongest"
    above = pluralize(drawn.above, f"edges{kind}")
    prose.markdown(sentence(name, kind=kind, above=above, drawn=len(drawn.edges)))
    level, limit, pairs = 100 * CHANCE, drawn.limit, pluralize(drawn.pairs, "pairs")
    prose.markdown(sentence("wiring.limit", limit=limit, level=level, pairs=pairs))
    prose.markdown(sentence("wiring.z", quantity=_NOUN[choice.by]))


def _table(edges: Sequence[Edge], by: Measure, carries_here: Sequence[Carried]) -> None:
    """Draw the edges, if there are any, as a table to choose from."""
    if not edges:
        return
    names = [EdgeName(*edge[:3]) for edge in edges]
    with st.expander("All that is drawn, as a table"):
        output.table(
            wire_table(edges, by, carries_here),
            "Edges between heads above chance",
            key="edges",
            tallest=_TABLE,
            formats={"z": "%.1f", by: "%.3g", "carries here (%)": "%.0f"},
            choose=lambda row: address.put(parameters.EDGE, (names[row],)),
        )


def _habits(copying: Copying, by: Measure, limit: float) -> None:
    """Describe the two heads of the induction circuit, and their edge by the weights."""
    (a, b), (c, d) = copying.edge.sender, copying.edge.receiver
    heads = {"reader": f"{c}.{d}", "writer": f"{a}.{b}"}
    copies, back, z = 100 * copying.copies, 100 * copying.back, copying.edge.z(by)
    habits = sentence("wiring.habits", **heads, copies=copies, back=back)
    which = "wiring.reads" if z > limit else "wiring.reads_not"
    wired = sentence(which, **heads, z=numeral(z, ".1f"))
    prose.markdown(f"{habits} {wired}")


def _describe(view: View, edge: Edge, by: Measure, limit: float, copying: Copying | None) -> str:
    """Describe the chosen edge and what it carries on the sentence, as Markdown."""
    (a, b), (c, d) = edge.sender, edge.receiver
    heads = {"writer": f"{a}.{b}", "reader": f"{c}.{d}", "part": READS[edge.into]}
    if not edge.z(by) > limit:
        lead = sentence("wiring.by_chance", **heads)
    elif copying is not None and edge[:3] == copying.edge[:3]:
        lead = sentence("wiring.copies", **heads)
    else:
        lead = sentence("wiring.feeds", **heads)
    here, name = _contribution(view, edge), "wiring.value" if edge.into == "v" else "wiring.score"
    if np.isnan(here.share):
        name = "wiring.nothing"
    query, key = (f"“{literal(view.labels[n])}”" for n in (here.query, here.key))
    share = _share_in_words(here.share)
    return sentence(name, lead=lead, share=share, query=query, key=key, **heads)


def _name_cell(view: View, edge: Edge) -> None:
    """Name the cell where an edge's share is measured."""
    here, (c, d) = _contribution(view, edge), edge.receiver
    query, key = (f"{n} {literal(view.labels[n])}" for n in (here.query, here.key))
    at_another_key = here.key not in (0, here.query)
    name = "wiring.measured" if at_another_key else "wiring.measured_at_first"
    prose.markdown(sentence(name, reader=f"{c}.{d}", query=query, key=key, weight=here.weight))


def _contribution(view: View, edge: Edge) -> Carried:
    """Return what an edge carries on the sentence, from the chosen token or the last."""
    return _cached_contribution(view.trace.key, edge, view.query)


@st.cache_data(max_entries=4000, show_spinner="Asking what each edge carries …")
def _cached_contribution(key: RunKey, edge: Edge, query: int | None) -> Carried:
    return edge_share(run_cache.load(key.model), run_cache.run(key), edge, query)


def _draw_virtual_head(view: View, edge: Edge) -> None:
    """Draw the attention pattern of both heads as one virtual head, on the sentence."""
    (a, b), (c, d) = edge.sender, edge.receiver
    virtual = virtual_head(view.model, edge.sender, edge.receiver)
    panel = joint_pattern(virtual, view.trace)
    output.picture(
        Heatmaps(
            f"Pattern of head {c}.{d} after head {a}.{b}, as one virtual head",
            [pool_panel(panel, GRID)],
            height=260,
            row=view.query,
            legend=False,
            numbers=0,
        ),
        key="joint",
        made_by=(virtual_head,),
        choose=choose_query(panel.rows),
    )


def _describe_copying(view: View, every_edge: Composition, edge: Edge, by: Measure) -> None:
    """Describe the copying score of both heads as one, and their edge into values."""
    z = every_edge.edge(edge.sender, edge.receiver, "v").z(by)
    score = virtual_head(view.model, edge.sender, edge.receiver).copying_score
    (a, b), (c, d) = edge.sender, edge.receiver
    words = [sentence("wiring.virtual", reader=f"{c}.{d}", writer=f"{a}.{b}")]
    if np.isnan(score):
        words.append(sentence("wiring.writes_nothing"))
    else:
        words.append(sentence("wiring.copying", score=numeral(score, "+.2f")))
    if not np.isnan(z):
        words.append(sentence("wiring.acts", z=numeral(z, ".1f")))
    prose.caption(" ".join(words))


def _path(view: View, edge: Edge) -> PatchedPath | None:
    """Patch the edge's path between the sentence and another, if switched on."""
    patch = st.toggle(
        "Patch this path",
        help=prose.tip(sentence("wiring.patch")),
        **address.switch(parameters.PATH),
    )
    if not patch:
        return None
    other = two_texts.ask_pair(view, st.container(gap="xsmall"))
    two_texts.show_changed_tokens(view, other)
    answer = telling_answers(view.trace, other.trace)
    key = view.trace.key
    texts = key.token_ids, other.trace.key.token_ids
    patched = _patch_path(key.model, texts, EdgeName(*edge[:3]), answer, key.causal)
    names = run_cache.vocabulary(view.model.name)
    words = effect_in_words(patched, *(names[n] for n in answer))
    prose.markdown(words + two_texts.group_note(view, edge.receiver, edge.into))
    return patched


def effect_in_words(patched: PatchedPath, right: str, wrong: str) -> str:
    """Describe the effect of the patched path on two answers, given their labels; Markdown."""
    logits = (patched.corrupted, patched.value, patched.clean)
    second, path, first = (numeral(logit, ".2f") for logit in logits)
    share, right, wrong = _share_in_words(patched.restored), literal(right), literal(wrong)
    return "\n\n".join(
        [
            sentence("wiring.recovers", share=share),
            sentence("wiring.logits", right=right, wrong=wrong, first=first, second=second),
            sentence("wiring.with_path", path=path),
        ]
    )


@st.cache_data(max_entries=256, show_spinner="Patching the path …")
def _patch_path(
    checkpoint: str, texts: tuple[tuple[int, ...], tuple[int, ...]], edge: EdgeName,
    answer: tuple[int, int], masked: bool,
) -> PatchedPath:  # fmt: skip
    """Patch the path of ``edge`` between two texts, (clean, corrupted) as ids."""
    model = run_cache.load(checkpoint)
    return patch_path(model, *texts, edge.sender, edge.receiver, edge.into, answer, causal=masked)


def _share_in_words(share: float) -> str:
    """Format a share, which is NaN where there is nothing to share."""
    return "nothing to share" if np.isnan(share) else percent(share)

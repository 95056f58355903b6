"""One edge between two heads: weights, this sentence, intervention, and both heads as one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import streamlit as st

from gpt2viz import PatchedPath, patch_path, virtual_head
from gpt2viz.analysis.composition import Composition, Edge, Measure
from gpt2viz.analysis.folding import Into
from gpt2viz.analysis.text_pairs import telling_answers
from gpt2viz.analysis.wiring import Carried, EdgeName, carried
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.clicks import choose_query
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.app.views import two_texts
from gpt2viz.labels import signed
from gpt2viz.pictures.measure import GRID
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.pooling import pool_panel
from gpt2viz.pictures.wiring import joint_pattern
from gpt2viz.run.key import RunKey

#: A part of the receiver, in words.
PARTS: dict[Into, str] = {"q": "queries", "k": "keys", "v": "values"}


def draw(
    view: View, found: Composition, edge: Edge, by: Measure, limit: float
) -> PatchedPath | None:
    """What is known of it: weights, this sentence, both heads as one; its path, if patched."""
    (a, b), (c, d) = edge.sender, edge.receiver
    sends, reads, part = f"{a}.{b}", f"{c}.{d}", PARTS[edge.into]
    above = edge.z(by) > limit
    size = f"they share {edge.kernel:.1f} of {view.model.config.head_dim} directions (Σ cos²)"
    if by == "ratio":
        size = f"a ratio of {edge.ratio:.2f}"
    told = carries(view, edge)
    prose.markdown(
        f"**{sends} → {reads}, into its {part}. By the weights**: {size}, "
        f"**z {number(edge.z(by))}**{'' if above else ', not above chance'}. "
        f"{_here(view, edge, told)}"
    )
    picture, said = st.columns([5, 6], gap="small")
    with picture:
        _as_one(view, edge)
    with said:
        _acts(view, found, edge, by)
        return _path(view, edge)


def carries(view: View, edge: Edge) -> Carried:
    """What an edge carries on the sentence, from the chosen token or the last."""
    return _carried(view.trace.key, edge, view.query)


@st.cache_data(max_entries=4000, show_spinner="Asking what each edge carries …")
def _carried(key: RunKey, edge: Edge, query: int | None) -> Carried:
    return carried(run_cache.load(key.model), run_cache.run(key), edge, query)


def _here(view: View, edge: Edge, told: Carried) -> str:
    """What the edge carries on the sentence, in words."""
    (a, b), (c, d) = edge.sender, edge.receiver
    at = " to ".join(f"{n} {literal(view.labels[n])}" for n in (told.query, told.key))
    hardest = " hardest beyond itself and the first," if told.key not in (0, told.query) else ""
    said = f"**On this sentence**, where {c}.{d} looks{hardest} from {at} ({told.weight:.2f}), "
    if np.isnan(told.share):
        return said + "there is nothing to share out."
    if edge.into == "v":
        what = "of the value that it takes there, along its own direction,"
    else:
        side = "query" if edge.into == "q" else "key"
        what = f"of what sets this cell apart in its row, through the {side},"
    return f"{said}**{percent(told.share)}** {what} is what {a}.{b} wrote."


def _as_one(view: View, edge: Edge) -> None:
    """The pattern of both heads as one, on the sentence."""
    (a, b), (c, d) = edge.sender, edge.receiver
    found = virtual_head(view.model, edge.sender, edge.receiver)
    panel = joint_pattern(found, view.trace, view.labels)
    output.picture(
        Heatmaps(
            f"Pattern of head {c}.{d} after head {a}.{b}, as one virtual head",
            [pool_panel(panel, GRID)],
            height=260,
            row=view.query,
            legend=False,
            numbers=0,
        ),
        view.colors,
        key="joint",
        made_by=(virtual_head,),
        choose=choose_query(panel.rows),
    )


def _acts(view: View, found: Composition, edge: Edge, by: Measure) -> None:
    """What both heads as one copy, and how much goes through them."""
    (a, b), (c, d) = edge.sender, edge.receiver
    z = found.edge(edge.sender, edge.receiver, "v").z(by)
    score = virtual_head(view.model, edge.sender, edge.receiver).copying_score
    copying = (
        "it writes nothing" if np.isnan(score) else f"copying score **{signed(score, '+.2f')}**"
    )
    prose.caption(
        f"**As one virtual head**, what {c}.{d} takes of what {a}.{b} took (Elhage et al. 2021): "
        f"{copying}."
        + ("" if np.isnan(z) else f" It acts through the edge into values: z {number(z)}.")
    )


def _path(view: View, edge: Edge) -> PatchedPath | None:
    """The edge's path patched between the sentence and another, if that is wanted."""
    wanted = st.toggle(
        "Patch this path",
        help=prose.tip(
            "Runs the model on a second sentence, and on that again with what the first head had "
            "written in the first sentence, for this edge alone: all else is held (Wang et al. "
            "2022). How far does that bring the answer back?"
        ),
        **address.switch(parameters.PATH),
    )
    if not wanted:
        return None
    other = two_texts.ask_pair(view, st.container(gap="xsmall"))
    answer = telling_answers(view.trace, other.trace)
    found = _patched(Patch(view.trace.key, other.trace.key, EdgeName(*edge[:3]), answer))
    names = run_cache.vocabulary(view.model.name)
    prose.markdown(said(found, *(names[n] for n in answer)))
    return found


def said(found: PatchedPath, right: str, wrong: str) -> str:
    """What the patched path brings back, between the labels of two answers; Markdown."""
    with_none, with_it, whole = map(_logit, (found.corrupted, found.value, found.clean))
    return (
        f"**By intervention**: the path brings **{percent(found.restored)}** of the answer back. "
        f"The logit of “{literal(right)}” minus that of “{literal(wrong)}” is {with_none} in the "
        f"second sentence, {with_it} with the path of the first, {whole} in the first."
    )


def _logit(value: float) -> str:
    return signed(value, ".2f")


class Patch(NamedTuple):
    """All that decides what a patch of a path comes to."""

    clean: RunKey
    corrupted: RunKey
    name: EdgeName
    answer: tuple[int, int]


@st.cache_data(max_entries=256, show_spinner="Patching the path …")
def _patched(patch: Patch) -> PatchedPath:
    clean, corrupted, name, answer = patch
    model = run_cache.load(clean.model)
    texts, heads = (clean.token_ids, corrupted.token_ids), (name.sender, name.receiver)
    return patch_path(model, *texts, *heads, name.into, answer, causal=clean.causal)


def percent(share: float) -> str:
    """A share as it is written."""
    return "nothing to share" if np.isnan(share) else f"{signed(100 * share, '.0f')} %"


def number(value: float) -> str:
    """A z or a logit as it is written."""
    return signed(value, ".1f")

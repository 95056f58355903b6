"""Depends on: which piece of one run, put into another, brings the answer along."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import cast

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import Edit, EditError, parse_edits, patch_estimate, patch_sweep
from gpt2viz.analysis.paired_runs import Direction, Metric
from gpt2viz.analysis.text_pairs import telling_answers
from gpt2viz.app import address, jobs, output, parameters, prose, run_cache
from gpt2viz.app.clicks import Cell
from gpt2viz.app.frame import page
from gpt2viz.app.jobs import Sweep
from gpt2viz.app.parameters import Text
from gpt2viz.app.view import View
from gpt2viz.app.views import fewest, head_paths, next_token, patched, sweep_offer, two_texts
from gpt2viz.app.views.patched import Runs
from gpt2viz.arrays import largest
from gpt2viz.pictures.patching import Shares, pair_labels, peak, share_maps, shares
from gpt2viz.run.edits import OF_HEADS, STREAMS, check

#: What is picked, by its value in the address.
DIRECTIONS: dict[Direction, str] = {"denoise": "First into second", "noise": "Second into first"}
METRICS: dict[Metric, str] = {
    "logit difference": "Logit difference",
    "probability": "Probability",
    "divergence": "KL divergence",
}
#: What is shown below the maps, beside the heads.
DETAILS = {"patch": "This patch", "paths": "Paths into the head", "fewest": "Fewest heads"}
_EVERY = "Run every patch"
#: What the pictures are called.
_OF_STREAMS = "Share of the answer that each piece brings along, by layer and token"
_OF_HEADS = "Share of the answer that every head brings along"


def draw(view: View, choices: DeltaGenerator) -> None:
    """Draw the mode; what is picked stands among the ``choices``."""
    page.stop_without_numbers(view.trace)
    other = two_texts.ask_pair(view, choices)
    output.run("The second run", other.trace)
    page.stop_without_numbers(other.trace)
    maps, said = st.container(key="depends", gap="xsmall"), st.container(key="sweep")
    settings = st.container(
        key="patching", horizontal=True, vertical_alignment="center", gap="small"
    )
    with settings:
        runs = _asked(view, other)
    lower, one = st.columns([4, 7], gap="medium")
    with lower, st.container(gap="xsmall"):
        stages = (*STREAMS, _piece())
    heads, patch = lower.container(gap="xsmall"), one.container(gap="xsmall")
    with said:
        found = _sweeps(runs, stages)
    known = _known(runs, stages, found)
    at = _chosen(runs, known)
    if address.asked(parameters.EDITS):
        said.caption("Your edits don't act here: both sentences are read by the unchanged model.")
    with maps:
        _maps(runs, [one for one in known if one.stage in STREAMS], at, peak(known))
    with heads:
        _heads(runs, [one for one in known if one.stage in OF_HEADS], at, peak(known))
    with patch:
        _below(runs, at, known)
    _words()


def _below(runs: Runs, at: Edit | None, known: Sequence[Shares]) -> None:
    """One patch, the paths into its head, or the fewest heads that keep the answer."""
    with st.container(key="below_maps", horizontal=True, vertical_alignment="center", gap="small"):
        shown: str = st.segmented_control(
            "Shown below the maps",
            [*DETAILS],
            format_func=DETAILS.__getitem__,
            required=True,
            label_visibility="collapsed",
            **address.choice(parameters.DETAIL, [*DETAILS]),
        )
        if shown == "patch" and at is not None:
            patched.in_full(runs, at)
    if shown == "patch":
        patched.draw(runs, at)
    elif shown == "paths":
        head_paths.draw(runs, _head(at, known), partial(_choose_head, _piece_of(known)))
    else:
        fewest.draw(runs)


def _piece_of(known: Sequence[Shares]) -> str:
    """What of every head is patched."""
    return next((one.stage for one in known if one.stage in OF_HEADS), OF_HEADS[0])


def _head(at: Edit | None, known: Sequence[Shares]) -> tuple[int, int] | None:
    """The head whose piece is patched; else the one after layer 0 that does most."""
    if at is not None and at.head is not None:
        return at.layer or 0, at.head
    for one in known:
        if one.stage in OF_HEADS and len(one.values) > 1:
            later = np.abs(one.values[1:])
            layer, head = np.unravel_index(int(later.argmax()), later.shape)
            return int(layer) + 1, int(head)
    return None


def _choose_head(piece: str, cell: Cell) -> None:
    """A click on an earlier head patches its piece, and shows the paths into it."""
    address.put(parameters.PATCH, (_patch(piece, cell.row, cell.column),))


def _asked(view: View, other: View) -> Runs:
    """Pick the direction, the metric and the answers; or one message and the end of the page."""
    direction: Direction = st.segmented_control(
        "Put",
        [*DIRECTIONS],
        format_func=DIRECTIONS.__getitem__,
        required=True,
        help=prose.tip(
            "**First into second**, denoising: a piece of the first run goes into the second. It "
            "shows what is **enough** to bring the first one's answer. **Second into first**, "
            "noising: a piece of the second run goes into the first. It shows what is **needed** "
            "for that answer (Heimersheim & Nanda 2024)."
        ),
        **address.choice(parameters.DIRECTION, [*DIRECTIONS]),
    )
    metric: Metric = st.selectbox(
        "Measured by",
        [*METRICS],
        format_func=METRICS.__getitem__,
        width=250,
        help=prose.tip(
            "The logit of the right token minus that of the wrong one; the probability of the "
            "right one; or how far the whole prediction is from the first run's, in bits."
        ),
        **address.choice(parameters.METRIC, [*METRICS]),
    )
    names = run_cache.vocabulary(view.model.name)
    own = telling_answers(view.trace, other.trace)
    offered = _offered(view, other)

    def answer(title: str, which: Text, token: int) -> int | None:
        listed = [names[n] for n in dict.fromkeys((token, *offered))]
        return next_token.pick(view, title, which, listed, names[token])

    right = answer("Right", parameters.RIGHT, own[0])
    wrong = answer("Wrong", parameters.WRONG, own[1])
    if right == wrong:
        st.info(
            "Right and wrong token are the same, so nothing can tell the runs apart: choose "
            "another.",
            icon=":material/edit:",
        )
        st.stop()
    return Runs(view, other, (cast(int, right), cast(int, wrong)), direction, metric)


def _offered(view: View, other: View) -> list[int]:
    """Tokens that may be an answer: the most probable of both runs."""
    logits = np.maximum(view.trace.logits_at(-1), other.trace.logits_at(-1))
    return [int(n) for n in largest(logits, next_token.CANDIDATES)]


def _piece() -> str:
    """Pick what of every head is patched."""
    names = {"head_output": "Output", "q": "Q", "k": "K", "v": "V", "weights": "Weights"}
    chosen: str = st.segmented_control(
        "Of a head",
        list(OF_HEADS),
        format_func=names.__getitem__,
        required=True,
        help=prose.tip(
            "What is put into the other run, at all tokens at once: what the head puts out, its "
            "queries, keys or values, or where it looks."
        ),
        **address.choice(parameters.PIECE, list(OF_HEADS)),
    )
    return chosen


def _sweeps(runs: Runs, stages: Sequence[str]) -> list[Sweep]:
    """The sweeps of some stages on their way, with a bar while there is more to come."""
    estimated = runs.metric == "logit difference"
    found, begun = sweep_offer.begin(
        [runs.wanted(stage) for stage in stages],
        runs.clean.model,
        _cost(runs),
        "sweep",
        offer=_EVERY,
        until="These are **first-order estimates**, from one backward pass."
        if estimated
        else "Nothing is measured yet.",
    )
    if begun:
        doing = "First-order estimates become exact" if estimated else "Exact"
        jobs.bar(found, doing, _EVERY, "sweep")
    return found


def _cost(runs: Runs) -> float:
    """Operations of the sweep of one stage, about."""
    return runs.cost * runs.clean.model.config.n_layer * runs.clean.n_tokens


def _known(runs: Runs, stages: Sequence[str], found: Sequence[Sweep]) -> list[Shares]:
    """What is known of each stage by now."""
    known = []
    for stage, sweeping in zip(stages, found, strict=True):
        sweep = sweeping.result
        estimate = None
        if sweeping.share < 1 and runs.metric == "logit difference":
            estimate = jobs.estimate(runs.wanted(stage))
        if (here := shares(stage, sweep, estimate)) is not None:
            known.append(here)
    if any(not np.isfinite(one.values).all() for one in known):
        st.info(
            "Both runs give the same by this measure, so no share of a difference can be told. "
            "Choose other answers, another measure or another sentence.",
            icon=":material/edit:",
        )
        st.stop()
    return known


def _chosen(runs: Runs, known: Sequence[Shares]) -> Edit | None:
    """The piece that the address asks for, else what attention carries most of the answer to."""
    asked = address.several_values(
        parameters.PATCH,
        lambda raw: (_fitting(runs, parse_edits(raw)),),
        "a piece of these runs, such as patch:residual_in:2:3 or patch:q:1.4",
    )
    with suppress(ValueError):  # chosen in a longer sentence or a larger model
        return _fitting(runs, asked)
    best = next((one for one in known if one.stage == "attention_output"), None)
    if best is None:
        return None
    differ = two_texts.differing(runs.clean, runs.corrupted)
    carried = best.values.copy()
    if len(differ) < runs.clean.n_tokens:
        carried[:, differ] = -np.inf  # there the pieces differ from the start
    layer, at = np.unravel_index(int(carried.argmax()), carried.shape)
    return _patch(best.stage, int(layer), int(at))


def _patch(stage: str, layer: int, at: int) -> Edit:
    """The edit that puts a piece into a run: ``at`` a token of the stream, or a head's."""
    if stage in STREAMS:
        return Edit("patch", stage=stage, layer=layer, position=at)
    return Edit("patch", stage=stage, layer=layer, head=at)


def _fitting(runs: Runs, asked: Sequence[Edit]) -> Edit:
    """The one patch that is asked for. Raises ``ValueError`` for what isn't a cell of the maps."""
    if len(asked) != 1 or asked[0].kind != "patch":
        raise EditError(f"not one patch: {asked}")
    (edit,), run = asked, runs.clean.trace
    check(asked, run.config, len(run.token_ids), run.causal, run.explicit)
    if (edit.position is None) == (edit.stage in STREAMS):
        raise EditError(f"no cell of a map: {edit}")
    return edit


def choose_patch(cell: Cell) -> None:
    """A click patches the cell's piece."""
    address.put(parameters.PATCH, (_patch(cell.panel, cell.row, cell.column),))


def _maps(runs: Runs, known: Sequence[Shares], at: Edit | None, least: float) -> None:
    """The stream, attention's output and the MLPs', layers down and tokens across."""
    if not known:
        prose.caption("The first numbers are on their way.")
        return
    output.picture(
        share_maps(
            _OF_STREAMS,
            known,
            pair_labels(runs.clean.labels, runs.corrupted.labels),
            at,
            least=least,
            height=235,
        ),
        runs.clean.colors,
        key="depends_streams",
        choose=choose_patch,
    )


def _heads(runs: Runs, known: Sequence[Shares], at: Edit | None, least: float) -> None:
    """Every head."""
    for one in known:
        heads = [str(n) for n in range(one.values.shape[1])]
        output.picture(
            share_maps(
                f"{_OF_HEADS}. {one.title}",
                [one],
                heads,
                at,
                least=least,
                height=240,
            ),
            runs.clean.colors,
            key="depends_heads",
            choose=choose_patch,
        )
        output.code(patch_sweep, patch_estimate, of=[_OF_STREAMS, f"{_OF_HEADS}. {one.title}"])


def _words() -> None:
    """What there is to know about the pictures above."""
    prose.markdown(
        "Both sentences run, and then once more for **every cell**, with that one piece of the "
        "other run put in (activation patching: Meng et al. 2022; Wang et al. 2022). A cell says "
        "how far this moves the answer: not at all (0), or all the way to that of the run that "
        "the piece comes from (1); below 0 it moves the other way. Where the stream has a share "
        "near 1, what the answer needs stands at that token before that layer."
    )
    prose.caption(
        "The answer is read after the last token. What one piece can't do alone, several may do "
        "together, so a head without a share may still take part. A first-order estimate is one "
        "slope times the whole difference (attribution patching: Nanda 2023): it is wrong where "
        "the model is far from linear."
    )

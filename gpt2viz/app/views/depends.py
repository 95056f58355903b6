"""Patching: which piece of one run, copied into another, recovers the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import streamlit as st
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import (
    Edit,
    EditError,
    FewestHeads,
    PathSweep,
    Trace,
    fewest_heads,
    parse_edits,
    patch_estimate,
    patch_path,
    patch_paths,
    patch_sweep,
    sampling_distribution,
)
from gpt2viz.analysis.direct_paths import WAYS
from gpt2viz.analysis.fewest_heads import tries
from gpt2viz.analysis.patching import Direction, Metric, metric_value
from gpt2viz.analysis.text_pairs import telling_answers
from gpt2viz.app import address, jobs, output, parameters, prose, run_cache
from gpt2viz.app.clicks import Cell
from gpt2viz.app.frame import controls, page
from gpt2viz.app.jobs import Job
from gpt2viz.app.literal import literal
from gpt2viz.app.parameters import Text
from gpt2viz.app.view import View
from gpt2viz.app.views import predict, two_texts
from gpt2viz.arrays import Array, Numbers, largest
from gpt2viz.labels import numeral, sentence
from gpt2viz.pictures.patching import (
    READS,
    Shares,
    faithfulness_curve,
    pair_labels,
    patched_shares,
    path_maps,
    peak,
    share_maps,
    shares,
)
from gpt2viz.pictures.prediction import probability_bars
from gpt2viz.run.edit_kinds import OF_HEADS, PATCH_TARGETS, STREAMS
from gpt2viz.run.edits import check
from gpt2viz.run.interventions import changes

#: The choices, by their values in the address.
DIRECTIONS: dict[Direction, str] = {"denoise": "First into second", "noise": "Second into first"}
METRICS: dict[Metric, str] = {
    "logit difference": "Logit difference",
    "probability": "Probability",
    "divergence": "KL divergence",
}
#: The views below the maps, beside the heads.
DETAILS = {"patch": "This patch", "paths": "Paths into the head", "fewest": "Fewest heads"}
#: The pictures' names.
_OF_STREAMS = "How far each piece moves the answer, by layer and token"
_OF_HEADS = "How far every head moves the answer"
_WAITING = "Computing the first numbers …"
#: How many next tokens are drawn.
_BEST = 4
#: The share of the answer that the fewest heads must keep.
_FAITHFUL = 0.9
#: Most operations of sweeps that start unasked: half a minute on two slow cores.
AT_ONCE = 2e12


def draw(view: View, choices: DeltaGenerator) -> None:
    """Draw the mode, with its widgets in ``choices``."""
    page.stop_without_numbers(view.trace)
    other = two_texts.ask_pair(view, choices)
    with st.container(horizontal=True, vertical_alignment="center"):
        two_texts.show_changed_tokens(view, other)
        prose.caption(sentence("patching.cells"), width="content")
    output.run("The second run", other.trace)
    page.stop_without_numbers(other.trace)
    maps, progress = st.container(key="depends", gap="xsmall"), st.container(key="sweep")
    with st.container(key="patching", horizontal=True, vertical_alignment="center"):
        runs = _pick_runs(view, other)
    left, right = st.columns([4, 7], gap="medium")
    with left, st.container(gap="xsmall"):
        stages = (*STREAMS, _pick_piece())
    heads, details = left.container(gap="xsmall"), right.container(gap="xsmall")
    with progress:
        known = _shares_so_far(runs, stages)
    at = _chosen_patch(runs, known)
    if address.raw(parameters.EDITS):
        progress.caption(
            "Your edits don't act here: both sentences run through the unedited model."
        )
    with maps:
        _maps(runs, [shares for shares in known if shares.stage in STREAMS], at, peak(known))
    of_heads = next((shares for shares in known if shares.stage in OF_HEADS), None)
    if of_heads is not None:
        with heads:
            _heads(of_heads, at, peak(known))
    with details:
        _details(runs, at, of_heads)
    _explain()


def _details(runs: Runs, at: Edit | None, of_heads: Shares | None) -> None:
    """Draw one patch, the paths into its head, or the fewest heads that keep the answer."""
    with st.container(key="below_maps", horizontal=True, vertical_alignment="center"):
        shown = controls.pick("Shown below the maps", parameters.DETAIL, DETAILS, hidden=True)
        if shown == "patch" and at is not None:
            _offer_edit(runs, at)
    if shown == "patch":
        _draw_patch(runs, at)
    elif shown == "paths":
        piece = OF_HEADS[0] if of_heads is None else of_heads.stage
        _paths_into(runs, _head(at, of_heads), piece)
    else:
        _draw_fewest_heads(runs)


def _head(at: Edit | None, of_heads: Shares | None) -> tuple[int, int] | None:
    """Return the patched head, or else the head after layer 0 with the largest effect."""
    if at is not None and at.head is not None:
        return at.layer or 0, at.head
    if of_heads is None or len(of_heads.values) < 2:
        return None
    later = np.abs(of_heads.values[1:])
    layer, head = np.unravel_index(int(later.argmax()), later.shape)
    return int(layer) + 1, int(head)


def _pick_runs(view: View, other: View) -> Runs:
    """Pick direction, metric and answers; stop the page for equal answers or measurements."""
    direction = controls.pick(
        "Put",
        parameters.DIRECTION,
        DIRECTIONS,
        tip="**First into second** (denoising) shows which pieces are **enough** to recover the "
        "first run's answer. **Second into first** (noising) shows which are **needed** for it "
        "(Heimersheim & Nanda 2024).",
    )
    metric: Metric = st.selectbox(
        "Measured by",
        width=250,
        help=prose.tip(
            "The logit of the right token minus that of the wrong one; the probability of the "
            "right one; or how far the whole prediction is from the first run's, in bits."
        ),
        **address.choice(parameters.METRIC, METRICS),
    )
    names = run_cache.vocabulary(view.model.name)
    own = telling_answers(view.trace, other.trace)
    logits = np.maximum(view.trace.logits_at(-1), other.trace.logits_at(-1))
    offered = map(int, largest(logits, predict.CANDIDATES))  # most probable in either run
    offered_names = [names[n] for n in offered]

    def answer(title: str, which: Text, token: int) -> int | None:
        listed = list(dict.fromkeys((names[token], *offered_names)))
        return predict.pick_token(view, title, which, listed, names[token])

    right = answer("Right", parameters.RIGHT, own[0])
    wrong = answer("Wrong", parameters.WRONG, own[1])
    if right == wrong:
        page.stop(
            "Right and wrong are the same token, so they can't tell the runs apart. Choose another."
        )
    runs = Runs(view, other, (cast(int, right), cast(int, wrong)), direction, metric)
    if len({runs.read(end.trace.logits_at(-1)) for end in runs.ends}) == 1:
        page.stop(
            "By this measure both runs are the same, so there is no difference to recover. "
            "Choose other answers, another measure or another sentence."
        )
    return runs


def _pick_piece() -> str:
    """Pick the stage of every head that is patched."""
    return controls.pick(
        "Of a head",
        parameters.PIECE,
        {"head_output": "Output", "q": "Q", "k": "K", "v": "V", "weights": "Weights"},
        tip=sentence("patching.part"),
    )


def _shares_so_far(runs: Runs, stages: Sequence[str]) -> list[Shares]:
    """Return each stage's shares so far, and draw a progress bar while sweeps run."""
    estimated = runs.metric == "logit difference"
    sweeping = _sweep(
        [runs.sweep(patch_sweep, stage=stage) for stage in stages],
        runs,
        runs.cost * runs.clean.model.config.n_layer * runs.clean.n_tokens,
        "sweep",
        doing="First-order estimates become exact" if estimated else "Exact",
        offer="Run every patch",
        until="These are **first-order estimates**, from one backward pass."
        if estimated
        else "Nothing is measured yet.",
    )
    known = []
    for stage, job in zip(stages, sweeping, strict=True):
        values = job.result  # read before the share, which a thread may complete meanwhile
        estimate = None
        if job.share < 1 and estimated:
            search = runs.search(patch_estimate, stage=stage, direction=runs.direction)
            estimate = jobs.estimate(runs.clean.model.name, search)
        if (here := shares(stage, values, estimate)) is not None:
            known.append(here)
    return known


def _chosen_patch(runs: Runs, known: Sequence[Shares]) -> Edit | None:
    """Return the address's patch, or the attention output with the largest share of the answer."""
    requested = address.values(
        parameters.PATCH,
        lambda raw: (_single_patch(runs, parse_edits(raw)),),
        "a piece of these runs, such as patch:residual_in:2:3 or patch:q:1.4",
    )
    with suppress(ValueError):  # chosen in a longer sentence or a larger model
        return _single_patch(runs, requested)
    best = next((shares for shares in known if shares.stage == "attention_output"), None)
    if best is None:
        return None
    differ = two_texts.differing_positions(runs.clean, runs.corrupted)
    carried = best.values.copy()
    if round(100 * np.delete(carried, differ, axis=1).max(initial=0)):
        carried[:, differ] = -np.inf  # these tokens differ from the start
    layer, at = np.unravel_index(int(carried.argmax()), carried.shape)
    return _patch(best.stage, int(layer), int(at))


def _patch(stage: str, layer: int, at: int) -> Edit:
    """Return the edit that patches a stage: ``at`` is a token in the stream, else a head."""
    if stage in STREAMS:
        return Edit("patch", stage=stage, layer=layer, position=at)
    return Edit("patch", stage=stage, layer=layer, head=at)


def _single_patch(runs: Runs, edits: Sequence[Edit]) -> Edit:
    """Return the single edit. Raises ``ValueError`` unless it is a patch of a cell of the maps."""
    if len(edits) != 1 or edits[0].kind != "patch":
        raise EditError(f"not one patch: {edits}")
    (edit,), run = edits, runs.clean.trace
    check(edits, run.config, len(run.token_ids), run.causal, run.explicit)
    if (edit.position is None) == (edit.stage in STREAMS):
        raise EditError(f"no cell of a map: {edit}")
    return edit


def choose_patch(cell: Cell) -> None:
    """Patch the piece of a clicked cell."""
    address.put(parameters.PATCH, (_patch(cell.panel, cell.row, cell.column),))


def _maps(runs: Runs, known: Sequence[Shares], at: Edit | None, least: float) -> None:
    """Draw maps of the stream, attention's output and the MLPs', layers down and tokens across."""
    if not known:
        prose.caption(_WAITING)
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
        key="depends_streams",
        choose=choose_patch,
    )


def _heads(shares: Shares, at: Edit | None, least: float) -> None:
    """Draw the map of heads, layers down."""
    what = f"{_OF_HEADS}. {shares.title}"
    heads = [str(n) for n in range(shares.values.shape[1])]
    output.picture(
        share_maps(what, [shares], heads, at, least=least, height=240),
        key="depends_heads",
        choose=choose_patch,
    )
    output.code(patch_sweep, patch_estimate, of=[_OF_STREAMS, what])


def _explain() -> None:
    """Explain the pictures above."""
    prose.caption(
        "This is activation patching (Meng et al. 2022; Wang et al. 2022): one run per cell, whose "
        "answer is read after the last token. Where the stream is near 1, everything the answer "
        "needs is at that token before that layer. Pieces can work together, so a head near 0 may "
        "still take part. A first-order estimate is one slope times the whole difference "
        "(attribution patching: Nanda 2023), which is wrong where the model is far from linear."
    )


@dataclass(frozen=True)
class Runs:
    """Two runs to patch between, the tokens of the ``answer``, the direction and the metric."""

    clean: View
    corrupted: View
    answer: tuple[int, int]
    direction: Direction
    metric: Metric

    def search(self, find: Callable[..., Any], **options: Any) -> partial[Any]:
        """Return the search by ``find`` between these runs, for their answer."""
        clean, corrupted = self.clean.trace.key, self.corrupted.trace.key
        texts = {"clean": clean.token_ids, "corrupted": corrupted.token_ids}
        return partial(find, **texts, answer=self.answer, causal=clean.causal, **options)

    def sweep(self, find: Callable[..., Any], **options: Any) -> partial[Any]:
        """Return a search in the chosen direction, by the chosen metric."""
        return self.search(find, direction=self.direction, metric=self.metric, **options)

    @property
    def cost(self) -> float:
        """About how many operations a patched run takes: two per parameter and token.

        It starts at the patched layer, so half of the layers are counted.
        """
        config = self.clean.model.config
        return 12 * config.n_layer * config.n_embd**2 * self.clean.n_tokens

    @property
    def ends(self) -> tuple[View, View]:
        """The run that is patched, and the run that the piece comes from."""
        both = self.corrupted, self.clean
        return both if self.direction == "denoise" else both[::-1]

    @property
    def names(self) -> tuple[str, str]:
        """The names of the run that the piece comes from, and of the run that is patched."""
        return ("first", "second") if self.direction == "denoise" else ("second", "first")

    def read(self, logits: NDArray[np.floating]) -> float:
        """Return the metric of logits (n_vocab,)."""
        return metric_value(logits, self.clean.trace, self.answer, self.metric)


def _draw_patch(runs: Runs, edit: Edit | None) -> None:
    """Draw one patch: its share of the answer, and the next tokens. Nothing for None."""
    if edit is None:
        return
    into, source = runs.ends
    key = replace(into.trace.key, edits=(edit,), patch_from=source.trace.token_ids)
    patched = run_cache.run(key)
    output.run("The patched run", patched)
    words, measurement = _effect_in_words(runs, edit, patched.logits_at(-1))
    if edit.head is not None:
        words += two_texts.group_note(into, (edit.layer or 0, edit.head), edit.stage or "")
    prose.markdown(words, help=prose.tip(measurement))
    _next_tokens(runs, patched)
    prose.caption(sentence("patching.measured", metric=_metric_in_words(runs)))


def _offer_edit(runs: Runs, edit: Edit) -> None:
    """Draw a button that opens the patch as an edit.

    Not a link: a link to the open page would leave the address unchanged.
    """
    first, second = address.get(parameters.TEXT), address.get(parameters.TEXT2)
    text, source = (second, first) if runs.direction == "denoise" else (first, second)
    texts = {parameters.TEXT: text, parameters.TEXT2: source}
    of_texts = {parameters.WHAT_IF: "edits", parameters.EDITS: (edit,)}  # after their texts
    st.button(
        "Open this patch as an edit",
        icon=":material/compare:",
        type="tertiary",
        on_click=address.put_all,
        args=(texts | of_texts,),
        key="patch_in_full",
    )


def _effect_in_words(runs: Runs, edit: Edit, logits: Array) -> tuple[str, str]:
    """Return the patch's effect in words, and the measurements behind it; Markdown."""
    into, source = (runs.read(view.trace.logits_at(-1)) for view in runs.ends)
    now = runs.read(logits)
    share = (now - into) / (source - into)
    names = dict(zip(("source", "into"), runs.names, strict=True))
    piece, effect = _piece_in_words(runs, edit), _effect(runs, share)
    before, after, end = _numbers(into, now, source)
    return (
        sentence("patching.effect", piece=piece, effect=effect, **names),
        sentence(
            "patching.metric", metric=_metric_in_words(runs), before=before, after=after, **names
        )
        + " "
        + sentence("patching.source", end=end, **names),
    )


def _numbers(into: float, now: float, source: float) -> list[str]:
    """Format the three measurements, with enough digits to compute the share from them."""
    apart = abs(source - into)
    digits = min(6, max(2, 2 - math.floor(math.log10(apart)))) if apart else 2
    return [numeral(value, f".{digits}f") for value in (into, now, source)]


def _effect(runs: Runs, share: float) -> str:
    """Return the effect of a patch on the answer, in words."""
    if not round(100 * share):
        return sentence("patching.nothing")
    which = "patching.recovers" if runs.direction == "denoise" else "patching.removes"
    return sentence("patching.opposes" if share < 0 else which, share=100 * abs(share))


def _piece_in_words(runs: Runs, edit: Edit) -> str:
    """Return the patched piece, in words."""
    words = PATCH_TARGETS[edit.stage or ""]
    if edit.position is None:
        return words.format(layer=edit.layer, at=edit.head)
    return words.format(layer=edit.layer, at=runs.ends[1].token_name(edit.position))


def _metric_in_words(runs: Runs) -> str:
    """Return the metric in words."""
    names = run_cache.vocabulary(runs.clean.model.name)
    right, wrong = (f"“{literal(names[n])}”" for n in runs.answer)
    if runs.metric == "divergence":
        return "the KL divergence from the first run’s prediction in bits"
    if runs.metric == "probability":
        return f"the probability of {right}"
    return f"the logit of {right} minus that of {wrong}"


def _next_tokens(runs: Runs, patched: Trace) -> None:
    """Draw the next tokens of both runs and of the patched one."""
    rows = {"first": runs.clean.trace, "second": runs.corrupted.trace, "patched": patched}
    cases = {name: sampling_distribution(run.logits_at(-1)) for name, run in rows.items()}
    shown = _drawn_tokens([*cases.values()], runs.answer)
    names = run_cache.vocabulary(runs.clean.model.name)
    output.picture(
        probability_bars(
            "The most probable next tokens of both runs, and of the patched one",
            [names[n] for n in shown],
            {name: (100 * p[shown]).tolist() for name, p in cases.items()},
        ),
        key="patched",
        made_by=(changes, sampling_distribution),
    )


def _drawn_tokens(cases: Sequence[Numbers], answer: tuple[int, int]) -> list[int]:
    """Return the tokens to draw: right and wrong answer, then the most probable in any case."""
    best = largest(np.max(cases, axis=0), _BEST).tolist()
    return list(dict.fromkeys((*answer, *best)))[:_BEST]


def _paths_into(runs: Runs, head: tuple[int, int] | None, piece: str) -> None:
    """Draw the share of the answer along every path into a head, (layer, head).

    A click on an earlier head patches its ``piece``, and shows the paths into it.
    """
    if head is None:
        prose.caption(_WAITING)
        return
    name = f"{head[0]}.{head[1]}"
    if head[0] == 0:
        prose.markdown(sentence("patching.first_layer", head=name))
        return
    config = runs.clean.model.config
    n_runs = len(WAYS) * head[0] * config.n_head
    (job,) = _sweep(
        [runs.sweep(patch_paths, receiver=head)],
        runs,
        2 * runs.cost * n_runs * (1 - head[0] / config.n_layer),
        "paths",
        doing="Paths",
        offer="Run every path",
        until="Nothing is measured yet.",
    )
    sweep: PathSweep | None = job.result
    done = 0 if sweep is None else int(np.isfinite(sweep.values).all(axis=(0, 2)).sum())
    if sweep is None or not done:
        prose.caption(_WAITING)
        return
    shares = patched_shares(sweep)[:, :done]  # (3, layers, n_head)
    prose.markdown(_path_in_words(runs, head, shares))
    prose.caption(sentence("patching.direct"))
    output.picture(
        path_maps(
            f"How far each path into head {name} moves the answer",
            shares,
            height=max(150, 60 + 26 * done),
        ),
        key="head_paths",
        choose=lambda cell: choose_patch(cell._replace(panel=piece)),
        made_by=(patch_paths, patch_path),
    )


def _path_in_words(runs: Runs, into: tuple[int, int], shares: np.ndarray) -> str:
    """Describe the path with the largest effect in a sentence; Markdown."""
    way, layer, head = (int(n) for n in np.unravel_index(np.abs(shares).argmax(), shares.shape))
    share, n, name = float(shares[way, layer, head]), shares.size, f"{into[0]}.{into[1]}"
    if abs(share) < 0.005:
        return sentence("patching.no_path", head=name, n=n)
    return (
        sentence(
            "patching.path",
            source=runs.names[0],
            sender=f"{layer}.{head}",
            reads=READS[WAYS[way]],
            head=name,
            effect=_effect(runs, share),
        )
        + two_texts.group_note(runs.clean, into, WAYS[way])
        + " "
        + sentence("patching.most", n=n)
    )


def _draw_fewest_heads(runs: Runs) -> None:
    """Draw the fewest heads that keep the answer, in words and as a curve, as far as computed."""
    config = runs.clean.model.config
    n_heads = config.n_layer * config.n_head
    (job,) = _sweep(
        [runs.search(fewest_heads)],
        runs,
        2 * runs.cost * tries(n_heads),
        "fewest",
        doing="Removing heads",
        offer="Search",
        until="Tries the heads one after another, with many runs of both sentences.",
    )
    fewest: FewestHeads | None = job.result
    if fewest is None:
        return
    if words := fewest.words(_FAITHFUL):
        prose.markdown(words)
    prose.caption(sentence("fewest.measured"))
    output.picture(
        faithfulness_curve("Share of the answer that is kept, by how many heads are left", fewest),
        key="fewest",
        made_by=(fewest_heads,),
    )


def _sweep(
    searches: Sequence[partial[Any]], runs: Runs, cost: float, key: str, *, doing: str,
    offer: str, until: str,
) -> list[Job]:  # fmt: skip
    """Start sweeps as ``jobs.run`` does, at once unless they ``cost`` too many operations."""
    started = [jobs.sweep_of(runs.clean.model.name, search) for search in searches]
    jobs.run(started, doing, offer, key, cost <= AT_ONCE, until)
    return started

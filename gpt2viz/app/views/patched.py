"""One patch in place: what comes next in both runs, and in the one with a piece of the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from gpt2viz import Edit, Trace, sampling_distribution
from gpt2viz.analysis.paired_runs import Direction, Metric, measured
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.jobs import StageSearch
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.arrays import Array
from gpt2viz.labels import signed
from gpt2viz.pictures.prediction import probability_bars
from gpt2viz.run.interventions import changes

#: So many tokens are drawn.
_BEST = 4
#: A piece that is patched in words, {at} standing for its token or head.
_PIECE = {
    "residual_in": "the stream of {at} before layer {layer}",
    "attention_output": "what attention of layer {layer} adds at {at}",
    "mlp_output": "what the MLP of layer {layer} adds at {at}",
    "head_output": "the output of head {layer}.{at}",
    "q": "the queries of head {layer}.{at}",
    "k": "the keys of head {layer}.{at}",
    "v": "the values of head {layer}.{at}",
    "weights": "the attention weights of head {layer}.{at}",
}


@dataclass(frozen=True)
class Runs:
    """Two runs to patch between, and how the answer is read: all that a patch is made of."""

    clean: View
    corrupted: View
    answer: tuple[int, int]
    direction: Direction
    metric: Metric

    def wanted(self, stage: str) -> StageSearch:
        """The sweep of a stage."""
        keys = self.clean.trace.key, self.corrupted.trace.key
        return StageSearch(*keys, stage, self.answer, self.direction, self.metric)

    @property
    def cost(self) -> float:
        """Operations that a patched run takes, about: two a parameter and token, half the layers.

        It goes on from the layer that is patched.
        """
        config = self.clean.model.config
        return 12 * config.n_layer * config.n_embd**2 * self.clean.n_tokens

    @property
    def ends(self) -> tuple[View, View]:
        """The run that is patched, and the one that the piece is from."""
        both = self.corrupted, self.clean
        return both if self.direction == "denoise" else both[::-1]

    def read(self, logits: NDArray[np.floating]) -> float:
        """The metric of logits (n_vocab,)."""
        return measured(logits, self.clean.trace, self.answer, self.metric)


def draw(runs: Runs, edit: Edit | None) -> None:
    """One patch: how much of the answer it brings, and what comes next. Nothing for none."""
    if edit is None:
        return
    into, source = runs.ends
    key = replace(into.trace.key, edits=(edit,), patch_from=source.trace.token_ids)
    patched = run_cache.run(key)
    output.run("The patched run", patched)
    prose.markdown(_says(runs, edit, patched.logits_at(-1)))
    _next_tokens(runs, patched)


def in_full(runs: Runs, edit: Edit) -> None:
    """A button that shows the patch as an edit, in full.

    No link: one to the page that is open would leave the address as it is.
    """
    texts = [address.chosen(which) for which in (parameters.TEXT, parameters.TEXT2)]
    if runs.direction == "denoise":
        texts.reverse()
    st.button(
        "This patch as an edit: weights, prediction and lens",
        icon=":material/compare:",
        type="tertiary",
        on_click=_open,
        args=(*texts, edit),
        key="patch_in_full",
    )


def _open(text: str, source: str, edit: Edit) -> None:
    address.put(parameters.WHAT_IF, "edits")
    address.put(parameters.TEXT, text)  # before the edit, which is of its tokens
    address.put(parameters.TEXT2, source)
    address.put(parameters.EDITS, (edit,))


def _says(runs: Runs, edit: Edit, logits: Array) -> str:
    """What the patch does, in words made of its numbers; Markdown."""
    into, source = (runs.read(view.trace.logits_at(-1)) for view in runs.ends)
    now = runs.read(logits)
    share = (now - into) / (source - into)
    first, second = ("first", "second") if runs.direction == "denoise" else ("second", "first")
    quantity, said = _quantity(runs), _numbers(into, now, source)
    return (
        f"Putting {_piece(runs, edit)} of the {first} run into the {second} "
        f"**{effect(runs, share)}**: {quantity} goes from {said[0]} to {said[1]}; in the {first} "
        f"run it is {said[2]}."
    )


def _numbers(into: float, now: float, source: float) -> list[str]:
    """What is measured, with so many digits that the share of the way can be told from them."""
    apart = abs(source - into)
    digits = min(6, max(2, 2 - math.floor(math.log10(apart)))) if apart else 2
    return [signed(value, f".{digits}f") for value in (into, now, source)]


def effect(runs: Runs, share: float) -> str:
    """How far a patch moves the answer."""
    if share == 0:
        return "changes nothing"
    if share < 0:
        return f"moves the answer {-100 * share:.0f} % the other way"
    if runs.direction == "denoise":
        return f"brings {100 * share:.0f} % of the answer along"
    return f"takes {100 * share:.0f} % of the answer away"


def _piece(runs: Runs, edit: Edit) -> str:
    """The piece that is patched, in words."""
    said = _PIECE[edit.stage or ""]
    if edit.position is None:
        return said.format(layer=edit.layer, at=edit.head)
    token = literal(runs.ends[1].labels[edit.position])
    return said.format(layer=edit.layer, at=f"“{token}” ({edit.position})")


def _quantity(runs: Runs) -> str:
    """What is measured, in words."""
    names = run_cache.vocabulary(runs.clean.model.name)
    right, wrong = (f"“{literal(names[n])}”" for n in runs.answer)
    if runs.metric == "divergence":
        return "the KL divergence from the first run’s prediction, in bits,"
    if runs.metric == "probability":
        return f"the probability of {right}"
    return f"the logit of {right} minus that of {wrong}"


def _next_tokens(runs: Runs, patched: Trace) -> None:
    """What comes next in both runs and in the patched one."""
    rows = {"first": runs.clean.trace, "second": runs.corrupted.trace, "patched": patched}
    cases = {name: sampling_distribution(run.logits_at(-1)) for name, run in rows.items()}
    shown = _shown([*cases.values()], runs.answer)
    names = run_cache.vocabulary(runs.clean.model.name)
    output.picture(
        probability_bars(
            "The most probable next tokens of both runs, and of the patched one",
            [names[n] for n in shown],
            {name: (100 * p[shown]).tolist() for name, p in cases.items()},
        ),
        runs.clean.colors,
        key="patched",
        made_by=(changes, sampling_distribution),
    )


def _shown(cases: Sequence[NDArray[np.float64]], answer: tuple[int, int]) -> list[int]:
    """The tokens that are drawn: right and wrong one, then the most probable of any case."""
    best = np.argsort(-np.max(cases, axis=0), kind="stable")[:_BEST].tolist()
    return list(dict.fromkeys((*answer, *best)))[:_BEST]

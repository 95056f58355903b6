"""Measures of heads: their weights, or the weights' effect, between tokens or words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from gpt2viz import CheckpointError
from gpt2viz.analysis.attribution import difference_from_run, drop_first, rollout, value_weighted
from gpt2viz.analysis.scores import Scores
from gpt2viz.analysis.words import word_starts
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.clicks import Cell
from gpt2viz.app.components import lines
from gpt2viz.app.components.lines import Lined
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Code, Line
from gpt2viz.app.view import View
from gpt2viz.labels import difference, pluralize, sentence
from gpt2viz.pictures.find import head_map
from gpt2viz.pictures.from_trace import (
    Measure,
    mean_of_heads,
    one_head,
    stage_panel,
    weights_measure,
    word_measure,
)
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.pooling import GRID, GRID_OF_MANY, pool_panel
from gpt2viz.run.key import RunKey
from gpt2viz.run.stages import Scale
from gpt2viz.run.trace import Trace
from gpt2viz.survey.stored import Survey

#: Tolerance for float32 rounding, as a share of the largest number.
_ROUNDING = 1e-4

#: Value in the address -> (name, what a square then shows).
MEASURES = {
    "weights": (
        "Attention weights",
        "**Attention weights**: how much each token (row, the *query*) takes from each token "
        "(column, the *key*). Every row sums to 1.",
    ),
    "rest": (
        "Weights without the first column",
        "The weights with the **first column left out** and each row rescaled to sum to 1: how a "
        "head divides the weight that it doesn't put on the first token. The model didn't use "
        "these numbers.",
    ),
    "norms": (
        "Value-weighted: ‖α·v·W_O‖",
        "The **length of what each key gives**: weight α times its value vector v, through the "
        "head's part of W_O (Kobayashi et al. 2020). A large weight on a short v moves little.",
    ),
}


def choose() -> tuple[str, bool]:
    """Pick a measure, a key in ``MEASURES``, and whether tokens are grouped into words."""
    chosen = pick(width=230)
    return chosen, words(sums_to_one=chosen != "norms")


def pick(width: int) -> str:
    """Pick a measure, a key in ``MEASURES``."""
    chosen: str = st.selectbox(
        "What is shown",
        format_func=lambda key: MEASURES[key][0],
        label_visibility="collapsed",
        width=width,
        **address.choice(parameters.SHOW, list(MEASURES)),
    )
    return chosen


def words(sums_to_one: bool = True) -> bool:
    """Pick whether tokens are grouped into words; disabled unless rows sum to one."""
    return st.toggle(
        "Whole words",
        disabled=not sums_to_one,
        help=prose.tip(
            "Groups the tokens of a word: a word's row is the mean of its tokens' rows, "
            "its column the sum of their columns. Rows still sum to 1."
            if sums_to_one
            else "Lengths can't be added up, so these numbers are shown for tokens only."
        ),
        **address.switch(parameters.WORDS, movable=sums_to_one),
    )


def code_behind(view: View, layer: int, chosen: str, whole_words: bool) -> tuple[Code, ...]:
    """Return the code behind the numbers of a measure."""
    further = {"norms": (value_weighted,), "rest": (drop_first,), "rollout": (rollout,)}
    words = (word_measure,) if whole_words else ()
    return (Line(view.trace, "weights", layer), *further.get(chosen, ()), *words)


def words_note(view: View) -> str:
    """Return the note on pictures of whole words."""
    n_words = len(word_starts(view.trace.token_bytes, view.trace.tokens_are_words))
    if n_words == view.n_tokens:
        return "**Whole words**: here each word is one token, so nothing changes."
    n_tokens = pluralize(view.n_tokens, "tokens")
    return sentence("measures.words", tokens=n_tokens, words=pluralize(n_words, "words"))


def weights(trace: Trace, layer: int, whole_words: bool) -> Measure:
    """Return a layer's attention weights, between tokens or words."""
    result = weights_measure(trace, trace.labels, layer)
    return word_measure(result, trace) if whole_words else result


def proof(view: View, layers: Sequence[int], run: str = "the run") -> None:
    """Draw a mark that says whether these layers' weights are those that the model computed with.

    Its tip gives the largest difference and the largest number over these layers.
    """
    reused = reused_note(view.trace)
    proofs = [_proof(view.trace.key, n) for n in layers]
    apart, largest = map(max, zip(*proofs, strict=True))
    prose.caption(
        "✓ checked" if apart <= _ROUNDING * largest else "✗ **not what the model computed**",
        help=prose.tip(
            sentence(
                "measures.checked",
                run=run,
                reused=reused,
                apart=difference(apart),
                largest=largest,
            )
        ),
        width="content",
    )


def reused_note(trace: Trace, then: str = "") -> str:
    """Return a sentence on tokens reused from an earlier run, followed by ``then``; else ""."""
    if not trace.reused:
        return ""
    tokens = pluralize(trace.reused, "tokens").removeprefix("1 ")
    return " " + sentence("measures.reused", tokens=tokens) + then


@st.cache_data(max_entries=2000, hash_funcs=run_cache.BY_KEY, show_spinner=False)
def _proof(key: RunKey, layer: int) -> tuple[float, float]:
    return difference_from_run(run_cache.load(key.model), run_cache.run(key), layer)


def measure(trace: Trace, layer: int, chosen: str, whole_words: bool) -> Measure:
    """Return the numbers of a layer's heads under the measure ``chosen``."""
    result = weights(trace, layer, whole_words)
    if chosen == "norms":
        lengths = value_weighted(run_cache.load(trace.model_name), trace, layer)
        panel = replace(result.panel, quantity="‖α·v·W_O‖")
        return replace(result, values=lengths, panel=panel, scale="amount")
    if chosen == "rest":
        rest = drop_first(result.values)
        return replace(
            result,
            values=np.where(np.isnan(result.values), result.values, np.nan_to_num(rest)),
            hidden=np.isnan(rest) & ~np.isnan(result.values) | result.hidden,
            panel=replace(
                result.panel,
                quantity=f"share of the rest{' between words' if whole_words else ''}",
                masked_text="left out: the first column, or masked",
                masked_name="left out or masked",
            ),
        )
    return result


def draw_weights(
    view: View,
    layer: int,
    head: int,
    *,
    key: str,
    as_lines: bool | None = None,
    choose: Callable[[Panel], Callable[[Cell], None]] | None = None,
    **look: Any,
) -> None:
    """Draw the attention weights of one head over the whole text, as a matrix or as lines.

    ``as_lines`` None draws a matrix without a switch; ``choose`` returns the callback of clicks
    on it, given its panel. ``look`` are fields of ``Heatmaps``.
    """
    title = f"Layer {layer} · Head {head}"
    panel = stage_panel(view.trace, view.labels, "weights", layer, head, title)
    alt = f"Attention weights of layer {layer}, head {head}"
    made_by = (Line(view.trace, "weights", layer),)
    panel = pool_panel(panel, GRID)
    picture = Heatmaps(alt, [panel], row=view.query, **look)
    if as_lines is None:
        output.picture(picture, key=key, made_by=made_by, choose=choose and choose(panel))
    else:
        lined = [Lined(alt, [title])]
        lines.draw(view, picture, lined, as_lines=as_lines, key=key, made_by=made_by)


def draw_head_map(
    scores: Scores,
    quantity: str,
    framed: tuple[int | None, int | None],
    alt: str,
    *,
    key: str,
    made_by: Sequence[Code],
    choose: Callable[[Cell], None],
    scale: Scale = "unit",
    height: int = 340,
    numbers: int = 8,
) -> None:
    """Draw a number for every head, (n_layer, n_head), with a head ``framed``, or a layer."""
    output.picture(
        Heatmaps(
            alt,
            [head_map(scores, quantity)],
            scale=scale,
            height=height,
            numbers=numbers,
            row=framed[0],
            column=framed[1],
            bar=quantity,
            legend=False,
        ),
        key=key,
        made_by=made_by,
        choose=choose,
    )


@st.cache_data(max_entries=16, hash_funcs=run_cache.BY_KEY, show_spinner="Drawing every layer …")
def layer_panels(
    key: RunKey, which: int | str, chosen: str, whole_words: bool
) -> tuple[list[Panel], Scale]:
    """Return a head (or "mean", "rollout") in every layer, pooled to small panels, and their scale.

    Panels are named after their layer. Norms are always between tokens: lengths don't add up.
    """
    trace, words = run_cache.run(key), whole_words and chosen != "norms"
    scale: Scale = "amount" if chosen == "norms" else "unit"
    panels = [
        replace(layer_panel(trace, n, which, f"Layer {n}", words, chosen), name=str(n))
        for n in range(trace.config.n_layer)
    ]
    return [pool_panel(panel, GRID_OF_MANY) for panel in panels], scale


def layer_panel(
    trace: Trace, layer: int, which: int | str, title: str, whole_words: bool, shown: str
) -> Panel:
    """Return one matrix for a layer: a head under the measure ``shown``, the "mean" of all heads'
    weights or the "rollout"."""
    if isinstance(which, int):
        return one_head(measure(trace, layer, shown, whole_words), which, title, str(which))
    result = mean_of_heads(weights_measure(trace, trace.labels, layer))
    if which == "rollout":
        mixed = rollout(trace, layer)[None]
        panel = replace(result.panel, quantity="share of the token's start")
        result = replace(result, values=mixed, panel=panel)
    if whole_words:
        result = word_measure(result, trace)
    return one_head(result, 0, title, which)


def survey(view: View) -> Survey | None:
    """Return the model's scores across many texts, or None; show a message if they are broken."""
    try:
        return run_cache.survey(view.model.name)
    except CheckpointError as error:
        st.warning(literal(str(error)), icon=":material/error:")
        return None

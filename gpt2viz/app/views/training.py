"""Training: how the model learned, and when each of its heads formed."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import isfinite
from typing import Any

import numpy as np
import streamlit as st

from gpt2viz import CheckpointError
from gpt2viz.analysis.batch_scores import (
    LEAST,
    Emergence,
    Measured,
    batch_score,
    emergence,
    main_habit,
    measure_probe,
    partner,
    token_losses,
)
from gpt2viz.analysis.lens import logit_lens
from gpt2viz.analysis.scores import SCORES, MeasuredOn
from gpt2viz.anatomy.training_record import TrainingRecord
from gpt2viz.app import address, checkpoint_runs, output, pages, parameters, prose, run_cache
from gpt2viz.app.checkpoint_runs import CheckpointRun
from gpt2viz.app.clicks import Changes, choose_head, open_head, page_link
from gpt2viz.app.components import Answers, mount
from gpt2viz.app.components.attention import map_header
from gpt2viz.app.frame import controls, page
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.app.views import changes
from gpt2viz.arrays import Array
from gpt2viz.labels import first_few, head_of, label, sentence
from gpt2viz.model.network import Attend
from gpt2viz.model.steps import Steps
from gpt2viz.pictures.canvas import header
from gpt2viz.pictures.chart import chart
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Bars, Curves, Heatmaps, Lens
from gpt2viz.pictures.pooling import THUMBNAIL
from gpt2viz.pictures.prediction import lens_of_runs, probability_bars
from gpt2viz.pictures.training import (
    loss_curves,
    losses_at_steps,
    score_growth,
    scores_at_steps,
    short,
)

#: The texts on which heads were scored.
_INPUT: Mapping[MeasuredOn, str] = {"text": "held-out text", "probe": "random tokens, repeated"}
#: Weights are sent as 16-bit numbers; this one stands for NaN.
_NAN_CODE = 65_535
#: The heights of the map and of the large matrices, in pixels.
_MAP_TALL, _LARGE_TALL = 252, 196
_MAP_ALT = "Every head. Arrow keys go from head to head, Enter chooses."


def show() -> None:
    """Draw the page."""
    view = page.open_page(pages.TRAINING, choosing="")
    if _checkpoints(view):
        st.divider()
    if (record := _record(view)) is None:
        return  # after st.stop Streamlit would keep the values of widgets that are gone
    losses, heads = st.columns([5, 6], gap="large")
    with losses:
        _losses(record)
    with heads:
        _growth(view, record)
    card = run_cache.card(view.model.name)
    if card:
        with st.expander("The model's card: data, figures, what it can't do"):
            st.markdown(card.text)


def _losses(record: TrainingRecord) -> None:
    """Draw the loss during training."""
    st.markdown(sentence("training.losses", millions=record.tokens[-1] / 1e6))
    output.picture(
        loss_curves("Loss on held-out text and on random tokens, by tokens read", record),
        key="losses",
        of_run=False,
        made_by=(token_losses,),
    )
    n = record.held_out_rows
    read = sentence("training.held_out", contexts=n) if n else ""
    prose.caption(
        "Nobody can predict random tokens the first time. When they are repeated, a model that has "
        "learned to **copy** can: that is where the two curves for random tokens part.",
        help=prose.tip(sentence("training.loss", read=read, times=len(record.tokens))),
    )


def _growth(view: View, record: TrainingRecord) -> None:
    """Draw a score of every head during training."""
    followed = list(record.scores)
    first = "induction" if "induction" in followed else followed[0]
    with st.container(horizontal=True):
        name = controls.pick("Score of every head", parameters.SCORE, followed, first)
    shown = SCORES[name]
    with st.container(key="growth"):
        output.picture(
            score_growth(f"{shown.name} score of every head during training", record, shown.name),
            key="score_growth",
            of_run=False,
            made_by=(batch_score, *shown.code),
            then=lambda cell: open_head(*divmod(cell.row, view.model.config.n_head)),
        )
    title, text = shown.name.capitalize(), _INPUT[shown.measured_on]
    prose.caption(sentence("training.score", name=title, text=text, what=shown.words))
    if record.set_heads:
        named = ", ".join(f"{layer}.{head}" for layer, head in record.set_heads)
        prose.caption(sentence("training.set", heads=named))


def _record(view: View) -> TrainingRecord | None:
    """Return the model's training record; without one, show a message and return None."""
    try:
        record = run_cache.training(view.model.name)
    except CheckpointError as error:
        st.error(literal(str(error)), icon=":material/error:")
        return None
    if record is None:
        st.info(
            "Nothing was measured while this model learned: it comes with no `training.json`. "
            "The bundled one has it: choose that above.",
            icon=":material/info:",
        )
    return record


def offer_birth(view: View, layer: int, head: int) -> None:
    """Draw a link to when a head formed, if the model's checkpoints are available."""
    try:
        has_steps = len(checkpoint_runs.steps(view.model.name)) > 1
    except CheckpointError:
        has_steps = False
    if has_steps:
        chosen: Changes = {parameters.LAYER: layer, parameters.HEAD: head}
        page_link(pages.TRAINING, "When did this head form?", "egg", chosen)


def _checkpoints(view: View) -> bool:
    """Draw the training as a slider; return whether there is one."""
    try:
        training = checkpoint_runs.steps(view.model.name)
        if not (steps := list(training)):
            return False
        for doubt in training.doubts:
            st.warning(literal(doubt), icon=":material/warning:")
        at: int = address.read(address.choice(parameters.STEP, steps, steps[len(steps) // 2]))
        with st.spinner("Reading the checkpoints …"):
            seen = checkpoint_runs.runs_by_step(view.trace.key, at)
            habits = checkpoint_runs.habits(view.model.name, at)
    except CheckpointError as error:
        st.error(literal(str(error)), icon=":material/error:")
        return False
    chosen = _pick_head(view, habits)
    prose.markdown(
        "Play the film, or drag the slider, to watch the model learn to read **your sentence**. "
        "Click a head to follow it, or a curve to go there."
    )
    if not view.trace.causal:
        prose.caption(
            "The mask is off for your sentence alone. Random tokens, the heads' scores and all "
            "that follows the film are measured with it on, as the model learned."
        )
    pictures = st.container()
    beside = _births(view, training.dated, habits, chosen)
    with pictures:
        _slider(view, training, at, seen, _curves(seen, habits, chosen, beside), chosen, habits)
    with st.expander("How this is measured"):
        _notes(view)
    _changes_between(view, steps, at)
    return True


def _changes_between(view: View, steps: Sequence[int], at: int) -> None:
    """Compare the chosen step with another over many texts."""
    others = [step for step in steps if step != at]
    if not others:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        title = st.container(width="content")
        since: int = st.selectbox(
            "The other step",
            format_func=lambda step: f"compare step {step:,}",
            label_visibility="collapsed",
            width=200,
            **address.choice(parameters.SINCE, others, others[-1]),
        )
    early, late = sorted((at, since))
    prose.markdown(f"#### What changed from step {early:,} to step {late:,}?", slot=title)
    models = {
        f"{view.model.name}, step {step:,}": partial(
            checkpoint_runs.model_at, view.model.name, step
        )
        for step in (early, late)
    }
    changes.draw([view.model.name], models, pages.TRAINING)


def _pick_head(view: View, habits: Mapping[int, Measured]) -> tuple[int, int]:
    """Return the chosen head; by default the one with the highest final induction score."""
    if not habits:
        return controls.layer_and_head(view)
    last = np.nan_to_num(habits[max(habits)].scores["induction"], nan=-1.0)
    best = divmod(int(last.argmax()), last.shape[1])
    return controls.layer_and_head(view, lambda _layer, _head: best)


def _births(
    view: View, steps: Sequence[int], habits: Mapping[int, Measured], chosen: tuple[int, int]
) -> tuple[int, int]:
    """Say when the chosen head formed, and another, which is picked here and returned."""
    config = view.model.config
    heads = [_name((n, h)) for n in range(config.n_layer) for h in range(config.n_head)]
    last = habits[steps[-1]].scores if habits else {}
    other = partner(last, *chosen) if last else chosen
    with st.container(key="births", horizontal=True, vertical_alignment="center"):
        words = st.container()
        picked: str = st.selectbox(
            "Beside it",
            format_func=lambda name: f"compare head {name}",
            label_visibility="collapsed",
            width=185,
            **address.choice(parameters.AGAINST, heads, _name(other)),
        )
    beside = head_of(picked)
    if last:
        births = [_birth_in_words(steps, habits, head) for head in dict.fromkeys((chosen, beside))]
        prose.markdown(" ".join(births), slot=words)
    else:
        prose.caption("This model reads too few tokens at once to measure its heads.", slot=words)
    return beside


def _birth_in_words(
    steps: Sequence[int], habits: Mapping[int, Measured], head: tuple[int, int]
) -> str:
    """Say in a sentence when a head formed, as far as checkpoints have been scored."""
    known = [step for step in steps if step in habits]
    habit, born = _birth(known, habits, head)
    values = {"head": f"**{_name(head)}**", "habit": SCORES[habit].title}
    if born.point is None:
        return sentence("training.no_habit", score=born.last, **values)
    if len(known) < len(steps):
        return sentence("training.being_read", score=born.last, **values)
    if born.point == 0:
        return sentence("training.from_the_start", step=known[0], **values)
    before, by = known[born.point - 1], known[born.point]
    return sentence("training.formed", before=before, by=by, **values)


def _birth(
    known: Sequence[int], habits: Mapping[int, Measured], head: tuple[int, int]
) -> tuple[str, Emergence]:
    """Return a head's main habit at the last of the ``known`` steps, and when it emerged."""
    habit = main_habit(habits[known[-1]].scores, *head)
    return habit, emergence(np.array([habits[step].scores[habit][head] for step in known]))


def _new_heads(view: View, training: Steps, habits: Mapping[int, Measured]) -> list[str]:
    """List the heads that formed at each step, highest score first; "" until all are scored."""
    if len(habits) < len(training):
        return [""] * len(training)
    formed: dict[int, list[tuple[float, str]]] = {step: [] for step in training}
    config, dated = view.model.config, training.dated
    for head in product(range(config.n_layer), range(config.n_head)):
        habit, born = _birth(dated, habits, head)
        if born.point:
            formed[dated[born.point]].append((-born.last, f"{_name(head)} {SCORES[habit].title}"))
    return [_heads_in_words([name for _, name in sorted(heads)]) for heads in formed.values()]


def _heads_in_words(heads: list[str]) -> str:
    return sentence("training.form_here", heads=first_few(heads, 3)) if heads else ""


def _curves(
    seen: Mapping[int, CheckpointRun],
    habits: Mapping[int, Measured],
    chosen: tuple[int, int],
    beside: tuple[int, int],
) -> dict[str, Curves]:
    """Return curves of the losses, and of both heads' scores, at all steps computed so far."""
    habit = main_habit(habits[max(habits)].scores, *beside) if habits else "induction"
    return {
        "loss": losses_at_steps(
            "Loss during training",
            {step: run.loss for step, run in seen.items()},
            {step: (habit.first, habit.again) for step, habit in habits.items()},
        ),
        "score": scores_at_steps(
            f"Scores of head {_name(chosen)} and head {_name(beside)} during training",
            {step: measured.scores for step, measured in habits.items()},
            chosen,
            beside,
            habit,
        ),
    }


def _slider(
    view: View,
    training: Steps,
    at: int,
    seen: Mapping[int, CheckpointRun],
    curves: Mapping[str, Curves],
    chosen: tuple[int, int],
    habits: Mapping[int, Measured],
) -> None:
    """Draw the slider over checkpoints, each with its pictures beside the finished model's.

    All checkpoints computed so far are in the browser, so dragging needs no server. When the slider
    rests, its step goes into the address, and missing checkpoints are requested.
    """
    final = checkpoint_runs.final(view.trace.key)
    of_run = _pictures(view, f"step {at:,}", seen[at], final, chosen)
    alt = [output.remember(picture) for picture in of_run]
    alt += [output.remember(picture, of_run=False) for picture in curves.values()]
    read = checkpoint_runs.tokens_read(view.model.name)
    points = [_point(view, seen[step]) if step in seen else None for step in training]
    data = _heads(view, *of_run[:2]) | {
        "script": "steps",
        "alt": f"Checkpoints of the training of {view.model.name}. {' '.join(alt)}",
        "steps": list(training),
        "when": [
            f"step {step:,}" + (f" · {short(read[step])} tokens read" if step in read else "")
            for step in training
        ],
        "at": list(training).index(at),
        "points": points,
        "final": _point(view, final),
        "stages": ["embeddings", *(f"layer {n}" for n in range(view.model.config.n_layer))],
        "more": None in points or not checkpoint_runs.are_all_scored(view.model.name),
        "curves": {name: chart(of, view.colors) for name, of in curves.items()},
        "scores": f"Scores of head {_name(chosen)} on random tokens, repeated",
        "formed": _new_heads(view, training, habits),
    }
    n_head = view.model.config.n_head
    on: Answers = {
        "step": lambda step: address.put(parameters.STEP, int(step)),
        "head": lambda head: choose_head(*divmod(int(head), n_head)),
        "more": None,
    }
    mount(data, key="steps", on=on)
    shown = [picture.what for picture in (*of_run, *curves.values())]
    output.code(Attend, measure_probe, emergence, logit_lens, of=shown)


def _heads(view: View, picture: Thumbnails, large: Heatmaps) -> dict[str, Any]:
    """Return the map and the chosen head without numbers, masked cells, and the bars' colours."""
    plain = {"chooses": False, "drags": False, "asks": [], "alt": large.what}
    return {
        "map": map_header(picture)
        | {"bare": True, "tallest": _MAP_TALL, "arrows": [], "alt": _MAP_ALT},
        "large": header(large, view.colors) | plain | {"tallest": _LARGE_TALL},
        "hidden": "".join("01"[int(cell)] for cell in picture.hidden.ravel()),
        "bars": view.colors.cases(2),
    }


def _pictures(
    view: View, point: str, here: CheckpointRun, final: CheckpointRun, chosen: tuple[int, int]
) -> tuple[Thumbnails, Heatmaps, Bars, Lens]:
    """Return the pictures of the checkpoint ``point``, the last three beside the final ones."""
    drawn = Thumbnails(
        f"Attention weights of every head at {point}: layers down, heads across",
        here.tiles,
        view.trace.hidden_pairs(),
        view.labels,
        chosen=chosen,
    )
    lens = lens_of_runs(
        f"Logit lens after the last token, at {point} and in the model itself",
        {point: here.lens, "the model itself": final.lens},
        run_cache.vocabulary(view.model.name),
    )
    beside = _one_head(view, point, drawn, final, chosen)
    return drawn, beside, _next_token_bars(view, point, here, final), lens


def _one_head(
    view: View, point: str, drawn: Thumbnails, final: CheckpointRun, chosen: tuple[int, int]
) -> Heatmaps:
    """Return the chosen head at the checkpoint ``point``, and in the finished model."""
    head, number = _name(chosen), chosen[0] * view.model.config.n_head + chosen[1]
    panels = [
        replace(heads.matrices[number], title=f"Head {head}, {when}", name=name)
        for heads, when, name in (
            (drawn, point, "then"),
            (replace(drawn, tiles=final.tiles), "the model itself", "now"),
        )
    ]
    what = f"Weights of head {head} at {point} and in the model itself"
    return Heatmaps(what, panels, n_columns=2, numbers=NUMBERS_FIT_LARGE)


def _next_token_bars(view: View, point: str, here: CheckpointRun, final: CheckpointRun) -> Bars:
    """Return the probabilities of tokens that are probable at this checkpoint or at the end."""
    ids = list(dict.fromkeys(n for run in (here, final) for n, _ in run.following))
    return probability_bars(
        f"Next-token probabilities at {point} and in the model itself",
        [_token(view, n) for n in ids],
        {
            when: [100 * dict(run.following).get(n, np.nan) for n in ids]
            for when, run in ((point, here), ("the model itself", final))
        },
    )


def _point(view: View, run: CheckpointRun) -> dict[str, Any]:
    """Return a run's data for the browser: its weights, the most probable next tokens with their
    probabilities, the most probable after each layer, and the sentence's loss."""
    lens = run.lens  # its rows at the embeddings and after each layer
    rows = [n for n, (key, _layer) in enumerate(lens.sites) if key != "residual_mid"]
    return {
        "tiles": _pack(run.tiles),
        "next": [(_token(view, n), share) for n, share in run.following],
        "lens": [(_token(view, int(lens.top[n, 0])), float(lens.probability[n, 0])) for n in rows],
        "loss": run.loss if isfinite(run.loss) else None,
    }


def _pack(tiles: Array) -> str:
    """Pack weights in [0, 1] as base64 of little-endian 16-bit numbers, NaN as the largest."""
    whole = np.round(np.nan_to_num(tiles, nan=1.0) * (_NAN_CODE - 1))
    return b64encode(np.where(np.isnan(tiles), _NAN_CODE, whole).astype("<u2").tobytes()).decode()


def _token(view: View, token: int) -> str:
    return label(view.model.tokenizer.token_bytes(token))


def _name(head: tuple[int, int]) -> str:
    return f"{head[0]}.{head[1]}"


def _notes(view: View) -> None:
    """Explain the measures, with their definitions and sources."""
    prose.markdown(
        "A head **forms** at the first checkpoint at which its main habit reaches half of its "
        f"final score. Habits that end below {LEAST:g} don't count. Scores and the losses on "
        "random tokens are means over eight texts: up to 32 tokens, repeated, mask on.\n\n"
        "Between checkpoints the film blends the weights that it draws. Every number and label is "
        "a checkpoint's own.\n\n"
        "The **logit lens** stops after each layer and asks for a prediction (nostalgebraist "
        "2020). Only its bottom row is the model's own.\n\n"
        "An **induction head** copies: it looks at what followed the token's previous occurrence. "
        "It builds on a head of a lower layer that looks one token back, so that one forms first. "
        "As it forms, the loss on repeated tokens falls (Olsson et al. 2022)."
    )
    if view.n_tokens > THUMBNAIL:
        prose.markdown(sentence("attention.pooled", size=THUMBNAIL))

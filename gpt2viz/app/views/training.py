"""Training: how the model learned, and when each of its heads began to do its work."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from gpt2viz import CheckpointError
from gpt2viz.analysis.batch_scores import batch_score, token_losses
from gpt2viz.analysis.scores import SCORES, Read, Score
from gpt2viz.anatomy.training_record import TrainingRecord
from gpt2viz.app import address, output, pages, parameters, prose, run_cache
from gpt2viz.app.clicks import open_head
from gpt2viz.app.frame import page
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.app.views import births
from gpt2viz.pictures.training import loss_curves, score_growth

#: What the model read when its heads were scored.
READ: Mapping[Read, str] = {"text": "held-out text", "probe": "random tokens, repeated"}


def show() -> None:
    """Draw the page."""
    view = page.open_page(pages.TRAINING, choosing="")
    if births.draw(view):
        st.divider()
    record = _record_or_stop(view)
    losses, heads = st.columns([5, 6], gap="large")
    with losses:
        _losses(view, record)
    with heads:
        _growth(view, record)
    card = run_cache.card(view.model.name)
    if card:
        with st.expander("The model's card: data, figures, what it can't do"):
            st.markdown(card.text)


def _losses(view: View, record: TrainingRecord) -> None:
    """The loss as training went on."""
    last = len(record.tokens) - 1
    st.markdown(f"**What {record.tokens[last] / 1e6:.1f} million tokens taught it**")
    output.picture(
        loss_curves("Loss on held-out text and on random tokens, by tokens read", record),
        view.colors,
        key="losses",
        of_run=False,
        made_by=(token_losses,),
    )
    measured = f", here over {n} contexts of held-out text" if (n := record.held_out_rows) else ""
    prose.caption(
        f"The weights were measured {last + 1} times during training. The curves are about "
        "the model, not the sentence above. Loss is −ln of the probability given to the token that "
        f"came next, on average{measured}; one nat is 1.44 bits. Random tokens "
        "can't be predicted the first time. When they are repeated, a model that has learned to "
        "**copy** can predict them: the two curves for random tokens part."
    )


def _growth(view: View, record: TrainingRecord) -> None:
    """A score of every head as training went on."""
    shown = _score(record)
    with st.container(key="growth"):
        output.picture(
            score_growth(f"{shown.name} score of every head during training", record, shown.name),
            view.colors,
            key="score_growth",
            of_run=False,
            made_by=(batch_score, *shown.code),
            then=lambda cell: open_head(*divmod(cell.row, view.model.config.n_head)),
        )
    prose.caption(
        f"**{shown.name.capitalize()}**, on {READ[shown.measured_on]}. {shown.words} Click a row "
        "to look inside that head."
    )
    if record.set_heads:
        named = ", ".join(f"{layer}.{head}" for layer, head in record.set_heads)
        prose.caption(
            f"Head {named} was **set** to look one token back; training left its queries and keys "
            "alone. All other heads found their jobs themselves, starting from random numbers."
        )


def _record_or_stop(view: View) -> TrainingRecord:
    """The model's record; where there is none, one message and the end of the page."""
    try:
        record = run_cache.training(view.model.name)
    except CheckpointError as error:
        st.error(literal(str(error)), icon=":material/error:")
        st.stop()
    if record is None:
        st.info(
            "This model's folder has no `training.json`, so what was measured as it learned "
            "can't be shown. The bundled model has one: choose it above.",
            icon=":material/info:",
        )
        st.stop()
    return record


def _score(record: TrainingRecord) -> Score:
    """Pick what the heads were scored for, of what the record has."""
    followed = list(record.scores)
    first = "induction" if "induction" in followed else followed[0]
    with st.container(horizontal=True):
        chosen: str = st.segmented_control(
            "Score of every head",
            followed,
            required=True,
            **address.choice(parameters.SCORE, followed, first),
        )
    return SCORES[chosen]

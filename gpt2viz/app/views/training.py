"""What the Training page asks and says: which score, what it means, and where no record is."""

from __future__ import annotations

import streamlit as st

from gpt2viz import CheckpointError
from gpt2viz.analysis.batch_scores import first_token_score, induction_score, previous_token_score
from gpt2viz.anatomy.training_record import SCORES, TrainingRecord
from gpt2viz.app import address, run_cache
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal

MEANING = {
    "previous token": "**Previous token**: mean weight on the token just before, on held-out text.",
    "induction": "**Induction**: mean weight on the token that followed an earlier occurrence of "
    "the query's token, on random tokens, repeated (Olsson et al. 2022). Such a head lets the "
    "model copy what it has never seen.",
    "first token": "**First token**: mean weight on the first token, on held-out text. A head "
    "rests there when it finds nothing to do (Xiao et al. 2023).",
}

#: The functions that took the scores.
MADE_BY = {
    "previous token": previous_token_score,
    "induction": induction_score,
    "first token": first_token_score,
}


def record_or_stop(view: View) -> TrainingRecord:
    """The model's record; where there is none, one message and the end of the page."""
    try:
        record = run_cache.training(view.model.name)
    except CheckpointError as error:
        st.error(literal(str(error)), icon=":material/error:")
        st.stop()
    if record is None:
        st.info(
            "This model's folder has no `training.json`, so how it learned can't be shown. The "
            "bundled model has one: choose it above.",
            icon=":material/info:",
        )
        st.stop()
    return record


def score() -> str:
    """Pick what the heads were scored for."""
    chosen: str = st.segmented_control(
        "Score of every head",
        list(SCORES),
        required=True,
        **address.choice("score", list(SCORES), "induction"),
    )
    return chosen

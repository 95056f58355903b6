"""Two checkpoints over many texts: the heads that changed, example texts, and what undoes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gpt2viz import CheckpointError, Model, sampling_distribution
from gpt2viz.analysis.model_changes import MEASURES, Pair
from gpt2viz.analysis.restored import next_logits
from gpt2viz.app import address, jobs, output, parameters, prose, run_cache
from gpt2viz.app.clicks import choose_head, choose_map_head, page_link
from gpt2viz.app.jobs import Job
from gpt2viz.app.literal import literal
from gpt2viz.app.pages import Page
from gpt2viz.app.parameters import Parameter
from gpt2viz.app.views import measures
from gpt2viz.arrays import largest
from gpt2viz.labels import pluralize, sentence
from gpt2viz.pictures.patching import undone_curve
from gpt2viz.pictures.prediction import probability_bars
from gpt2viz.survey.changes import Changes, Moved, TextChange, compare_models
from gpt2viz.survey.stored import Passage

#: How many next tokens are drawn.
_BEST = 8
#: Tokens of a passage.
_TOKENS = 64
#: The share of the change to undo.
_SHARE = 0.9
_TITLES = {
    "own output": "Output, by its own weights",
    "own pattern": "Pattern, by its own weights",
    "output": "Output in the whole model",
    "pattern": "Pattern in the whole model",
}


# Each job holds two models, so only the last two jobs are cached.
@st.cache_resource(max_entries=2, show_spinner=False, hash_funcs={partial: repr})
def _comparison(
    load_before: partial[Model], load_after: partial[Model], texts: tuple[str, ...]
) -> Job:
    """Return the job that compares a model with a later one over texts."""

    def compare(job: Job) -> Changes:
        model = load_before()
        return compare_models(
            model,
            load_after(),
            texts,
            n_tokens=min(_TOKENS, model.config.n_positions),
            progress=lambda done, of: job.tell(done / of),
        )

    return Job(compare)


@st.cache_resource(max_entries=2, show_spinner=False, hash_funcs={Changes: id})
def _restoring(changes: Changes) -> Job:
    """Return the job that puts back one piece after the other, until the changes are undone."""
    return Job(lambda job: changes.restore(_SHARE, job.report))


def draw(
    sources: Sequence[str],
    models: Mapping[str, partial[Model]],
    page: Page,
    further: Mapping[Parameter, Any] = MappingProxyType({}),
) -> None:
    """Compare two models over texts, and draw what changed.

    ``models`` are functions that load them, by name, the earlier model first; ``sources`` name
    models with the same vocabulary, whose surveys are the default texts. A passage links to
    ``page`` with its text and ``further`` choices, to see both heads on it.
    """
    results = st.container()  # above the texts that decide them
    texts = _texts(sources)
    if not texts:
        prose.caption("Put in some texts, one on each line: five or more give intervals.")
        return
    (before, after), names = models.values(), (*models,)
    job = _comparison(before, after, texts)
    offer = f"Compare over {pluralize(len(texts), 'texts')}"
    with results:
        started = jobs.run([job], "Comparing", offer, "changes")
        if started and (changes := job.result) is not None:
            _heads(changes, (names[0], names[1]))
            _passage(changes, sources[0], page, further)
            _undo(changes)


def _texts(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the user's own texts, or the passages of a model's survey, joined by document."""
    passages: dict[int, set[str]] = {}
    for passage in _survey_passages(sources):
        passages.setdefault(passage.document, set()).add(passage.text)
    with st.expander("Texts", expanded=not passages):
        typed: str = st.text_area(
            "One text on each line",
            placeholder="If there are none: the passages of the model's survey" if passages else "",
            **address.text(parameters.TEXTS, one_line=False),
        )
    own = tuple(line.strip() for line in typed.splitlines() if line.strip())
    return own or tuple("\n".join(sorted(texts)) for _, texts in sorted(passages.items()))


def _survey_passages(sources: Sequence[str]) -> Sequence[Passage]:
    """Return the passages of the first model that has a survey."""
    for name in sources:
        try:
            if (survey := run_cache.survey(name)) is not None:
                return survey.best
        except CheckpointError:
            continue
    return ()


def _heads(changes: Changes, names: tuple[str, str]) -> None:
    """Draw a map of how far each head moved, and beside it the list of heads."""
    chosen = address.get(parameters.LAYER), address.get(parameters.HEAD)
    left, right = st.columns([1, 1], gap="medium")
    with left:
        measure: str = st.selectbox(
            "How far did each head move?",
            label_visibility="collapsed",
            **address.choice(parameters.MOVED, _TITLES),
        )
        measures.draw_head_map(
            changes.mean[measure],
            measure,
            chosen,
            f"How far each head moved: {_TITLES[measure]}",
            key="changes_map",
            made_by=(Pair,),
            choose=choose_map_head(),
            scale="unit" if "pattern" in measure else "amount",
            numbers=16,
        )
    with right:
        _list(changes, names)
    with st.expander("How this is measured"):
        prose.markdown(
            "**Output**: how far apart the vectors are that a head writes, as a share of the "
            "residual stream that it reads. **Pattern**: the part of each row of weights that "
            "moved to other tokens, from 0 to 1. **By its own weights**: the new head reads the "
            "stream of the old model, so that changes below it don't count. A head is marked as "
            "changed if its own output moved more than twice as far as rounding to 16 bits would "
            "move it; of those marked, at most 5 % are expected to be there by chance "
            "(Benjamini & Hochberg 1995)."
        )


def _list(changes: Changes, names: tuple[str, str]) -> None:
    """Describe the change in words, and list all heads by how far they moved."""
    prose.markdown(literal(changes.words()))
    (before, _), (after, _) = changes.loss.values()
    models = sentence("changes.models", before=names[0], after=names[1])
    losses = sentence("changes.losses", before=before, after=after)
    prose.caption(f"{literal(models)} {losses}")
    rows = [
        {"Head": head.name, "Changed": head.changed}
        | {name.capitalize(): head.moved[name].mean for name in MEASURES}
        | {"95 %": _interval(head.moved["own output"])}
        | {"Rounding": head.moved["own output"].rounding}
        for head in changes.heads
    ]
    numbers = dict.fromkeys([*map(str.capitalize, MEASURES), "Rounding"], "%.3f")
    heads = [(head.layer, head.head) for head in changes.heads]
    output.table(
        pd.DataFrame(rows), "Heads by how far they moved", key="changes_heads",
        formats=numbers, tallest=280, choose=lambda row: choose_head(*heads[row]),
    )  # fmt: skip


def _interval(moved: Moved) -> str:
    return "" if np.isnan(moved.low) else f"{moved.low:.3f} to {moved.high:.3f}"


def _passage(changes: Changes, source: str, page: Page, further: Mapping[Parameter, Any]) -> None:
    """Draw the text on which the chosen head moved most, and the switch that puts it back."""
    layer, head = address.get(parameters.LAYER), address.get(parameters.HEAD)
    texts = changes.texts_of(layer, head)
    prose.markdown(f"#### Head {layer}.{head}")
    if not texts:
        prose.caption("This head did not move on these texts.")
        return
    text = texts[0]
    token = text.tokens[text.query].strip()
    prose.markdown(
        sentence("changes.text", head=f"{layer}.{head}", text=literal(" ".join(text.text.split())),
                 token=literal(token))
    )  # fmt: skip
    here = {**further, parameters.TEXT: text.text, parameters.QUERY: text.query}
    page_link(page, "See both heads on this text", "compare", here)
    if st.toggle(f"Put the old head {layer}.{head} back", key="changes_back"):
        _put_back(changes, source, text)


def _put_back(changes: Changes, source: str, text: TextChange) -> None:
    """Draw the next tokens of both models, and of the new model with the old head."""
    ids = changes.before.tokenizer.encode(text.text)
    pieces = {"old": None, "new": (), "new with the old head": ((text.layer, text.head),)}
    cases = {
        name: sampling_distribution(next_logits(changes.before, changes.after, ids, piece))
        for name, piece in pieces.items()
    }
    shown = largest(np.max([*cases.values()], axis=0), _BEST)
    names = run_cache.vocabulary(source)
    output.picture(
        probability_bars(
            "The most probable next tokens of both models, and with the old head put back",
            [names[n] for n in shown],
            {name: (100 * p[shown]).tolist() for name, p in cases.items()},
        ),
        key="changes_next",
        made_by=(next_logits,),
    )


def _undo(changes: Changes) -> None:
    """Draw the fewest old heads and MLPs that undo the change, and the share undone after each."""
    prose.markdown("#### What undoes the change?")
    job = _restoring(changes)
    offer = "Put old heads and MLPs back, one by one"
    if not jobs.run([job], "Putting pieces back", offer, "undo"):
        prose.caption("Each time the one that undoes most of the change in the predictions.")
        return
    if (result := job.result) is None or not result.pieces:
        return
    prose.markdown(result.words())
    output.picture(
        undone_curve("Share of the change that is undone, piece by piece", result),
        key="undone",
        made_by=(Changes.restore,),
    )

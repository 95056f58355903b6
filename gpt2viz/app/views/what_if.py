"""The page What if: edit a run, or patch between runs to see what the answer depends on."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import labels, logit_lens
from gpt2viz.analysis.comparison import largest_differences
from gpt2viz.app import address, output, pages, parameters, prose, run_cache
from gpt2viz.app.clicks import choose_map_head
from gpt2viz.app.components import lines
from gpt2viz.app.frame import controls, page_fragment, sentence
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View, Window
from gpt2viz.app.views import depends, measures, two_runs, zoom
from gpt2viz.app.views import edits as editing
from gpt2viz.app.views.two_runs import Head, Sides, Weights
from gpt2viz.pictures.palette import LOWER, UPPER
from gpt2viz.pictures.prediction import lens_of_runs
from gpt2viz.run.interventions import changes


def show() -> None:
    """Draw the page."""
    page_fragment.draw(pages.WHAT_IF, _modes, _hint)


def _hint() -> str:
    """Return a hint on what choosing a token of the sentence does."""
    return "" if address.raw(parameters.WHAT_IF) == "depends" else sentence.LIGHT_UP


def _modes(view: View) -> None:
    """Pick a mode and draw it."""
    choices = st.container(key="new_edit", horizontal=True, vertical_alignment="center")
    with choices:
        mode = controls.mode(pages.WHAT_IF)
    if mode == "depends":
        depends.draw(view, choices)
    else:
        _draw_edits(view, choices)


def _draw_edits(view: View, choices: DeltaGenerator) -> None:
    """Draw the run beside the edited one."""
    both = editing.both_runs(view, choices)
    edits = both.b.trace.edits
    if edits:
        output.run("The changed run", both.b.trace)

    part = zoom.window(view)
    with st.container(key="shown", horizontal=True, vertical_alignment="center"):
        st.markdown("**Shown**", width="content")  # the other layer and head are the new edit's
        opening = editing.opening(view)
        layer, head = (pick(view, opening=opening) for pick in (controls.layer, controls.head))
        at = layer, None if two_runs.pick_whole() else head
        as_lines = lines.switch(part)
        st.caption(f"{UPPER.capitalize()}: the weight rose; {LOWER}: it fell.", width="content")
    weights = _weights(both, part, at, as_lines)
    next_tokens, changed_heads = st.columns([8, 5], gap="medium")
    with changed_heads, st.container(gap="xsmall"):
        _changed_heads(both, at)
    with next_tokens, st.container(gap="xsmall"):
        changed = _next_tokens(both)

    prose.caption(
        "The **whole model runs again** with the edits, which accumulate and are kept in the link. "
        "An edit of a head, attention or an MLP changes only the weights of later layers. Other "
        "pages show the unedited model unless they say otherwise."
    )
    editing.note_means(view, edits)
    measures.proof(view, [layer], "the baseline's run")
    if edits:
        _changes(both, changed)
        _lenses(both)
        two_runs.draw_rows(both, weights)
        paths = two_runs.paths({"baseline and changed": both.traces}, (both.a.token, both.b.token))
        two_runs.draw_paths(both, paths)


def _weights(both: Sides, part: Window, at: Head, as_lines: bool) -> Weights:
    """Draw the weights of a head in both runs, and their difference; return the whole text's."""
    (layer, head), edited = at, both.b.trace.edits
    titles = both.a.title(at), both.b.title(at)
    weights = two_runs.weights(both, (at, at), titles, "Changed − baseline")
    which = "mean of heads" if head is None else f"head {head}"
    shown, what = weights.fit((part, part)), f"Weights of layer {layer}, {which}"
    hint = (
        "Click a cell to block that link in every head; click again to restore it."
        if part.exact
        else "Drag over a part of the text first, then click a cell there to block that link."
    )
    if edited and not weights.change.values.any():
        hint += " **These weights are the same in both runs.**"
    with st.container(key="whatif", gap="xsmall"):
        two_runs.draw(
            both,
            shown,
            (f"{what}, baseline and changed", f"{what}, changed − baseline"),
            as_lines=as_lines,
            made_by=(Line(both.b.trace, "weights", layer), changes),
            tokens=(lines.put_query, lines.put_query),
            choose=editing.hide(both.a.view, part, shown.a),
            drag=part.drag(shown.a),
            hint=hint,
        )
    return weights


def _next_tokens(both: Sides) -> pd.DataFrame:
    """Draw both predictions after the token; return the largest changes of a probability."""
    view, position = both.a.view, both.a.token
    prose.markdown(f":small[**What comes after {view.token_name(position)}**]")
    table = two_runs.compare_predictions(
        both,
        ("baseline", "changed"),
        ["Baseline: most likely next", "Changed: most likely next"],
    )
    if table.empty and both.b.trace.edits:
        prose.caption("Identical predictions.")
    return table


def _changes(both: Sides, table: pd.DataFrame) -> None:
    """Draw the largest changes of next-token probabilities."""
    if table.empty:
        return
    prose.markdown("#### Which next tokens rose and fell most")
    two_runs.draw_changes(
        table,
        key="changes",
        alt=f"Tokens whose probability rose or fell most after token {both.a.token}",
        name="Largest changes of next-token probabilities",
        order="The largest rises, then the largest falls, over the whole vocabulary.",
        made_by=(Line(both.b.trace, "last_logits"),),
    )


def _lenses(both: Sides) -> None:
    """Draw the logit lens after the token in both runs, on the same answer."""
    prose.markdown("#### When is it decided, before and after? The logit lens")
    names, at = both.vocabulary(), (both.a.token,)
    before = run_cache.lens(both.a.trace.key, at)
    answers = tuple(int(n) for n in before.answer)
    changed = run_cache.lens(both.b.trace.key, at, answers)
    paths = {"baseline": before, "changed": changed}
    prose.caption(labels.sentence("what_if.lens", answer=literal(names[answers[0]])))
    output.picture(
        lens_of_runs(
            "Most probable next token at every step of the baseline's and the changed stream",
            paths,
            names,
        ),
        key="lens_runs",
        made_by=(logit_lens,),
    )


def _changed_heads(both: Sides, shown: Head) -> None:
    """Draw the largest change of a weight in every head; a click shows the head above."""
    if not (both.b.trace.edits and all(run.explicit for run in both.traces)):
        return
    prose.markdown(
        ":small[**Which heads changed most?**]",
        help=prose.tip("The largest change of any weight of each head. Click one to see it above."),
    )
    with st.container(key="where"):
        measures.draw_head_map(
            both.head_differences(),
            "largest difference",
            shown,
            "Largest change of a weight in every head",
            key="where_map",
            made_by=(largest_differences,),
            choose=choose_map_head({parameters.WHOLE: False}),
            height=226,  # on one screen with the matrices of that head
            numbers=16,
        )

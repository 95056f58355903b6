"""What if: change something inside the model, run it again, and compare the two runs."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from gpt2viz import Edit, Trace, logit_lens
from gpt2viz.analysis.comparison import largest_differences
from gpt2viz.app import output, prose, run_cache
from gpt2viz.app.clicks import choose_map_head, on_click
from gpt2viz.app.components import lines
from gpt2viz.app.frame import controls, page
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.views import edits as editing
from gpt2viz.app.views import find_a_head, measures, two_predictions, zoom
from gpt2viz.app.views.zoom import Window
from gpt2viz.pictures.from_trace import difference, difference_in_words
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.plotly.find import head_map
from gpt2viz.pictures.plotly.heatmap import heatmaps
from gpt2viz.pictures.plotly.lens import lens_of_runs
from gpt2viz.pictures.plotly.runs import weights_of_runs
from gpt2viz.run.interventions import changes


def show() -> None:
    """Draw the page."""
    view = page.open_page("What if")
    prose.markdown(
        "Change something inside the model, and the **whole model runs again** with it. Edits add "
        "up; they act on this page only, and the link carries them."
    )
    edits = editing.edits()
    choice, chosen = st.columns([6, 5], gap="large")
    with choice:
        editing.pick(view)
    with chosen:
        editing.listed(view, edits)
    editing.stop_where_impossible(view, edits)
    baseline = view.trace
    changed = run_cache.run(replace(baseline.key, edits=edits))
    if edits:
        output.run("The changed run", changed)

    prose.markdown("#### Attention weights")
    part = zoom.window(view)
    with st.container(horizontal=True, gap="large", vertical_alignment="bottom"):
        layer, head = controls.layer(view), controls.head(view)
        as_lines = lines.wanted(part)
    before = _weights(view, part, changed, (layer, head), as_lines, bool(edits))
    measures.proof(view, [layer], "the baseline's run")
    on_click("whatif", editing.hide(view, part, before), part.drag(before))

    page.stop_without_numbers(baseline, changed)
    position = view.n_tokens - 1 if view.query is None else view.query
    _next_tokens(view, changed, position, bool(edits))
    if edits:
        _lenses(view, edits, position)
    if edits and baseline.explicit and changed.explicit:
        _where(view, changed, layer, head)


def _weights(
    view: View, part: Window, changed: Trace, at: tuple[int, int], as_lines: bool, edited: bool
) -> Panel:
    """The weights of the head ``at`` (layer, head) in both runs, and their difference.

    Returns the picture of the baseline, whose axes all of them have.
    """
    layer, head = at
    runs = {"Baseline: the model as it is": view.trace, "Changed": changed}
    whole = weights_of_runs(runs, view.labels, layer, head)
    panels = [part.fit(panel) for panel in whole]
    change = part.fit(difference(whole[0], whole[1], "Changed − baseline"))
    if edited and not change.values.any():
        prose.caption(
            "This head's weights are the same in both runs. An edit of a head, of attention or of "
            "an MLP shows only in the weights of later layers, which read what it wrote."
        )
    with st.container(key="whatif"):
        both, third = st.columns([2, 1.2])
        with both:
            _before_and_after(view, panels, changed, at, as_lines)
        figure = heatmaps(
            [change],
            view.colors,
            scale="signed",
            height=360,
            row=view.query,
            bar="difference of weights",
        )
        output.picture(
            figure,
            place=third,
            key="weight_change",
            alt=change.named(f"Weights of layer {layer}, head {head}, changed − baseline"),
            made_by=(difference,),
            shrinks=True,
        )
    cell = "a cell of the difference" if as_lines else "a cell"
    prose.caption(
        difference_in_words("Changed − baseline", "the baseline", "the changed run")
        + (
            f" Click {cell} to hide its key from its query in every head; click again to undo it."
            if part.exact
            else " Drag over a part of the text first; a click on a cell there hides a key from a "
            "query."
        )
    )
    return panels[0]


def _before_and_after(
    view: View, panels: list[Panel], changed: Trace, at: tuple[int, int], as_lines: bool
) -> None:
    """The weights of both runs as matrices or lines."""
    layer, head = at
    alt = panels[0].named(f"Weights of layer {layer}, head {head}, baseline and changed")
    made_by = (Line(changed, "weights", layer), changes)
    if as_lines:
        lines.two_by_two(view, panels, key="run_lines", alt=alt)
        output.code(*made_by, of=[alt])
        return
    figure = heatmaps(
        panels, view.colors, n_columns=2, height=360, row=view.query, bar="attention weight"
    )
    output.picture(figure, key="before_after", alt=alt, made_by=made_by, shrinks=True)


def _next_tokens(view: View, changed: Trace, position: int, edited: bool) -> None:
    """What comes after the token at ``position`` in both runs."""
    prose.markdown(f"#### What comes after token {position} “{literal(view.labels[position])}”")
    table = two_predictions.compare(
        [run.logits_at(position) for run in (view.trace, changed)],
        ("baseline", "changed"),
        ["Baseline: most probable next", "Changed: most probable next"],
        run_cache.vocabulary(view.model.name),
    )
    if len(table):
        two_predictions.draw(
            table,
            view.colors,
            key="changes",
            alt=f"Tokens whose probability rose or fell most after token {position}",
            name="Largest changes of next-token probabilities",
            order="The largest rises, then the largest falls, over the whole vocabulary.",
            made_by=(Line(changed, "last_logits"),),
        )
    elif edited:
        prose.caption("No probability has changed after this token.")


def _lenses(view: View, edits: tuple[Edit, ...], position: int) -> None:
    """The logit lens after the token at ``position`` in both runs."""
    prose.markdown("#### When is it decided, before and after? The logit lens")
    names = run_cache.vocabulary(view.model.name)
    key, at = view.trace.key, (position,)
    before = run_cache.lens(key, at)
    answers = tuple(int(n) for n in before.answer)
    changed = run_cache.lens(replace(key, edits=edits), at, answers)
    paths = {"baseline": before, "changed": changed}
    output.picture(
        lens_of_runs(paths, names, view.colors),
        key="lens_runs",
        alt="Most probable next token at every step of the baseline's and the changed stream",
        made_by=(logit_lens,),
    )
    prose.caption(
        "The stream of each run after every step, read as if that step were the last "
        "(nostalgebraist 2020). In both, the rank followed is that of the baseline's answer: "
        f"“{literal(names[answers[0]])}”."
    )


def _where(view: View, changed: Trace, layer: int, head: int) -> None:
    """How far the weights of every head differ at most; a click shows the head above."""
    prose.markdown("#### Which heads now look elsewhere")
    with st.container(key="where"):
        same = [(n, n) for n in range(view.n_tokens)]
        found = largest_differences(view.trace, changed, same)
        figure = heatmaps(
            [head_map(found, "largest change of a weight")],
            view.colors,
            height=find_a_head.map_height(view),
            numbers=16,
            row=layer,
            column=head,
            bar="largest change",
            legend=False,
        )
        output.picture(
            figure,
            key="where_map",
            alt="Largest change of a weight in every head",
            made_by=(largest_differences,),
        )
    prose.caption("Click a head to see its weights above.")
    on_click("where", choose_map_head())

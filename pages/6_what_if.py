"""What if: change something inside the model, run it again, and compare the two runs."""

import streamlit as st

from gpt2viz import logit_lens
from gpt2viz.analysis.comparison import largest_differences
from gpt2viz.app import output, prose, run_cache
from gpt2viz.app.clicks import choose_map_head, on_click
from gpt2viz.app.components import lines
from gpt2viz.app.frame import controls, page
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.views import find, measures, two_predictions, what_if, zoom
from gpt2viz.pictures.from_trace import difference, difference_in_words
from gpt2viz.pictures.plotly.find import head_map
from gpt2viz.pictures.plotly.heatmap import heatmaps
from gpt2viz.pictures.plotly.lens import lens_of_runs
from gpt2viz.pictures.plotly.runs import weights_of_runs
from gpt2viz.run.interventions import changes

view = page.open_page("What if")
prose.markdown(
    "Change something inside the model, and the **whole model runs again** with it. Edits add up; "
    "they act on this page only, and the link carries them."
)
edits = what_if.edits()
choice, chosen = st.columns([6, 5], gap="large")
with choice:
    what_if.pick(view)
with chosen:
    what_if.listed(view, edits)
what_if.stop_where_impossible(view, edits)
baseline = view.trace
changed = run_cache.run(view.model.name, baseline.token_ids, baseline.causal, edits)
if edits:
    output.run("The changed run", changed)

prose.markdown("#### Attention weights")
part = zoom.window(view)
with st.container(horizontal=True, gap="large", vertical_alignment="bottom"):
    layer, head = controls.layer(view), controls.head(view)
    as_lines = lines.wanted(part)
runs = {"Baseline: the model as it is": baseline, "Changed": changed}
whole = weights_of_runs(runs, view.labels, layer, head)
before, after = map(part.fit, whole)
change = part.fit(difference(whole[0], whole[1], "Changed − baseline"))
if edits and not change.values.any():
    prose.caption(
        "This head's weights are the same in both runs. An edit of a head, of attention or of an "
        "MLP shows only in the weights of later layers, which read what it wrote."
    )
with st.container(key="whatif"):
    both, third = st.columns([2, 1.2])
    alt = before.named(f"Weights of layer {layer}, head {head}, baseline and changed")
    made_by = (Line(changed, "weights", layer), changes)
    with both:
        if as_lines:
            lines.two_by_two(view, [before, after], key="run_lines", alt=alt)
            output.code(*made_by, of=[alt])
        else:
            figure = heatmaps(
                [before, after],
                view.colors,
                n_columns=2,
                height=360,
                row=view.query,
                bar="attention weight",
            )
            output.picture(figure, key="before_after", alt=alt, made_by=made_by, shrinks=True)
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
measures.proof(view, [layer], "the baseline's run")
on_click("whatif", what_if.hide(view, part, before), part.drag(before))

page.stop_without_numbers(baseline, changed)
position = view.n_tokens - 1 if view.query is None else view.query
names = run_cache.vocabulary(view.model.name)
prose.markdown(f"#### What comes after token {position} “{literal(view.labels[position])}”")
table = two_predictions.compare(
    [run.logits_at(position) for run in (baseline, changed)],
    ("baseline", "changed"),
    ["Baseline: most probable next", "Changed: most probable next"],
    names,
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
elif edits:
    prose.caption("No probability has changed after this token.")

if edits:
    prose.markdown("#### When is it decided, before and after? The logit lens")
    paths = what_if.lenses(view, edits, position)
    answer = literal(names[paths["baseline"].answer[0]])
    output.picture(
        lens_of_runs(paths, names, view.colors),
        key="lens_runs",
        alt="Most probable next token at every step of the baseline's and the changed stream",
        made_by=(logit_lens,),
    )
    prose.caption(
        "The stream of each run after every step, read as if that step were the last "
        "(nostalgebraist "
        f"2020). In both, the rank followed is that of the baseline's answer: “{answer}”."
    )

if edits and baseline.explicit and changed.explicit:
    prose.markdown("#### Which heads now look elsewhere")
    with st.container(key="where"):
        found = largest_differences(baseline, changed, [(n, n) for n in range(view.n_tokens)])
        figure = heatmaps(
            [head_map(found, "largest change of a weight")],
            view.colors,
            height=find.map_height(view),
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

"""Generate: write on token by token, and see where a head looks as each one is chosen."""

import streamlit as st

from gpt2viz import STAGE
from gpt2viz.analysis.generation import appraise, draw
from gpt2viz.app import output, prose, run_cache
from gpt2viz.app.frame import controls, page
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.views import generate, predictions
from gpt2viz.labels import label
from gpt2viz.pictures import tables
from gpt2viz.pictures.plotly.prediction import token_bars

view = page.open_page("Generate", choosing="")
page.stop_without_numbers(view.trace)
ids = generate.written(view)
name, causal, prompt = view.model.name, view.trace.causal, view.trace.token_ids
names = run_cache.vocabulary(name)

text, settings = st.columns([5, 4], gap="large")
with settings:
    sampling = predictions.sampling("draw_", temperature=0.0)
    seed = generate.seed()
    prose.caption(
        "At temperature 0 the most probable token is taken each time. Above it, tokens are drawn "
        "according to their probabilities; top-k and top-p leave out the improbable ones."
    )
with text:
    generate.buttons(view, ids, sampling, seed)
    prose.markdown(generate.continuation(view, ids))
    if why := generate.ended(view, ids):
        st.info(f"{why} Undo a token or start over to go on.", icon=":material/flag:")
    else:
        prose.caption(
            f"**Step** lets the model write the next token, **Play** the next {generate.PLAY}."
        )

before = run_cache.run(name, (*prompt, *ids[:-1]), causal)
output.run("The run", before)  # the one that the picture below is of
labels = [label(part) for part in before.token_bytes]
last = literal(labels[-1])
prose.markdown(
    f"#### Where the head looked as “{literal(names[ids[-1]])}” was chosen"
    if ids
    else "#### Where the head looks as the next token is chosen"
)
with st.container(horizontal=True, gap="large"):
    layer, head = controls.layer(view), controls.head(view)
prose.caption(
    f"The {STAGE['weights'].quantity}s of layer {layer}, head {head}: the row of the query "
    f"“{last}”, the last token that had been read. The prediction is made from there."
)
output.picture(
    token_bars(
        labels, before.stage("weights", layer)[0, head, -1], view.colors, "attention weight"
    ),
    key="row",
    alt=f"Attention weights of the last token in layer {layer}, head {head}",
    made_by=(Line(before, "weights", layer), draw, appraise),
)
if ids:
    prose.markdown("#### What was written")
    first = 0 if causal else max(0, len(ids) - generate.PLAY)
    choices = [
        run_cache.choice(name, (*prompt, *ids[:n]), causal, ids[n], before)
        for n in range(first, len(ids))
    ]
    three = st.column_config.NumberColumn(format="%.3f")
    output.table(
        tables.choice_table(choices, names),
        "Tokens that were written",
        column_config={"probability (%)": three, "surprise (bits)": three},
    )
    prose.caption(
        "Probability is the model's own, over its whole vocabulary, before temperature, top-k and "
        "top-p. Rank 1 is the most probable token."
        + (
            f" Only the last {generate.PLAY}: without the mask, each needs a run of its "
            "own." * bool(first)
        )
    )
generate.go_on(view, ids, sampling, seed)

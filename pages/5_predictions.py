"""Predictions: what comes next, which step of the stream decided it, and which head wrote it."""

import streamlit as st

from gpt2viz import contributions, entropy, logit_lens, sampling_distribution, surprise
from gpt2viz.app import output, prose, run_cache
from gpt2viz.app.clicks import on_click, open_head
from gpt2viz.app.frame import page
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.views import predictions
from gpt2viz.pictures import tables
from gpt2viz.pictures.plotly import prediction
from gpt2viz.pictures.plotly.charts import probability_bars
from gpt2viz.pictures.plotly.lens import lens_map

view = page.open_page("Predictions", "Choose a token to see what comes after it.")
page.stop_without_numbers(view.trace)
position = view.n_tokens - 1 if view.query is None else view.query
here = f"{position} “{literal(view.labels[position])}”"
names = run_cache.vocabulary(view.model.name)
logits = view.trace.logits_at(position)
model = sampling_distribution(logits)

prose.markdown(
    f"#### What comes after token {here}\n"
    "The model gives **every** token of its vocabulary a probability."
)
picture, numbers = st.columns([5, 4], gap="large")
with picture:
    settings = predictions.sampling()
    drawn = sampling_distribution(logits, **settings)
    table = tables.next_token_table(model, drawn, names, top=12)
    cases = {"the model's probability": table["model (%)"]}
    if settings != predictions.UNCHANGED:
        cases["what a token is drawn from, with these settings"] = table["drawn from (%)"]
    output.picture(
        probability_bars(table["token"], cases, view.colors, rest=True),
        key="next_tokens",
        alt=f"Probability of the most probable next tokens after token {position}",
        made_by=(Line(view.trace, "last_logits"), sampling_distribution, entropy),
    )
with numbers:
    left, right = st.columns(2)
    left.metric(
        "Entropy",
        f"{entropy(model):.2f} bits",
        help=prose.tip(
            "How undecided the model is. 0: sure of one token. Each further bit doubles the "
            f"number of tokens it hesitates between; {len(model):,} equally probable ones would "
            "give the most bits."
        ),
    )
    right.metric(
        "Can be drawn",
        f"{(drawn > 0).sum():,}",
        help=prose.tip("Tokens with a probability above 0 after temperature, top-k and top-p."),
    )
    percent = st.column_config.NumberColumn(format="%.3f")
    formats = {name: percent for name in table.columns if "%" in name}
    formats["id"] = None
    formats["token"] = st.column_config.TextColumn(width=140)
    output.table(
        table,
        f"Next tokens after token {position}",
        hide_index=True,
        height=493,
        column_config=formats,
    )

prose.markdown("#### How surprising each token of the sentence was")
prose.caption(
    "The model reads nothing before the first token, so it can't predict it. Write a longer "
    "sentence."
    if view.n_tokens == 1
    else "Surprise is −log₂ of the probability that the model gave to this token when it had "
    "read only those before it. 0 bits: it was sure; 10 bits: one chance in 1,024."
    if view.trace.causal
    else "The mask is off: the model has **already seen** the token whose surprise is shown, so "
    "these numbers don't say how well it predicts."
)
if view.n_tokens > 1:
    bits = surprise(view.trace)
    output.picture(
        prediction.token_bars(view.labels, bits, view.colors, "surprise (bits)", "bits"),
        key="surprise",
        alt="Surprise of every token in bits",
        made_by=(surprise,),
    )

prose.markdown("#### When is it decided? The logit lens")
prose.caption(
    "Each layer adds to the residual stream. Here the stream is read after every step as if that "
    "step were the last: final LayerNorm, then the unembedding. It shows the token that would be "
    "most probable there. Only the bottom row is the model's own prediction (nostalgebraist 2020)."
)
shown = predictions.lens_positions(view, position)
lens = run_cache.lens(view.model.name, view.trace.token_ids, view.trace.causal, tuple(shown))
answer = literal(names[lens.answer[position - shown[0]]])
output.picture(
    lens_map(lens, names, view.labels, view.colors, position),
    key="lens_map",
    alt="Most probable next token at every step of the stream, after each token",
    made_by=(logit_lens,),
)
window = f"Tokens {shown[0]} to {shown[-1]} are shown; choose another above to move there. "
prose.caption(
    (window if len(shown) < view.n_tokens else "")
    + f"The curves on the right belong to token {here}, whose final answer is “{answer}”."
)

prose.markdown("#### Who wrote it? Direct contributions to a logit")
token, versus = predictions.explained(view, [int(n) for n in (-logits).argsort()])
parts = contributions(view.model, view.trace, token, versus, position)
compared = "" if versus is None else f" minus that of “{literal(names[versus])}”"
prose.markdown(
    f"After token {here}, the logit of “{literal(names[token])}”{compared} is "
    f"**{parts.logit:+.4f} nats**. The parts below and the embeddings sum to {parts.total:+.4f} "
    f":small[:gray[(difference {abs(parts.total - parts.logit):.1e})]]. "
    "Click a head to look inside it."
)
grid, path = st.columns([5, 3], gap="medium")
with grid, st.container(key="contributions"):
    output.picture(
        prediction.contribution_map(parts, view.colors),
        key="contribution_map",
        alt=f"What each head, bias and MLP added to the logit after token {position}",
        made_by=(contributions,),
    )
    prose.caption(
        "What a part wrote into the stream, through the final LayerNorm with its scale held at "
        "this run's value, times the token's unembedding (Elhage et al. 2021). What a part did by "
        "changing what later layers read is not counted here."
    )
output.table(
    tables.contribution_table(parts),
    f"Contributions to a logit after token {position}",
    place=path,
    hide_index=True,
    height=330,
    column_config={"added (nats)": st.column_config.NumberColumn(format="%+.4f")},
)
clicked = on_click("contributions")
if clicked and clicked.column < view.model.config.n_head:
    open_head(clicked.row, clicked.column)

"""Training: how the model learned, and when each of its heads began to do its work."""

import streamlit as st

from gpt2viz.analysis.batch_scores import token_losses
from gpt2viz.analysis.scores import weight_on
from gpt2viz.app import output, prose, run_cache
from gpt2viz.app.clicks import on_click, open_head
from gpt2viz.app.frame import page
from gpt2viz.app.views import training
from gpt2viz.pictures.plotly.training import loss_curves, score_growth

view = page.open_page("Training", choosing="")
record = training.record_or_stop(view)

last = len(record.tokens) - 1
prose.markdown(
    f"#### What {record.tokens[last] / 1e6:.1f} million tokens taught it\n"
    f"The weights were measured {last + 1} times during training. This page is about the model, "
    "not the sentence above."
)
losses, heads = st.columns([5, 6], gap="large")
with losses:
    prose.markdown("**Loss**")
    output.picture(
        loss_curves(record, view.colors),
        key="losses",
        alt="Loss on held-out text and on random tokens, by tokens read",
        of_run=False,
        made_by=(token_losses,),
    )
    measured = f", here over {n} contexts of held-out text" if (n := record.held_out_rows) else ""
    prose.caption(
        f"Loss is −ln of the probability given to the token that came next, on average{measured}; "
        "one nat is 1.44 bits. Random tokens can't be predicted the first time. When they are "
        "repeated, a model that has learned to **copy** can predict them: the two curves for "
        "random tokens part."
    )
with heads:
    shown = training.score()
    with st.container(key="growth"):
        output.picture(
            score_growth(record, shown, view.colors),
            key="score_growth",
            alt=f"{shown} score of every head during training",
            of_run=False,
            made_by=(training.MADE_BY[shown], weight_on),
        )
    prose.caption(training.MEANING[shown] + " Click a row to look inside that head.")
    if record.set_heads:
        named = ", ".join(f"{layer}.{head}" for layer, head in record.set_heads)
        prose.caption(
            f"Head {named} was **set** to look one token back; training left its queries and keys "
            "alone. All other heads found their jobs themselves, starting from random numbers."
        )
card = run_cache.card(view.model.name)
if card:
    with st.expander("The model's card: data, figures, what it can't do"):
        st.markdown(card.text)

if clicked := on_click("growth"):
    open_head(*divmod(clicked.row, view.model.config.n_head))

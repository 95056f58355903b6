"""What the sentence costs, and the modules that it goes through."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from gpt2viz.anatomy.cost import activations, products
from gpt2viz.app import output, prose
from gpt2viz.app.components.diagram import draw_diagram
from gpt2viz.app.frame import controls
from gpt2viz.app.view import View
from gpt2viz.app.views import reused
from gpt2viz.model.memory import spell
from gpt2viz.pictures.anatomy import part_bars
from gpt2viz.textbook import diagram

_NUMBER = st.column_config.NumberColumn(format="localized")


def cost(view: View) -> None:
    """Multiply-adds by part, then bytes."""
    _multiply_adds(view)
    _bytes(view)


def _multiply_adds(view: View) -> None:
    found = products(view.trace)
    counts = [product.multiply_adds for product in found]
    whole, n = sum(counts), view.n_tokens
    prose.markdown(
        f"#### {whole:,} multiply-adds for {n} token{'s' if n > 1 else ''}\n"
        f"One is a multiplication and an addition: {2 * whole:,} FLOPs. Nearly all the work of a "
        "run is in these matrix products. Each of their numbers is a sum; **numbers made × length "
        "of the sum** gives the multiply-adds."
    )
    table, chart = st.columns([3, 2], gap="large")
    with chart:
        output.picture(
            part_bars(
                "Multiply-adds of every part of the run",
                [product.name for product in found],
                [product.group for product in found],
                counts,
                "multiply-adds",
            ),
            view.colors,
            key="cost_bars",
            made_by=(products,),
        )
    with table:
        output.table(
            pd.DataFrame(
                {
                    "product": [*(product.name for product in found), "all"],
                    "numbers made · length of the sum": [*(p.formula for p in found), ""],
                    "in this run": [*(product.worked for product in found), ""],
                    "layers": [*(p.times if p.times > 1 else None for p in found), None],
                    "multiply-adds": [*counts, whole],
                }
            ).astype({"layers": "Int64"}),
            "Multiply-adds of every product",
            hide_index=True,
            key="products",
            placeholder="",
            height="content",
            column_config={"multiply-adds": _NUMBER},
        )
        prose.caption(_counted(view))


def _counted(view: View) -> str:
    """What the multiply-adds leave out, and what they hold that the run doesn't use."""
    later = "Later keys, which the causal mask throws away, are counted. "
    return (
        "Not counted: softmax, norms, the MLP's curve, biases, additions, and looking up "
        f"embeddings, which takes no arithmetic. {later if view.trace.causal else ''}The logits "
        "are made after the last token only."
        + reused.note(view.trace, " What is counted is a run of all.")
    )


def _bytes(view: View) -> None:
    tensors = activations(view.trace)
    made, kept = sum(t.made for t in tensors), sum(t.kept for t in tensors)
    prose.markdown(
        f"#### {spell(view.model.nbytes)} of weights, {spell(kept)} kept of this run\n"
        f"The weights are read once, whatever the text's length, apart from the embeddings: of "
        "those, one row per token, but all rows for the logits where the unembedding is tied to "
        f"them. The run made {spell(made)} of tensors, shared memory counted once; the trace "
        f"keeps {spell(kept)} for the pictures."
    )
    output.table(
        pd.DataFrame(
            {
                "tensor": [t.name for t in tensors],
                "key": [t.key for t in tensors],
                "shape": [f"({', '.join(f'{n:,}' for n in t.shape)})" for t in tensors],
                "times": [t.times for t in tensors],
                "bytes made": [t.made for t in tensors],
                "bytes kept": [t.kept for t in tensors],
            }
        ),
        "Bytes of every tensor",
        hide_index=True,
        key="activations",
        height=320,
        column_config={"bytes made": _NUMBER, "bytes kept": _NUMBER},
    )
    if not view.trace.explicit:
        prose.caption(
            "A text of this length runs fused: scores and weights aren't kept, but recomputed "
            "from Q and K for the heads that you look at."
        )


def modules(view: View) -> None:
    """The live modules as boxes, one layer in full."""
    prose.markdown(
        "Each box is a module of the model that is loaded, with the shape of what it made of this "
        "sentence. **Click a box** to go to the page that shows its tensor."
    )
    layer = controls.layer(view)
    draw_diagram(diagram.nodes(view.model, view.trace, layer), layer, view.model.config.n_layer)
    if view.model.config.tie_word_embeddings:
        prose.caption("`lm_head` has no table of its own: it uses that of `wte` (weight tying).")

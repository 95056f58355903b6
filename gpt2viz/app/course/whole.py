"""The whole model: its diagram from the live modules, its lines, its parameters and sizes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import streamlit as st

from gpt2viz import GPT2Config
from gpt2viz.app import address, output, pages, parameters, prose
from gpt2viz.app.components.book import draw_listings
from gpt2viz.app.components.diagram import draw_diagram
from gpt2viz.app.course import real_step
from gpt2viz.app.course.parts import Book, code, heading, link
from gpt2viz.app.course.questions import Question
from gpt2viz.app.frame import controls
from gpt2viz.app.view import View
from gpt2viz.model import network
from gpt2viz.run.stages import HEAD_STAGES, STAGE, axis_sizes
from gpt2viz.textbook import diagram, sizes
from gpt2viz.textbook.line_by_line import Pair, line_by_line

#: What can be turned: its name in the address, and its values.
_KNOBS = {
    "vocab_size": (parameters.SIZE_VOCAB_SIZE, [256, 5_000, 50_257, 50_304]),
    "n_positions": (parameters.SIZE_N_POSITIONS, [256, 1024, 2048]),
    "n_layer": (parameters.SIZE_N_LAYER, [1, 2, 6, 12, 24, 36, 48]),
    "n_embd": (parameters.SIZE_N_EMBD, [96, 384, 768, 1024, 1280, 1600]),
}


def draw(book: Book) -> Iterator[Question]:
    """E26, E25, E1, E16 and E18."""
    view = book.view
    prose.markdown(
        "Everything so far, in order. A text goes in at the top as token numbers. At the bottom "
        "comes a **logit** for each token that might be next: the larger, the likelier. In between "
        "are layers, all built alike, each with parameters of its own."
    )
    heading("E26")
    prose.markdown(
        "Each box is a module of the model that is loaded. It says which shape the module made of "
        "your sentence, and how many parameters it has: numbers that are learned. **Click a box** "
        "to go to the page that shows its tensor."
        "\n\nArrows show what reads what. The thick line is the **residual stream**: it runs past "
        "attention and MLP, and ⊕ adds what they made. One layer is drawn in full."
    )
    _, head = controls.layer_and_head(view)
    layer = controls.layer(view)
    nodes = diagram.nodes(view.model, view.trace, layer)
    draw_diagram(nodes, layer, view.model.config.n_layer)
    if view.model.config.tie_word_embeddings:
        prose.caption("`lm_head` has no table of its own: it uses that of `wte` (weight tying).")
    code(diagram.nodes, diagram.edges)
    heading("E25")
    prose.markdown(
        "A **tensor** is a table of numbers with any number of axes. Every tensor knows the line "
        "of `network.py` that made it: it is noted while the model runs. Below each picture of "
        "every page, *Code* shows the lines; *Shapes* lists them all."
    )
    output.table(
        {
            "tensor": [node.name for node in nodes if node.made],
            "line": [node.made.line for node in nodes if node.made],
            "code": [node.made.code for node in nodes if node.made],
        },
        "The line that made each tensor",
        height=250,
    )
    draw_lines(book, layer, head)
    _knobs(book)
    yield from _parameters()
    yield from _released()


def _knobs(book: Book) -> None:
    heading("E1")
    config = book.view.model.config
    prose.markdown(
        "Five numbers decide how large a model is. The code stays the same. This model and GPT-2 "
        "small:"
    )
    small = sizes.RELEASED[0].config
    output.table(
        {
            "knob": ["vocab_size", "n_positions", "n_layer", "n_head", "n_embd"],
            "what it sets": [
                "tokens that it knows",
                "tokens that it can read at once",
                "layers, one after the other",
                "heads of each layer",
                "channels: numbers of a token's vector",
            ],
            "this model": _sizes(config),
            "GPT-2 small": _sizes(small),
        },
        "What sets the size of a model",
    )
    prose.caption("Other code calls n_positions `block_size`, or the context length.")


def _parameters() -> Iterator[Question]:
    heading("E16")
    prose.markdown("Turn the knobs, and see which part holds how many:")
    chosen: dict[str, Any] = {
        name: column.selectbox(name, **address.choice(which, values))
        for column, (name, (which, values)) in zip(st.columns(4), _KNOBS.items(), strict=True)
    }
    tied = st.toggle("Weight tying: one table at both ends", **address.switch(parameters.SIZE_TIED))
    parts = sizes.parts(GPT2Config(**chosen, n_head=1, tie_word_embeddings=tied))
    total = sum(parts.values())
    output.table(
        {
            "part": [*parts, "all"],
            "parameters": [*parts.values(), total],
            "share": [100 * n / total for n in (*parts.values(), total)],
        },
        "Parameters by part",
        column_config={
            "parameters": st.column_config.NumberColumn(format="localized"),
            "share": st.column_config.NumberColumn(format="%.1f %%"),
        },
    )
    _counted(chosen["vocab_size"], chosen["n_embd"])
    code(sizes.parts)
    table = parts["token embedding"]
    yield from [
        Question(
            "whole_half",
            "Find a model whose **token table** holds more than half of all its parameters, tied.",
            "What makes the token table larger, and what only the rest?",
            "In a small model with GPT-2's vocabulary most parameters are in the table. That is "
            "why tying saves so much there.",
            done=tied and table > total / 2,
            note=""
            if tied
            else "Untied, there are two such tables, so neither can hold more than half. Tie them.",
        ),
        Question(
            "whole_untied",
            "By how many **million** parameters does GPT-2 small grow without tying? One decimal.",
            "Which table would be there twice, and how large is it?",
            "50,257 · 768 = 38.6 million: almost a third more.",
            answer="38.6",
            also=("38597376", "38600000"),
        ),
    ]


def _counted(words: int, width: int) -> None:
    """The two formulas that nearly all parameters come from, with these numbers."""
    st.latex(
        r"\text{token table} = n_{\text{vocab}} \cdot C \qquad "
        r"\text{one layer} = 12\,C^2 + 13\,C"
    )
    st.latex(rf"{words:,} \cdot {width:,} = {words * width:,}".replace(",", r"{,}"))
    st.latex(
        rf"12 \cdot {width:,}^2 + 13 \cdot {width:,} = {12 * width**2 + 13 * width:,}".replace(
            ",", r"{,}"
        )
    )
    prose.caption(
        "C (n_embd) is the number of channels, $n_{\\text{vocab}}$ (vocab_size) that of tokens in "
        "the vocabulary. A layer has 4 C² parameters in attention, 8 C² in the MLP, and 13 C in "
        "biases and norms."
    )


def _sizes(config: GPT2Config) -> list[int]:
    return [
        config.vocab_size,
        config.n_positions,
        config.n_layer,
        config.n_head,
        config.n_embd,
    ]


def _released() -> Iterator[Question]:
    heading("E18")
    prose.markdown(
        "The four models that were released, counted in this project's own modules. A head has 64 "
        "channels in each of them: larger models have more heads, not wider ones."
    )
    models = sizes.RELEASED
    output.table(
        {
            "model": [model.name for model in models],
            "layers": [model.L for model in models],
            "channels": [model.C for model in models],
            "heads": [model.nh for model in models],
            "head size": [model.C // model.nh for model in models],
            "parameters": [sizes.counted(model.config) for model in models],
        },
        "The released models",
        column_config={"parameters": st.column_config.NumberColumn(format="localized")},
    )
    code(sizes.counted)
    yield from [
        Question(
            "whole_heads",
            "GPT-2 large has 1280 channels, and 64 in each head. How many heads?",
            "The heads share all the channels equally.",
            "20. One of the source texts says 36, but those are its layers: 1280 / 36 is no whole "
            "number.",
            answer="20",
        ),
    ]


#: The line that the section opens at, by how it begins.
_OPENING = "scores ="


def draw_lines(book: Book, layer: int, head: int) -> None:
    """Both listings, and what the chosen line does with the sentence in that layer and head."""
    st.subheader("Line by line", anchor="lines")
    prose.markdown(
        "Here is all of GPT-2 in fewer than eighty lines, and then the file that really runs, "
        "which can do more. **Click a line of either**, and those that do the same light up."
    )
    listed = line_by_line()
    pairs = {listed.first(pair): pair for pair in listed.pairs if pair}
    opening = next(line for line, pair in pairs.items() if pair.begins == _OPENING)
    address.choice(parameters.LINE, list(pairs), opening)
    line: int = address.get(parameters.LINE)
    draw_listings(
        "line_by_line",
        ("GPT-2 in eighty lines", "gpt2viz/model/network.py"),
        (listed.lines, inspect.getsource(network).splitlines()),
        [listed.first(pair) if pair else None for pair in listed.pairs],
        {line: pair.lines_beside for line, pair in pairs.items()},
        line,
        partial(address.put, parameters.LINE),
    )
    _explain_line(book.view, line, pairs[line], layer, head)
    code(line_by_line)


def _explain_line(view: View, line: int, pair: Pair, layer: int, head: int) -> None:
    """Explain a line: its work, the sentence's tensors and sizes there, links to them."""
    prose.markdown(f"**Line {line}.** {pair.does}")
    sizes = axis_sizes(view.model.config, view.n_tokens)
    rows = [(STAGE[key].label, STAGE[key].axes) for key in pair.makes]
    if pair.makes == ("last_logits",):
        rows = [("Logits after every token", ("B", "T", "n_vocab"))]
    if pair.axes:
        rows = [(pair.begins.removesuffix(" ="), pair.axes)]
    if rows:
        output.table(
            {
                "tensor": [label for label, _ in rows],
                "axes": [f"({', '.join(axes)})" for _, axes in rows],
                "shape here": [str(tuple(sizes[axis] for axis in axes)) for _, axes in rows],
            },
            f"What line {line} makes of your sentence",
        )
    if pair.sizes:
        prose.markdown("Here " + " · ".join(f"**{axis} = {sizes[axis]:,}**" for axis in pair.sizes))
    _links(view, pair.makes or pair.towards, layer, head)


def _links(view: View, keys: tuple[str, ...], layer: int, head: int) -> None:
    """The pages where these stages are seen; without any, the one where the model writes."""
    if not keys:
        link(pages.PREDICT, "The model writes on", {parameters.PREDICT: "generate"})
    if set(keys) & set(HEAD_STAGES):
        real_step.to_cell(view, real_step.cell_of(view, layer, head))
    for key in keys:
        stage = STAGE[key]
        if key == "last_logits":
            link(pages.PREDICT, f"{stage.label}, on Predict", {parameters.PREDICT: "next"})
        elif key not in HEAD_STAGES:
            name = stage.path(layer) if stage.per_layer else key
            real_step.to_shapes(f"{stage.label}, among all tensors", name)

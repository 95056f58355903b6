"""Line by line: the eighty lines, and beside each the lines of the package that do the same."""

from __future__ import annotations

import inspect
from functools import partial

import streamlit as st

from gpt2viz.app import address, output, pages, parameters, prose
from gpt2viz.app.components.listings import draw_listings
from gpt2viz.app.course import real_step
from gpt2viz.app.course.parts import Book, code, link
from gpt2viz.app.view import View
from gpt2viz.model import network
from gpt2viz.run.stages import HEAD_STAGES, STAGE, axis_sizes
from gpt2viz.textbook.line_by_line import Pair, line_by_line

#: The line that the section opens at, by how it begins.
_OPENING = "scores ="


def draw(book: Book, layer: int, head: int) -> None:
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
    line: int = address.chosen(parameters.LINE)
    draw_listings(
        "line_by_line",
        ("GPT-2 in eighty lines", "gpt2viz/model/network.py"),
        (listed.lines, inspect.getsource(network).splitlines()),
        [listed.first(pair) if pair else None for pair in listed.pairs],
        {line: pair.lines_beside for line, pair in pairs.items()},
        line,
        partial(address.put, parameters.LINE),
    )
    _said(book.view, line, pairs[line], layer, head)
    code(line_by_line)


def _said(view: View, line: int, pair: Pair, layer: int, head: int) -> None:
    """What a line does, the tensors and sizes of the sentence there, and where these are shown."""
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
            hide_index=True,
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
            name = stage.path.format(layer=layer) if stage.per_layer else key
            real_step.to_shapes(f"{stage.label}, among all tensors", name)

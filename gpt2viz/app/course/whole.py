"""The whole model: the diagram of its modules, its code line by line, its parameters and sizes."""

from __future__ import annotations

import inspect
from typing import Any

import streamlit as st

from gpt2viz import GPT2Config
from gpt2viz.app import address, output, pages, parameters, prose
from gpt2viz.app.components import mount
from gpt2viz.app.components.diagram import draw_diagram
from gpt2viz.app.course import real_step
from gpt2viz.app.course.parts import Book, link, menu
from gpt2viz.app.course.questions import Check
from gpt2viz.app.frame import controls
from gpt2viz.app.view import View
from gpt2viz.model import network
from gpt2viz.run.stages import HEAD_STAGES, STAGE, axis_sizes
from gpt2viz.textbook import sizes
from gpt2viz.textbook.line_by_line import Pair, line_by_line

#: The config fields that decide a model's size, and what each sets.
_SIZES = {
    "vocab_size": "tokens of the vocabulary",
    "n_positions": "tokens that it can read at once",
    "n_layer": "layers, one after the other",
    "n_head": "heads of each layer",
    "n_embd": "channels: numbers of a token's vector",
}
#: The fields that can be changed: their parameters and options.
_KNOBS = {
    "vocab_size": (parameters.SIZE_VOCAB_SIZE, [256, 5_000, 50_257, 50_304]),
    "n_positions": (parameters.SIZE_N_POSITIONS, [256, 1024, 2048]),
    "n_layer": (parameters.SIZE_N_LAYER, [1, 2, 6, 12, 24, 36, 48]),
    "n_embd": (parameters.SIZE_N_EMBD, [96, 384, 768, 1024, 1280, 1600]),
}
#: The start of the line that is chosen by default.
_OPENING = "scores ="


def modules(book: Book) -> dict[str, Any]:
    """Draw a layer's modules, and what each reads."""
    view = book.view
    _, head = controls.layer_and_head(view)
    layer = controls.layer(view)
    return {
        "at": (layer, head),
        "nodes": draw_diagram(view, layer),
        "tied": view.model.config.tie_word_embeddings,
    }


def source_lines(book: Book) -> None:
    """List the line that made each tensor."""
    nodes = [node for node in book.values["nodes"] if node.made]
    output.table(
        {
            "tensor": [node.name for node in nodes],
            "line": [node.made.line for node in nodes],
            "code": [node.made.code for node in nodes],
        },
        "The line that made each tensor",
        height=250,
    )


def lines(book: Book) -> None:
    """Draw both listings, and explain the chosen line with the sentence, in that layer and head.

    A line of the first chooses its statement, a line of the second the statement beside it.
    """
    listed = line_by_line()
    pairs = {listed.line_number(pair): pair for pair in listed.pairs if pair}
    opening = next(line for line, pair in pairs.items() if pair.begins == _OPENING)
    line: int = address.read(address.choice(parameters.LINE, list(pairs), opening))
    mount(
        key="line_by_line",
        data={
            "script": "listings",
            "titles": ("GPT-2 in eighty lines", "gpt2viz/model/network.py"),
            "listings": (listed.lines, inspect.getsource(network).splitlines()),
            "parts": [listed.line_number(pair) if pair else None for pair in listed.pairs],
            "beside": {str(line): pair.lines_beside for line, pair in pairs.items()},
            "chosen": line,
        },
        on={"line": lambda sent: address.put(parameters.LINE, int(sent))},
    )
    _explain_line(book.view, line, pairs[line], *book.values["at"])


def _explain_line(view: View, line: int, pair: Pair, layer: int, head: int) -> None:
    """Explain a line: what it does, the sentence's tensors and sizes there, links to them."""
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
    """Draw links to the pages that show these stages; else to the page that generates text."""
    if not keys:
        link(pages.PREDICT, "The model writes on", {parameters.PREDICT: "generate"})
    if set(keys) & set(HEAD_STAGES):
        real_step.link_to_cell(view, real_step.cell_of(view, layer, head))
    for key in keys:
        stage = STAGE[key]
        if key == "last_logits":
            link(pages.PREDICT, f"{stage.label}, on Predict", {parameters.PREDICT: "next"})
        elif key not in HEAD_STAGES:
            name = stage.path(layer) if stage.per_layer else key
            link(pages.SHAPES, f"{stage.label}, among all tensors", {parameters.FILTER: name})


def knobs(book: Book) -> None:
    """List the numbers that decide a model's size, in the model above and in GPT-2 small."""
    small, config = sizes.RELEASED["small"], book.view.model.config
    output.table(
        {
            "knob": list(_SIZES),
            "what it sets": list(_SIZES.values()),
            "this model": [getattr(config, name) for name in _SIZES],
            "GPT-2 small": [getattr(small, name) for name in _SIZES],
        },
        "What sets the size of a model",
    )


def parts(_book: Book) -> dict[str, Any]:
    """List the parameters of each part of a model whose sizes can be changed."""
    chosen: dict[str, Any] = {
        name: menu(name, which, values, column)
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
        of_run=False,
        formats={"parameters": "localized", "share": "%.1f %%"},
    )
    words, C = chosen["vocab_size"], chosen["n_embd"]
    counts = {"words": words, "C": C, "in_table": words * C, "in_layer": 12 * C**2 + 13 * C}
    untied = "Untied, there are two such tables, so neither can hold more than half. Tie them."
    return {
        **{name: f"{count:,}".replace(",", "{,}") for name, count in counts.items()},
        "whole_half": Check(tied and parts["token embedding"] > total / 2, "" if tied else untied),
    }


def released_models(_book: Book) -> None:
    """List the four released models."""
    configs = sizes.RELEASED.values()
    output.table(
        {
            "model": list(sizes.RELEASED),
            "layers": [config.n_layer for config in configs],
            "channels": [config.n_embd for config in configs],
            "heads": [config.n_head for config in configs],
            "head size": [config.head_dim for config in configs],
            "parameters": [sizes.count_parameters(config) for config in configs],
        },
        "The released models",
        of_run=False,
        formats={"parameters": "localized"},
    )

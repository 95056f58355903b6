"""The architecture diagram, top to bottom, with the residual stream; clicks open tensors' pages."""

from __future__ import annotations

import re
from collections.abc import Sequence

import streamlit as st

from gpt2viz.app import address, output, pages, parameters
from gpt2viz.app.components import mount
from gpt2viz.app.pages import Page
from gpt2viz.app.parameters import Parameter
from gpt2viz.app.view import View
from gpt2viz.textbook import diagram
from gpt2viz.textbook.diagram import Node

#: The first module of each row -> its last one.
_BESIDE = {"wte": "wpe", "q_proj": "v_proj", "q": "v", "gate_proj": "up_proj"}
_BESIDE |= {"q_unnormed": "k_unnormed", "q_norm": "k_norm", "q_unrotated": "k_unrotated"}
#: The last modules of rows that leave a gap for the values' arrow.
_PASSED = ("k_unnormed", "k_norm", "k_unrotated")


def page_of(node: Node) -> Page | None:
    """Return the page that shows a module's tensor, or None."""
    if node.made is None:
        return None
    if {"nh", "nkv"} & set(node.made.axes):
        return pages.HEAD
    if node.made.key in ("final_norm", "last_logits"):
        return pages.PREDICT
    return pages.SHAPES


def draw_diagram(view: View, layer: int) -> list[Node]:
    """Draw the modules with arrows, ``layer`` in full, and return them; a click opens a page."""
    nodes, n_layer = diagram.nodes(view.model, view.trace, layer), view.model.config.n_layer
    arrows = diagram.edges([layer], view.trace.graph)
    data = {
        "script": "diagram",
        "alt": _alt(nodes, layer, n_layer),
        "rows": _rows(nodes, layer, n_layer),
        "edges": [(*edge, _kind(*edge)) for edge in arrows],
    }
    clicked = mount(data, key="diagram", on={"node": None}).node
    _draw_table(nodes, arrows, layer)
    for node in nodes:
        if node.name == clicked and (page := page_of(node)):
            requested: dict[Page, dict[Parameter, object]] = {
                pages.HEAD: {parameters.LAYER: layer, parameters.SEE: "run"},
                pages.PREDICT: {parameters.PREDICT: "next"},
                pages.SHAPES: {parameters.FILTER: node.name},
            }
            st.switch_page(page.path, query_params=address.parameters(requested[page]))
    return nodes


def _draw_table(nodes: Sequence[Node], arrows: Sequence[tuple[str, str]], layer: int) -> None:
    """Draw the diagram as a table."""
    reads: dict[str, list[str]] = {node.name: [] for node in nodes}
    for start, end in arrows:
        reads[end].append(start)
    with st.expander("The diagram as a table"):
        output.table(
            {
                "module": [node.name for node in nodes],
                "what it does": [node.kind for node in nodes],
                "reads": [" and ".join(reads[node.name]) or "token numbers" for node in nodes],
                "shape": [_box(node)["shape"] for node in nodes],
                "parameters": [node.n_parameters for node in nodes],
            },
            f"Modules of the model, layer {layer} in full",
            height=420,
            formats={"parameters": "localized"},
        )


def _alt(nodes: Sequence[Node], layer: int, n_layer: int) -> str:
    return (
        f"The model's {len(nodes)} kinds of modules from token numbers to logits, with layer "
        f"{layer} of {n_layer}. Attention and MLP each read the residual stream and add to it. The "
        "table below says what each module reads."
    )


def _kind(start: str, end: str) -> str:
    """Return an arrow's kind: downward, past an addition to the stream, or beside the boxes."""
    ends = "residual_mid", "residual_out"
    if end.endswith(ends) and start.endswith((*ends, "drop", "start")):
        return "residual"
    return "side" if start.endswith(("attn.v", "up_proj")) else "flow"


def _rows(nodes: Sequence[Node], layer: int, n_layer: int) -> list[dict[str, object]]:
    """Return the boxes from top to bottom, and the notes between them."""
    keys = [node.made.key if node.made else "" for node in nodes]
    names = [node.name.rpartition(".")[2] for node in nodes]
    before = {0: "", 1: " (after layer 0)"}.get(layer, f" (after layers 0 to {layer - 1})")
    notes = {
        "token_embedding": "From token numbers to vectors",
        "ln_1": f"Layer {layer}: attention reads the stream and adds to it{before}",
        "ln_2": f"Layer {layer}: the MLP reads the stream and adds to it",
        "final_norm": f"After the last of {n_layer} layers, all built alike",
    }
    rows: list[dict[str, object]] = []
    row: list[dict[str, str]] = []
    last = ""
    for node, key, name in zip(nodes, keys, names, strict=True):
        if key in notes:
            rows.append({"note": notes[key]})
        last = _BESIDE[name] if _BESIDE.get(name) in names else last
        row.append(_box(node))
        if not last or name == last:
            rows.append({"nodes": row, "gap": name in _PASSED})
            row, last = [], ""
    return rows


def _box(node: Node) -> dict[str, str]:
    page = page_of(node)
    without = {"Dropout": "off when reading", "Linear": "split into heads below"}
    shape = without.get(node.kind.split()[0], "inside a fused step")
    if node.made:
        shape = f"({', '.join(map(str, node.made.shape))})"
    return {
        "module": node.name,
        "name": re.sub(r"^\w+\.\d+\.", "", node.name),
        "kind": node.kind,
        "shape": shape,
        "parameters": f"{node.n_parameters:,}" if node.n_parameters else "",
        "page": page.title if page else "",
    }

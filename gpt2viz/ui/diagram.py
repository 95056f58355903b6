"""The architecture as boxes from top to bottom; a click opens the page that shows the tensor."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from gpt2viz.stages import HEAD_STAGES
from gpt2viz.textbook.diagram import Node
from gpt2viz.ui import address

_JS = """
export default function ({ data, setTriggerValue, parentElement }) {
  const make = (tag, name, text) => {
    const made = document.createElement(tag)
    made.className = name
    if (text) made.textContent = text
    return made
  }
  const root = parentElement.querySelector(".flow")
  root.replaceChildren()
  const head = make("div", "node head")
  head.append(...["module", "what it does", "shape", "parameters"].map(t => make("span", "", t)))
  root.append(head)
  for (const group of data.groups) {
    const box = make("section", "group")
    box.append(make("h4", "", group.title))
    for (const node of group.nodes) {
      const button = make("button", node.page ? "node" : "node still")
      button.disabled = !node.page
      button.append(make("b", "", node.name), make("span", "", node.kind),
                    make("code", "", node.shape), make("i", "", node.parameters))
      if (node.page) button.title = `Open ${node.page}`
      button.onclick = () => setTriggerValue("node", node.module)
      box.append(button)
    }
    root.append(box)
  }
}
"""

_CSS = """
.flow { display: flex; flex-direction: column; gap: .5rem; color: var(--st-text-color);
  font-family: var(--st-font); }
.group { border: 1px solid var(--st-border-color); border-radius: .5rem; padding: .5rem .7rem;
  display: flex; flex-direction: column; gap: .25rem; }
h4 { margin: 0 0 .2rem; font-size: .9rem; font-weight: 600; }
.node { display: grid; gap: .6rem; align-items: center;
  grid-template-columns: repeat(3, minmax(0, 2.4fr)) minmax(0, 1.2fr);
  text-align: left; font: inherit; font-size: .84rem; color: inherit; padding: .28rem .6rem;
  border: 1px solid transparent; border-radius: .35rem; cursor: pointer;
  background: var(--st-secondary-background-color); }
.node:hover, .node:focus-visible { border-color: var(--st-primary-color); outline: none; }
.head { background: none; cursor: default; padding: 0 1.3rem; opacity: .75; }
.head:hover { border-color: transparent; }
.head span:last-child { text-align: right; }
.still { cursor: default; opacity: .65; border-color: transparent !important; }
code { font-family: var(--st-code-font); font-size: .8rem; }
i { font-style: normal; text-align: right; opacity: .75; }
"""

_draw = st.components.v2.component(
    "gpt2viz_diagram", html='<div class="flow"></div>', css=_CSS, js=_JS
)


def page_of(node: Node) -> tuple[str, str] | None:
    """(script, name) of the page that shows a module's tensor, or None where none does."""
    if node.made is None:
        return None
    if node.made.key in HEAD_STAGES:
        return "pages/1_inside_head.py", "Inside a head"
    if node.name in ("ln_f", "lm_head"):
        return "pages/5_predictions.py", "Predictions"
    return "pages/4_shapes.py", "Shapes"


def draw_diagram(nodes: Sequence[Node], layer: int, n_layer: int) -> None:
    """Draw the modules, with ``layer`` in full; a click opens a page."""
    groups = _groups(nodes, layer, n_layer)
    clicked = _draw(key="diagram", data={"groups": groups}, on_node_change=lambda: None).node
    chosen = next((node for node in nodes if node.name == clicked), None)
    page = page_of(chosen) if chosen else None
    if chosen and page:
        wanted = {"filter": chosen.name} if "shapes" in page[0] else {"layer": layer}
        st.switch_page(page[0], query_params=address.parameters(**wanted))


def _groups(nodes: Sequence[Node], layer: int, n_layer: int) -> list[dict[str, object]]:
    def group(title: str, parts: Sequence[Node]) -> dict[str, object]:
        return {"title": title, "nodes": [_box(node) for node in parts]}

    def of(part: str) -> list[Node]:
        return [node for node in nodes if node.part == part]

    after_attention, after_mlp = of("layer")
    which = f"Layer {layer} of {n_layer} (0 to {n_layer - 1}, all built alike)"
    return [
        group("From token numbers to vectors", of("start")),
        group(f"{which}: attention, added to the stream", [*of("attention"), after_attention]),
        group(f"{which}: MLP, added to the stream", [*of("MLP"), after_mlp]),
        group("After the last layer", of("end")),
    ]


def _box(node: Node) -> dict[str, str]:
    page = page_of(node)
    shape = "off when reading" if node.kind == "Dropout" else "inside a fused step"
    if node.made:
        shape = f"({', '.join(map(str, node.made.shape))})"
    return {
        "module": node.name,
        "name": node.name.removeprefix(f"h.{node.layer}."),
        "kind": node.kind,
        "shape": shape,
        "parameters": f"{node.n_parameters:,}" if node.n_parameters else "",
        "page": page[1] if page else "",
    }

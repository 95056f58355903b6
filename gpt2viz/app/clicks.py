"""Clicks on heatmap cells, and parts that are dragged out: Streamlit reports neither."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import streamlit as st

from gpt2viz.app import address
from gpt2viz.pictures.panel import Axis

# Listens to Plotly's own click event on every chart of one container. Plotly may build the
# chart after this script ran, or build it anew, hence the observer. Plotly's own zoom is off: it
# would leave a part behind that no title names.
_JS = """
// As long as the pointer moved less, in pixels, it has clicked: Plotly's own limit.
const CLICK = 8

// Send the cells whose middle is dragged over, in the picture (x, y) that the pointer is on.
function drag(plot, down, send) {
  const pad = down.button ? null : down.target.closest?.(".nsewdrag[data-subplot]")
  if (!pad) return
  const [x, y] = pad.dataset.subplot.match(/[xy][0-9]*/g)
  const box = plot.getBoundingClientRect(), edge = pad.getBoundingClientRect()
  const band = document.createElement("div")
  band.style.cssText = "position: fixed; pointer-events: none; z-index: 1000; opacity: .25;"
    + "background: var(--st-primary-color, #3550c8)"
  const ends = (a, b, low, high) =>
    [a, b].map((n) => Math.min(Math.max(n, low), high)).sort((m, n) => m - n)
  const part = ({ clientX, clientY }) => ({
    across: ends(down.clientX, clientX, edge.left, edge.right),
    along: ends(down.clientY, clientY, edge.top, edge.bottom),
    far: Math.hypot(clientX - down.clientX, clientY - down.clientY) >= CLICK,
  })
  const move = (event) => {
    const { across: [left, right], along: [top, bottom], far } = part(event)
    Object.assign(band.style, { left: `${left}px`, top: `${top}px`,
      width: `${right - left}px`, height: `${bottom - top}px` })
    if (far && !band.parentNode) document.body.append(band)
  }
  const over = new AbortController()
  const end = () => {
    over.abort()
    band.remove()
  }
  const up = (event) => {
    end()
    const { across, along, far } = part(event)
    if (!far) return
    const cells = (axis, ends, from) => {
      const [low, high] = ends.map((pixel) => axis.p2l(pixel - from - axis._offset))
      return [Math.ceil(low), Math.floor(high)]
    }
    const of = (trace, letter, axis) => (trace[`${letter}axis`] ?? letter) === axis
    const axis = (name) => plot._fullLayout[`${name[0]}axis${name.slice(1)}`]
    send({
      panel: plot.data.find((trace) => of(trace, "x", x) && of(trace, "y", y))?.meta ?? "",
      rows: cells(axis(y), along, box.top),
      columns: cells(axis(x), across, box.left),
    })
  }
  const then = { pointermove: move, pointerup: up, pointercancel: end }
  for (const name in then)
    addEventListener(name, then[name], { capture: true, signal: over.signal })
}

export default function ({ data, setTriggerValue, parentElement }) {
  const attach = () => {
    for (const plot of document.querySelectorAll(`.st-key-${data.area} .js-plotly-plot`)) {
      if (plot.clickSource === parentElement || !plot.on) continue
      plot.removeAllListeners?.("plotly_click")
      plot.clickSource = parentElement
      plot.on("plotly_click", ({ points: [point] }) => {
        if (!Array.isArray(point.pointIndex)) return
        const [row, column] = point.pointIndex
        setTriggerValue("cell", { panel: point.data.meta ?? "", row, column })
      })
      if (data.drag)
        plot.onpointerdown = (down) => drag(plot, down, (part) => setTriggerValue("part", part))
    }
  }
  attach()
  const observer = new MutationObserver(attach)
  observer.observe(document.body, { childList: true, subtree: true })
  return () => observer.disconnect()
}
"""


class Cell(NamedTuple):
    """A clicked cell: the panel's ``name`` and the position in its matrix."""

    panel: str
    row: int
    column: int


class Dragged(NamedTuple):
    """The panel's ``name``, and the first and last row and column that a drag has taken in."""

    panel: str
    rows: tuple[int, int]
    columns: tuple[int, int]


_listen = st.components.v2.component("gpt2viz_clicks", js=_JS)


def on_click(
    area: str,
    then: Callable[[Cell], None] | None = None,
    drag: Callable[[Dragged], None] | None = None,
) -> Cell | None:
    """The heatmap cell inside ``st.container(key=area)`` that was just clicked, or None.

    ``then`` is called with it before the page runs again, in time to set widgets; ``drag`` with
    the part of a picture that was dragged out, if any. Both stay with the visitor while the page
    is open, so neither may be a page's own function: that would hold on to all that the page has
    by a name, its run among it.
    """
    key = f"{area}_clicks"
    data = {"area": area, "drag": drag is not None}
    found = _listen(key=key, data=data, **answers(key, then, drag))
    return _cell(found.cell) if found.cell else None


def answers(
    key: str, then: Callable[[Cell], None] | None, drag: Callable[[Dragged], None] | None
) -> dict[str, Any]:
    """The callbacks of a component that sends clicked cells and parts that are dragged out."""

    def clicked() -> None:
        if then and (sent := st.session_state[key].cell):
            then(_cell(sent))

    def dragged() -> None:
        if drag and (sent := st.session_state[key].part):
            drag(Dragged(str(sent["panel"]), tuple(sent["rows"]), tuple(sent["columns"])))

    return {"on_cell_change": clicked, "on_part_change": dragged}


def open_head(layer: int, head: int) -> NoReturn:
    """Go to the page that shows a head from inside, with all else that is chosen."""
    parameters = address.parameters(layer=layer, head=head)
    st.switch_page("pages/1_inside_head.py", query_params=parameters)


def choose_query(rows: Axis) -> Callable[[Cell], None]:
    """A click chooses the token of its row, on every page."""
    return lambda cell: address.put("query", rows.position(cell.row))


def choose_head_and_query(rows: Axis) -> Callable[[Cell], None]:
    """A click chooses the head that its picture is named after, and the token of its row."""

    def choose(cell: Cell) -> None:
        address.put("head", int(cell.panel))
        address.put("query", rows.position(cell.row))

    return choose


def choose_map_head(which: str = "") -> Callable[[Cell], None]:
    """A click in a map of all heads chooses its layer and head; ``which`` is "2" for those of B."""

    def choose(cell: Cell) -> None:
        address.put(f"layer{which}", cell.row)
        address.put(f"head{which}", cell.column)

    return choose


def _cell(sent: Mapping[str, Any]) -> Cell:
    return Cell(str(sent["panel"]), int(sent["row"]), int(sent["column"]))

"""Clicks on heatmap cells. Streamlit reports selected points, of which a heatmap has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import streamlit as st

# Listens to Plotly's own click event on every chart of one container. Plotly may build the
# chart after this script ran, or build it anew, hence the observer.
_JS = """
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


_listen = st.components.v2.component("gpt2viz_clicks", js=_JS)


def on_click(area: str, then: Callable[[Cell], None] | None = None) -> Cell | None:
    """The heatmap cell inside ``st.container(key=area)`` that was just clicked, or None.

    ``then`` is called with it before the page runs again, in time to set widgets.
    """
    key = f"{area}_clicks"

    def callback() -> None:
        if then and (clicked := _cell(st.session_state[key].cell)):
            then(clicked)

    return _cell(_listen(key=key, data={"area": area}, on_cell_change=callback).cell)


def _cell(sent: dict[str, str | int] | None) -> Cell | None:
    if not sent:
        return None
    return Cell(str(sent["panel"]), int(sent["row"]), int(sent["column"]))

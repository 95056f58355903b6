"""A picture as a file that the visitor's own browser makes: nothing has to be installed for it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from gpt2viz.ui import show

# Streamlit brings Plotly into the page with the first chart, though under no name: the camera of
# any chart leads to it, and is given a figure of ours in place of its chart. A component starts
# anew when its popover opens again, so what was saved is remembered by the page.
_JS = """
export default function ({ data }) {
  const done = (window.gpt2vizSaved ??= new Set())
  if (!data.id || done.has(data.id)) return
  const save = (chart, camera) => {
    done.add(data.id)
    // Plotly clicks on a link of its own in the page, which would close the popover.
    const own = (event) => {
      if (!event.target.download) return
      event.stopPropagation()
      window.removeEventListener("click", own, true)
    }
    window.addEventListener("click", own, true)
    const { data: traces, layout } = JSON.parse(data.figure)
    camera.click({
      data: traces,
      layout,
      config: chart._context,
      _context: { ...chart._context, toImageButtonOptions: data.options },
    })
  }
  const look = () => {
    for (const chart of document.querySelectorAll(".js-plotly-plot")) {
      const buttons = chart._fullLayout?._modeBar?.buttons?.flat() ?? []
      const camera = buttons.find((button) => button.name === "toImage")
      if (camera) return save(chart, camera)
    }
    waiting = setTimeout(look, 100)
  }
  let waiting
  look()
  return () => clearTimeout(waiting)
}
"""

_save = st.components.v2.component("gpt2viz_browser_picture", js=_JS)


def save(wanted: str, figure: Any = None, **options: Any) -> None:
    """Let the browser save a figure, once for every new ``wanted``; "" for none.

    ``options`` are Plotly's: ``format`` "svg" or "png", ``filename`` without its ending, ``width``
    and ``height`` in pixels, ``scale``.
    """
    show.bring_plotly()  # the page may have no chart
    data: dict[str, Any] = {"id": wanted}
    if wanted:
        data |= {"figure": figure.to_json(), "options": options}
    _save(key="browser_picture", data=data)

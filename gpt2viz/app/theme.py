"""Whether the page is dark. Pictures carry their colours, so a change has to draw them anew."""

from __future__ import annotations

import streamlit as st

# A component's code runs again when the theme changes; the page's script doesn't.
_JS = """
export default function ({ data, parentElement, setTriggerValue }) {
  const style = getComputedStyle(parentElement.host ?? parentElement)
  const probe = document.createElement("canvas").getContext("2d")
  probe.fillStyle = style.getPropertyValue("--st-background-color")
  probe.fillRect(0, 0, 1, 1)
  const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data
  const dark = red + green + blue < 3 * 128
  if (dark !== data.dark) setTriggerValue("changed", dark)
}
"""

_watch = st.components.v2.component("gpt2viz_theme", js=_JS)


def is_dark() -> bool:
    """True on a dark page. Draws nothing, but runs the page again when the theme changes."""
    dark = st.context.theme.type == "dark"
    _watch(key="theme_watch", data={"dark": dark}, on_changed_change=lambda: None)
    return dark

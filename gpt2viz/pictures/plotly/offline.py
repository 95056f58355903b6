"""Plotly figures in a notebook without any network.

Plotly's own renderers for notebooks ask a server for MathJax, or for plotly.js itself.
"""

from __future__ import annotations

import re
from importlib import resources
from importlib.util import find_spec
from typing import Any

import plotly.io as pio
from plotly.io.base_renderers import MimetypeRenderer, PlotlyRenderer
from plotly.offline import get_plotlyjs

from gpt2viz.errors import ExportError

#: plotly.js's options outside Streamlit: no button uploads a picture ("Share chart …"), and no
#: logo leads to a site. The buttons that stay save it, or undo a drag.
CONFIG = {
    "displaylogo": False,
    "showSendToCloud": False,
    "modeBarButtonsToRemove": [
        "zoom",
        "pan",
        "select2d",
        "lasso2d",
        "zoomIn",
        "zoomOut",
        "autoScale",
    ],
}

_NAME = "gpt2viz"

_SCRIPT = re.compile(r"<script>(.*)</script>", re.DOTALL)
_WHEN_THERE = (resources.files(__package__) / "when_there.js").read_text(encoding="utf-8")


class _Offline(MimetypeRenderer):  # type: ignore[misc]  # plotly has no types
    """Figures for programs that draw Plotly's type themselves, and as HTML for all others."""

    def __init__(self, in_each: bool) -> None:
        self.in_each = in_each

    def to_mimebundle(self, fig_dict: dict[str, Any]) -> dict[str, Any]:
        html = pio.to_html(
            fig_dict,
            config=CONFIG,
            full_html=False,
            include_plotlyjs=self.in_each,
            include_mathjax=False,
        )
        shown: dict[str, Any] = PlotlyRenderer(CONFIG).to_mimebundle(fig_dict)
        return shown | {"text/html": html if self.in_each else _SCRIPT.sub(_waits, html)}


def _waits(match: re.Match[str]) -> str:
    """Make a figure's script wait for plotly.js."""
    return f"<script>{_WHEN_THERE.replace('figure()', match[1])}</script>"


def offline(in_each: bool = False) -> None:
    """Show every Plotly figure of this notebook without a network. Call it in a cell of its own.

    plotly.js (4.8 MB) goes into the output of that cell once, for all figures of the notebook:
    JupyterLab and VS Code draw figures themselves, the classic notebook uses it. If every
    output has its own frame, as in Colab, ``in_each`` puts it into each figure. Raises
    ``ExportError`` without IPython, and so without a notebook.
    """
    if find_spec("IPython") is None:
        raise ExportError("offline() is for notebooks, and there is no IPython here.")
    pio.renderers[_NAME] = _Offline(in_each)
    pio.renderers.default = _NAME
    if not in_each:
        from IPython.display import HTML, display

        display(HTML(f"<script>{get_plotlyjs()}</script>"))  # type: ignore[no-untyped-call]

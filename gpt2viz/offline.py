"""Plotly figures in a notebook without any network: ``from gpt2viz.offline import offline``."""

from gpt2viz.extras import require

with require("gpt2viz.offline", "notebook"):
    from gpt2viz.pictures.plotly.offline import offline

__all__ = ["offline"]

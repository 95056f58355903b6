"""Plotly figures in a notebook without any network: ``from gpt2viz.offline import offline``."""

from gpt2viz.pictures.plotly.offline import offline

__all__ = ["offline"]

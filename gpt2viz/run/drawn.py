"""A trace's pictures and tables, for a notebook: asked of it here, made by a room above."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from gpt2viz.run.trace import Trace


class Drawer(Protocol):
    """What draws a trace, as the module ``gpt2viz.notebook.figures`` does."""

    def heatmap(self, trace: Trace, layer: int, head: int, stage: str) -> Figure:
        """One stage of one head."""

    def heads(self, trace: Trace, layer: int, stage: str) -> Figure:
        """One stage of every head of a layer."""

    def overview(self, trace: Trace) -> Figure:
        """The weights of every head of every layer."""

    def table(self, trace: Trace, layer: int, head: int, stage: str) -> DataFrame:
        """The numbers of ``heatmap``."""

    def html(self, trace: Trace) -> str:
        """What a notebook shows of the trace itself."""

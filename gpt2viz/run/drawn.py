"""Pictures and tables of a run, for a notebook: asked of it here, made by a room above."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from gpt2viz.run.stages import HeadStageName
    from gpt2viz.run.trace import Trace


class Drawer(Protocol):
    """What draws a trace, as the module ``gpt2viz.notebook.figures`` does."""

    def heatmap(self, trace: Trace, layer: int, head: int, stage: HeadStageName) -> Figure:
        """One stage of one head."""

    def heads(self, trace: Trace, layer: int, stage: HeadStageName) -> Figure:
        """One stage of every head of a layer."""

    def overview(self, trace: Trace) -> Figure:
        """The weights of every head of every layer."""

    def table(self, trace: Trace, layer: int, head: int, stage: HeadStageName) -> DataFrame:
        """The numbers of ``heatmap``."""

    def html(self, trace: Trace) -> str:
        """What a notebook shows of the trace itself."""

    def reason(self, case: Any, raw: bool) -> Figure:
        """A ``gpt2viz.Reason``, which stands above this room: all its pairs of parts."""

    def reason_html(self, case: Any) -> str:
        """What a notebook shows of a ``gpt2viz.Reason`` itself."""

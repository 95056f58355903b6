"""Two runs side by side: the model as it is, and changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpt2viz.figures.from_trace import head_stage
from gpt2viz.figures.panel import Panel
from gpt2viz.traces import Trace


def naming_edits(panel: Panel, run: Trace, edited: bool) -> Panel:
    """A panel of weights whose masked cells may be hidden by the run's edits, and say so.

    ``edited`` tells that a run beside it may be: then they share one name in the legend.
    """
    return replace(
        panel,
        masked_name="masked (a later key, or hidden by an edit)" if edited else panel.masked_name,
        masked_text="masked: exactly 0, because this key comes later"
        + ("" if run.forbidden is None else " or an edit hides it"),
    )


def weights_of_runs(
    runs: Mapping[str, Trace], labels: Sequence[str], layer: int, head: int
) -> list[Panel]:
    """One head's attention weights (T, T) in each of the runs, by title.

    Where an edit hid keys, the cells say so; they share one name in the legend.
    """
    edited = any(run.forbidden is not None for run in runs.values())
    return [
        naming_edits(head_stage(run, labels, "weights", layer, head, title), run, edited)
        for title, run in runs.items()
    ]

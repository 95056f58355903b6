"""Two runs side by side: the model as it is, and changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpt2viz.pictures.from_trace import head_stage, hidden_in
from gpt2viz.pictures.panel import Panel
from gpt2viz.run.trace import Trace


def weights_of_runs(
    runs: Mapping[str, Trace], labels: Sequence[str], layer: int, head: int
) -> list[Panel]:
    """One head's attention weights (T, T) in each of the runs, by title.

    Where an edit hid keys, the cells say so; they share one name in the legend.
    """
    name = hidden_in(*runs.values()).name
    return [
        replace(head_stage(run, labels, "weights", layer, head, title), masked_name=name)
        for title, run in runs.items()
    ]

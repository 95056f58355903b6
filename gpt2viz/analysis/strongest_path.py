"""The way from one cell down towards the tokens, over the strongest part at each."""

from __future__ import annotations

from typing import NamedTuple

from gpt2viz.analysis.explanation import explain_row
from gpt2viz.analysis.reasons import Strongest, reason
from gpt2viz.analysis.steps import Step
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.trace import Trace


class Hop(NamedTuple):
    """A cell on the path down from another, and its strongest part, which leads on if it can."""

    step: Step
    by: Strongest


def strongest_path(model: Model, trace: Trace, step: Step) -> tuple[Hop, ...]:
    """The way from a cell down towards the tokens: at each cell its strongest part.

    Where that is a head, the cell at which this head had looked hardest comes next. The path ends
    at any other part: an MLP can't be taken apart so. It is empty where the query sees one key.
    Raises what ``explain_row`` and ``reason`` do.
    """
    hops: list[Hop] = []
    following: Step | None = step
    while following is not None:
        case = reason(explain_row(model, trace, *following[:3]), following.key)
        if (by := case.strongest) is None:
            break
        hops.append(Hop(following, by))
        following = case.behind(by.side, by.part)
    return tuple(hops)

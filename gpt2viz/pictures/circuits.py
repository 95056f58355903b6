"""Heads by their weights alone: scores beside a run's, positions, and edges between heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gpt2viz.analysis.circuits import ByDistance, PredictedScores, Ranked
from gpt2viz.analysis.scores import Scores
from gpt2viz.arrays import Numbers
from gpt2viz.labels import numeral
from gpt2viz.pictures.from_trace import mask_of, stage_panel
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.patching import READS
from gpt2viz.pictures.picture import Curve, Curves, Picture, Role, Series
from gpt2viz.run.trace import Trace

if TYPE_CHECKING:
    from gpt2viz.analysis.composition import Carried, Edge, Measure, VirtualHead


#: The largest distance that the curve by positions shows.
FARTHEST = 64


def predicted_panels(predicted: PredictedScores, labels: Sequence[str]) -> list[Panel]:
    """The scores from the weights alone, and those of the run."""
    masked = np.isnan(predicted.by_weights)
    with np.errstate(over="ignore"):  # what float32 can't hold is drawn as infinite
        by_weights, in_run = (
            np.where(masked, 0, scores).astype(np.float32)
            for scores in (predicted.by_weights, predicted.in_run)
        )
    titles = {"weights": "by its weights alone", "run": "in this run"}
    return [
        Panel(
            title=f"Scores {title}",
            values=scores,
            rows=Axis("query", labels),
            columns=Axis("key", labels),
            name=name,
            quantity="score less its row's mean",
            masked=masked,
            masked_text="masked: the query doesn't see this key",
        )
        for (name, title), scores in zip(titles.items(), (by_weights, in_run), strict=True)
    ]


def place_curve(what: str, distances: ByDistance) -> Curves:
    """The mean score by positions alone at each distance, plus and minus one standard deviation."""
    n = min(len(distances.mean), FARTHEST + 1)
    far = list(range(n))
    drawn: dict[str, tuple[Numbers, Role, str]] = {
        "mean": (distances.mean, "accent", "solid"),
        "mean + σ": (distances.mean + distances.spread, "second", "dot"),
        "mean − σ": (distances.mean - distances.spread, "second", "dash"),
    }
    curves = []
    for name, (values, role, dash) in drawn.items():
        hover = [f"{back} back\n{name}: {values[back]:.2f}" for back in far]
        curves.append(Curve(name, far, values[:n].tolist(), role, hover, dash))
    return Curves(what, curves, "tokens back", "score", height=200)


def distance_curve(what: str, distances: Sequence[int], scores: Numbers, here: int) -> Curves:
    """A cell's scaled score at each distance, with that at its true distance, ``here``."""
    hover = [f"{back} back\n{score:.2f}" for back, score in zip(distances, scores, strict=True)]
    at = distances.index(here)
    true = f"{here} back, as here"
    return Curves(
        what,
        [
            Curve("at each distance", distances, scores.tolist(), "accent", hover),
            Curve(true, [here], [float(scores[at])], "second", [hover[at]], point="diamond"),
        ],
        "tokens back",
        "scaled score",
        height=200,
    )


def token_table(writes: Ranked, keys: Ranked, names: Sequence[str]) -> pd.DataFrame:
    """The tokens that a head raises and looks for, most and least, each with its number."""
    ends = {
        "raises most": writes.most,
        "lowers most": writes.least,
        "looks for": keys.most,
        "looks away from": keys.least,
    }
    return pd.DataFrame(
        {
            title: [f"{names[token]}  {numeral(value, '+.1f')}" for token, value in end]
            for title, end in ends.items()
        }
    )


def survey_rows(
    mean: Mapping[str, Scores], margin: Mapping[str, Scores], layer: int, head: int
) -> pd.DataFrame:
    """A head's scores across many texts, with their margins and its rank among all heads.

    A head without a score, NaN, has no rank: ``pandas.NA``.
    """
    mine = [every[layer, head] for every in mean.values()]
    higher = zip(mine, mean.values(), strict=True)
    ranks = [None if np.isnan(own) else 1 + (every > own).sum() for own, every in higher]
    return pd.DataFrame(
        {
            "score": list(mean),
            "mean": mine,
            "± (95 %)": [margin[name][layer, head] for name in mean],
            "rank": pd.array(ranks, dtype="Int64"),
        }
    )


def edge_table(edges: Sequence[Edge]) -> pd.DataFrame:
    """Pairs of heads: how much the second reads of the first, and how far that is above chance."""
    return pd.DataFrame(
        {
            "from": [f"{edge.sender[0]}.{edge.sender[1]}" for edge in edges],
            "to": [f"{edge.receiver[0]}.{edge.receiver[1]}" for edge in edges],
            "into its": [edge.into.upper() for edge in edges],
            "z": [edge.kernel_z for edge in edges],
            "kernel": [edge.kernel for edge in edges],
            "ratio": [edge.ratio for edge in edges],
        }
    )


@dataclass(frozen=True, eq=False)
class Wire:
    """An edge that is drawn, as wide as its ``z``; ``hover`` is the text for the pointer."""

    edge: Edge
    z: float
    hover: str


@dataclass(frozen=True, eq=False)
class Wiring(Picture):
    """Every head in a grid, layers down and heads across, and edges between them.

    Each use of an edge, into q, k or v, has its own colour, dash, letter and side of the receiver.
    The ``chosen`` edge stands out, and so do its two heads.
    """

    n_layer: int
    n_head: int
    wires: Sequence[Wire]
    chosen: Edge | None = None

    @property
    def series(self) -> tuple[Series, ...]:
        """The z of the edges into queries, keys and values, if there are any."""
        by_use = {into: [wire for wire in self.wires if wire.edge.into == into] for into in READS}
        return tuple(
            Series(
                f"z, into {READS[into]}",
                "edge",
                [str(wire.edge).rpartition(".")[0] for wire in some],  # "0.0 → 1.4"
                [wire.z for wire in some],
            )
            for into, some in by_use.items()
            if some
        )


def wire_table(edges: Sequence[Edge], by: Measure, carried: Sequence[Carried]) -> pd.DataFrame:
    """Edges, one row each: from which head to which, their numbers, and what each carries."""
    table = edge_table(edges)
    table["z"] = [edge.z(by) for edge in edges]
    table["carries here (%)"] = [100 * edge.share for edge in carried]
    return table.drop(columns="ratio" if by == "kernel" else "kernel")


def joint_pattern(heads: VirtualHead, trace: Trace) -> Panel:
    """The pattern of two heads composed, on a text: (T, T), queries down and keys across.

    A key is masked if no token in between leads to it, whatever each head alone masks.
    """
    (a, b), (c, d) = heads.sender, heads.receiver
    title = f"{c}.{d} of what {a}.{b} took"
    first, second = (
        (~mask_of(trace, *head)).astype(np.float32) for head in (heads.sender, heads.receiver)
    )
    return replace(
        stage_panel(trace, trace.labels, "weights", c, d, title),
        values=heads.pattern(trace).astype(np.float32),
        masked=second @ first == 0,
        name="joint",
        quantity="weight through both heads",
        head=None,
    )

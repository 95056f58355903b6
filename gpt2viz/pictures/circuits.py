"""A head by its weights alone: its scores beside a run's, and what it makes of places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from gpt2viz.analysis.circuits import ByDistance, Foretold, Ranked
from gpt2viz.analysis.composition import Edge
from gpt2viz.analysis.folding import Numbers
from gpt2viz.analysis.scores import Scores
from gpt2viz.labels import signed
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Curve, Curves, Role

#: Distances that the curve of places shows at most.
FARTHEST = 64


def foretold_panels(found: Foretold, labels: Sequence[str]) -> list[Panel]:
    """The scores by the weights alone, and those of the run."""
    masked = np.isnan(found.by_weights)
    with np.errstate(over="ignore"):  # what float32 can't hold is drawn as infinite
        by_weights, in_run = (
            np.where(masked, 0, scores).astype(np.float32)
            for scores in (found.by_weights, found.in_run)
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


def place_curve(what: str, found: ByDistance) -> Curves:
    """The mean score by places alone at each distance, and one standard deviation either way."""
    n = min(len(found.mean), FARTHEST + 1)
    far = list(range(n))
    drawn: dict[str, tuple[Numbers, Role, str]] = {
        "mean": (found.mean, "accent", "solid"),
        "mean + σ": (found.mean + found.spread, "second", "dot"),
        "mean − σ": (found.mean - found.spread, "second", "dash"),
    }
    curves = []
    for name, (values, role, dash) in drawn.items():
        said = [f"{back} back\n{name}: {values[back]:.2f}" for back in far]
        curves.append(Curve(name, far, values[:n].tolist(), role, said, dash))
    return Curves(what, curves, "tokens back", "score", height=200)


def token_table(writes: Ranked, likes: Ranked, names: Sequence[str]) -> pd.DataFrame:
    """The tokens that a head writes and likes, most and least, each with its number."""
    ends = {
        "raises most": writes.most,
        "lowers most": writes.least,
        "looks for": likes.most,
        "looks away from": likes.least,
    }
    return pd.DataFrame(
        {
            title: [f"{names[token]}  {signed(value, '+.1f')}" for token, value in end]
            for title, end in ends.items()
        }
    )


def survey_rows(
    mean: Mapping[str, Scores], margin: Mapping[str, Scores], layer: int, head: int
) -> pd.DataFrame:
    """A head's scores across many texts, with their margins and its place among all heads."""
    return pd.DataFrame(
        {
            "score": list(mean),
            "mean": [every[layer, head] for every in mean.values()],
            "± (95 %)": [margin[name][layer, head] for name in mean],
            "place": [1 + int((every > every[layer, head]).sum()) for every in mean.values()],
        }
    )


def edge_table(edges: Sequence[Edge]) -> pd.DataFrame:
    """Pairs of heads and how much the second reads of the first, beside chance."""
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

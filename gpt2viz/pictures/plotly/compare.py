"""Two runs or heads side by side: where a token looks in both, and its path through the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from gpt2viz.analysis.comparison import Nearest, Pair, Path, Place
from gpt2viz.labels import markup_safe, shorten
from gpt2viz.pictures.from_trace import difference, head_stage
from gpt2viz.pictures.grid import LEGEND_ABOVE
from gpt2viz.pictures.measure import mean_of_heads, one_head, weights_measure
from gpt2viz.pictures.palette import FILLS, POINTS, Palette, filled
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.run.trace import Trace

#: So many names fit below bars.
NAMED = 30


def short_name(place: Place) -> str:
    """Where in the model a vector is read, as short as an axis needs it: "2 · MLP"."""
    key, layer = place
    if layer is None:
        return {"token_embedding": "token", "embedding": "+ position"}[key]
    return f"{layer} · {'attention' if key in ('residual_mid', 'attention_output') else 'MLP'}"


def path_lines(paths: Mapping[str, tuple[Path, Path]], colors: Palette) -> go.Figure:
    """The cosine similarity of two vectors at every place, by name of what was run.

    Each name has the path of the stream, drawn through, and that of what the layers' parts add
    to it, dotted, where they add it. Up to two names.
    """
    figure = go.Figure()
    looks = zip(colors.cases(len(paths)), POINTS, strict=False)
    for (name, both), (color, point) in zip(paths.items(), looks, strict=False):
        for what, path, dash in zip(
            ("stream", "added by the part"), both, ("solid", "dot"), strict=True
        ):
            figure.add_trace(
                go.Scatter(
                    x=[short_name(place) for place in path.places],
                    y=path.cosine,
                    name=f"{name}: {what}",
                    mode="lines+markers",
                    line={"color": color, "dash": dash},
                    marker={"symbol": point},
                    customdata=path.difference,
                    hovertemplate="layer · part: %{x}<br>cosine similarity %{y:.6f}<br>largest "
                    "difference of a number %{customdata:.3g}<extra></extra>",
                )
            )
    every = [path.cosine for both in paths.values() for path in both]
    lowest = float(np.nanmin(np.concatenate(every), initial=0.0))
    figure.update_layout(
        height=400,
        margin={"l": 8, "r": 8, "t": 50, "b": 8},
        legend=LEGEND_ABOVE,
        plot_bgcolor="rgba(0,0,0,0)",
        hoverlabel={"align": "left"},
    )
    stream = next(iter(paths.values()))[0]
    order = [short_name(place) for place in stream.places]
    figure.update_xaxes(
        type="category",
        title={"text": "after layer · part"},
        categoryorder="array",
        categoryarray=order,
    )
    figure.update_yaxes(title={"text": "cosine similarity"}, range=[lowest - 0.05, 1.05])
    return figure


def aligned_bars(
    pairs: Sequence[Pair],
    labels: tuple[Sequence[str], Sequence[str]],
    rows: tuple[NDArray[np.floating], NDArray[np.floating]],
    names: tuple[str, str],
    colors: Palette,
) -> go.Figure:
    """One query's weights on two sides, (T_a,) and (T_b,), above each other's aligned tokens.

    ``labels`` are both sides' tokens, ``names`` what the two are called.
    """
    figure = go.Figure()
    for side, (color, fill) in enumerate(zip(colors.cases(2), FILLS, strict=True)):
        places = [pair[side] for pair in pairs]
        figure.add_trace(
            go.Bar(
                x=list(range(len(pairs))),
                y=np.array([np.nan if n is None else rows[side][n] for n in places]),
                name=names[side],
                marker=filled(color, fill),
                customdata=[
                    "none" if n is None else f"{n} {markup_safe(labels[side][n])}" for n in places
                ],
                hovertemplate="%{customdata}: weight %{y:.6f}<extra>" + names[side] + "</extra>",
            )
        )

    step = -(-len(pairs) // NAMED)
    figure.update_xaxes(
        tickvals=list(range(0, len(pairs), step)),
        ticktext=[_tick(p, labels) for p in pairs[::step]],
    )
    figure.update_yaxes(title={"text": "attention weight"}, rangemode="tozero")
    figure.update_layout(
        height=260,
        barmode="group",
        bargap=1 - min(0.8, 0.1 + 0.1 * len(pairs)),  # a few bars are no walls
        margin={"l": 8, "r": 8, "t": 34, "b": 8},
        legend=LEGEND_ABOVE,
        plot_bgcolor="rgba(0,0,0,0)",
    )
    return figure


def _tick(pair: Pair, labels: tuple[Sequence[str], Sequence[str]]) -> str:
    """The token's name, or both sides' below each other where they differ."""
    parts = [
        "–" if n is None else markup_safe(shorten(of[n], 10))
        for n, of in zip(pair[:2], labels, strict=True)
    ]
    return parts[0] if pair.same else "<br>".join(parts)


def side_panel(
    trace: Trace, labels: Sequence[str], layer: int, head: int | None, title: str
) -> Panel:
    """A head's attention weights (T, T) of one side, or the mean of the layer's heads for None."""
    if head is None:
        mean = mean_of_heads(weights_measure(trace, labels, layer))
        return one_head(mean, 0, title, "weights")
    return head_stage(trace, labels, "weights", layer, head, title)


def difference_of_matched(
    a: Panel, b: Panel, matches: Sequence[tuple[int, int]], title: str
) -> Panel:
    """b − a where both sides have the token: (M, M) from (T_a, T_a) and (T_b, T_b).

    ``matches`` are M positions in ``a`` and ``b``, in the order of ``a``, by which it is named.
    """
    left, right = ([pair[side] for pair in matches] for side in (0, 1))
    return difference(_only(a, left, a, left), _only(b, right, a, left), title)


def _only(panel: Panel, chosen: list[int], named: Panel, names: list[int]) -> Panel:
    """Some rows of a panel and the same columns, with the names of ``named``."""
    cells = np.ix_(chosen, chosen)
    labels = [named.rows.labels[n] for n in names]
    return replace(
        panel,
        values=panel.values[cells],
        masked=None if panel.masked is None else panel.masked[cells],
        rows=Axis("query", labels, names),
        columns=Axis("key", labels, names),
    )


def nearest_table(
    found: Mapping[str, Nearest], places: Sequence[Place], vocabulary: Sequence[str]
) -> pd.DataFrame:
    """The nearest tokens at every place, best first, each with its cosine similarity.

    A column for each name in ``found``.
    """
    columns = {
        name: [
            "  ".join(f"{vocabulary[n]} {c:.2f}" for n, c in zip(ids, cosines, strict=True))
            for ids, cosines in zip(nearest.ids, nearest.cosine, strict=True)
        ]
        for name, nearest in found.items()
    }
    rows = pd.Index([short_name(place) for place in places], name="layer · part")
    return pd.DataFrame(columns, index=rows)

"""Two runs or heads side by side: a token's attention in both, and its path through the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gpt2viz.analysis.comparison import Nearest, Pair, Path
from gpt2viz.labels import shorten
from gpt2viz.pictures.from_trace import (
    difference,
    mean_of_heads,
    one_head,
    stage_panel,
    weights_measure,
)
from gpt2viz.pictures.palette import POINTS
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Bars, Case, Curve, Curves
from gpt2viz.run.stages import Site
from gpt2viz.run.trace import Trace


def short_name(site: Site) -> str:
    """The name of a site where a vector is read, short enough for an axis: "2 · MLP"."""
    key, layer = site
    if layer is None:
        return {"token_embedding": "token", "embedding": "start"}[key]
    return f"{layer} · {'attention' if key in ('residual_mid', 'attention_output') else 'MLP'}"


def path_lines(what: str, paths: Mapping[str, tuple[Path, Path]]) -> Curves:
    """The cosine similarity of two vectors at every site, by the name of the run.

    Each name has the path of the stream, as a solid line, and that of the layers' additions to it,
    dotted. Up to two names.
    """
    curves = [
        Curve(
            name=f"{name}: {part}",
            x=[short_name(site) for site in path.sites],
            y=path.cosine.tolist(),
            role=n,
            hover=_hover_texts(path),
            dash=dash,
            point=POINTS[n],
        )
        for n, (name, both) in enumerate(paths.items())
        for part, path, dash in zip(
            ("stream", "added by this step"), both, ("solid", "dot"), strict=True
        )
    ]
    every = np.concatenate([path.cosine for both in paths.values() for path in both])
    return Curves(
        what,
        curves,
        "after layer · step",
        "cosine similarity",
        height=400,
        lowest=float(np.nanmin(every, initial=0.0)) - 0.05,
        highest=1.05,
    )


def _hover_texts(path: Path) -> list[str]:
    return [
        f"layer · step: {short_name(site)}\ncosine similarity {cosine:.6f}\n"
        f"largest difference of a number {apart:.3g}"
        for site, cosine, apart in zip(path.sites, path.cosine, path.difference, strict=True)
    ]


def aligned_bars(
    what: str,
    pairs: Sequence[Pair],
    labels: tuple[Sequence[str], Sequence[str]],
    rows: tuple[NDArray[np.floating], NDArray[np.floating]],
    names: tuple[str, str],
) -> Bars:
    """One query's weights on two sides, (T_a,) and (T_b,), in pairs of aligned tokens.

    ``labels`` are both sides' tokens, ``names`` the sides' names.
    """
    cases = []
    for side, name in enumerate(names):
        positions = [pair[side] for pair in pairs]
        weights = [float("nan") if n is None else float(rows[side][n]) for n in positions]
        hover = [
            f"{'none' if n is None else f'{n} {labels[side][n]}'}: weight {weight:.6f}"
            for n, weight in zip(positions, weights, strict=True)
        ]
        cases.append(Case(name, range(len(pairs)), weights, side, (), hover))
    return Bars(what, [_name(pair, labels) for pair in pairs], cases, "attention weight")


def _name(pair: Pair, labels: tuple[Sequence[str], Sequence[str]]) -> str:
    """The token's name, or both sides' if they differ."""
    parts = [
        "–" if n is None else shorten(of[n], 10) for n, of in zip(pair[:2], labels, strict=True)
    ]
    return parts[0] if pair.same else " / ".join(parts)


def side_panel(
    trace: Trace, labels: Sequence[str], layer: int, head: int | None, title: str
) -> Panel:
    """A head's attention weights (T, T) of one side, or the mean of the layer's heads for None."""
    if head is None:
        mean = mean_of_heads(weights_measure(trace, labels, layer))
        return one_head(mean, 0, title, "weights")
    return stage_panel(trace, labels, "weights", layer, head, title)


def difference_of_matched(
    a: Panel, b: Panel, matches: Sequence[tuple[int, int]], title: str
) -> Panel:
    """b − a where both sides have the token: (M, M) from (T_a, T_a) and (T_b, T_b).

    ``matches`` are M positions in ``a`` and ``b``, in the order of ``a``, whose labels it has.
    """
    left, right = ([pair[side] for pair in matches] for side in (0, 1))
    return difference(_select(a, left), _select(b, right), title)


def _select(panel: Panel, chosen: list[int]) -> Panel:
    """Some rows and the same columns of a panel."""
    axes = panel.rows.part(chosen, None), panel.columns.part(chosen, None)
    return panel.cells(np.ix_(chosen, chosen), *axes)


def nearest_table(
    by_name: Mapping[str, Nearest], sites: Sequence[Site], vocabulary: Sequence[str]
) -> pd.DataFrame:
    """The nearest tokens at every site, best first, each with its cosine similarity.

    A column for each name in ``by_name``.
    """
    columns = {
        name: [
            "  ".join(f"{vocabulary[n]} {c:.2f}" for n, c in zip(ids, cosines, strict=True))
            for ids, cosines in zip(nearest.ids, nearest.cosine, strict=True)
        ]
        for name, nearest in by_name.items()
    }
    rows = pd.Index([short_name(site) for site in sites], name="layer · step")
    return pd.DataFrame(columns, index=rows)

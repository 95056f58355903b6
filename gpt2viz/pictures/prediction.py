"""Predictions: probabilities, surprise, contributions to a logit, and the logit lens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpt2viz.labels import percent, shorten
from gpt2viz.pictures.palette import DASHES, POINTS
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Bars, Case, Curve, Curves, Heatmaps, Lens, Reading, Role

if TYPE_CHECKING:
    from gpt2viz.analysis.lens import Contributions, LogitLens


#: The most bars with numbers at their ends, and the most points of a curve that are marked.
_WRITTEN = 30


def probability_bars(
    what: str,
    tokens: Sequence[str],
    cases: Mapping[str, Sequence[float]],
    *,
    rest: bool = False,
) -> Bars:
    """Next-token probabilities in percent, a bar per token, or a pair to compare two ``cases``.

    ``rest`` says that the last one stands for many tokens together.
    """
    names = list(tokens)
    return Bars(
        what,
        names,
        [
            Case(
                name=name,
                at=range(len(names)),
                values=list(values),
                role=n,
                written=[percent(value / 100, 2) for value in values],
                hover=[f"{t}: {percent(x / 100, 4)}" for t, x in zip(names, values, strict=True)],
                rest=rest,
            )
            for n, (name, values) in enumerate(cases.items())
        ],
        "probability (%), over the whole vocabulary",
        across=True,
    )


def token_bars(
    what: str, labels: Sequence[str], values: NDArray[np.floating], title: str, unit: str = ""
) -> Bars:
    """One number (T,) per token, as bars; NaN has none. ``title`` names the number."""
    axis = Axis("token", labels)
    names = axis.plain_names()
    few = len(values) <= _WRITTEN
    only = Case(
        name="",
        at=range(len(values)),
        values=values.tolist(),
        role=0,
        written=[_short(v) if np.isfinite(v) else "" for v in values] if few else (),
        hover=[f"{name}\n{v:.5g} {unit}".rstrip() for name, v in zip(names, values, strict=True)],
    )
    return Bars(what, names, [only], title, ticks=axis.plain_ends())


def _short(value: float) -> str:
    """Round to three digits, none below a thousandth: "9.00", "0.001"."""
    return f"{value:.3f}" if abs(value) < 1 else f"{value:#.3g}".rstrip(".")


def surprise_curves(
    what: str, labels: Sequence[str], bits: Mapping[str, NDArray[np.floating]]
) -> Curves:
    """Surprise of every token but the first in bits, (T,) per mode of reading, as curves."""
    names = Axis("token", labels).plain_names()[1:]
    roles: tuple[Role, ...] = ("ink", 0, 1)
    curves = [
        Curve(
            name,
            names,
            values[1:].tolist(),
            role,
            [f"{token}\n{value:.3f} bits" for token, value in zip(names, values[1:], strict=True)],
            dash,
            point="circle" if len(labels) <= _WRITTEN else "",
        )
        for (name, values), role, dash in zip(bits.items(), roles, DASHES, strict=False)
    ]
    return Curves(what, curves, "token", "surprise (bits)", lowest=0)


def contribution_map(what: str, parts: Contributions) -> Heatmaps:
    """The addition of every head, bias and MLP to a logit: layers down, parts across, signed.

    A click on a head's cell carries its layer as row and its number as column.
    """
    n_layer, n_head = parts.heads.shape
    columns = {f"head {n}": parts.heads[:, n] for n in range(n_head)}
    if parts.attention_bias is not None:
        columns["bias b_O"] = parts.attention_bias
    columns["MLP"] = parts.mlp
    panel = Panel(
        title="",
        values=np.column_stack([*columns.values()]),
        rows=Axis("", [f"layer {n}" for n in range(n_layer)], numbered=False),
        columns=Axis("", [*columns], numbered=False),
        name="contributions",
        quantity="nats of logit",
    )
    return Heatmaps(
        what,
        [panel],
        scale="signed",
        height=max(220, 70 + 34 * n_layer),
        numbers=16,
        plus=True,
        bar="added to the logit (nats)",
        legend=False,
        rules=((), (n_head,)),
    )


def site_name(site: tuple[str, int | None]) -> str:
    """The name of a lens row's site on the stream: "layer 2, after MLP"."""
    key, layer = site
    if layer is None:
        return "embeddings"
    return f"layer {layer}, after {'attention' if key == 'residual_mid' else 'MLP'}"


def lens_map(
    what: str, lens: LogitLens, vocabulary: Sequence[str], labels: Sequence[str], chosen: int
) -> Lens:
    """The logit lens at every site: rows from the embeddings down to the end.

    Three pictures on the same rows: the most probable next token after each of the lens's
    positions, by its probability; then for the ``chosen`` position, which is framed, the rank
    of the final answer and the entropy.
    """
    at = lens.positions.index(chosen)
    tokens = Axis("after token", [labels[n] for n in lens.positions], lens.positions)
    columns = [(lens, n) for n in range(len(lens.positions))]
    reading = _reading("", lens, at, ("accent", "second"))
    return _lens(what, columns, tokens, vocabulary, [reading], chosen)


def lens_of_runs(what: str, runs: Mapping[str, LogitLens], vocabulary: Sequence[str]) -> Lens:
    """Up to two runs' streams at one position, by name: rows from the embeddings to the end.

    The most probable next token at every site, a column for each run; then a curve for each:
    the rank of one answer, the same in both, and the entropy.
    """
    columns = [(lens, 0) for lens in runs.values()]
    readings = [
        _reading(name, lens, 0, (n, n), POINTS[n]) for n, (name, lens) in enumerate(runs.items())
    ]
    return _lens(what, columns, Axis("", list(runs), numbered=False), vocabulary, readings)


def _lens(
    what: str,
    columns: Sequence[tuple[LogitLens, int]],
    names: Axis,
    vocabulary: Sequence[str],
    readings: Sequence[Reading],
    chosen: int | None = None,
) -> Lens:
    """A lens picture with a column for each lens and the index of one of its positions."""
    rows = [site_name(site) for site in columns[0][0].sites]
    steps = range(len(rows))
    probabilities = [lens.probability[:, at] for lens, at in columns]
    panel = Panel(
        title="most probable next token",
        values=np.column_stack(probabilities).astype(np.float32),
        rows=Axis("", rows, numbered=False),
        columns=names,
        name="lens",
        quantity="probability",
        words=[[shorten(vocabulary[lens.top[s, at]], 8) for lens, at in columns] for s in steps],
        hover=[[_hover_text(lens, s, at, vocabulary) for lens, at in columns] for s in steps],
    )
    return Lens(what, panel, readings, chosen)


def _reading(
    name: str, lens: LogitLens, at: int, roles: tuple[Role, Role], point: str = POINTS[0]
) -> Reading:
    return Reading(name, lens.rank[:, at].tolist(), lens.entropy[:, at].tolist(), roles, point)


def _hover_text(lens: LogitLens, step: int, at: int, vocabulary: Sequence[str]) -> str:
    top, answer = (vocabulary[n] for n in (lens.top[step, at], lens.answer[at]))
    return (
        f"{top} {percent(lens.probability[step, at], 3)}\n"
        f"the answer {answer} has rank {lens.rank[step, at]:,}\n"
        f"entropy {lens.entropy[step, at]:.2f} bits"
    )

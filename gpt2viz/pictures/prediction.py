"""Pictures of what the model predicts: probabilities, surprise, and who wrote a logit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpt2viz.pictures.palette import DASHES
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Bars, Case, Curve, Curves, Heatmaps, Role

if TYPE_CHECKING:  # torch stays out of the pictures
    from gpt2viz.analysis.lens import Contributions

#: Over so many bars no numbers are written, and over so many points of a curve none is marked.
_WRITTEN = 30


def probability_bars(
    what: str,
    tokens: Sequence[str],
    cases: Mapping[str, Sequence[float]],
    *,
    rest: bool = False,
) -> Bars:
    """Next-token probabilities in percent, one bar a token or a pair to compare two ``cases``.

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
                written=[f"{value:.2f} %" for value in values],
                said=[f"{t}: {value:.4f} %" for t, value in zip(names, values, strict=True)],
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
    """One number (T,) a token, as bars; NaN has none. ``title`` names the number."""
    axis = Axis("token", labels)
    names = axis.plain_names()
    few = len(values) <= _WRITTEN
    only = Case(
        name="",
        at=range(len(values)),
        values=values.tolist(),
        role=0,
        written=[_short(v) if np.isfinite(v) else "" for v in values] if few else (),
        said=[f"{name}\n{v:.5g} {unit}".rstrip() for name, v in zip(names, values, strict=True)],
    )
    return Bars(what, names, [only], title, ticks=axis.plain_ends())


def _short(value: float) -> str:
    """Three digits, of which none is worth less than a thousandth: "9.06", "0.001"."""
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.3g}"


def surprise_curves(
    what: str, labels: Sequence[str], bits: Mapping[str, NDArray[np.floating]]
) -> Curves:
    """Surprise of every token but the first in bits, (T,) of each way to read, as a curve each."""
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
    """What every head, bias and MLP added to a logit: layers down, parts across, signed.

    A click on a head's cell carries its layer as row and its number as column.
    """
    n_layer, n_head = parts.heads.shape
    names = [*(f"head {n}" for n in range(n_head)), "bias b_O", "MLP"]
    panel = Panel(
        title="",
        values=np.column_stack([parts.heads, parts.attention_bias, parts.mlp]),
        rows=Axis("", [f"layer {n}" for n in range(n_layer)], numbered=False),
        columns=Axis("", names, numbered=False),
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

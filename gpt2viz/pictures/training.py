"""Curves: losses and scores by the number of tokens read, and functions over one axis."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

import numpy as np
from numpy.typing import ArrayLike

from gpt2viz.anatomy.training_record import TrainingRecord
from gpt2viz.arrays import Numbers
from gpt2viz.pictures.palette import DASHES
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Curve, Curves, Heatmaps, Role


def loss_curves(what: str, record: TrainingRecord) -> Curves:
    """Three losses in nats per token over the tokens read, on a logarithmic axis."""
    curves = []
    roles: tuple[Role, ...] = ("accent", "second", "second")
    losses = {
        "held-out text": record.held_out,
        "random tokens, the first time": record.first_half,
        "the same tokens, repeated": record.second_half,
    }
    dashes = ("solid", "dot", "dash")
    tokens = record.tokens.tolist()
    for (name, values), role, dash in zip(losses.items(), roles, dashes, strict=True):
        hover = [
            f"{count:,.0f} tokens read\n{nats:.3f} nats"
            for count, nats in zip(tokens, values, strict=True)
        ]
        curves.append(Curve(name, tokens, values.tolist(), role, hover, dash, point="circle"))
    axes = "tokens read", "loss (nats per token)"
    return Curves(what, curves, *axes, height=400, log=True, lowest=0)


def score_growth(what: str, record: TrainingRecord, name: str) -> Heatmaps:
    """One score, in [0, 1], of every head (rows) at every point (columns).

    A click on a row carries layer · n_head + head as its row.
    """
    n_points, n_layer, n_head = record.scores[name].shape
    heads = [f"{layer} · {head}" for layer in range(n_layer) for head in range(n_head)]
    panel = Panel(
        title="",
        values=record.scores[name].reshape(n_points, -1).T.astype(np.float32),
        rows=Axis("layer · head", heads, numbered=False),
        columns=Axis("tokens read", [short(n) for n in record.tokens], numbered=False),
        name=name,
        quantity=f"{name} score",
    )
    return Heatmaps(
        what,
        [panel],
        height=110 + 15 * n_layer * n_head,
        numbers=0,
        bar=f"{name} score",
        legend=False,
        rules=([layer * n_head for layer in range(1, n_layer)], ()),
    )


def losses_at_steps(
    what: str, sentence: Mapping[int, float], repeated: Mapping[int, tuple[float, float]]
) -> Curves:
    """Losses in nats per token by training step: on a sentence, and on random tokens at their
    first occurrence and when repeated.
    """
    losses: list[tuple[str, Role, str, dict[int, float]]] = [
        ("your sentence", "accent", "solid", dict(sentence)),
        ("random tokens", "second", "dot", {n: first for n, (first, _) in repeated.items()}),
        ("repeated", "second", "dash", {n: again for n, (_, again) in repeated.items()}),
    ]
    curves = [_step_curve(*loss, unit=" nats") for loss in losses]
    curves = [curve for curve in curves if curve.x]
    return Curves(what, curves, "training steps", "loss (nats per token)", log=_positive(curves))


def scores_at_steps(
    what: str,
    scores: Mapping[int, Mapping[str, Numbers]],
    head: tuple[int, int],
    beside: tuple[int, int],
    habit: str,
) -> Curves:
    """Every habit's score of a ``head`` (layer, head) by training step, and the ``habit`` of its
    partner ``beside`` it; scores (n_layer, nh) by step and habit.
    """
    roles: tuple[Role, ...] = (1, "ink", 2, 0, 3)
    names = next(iter(scores.values()), {})
    curves = [
        _step_curve(name, role, dash, {step: float(of[name][head]) for step, of in scores.items()})
        for name, role, dash in zip(names, cycle(roles), cycle(DASHES), strict=False)
    ]
    named = f"{beside[0]}.{beside[1]} {habit}"
    others = {step: float(score[habit][beside]) for step, score in scores.items()}
    curves.append(_step_curve(named, "ink", "longdashdot", others))
    curves = [curve for curve in curves if curve.x]
    axes = "training steps", "score"
    return Curves(what, curves, *axes, log=_positive(curves), lowest=0.0, highest=1.0)


def losses_of_models(what: str, losses: Mapping[str, Mapping[int, float]]) -> Curves:
    """The held-out loss of some models, in nats per letter, by training step; not of step 0."""
    roles: tuple[Role, ...] = ("ink", "query", "key", "value")
    dashes = tuple(DASHES)
    curves = [
        _step_curve(
            name,
            roles[n % len(roles)],
            dashes[(n + n // len(roles)) % len(dashes)],  # a pair of its own for each
            {step: nats for step, nats in values.items() if step},
            " nats",
        )
        for n, (name, values) in enumerate(losses.items())
    ]
    return Curves(what, curves, "training steps", "loss (nats per letter)", log=True)


def _step_curve(
    name: str, role: Role, dash: str, values: Mapping[int, float], unit: str = ""
) -> Curve:
    """A curve over the steps that have a number."""
    steps = [step for step in sorted(values) if np.isfinite(values[step])]
    hover = [f"step {step:,}\n{values[step]:.3f}{unit}" for step in steps]
    return Curve(name, steps, [values[step] for step in steps], role, hover, dash)


def _positive(curves: list[Curve]) -> bool:
    """True if every step has a logarithm."""
    return all(step > 0 for curve in curves for step in curve.x)  # type: ignore[operator]


def short(count: float) -> str:
    """Abbreviate a number of tokens: "2.1 M", "410 k"."""
    return f"{count / 1e6:.1f} M" if count >= 1e6 else f"{count / 1e3:.0f} k"


_ROLES: tuple[Role, ...] = ("query", "key", "value", "ink")


def curves_at(
    what: str, x: ArrayLike, curves: Mapping[str, ArrayLike], x_title: str, y_title: str
) -> Curves:
    """One line per curve over the same x."""
    positions = np.asarray(x).tolist()
    drawn = []
    for (name, y), role, dash in zip(curves.items(), _ROLES, DASHES, strict=False):
        heights = np.asarray(y).tolist()
        hover = [f"{x_title} {a:.4g}\n{b:.4f}" for a, b in zip(positions, heights, strict=True)]
        drawn.append(Curve(name, positions, heights, role, hover, dash))
    return Curves(what, drawn, x_title, y_title)

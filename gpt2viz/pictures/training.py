"""How a model learned: its losses, and every head's score, against the tokens it had read."""

from __future__ import annotations

import numpy as np

from gpt2viz.anatomy.training_record import TrainingRecord
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Curve, Curves, Heatmaps, Role


def loss_curves(what: str, record: TrainingRecord) -> Curves:
    """Three losses in nats a token over the tokens read, on a logarithmic axis."""
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
        said = [
            f"{count:,.0f} tokens read\n{nats:.3f} nats"
            for count, nats in zip(tokens, values, strict=True)
        ]
        curves.append(Curve(name, tokens, values.tolist(), role, said, dash, point="circle"))
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
        columns=Axis("tokens read", [_short(n) for n in record.tokens], numbered=False),
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


def _short(count: float) -> str:
    return f"{count / 1e6:.1f} M" if count >= 1e6 else f"{count / 1e3:.0f} k"

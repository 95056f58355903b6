"""A checkpoint's record of its own training: losses, and every head's scores as they grew."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpt2viz.analysis.scores import recorded_scores
from gpt2viz.arrays import Numbers
from gpt2viz.errors import CheckpointError
from gpt2viz.files import is_there, read_json

RECORD = "training.json"


@dataclass(frozen=True, eq=False)
class TrainingRecord:
    """P points of a training run, in order.

    ``tokens`` (P,) were read by then. Losses (P,) are in nats a token: ``held_out`` on text that
    is never trained on; ``first_half`` and ``second_half`` on random tokens, at their first
    occurrence and when repeated. ``scores`` holds (P, n_layer, n_head) by name, mean attention
    weights in [0, 1]: those of ``gpt2viz.analysis.scores`` that the record has. ``set_heads`` are
    the (layer, head) that were set, not learned, before the first step.
    """

    tokens: Numbers
    held_out: Numbers
    first_half: Numbers
    second_half: Numbers
    scores: dict[str, Numbers]
    set_heads: tuple[tuple[int, int], ...]
    held_out_rows: int | None = None
    """Contexts of held-out text that the losses were measured on, if recorded."""
    steps: tuple[int, ...] = ()
    """The steps (P,) after which the points were measured, if recorded for each."""


def read_record(folder: Path, n_layer: int, n_head: int) -> TrainingRecord | None:
    """Read the record in a checkpoint folder; None if it has none.

    Raises ``CheckpointError`` if the file is broken or belongs to a model of other sizes.
    """
    path = folder / RECORD
    if not is_there(path):
        return None
    try:
        stored = read_json(path)
        points = stored["curves"]
        if not points:
            raise ValueError("no points")
        followed = [score for score in recorded_scores() if score.record in points[0]]
        if not followed:
            raise ValueError("no scores")
        return TrainingRecord(
            tokens=_column(points, "tokens"),
            held_out=_column(points, "held_out_loss"),
            first_half=_column(points, "first_half_loss"),
            second_half=_column(points, "second_half_loss"),
            scores={s.name: _column(points, s.record, n_layer, n_head) for s in followed},
            set_heads=tuple((int(layer), int(head)) for layer, head in stored.get("set_heads", [])),
            held_out_rows=None if (rows := stored.get("held-out rows")) is None else int(rows),
            steps=tuple(int(p["step"]) for p in points) if all("step" in p for p in points) else (),
        )
    except (ArithmeticError, KeyError, OSError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{RECORD}: this isn't a record of this model's training ({error}). "
            "Take it out of the folder, or put back the one that came with the weights."
        ) from error


def _column(points: list[dict[str, Any]], key: str, *sizes: int) -> Numbers:
    values = np.array([point[key] for point in points], float)
    if values.shape != (len(points), *sizes) or not np.isfinite(values).all():
        raise ValueError(f"{key}: {values.shape}")
    return values

"""The logit lens: the stream read after every step, of one run or of two side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpt2viz.labels import shorten
from gpt2viz.pictures.palette import POINTS
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Lens, Reading, Role

if TYPE_CHECKING:  # torch stays out of the pictures
    from gpt2viz.analysis.lens import LogitLens


def place_name(place: tuple[str, int | None]) -> str:
    """Where on the stream a row of the lens is: "layer 2, after MLP"."""
    key, layer = place
    if layer is None:
        return "embeddings"
    return f"layer {layer}, after {'attention' if key == 'residual_mid' else 'MLP'}"


def lens_map(
    what: str, lens: LogitLens, vocabulary: Sequence[str], labels: Sequence[str], chosen: int
) -> Lens:
    """The stream read at every place: rows from the embeddings down to the end.

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

    The most probable next token at every place, a column for each run; then a curve for each:
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
    """The tokens of a reading a column: a lens and the number of one of its positions."""
    rows = [place_name(place) for place in columns[0][0].places]
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
        said=[[_said(lens, s, at, vocabulary) for lens, at in columns] for s in steps],
    )
    return Lens(what, panel, readings, chosen)


def _reading(
    name: str, lens: LogitLens, at: int, roles: tuple[Role, Role], point: str = POINTS[0]
) -> Reading:
    return Reading(name, lens.rank[:, at].tolist(), lens.entropy[:, at].tolist(), roles, point)


def _said(lens: LogitLens, step: int, at: int, vocabulary: Sequence[str]) -> str:
    top, answer = (vocabulary[n] for n in (lens.top[step, at], lens.answer[at]))
    return (
        f"{top} {100 * lens.probability[step, at]:.3f} %\n"
        f"the answer {answer} has rank {lens.rank[step, at]:,}\n"
        f"entropy {lens.entropy[step, at]:.2f} bits"
    )

"""A query, its keys and the values that their weights mix, as arrows that can be moved.

What stands there at rest was computed here. While a point is on its way the script works out what
follows from it by the same formulas; where it is let go, it is sent here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.app.components import component
from gpt2viz.pictures.palette import Palette

_draw = component(__name__, '<div class="arrows" role="group"></div>')


@dataclass(frozen=True)
class Arrows:
    """One query (2,) and T keys (T, 2), with what follows from them.

    ``shadows`` (T, 2) are where the keys fall on the query's line, ``scores`` and ``weights`` (T,)
    those of the query, unscaled; softmax divides them by ``temperature``. ``values`` (T, 2) are
    mixed by the weights; ``ends`` (T + 1, 2) is where each piece of the mixture begins and the last
    one ends.
    """

    words: Sequence[str]
    axes: tuple[str, str]
    query: ArrayLike
    keys: ArrayLike
    shadows: ArrayLike
    scores: ArrayLike
    weights: ArrayLike
    values: ArrayLike
    ends: ArrayLike
    temperature: float = 1


def draw(
    drawn: Arrows,
    colors: Palette,
    *,
    key: str,
    largest: float,
    moved: Callable[[list[float], list[float], list[float]], None],
) -> None:
    """Draw the arrows; ``moved`` is called with the numbers of query, keys and values after a move.

    Numbers lie between −``largest`` and ``largest``.
    """
    counts: dict[str, int] = st.session_state.setdefault("_edits_seen", {})

    def told() -> None:
        message = st.session_state[key]["moved"]
        counts[key] = int(message["count"])
        query, *keys = message["arrows"]
        moved(
            *(
                [float(x) for one in part for x in one]
                for part in ([query], keys, message["values"])
            )
        )

    _draw(
        key=key,
        data={
            "alt": f"Query and keys of {drawn.words[0]} as arrows, and the values that it mixes",
            "words": list(drawn.words),
            "axes": list(drawn.axes),
            "arrows": _numbers(np.vstack([drawn.query, drawn.keys])),
            "shadows": _numbers(drawn.shadows),
            "values": _numbers(drawn.values),
            "ends": _numbers(drawn.ends),
            "weights": _numbers(drawn.weights),
            "scores": _numbers(drawn.scores),
            "heat": drawn.temperature,
            "colors": {role: colors.shade(role, 1) for role in ("query", "key", "value")}
            | {"new": colors.shade(3, 4)},
            "largest": largest,
            "count": counts.get(key, 0),
        },
        on_moved_change=told,
    )


def _numbers(values: ArrayLike) -> Any:
    """The same numbers as lists, each with the digits that it needs: 0.7 comes back as 0.7."""
    exact = np.asarray(values, np.float32)
    return np.reshape([float(str(x)) for x in exact.ravel()], exact.shape).tolist()

"""Curves over one axis, such as activation functions or a size against depth."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from gpt2viz.pictures.palette import DASHES
from gpt2viz.pictures.picture import Curve, Curves, Role

_ROLES: tuple[Role, ...] = ("query", "key", "value", "ink")


def curves_at(
    what: str, x: ArrayLike, curves: Mapping[str, ArrayLike], x_title: str, y_title: str
) -> Curves:
    """One line a curve over the same x."""
    places = np.asarray(x).tolist()
    drawn = []
    for (name, y), role, dash in zip(curves.items(), _ROLES, DASHES, strict=False):
        heights = np.asarray(y).tolist()
        said = [f"{x_title} {a:.4g}\n{b:.4f}" for a, b in zip(places, heights, strict=True)]
        drawn.append(Curve(name, places, heights, role, said, dash))
    return Curves(what, drawn, x_title, y_title)

"""Paths into a head: which earlier heads it depends on through its queries, keys and values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpt2viz import PathSweep, patch_path, patch_paths
from gpt2viz.analysis.direct_paths import WAYS
from gpt2viz.app import jobs, output, prose
from gpt2viz.app.clicks import Cell
from gpt2viz.app.jobs import PathSearch
from gpt2viz.app.views import sweep_offer
from gpt2viz.app.views.patched import Runs, effect
from gpt2viz.pictures.patching import READS, brought, path_maps

_EVERY = "Run every path"


def draw(runs: Runs, head: tuple[int, int] | None, choose: Callable[[Cell], None]) -> None:
    """The share of the answer that comes along every path into a head, (layer, head)."""
    if head is None:
        prose.caption("The first numbers are on their way.")
        return
    name = f"{head[0]}.{head[1]}"
    if head[0] == 0:
        prose.markdown(
            f"Head **{name}** is in the first layer: it reads the tokens themselves, and no other "
            "head comes before it. Click a head of a later layer."
        )
        return
    found = _sweep(runs, head)
    done = 0 if found is None else int(np.isfinite(found.values).all(axis=(0, 2)).sum())
    if found is None or not done:
        prose.caption("The first numbers are on their way.")
        return
    shares = brought(found)[:, :done]  # (3, layers, n_head)
    prose.markdown(_says(runs, name, shares))
    what = f"Share of the answer along each path into head {name}"
    output.picture(
        path_maps(what, shares, height=max(150, 60 + 26 * done)),
        runs.clean.colors,
        key="head_paths",
        choose=choose,
        made_by=(patch_paths, patch_path),
    )
    prose.caption(
        "A path is direct: what an earlier head writes in the other run is read by this head's "
        "queries, keys or values alone, and all else is held (path patching: Wang et al. 2022; "
        "Goldowsky-Dill et al. 2023). Click a head to go on to the paths into it."
    )


def _sweep(runs: Runs, head: tuple[int, int]) -> PathSweep | None:
    """The paths into a head by now, with a bar while there are more to come."""
    keys = runs.clean.trace.key, runs.corrupted.trace.key
    wanted = PathSearch(*keys, head, runs.answer, runs.direction, runs.metric)
    config = runs.clean.model.config
    n_runs = len(WAYS) * head[0] * config.n_head
    cost = 2 * runs.cost * n_runs * (1 - head[0] / config.n_layer)
    (found,), begun = sweep_offer.begin(
        [wanted], runs.clean.model, cost, "paths", offer=_EVERY, until="Nothing is measured yet."
    )
    if begun:
        jobs.bar([found], "Paths", _EVERY, "paths")
    sweep: PathSweep | None = found.result
    return sweep


def _says(runs: Runs, name: str, shares: np.ndarray) -> str:
    """The path that does most, in words made of its number; Markdown."""
    way, layer, head = (int(n) for n in np.unravel_index(np.abs(shares).argmax(), shares.shape))
    share, paths = float(shares[way, layer, head]), f"all {shares.size} paths into head {name}"
    if abs(share) < 0.005:
        return f"Of {paths}, none moves the answer by even 1 %: it depends on no head alone."
    source, into = ("first", "second") if runs.direction == "denoise" else ("second", "first")
    reads = READS[WAYS[way]]
    return (
        f"What head **{layer}.{head}** writes in the {source} run, put into the **{reads}** of "
        f"head **{name}** alone in the {into}, **{effect(runs, share)}**. Of {paths} "
        "none does more."
    )

"""Fewest heads: how few of them keep the answer, and which."""

from __future__ import annotations

from gpt2viz import FewestHeads, fewest_heads
from gpt2viz.app import jobs, output, prose
from gpt2viz.app.jobs import HeadSearch
from gpt2viz.app.views import sweep_offer
from gpt2viz.app.views.patched import Runs
from gpt2viz.pictures.patching import faithfulness_curve

#: The share of the answer that is to be kept.
KEPT = 0.9
_SEARCH = "Search"


def draw(runs: Runs) -> None:
    """The search on its way, and what it found by now: heads in words, and the curve."""
    found = _search(runs)
    if found is None:
        return
    if said := found.words(KEPT):
        prose.markdown(said)
    output.picture(
        faithfulness_curve("Share of the answer that is kept, by how many heads are left", found),
        runs.clean.colors,
        key="fewest",
        made_by=(fewest_heads,),
    )
    prose.caption(
        "Heads are given up one by one, each time the one that is missed least. One that is gone "
        "puts out its mean over both sentences at every token, so it no longer tells them apart. "
        "The share is how far apart the logit differences of both sentences still are. Nothing "
        "says that no other few would do (the question: Conmy et al. 2023)."
    )


def _search(runs: Runs) -> FewestHeads | None:
    """What is found by now, with a bar while there is more to come."""
    config = runs.clean.model.config
    n_heads = config.n_layer * config.n_head
    wanted = HeadSearch(runs.clean.trace.key, runs.corrupted.trace.key, runs.answer)
    (search,), begun = sweep_offer.begin(
        [wanted],
        runs.clean.model,
        runs.cost * n_heads * (n_heads + 1),
        "fewest",
        offer=_SEARCH,
        until="The heads are tried one after the other, by many runs of both sentences.",
    )
    if begun:
        jobs.bar([search], "Giving up heads", _SEARCH, "fewest")
    found: FewestHeads | None = search.result
    return found

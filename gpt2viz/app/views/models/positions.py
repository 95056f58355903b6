"""How alike the vectors of two places in a text are, for every two places."""

from __future__ import annotations

import math

import streamlit as st

from gpt2viz.app import output, prose, run_cache
from gpt2viz.labels import signed
from gpt2viz.pictures.anatomy import similarity_at, similarity_map
from gpt2viz.pictures.measure import GRID
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Heatmaps


def draw(name: str, colors: Palette) -> None:
    """The map of all places, and what to see in it."""
    panel, means = _similarities(name)
    n = panel.rows.stop or 0
    chart, words = st.columns([3, 2], gap="large")
    with chart:
        output.picture(
            Heatmaps(
                f"Cosine similarity of every pair of position embeddings of {name}",
                [panel],
                scale="signed",
                height=560,
                numbers=0,
                bar="cosine",
                legend=False,
            ),
            colors,
            key="positions",
            of_run=False,
            made_by=(similarity_map, similarity_at),
        )
        if len(panel.values) < n:
            prose.caption(
                f"{n:,} places are more than a picture has room for: each point is the number "
                "farthest from 0 in its block."
            )
    with words:
        prose.markdown(
            f"Every place of a text, from 0 to {n - 1:,}, has a vector of its own, which is added "
            "to the token's. Each cell compares two places by **cosine similarity**: 1 where their "
            "vectors point the same way, 0 where they are at right angles, −1 where "
            "they are opposite."
        )
        prose.markdown("\n".join(_findings(means)))
        if run_cache.is_bundled(run_cache.model_folders()[name]):
            prose.caption(
                "This model's places began as **waves** of several lengths, which its "
                "training then changed: hence the stripes. GPT-2's own began as random "
                "numbers; nobody told it which place is next to which."
            )
        prose.caption(
            "What to look for: a **band** along the diagonal says that near places have similar "
            "vectors, which lets the model tell near from far. **Stripes** beside it say that the "
            "vectors return to a direction after a certain number of steps, as on a wave. A row "
            "that stands "
            "out, often the first, is a place with a vector unlike the others. Even colour away "
            "from the diagonal means that those places were hardly told apart, or seldom seen."
        )


@st.cache_resource(max_entries=4, show_spinner="Comparing all places …")
def _similarities(name: str) -> tuple[Panel, dict[int, float]]:
    """The map, and the mean similarity at some distances."""
    vectors = run_cache.load(name).network.wpe.weight.cpu().numpy()
    distances = [d for d in (1, 2, 8, 32, 128, 512) if d < len(vectors)]
    return similarity_map(vectors, GRID), {d: similarity_at(vectors, d) for d in distances}


def _findings(means: dict[int, float]) -> list[str]:
    lines = ["|places apart|mean cosine|", "|-:|-:|"]
    for distance, mean in means.items():
        written = "no direction" if math.isnan(mean) else signed(mean, "+.3f")
        lines.append(f"|{distance}|{written}|")
    return lines

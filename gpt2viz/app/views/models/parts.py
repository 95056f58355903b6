"""Where a model's parameters are: a table, and bars beside it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from gpt2viz.anatomy.parameters import Part, parts
from gpt2viz.app import output, prose, run_cache
from gpt2viz.model.checkpoint import read_config
from gpt2viz.model.memory import spell
from gpt2viz.pictures.anatomy import part_bars
from gpt2viz.pictures.palette import Palette

_NUMBER = st.column_config.NumberColumn(format="localized")


def draw(name: str, colors: Palette) -> None:
    """Every part, all layers together, from the sizes that the files must have."""
    config = read_config(run_cache.model_folders()[name])
    found = parts(config)
    counts = [part.n_parameters for part in found]
    whole = sum(counts)
    prose.markdown(
        f"**{whole:,} parameters**, {spell(4 * whole)} in memory (four bytes each). Its "
        f"layers ({config.n_layer}) are built alike and have weights of their own."
    )
    table, chart = st.columns(2, gap="large")
    with table:
        _table(found, whole)
        prose.caption(
            "The unembedding (`lm_head`), which makes the logits, has no weights of its own: it "
            "uses the table of token embeddings again (weight tying). They are counted once, as "
            "embeddings."
            if config.tie_word_embeddings
            else "The unembedding (`lm_head`), which makes the logits, has a table of its own: "
            "this model doesn't tie it to the token embeddings."
        )
    with chart:
        names, groups = [part.name for part in found], [part.group for part in found]
        what = f"Parameters of every part of {name}"
        output.picture(
            part_bars(what, names, groups, counts, "parameters"),
            colors,
            key="part_bars",
            of_run=False,
            made_by=(parts,),
        )


def _table(found: Sequence[Part], whole: int) -> None:
    counts = [*(part.n_parameters for part in found), whole]
    table = pd.DataFrame(
        {
            "part": [*(part.name for part in found), "all"],
            "in one layer": [*(p.each if p.times > 1 else None for p in found), None],
            "in the model": counts,
            "share (%)": [100 * n / whole for n in counts],
            "weights": [*(part.tensors for part in found), ""],
        }
    )
    output.table(
        table.astype({"in one layer": "Int64"}),
        "Parameters of every part",
        hide_index=True,
        key="parts",
        placeholder="",
        height="content",
        column_config={
            "in one layer": _NUMBER,
            "in the model": _NUMBER,
            "share (%)": st.column_config.NumberColumn(format="%.2f"),
        },
    )

"""The glossary on the pages: the words of each page at hand, and links to single words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import streamlit as st

from gpt2viz.analysis.scores import SCORES, Score, recorded
from gpt2viz.app import address, prose
from gpt2viz.app.terms import TERM, Term


def _of(scores: Iterable[Score]) -> str:
    """The words for heads with these habits, where the glossary has one."""
    return " ".join(score.term for score in scores if score.term)


#: The words that a page uses, by the keys of the glossary.
USED: Mapping[str, str] = {
    "Attention": "token head layer query key value attention-weight causal-mask attention-sink "
    "value-weighted-attention",
    "Inside a head": "query key value score softmax causal-mask attention-weight head-output shape",
    "Layers": "layer head query key attention-weight attention-sink rollout",
    "Causal mask": "causal-mask query key softmax attention-weight logit vocabulary",
    "Find a head": f"head {_of(SCORES.values())} cosine-similarity",
    "Training": f"loss nat-and-bit head {_of(recorded())}",
    "Predictions": "logit vocabulary temperature top-k-and-top-p entropy surprise nat-and-bit "
    "residual-stream logit-lens unembedding direct-contribution mlp",
    "What if": "baseline zero-ablation head layer mlp attention-weight kl-divergence logit "
    "logit-lens",
    "Generate": "token temperature top-k-and-top-p surprise attention-weight query key",
    "Compare": "residual-stream cosine-similarity attention-weight query key baseline",
    "Textbook": "token vocabulary embedding tensor shape channel attention query key value score "
    "softmax causal-mask head mlp bias gelu dropout residual-stream layernorm pre-norm parameter "
    "logit loss temperature unembedding",
    "Shapes": "tensor shape channel context embedding layer layernorm residual-stream parameter",
    "Models": "parameter context vocabulary token",
}


def words(page: str) -> None:
    """The words of a page with their meanings, one click away; nothing where it has none."""
    if page not in USED:
        return
    with st.popover("Words", type="tertiary", key="menu_words", help="What the words here mean"):
        for key in USED[page].split():
            term = TERM[key]
            st.markdown(f"**{prose.link(term, term.name)}**: {term.meaning}")
        st.page_link(
            "pages/13_glossary.py",
            label="All words and sources",
            icon=":material/menu_book:",
            query_params=address.parameters(),
        )


def entry(term: Term, chosen: bool) -> None:
    """One term as the glossary's page has it; the ``chosen`` one stands out."""
    with st.container(border=chosen, key=f"term_{term.key}", gap=None):
        st.markdown(f"**{term.name}**  \n{term.meaning}")
        used = [page for page, keys in USED.items() if term.key in keys.split()]
        notes = [f"On: {', '.join(used)}"] if used else []
        if term.source:
            notes.append(f"Source: {term.source}")
        if notes:
            st.caption(" · ".join(notes))

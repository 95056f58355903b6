"""Every page of the app, once: what it is called, where it stands in the menu, what it answers.

Its name is its identity: "Layers" is ``pages/layers.py``, which calls ``views/layers.py``; its
address is /layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from gpt2viz.analysis.scores import SCORES, Score, recorded


@dataclass(frozen=True)
class Page:
    """A page.

    ``group`` is its place in the menu, and ``what`` what it answers, in a few words. ``words`` are
    the keys of the glossary's words that it uses, ``formerly`` the addresses that it had before:
    links and sessions that have them still open.
    """

    title: str
    group: str
    what: str
    words: str = ""
    formerly: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How files and tests call it: "causal_mask"."""
        return name_of(self.title)

    @property
    def address(self) -> str:
        """Its path on the server, "" for the first page."""
        return "" if self is PAGES[0] else self.name

    @property
    def path(self) -> str:
        """Its script, below the folder of the app."""
        return f"pages/{self.address}.py" if self.address else "app.py"


def name_of(title: str) -> str:
    """What a page of that title is called in files and addresses."""
    return title.lower().replace(" ", "_")


def _of(scores: Iterable[Score]) -> str:
    """The words for heads with these habits, where the glossary has one."""
    return " ".join(score.term for score in scores if score.term)


#: In the menu's order. Pages of one group stand side by side; one alone in its group is a link.
PAGES: tuple[Page, ...] = (
    ATTENTION := Page(
        "Attention",
        group="Attention",
        what="every head of a layer at a glance",
        words="token head layer query key value attention-weight causal-mask attention-sink "
        "value-weighted-attention",
    ),
    INSIDE_A_HEAD := Page(
        "Inside a head",
        group="Attention",
        what="from Q, K and V to the output",
        words="query key value score softmax causal-mask attention-weight head-output shape",
        formerly=("inside_head",),
    ),
    LAYERS := Page(
        "Layers",
        group="Attention",
        what="side by side, one head in all, every head",
        words="layer head query key attention-weight attention-sink rollout",
        formerly=("compare_layers",),
    ),
    CAUSAL_MASK := Page(
        "Causal mask",
        group="Attention",
        what="what it hides, and why it matters",
        words="causal-mask query key softmax attention-weight logit vocabulary",
    ),
    FIND_A_HEAD := Page(
        "Find a head",
        group="Heads",
        what="by what it does or where it looks",
        words=f"head {_of(SCORES.values())} cosine-similarity",
        formerly=("find",),
    ),
    TRAINING := Page(
        "Training",
        group="Heads",
        what="when each head began its work",
        words=f"loss nat-and-bit head {_of(recorded())}",
    ),
    PREDICTIONS := Page(
        "Predictions",
        group="Predictions",
        what="what comes next, and who wrote it",
        words="logit vocabulary temperature top-k-and-top-p entropy surprise nat-and-bit "
        "residual-stream logit-lens unembedding direct-contribution mlp",
    ),
    WHAT_IF := Page(
        "What if",
        group="Predictions",
        what="switch a head off, hide a token",
        words="baseline zero-ablation head layer mlp attention-weight kl-divergence logit "
        "logit-lens",
    ),
    GENERATE := Page(
        "Generate",
        group="Predictions",
        what="continue the text, token by token",
        words="token temperature top-k-and-top-p surprise attention-weight query key",
    ),
    COMPARE := Page(
        "Compare",
        group="Compare",
        what="two of anything, side by side",
        words="residual-stream cosine-similarity attention-weight query key baseline",
        formerly=("two_texts",),
    ),
    TEXTBOOK := Page(
        "Textbook",
        group="Learn",
        what="eleven chapters with numbers to change",
        words="token vocabulary embedding tensor shape channel attention query key value score "
        "softmax causal-mask head mlp bias gelu dropout residual-stream layernorm pre-norm "
        "parameter logit loss temperature unembedding",
    ),
    SHAPES := Page(
        "Shapes",
        group="Learn",
        what="every tensor of the run, in order",
        words="tensor shape channel context embedding layer layernorm residual-stream parameter",
    ),
    GLOSSARY := Page("Glossary", group="Learn", what="what the words mean"),
    MODELS := Page(
        "Models",
        group="Models",
        what="what can be loaded, and how to get more",
        words="parameter context vocabulary token",
    ),
)

#: The menu: the pages of each group.
MENU: Mapping[str, tuple[Page, ...]] = {
    group: tuple(pages) for group, pages in groupby(PAGES, key=lambda page: page.group)
}


def called(title: str) -> Page | None:
    """The page of a title or name, of now or of before; None where there is none."""
    name = name_of(title)
    return next((page for page in PAGES if name in (page.name, *page.formerly)), None)

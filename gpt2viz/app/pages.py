"""Every page of the app, declared once: its title, what it answers, its modes.

Its title decides the rest: "Side by side" is ``pages/side_by_side.py``, which calls
``views/side_by_side.py``; its address is /side_by_side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from gpt2viz import plugins
from gpt2viz.analysis.scores import DECLARED, Score
from gpt2viz.errors import PluginError
from gpt2viz.plugins import Plugin


@dataclass(frozen=True, eq=False)
class Page:
    """A page.

    ``what`` says in a few words what it answers. ``words`` are the keys of the glossary's terms
    that it uses. ``modes`` are the views that a user picks from, the first by default: value in
    the address -> label.
    """

    title: str
    what: str
    words: str = ""
    modes: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name in files and tests: "side_by_side"."""
        return name_of(self.title)

    @property
    def address(self) -> str:
        """Its path on the server, "" for the first page."""
        return "" if self is MENU[0] else self.name

    @property
    def path(self) -> str:
        """Its script, relative to the folder of ``app.py``."""
        return f"pages/{self.address}.py" if self.address else "app.py"

    @property
    def asks(self) -> dict[str, str]:
        """Parameters that its address needs."""
        return {}


@dataclass(frozen=True, eq=False, kw_only=True)
class AddedPage(Page):
    """A page of another package: the page "Added" draws it, and the address says which."""

    plugin: Plugin

    @property
    def address(self) -> str:
        """That of the page "Added"."""
        return ADDED.address

    @property
    def asks(self) -> dict[str, str]:
        """The parameter that names the added page."""
        return {ADDED.name: self.plugin.name}


def name_of(title: str) -> str:
    """Return the name in files and addresses of a page with that title."""
    return title.lower().replace(" ", "_")


def _terms_of(scores: Iterable[Score]) -> str:
    """Return the glossary's terms for these scores, if it has them."""
    return " ".join(score.term for score in scores if score.term)


#: The terms of all head scores, and of those that a training record follows.
_HABITS = _terms_of(DECLARED)
_FOLLOWED = _terms_of(score for score in DECLARED if score.record)

#: The menu, in its order.
MENU: tuple[Page, ...] = (
    ATTENTION := Page(
        "Attention",
        what="Every head on one screen, and the next token",
        words="token head layer query key value attention-weight causal-mask attention-sink "
        "value-weighted-attention",
    ),
    HEAD := Page(
        "Head",
        what="One head, step by step: from Q, K and V to its output",
        words="query key value score softmax causal-mask attention-weight head-output shape "
        "vocabulary unembedding",
        modes={"run": "On this sentence", "why": "Why there?", "weights": "By its weights"},
    ),
    SIDE_BY_SIDE := Page(
        "Side by side",
        what="Compare layers, heads, sentences or models, or the mask on and off",
        words="layer head query key attention-weight attention-sink rollout causal-mask softmax "
        "logit vocabulary unembedding residual-stream cosine-similarity baseline",
        modes={
            "layers": "Layers",
            "mask": "Causal mask",
            "text": "Sentences",
            "head": "Heads",
            "model": "Models",
        },
    ),
    FIND := Page(
        "Find",
        what="Find heads by what they do",
        words=f"head {_HABITS} cosine-similarity composition virtual-head "
        "copying-score query key value activation-patching",
        modes={
            "habit": "By what it does",
            "look": "Who attends from here to there?",
            "pattern": "Draw a pattern",
            "head": "Similar heads",
            "all": "Groups of similar heads",
            "wiring": "Wiring",
        },
    ),
    PREDICT := Page(
        "Predict",
        what="Predictions, their causes, and text generation",
        words="token logit vocabulary temperature top-k-and-top-p entropy surprise nat-and-bit "
        "residual-stream logit-lens unembedding direct-contribution mlp attention-weight query "
        "key value kv-cache attention-sink",
        modes={"next": "Next token", "generate": "Generate"},
    ),
    WHAT_IF := Page(
        "What if",
        what="Switch off heads, hide tokens, and see what the answer depends on",
        words="baseline zero-ablation head layer mlp attention-weight kl-divergence logit "
        "logit-lens unembedding residual-stream query key value activation-patching",
        modes={"edits": "Edits", "depends": "Patching"},
    ),
    SHAPES := Page(
        "Shapes",
        what="Every tensor of the run, in order, with its shape",
        words="tensor shape channel context embedding layer layernorm residual-stream parameter",
    ),
    TRAINING := Page(
        "Training",
        what="How heads form during training",
        words=f"loss nat-and-bit token layer head attention-weight {_FOLLOWED}",
    ),
    TEXTBOOK := Page(
        "Textbook",
        what="Short chapters with numbers to change",
        words="token vocabulary embedding tensor shape channel attention query key value score "
        "softmax causal-mask head mlp bias gelu dropout residual-stream layernorm pre-norm "
        "parameter logit loss gradient temperature unembedding kv-cache rmsnorm swiglu rope "
        "grouped-query-attention flash-attention attention-sink rnn",
    ),
    MODELS := Page(
        "Models",
        what="The models here, and how to get more",
        words="parameter context vocabulary token",
    ),
)

#: The glossary isn't in the menu: words on the pages link to it.
GLOSSARY = Page("Glossary", what="What the words mean")

#: All pages of gpt2viz.
PAGES: tuple[Page, ...] = (*MENU, GLOSSARY)

#: Where pages of other packages are drawn, each in the menu under its own title.
ADDED = Page("Added", what="A page of another package")


@cache
def added_pages() -> tuple[AddedPage, ...]:
    """Return the pages of other packages: the entry point "surest_heads" is "Surest heads".

    A page whose name is taken is left out, and stderr says so.
    """
    by_name: dict[str, AddedPage] = {}
    for entry in plugins.plugins(plugins.PAGES):
        title = entry.name.replace("_", " ").capitalize()
        name = name_of(title)
        if name in by_name or any(name == page.name for page in (*PAGES, ADDED)):
            owner = by_name[name].plugin.by if name in by_name else "gpt2viz"
            plugins.warn(
                PluginError(f"The page {entry.name!r} of {entry.by} is left out: {owner} has one.")
            )
        else:
            by_name[name] = AddedPage(title, what=f"A page of {entry.by}", plugin=entry)
    return tuple(by_name.values())


def find_page(title: str) -> Page | None:
    """Return the page of that title or name, or None."""
    name = name_of(title)
    return next((page for page in (*PAGES, *added_pages()) if page.name == name), None)

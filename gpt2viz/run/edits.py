"""Changes to a run, to ask what happens if: parts switched off, scaled, or hidden from each other.

An edit has a short form, for the address and for Python:

    gpt2viz.trace(model, "A crane ate fish", edits=gpt2viz.parse_edits("off:1.3,window:2"))
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gpt2viz.errors import EditError
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.mask import hidden_pairs

Kind = Literal["off", "mean", "scale", "attn", "mlp", "forbid", "window", "nofirst"]

#: Kind -> the fields that it needs, in the order of its short form.
FIELDS: dict[Kind, tuple[str, ...]] = {
    "off": ("layer", "head"),
    "mean": ("layer", "head"),
    "scale": ("layer", "head", "factor"),
    "attn": ("layer",),
    "mlp": ("layer",),
    "forbid": ("query", "key"),
    "window": ("width",),
    "nofirst": (),
}

#: A factor beyond this makes numbers that float32 can't hold.
LARGEST_FACTOR = 100

#: The text whose mean stands in for a head: any plain text does, but it must be said which.
REFERENCE_TEXT = (
    "Once upon a time a girl lived with her brother in a small house by the river. Every morning "
    "they went to the garden, looked for birds, and told their mother what they had seen."
)

_EXAMPLES = "off:1.3, mean:1.3, scale:1.3:0.5, attn:2, mlp:2, forbid:5:2, window:3 or nofirst"


@dataclass(frozen=True)
class Edit:
    """One change to a run. Layers, heads and tokens count from 0.

    - ``off``: the output of a head is 0 (Michel et al. 2019, "Are Sixteen Heads Really Better
      than One?").
    - ``mean``: the output of a head is its mean over the tokens of a reference text (Wang et al.
      2023, "Interpretability in the Wild"): the same vector for every token.
    - ``scale``: the output of a head times ``factor``.
    - ``attn``, ``mlp``: the layer's attention or MLP adds nothing to the stream, bias included.
    - ``forbid``: ``query`` may not see ``key``, in no head of no layer.
    - ``window``: a query sees only keys fewer than ``width`` places away, itself included.
    - ``nofirst``: no query but the first token itself sees the first token.

    Raises ``EditError`` for a field that the kind needs or doesn't have, and for numbers that no
    model has.
    """

    kind: Kind
    layer: int | None = None
    head: int | None = None
    factor: float | None = None
    query: int | None = None
    key: int | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise EditError(f"There is no edit {self.kind!r:.40}. Write {_EXAMPLES}.")
        for name in ("layer", "head", "factor", "query", "key", "width"):
            value, needed = getattr(self, name), name in FIELDS[self.kind]
            if needed != (value is not None):
                raise EditError(f"{self.kind} {'needs a' if needed else 'has no'} {name}.")
            if value is not None and value < (1 if name == "width" else 0) and name != "factor":
                raise EditError(f"{self.kind}: {name} can't be {value}.")
        if self.factor is not None and not abs(self.factor) <= LARGEST_FACTOR:  # NaN fails too
            raise EditError(
                f"scale: the factor must be from {-LARGEST_FACTOR} to {LARGEST_FACTOR}."
            )

    def __str__(self) -> str:
        values = [str(getattr(self, name)) for name in FIELDS[self.kind]]
        if self.head is not None:
            values[:2] = [f"{self.layer}.{self.head}"]
        return ":".join([self.kind, *values])

    @property
    def masks(self) -> bool:
        """True where the edit changes who may see whom, and not what a part puts out."""
        return self.kind in ("forbid", "window", "nofirst")


_INTEGER, _NUMBER = r"([0-9]{1,6})", r"([-+0-9.e]{1,24})"
_HEAD = rf"{_INTEGER}\.{_INTEGER}"
_FORMS: dict[Kind, str] = {
    "off": _HEAD,
    "mean": _HEAD,
    "scale": f"{_HEAD}:{_NUMBER}",
    "attn": _INTEGER,
    "mlp": _INTEGER,
    "forbid": f"{_INTEGER}:{_INTEGER}",
    "window": _INTEGER,
    "nofirst": "",
}


def parse_edits(text: str) -> tuple[Edit, ...]:
    """Read edits in their short forms, with commas between; no text is no edit.

    Raises ``EditError``, a ``ValueError``, which says what can't be read.
    """
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    return tuple(_parse(part) for part in parts)


def _parse(text: str) -> Edit:
    for kind, form in _FORMS.items():
        found = re.fullmatch(f"{kind}:{form}" if form else kind, text)
        if found is None:
            continue
        try:
            values = {
                name: float(raw) if name == "factor" else int(raw)
                for name, raw in zip(FIELDS[kind], found.groups(), strict=True)
            }
        except ValueError:
            break
        return Edit(kind, **values)  # type: ignore[arg-type]  # whole numbers but for the factor
    raise EditError(f"{text[:40]!r} isn't an edit. Write {_EXAMPLES}.")


def describe(edit: Edit, labels: Sequence[str] = ()) -> str:
    """An edit as a short sentence; ``labels`` are the tokens as written on screen, if known."""

    def token(n: int | None) -> str:
        return f"{n} ({labels[n]})" if n is not None and n < len(labels) else str(n)

    head = f"Layer {edit.layer} head {edit.head}"
    return {
        "off": f"{head} is off: its output is 0",
        "mean": f"{head} outputs its mean over the reference text",
        "scale": f"{head}: its output × {edit.factor}",
        "attn": f"Layer {edit.layer}: attention adds nothing",
        "mlp": f"Layer {edit.layer}: the MLP adds nothing",
        "forbid": f"Query {token(edit.query)} may not see key {token(edit.key)}",
        "window": f"Each query sees only keys fewer than {edit.width} places away, itself included"
        if edit.width != 1
        else "Each query sees only itself",
        "nofirst": "No later query sees the first token",
    }[edit.kind]


def moved(edits: Iterable[Edit], by: int) -> tuple[Edit, ...]:
    """The edits for a text whose tokens stand ``by`` places later, or earlier where it is below 0.

    An edit of a token that is gone is left out.
    """
    return tuple(
        edit
        if edit.query is None or edit.key is None
        else replace(edit, query=edit.query + by, key=edit.key + by)
        for edit in edits
        if edit.query is None or edit.key is None or min(edit.query, edit.key) + by >= 0
    )


def forbidden(edits: Iterable[Edit], n_tokens: int) -> NDArray[np.bool_] | None:
    """(T, T), True where some edit hides a key (column) from a query (row); None for no such edit.

    T is ``n_tokens``. The causal mask is not in it.
    """
    masking = [edit for edit in edits if edit.masks]
    if not masking:
        return None
    pairs = np.zeros((n_tokens, n_tokens), bool)
    places = np.arange(n_tokens)
    for edit in masking:
        if edit.kind == "window":
            pairs |= np.abs(places[:, None] - places) >= (edit.width or 1)
        elif edit.kind == "nofirst":
            pairs[1:, 0] = True
        else:
            pairs[edit.query, edit.key] = True
    pairs.flags.writeable = False
    return pairs


def passed_on(edits: Iterable[Edit], layer: int, n_head: int) -> NDArray[np.float32]:
    """What the heads of a layer multiply all that their keys give by: (nh,).

    1 as they are, the factor where they are scaled; 0 where the output is 0, or a mean that no key
    of this text gives.
    """
    factors = np.ones(n_head, np.float32)
    for edit in edits:
        if edit.layer == layer and edit.head is not None:
            factors[edit.head] *= edit.factor or 0
    return factors


def attention_is_off(edits: Iterable[Edit], layer: int) -> bool:
    """Whether the layer's attention adds nothing to the stream, its bias included."""
    return any(edit.kind == "attn" and edit.layer == layer for edit in edits)


def check(edits: Iterable[Edit], config: GPT2Config, n_tokens: int, causal: bool) -> None:
    """Raise ``EditError`` where an edit names a part that isn't there, or a query is left no key.

    ``causal`` tells whether later keys are hidden anyway.
    """
    edits = tuple(edits)
    for edit in edits:
        for name, size, of in (
            ("layer", config.n_layer, "this model has layers"),
            ("head", config.n_head, "each layer of this model has heads"),
            ("query", n_tokens, "this text has tokens"),
            ("key", n_tokens, "this text has tokens"),
        ):
            value = getattr(edit, name)
            if value is not None and value >= size:
                raise EditError(f"{edit} names {name} {value}, but {of} 0 to {size - 1}.")
    by_edits = forbidden(edits, n_tokens)
    if by_edits is not None:
        blind = hidden_pairs(np.arange(n_tokens), causal, by_edits).all(axis=1)
        if blind.any():
            raise EditError(
                f"Query {int(blind.argmax())} would see no key at all. Its weights must sum to 1, "
                "so it needs at least one."
            )

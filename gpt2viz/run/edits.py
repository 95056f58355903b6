"""Changes to a run: parts switched off, scaled, hidden from each other, or patched from the run of
another text.

An edit has a short form, for the address and for Python:

    gpt2viz.trace(model, "A crane ate fish", edits="off:1.3,window:2")
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import Any

import numpy as np

from gpt2viz.arrays import Array, Pairs
from gpt2viz.errors import ArgumentError, EditError
from gpt2viz.model.config import ModelConfig
from gpt2viz.model.mask import hidden_pairs
from gpt2viz.run.edit_kinds import ADDED_KINDS, OURS, PATCH_TARGETS, STREAMS, EditKind, Kind
from gpt2viz.run.stages import PAIR_STAGES

#: Fields that may be left out.
OPTIONAL = ("first", "position")

#: A larger factor makes numbers that float32 can't hold.
LARGEST_FACTOR = 100

#: The text that a head's mean is taken over: any plain text would do, but it must be stated.
REFERENCE_TEXT = (
    "Once upon a time a girl lived with her brother in a small house by the river. Every morning "
    "they went to the garden, looked for birds, and told their mother what they had seen."
)

_FORMS = [example for kind in OURS.values() for example in kind.examples]
_EXAMPLES = f"{', '.join(_FORMS[:-1])} or {_FORMS[-1]}"


@dataclass(frozen=True)
class Edit:
    """One change to a run. Layers, heads and tokens count from 0.

    - ``off``: the output of a head is 0 (Michel et al. 2019, "Are Sixteen Heads Really Better
      than One?"). A model never sees that in training, and after early heads the later layers get
      input unlike any they usually see: a mean misleads less.
    - ``mean``: the output of a head is its mean over the tokens of a reference text, the same
      vector for every token; or over many texts, position by position, with ``mean_reference``
      (Wang et al. 2023, "Interpretability in the Wild").
    - ``scale``: the output of a head times ``factor``.
    - ``attn``, ``mlp``: the layer's attention or MLP adds nothing to the stream, bias included.
    - ``forbid``: ``query`` may not see ``key``, in any head of any layer.
    - ``window``: a query sees only keys fewer than ``width`` positions away, itself included, and
      the ``first`` keys of the text if that is given. With the causal mask on, a model sees the
      same if its KV cache drops the oldest keys and values but these (Xiao et al. 2023, "Efficient
      Streaming Language Models with Attention Sinks"), except that here positions are counted in
      the text, there in the cache.
    - ``nofirst``: no query but the first token itself sees the first token.
    - ``patch``: a piece of the run is copied from another text's run, which has the same edits
      except patches: a ``stage`` of the stream, "residual_in" (the stream before the layer),
      "attention_output" or "mlp_output" (what is added to it), or a head's "head_output", "q",
      "k", "v" or "weights"; at one ``position`` (of weights, a query's row), or at all if none is
      given (Meng et al. 2022, "Locating and Editing Factual Associations in GPT"). Keys and
      values that heads share change for all heads of the group.

    Any other kind is a registered ``gpt2viz.EditKind``, ``own``, with a ``layer`` and a ``head``.
    Two such edits are equal only if their functions are.

    Raises ``EditError`` for a field that is missing or that the kind doesn't have, and for numbers
    that no model has.
    """

    kind: str
    layer: int | None = None
    head: int | None = None
    factor: float | None = None
    query: int | None = None
    key: int | None = None
    width: int | None = None
    first: int | None = None
    stage: str | None = None
    position: int | None = None
    own: EditKind | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.kind not in OURS:
            if self.kind not in ADDED_KINDS:
                raise EditError(
                    f"There is no edit {self.kind!r:.40} here. Install the package that adds it, "
                    f"or write {_EXAMPLES}."
                )
            object.__setattr__(self, "own", ADDED_KINDS[self.kind])
        if self.kind == "patch" and self.stage not in PATCH_TARGETS:
            known = ", ".join(PATCH_TARGETS)
            raise EditError(f"patch: {self.stage!r:.40} can't be patched. These can: {known}.")
        for name in (own.name for own in fields(self) if own.name not in ("kind", "own")):
            value, needed = getattr(self, name), name in self._fields()
            if needed != (value is not None) and not (needed and name in OPTIONAL):
                of = self.kind if self.stage is None else f"{self.kind}:{self.stage}"
                raise EditError(f"{of} {'needs a' if needed else 'has no'} {name}.")
            if value is not None and name not in _READ:
                self._set_number(name, value)
        is_number = isinstance(self.factor, Real | None)
        if not (is_number and abs(self.factor or 0) <= LARGEST_FACTOR):  # NaN fails too
            raise EditError(
                f"scale: the factor must be from {-LARGEST_FACTOR} to {LARGEST_FACTOR}."
            )

    def _set_number(self, name: str, value: Any) -> None:
        """Set a field to a whole number, which may come from NumPy, as Python's own."""
        try:
            number = operator.index(value)
        except TypeError:
            raise EditError(
                f"{self.kind}: {name} must be a whole number, not {value!r:.40}."
            ) from None
        if number < (name in ("width", "first")):
            raise EditError(f"{self.kind}: {name} can't be {number}.")
        object.__setattr__(self, name, number)

    @property
    def declared(self) -> Kind:
        """The declaration of its kind."""
        return OURS[self.kind] if self.own is None else self.own.kind

    @property
    def by(self) -> str:
        """The author of the function that changes the run; "" for our own kinds of edits."""
        return "" if self.own is None else self.own.by

    def _fields(self) -> tuple[str, ...]:
        """The fields that it needs: no head if its stage is of the stream."""
        without = "head" if self.stage in STREAMS else None
        return tuple(name for name in self.declared.fields if name != without)

    def __str__(self) -> str:
        values = {name: getattr(self, name) for name in self.declared.fields}
        if values.pop("head", None) is not None:
            values["layer"] = f"{self.layer}.{self.head}"
        written = [self.kind, *(value for value in values.values() if value is not None)]
        return ":".join(map(str, written))


#: The forms in which edits are given: short forms, one edit, or several of either, in order.
Edits = str | Edit | Sequence[str | Edit]

_INTEGER = "([0-9]{1,6})"
#: Fields other than whole numbers: the pattern of each, and the type that reads it.
_READ: dict[str, tuple[str, Callable[[str], Any]]] = {
    "factor": ("([-+0-9.e]{1,24})", float),
    "stage": ("([a-z_]+)", str),
}


def read_edits(given: Edits) -> tuple[Edit, ...]:
    """Return edits, given in any form, as a tuple. Raises ``EditError`` for anything else."""
    if isinstance(given, str):
        return parse_edits(given)
    parts = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(part, Edit | str) for part in parts):
        raise EditError(
            f"Edits are gpt2viz.Edit or their short form, such as 'off:1.3', not {given!r:.80}."
        )
    if any(part.kind == "hook" for part in parts if isinstance(part, Edit)):
        raise EditError("A hook belongs to one run. For another give hooks={stage: function} anew.")
    read = (parse_edits(part) if isinstance(part, str) else (part,) for part in parts)
    return tuple(edit for some in read for edit in some)


def parse_edits(text: str) -> tuple[Edit, ...]:
    """Read edits in their short forms, with commas between; an empty text gives no edits.

    Raises ``EditError``, a ``ValueError``, which says what can't be read.
    """
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    return tuple(_parse(part) for part in parts)


def _parse(text: str) -> Edit:
    name = text.partition(":")[0]
    names = OURS[name].fields if name in OURS else ("layer", "head")
    match = re.fullmatch(f"[a-z0-9_]+{_form(names)}", text)
    written = {} if match is None else dict(zip(names, match.groups(), strict=True))
    try:
        values = {
            field: _READ.get(field, (_INTEGER, int))[1](value)
            for field, value in written.items()
            if value is not None
        }
    except ValueError:  # a factor such as "e"
        match = None
    if match is None:
        raise EditError(f"{text[:40]!r} isn't an edit. Write {_EXAMPLES}.")
    return Edit(name, **values)


def _form(names: Sequence[str]) -> str:
    """The regular expression of a kind's fields: "1.3:0.5" is a layer, a head and a factor."""
    parts = ""
    for name in names:
        written = ("\\." if name == "head" else ":") + _READ.get(name, (_INTEGER, int))[0]
        optional = name in OPTIONAL or (name == "head" and "stage" in names)
        parts += f"(?:{written})?" if optional else written
    return parts


def describe(edit: Edit, labels: Sequence[str] = ()) -> str:
    """An edit as a short sentence; ``labels`` are the tokens as written on screen, if known."""

    def token(n: int | None) -> str:
        return f"{n} ({labels[n]})" if n is not None and n < len(labels) else str(n)

    return edit.declared.sentence(edit, token)


def remap_edits(edits: Iterable[Edit], to: Callable[[int], int | None]) -> tuple[Edit, ...]:
    """The edits for a text whose tokens have moved: ``to`` gives the new position, or None.

    An edit of a token for which it is None is left out.
    """
    result = []
    for edit in edits:
        positions = ((name, getattr(edit, name)) for name in ("query", "key", "position"))
        now: dict[str, Any] = {name: to(n) for name, n in positions if n is not None}
        if None not in now.values():
            result.append(replace(edit, **now))
    return tuple(result)


def edit_mask(edits: Iterable[Edit], n_tokens: int) -> Pairs | None:
    """(T, T), True where some edit hides a key (column) from a query (row); None if no edit does.

    T is ``n_tokens``. The causal mask is not in it.
    """
    pairs = None
    for edit in edits:
        if edit.declared.hides is not None:
            pairs = np.zeros((n_tokens, n_tokens), bool) if pairs is None else pairs
            edit.declared.hides(edit, pairs)
    if pairs is not None:
        pairs.flags.writeable = False
    return pairs


def head_scale_factors(edits: Sequence[Edit], layer: int, n_head: int) -> Array:
    """The factors that edits put on the contributions of a layer's heads: (nh,).

    1 for an unedited head, the factor for a scaled one; 0 if its output is 0, or a mean, to which
    no key of this text contributes. Raises ``EditError`` if the run isn't a sum over this text's
    tokens, as ``check_decomposable`` does.
    """
    check_decomposable(edits)
    factors = np.ones(n_head, np.float32)
    for edit in edits:
        if edit.layer == layer and edit.head is not None:
            factors[edit.head] *= edit.factor or 0
    return factors


def attention_is_off(edits: Sequence[Edit], layer: int) -> bool:
    """True where the layer's attention adds nothing to the stream, its bias included."""
    return any(edit.kind == "attn" and edit.layer == layer for edit in edits)


def needs_means(edits: Iterable[Edit]) -> bool:
    """True where some edit puts a mean of other runs in place of a head."""
    return any(edit.declared.takes == "reference" for edit in edits)


def patches(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits that take a piece from another text's run."""
    return tuple(edit for edit in edits if edit.declared.takes == "second text")


def drop_patches(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits that the other text's run has too: all but the patches."""
    return tuple(edit for edit in edits if edit.declared.takes != "second text")


def nonlinear_edits(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits after which a head's output may not be a sum over this text's tokens.

    A patch comes from another text, and what another package's function does is unknown.
    """
    return tuple(edit for edit in edits if edit.declared.opaque)


def check_decomposable(edits: Iterable[Edit]) -> None:
    """Raise ``EditError`` if a run can't be decomposed into its tokens' contributions."""
    for edit in nonlinear_edits(edits):
        raise EditError(f"This run can't be taken apart: {edit} {edit.declared.opaque}.")


def check(
    edits: Sequence[Edit], config: ModelConfig, n_tokens: int, causal: bool, explicit: bool
) -> None:
    """Raise ``EditError`` if an edit names a part that doesn't exist, or leaves a query no key.

    ``causal`` tells whether later keys are hidden anyway, ``explicit`` whether the run makes whole
    scores and weights, which otherwise can't be changed. Raises ``ArgumentError`` for a ``causal``
    that isn't True or False, such as a second text.
    """
    if not isinstance(causal, bool):
        raise ArgumentError(f"causal is True, with the mask, or False, not {causal!r:.80}")
    for edit in edits:
        for name, size, of in (
            ("layer", config.n_layer, "this model has layers"),
            ("head", config.n_head, "each layer of this model has heads"),
            *((key, n_tokens, "this text has tokens") for key in ("query", "key", "position")),
        ):
            value = getattr(edit, name)
            if value is not None and value >= size:
                raise EditError(f"{edit} names {name} {value}, but {of} 0 to {size - 1}.")
        if edit.stage in PAIR_STAGES and not explicit:
            raise EditError(
                f"{edit}: the run of so long a text makes no {edit.stage} whole. Change q, k or "
                "head_output, shorten the text, or give explicit=True."
            )
    by_edits, positions = edit_mask(edits, n_tokens), np.arange(n_tokens)
    windows = {config.window(layer) for layer in range(config.n_layer)}
    for window in windows if by_edits is not None else ():
        blind = hidden_pairs(positions, causal, by_edits, window=window).all(axis=1)
        if blind.any():
            raise EditError(
                f"Query {int(blind.argmax())} would see no key at all. Its weights must sum to 1, "
                "so it needs at least one."
            )

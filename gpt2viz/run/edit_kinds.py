"""The kinds of edits, each one declaration: its fields, its words, and what it does to a run.

The kinds of other packages are declared by ``EditKind``:

late = gpt2viz.EditKind("late", "outputs what it computed for the token before", one_later)
gpt2viz.register_edit(late)
gpt2viz.trace(model, "A crane ate fish", edits=gpt2viz.parse_edits("late:1.3"))
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from gpt2viz.arrays import Array, Pairs
from gpt2viz.errors import EditError, PluginError
from gpt2viz.labels import numeral
from gpt2viz.plugins import EDITS, Registry, guard
from gpt2viz.run.stages import HEAD_STAGES, STAGE

if TYPE_CHECKING:  # importing torch takes a second, and a list of edits doesn't need it
    from torch import Tensor

    from gpt2viz.run.edits import Edit

#: The stages of a head that other packages may change. Its weights aren't among them: their rows
#: must sum to 1, and hidden keys must stay hidden.
HeadStage = Literal["head_output", "q", "k", "v"]

#: Names the token at a position, for a sentence.
TokenName = Callable[[int | None], str]

_NAME = re.compile(r"[a-z][a-z0-9_]{0,23}")


class OtherRuns(NamedTuple):
    """Numbers of other runs that edits put into this one.

    ``mean(layer, head, n_tokens)`` is the mean that replaces a head's output: (hs,) or (T, hs).
    ``activation(target, layer)`` is a patch target of the second text: (T, C) or (nh, T, ·).
    """

    mean: Callable[[int, int, int], Array]
    activation: Callable[[str, int], Array]


@dataclass(frozen=True, eq=False)
class Kind:
    """The declaration of a kind of edit.

    ``fields`` are those that it needs, in the order of its short form; ``examples`` are short
    forms. The app lists its ``title`` and ``meaning``; ``sentence`` describes one such edit.
    ``hides`` marks the pairs (T, T) that it hides. ``change`` alters a clone of the run's output at
    ``stage``, or at the edit's own; ``takes`` names the other run that it needs for that.
    ``opaque`` says why a run with it can't be decomposed into its tokens' contributions; "" if it
    can. ``repeats`` is True if the same edit twice in a list does more than once.
    """

    name: str
    fields: tuple[str, ...]
    examples: tuple[str, ...]
    title: str
    meaning: str
    sentence: Callable[[Edit, TokenName], str]
    hides: Callable[[Edit, Pairs], None] | None = None
    stage: str = ""
    change: Callable[[Edit, Tensor, OtherRuns], None] | None = None
    takes: Literal["", "reference", "second text"] = ""
    opaque: str = ""
    repeats: bool = False


#: The activations that a patch can replace, in words; {at} stands for a token, or a head.
PATCH_TARGETS: Mapping[str, str] = {
    "residual_in": "the stream at {at} before layer {layer}",
    "attention_output": "layer {layer}'s attention output at {at}",
    "mlp_output": "layer {layer}'s MLP output at {at}",
    "head_output": "the output of head {layer}.{at}",
    "q": "the queries of head {layer}.{at}",
    "k": "the keys of head {layer}.{at}",
    "v": "the values of head {layer}.{at}",
    "weights": "the attention weights of head {layer}.{at}",
}
#: The targets in the stream, by layer and position …
STREAMS = tuple(target for target in PATCH_TARGETS if target not in HEAD_STAGES)
#: … and those of a head.
OF_HEADS = tuple(target for target in PATCH_TARGETS if target in HEAD_STAGES)


def target_label(target: str) -> str:
    """The name of a patch target, on its own."""
    return STAGE[target].label if target in STAGE else "Stream before the layer"


def _switch_off(edit: Edit, heads: Tensor, _others: OtherRuns) -> None:
    heads[:, edit.head] = 0  # not times 0, which would leave NaN


def _put_mean(edit: Edit, heads: Tensor, others: OtherRuns) -> None:
    mean = others.mean(edit.layer or 0, edit.head or 0, heads.shape[2])
    heads[:, edit.head] = heads.new_tensor(mean)


def _scale(edit: Edit, heads: Tensor, _others: OtherRuns) -> None:
    heads[:, edit.head] *= edit.factor or 0.0


def _silence(_edit: Edit, made: Tensor, _others: OtherRuns) -> None:
    made.zero_()


def _patch(edit: Edit, made: Tensor, others: OtherRuns) -> None:
    positions = slice(None) if edit.position is None else edit.position
    index = (positions,) if edit.head is None else (edit.head, positions)
    made[0, *index] = made.new_tensor(others.activation(edit.stage or "", edit.layer or 0)[index])


def _hide_key(edit: Edit, pairs: Pairs) -> None:
    pairs[edit.query, edit.key] = True


def _hide_far_keys(edit: Edit, pairs: Pairs) -> None:
    positions, first = np.arange(len(pairs)), edit.first or 0
    distance = np.abs(positions[:, None] - positions[first:])
    pairs[:, first:] |= distance >= (edit.width or 1)


def _hide_first_key(_edit: Edit, pairs: Pairs) -> None:
    pairs[1:, 0] = True


def _head(edit: Edit) -> str:
    return f"Layer {edit.layer} head {edit.head}"


def _window(edit: Edit, _token: TokenName) -> str:
    """A window in words: "Each query sees only itself and the first key"."""
    near = f"keys fewer than {edit.width} tokens away, itself included"
    seen = "itself" if edit.width == 1 else near
    if edit.first is not None:
        after = " and" if edit.width == 1 else ", and"
        seen += f"{after} the first {'key' if edit.first == 1 else f'{edit.first} keys'}"
    return f"Each query sees only {seen}"


def _describe_patch(edit: Edit, token: TokenName) -> str:
    at = "every token" if edit.position is None else token(edit.position)
    of_head = edit.stage in OF_HEADS
    words = PATCH_TARGETS[edit.stage or ""]
    words = words.format(layer=edit.layer, at=edit.head if of_head else at)
    words += f" at {at}" if of_head and edit.position is not None else ""
    return f"{words[0].upper()}{words[1:]}, as in the second text"


_OURS = (
    Kind(
        "off",
        ("layer", "head"),
        ("off:1.3",),
        "Switch a head off",
        "Its output becomes 0, so it adds nothing (Michel et al. 2019). The model never met that "
        "in training, so later heads may go wrong too: replacing it by its mean is milder.",
        lambda edit, _token: f"{_head(edit)} is off: its output is 0",
        stage="head_output",
        change=_switch_off,
    ),
    Kind(
        "mean",
        ("layer", "head"),
        ("mean:1.3",),
        "Replace a head by its mean",
        "Its output becomes its mean over a reference text, the same for every token. Gentler than "
        "0, which the model never met in training (Wang et al. 2023).",
        lambda edit, _token: f"{_head(edit)} outputs its mean over the reference text",
        stage="head_output",
        change=_put_mean,
        takes="reference",
    ),
    Kind(
        "scale",
        ("layer", "head", "factor"),
        ("scale:1.3:0.5",),
        "Scale a head",
        "Multiplies its output: by 2 it adds twice as much, by −1 the opposite.",
        lambda edit, _token: f"{_head(edit)}: its output × {numeral(edit.factor or 0.0)}",
        stage="head_output",
        change=_scale,
        repeats=True,
    ),
    Kind(
        "attn",
        ("layer",),
        ("attn:2",),
        "Switch a layer's attention off",
        "It adds nothing. Its weights are still computed and shown, but not used.",
        lambda edit, _token: f"Layer {edit.layer}: attention adds nothing",
        stage="attention_output",
        change=_silence,
    ),
    Kind(
        "mlp",
        ("layer",),
        ("mlp:2",),
        "Switch a layer's MLP off",
        "It adds nothing: the step after attention, which treats each token alone.",
        lambda edit, _token: f"Layer {edit.layer}: the MLP adds nothing",
        stage="mlp_output",
        change=_silence,
    ),
    Kind(
        "forbid",
        ("query", "key"),
        ("forbid:5:2",),
        "Hide one token from another",
        "Blocks this link in every head of every layer.",
        lambda edit, token: f"Query {token(edit.query)} may not see key {token(edit.key)}",
        hides=_hide_key,
    ),
    Kind(
        "window",
        ("width", "first"),
        ("window:3", "window:3:1"),
        "Limit how far back tokens see",
        "A token sees itself and the few just before it; with the mask off, those after it too. "
        "The first tokens, where idle heads rest, can stay visible (Xiao et al. 2023).",
        _window,
        hides=_hide_far_keys,
    ),
    Kind(
        "nofirst",
        (),
        ("nofirst",),
        "Hide the first token",
        "Idle heads rest on the first token. What do they attend to without it?",
        lambda _edit, _token: "No later query sees the first token",
        hides=_hide_first_key,
    ),
    Kind(
        "patch",
        ("stage", "layer", "head", "position"),
        ("patch:residual_in:2:5", "patch:head_output:1.3"),
        "Patch in a piece of another text",
        "Replaces a piece of this run by that of a second sentence of as many tokens, with the "
        "same mask and other edits (Meng et al. 2022). What changes depends on that piece; keys "
        "and values that heads share change for their whole group.",
        _describe_patch,
        change=_patch,
        takes="second text",
        opaque="put a piece of another text's run into it",
    ),
)
#: The kinds that gpt2viz itself has, by name.
OURS: Mapping[str, Kind] = {kind.name: kind for kind in _OURS}


@dataclass(frozen=True)
class EditKind:
    """Your own kind of edit: a function of a head's stage, whose result replaces that stage.

    ``name`` is its name in the address, as in "late:1.3" for head 3 of layer 1; ``does`` says in a
    few words what such a head does, as in "outputs what it computed for the token before".
    ``function`` takes the head's ``stage``, a torch tensor (B, T, hs) that it may write to, and
    returns one of the same shape. It must depend on nothing else, and on each text of a batch
    separately; gradients pass through it if it uses torch's own operations. Keys and values that
    heads share change for their whole group. ``source`` cites who described it, "" if it is common
    knowledge; ``by`` names the package that added it, and is set by registration.

    Raises ``EditError`` for a name that can't be in an address or that gpt2viz itself uses, and for
    another stage.
    """

    name: str
    does: str
    function: Callable[[Tensor], Tensor]
    stage: HeadStage = "head_output"
    source: str = ""
    by: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in OURS:
            taken = "gpt2viz has one of that name" if self.name in OURS else "as in one_late"
            raise EditError(
                f"An edit's name is up to 24 of a–z, 0–9 and _, not {self.name!r:.40}: {taken}."
            )
        if self.stage not in get_args(HeadStage):
            known = ", ".join(get_args(HeadStage))
            raise EditError(
                f"{self.name}: {self.stage!r:.40} can't be changed. These can: {known}."
            )

    def apply(self, made: Tensor) -> Tensor:
        """Apply the function to the head's stage: (B, T, hs) -> (B, T, hs).

        Raises ``PluginError`` if the function raises, or returns something else.
        """
        with guard(lambda error: self._failure(f"raised {error}")):
            result = self.function(made.clone())
        if not isinstance(result, type(made)) or result.shape != made.shape:
            gave = f"{type(result).__name__} {tuple(getattr(result, 'shape', ()))}"
            expected = f"a tensor {tuple(made.shape)}"
            raise PluginError(self._failure(f"returned {gave} instead of {expected}"))
        return result.to(made)

    def _failure(self, error: str) -> str:
        return f"The edit {self.name!r} of {self.by} {error}. Fix or uninstall that package."

    def _change(self, edit: Edit, heads: Tensor, _others: OtherRuns) -> None:
        heads[:, edit.head] = self.apply(heads[:, edit.head])  # (B, T, hs)

    @property
    def kind(self) -> Kind:
        """Its declaration, in the same form as our own kinds'."""
        authors = self.source.partition(",")[0]
        return Kind(
            self.name,
            ("layer", "head"),
            (),
            self.name.replace("_", " ").capitalize(),
            f"The head {self.does}{f' ({authors})' if authors else ''}. Added by {self.by}.",
            lambda edit, _token: f"{_head(edit)} {self.does}",
            stage=self.stage,
            change=self._change,
            opaque=opaque_reason(self.by),
            repeats=True,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it by its name if its function can't be pickled, such as a lambda."""
        try:
            pickle.dumps(self.function)
        except (pickle.PicklingError, AttributeError, TypeError):
            return _find_kind, (self.name,)
        return EditKind, tuple(getattr(self, field.name) for field in fields(self))


#: The kinds that other packages declare, by name. Only ``register_edit`` adds to it.
ADDED_KINDS = Registry[EditKind]((), EDITS, EditKind, "gpt2viz.EditKind", "edit")


def _find_kind(name: str) -> EditKind:
    return ADDED_KINDS[name]


def opaque_reason(author: str) -> str:
    """Say why a run that an ``author``'s function changed can't be decomposed."""
    return f"changed it by a function of {author}"


def all_kinds() -> dict[str, Kind]:
    """Every kind by its name: ours, and those of other packages."""
    return {**OURS, **{added.name: added.kind for added in ADDED_KINDS.values()}}


def register_edit(kind: EditKind) -> EditKind:
    """Register a kind of edit for as long as this program runs, and return it as registered.

    ``parse_edits`` reads it and ``Edit(kind.name, layer, head)`` makes one from then on. A kind of
    the same name replaces the earlier one; edits made before keep theirs. A package adds its kinds
    to every program, including the app, by an entry point of the group ``gpt2viz.edits``.

    Raises ``PluginError`` for anything but an ``EditKind``, and for a name that a package uses.
    """
    return ADDED_KINDS.add(kind)

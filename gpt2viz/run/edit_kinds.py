"""The kinds of edits: ours, with the fields that each needs, and those that others declare.

late = gpt2viz.EditKind("late", "puts out what it had made for the token before", one_later)
gpt2viz.register_edit(late)
gpt2viz.trace(model, "A crane ate fish", edits=gpt2viz.parse_edits("late:1.3"))
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from gpt2viz.errors import EditError, PluginError
from gpt2viz.plugins import EDITS, Registry, blamed

if TYPE_CHECKING:  # torch takes a second, and a list of edits needs none of it
    from torch import Tensor

#: Kind of ours -> the fields that it needs, in the order of its short form.
FIELDS: dict[str, tuple[str, ...]] = {
    "off": ("layer", "head"),
    "mean": ("layer", "head"),
    "scale": ("layer", "head", "factor"),
    "attn": ("layer",),
    "mlp": ("layer",),
    "forbid": ("query", "key"),
    "window": ("width", "first"),
    "nofirst": (),
    "patch": ("stage", "layer", "head", "position"),
}

#: What of a head others may change. Its weights aren't among it: their rows must sum to 1, and
#: what is hidden must stay so.
HeadStage = Literal["head_output", "q", "k", "v"]

_NAME = re.compile(r"[a-z][a-z0-9_]{0,23}")


@dataclass(frozen=True)
class EditKind:
    """A kind of edit that gpt2viz doesn't have: something that a head makes becomes a function of
    itself.

    ``name`` is what it is called in the address, as in "late:1.3" for head 3 of layer 1; ``does``
    says in a few words what such a head does, as in "puts out what it had made for the token
    before". ``of`` takes the head's ``stage``, a torch tensor (B, T, hs) that is its to change, and
    gives one of the same shape. It must depend on nothing else, and of every text on that text
    alone; of torch's own operations, gradients pass through it. ``source`` is where it was
    described, "" for what is common; ``by`` is who added it, which is written when it is added.

    Raises ``EditError`` for a name that no address can have or that gpt2viz has, and for another
    stage.
    """

    name: str
    does: str
    of: Callable[[Tensor], Tensor]
    stage: HeadStage = "head_output"
    source: str = ""
    by: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in FIELDS:
            taken = "gpt2viz has one of that name" if self.name in FIELDS else "as in one_late"
            raise EditError(
                f"An edit's name is up to 24 of a–z, 0–9 and _, not {self.name!r:.40}: {taken}."
            )
        if self.stage not in get_args(HeadStage):
            known = ", ".join(get_args(HeadStage))
            raise EditError(
                f"{self.name}: {self.stage!r:.40} can't be changed. These can: {known}."
            )

    def changed(self, made: Tensor) -> Tensor:
        """What goes on in place of what a head made: (B, T, hs) -> (B, T, hs).

        Raises ``PluginError`` where the function raises, or gives something else.
        """
        with blamed(lambda error: self._failed(f"raised {error}")):
            found = self.of(made.clone())
        if not isinstance(found, type(made)) or found.shape != made.shape:
            gave = f"{type(found).__name__} {tuple(getattr(found, 'shape', ()))}"
            due = f"a tensor {tuple(made.shape)}"
            raise PluginError(self._failed(f"gave {gave} where {due} is due"))
        return found.to(made)

    def _failed(self, what: str) -> str:
        return f"The edit {self.name!r} of {self.by} {what}. Mend it, or uninstall what adds it."

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its name where its function can't be, such as a lambda."""
        try:
            pickle.dumps(self.of)
        except (pickle.PicklingError, AttributeError, TypeError):
            return _known, (self.name,)
        return EditKind, tuple(getattr(self, one.name) for one in fields(self))


#: The kinds that others declare, by name. Only ``register_edit`` adds to it.
KINDS = Registry[EditKind]((), EDITS, EditKind, "gpt2viz.EditKind", "edit")


def _known(name: str) -> EditKind:
    return KINDS[name]


def fields_of(kind: str) -> tuple[str, ...]:
    """The fields that a kind needs: those of others are of one head."""
    return FIELDS.get(kind, ("layer", "head"))


def register_edit(kind: EditKind) -> EditKind:
    """Add a kind of edit of your own, for as long as this program runs; the kind as it is kept.

    ``parse_edits`` reads it and ``Edit(kind.name, layer, head)`` makes one from then on. Called
    again with a kind of the same name, it takes that one's place; edits that were made before keep
    theirs. A package adds its kinds to every program, the app among them, by an entry point of the
    group ``gpt2viz.edits``.

    Raises ``PluginError`` for what is no ``EditKind``, and for a name that a package has.
    """
    return KINDS.add(kind)

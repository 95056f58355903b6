"""Your own functions on any stage of one run: ``gpt2viz.trace``'s ``hooks``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor

from gpt2viz.arrays import Array
from gpt2viz.errors import EditError
from gpt2viz.plugins import THIS_PROGRAM
from gpt2viz.run.edit_kinds import Kind, opaque_reason
from gpt2viz.run.edits import Edit
from gpt2viz.run.stages import Stage, place_of

#: A stage's name, such as "residual_mid.2" -> the function that replaces its array.
Hooks = Mapping[str, Callable[[Array], Any]]


_HOOK = Kind(
    "hook",
    (),
    (),
    "Change a stage by a function",
    "A function of this program changes what the stage puts out.",
    lambda edit, _token: f"A function of {THIS_PROGRAM} changes {str(edit).removeprefix('hook:')}",
    opaque=opaque_reason(THIS_PROGRAM),
)


@dataclass(frozen=True)
class Hook(Edit):
    """A function of your own that changes the output of one ``stage`` in one run.

    Made from ``gpt2viz.trace``'s ``hooks``, such as {"residual_mid.2": function}. The function gets
    that stage's output in layer 2, a float32 array shaped as ``gpt2viz.STAGES`` declares, which it
    may write to; the run continues with the array of the same shape that it returns. Any stage
    can be named, also by TransformerLens' name. The function's exceptions propagate, and it can't
    run a model itself.

    The trace lists it among its ``edits``, as "hook:residual_mid.2". Functions can't be compared,
    so ``run`` is unique to each run: no two hooks are equal, and no run is mistaken for another.
    """

    function: Callable[[Array], Any] = np.asarray
    run: str = field(default_factory=lambda: uuid4().hex)

    def __post_init__(self) -> None:
        """Skip an edit's checks: they are of fields that a hook doesn't have."""

    @property
    def declared(self) -> Kind:
        """The declaration of all hooks, which have no short form."""
        return _HOOK

    @property
    def by(self) -> str:
        """The author of the function."""
        return THIS_PROGRAM

    def __str__(self) -> str:
        return f"{self.kind}:{self.stage}" + ("" if self.layer is None else f".{self.layer}")

    def apply(self, made: Tensor) -> Tensor:
        """Apply the function to the stage, and return the result of the same shape.

        Raises ``EditError`` if the function returns something else, and whatever it raises.
        """
        given = self.function(made.detach().cpu().numpy().copy())
        try:
            result = np.asarray(given, np.float32)
        except (TypeError, ValueError, RuntimeError):
            result = None
        if result is None or given is None or result.shape != tuple(made.shape):
            got = "" if result is None or given is None else f" {result.shape}"
            raise EditError(
                f"{self} gave back {type(given).__name__}{got}, and must give back the array, "
                f"{tuple(made.shape)}."
            )
        return torch.from_numpy(result.copy()).to(made)


def read_hooks(hooks: Hooks, n_layer: int, graph: Mapping[str, Stage]) -> tuple[Hook, ...]:
    """The hooks of one run of a model with ``n_layer`` layers and these stages, in order.

    Raises ``StageError`` and ``PlaceError`` for a stage or layer that doesn't exist, ``EditError``
    for anything but a function.
    """
    if not isinstance(hooks, Mapping):
        raise EditError(
            "Hooks are a dictionary from stages to functions, such as "
            f"{{'residual_mid.2': function}}, not {type(hooks).__name__}."
        )
    result = []
    for name, function in hooks.items():
        stage, layer = place_of(str(name), n_layer, graph)
        if not callable(function):
            raise EditError(f"The hook of {name} is a function of an array, not {function!r:.40}.")
        result.append(Hook("hook", layer, stage=stage.key, function=function))
    return tuple(result)

"""Two heads as one: what a later head takes of what an earlier one took.

What head b reads of what head a wrote is moved by the pattern A_b A_a, and read and written by
W_OV of a, then of b, as if one more head did it: a *virtual attention head* (Elhage et al. 2021,
"A Mathematical Framework for Transformer Circuits"). What is folded and centred how is as in
``circuits``; the σ of b's LayerNorm is a run's own and left out, like that of the last one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from gpt2viz.analysis.circuits import Eigenvalues, HeadCircuit, Ranked, head_circuit
from gpt2viz.analysis.folding import Numbers
from gpt2viz.errors import ArgumentError
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.trace import Trace


@dataclass(frozen=True, eq=False, repr=False)
class VirtualHead:
    """Two heads as one; ``sender`` and ``receiver`` are (layer, head): see ``virtual_head``."""

    sender: tuple[int, int]
    receiver: tuple[int, int]
    _circuit: HeadCircuit = field(repr=False)
    """The sender with the W_O of both: W_O of the sender, then W_V and W_O of the receiver."""

    @property
    def ov_eigenvalues(self) -> Eigenvalues:
        """Those of the full OV circuit of both, but for zeros that every circuit has: (hs,)."""
        return self._circuit.ov_eigenvalues

    @property
    def copying_score(self) -> float:
        """Σλ / Σ|λ| over ``ov_eigenvalues``, from −1 to 1, as a single head's."""
        return self._circuit.copying_score

    def writes(self, token: int, k: int = 10) -> Ranked:
        """The ``k`` tokens whose logits both raise most, and least, where the sender looks at a
        token and the receiver at the sender's place; as ``HeadCircuit.writes``.
        """
        return self._circuit.writes(token, k)

    def pattern(self, trace: Trace) -> Numbers:
        """How much each query takes from each key through both, on a text: (T, T).

        The receiver's weights times the sender's; rows sum to 1.
        """
        first, second = (
            trace.stage("weights", *head).astype(np.float64)
            for head in (self.sender, self.receiver)
        )
        found: Numbers = second @ first
        return found

    def __repr__(self) -> str:
        (a, b), (c, d) = self.sender, self.receiver
        return f"VirtualHead: {a}.{b}, then {c}.{d}, copying {self.copying_score:+.2f}"


def virtual_head(model: Model, sender: tuple[int, int], receiver: tuple[int, int]) -> VirtualHead:
    """Two heads, (layer, head) each, as one: what the receiver takes of what the sender took.

    Raises ``PlaceError`` for a head that isn't there, ``ArgumentError`` for a receiver whose layer
    isn't later.
    """
    one, other = head_circuit(model, *sender), head_circuit(model, *receiver)
    if receiver[0] <= sender[0]:
        raise ArgumentError(
            f"head {receiver[0]}.{receiver[1]} reads before head {sender[0]}.{sender[1]} has "
            "written"
        )
    both = replace(one, W_O=one.W_O @ other.W_V @ other.W_O)
    return VirtualHead(sender, receiver, both)

"""What one run of the model left behind: plain arrays and names, nothing that can run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpt2viz.config import GPT2Config
from gpt2viz.edits import Edit
from gpt2viz.stages import STAGE, STAGES

Array = NDArray[np.float32]
Pairs = NDArray[np.bool_]
#: (q, k, v, causal, forbidden) -> the (B, nh, T, T) stages by key.
Derive = Callable[[Array, Array, Array, bool, Pairs | None], Mapping[str, Array]]


@dataclass(frozen=True)
class TensorRecord:
    """One tensor as the run made it: a row of the shape table.

    ``axes`` are its letters, such as ("B", "T", "C"), and ``shape`` their sizes in this run;
    ``n_parameters`` are the weights of the module that made it (a tied matrix counts where it
    is used first); ``line`` and ``code`` say where in ``model.py`` it was made.
    """

    name: str
    key: str
    layer: int | None
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    n_parameters: int
    operation: str
    line: int
    code: str


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything one forward pass showed, as read-only float32 arrays.

    Made by ``gpt2viz.trace``. Layers and heads count from 0. The batch axis is kept: B is 1.

    ``tokens`` are texts for reading; a token that is only part of a character shows its bytes
    as ``\\xNN``. ``next_token_probabilities`` is softmax over the whole vocabulary after the
    last token, (B, n_vocab). ``tensors`` is the shape table in the order of the run.
    ``explicit`` tells whether scores and weights were captured in the run itself or are derived
    from its q, k and v when asked for. ``edits`` are what was changed in this run, and
    ``forbidden`` (T, T) the keys (columns) that they hid from queries (rows), if any.
    """

    model_name: str
    config: GPT2Config
    text: str
    token_ids: tuple[int, ...]
    tokens: tuple[str, ...]
    token_bytes: tuple[bytes, ...]
    causal: bool
    explicit: bool
    next_token_probabilities: Array
    tensors: tuple[TensorRecord, ...]
    captured: Mapping[tuple[str, int | None], Array] = field(repr=False)
    unembedding: Array = field(repr=False)
    derive: Derive = field(repr=False)
    edits: tuple[Edit, ...] = ()
    forbidden: Pairs | None = field(default=None, repr=False)
    _derived: dict[int | None, Mapping[str, Array]] = field(default_factory=dict, repr=False)

    def stage(self, key: str, layer: int | None = None) -> Array:
        """The numbers of one stage, shaped as ``gpt2viz.STAGES`` declares.

        ``layer`` is needed for the stages that every layer has, and must be left out for the
        others. Raises ``KeyError`` for an unknown key and ``IndexError`` for a layer that the
        model doesn't have.
        """
        stage = STAGE.get(key)
        if stage is None or not stage.kept:
            known = " ".join(s.key for s in STAGES if s.kept)
            raise KeyError(f"no stage {key!r} in a trace; there are: {known}")
        if stage.per_layer != (layer is not None):
            needs = "needs a layer" if stage.per_layer else "belongs to no layer"
            raise IndexError(f"stage {key!r} {needs}")
        if layer is not None and not 0 <= layer < self.config.n_layer:
            last = self.config.n_layer - 1
            raise IndexError(f"no layer {layer}: this model has layers 0 to {last}")
        if (key, layer) in self.captured:
            return self.captured[key, layer]
        found = self._derived.get(layer)
        if found is None:
            q, k, v = (self.captured[name, layer] for name in "qkv")
            found = self.derive(q, k, v, self.causal, self.forbidden)
            self._derived.clear()  # one layer at a time: at 1,024 tokens it takes 200 MB
            self._derived[layer] = found
        return found[key]

    def record(self, key: str, layer: int | None = None) -> TensorRecord | None:
        """How the run made a stage; None where it was derived later and not made in the run."""
        made = (r for r in self.tensors if r.key == key and r.layer == layer)
        return next(made, None)

    @cached_property
    def logits(self) -> Array:
        """Scores of every vocabulary entry after every token, (B, T, n_vocab)."""
        logits = self.stage("final_norm") @ self.unembedding.T
        logits.flags.writeable = False
        return logits

    def logits_at(self, position: int) -> Array:
        """Scores of every vocabulary entry after one token, (n_vocab,).

        ``position`` counts from 0, or from the end where it is negative. Raises ``IndexError``
        for a position that the text doesn't have. Unlike ``logits`` it keeps no (T, n_vocab).
        """
        logits: Array = self.unembedding @ self.stage("final_norm")[0, position]
        return logits

    @property
    def nbytes(self) -> int:
        """Bytes held now, for caches that are bounded in bytes; looking at stages may add some."""
        derived = (array for stages in self._derived.values() for array in stages.values())
        logits = vars(self)["logits"].nbytes if "logits" in vars(self) else 0
        arrays = (*self.captured.values(), *derived)
        return logits + sum(array.nbytes for array in arrays)

"""Mean outputs of heads in other runs, for edits that replace a head by its mean."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from gpt2viz.arrays import Array
from gpt2viz.errors import ArgumentError, EditError
from gpt2viz.labels import pluralize
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.key import RunKey
from gpt2viz.run.trace import Trace


@dataclass(frozen=True, eq=False, repr=False)
class MeanReference:
    """The mean outputs of all heads over some texts, position by position.

    Made by ``gpt2viz.mean_reference``. ``means`` are (nh, T, hs) by layer, with T the tokens of the
    longest of ``n_texts``; a position's mean is over the texts that reach it. ``first`` is the run
    of the first text, by the model that made all of them; ``ids`` identify the texts.
    """

    means: Mapping[int, Array]
    n_texts: int
    first: Trace
    ids: str

    def check_made_by(self, model: Model) -> None:
        """Raise ``ArgumentError`` if another model made the runs, as ``Trace.check_made_by``."""
        self.first.check_made_by(model)

    def __repr__(self) -> str:
        T = self.means[0].shape[1]
        return f"MeanReference: {describe(self, ())}, up to {T} tokens, by {self.first.model_name}"


#: What means are taken from: one run, over all of its tokens, or several texts.
Reference = Trace | MeanReference


def check_reference(given: Reference, model: Model) -> None:
    """Raise ``ArgumentError`` if means can't be taken from it, or another model made it."""
    if not isinstance(given, Trace | MeanReference):
        raise ArgumentError(
            "Means are taken from a run or gpt2viz.mean_reference(model, texts), not from "
            f"{type(given).__name__}."
        )
    given.check_made_by(model)


def mean_output(reference: Reference, layer: int, head: int, n_tokens: int) -> Array:
    """The mean that replaces a head's output: (hs,) for every token, or (T, hs).

    Raises ``EditError`` if the texts of a ``MeanReference`` are shorter than ``n_tokens``.
    """
    if isinstance(reference, Trace):
        whole: Array = reference.stage("head_output", layer)[0, head].mean(axis=0)
        return whole
    means = reference.means[layer]
    if means.shape[1] < n_tokens:
        raise EditError(
            f"The texts that the mean is over have at most {means.shape[1]} tokens, and this one "
            f"has {n_tokens}. Give longer ones, or shorten the text."
        )
    return means[head, :n_tokens]


def describe(reference: Reference, own: tuple[int, ...]) -> str:
    """A short description, unique to the texts of the means; "" for our ``own`` text's ids."""
    if isinstance(reference, Trace):
        key = reference.key
        if key == RunKey(reference.model_name, own):
            return ""
        n, ids = 1, fingerprint([key])
    else:
        n, ids = reference.n_texts, reference.ids
    return f"{pluralize(n, 'texts')}, sha256 {ids[:12]}"


def fingerprint(texts: list[RunKey]) -> str:
    """The checksum of some runs."""
    return hashlib.sha256(repr(texts).encode()).hexdigest()

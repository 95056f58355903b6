"""Errors that users can act on. Each message says what was wrong and what to do."""

from __future__ import annotations

from collections.abc import Sequence


class GPT2VizError(ValueError):
    """Base class: catch this to show any of the messages below to a user."""


class ArgumentError(GPT2VizError):
    """An argument that a function can't use."""


class StageError(GPT2VizError, KeyError):
    """A stage of a run, or a step of a training run, that doesn't exist."""

    __str__ = Exception.__str__  # not KeyError's, which puts quotes around the sentence


class PlaceError(GPT2VizError, IndexError):
    """A layer, head, token or position that doesn't exist."""


class CheckpointError(GPT2VizError):
    """A checkpoint folder that can't be read as a model."""


class TooLargeError(CheckpointError):
    """A valid checkpoint that needs more memory than is free."""


class DeviceError(CheckpointError):
    """A checkpoint for a device that this machine doesn't have."""


class HubError(GPT2VizError):
    """A model that couldn't be fetched from the hub by its name."""


class TextError(GPT2VizError):
    """A text that can't be turned into tokens."""


class EditError(GPT2VizError):
    """A change to the model that can't be parsed, or doesn't fit this model and text."""


class PatchError(GPT2VizError):
    """Two texts, or an answer, that can't be used for patching.

    ``nearest`` are the ids of a corrupted text that can, if any.
    """

    def __init__(self, message: str, nearest: Sequence[int] | None = None) -> None:
        self.nearest = nearest
        super().__init__(message)


class AttentionError(GPT2VizError):
    """Attention that can't be shown, or tokens that don't fit it."""


class ExportError(GPT2VizError):
    """A file that can't be written this way, or on this machine."""


class SurveyError(GPT2VizError):
    """Texts that can't be read, or a survey of them that can't be run."""


class ServeError(GPT2VizError):
    """A server that can't be started on this machine."""


class MissingExtraError(GPT2VizError, ImportError):
    """An optional dependency that isn't installed; the message says how to install it."""


class PluginError(GPT2VizError):
    """A score, an edit or a page of another package that can't be used; the message names it."""


class ContextError(GPT2VizError):
    """More tokens than the model has positions.

    ``n_tokens`` were given and ``n_positions`` fit; ``who`` has that limit.
    """

    def __init__(self, n_tokens: int, n_positions: int, who: str = "this model") -> None:
        self.n_tokens = n_tokens
        self.n_positions = n_positions
        self.who = who
        super().__init__(n_tokens, n_positions, who)  # a pickle restores it from these

    def __str__(self) -> str:
        return (
            f"The text has {self.n_tokens:,} tokens; {self.who} reads at most "
            f"{self.n_positions:,} at once. Shorten it by {self.n_tokens - self.n_positions:,}."
        )

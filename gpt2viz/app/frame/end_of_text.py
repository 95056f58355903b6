"""The switch that puts ``<|endoftext|>`` before the sentence, on every page, and what else is put
around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import streamlit as st

from gpt2viz import Model
from gpt2viz.app import address, parameters, prose
from gpt2viz.app.literal import literal
from gpt2viz.labels import label
from gpt2viz.model.config import END_OF_TEXT
from gpt2viz.model.tokenizer import Tokenizer

_PLAIN = END_OF_TEXT.decode()
#: The token as Markdown.
WRITTEN = literal(_PLAIN)


def is_on() -> bool:
    """Whether the switch, which must have been drawn, is on."""
    on: bool = address.chosen(parameters.END_OF_TEXT)
    return on


def switch(model: Model, offered: bool = True) -> None:
    """Draw the switch where it is ``offered``, or on; off, and fixed, where the model has no such
    token. There is none where the model's own tokenizer puts that token first."""
    end = model.tokenizer.end_of_text
    there, always = end is not None, end in model.tokenizer.first
    bound = address.switch(parameters.END_OF_TEXT, movable=there)
    if always or not (offered or is_on()):
        return
    st.toggle(
        f"{_PLAIN} first",  # a screen reader hears a label as it is written here
        disabled=not there,
        help=prose.tip(
            f"Puts the token {WRITTEN} before your sentence. GPT-2 was trained with it between "
            "texts; the bundled model was not. Heads that would rest on your first word can rest "
            "on it instead."
            if there
            else f"This model's vocabulary has no token {WRITTEN}."
        ),
        **bound,
    )


def notes(tokenizer: Tokenizer) -> Iterator[str]:
    """What stands around the sentence without being of it, one sentence each, as Markdown."""
    if tokenizer.first:
        yield f"{written(tokenizer, tokenizer.first)} was **put first** {_AS_ALWAYS}"
    if len(tokenizer.before(is_on())) > len(tokenizer.first):
        yield (
            f"{WRITTEN} was **put first**: token {len(tokenizer.first)} is not from your sentence."
        )
    if tokenizer.last:
        yield f"{written(tokenizer, tokenizer.last)} was **put last** {_AS_ALWAYS}"
    if tokenizer.prefix_space and not address.chosen(parameters.TEXT).startswith(" "):
        yield f"A space was **put first** {_AS_ALWAYS}"


_AS_ALWAYS = "by this model's own tokenizer, as for every text."


def written(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Tokens as Markdown."""
    return literal(" ".join(label(tokenizer.token_bytes(i)) for i in ids))

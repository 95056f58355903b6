"""The Generate page's own state and widgets: what was written so far, step, play, undo."""

from __future__ import annotations

import zlib
from typing import NamedTuple

import streamlit as st

from gpt2viz.analysis.generation import draw
from gpt2viz.app import address, limits, output, prose, run_cache
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal
from gpt2viz.app.views.predictions import Sampling
from gpt2viz.labels import label

_NAME = "new"
_EXPECTED = "what a link from this page holds, with its model, mask and sentence"
_PLAYING = "playing"

#: Tokens that one press of Play writes.
PLAY = 20


class _Prompt(NamedTuple):
    """What is written on: all that a button needs to remember of a run."""

    model_name: str
    token_ids: tuple[int, ...]
    causal: bool

    @property
    def sign(self) -> str:
        """A short sign of model, mask and sentence: what was written on belongs to these."""
        read = f"{self.model_name}\n{self.causal}\n{self.token_ids}"
        return f"{zlib.crc32(read.encode()):08x}"


def _prompt(view: View) -> _Prompt:
    return _Prompt(view.model.name, view.trace.token_ids, view.trace.causal)


def written(view: View) -> tuple[int, ...]:
    """Ids of the tokens written so far; none where the sentence, model or mask has changed."""

    config = view.model.config

    def parse(raw: str) -> tuple[str | int, ...]:
        sign, *ids = raw.split(",")
        found = tuple(map(int, ids))
        if not found or sign != _prompt(view).sign or not fits(found):
            raise ValueError(raw)
        return (sign, *found)

    def fits(ids: tuple[int, ...]) -> bool:
        known = all(0 <= n < config.vocab_size for n in ids)
        return known and view.n_tokens + len(ids) <= limits.longest(config)

    if output.shown().arrived:
        _play(0)
    found = address.several_values(_NAME, parse, _EXPECTED)
    if not found:
        return ()
    sign, ids = found[:1], found[1:]
    if sign != (_prompt(view).sign,) or not fits(ids):  # chosen here, before one of them changed
        st.session_state[_PLAYING] = 0
        return ()
    return tuple(ids)


def _put(prompt: _Prompt, ids: tuple[int, ...]) -> None:
    address.put(_NAME, (prompt.sign, *ids) if ids else ())


def _step(prompt: _Prompt, ids: tuple[int, ...], settings: Sampling, seed: int) -> None:
    read = run_cache.run(prompt.model_name, (*prompt.token_ids, *ids), prompt.causal)
    _put(prompt, (*ids, draw(read, **settings, seed=seed)))


def _play(tokens: int) -> None:
    st.session_state[_PLAYING] = tokens


def _back(prompt: _Prompt, ids: tuple[int, ...]) -> None:
    _play(0)
    _put(prompt, ids)


def ended(view: View, ids: tuple[int, ...]) -> str:
    """Why no token can be added, or an empty text."""
    n_positions = limits.longest(view.model.config)
    if view.n_tokens + len(ids) == n_positions:
        return f"The context is full: {n_positions:,} tokens are all that can be read at once."
    if ids and ids[-1] == view.model.tokenizer.end_of_text:
        return "The model has ended the text."
    return ""


def seed() -> int:
    """Pick the number that decides the draws."""
    seeds = range(1000)
    chosen: int = st.number_input(
        "Seed",
        0,
        seeds[-1],
        help=prose.tip(
            "Decides the draws when the temperature is above 0: the same seed gives the same text."
        ),
        **address.choice("seed", seeds, 0),
    )
    return chosen


def buttons(view: View, ids: tuple[int, ...], settings: Sampling, seed: int) -> None:
    """Step, play or stop, undo, start over."""
    over, prompt = bool(ended(view, ids)), _prompt(view)
    playing = st.session_state.get(_PLAYING, 0)
    with st.container(horizontal=True, key="write"):
        st.button(
            "Step",
            icon=":material/skip_next:",
            type="primary",
            disabled=over or playing > 0,
            on_click=_step,
            args=(prompt, ids, settings, seed),
            help="Write one token.",
        )
        stop = playing > 0 and not over
        st.button(
            "Stop" if stop else "Play",
            icon=":material/stop:" if stop else ":material/play_arrow:",
            key="play",  # one button under two names: while it plays, no other may linger
            disabled=over,
            on_click=_play,
            args=(0 if stop else PLAY,),
            help=f"Write {PLAY} tokens, one after the other.",
        )
        st.button(
            "Undo",
            icon=":material/undo:",
            disabled=not ids,
            on_click=_back,
            args=(prompt, ids[:-1]),
            help="Take the last token back.",
        )
        st.button(
            "Start over", icon=":material/restart_alt:", disabled=not ids, on_click=_back,
            args=(prompt, ()),
        )  # fmt: skip


def go_on(view: View, ids: tuple[int, ...], settings: Sampling, seed: int) -> None:
    """While playing, write the next token and draw the page again. Call it last."""
    left = st.session_state.get(_PLAYING, 0)
    if not left:
        return
    if ended(view, ids):
        _play(0)
    else:
        _play(left - 1)
        _step(_prompt(view), ids, settings, seed)
    st.rerun()


def continuation(view: View, ids: tuple[int, ...]) -> str:
    """The sentence and, marked, what was written on, as Markdown that shows the text exactly."""
    tokenizer = view.model.tokenizer
    marked = " ".join(f":blue-background[{literal(label(tokenizer.token_bytes(n)))}]" for n in ids)
    start = " ".join(literal(text) for text in view.labels)
    return f"{start} {marked}".strip()

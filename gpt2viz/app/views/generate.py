"""Generate: write on token by token, and see where a head looks as each one is chosen."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import streamlit as st

from gpt2viz import STAGE, Trace
from gpt2viz.analysis.generation import appraise
from gpt2viz.analysis.generation import draw as draw_token
from gpt2viz.app import address, output, parameters, prose, run_cache, server_config
from gpt2viz.app.clicks import open_head
from gpt2viz.app.frame import controls, page, page_fragment, sentence
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View
from gpt2viz.app.views import kv_cache, next_token
from gpt2viz.app.views.next_token import Sampling
from gpt2viz.labels import label
from gpt2viz.pictures import tables
from gpt2viz.pictures.prediction import token_bars
from gpt2viz.run.key import RunKey

_EXPECTED = "what a link from this page holds, with its model, mask and sentence"
_PLAYING = "playing"
_INSPECTED = "_inspected"

#: Tokens that one press of the button for several writes.
PLAY = 10


def draw(view: View, settings: Any) -> None:
    """Draw the mode; ``settings`` is the container for what tokens are drawn with."""
    if st.session_state.pop(_INSPECTED, False):
        open_head(*controls.layer_and_head(view))
    page.stop_without_numbers(view.trace)
    ids = _written(view)
    with settings:
        sampling, seed = next_token.sampling(), _seed()
    before = run_cache.run(_with(view.trace.key, ids[:-1]))
    output.run("The run", before)  # the one that the picture is of
    looked, text = st.columns(2, gap="medium")
    with text:
        _buttons(view, ids, sampling, seed)
        offered = _continuation(view, ids)
        if why := _ended(view, ids):
            st.info(f"{why} Undo a token or start over to go on.", icon=":material/flag:")
        else:
            prose.caption(
                f"**Step** lets the model write the next token, **Write {PLAY}** the next {PLAY}."
                + (" Choose one of them to see inside the head at that token." if offered else "")
            )
        if ids:
            _what_was_written(view, ids)
    with looked, st.container(gap="xsmall"):  # last: its widgets fix what the buttons hold
        _where_it_looked(view, before, ids)
    kv_cache.draw(view, _with(view.trace.key, ids))
    _go_on(view, ids, sampling, seed)


def _where_it_looked(view: View, before: Trace, ids: tuple[int, ...]) -> None:
    """The row of a head from which the last of ``ids`` was chosen; ``before`` has read the rest."""
    names = run_cache.vocabulary(view.model.name)
    st.markdown(
        f"**Where the head looked as “{literal(names[ids[-1]])}” was chosen**"
        if ids
        else "**Where the head looks as the next token is chosen**"
    )
    picture = st.container()
    with st.container(horizontal=True, gap="large"):
        layer, head = controls.layer(view), controls.head(view)
    prose.caption(
        f"The {STAGE['weights'].quantity}s of layer {layer}, head {head}: the row of the query "
        f"“{literal(before.labels[-1])}”, the last token that had been read. The prediction is "
        "made from there."
    )
    weights = before.stage("weights", layer)[0, head, -1]
    output.picture(
        token_bars(
            f"Attention weights of the last token in layer {layer}, head {head}",
            before.labels,
            weights,
            "attention weight",
        ),
        view.colors,
        key="row",
        place=picture,
        made_by=(Line(before, "weights", layer), draw_token, appraise),
    )


def _what_was_written(view: View, ids: tuple[int, ...]) -> None:
    """Each new token with its probability and rank."""
    st.markdown("**What was written**")
    prompt = view.trace.key
    first = 0 if prompt.causal else max(0, len(ids) - PLAY)
    choices = [run_cache.choice(_with(prompt, ids[:n]), ids[n]) for n in range(first, len(ids))]
    three = st.column_config.NumberColumn(format="%.3f")
    output.table(
        tables.choice_table(choices, run_cache.vocabulary(view.model.name)),
        "Tokens that were written",
        column_config={"probability (%)": three, "surprise (bits)": three},
    )
    last = f" Only the last {PLAY}: without the mask, each needs a run of its own."
    prose.caption(
        "Probability is the model's own, over its whole vocabulary, before temperature, top-k and "
        "top-p. Rank 1 is the most probable token." + (last if first else "")
    )


def offer() -> None:
    """A button that lets the model write on, where this mode isn't shown."""
    st.button(
        f"Write {PLAY}",
        icon=":material/play_arrow:",
        on_click=_begin,
        help=f"Let the model write {PLAY} tokens, and see where a head looks meanwhile.",
    )


def _begin() -> None:
    address.put(parameters.PREDICT, "generate")
    _play(PLAY)


def sign(prompt: RunKey) -> str:
    """A short sign of model, mask and sentence: what was written on belongs to these."""
    read = f"{prompt.model}\n{prompt.causal}\n{prompt.token_ids}"
    return f"{zlib.crc32(read.encode()):08x}"


def _with(prompt: RunKey, ids: tuple[int, ...]) -> RunKey:
    """The run of the prompt and the tokens that were written."""
    return replace(prompt, token_ids=(*prompt.token_ids, *ids))


def _written(view: View) -> tuple[int, ...]:
    """Ids of the tokens written so far; none where the sentence, model or mask has changed."""

    config = view.model.config

    def parse(raw: str) -> tuple[str | int, ...]:
        belongs_to, *ids = raw.split(",")
        found = tuple(map(int, ids))
        if not found or belongs_to != sign(view.trace.key) or not fits(found):
            raise ValueError(raw)
        return (belongs_to, *found)

    def fits(ids: tuple[int, ...]) -> bool:
        known = all(0 <= n < config.vocab_size for n in ids)
        return known and view.n_tokens + len(ids) <= server_config.longest_text(config)

    if output.shown().arrived:
        _play(0)
    found = address.several_values(parameters.NEW, parse, _EXPECTED)
    if not found:
        return ()
    belongs_to, ids = found[0], found[1:]
    if belongs_to != sign(view.trace.key) or not fits(ids):  # chosen before one of them changed
        st.session_state[_PLAYING] = 0
        return ()
    return tuple(ids)


def _put(prompt: RunKey, ids: tuple[int, ...]) -> None:
    address.put(parameters.NEW, (sign(prompt), *ids) if ids else ())


def _step(prompt: RunKey, ids: tuple[int, ...], settings: Sampling, seed: int) -> None:
    read = run_cache.run(_with(prompt, ids))
    _put(prompt, (*ids, draw_token(read, **settings, seed=seed)))


def _play(tokens: int) -> None:
    st.session_state[_PLAYING] = tokens


def _back(prompt: RunKey, ids: tuple[int, ...]) -> None:
    _play(0)
    _put(prompt, ids)


def _ended(view: View, ids: tuple[int, ...]) -> str:
    """Why no token can be added, or an empty text."""
    n_positions = server_config.longest_text(view.model.config)
    if view.n_tokens + len(ids) == n_positions:
        return f"The context is full: {n_positions:,} tokens are all that can be read at once."
    if ids and ids[-1] == view.model.tokenizer.end_of_text:
        return "The model has ended the text."
    return ""


def _seed() -> int:
    """Pick the number that decides the draws."""
    seeds = range(1000)
    chosen: int = st.number_input(
        "Seed",
        0,
        seeds[-1],
        help=prose.tip(
            "Decides the draws when the temperature is above 0: the same seed gives the same text."
        ),
        **address.choice(parameters.SEED, seeds),
    )
    return chosen


def _buttons(view: View, ids: tuple[int, ...], settings: Sampling, seed: int) -> None:
    """Step, play, stop, undo, start over."""
    over, prompt = bool(_ended(view, ids)), view.trace.key
    playing = st.session_state.get(_PLAYING, 0)
    with st.container(horizontal=True, key="write", gap="xsmall"):
        st.button(
            "Step",
            icon=":material/skip_next:",
            type="primary",
            disabled=over or playing > 0,
            on_click=_step,
            args=(prompt, ids, settings, seed),
            help="Write one token.",
        )
        # Two buttons, always there: a Stop that comes too late must not be read as "Write 10".
        st.button(
            f"Write {PLAY}",
            icon=":material/play_arrow:",
            key="play",
            disabled=over or playing > 0,
            on_click=_play,
            args=(PLAY,),
            help=f"Write {PLAY} tokens, one after the other.",
        )
        st.button(
            "Stop",
            icon=":material/stop:",
            key="stop",
            disabled=not playing,
            on_click=_play,
            args=(0,),
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
        _button_to_read_it(view, ids)


def _button_to_read_it(view: View, ids: tuple[int, ...]) -> None:
    """Sentence and continuation become the sentence."""
    text = _whole(view, ids)
    st.button(
        "Make it the sentence",
        icon=":material/keyboard_return:",
        disabled=not ids or text is None,
        on_click=_read,
        args=(text, *controls.layer_and_head(view)),
        help="Read it all, on every page."
        if text is not None
        else "Typed as a text, this would be cut into other tokens.",
    )


def _go_on(view: View, ids: tuple[int, ...], settings: Sampling, seed: int) -> None:
    """While playing, write the next token and draw the page again. Call it last."""
    left = st.session_state.get(_PLAYING, 0)
    if not left:
        return
    if _ended(view, ids):
        _play(0)
    else:
        _play(left - 1)
        _step(view.trace.key, ids, settings, seed)
    page_fragment.rerun()


def _continuation(view: View, ids: tuple[int, ...]) -> bool:
    """The sentence and what was written on: a click on a new token opens the head there.

    Whether a token can be clicked: none where no text has these tokens.
    """
    tokenizer = view.model.tokenizer
    new = [literal(label(tokenizer.token_bytes(n))) for n in ids]
    text = _whole(view, ids)
    first = len(ids) if text is None else max(0, len(ids) - sentence.AT_ONCE)
    marked = (f":blue-background[{token}]" for token in new[:first])
    prose.markdown(" ".join([*map(literal, view.labels), *marked]))
    if text is None or not ids:
        return False
    layer, head = controls.layer_and_head(view)
    start, key = view.n_tokens, f"new_tokens_{len(ids)}"

    def inspect() -> None:
        if (chosen := st.session_state[key]) is not None:
            _read(text, layer, head)
            address.put(parameters.QUERY, start + chosen)
            st.session_state[_INSPECTED] = True

    with st.container(key="new_tokens"):
        st.pills(
            "Tokens that were written",
            range(first, len(ids)),
            format_func=lambda n: f"{new[n]} :small[position {start + n}, id {ids[n]}]",
            label_visibility="collapsed",
            key=key,
            on_change=inspect,
        )
    return True


def _whole(view: View, ids: tuple[int, ...]) -> str | None:
    """The text whose tokens are those of the sentence and ``ids``; None where no text has them."""
    text = address.chosen(parameters.TEXT) + view.model.tokenizer.decode(ids)
    again = view.model.tokenizer.encode(text, end_of_text_first=sentence.has_end_of_text())
    return text if tuple(again) == (*view.trace.token_ids, *ids) else None


def _read(text: str, layer: int, head: int) -> None:
    """Make a text the sentence; the head that was looked at stays."""
    _play(0)
    address.put(parameters.TEXT, text)
    address.put(parameters.LAYER, layer)
    address.put(parameters.HEAD, head)
    address.put(parameters.NEW, ())

"""Predict: the next token, the reasons for it, and text generated token by token."""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import partial
from typing import Any, TypedDict

import pandas as pd
import streamlit as st

from gpt2viz import (
    Trace,
    contributions,
    entropy,
    labels,
    logit_lens,
    sampling_distribution,
    surprise,
)
from gpt2viz.analysis.generation import appraise
from gpt2viz.analysis.generation import draw as draw_token
from gpt2viz.app import address, output, pages, parameters, prose, run_cache, server_config
from gpt2viz.app.clicks import Cell, open_head
from gpt2viz.app.components import mount
from gpt2viz.app.frame import controls, page, page_fragment, sentence
from gpt2viz.app.literal import literal
from gpt2viz.app.parameters import Text
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View
from gpt2viz.app.views import kv_cache
from gpt2viz.arrays import Numbers, largest
from gpt2viz.pictures import tables
from gpt2viz.pictures.prediction import contribution_map, lens_map, probability_bars, token_bars
from gpt2viz.run.key import RunKey

TEMPERATURES = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0]
SHARES = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0]
COUNTS = ["all", 1, 2, 3, 5, 10, 20, 40, 50, 100, 200]
#: How many of the most probable tokens have a bar each.
TOP = 12
#: Columns of the lens: as many tokens as can be read in one row.
LENS_WIDTH = 10
#: How many candidates are offered for the logit to decompose; any other token can be typed.
CANDIDATES = 100
NONE = "nothing"
#: Sampling from the model's own distribution.
UNCHANGED: Sampling = {"temperature": 1.0, "top_k": None, "top_p": 1.0}
_EXPECTED = "what a link from this page holds, with its model, mask and sentence"
_PLAYING = "playing"
_INSPECTED = "_inspected"
#: Tokens that one press of *Write* generates.
PLAY = 10


def show() -> None:
    """Draw the page."""
    page_fragment.draw(pages.PREDICT, _modes, _hint)


def _hint() -> str:
    """Return a hint on what choosing a token of the sentence does."""
    writes = address.raw(parameters.PREDICT) == "generate"
    return "" if writes else "Choose a token to see what comes after it."


def _modes(view: View) -> None:
    """Pick a mode and draw it."""
    settings = st.container(key="sampling", horizontal=True, vertical_alignment="center")
    with settings:
        mode = controls.mode(pages.PREDICT)
        if mode == "next":
            st.button(
                f"Write {PLAY}",
                icon=":material/play_arrow:",
                on_click=_begin,
                help=f"Lets the model write {PLAY} tokens and shows what a head attends to.",
            )
    if mode == "next":
        _draw_next(view, settings)
    else:
        _generate(view, settings)


class Sampling(TypedDict):
    """Arguments of ``gpt2viz.sampling_distribution``."""

    temperature: float
    top_k: int | None
    top_p: float


def _draw_next(view: View, settings: Any) -> None:
    """Draw the mode; ``settings`` is the container for the sampling widgets."""
    page.stop_without_numbers(view.trace)
    with settings:
        sampled = _pick_sampling()
    position = view.position
    logits = view.trace.logits_at(position)
    model, drawn = sampling_distribution(logits), sampling_distribution(logits, **sampled)
    left, right = st.columns([1, 1], gap="large")
    with left, st.container(gap="xsmall"):
        _next_token(view, position, model, None if sampled == UNCHANGED else drawn)
    with right, st.container(gap="xsmall"):
        _indecision(model, drawn)
        _surprises(view)
    _lens(view, position)
    _contributions(view, position)


def _next_token(view: View, position: int, model: Numbers, drawn: Numbers | None) -> None:
    """Draw the next tokens after ``position``: the ``model``'s probabilities and, if they differ,
    those that tokens are ``drawn`` from; (n_vocab,) each."""
    names = run_cache.vocabulary(view.model.name)
    table = tables.next_token_table(model, model if drawn is None else drawn, names, top=TOP)
    cases = {"the model's probability": table["model (%)"]}
    if drawn is None:
        del table["drawn from (%)"]
    else:
        cases["after temperature, top-k and top-p"] = table["drawn from (%)"]
    prose.markdown(
        f"**What comes after {view.token_name(position)}?** The model gives **every** token of its "
        "vocabulary a probability."
    )
    what = f"Probability of the most probable next tokens after token {position}"
    picture = probability_bars(what, table["token"], cases, rest=True)
    output.picture(picture, key="next_tokens")
    with st.container(horizontal=True):
        line = Line(view.trace, "last_logits")
        output.code(line, sampling_distribution, entropy, of=[picture.what])
        name = f"Next tokens after token {position}"
        output.tables_on_demand("These numbers as a table", {name: partial(pd.DataFrame, table)})


def _indecision(model: Numbers, drawn: Numbers) -> None:
    """Show the entropy, and how many tokens can be drawn; arguments are (n_vocab,) each."""
    with st.container(key="undecided", horizontal=True, gap="large"):
        st.metric(
            "Entropy",
            f"{entropy(model):.2f} bits",
            help=prose.tip(
                labels.sentence("predict.entropy", tokens=len(model)),
            ),
            width="content",
        )
        st.metric(
            "Tokens that can be drawn",
            f"{(drawn > 0).sum():,}",
            help=prose.tip("Tokens with a probability above 0 after temperature, top-k and top-p."),
            width="content",
        )


def _surprises(view: View) -> None:
    """Draw the surprise of every token of the sentence."""
    prose.markdown("**How surprising each token of the sentence was**")
    prose.caption(
        "Nothing comes before the first token, so it can't be predicted. Write a longer sentence."
        if view.n_tokens == 1
        else "Surprise is −log₂ of the probability that the model gave a token before seeing it: "
        "0 bits is certain, 10 bits is 1 in 1,024."
        if view.trace.causal
        else "With the mask off the model has **already seen** each token, so these numbers don't "
        "say how well it predicts."
    )
    if view.n_tokens > 1:
        bits = surprise(view.trace)
        output.picture(
            token_bars(
                "Surprise of every token in bits", view.labels, bits, "surprise (bits)", "bits"
            ),
            key="surprise",
            made_by=(surprise,),
        )


def _lens(view: View, position: int) -> None:
    """Draw each step's prediction by the logit lens, after the token at ``position`` and others."""
    prose.markdown("#### When is it decided? The logit lens")
    names, shown = run_cache.vocabulary(view.model.name), lens_positions(view, position)
    lens = run_cache.lens(view.trace.key, tuple(shown))
    answer = literal(names[lens.answer[position - shown[0]]])
    prose.caption(
        "The logit lens stops after each step and asks for a prediction, by the final norm and "
        "the unembedding (nostalgebraist 2020). Only the bottom row is the model's own. "
        + labels.sentence("predict.curves", token=view.token_name(position), answer=answer)
    )
    if len(shown) < view.n_tokens:
        prose.caption(labels.sentence("predict.window", first=shown[0], last=shown[-1]))
    output.picture(
        lens_map(
            "Most probable next token at every step of the stream, after each token",
            lens,
            names,
            view.labels,
            position,
        ),
        key="lens_map",
        made_by=(logit_lens,),
    )


def _contributions(view: View, position: int) -> None:
    """Draw each component's contribution to a logit after the token at ``position``."""
    prose.markdown("#### Which heads and MLPs made this prediction?")
    names, logits = run_cache.vocabulary(view.model.name), view.trace.logits_at(position)
    token, versus = _pick_explained(view, largest(logits, CANDIDATES).tolist())
    parts = contributions(view.model, view.trace, token, versus, position)
    logit, total = labels.numeral(parts.logit, "+.4f"), labels.numeral(parts.total, "+.4f")
    prose.markdown(
        labels.sentence(
            "predict.logit" if versus is None else "predict.logits",
            place=view.token_name(position),
            token=literal(names[token]),
            other="" if versus is None else literal(names[versus]),
            logit=labels.numeral(parts.logit, "+.2f"),
        ),
        help=prose.tip(
            labels.sentence("predict.sum", logit=logit, total=total)
            + f" Difference: {labels.difference(abs(parts.total - parts.logit))}."
        ),
    )
    prose.caption(labels.sentence("predict.contributions"))
    of = "head and MLP" if parts.attention_bias is None else "head, bias and MLP"
    grid, right = st.columns([5, 3], gap="medium")
    with grid, st.container(key="contributions"):
        output.picture(
            contribution_map(f"What each {of} added to the logit after token {position}", parts),
            key="contribution_map",
            made_by=(contributions,),
            then=lambda cell: _open_part(cell, view.model.config.n_head),
        )
    name = f"Contributions to a logit after token {position}"
    table = tables.contribution_table(parts)
    with right:
        made = {name: partial(pd.DataFrame, table)}
        output.tables_on_demand("The largest first, as a table", made, key="contribution_table")


def _open_part(cell: Cell, n_head: int) -> None:
    """Open the head of a cell; the cells of biases and MLPs open nothing."""
    if cell.column < n_head:
        open_head(cell.row, cell.column)


def _pick_sampling() -> Sampling:
    """Pick temperature, top-k and top-p, with which both modes sample."""
    temperature = st.select_slider(
        "Temperature",
        help=prose.tip(
            "Divides the logits: below 1 the probable tokens gain, above 1 they lose, "
            "at 0 only the most probable one is left."
        ),
        **address.choice(parameters.TEMPERATURE, TEMPERATURES),
    )
    count = st.select_slider(
        "Top-k",
        help=prose.tip("Keeps only the k most probable tokens."),
        **address.choice(parameters.TOP_K, COUNTS),
    )
    share = st.select_slider(
        "Top-p",
        help=prose.tip("Keeps the fewest tokens that together reach this probability."),
        **address.choice(parameters.TOP_P, SHARES),
    )
    return {"temperature": temperature, "top_k": None if count == "all" else count, "top_p": share}


def lens_positions(view: View, position: int) -> range:
    """Return up to ``LENS_WIDTH`` positions that end at ``position``, or start at 0."""
    last = min(view.n_tokens, max(position + 1, LENS_WIDTH))
    return range(max(0, last - LENS_WIDTH), last)


def _pick_explained(view: View, best: list[int]) -> tuple[int, int | None]:
    """Pick the token whose logit is decomposed, and one to compare it with or None.

    ``best`` are the candidates, most probable first. Any token can be typed instead.
    """
    names = run_cache.vocabulary(view.model.name)
    offered = [names[n] for n in best]
    left, right = st.columns(2, gap="medium")
    with left:
        token = pick_token(view, "Logit of", parameters.EXPLAIN, offered, offered[0])
    with right:  # a logit minus itself is 0
        others = [name for name in offered if name != address.get(parameters.EXPLAIN)]
        versus = pick_token(view, "minus the logit of", parameters.MINUS, [NONE, *others], NONE)
    return (best[0] if token is None else token), versus


def pick_token(view: View, title: str, which: Text, offered: list[str], default: str) -> int | None:
    """Pick a token, ``offered`` or typed; return its id, or stop the page.

    If ``NONE`` is offered, picking it returns None; otherwise it is a word like any other.
    """
    widget = address.text(which, default)
    written: str = address.get(which)
    st.selectbox(
        title,
        offered if written in offered else [written, *offered],
        accept_new_options=True,
        help=prose.tip(
            "The most probable tokens are offered. Any other can be typed; · is a space."
        ),
        **widget,
    )
    if written == NONE and NONE in offered:
        return None
    token = _token_id(view, written)
    if token is None:
        st.warning(
            labels.sentence("predict.no_token", text=literal(written)), icon=":material/edit:"
        )
        st.stop()
    return token


def _token_id(view: View, written: str) -> int | None:
    """Return the id of a token by its screen label, or as users type it: "he" for "·he"."""
    ids = run_cache.token_of_label(view.model.name)
    if written in ids:
        return ids[written]
    plain = written.strip()
    return ids.get(f"·{plain}", ids.get(plain))


def _generate(view: View, settings: Any) -> None:
    """Draw the mode; ``settings`` is the container for the sampling widgets."""
    if st.session_state.pop(_INSPECTED, False):
        open_head(*controls.layer_and_head(view))
    page.stop_without_numbers(view.trace)
    ids = _generated_ids(view)
    with settings:
        sampling, seed = _pick_sampling(), _pick_seed()
    before = run_cache.run(_extend(view.trace.key, ids[:-1]))
    output.run("The run", before)  # the run that the picture shows
    row, text = st.columns(2, gap="medium")
    with text:
        _buttons(view, ids, sampling, seed)
        offered = _continuation(view, ids)
        if why := _end_reason(view, ids):
            st.info(f"{why} Undo a token or start over to go on.", icon=":material/flag:")
        else:
            prose.caption(
                f"**Step** writes one token, **Write {PLAY}** writes {PLAY}."
                + (" Choose a written token to look inside the head there." if offered else "")
            )
        if ids:
            _list_new_tokens(view, ids)
    with row, st.container(gap="xsmall"):  # last: the buttons' arguments depend on its widgets
        _draw_last_row(view, before, ids)
    kv_cache.draw(view, _extend(view.trace.key, ids))
    _write_next(view, ids, sampling, seed)


def _draw_last_row(view: View, before: Trace, ids: tuple[int, ...]) -> None:
    """Draw a head's row as it predicted the last of ``ids``; ``before`` is the run before it."""
    picture = st.container(gap="xsmall")
    with st.container(horizontal=True, gap="large"):
        layer, head = controls.layer(view), controls.head(view)
    names = run_cache.vocabulary(view.model.name)
    prose.markdown(
        labels.sentence(
            "predict.attended" if ids else "predict.attends",
            head=f"{layer}.{head}",
            token=literal(names[ids[-1]]) if ids else "",
        ),
        slot=picture,
    )
    last = literal(before.labels[-1])
    prose.caption(labels.sentence("predict.row", query=last), slot=picture)
    weights = before.stage("weights", layer)[0, head, -1]
    output.picture(
        token_bars(
            f"Attention weights of the last token in layer {layer}, head {head}",
            before.labels,
            weights,
            "attention weight",
        ),
        key="row",
        slot=picture,
        made_by=(Line(before, "weights", layer), draw_token, appraise),
    )


def _list_new_tokens(view: View, ids: tuple[int, ...]) -> None:
    """List each new token with its probability and rank."""
    st.markdown("**What was written**")
    prompt = view.trace.key
    first = 0 if prompt.causal else max(0, len(ids) - PLAY)
    choices = [run_cache.choice(_extend(prompt, ids[:n]), ids[n]) for n in range(first, len(ids))]
    output.table(
        tables.choice_table(choices, run_cache.vocabulary(view.model.name)),
        "Tokens that were written",
        hide_index=None,
        formats={"probability (%)": "%.3f", "surprise (bits)": "%.3f"},
    )
    last = " " + labels.sentence("predict.only_last", most=PLAY)
    prose.caption(labels.sentence("predict.written") + (last if first else ""))


def _begin() -> None:
    address.put(parameters.PREDICT, "generate")
    _play(PLAY)


def sign(prompt: RunKey) -> str:
    """Return a checksum of the model, mask and sentence that generated tokens belong to."""
    read = f"{prompt.model}\n{prompt.causal}\n{prompt.token_ids}"
    return f"{zlib.crc32(read.encode()):08x}"


def _extend(prompt: RunKey, ids: tuple[int, ...]) -> RunKey:
    """Return the key of the run of the prompt and the tokens ``ids`` after it."""
    return replace(prompt, token_ids=(*prompt.token_ids, *ids))


def _generated_ids(view: View) -> tuple[int, ...]:
    """Return the ids generated so far; () if the sentence, model or mask has changed."""

    config = view.model.config

    def parse(raw: str) -> tuple[str | int, ...]:
        belongs_to, *ids = raw.split(",")
        numbers = tuple(map(int, ids))
        if not numbers or belongs_to != sign(view.trace.key) or not fits(numbers):
            raise ValueError(raw)
        return (belongs_to, *numbers)

    def fits(ids: tuple[int, ...]) -> bool:
        known = all(0 <= n < config.vocab_size for n in ids)
        return known and view.n_tokens + len(ids) <= server_config.longest_text(config)

    if output.page_outputs().arrived:
        _play(0)
    written = address.values(parameters.NEW, parse, _EXPECTED)
    if not written:
        return ()
    belongs_to, *ids = written
    if belongs_to != sign(view.trace.key) or not fits(tuple(ids)):  # from before a change
        st.session_state[_PLAYING] = 0
        return ()
    return tuple(ids)


def _put(prompt: RunKey, ids: tuple[int, ...]) -> None:
    address.put(parameters.NEW, (sign(prompt), *ids) if ids else ())


def _step(prompt: RunKey, ids: tuple[int, ...], settings: Sampling, seed: int) -> None:
    read = run_cache.run(_extend(prompt, ids))
    _put(prompt, (*ids, draw_token(read, **settings, seed=seed)))


def _play(tokens: int) -> None:
    st.session_state[_PLAYING] = tokens


def _truncate(prompt: RunKey, ids: tuple[int, ...]) -> None:
    _play(0)
    _put(prompt, ids)


def _end_reason(view: View, ids: tuple[int, ...]) -> str:
    """Return the reason why no token can be added, or ""."""
    n_positions = server_config.longest_text(view.model.config)
    if view.n_tokens + len(ids) == n_positions:
        return labels.sentence("predict.full", most=n_positions)
    if ids and ids[-1] == view.model.tokenizer.end_of_text:
        return "The model has ended the text."
    return ""


def _pick_seed() -> int:
    """Pick the random seed."""
    chosen: int = st.number_input(
        "Seed",
        help=prose.tip(
            "Decides the draws when the temperature is above 0: the same seed gives the same text."
        ),
        **address.number(parameters.SEED, range(1000)),
    )
    return chosen


def _buttons(view: View, ids: tuple[int, ...], settings: Sampling, seed: int) -> None:
    """Draw the buttons: step, write, stop, undo, start over."""
    over, prompt = bool(_end_reason(view, ids)), view.trace.key
    playing = st.session_state.get(_PLAYING, 0)
    with st.container(horizontal=True, key="write", gap="xsmall"):
        st.button(
            "Step",
            icon=":material/skip_next:",
            type="primary",
            disabled=over or playing > 0,
            on_click=_step,
            args=(prompt, ids, settings, seed),
            help="Writes one token.",
        )
        # Two buttons, always drawn: a late click on Stop must not count as "Write 10".
        st.button(
            f"Write {PLAY}",
            icon=":material/play_arrow:",
            key="play",
            disabled=over or playing > 0,
            on_click=_play,
            args=(PLAY,),
            help=f"Writes {PLAY} tokens, one after another.",
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
            on_click=_truncate,
            args=(prompt, ids[:-1]),
            help="Takes the last token back.",
        )
        st.button(
            "Start over", icon=":material/restart_alt:", disabled=not ids, on_click=_truncate,
            args=(prompt, ()),
        )  # fmt: skip
        _offer_as_sentence(view, ids)


def _offer_as_sentence(view: View, ids: tuple[int, ...]) -> None:
    """Draw the button that makes the sentence and its continuation the new sentence."""
    text = _whole_text(view, ids)
    st.button(
        "Make it the sentence",
        icon=":material/keyboard_return:",
        disabled=not ids or text is None,
        on_click=_make_sentence,
        args=(text, *controls.layer_and_head(view)),
        help="Makes the whole text the sentence of every page."
        if text is not None
        else "Typed as a text, this would be cut into other tokens.",
    )


def _write_next(view: View, ids: tuple[int, ...], settings: Sampling, seed: int) -> None:
    """While playing, generate the next token and rerun the page. Call it last."""
    remaining = st.session_state.get(_PLAYING, 0)
    if not remaining:
        return
    if _end_reason(view, ids):
        _play(0)
    else:
        _play(remaining - 1)
        _step(view.trace.key, ids, settings, seed)
    page_fragment.rerun()


def _continuation(view: View, ids: tuple[int, ...]) -> bool:
    """Draw the sentence and its continuation; a click on a new token opens the head there.

    Returns whether tokens can be clicked: not if no text encodes to them.
    """
    tokenizer = view.model.tokenizer
    new = [labels.label(tokenizer.token_bytes(n)) for n in ids]
    text = _whole_text(view, ids)
    first = len(ids) if text is None else max(0, len(ids) - sentence.AT_ONCE)
    marked = (f":blue-background[{literal(token)}]" for token in new[:first])
    prose.markdown(" ".join([*map(literal, view.labels), *marked]))
    if text is None or not ids:
        return False
    layer, head = controls.layer_and_head(view)

    def inspect(position: int) -> None:
        _make_sentence(text, layer, head)
        address.put(parameters.QUERY, int(position))
        st.session_state[_INSPECTED] = True

    strip = sentence.chips(new, ids, range(first, len(ids)), None)
    strip |= {"name": "Tokens that were written", "first": view.n_tokens + first}
    mount(strip, key="new_tokens", on={"query": inspect})
    return True


def _whole_text(view: View, ids: tuple[int, ...]) -> str | None:
    """Return the text that encodes to the sentence's tokens and ``ids``, or None."""
    text = address.get(parameters.TEXT) + view.model.tokenizer.decode(ids)
    whole = (*view.trace.token_ids, *ids)
    return text if sentence.encode(view.model, text) == whole else None


def _make_sentence(text: str, layer: int, head: int) -> None:
    """Make a text the sentence, and keep the head on screen."""
    _play(0)
    same_head = {parameters.LAYER: layer, parameters.HEAD: head}
    address.put_all({parameters.TEXT: text, parameters.NEW: ()} | same_head)

"""The sentence: its box, its tokens, notes on it, and the choices that survive as it changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import streamlit as st

from gpt2viz import ContextError, EditError, GPT2VizError, Model, Trace
from gpt2viz.app import address, output, pages, parameters, prose, run_cache
from gpt2viz.app.components import mount
from gpt2viz.app.literal import literal
from gpt2viz.app.parameters import Parameter, Text, To
from gpt2viz.labels import bidi_isolate, label, pluralize, sentence
from gpt2viz.model.config import END_OF_TEXT
from gpt2viz.model.tokenizer import Tokenizer
from gpt2viz.run.key import common_prefix_length


def box(which: Text, default: str, label: str, *, placeholder: str, **look: Any) -> str:
    """Draw the box of a text, ``which`` of the address; ``look`` are options of Streamlit's boxes.

    A browser's one-line box drops line breaks: a text that has some, from a link or a session, gets
    a box of several lines.
    """
    bound = address.text(which, default, one_line=False)
    text: str = address.get(which)
    if address.is_one_line(text):
        st.text_input(label, placeholder=placeholder, **look, **bound)
    else:
        st.text_area(label, height="content", **look, **bound)
    return text


def notes(which: Text) -> None:
    """Show notes on a text: too long for a link; the effect of trailing spaces, to be removed."""
    text: str = address.get(which)
    whose = "" if which is parameters.TEXT else "Second sentence: "
    if len(text) > address.LONGEST_TEXT:
        prose.caption(whose + sentence("frame.too_long"))
    bare = text.rstrip(" ")
    if not bare or bare == text:
        return
    n = len(text) - len(bare)
    spaces = "a space" if n == 1 else f"{n} spaces"
    with st.container(horizontal=True, vertical_alignment="center"):
        prose.caption(whose + sentence("frame.ends_with", spaces=spaces), width="content")
        st.button(
            "Remove the space" if n == 1 else "Remove them",
            icon=":material/backspace:",
            key=f"bare_{which.name}",
            on_click=address.put,
            args=(which, bare),
            type="tertiary",
        )


def stop_too_long(
    model: Model, error: ContextError, which: Text = parameters.TEXT, whose: str = ""
) -> NoReturn:
    """Say that a text, ``which`` of the address, is too long, offer its start, and stop."""
    tokenizer = model.tokenizer
    added = *tokenizer.prefix_ids(address.get_chosen(parameters.BOS)), *tokenizer.last
    count = "counts as one" if len(added) == 1 else f"count as {len(added)}"
    too = f" {token_markdown(tokenizer, added)} {count}." if added else ""
    st.warning(f"{whose}{error}{too}", icon=":material/content_cut:")
    fits = error.n_positions - len(added)
    ids = tokenizer.encode_part(address.get(which))[:fits]
    start = tokenizer.text_of(ids).rstrip("\ufffd")  # half a character at the end
    st.button(
        f"Use the first {pluralize(fits, 'tokens')}",
        on_click=address.put,
        args=(which, start),
        type="primary",
    )
    end_page()


def end_page() -> NoReturn:
    """Stop the page, and drop the values of the fields below, as the browser does."""
    for key in map(str, [*st.session_state]):
        if key.startswith(("edit_", "answer_", "changes_")):
            del st.session_state[key]
    st.stop()


def encode(model: Model, text: str) -> tuple[int, ...]:
    """Return the tokens that the model reads for a text; the switch for the first token, which must
    have been drawn, decides whether it is added. Raises ``TextError``.
    """
    return tuple(model.tokenizer.encode(text, bos=address.get_chosen(parameters.BOS)))


def bos_switch(model: Model, offered: bool) -> None:
    """Draw the switch for the token that may begin a text; the tokenizer decides its default.

    It is drawn if it is ``offered`` or was moved, but never for a model without such a token.
    """
    tokenizer = model.tokenizer
    own, bos = bool(tokenizer.first), tokenizer.bos
    bound = address.switch(parameters.BOS, own, movable=bool(bos))
    if not bos or not (offered or address.get(parameters.BOS) != own):
        return
    name = shown = token_markdown(tokenizer, bos)
    why = "Models are trained with it between texts; the bundled one was not."
    if tokenizer.token_bytes(bos[0]) == END_OF_TEXT:
        name = END_OF_TEXT.decode()  # a screen reader announces a label as it is written here
    if own:
        why = "This model's own tokenizer does so for every text."
    st.toggle(
        f"{name} first",
        help=prose.tip(sentence("frame.bos", token=shown, why=why)),
        **bound,
    )


def describe_added_tokens(tokenizer: Tokenizer) -> Iterator[str]:
    """Yield a sentence of Markdown about the tokens that are added to the text, or left out."""
    before = tokenizer.prefix_ids(address.get_chosen(parameters.BOS))
    name = token_markdown(tokenizer, before or tokenizer.first)
    if tokenizer.first:
        yield sentence("frame.put_first" if before else "frame.left_out", name=name)
    elif before:
        yield sentence("frame.token_first", name=name)
    if tokenizer.last:
        yield sentence("frame.put_last", name=token_markdown(tokenizer, tokenizer.last))
    if tokenizer.prefix_space and not address.get(parameters.TEXT).startswith(" "):
        yield sentence("frame.put_first", name="A space")


def token_markdown(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return tokens as Markdown."""
    return literal(" ".join(label(tokenizer.token_bytes(i)) for i in ids))


#: The tip of the tokens' row.
A_CHIP = (
    "The model reads words, pieces of words and, of a character without a token, bytes: `\\xf0`. "
    "Hover over one for its position and id."
)
#: The effect of choosing a token on most pages.
LIGHT_UP = "Click one to see where it looks in every head."

#: Most chips at once: a browser takes a second to draw a thousand, at every click.
AT_ONCE = 128


def draw_tokens(trace: Trace, choosing: str | None, default: int | None) -> int | None:
    """Draw the tokens, or a part of a long text's; return the position of the chosen one.

    ``choosing`` says what choosing one does: "" if none can be chosen, None if they are drawn
    elsewhere. ``default`` is chosen until the user chooses another, or none.
    """
    bound = address.choice(parameters.QUERY, range(len(trace.labels)), default, optional=True)
    query: int | None = address.read(bound)
    if choosing is not None:
        _draw_chips(trace, choose_part(trace, query), query, choosing)
    return query


def choose_part(trace: Trace, query: int | None) -> range:
    """Return the tokens that are drawn: all of them, or the part that is picked of a long text."""
    T = len(trace.labels)
    if T <= AT_ONCE:
        return range(T)
    starts = range(0, T, AT_ONCE)

    def token_range(start: int) -> str:
        return f"Tokens {start:,} to {min(start + AT_ONCE, T) - 1:,}"

    with st.container(horizontal=True, vertical_alignment="center"):
        start = st.selectbox(
            "Part of the text",
            format_func=token_range,
            label_visibility="collapsed",
            width=220,
            **address.choice(parameters.FROM, starts, starts[(query or 0) // AT_ONCE]),
        )
        if query is not None and not start <= query < start + AT_ONCE:
            prose.caption(sentence("frame.other_part", query=query), width="content")
    return range(start, min(start + AT_ONCE, T))


def _draw_chips(trace: Trace, shown: range, query: int | None, choosing: str) -> None:
    data = chips(trace.labels, trace.token_ids, shown, query if choosing else None)
    data["disabled"] = not choosing
    with st.container(key="tokens", horizontal=True, vertical_alignment="center"):
        st.markdown(data["name"], help=prose.tip(f"{A_CHIP} {choosing}".strip()), width="content")
        mount(data, key="token_chips", on={"query": choose_token})


def chips(
    labels: Sequence[str], ids: Sequence[int], shown: range, query: int | None
) -> dict[str, Any]:
    """Return the data of the ``shown`` tokens for the browser; one of them may be ``query``.

    If the page's scripts can draw the result of a choice, the browser handles it, otherwise the
    server.
    """
    return {
        "script": "choices.tokens",
        "name": pluralize(len(labels), "tokens"),
        "first": shown.start,
        "labels": [bidi_isolate(labels[n]) for n in shown],
        "ids": [ids[n] for n in shown],
        "part": len(shown) < len(labels),
        "chosen": query,
        "disabled": False,
    }


def choose_token(position: int) -> None:
    """Choose the clicked token, or none for a negative position. For callbacks."""
    address.put(parameters.QUERY, int(position) if int(position) >= 0 else None)


#: Pages that draw a head large even if none is chosen. Find doesn't.
OF_A_HEAD = {*parameters.HEAD.on} - {pages.FIND, pages.TEXTBOOK}


def keep_choices() -> None:
    """Register callbacks that keep the chosen head and tokens when the sentence changes."""
    address.on_change(parameters.TEXT, _on_text_change)
    address.on_change(parameters.BOS, _on_bos_change)


def _on_text_change(before: str, after: str) -> None:
    n_common = common_prefix_length(_ids(before), _ids(after))
    _carry(lambda position: position if position < n_common else None, parameters.TEXT)


def _on_bos_change(_before: bool, on: bool) -> None:
    n = len(run_cache.load(address.get(parameters.MODEL)).tokenizer.bos)
    by = n if on else -n
    _carry(lambda position: position + by if position + by >= 0 else None, parameters.BOS)


def _ids(text: str) -> tuple[int, ...]:
    """Return the tokens of a text; () if it has none or its model can't be loaded."""
    with suppress(GPT2VizError, KeyError):
        return encode(run_cache.load(address.get(parameters.MODEL)), text)
    return ()


def _carry(to: To, changed: Parameter) -> None:
    """Keep the head on screen, and move token positions in the address along with the tokens.

    The head may be a default: the best for the old sentence. Choices that belong to one text are
    dropped with it.
    """
    on_screen = pages.find_page(output.page_outputs().page) in OF_A_HEAD
    for number in (parameters.LAYER, parameters.HEAD):
        if on_screen and address.raw(number) is None and address.peek(number) is not None:
            address.put(number, address.peek(number))
    everything = address.parameters()
    for parameter in parameters.PARAMETERS:
        raw = address.raw(parameter)
        of_text = changed is parameters.TEXT and changed in parameter.of
        if raw and parameter.moves and not of_text:
            with suppress(ValueError, EditError):  # the page that reads it says so
                address.set_raw(parameter, parameter.moves(raw, to, everything))

"""Two sentences to patch between, token for token, and what differs between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import PatchError
from gpt2viz.analysis.paired_runs import check_pair
from gpt2viz.analysis.text_pairs import one_token_changed
from gpt2viz.app import address, parameters, popover, prose, run_cache
from gpt2viz.app.frame import end_of_text, sentence
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.app.views import two_texts
from gpt2viz.labels import shorten
from gpt2viz.model.hub import RELEASED
from gpt2viz.run.key import RunKey


class Pair(NamedTuple):
    """Two texts that differ in a token or more, each after its name."""

    name: str
    clean: str
    corrupted: str


#: The same is said twice, with another word in one of them: the word must be copied.
PAIRS = (
    Pair("Fish", "A crane ate fish. A crane ate", "A crane ate corn. A crane ate"),
    Pair(
        "Red ball",
        "Tom has a red ball. Anna has a blue cup. Tom has a red",
        "Tom has a red hat. Anna has a blue cup. Tom has a red",
    ),
    Pair(
        "Box",
        "She put the apple in the box. She put the",
        "She put the cake in the box. She put the",
    ),
)
#: Prompts of published work on GPT-2 small: Wang et al. 2022, Hanna et al. 2023.
PUBLISHED = (
    Pair(
        "Indirect object",
        "When Mary and John went to the store, John gave a drink to",
        "When Mary and John went to the store, Mary gave a drink to",
    ),
    Pair(
        "Greater than",
        "The war lasted from the year 1732 to the year 17",
        "The war lasted from the year 1701 to the year 17",
    ),
)

#: Tokens that are shown on both sides of one that differs.
_AROUND = 8


def ask(view: View, choices: DeltaGenerator) -> View:
    """Ask for the second sentence among the ``choices`` and run it: as many tokens, not the same.

    Or one message, with a second sentence that would do, and the end of the page.
    """
    with choices:
        current = sentence.box(
            parameters.TEXT2,
            _proposed(view.trace.key) or "",
            "Second sentence",
            help=prose.tip(
                "The first sentence with something changed, token for token. What differs between "
                "their predictions is what is followed through the model."
            ),
            placeholder="The sentence above, with one word changed",
        )
        _examples(view)
    other = two_texts.read(view, current)
    try:
        check_pair(view.model, list(view.trace.token_ids), list(other.trace.token_ids))
    except PatchError as error:
        _refuse(view, error)
    _tokens(view, other)
    return other


def _examples(view: View) -> None:
    """A button that opens into pairs that show something."""
    pairs = (*PUBLISHED, *PAIRS) if view.model.name in RELEASED else PAIRS

    def body() -> None:
        for pair in pairs:
            st.button(
                f"**{pair.name}** :gray[{literal(shorten(pair.clean, 60))}]",
                key=f"pair_{pair.name}",
                type="tertiary",
                on_click=_open,
                args=(pair,),
            )

    popover.button("Pairs", body, key="pairs")


def _open(pair: Pair) -> None:
    address.put(parameters.TEXT, pair.clean)
    address.put(parameters.TEXT2, pair.corrupted)
    for chosen in (parameters.PATCH, parameters.RIGHT, parameters.WRONG):
        address.respell(chosen, "")
    popover.close("pairs")


@st.cache_data(
    max_entries=64, hash_funcs=run_cache.BY_KEY, show_spinner="Looking for a word to change …"
)
def _proposed(key: RunKey) -> str | None:
    """The text of a run with a word changed, as everywhere; with any token where it has none."""
    if found := two_texts.proposed(key):
        return found
    model = run_cache.load(key.model)
    ids = one_token_changed(model, run_cache.run(key))
    return None if ids is None else _text(key.model, ids)


def _text(model_name: str, ids: Sequence[int]) -> str:
    """What a person would type for token ids: the end-of-text token has a switch of its own."""
    tokenizer = run_cache.load(model_name).tokenizer
    return tokenizer.decode(ids[tokenizer.own(ids)])


def _refuse(view: View, error: PatchError) -> None:
    """Say what doesn't line up, offer a second sentence that would do, and stop."""
    said = str(error).partition(" This would do:")[0]
    st.warning(literal(said), icon=":material/compare_arrows:")
    text = None if error.nearest is None else _text(view.model.name, error.nearest)
    ids = view.trace.token_ids
    if text is not None:
        read = view.model.tokenizer.encode(text, end_of_text_first=end_of_text.is_on())
        text = text if len(read) == len(ids) and tuple(read) != ids else None
    if text := text or _proposed(view.trace.key):
        st.button(
            f"Use “{literal(shorten(text, 80))}”",
            on_click=address.put,
            args=(parameters.TEXT2, text),
            type="primary",
            key="nearest_pair",
        )
    st.stop()


def differing(view: View, other: View) -> list[int]:
    """The places of the tokens that differ."""
    pairs = zip(view.trace.token_ids, other.trace.token_ids, strict=True)
    return [n for n, (one, another) in enumerate(pairs) if one != another]


def _tokens(view: View, other: View) -> None:
    """The second sentence around what differs, below the tokens of the first; both are marked."""
    differ = differing(view, other)
    said: list[str] = []
    for n, label in enumerate(other.labels):
        if n in differ:
            own = literal(view.labels[n])
            said.append(f":orange-background[{own}] → :blue-background[{literal(label)}]")
        elif any(abs(n - place) <= _AROUND for place in differ):
            said.append(literal(label))
        elif said[-1:] != ["…"]:
            said.append("…")
    with st.container(key="second_tokens"):
        st.markdown(f":small[{' '.join(said)}]")

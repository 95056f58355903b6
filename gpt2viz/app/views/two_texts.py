"""Two sentences: the second text, which words belong together, what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import ContextError, GPT2VizError
from gpt2viz.analysis.comparison import Path, addition_places, align, path, shared, stream_places
from gpt2viz.analysis.one_word import LIKELIEST, Change, one_word_changes
from gpt2viz.analysis.patterns import Cell, parse_cells
from gpt2viz.app import address, limits, parameters, prose, run_cache
from gpt2viz.app.frame import end_of_text, sentence
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.run.key import RunKey

_CHOSEN, _CHANGE = "_match_chosen", "_changed_word"


def second(view: View, choices: DeltaGenerator) -> View:
    """Ask for the second text among the ``choices``, and ``read`` it."""
    changes = _changes(replace(view.trace.key, causal=True))
    with choices:
        current = sentence.box(
            parameters.TEXT2,
            proposed(view.trace.key) or address.chosen(parameters.TEXT),
            "Second sentence",
            help="The same model reads both, each on its own.",
            placeholder="Type another sentence and press Enter",
        )
        _change_a_word(view, changes, current)
    return read(view, current)


def proposed(key: RunKey) -> str | None:
    """The second text where nobody chose one: the first with a word changed, None for none."""
    changes = _changes(replace(key, causal=True))
    return changes[len(changes) // 2].text if changes else None


def read(view: View, text: str) -> View:
    """Run the second ``text`` like the first; or one message and the end of the page."""
    sentence.notes(parameters.TEXT2)
    try:
        ids = view.model.tokenizer.encode(text, end_of_text_first=end_of_text.is_on())
        trace = run_cache.run(replace(view.trace.key, token_ids=tuple(ids)))
    except ContextError as error:
        limits.too_long(view.model, error, parameters.TEXT2, "Second sentence: ")
    except GPT2VizError as error:
        st.info(f"Second sentence: {literal(str(error))}", icon=":material/edit:")
        st.stop()
    return View(view.model, trace, None, view.colors)


@st.cache_data(max_entries=64, hash_funcs=run_cache.BY_KEY, show_spinner="Changing a word …")
def _changes(key: RunKey) -> tuple[Change, ...]:
    """What the second sentence can be: the first with one word changed, by a run of it."""
    return one_word_changes(run_cache.run(key), run_cache.load(key.model).tokenizer)


def _change_a_word(view: View, changes: Sequence[Change], current: str) -> None:
    """Pick the word that is changed in the second sentence, or say that none can be."""
    if not changes:
        prose.caption("No word here can become another of one token.", width="content")
        return
    names, labels = run_cache.vocabulary(view.model.name), view.labels
    texts = [change.text for change in changes]

    def name(n: int) -> str:
        place, token, _text = changes[n]
        return f"{place} {labels[place]} → {names[token]}"

    def pick() -> None:
        if (n := st.session_state[_CHANGE]) is not None:
            address.put(parameters.TEXT2, texts[n])
            address.put(parameters.MATCH, ())

    st.session_state[_CHANGE] = texts.index(current) if current in texts else None
    st.selectbox(
        "Change a word",
        range(len(changes)),
        format_func=name,
        key=_CHANGE,
        on_change=pick,
        placeholder="your own text",
        width=225,
        help=prose.tip(
            "Made from the first sentence by rule. Of its words that are one token these surprised "
            f"the model most. Each becomes, of the {LIKELIEST} tokens that the model finds "
            "likeliest there, the one whose embedding is nearest; the very first, of all tokens. "
            "So both sentences have as many tokens, and what differs comes of that one."
        ),
    )


def matches(view: View, other: View) -> dict[int, int]:
    """Which token of the second text belongs to each of the first, by position.

    The same tokens, then those that stand in each other's place; the reader's own choice first.
    """
    a, b = view.trace.token_ids, other.trace.token_ids
    own = address.several_values(
        parameters.MATCH, parse_cells, "places in both texts such as 1:6,3:2"
    )
    found = {cell.query: cell.key for cell in own if cell.query < len(a) and cell.key < len(b)}
    beside = [(p.a, p.b) for p in align(a, b) if p.a is not None and p.b is not None]
    for one, partner in (*shared(a, b), *beside):
        if one not in found and partner not in found.values():
            found[one] = partner
    return dict(sorted(found.items()))


def choose(view: View, other: View, found: dict[int, int]) -> tuple[int, int]:
    """The chosen token of the first text and its partner in the second, which can be changed."""
    same = [n for n, m in found.items() if view.trace.token_ids[n] == other.trace.token_ids[m]]
    a = view.query if view.query is not None else (same or [0])[-1]
    partners = {m: n for n, m in found.items()}
    small, labels = ":small[:gray[{}]]".format, other.labels

    def chip(n: int) -> str:
        partner = small(f"↔ {partners[n]}") if n in partners else ""
        return f"{small(n)} {literal(labels[n])} {partner}"

    def rematch() -> None:
        put_match(a, st.session_state[_CHOSEN])

    st.session_state[_CHOSEN] = found.get(a)
    with st.container(key="partner", horizontal=True, vertical_alignment="center", gap="small"):
        prose.markdown(
            f"“{literal(view.labels[a])}” ({a}) of the first sentence is compared with",
            width="content",
            help="Choose another of the second sentence here. The number after ↔ is the place of "
            "its partner in the first.",
        )
        st.pills(
            "Its partner in the second sentence",  # plain: it is read aloud with every sign in it
            range(other.n_tokens),
            label_visibility="collapsed",
            format_func=chip,
            key=_CHOSEN,
            on_change=rematch,
        )
    if a not in found:
        st.info("This token has no partner in the second sentence: choose one above.")
        st.stop()
    return a, found[a]


def put_match(a: int, b: int | None) -> None:
    """Let token ``a`` of the first text belong to ``b`` of the second. For callbacks."""
    others = tuple(cell for cell in address.chosen(parameters.MATCH) if cell.query != a)
    address.put(parameters.MATCH, others if b is None else (*others, Cell(a, b)))


def choose_from_second(found: Mapping[int, int], a: int, position: int) -> None:
    """A token of the second text chooses its partner; without one it becomes ``a``'s."""
    partner = next((n for n, m in found.items() if m == position), None)
    if partner is None:
        put_match(a, position)
    else:
        address.put(parameters.QUERY, partner)


def paths(view: View, other: View, at: tuple[int, int]) -> dict[str, tuple[Path, Path]]:
    """With the mask on and off: the path of the stream, and that of what the parts add."""
    layers, found = view.model.config.n_layer, {}
    for name, causal in (("mask on", True), ("mask off", False)):
        runs = [run_cache.run(replace(v.trace.key, causal=causal)) for v in (view, other)]
        found[name] = (
            path(runs[0], runs[1], at, stream_places(layers)),
            path(runs[0], runs[1], at, addition_places(layers)),
        )
    return found


def verdict(
    view: View, other: View, at: tuple[int, int], found: dict[str, tuple[Path, Path]]
) -> None:
    """How far apart both are, as one number for each mask, and why."""
    a, b = at
    largest = {
        name: max(float(path.difference.max()) for path in both) for name, both in found.items()
    }
    words, *numbers = st.columns([6, 2, 2], vertical_alignment="center")
    for place, (name, value) in zip(numbers, largest.items(), strict=True):
        place.metric(
            f"Difference, {name}",
            "exactly 0" if value == 0 else f"{value:.3g}",
            help=prose.tip(
                "The largest difference between its two vectors in any one number, in any layer: "
                "in the stream, and in what attention and MLP add to it."
            ),
        )
    one = f"“{literal(view.labels[a])}” ({a})"
    with words:
        if view.trace.token_ids[: a + 1] == other.trace.token_ids[: b + 1]:
            exact = largest["mask on"] == 0
            prose.markdown(
                f"Up to {one} both sentences are the same, and **with the mask on a token reads "
                "only itself and those before it**. So what comes later can't change it: "
                + (
                    "its vectors are the same to the last digit, in every layer. "
                    if exact
                    else "the little that differs is rounding: float32 holds some 7 digits, and "
                    "texts of different lengths are summed in a different order. "
                )
                + "With the mask off it sees the later words too, and they differ."
            )
        elif view.trace.token_ids[a] == other.trace.token_ids[b]:
            prose.markdown(
                f"{one} is the same token in both, so it **begins** as the same vector. Then its "
                "place is added, and attention brings in what it can see, layer by layer. Here "
                "one of the two differs, or both, so the vectors part."
            )
        else:
            prose.markdown(
                f"{one} and “{literal(other.labels[b])}” ({b}) are different tokens, so they "
                "differ from the start. A similarity above 0 means that their vectors are less "
                "than 90° apart."
            )

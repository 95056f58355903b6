"""Two sentences: the box of the second, how their tokens match, and what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import ContextError, GPT2VizError, PatchError, labels
from gpt2viz.analysis.comparison import Path, align, match_tokens
from gpt2viz.analysis.patching import check_pair
from gpt2viz.analysis.patterns import Cell, parse_cells
from gpt2viz.analysis.text_pairs import LIKELIEST, Change, change_one_token, one_word_changes
from gpt2viz.app import address, parameters, popover, prose, run_cache
from gpt2viz.app.frame import page, sentence
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.model.config import sharing
from gpt2viz.model.hub import RELEASED
from gpt2viz.pictures.patching import READS
from gpt2viz.run.key import RunKey

_CHOSEN, _CHANGE = "_match_chosen", "_changed_word"
#: Tokens shown on either side of a differing one.
_AROUND = 8


class Pair(NamedTuple):
    """A named pair of texts that differ in at least one token."""

    name: str
    clean: str
    corrupted: str


#: A sentence and its repetition; in the second text one word differs, so it must be copied.
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


def ask(view: View, choices: DeltaGenerator) -> View:
    """Draw the box of the second text in ``choices``, and ``run_second`` it."""
    changes = _changes(replace(view.trace.key, causal=True))
    with choices:
        current = sentence.box(
            parameters.TEXT2,
            propose(view.trace.key) or address.get(parameters.TEXT),
            "Second sentence",
            help="The same model reads both, each on its own.",
            placeholder="Type another sentence and press Enter",
        )
        _change_a_word(view, changes, current)
    return run_second(view, current)


def propose(key: RunKey) -> str | None:
    """Return the default second text: the first with a word changed, or None if none can be."""
    changes = _changes(replace(key, causal=True))
    return changes[len(changes) // 2].text if changes else None


def run_second(view: View, text: str) -> View:
    """Run the second ``text`` like the first; if that fails, show a message and stop the page."""
    sentence.notes(parameters.TEXT2)
    try:
        trace = run_cache.run(replace(view.trace.key, token_ids=sentence.encode(view.model, text)))
    except ContextError as error:
        sentence.stop_too_long(view.model, error, parameters.TEXT2, "Second sentence: ")
    except GPT2VizError as error:
        page.stop(f"Second sentence: {literal(str(error))}")
    return View(view.model, trace, None)


@st.cache_data(max_entries=64, hash_funcs=run_cache.BY_KEY, show_spinner="Changing a word …")
def _changes(key: RunKey) -> tuple[Change, ...]:
    """Return proposals for the second sentence: the first with one word changed, by its run."""
    return one_word_changes(run_cache.run(key), run_cache.load(key.model).tokenizer)


def _change_a_word(view: View, changes: Sequence[Change], current: str) -> None:
    """Pick the changed word of the second sentence, or say that none can be changed."""
    if not changes:
        prose.caption("No word here can be swapped for another of one token.", width="content")
        return
    names, shown = run_cache.vocabulary(view.model.name), view.labels
    texts = [change.text for change in changes]

    def name(n: int) -> str:
        position, token, _text = changes[n]
        return f"{position} {shown[position]} → {names[token]}"

    def pick() -> None:
        if (n := st.session_state[_CHANGE]) is not None:
            address.put_all({parameters.TEXT2: texts[n], parameters.MATCH: ()})

    st.session_state[_CHANGE] = texts.index(current) if current in texts else None
    st.selectbox(
        "Change a word",
        range(len(changes)),
        format_func=name,
        key=_CHANGE,
        on_change=pick,
        placeholder="your own text",
        width=225,
        help=prose.tip(labels.sentence("two_texts.changes", most=LIKELIEST)),
    )


def matches(view: View, other: View) -> dict[int, int]:
    """Match tokens of the first text to tokens of the second, by position.

    The user's own matches come first, then equal tokens, then those that replace each other.
    """
    a, b = view.trace.token_ids, other.trace.token_ids
    own = address.values(parameters.MATCH, parse_cells, "positions in both texts such as 1:6,3:2")
    matched = {cell.query: cell.key for cell in own if cell.query < len(a) and cell.key < len(b)}
    beside = [(p.a, p.b) for p in align(a, b) if p.a is not None and p.b is not None]
    for token, partner in (*match_tokens(a, b), *beside):
        if token not in matched and partner not in matched.values():
            matched[token] = partner
    return dict(sorted(matched.items()))


def choose(view: View, other: View, matched: dict[int, int]) -> tuple[int, int]:
    """Pick the partner of the chosen token in the second text; return both positions."""
    same = [n for n, m in matched.items() if view.trace.token_ids[n] == other.trace.token_ids[m]]
    a = view.query if view.query is not None else (same or [0])[-1]
    partners = {m: n for n, m in matched.items()}
    small, names = ":small[:gray[{}]]".format, other.labels  # kept for the session: no view

    def chip(n: int) -> str:
        partner = small(f"↔ {partners[n]}") if n in partners else ""
        return f"{small(n)} {literal(names[n])} {partner}"

    def rematch() -> None:
        put_match(a, st.session_state[_CHOSEN])

    st.session_state[_CHOSEN] = matched.get(a)
    with st.container(key="partner", horizontal=True, vertical_alignment="center"):
        prose.markdown(
            labels.sentence("two_texts.compared", token=view.token_name(a)),
            width="content",
            help=prose.tip(
                "Choose another token of the second sentence. The number after ↔ is the position "
                "of its partner in the first."
            ),
        )
        st.pills(
            "Its partner in the second sentence",  # plain: screen readers announce every sign in it
            range(other.n_tokens),
            label_visibility="collapsed",
            format_func=chip,
            key=_CHOSEN,
            on_change=rematch,
        )
    if a not in matched:
        st.info("This token has no partner in the second sentence: choose one above.")
        st.stop()
    return a, matched[a]


def put_match(a: int, b: int | None) -> None:
    """Match token ``a`` of the first text with ``b`` of the second. For callbacks."""
    others = tuple(cell for cell in address.get(parameters.MATCH) if cell.query != a)
    address.put(parameters.MATCH, others if b is None else (*others, Cell(a, b)))


def choose_from_second(matched: Mapping[int, int], a: int, position: int) -> None:
    """Choose the partner of a clicked token of the second text, or match it with ``a``."""
    partner = next((n for n, m in matched.items() if m == position), None)
    if partner is None:
        put_match(a, position)
    else:
        address.put(parameters.QUERY, partner)


def verdict(
    view: View, other: View, at: tuple[int, int], paths: dict[str, tuple[Path, Path]]
) -> None:
    """Show the largest difference between both tokens' vectors for each mask, and explain it."""
    a, b = at
    largest = {
        name: max(float(path.difference.max()) for path in both) for name, both in paths.items()
    }
    words, *numbers = st.columns([6, 2, 2], vertical_alignment="center")
    for column, (name, value) in zip(numbers, largest.items(), strict=True):
        column.metric(
            f"Difference, {name}",
            "exactly 0" if value == 0 else f"{float(f'{value:.3g}'):,g}",
            help=prose.tip(
                "The largest difference between the token's two vectors in any number of any "
                "layer: in the stream, and in what attention and MLP add to it."
            ),
        )
    if view.trace.token_ids == other.trace.token_ids and a == b:
        which = "two_texts.same"
    elif view.trace.token_ids[: a + 1] == other.trace.token_ids[: b + 1]:
        which = "two_texts.untouched" if largest["mask on"] == 0 else "two_texts.rounded"
    elif view.trace.token_ids[a] == other.trace.token_ids[b]:
        which = "two_texts.drifts"
    else:
        which = "two_texts.differs"
    named = {"token": view.token_name(a), "partner": other.token_name(b)}
    prose.markdown(labels.sentence(which, **named), slot=words)


def ask_pair(view: View, choices: DeltaGenerator) -> View:
    """Draw the box of a second sentence, and run it: it needs as many tokens, not the same ones.

    If it doesn't fit, show a message, offer a sentence that does, and stop the page.
    """
    with choices:
        current = sentence.box(
            parameters.TEXT2,
            _propose_pair(view.trace.key) or "",
            "Second sentence",
            help=prose.tip(
                "The first sentence with a change, as many tokens long. Patching shows "
                "where in the model the difference between their predictions comes from."
            ),
            placeholder="The sentence above, with one word changed",
        )
        _offer_pairs(view)
    other = run_second(view, current)
    try:
        check_pair(view.model, list(view.trace.token_ids), list(other.trace.token_ids))
    except PatchError as error:
        _refuse(view, error)
    return other


def _offer_pairs(view: View) -> None:
    """Draw a button that opens a list of example pairs."""
    pairs = (*PUBLISHED, *PAIRS) if view.model.name in RELEASED else PAIRS

    def body() -> None:
        for pair in pairs:
            st.button(
                f"**{pair.name}** :gray[{literal(labels.shorten(pair.clean, 60))}]",
                key=f"pair_{pair.name}",
                type="tertiary",
                on_click=_open_pair,
                args=(pair,),
            )

    popover.button("Pairs", body, key="pairs")


def _open_pair(pair: Pair) -> None:
    with address.one_step():
        address.put_all({parameters.TEXT: pair.clean, parameters.TEXT2: pair.corrupted})
        for chosen in (parameters.PATCH, parameters.RIGHT, parameters.WRONG):
            address.set_raw(chosen, "")
    popover.close("pairs")


@st.cache_data(
    max_entries=64, hash_funcs=run_cache.BY_KEY, show_spinner="Looking for a word to change …"
)
def _propose_pair(key: RunKey) -> str | None:
    """Return the text of a run with a word changed, as ``propose`` does, or else any token."""
    if text := propose(key):
        return text
    model = run_cache.load(key.model)
    ids = change_one_token(model, run_cache.run(key))
    return None if ids is None else model.tokenizer.text_of(ids)


def _refuse(view: View, error: PatchError) -> None:
    """Say why the sentences don't match, offer a second sentence that does, and stop the page."""
    why = str(error).partition(" This would do:")[0]
    st.warning(literal(why), icon=":material/compare_arrows:")
    text = None if error.nearest is None else view.model.tokenizer.text_of(error.nearest)
    ids = view.trace.token_ids
    if text is not None:
        read = sentence.encode(view.model, text)
        text = text if len(read) == len(ids) and read != ids else None
    if text := text or _propose_pair(view.trace.key):
        st.button(
            f"Use “{literal(labels.shorten(text, 80))}”",
            on_click=address.put,
            args=(parameters.TEXT2, text),
            type="primary",
            key="nearest_pair",
        )
    st.stop()


def group_note(view: View, head: tuple[int, int], piece: str) -> str:
    """Return a sentence on heads whose keys or values change with those of a patched ``head``."""
    others = sharing(view.model.config, head[1]) if piece in ("k", "v") else []
    same = {"reads": READS.get(piece), "heads": ", ".join(f"{head[0]}.{n}" for n in others)}
    return " " + labels.sentence("patching.shared", **same) if others else ""


def differing_positions(view: View, other: View) -> list[int]:
    """Return the positions of the tokens that differ."""
    pairs = zip(view.trace.token_ids, other.trace.token_ids, strict=True)
    return [n for n, (a, b) in enumerate(pairs) if a != b]


def show_changed_tokens(view: View, other: View) -> None:
    """Draw the second sentence near its differing tokens, which are marked."""
    differ = differing_positions(view, other)
    parts: list[str] = []
    for n, label in enumerate(other.labels):
        if n in differ:
            own = literal(view.labels[n])
            parts.append(f":orange-background[{own}] → :blue-background[{literal(label)}]")
        elif any(abs(n - at) <= _AROUND for at in differ):
            parts.append(literal(label))
        elif parts[-1:] != ["…"]:
            parts.append("…")
    with st.container(key="second_tokens", width="content"):
        st.markdown(f":small[{' '.join(parts)}]")

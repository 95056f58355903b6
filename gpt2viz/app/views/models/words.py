"""How a word becomes tokens: every merge of its bytes, in order."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from gpt2viz import GPT2VizError
from gpt2viz.anatomy.merges import Pair, Word, follow
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.frame import sentence
from gpt2viz.app.literal import literal
from gpt2viz.labels import counted, label
from gpt2viz.model.tokenizer import Tokenizer, TokenList
from gpt2viz.pictures.palette import Palette

#: Characters that are followed; more would fill many screens.
LONGEST = 60
_EXAMPLE = " unbelievable"
#: Pairs that are named of those that had to wait.
_WAITING = 3


def draw(name: str, _colors: Palette) -> None:
    """Ask for a word and show its way to tokens."""
    tokenizer = run_cache.tokenizer(name)
    typed = st.text_input(
        "A word, or a few",
        help=prose.tip(
            "A space before a word belongs to it: with the space and without it, the tokens differ."
        ),
        width=420,
        **address.text(parameters.WORD),
    )
    if len(typed) > LONGEST:
        st.warning(
            f"That is {len(typed):,} characters; the first {LONGEST} are used here.",
            icon=":material/content_cut:",
        )
    try:
        words = follow(tokenizer, typed[:LONGEST])
    except GPT2VizError as error:
        st.error(literal(str(error)), icon=":material/error:")
        return
    if not words:
        st.info("Type a word to see how it is put together.", icon=":material/edit:")
        return
    if isinstance(tokenizer, TokenList):
        _listed(tokenizer, words)
        return
    _ids(words)
    _around(tokenizer)
    prose.markdown(
        "It begins with single bytes. In each step, of all neighbouring pairs, the one that was "
        "learned **first**, with the lowest rank, becomes one piece. It ends when no pair is in "
        "the list of merges. `·` is a space; `\\xe2` is a byte that isn't a character by itself."
    )
    for n, word in enumerate(words):
        _steps(n, word)


def _around(tokenizer: Tokenizer) -> None:
    """What this tokenizer puts around every text, if anything."""
    parts = [
        f"{sentence.token_markdown(tokenizer, ids)} {where} it"
        for ids, where in ((tokenizer.first, "before"), (tokenizer.last, "after"))
        if ids
    ]
    parts += ["a space before one that has none"] if tokenizer.prefix_space else []
    if parts:
        prose.caption(f"Around every text this tokenizer puts {' and '.join(parts)}.")


def _ids(words: Sequence[Word]) -> None:
    ids = [i for word in words for i in word.ids]
    pieces = [piece for word in words for piece in word.pieces]
    shown = " &ensp; ".join(
        f"**{literal(label(p))}** :small[:gray[{i}]]" for p, i in zip(pieces, ids, strict=True)
    )
    theirs = "its id" if len(ids) == 1 else "their ids"
    prose.markdown(f"{counted(len(ids), 'tokens')}, with {theirs}: &ensp; {shown}")


def _listed(tokenizer: TokenList, words: Sequence[Word]) -> None:
    """The tokens of a text that is cut by a plain list, and the list's length."""
    _ids(words)
    prose.markdown(
        f"This model's vocabulary is a plain list of {tokenizer.n_vocab:,} tokens: at each place "
        "the longest that stands there is taken, and nothing is merged."
    )


def _steps(n: int, word: Word) -> None:
    written = label(b"".join(word.start))
    prose.markdown(f"**{literal(written)}**")
    if word.added:
        prose.caption("This word was added to the vocabulary later and is taken as it stands.")
        return
    if not word.merges:
        pieces = "  |  ".join(map(label, word.start))
        prose.caption(f"{literal(pieces)}: no pair of these bytes is in the list; nothing to do.")
        return
    steps = [("", None, "", word.start)] + [
        (_pair(merge.pair), merge.rank, _waiting(merge.others), merge.pieces)
        for merge in word.merges
    ]
    output.table(
        pd.DataFrame(
            {
                "step": range(len(steps)),
                "this pair is merged": [pair for pair, _, _, _ in steps],
                "rank": [rank for _, rank, _, _ in steps],
                "the pieces then": ["  |  ".join(map(label, left)) for _, _, _, left in steps],
                "pairs still waiting (rank)": [waiting for _, _, waiting, _ in steps],
            }
        ).astype({"rank": "Int64"}),
        f"Merges of {written}",
        hide_index=True,
        key=f"merges_{n}",
        placeholder="",
        height="content",
        column_config={
            "step": st.column_config.NumberColumn(width="small"),
            "rank": st.column_config.NumberColumn(
                format="localized", help="Its place in the list of merges; 0 was learned first"
            ),
            "the pieces then": st.column_config.TextColumn(width="large"),
        },
    )


def _pair(pair: Pair) -> str:
    return " + ".join(map(label, pair))


def _waiting(others: Sequence[tuple[Pair, int]]) -> str:
    named = [f"{_pair(pair)} ({rank:,})" for pair, rank in others[:_WAITING]]
    more = len(others) - _WAITING
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")

"""Flash attention: the same numbers without a whole table of scores."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.course.checks import Question
from gpt2viz.app.course.parts import Book, code
from gpt2viz.labels import difference
from gpt2viz.textbook import after_gpt2

_LENGTHS, _SIZES = [64, 256, 1024], [16, 64, 256]


def draw(book: Book) -> list[Question]:
    """Three ways to the same outputs, with the time and the bytes of each."""
    prose.markdown(
        "A head's scores are a table of T · T numbers. For a long text that is the largest table "
        "of all, and moving it in and out of a GPU's memory takes longer than the arithmetic. Yet "
        "nobody needs the table, only the outputs. **Flash attention** never makes it whole (Dao "
        "et al. 2022, *FlashAttention: Fast and Memory-Efficient Exact Attention with "
        "IO-Awareness*).\n\n"
        "It reads a few keys at a time, a tile. Softmax needs the sum over **all** keys, though. "
        "So the sum is kept as it is so far, with the largest score m. Where a tile brings a "
        "larger one, all that was summed up is scaled down to it:"
    )
    st.latex(
        r"m' = \max(m, s_j) \qquad \ell' = \ell\, e^{m - m'} + \sum_j e^{s_j - m'} \qquad "
        r"o' = o\, e^{m - m'} + \sum_j e^{s_j - m'}\, v_j"
    )
    prose.caption(
        "$s_j$ are a tile's scores and $v_j$ its values, ℓ is the sum so far, o the mixture so "
        "far. A dash marks what it is after the tile. At the end the output is o / ℓ."
    )
    _beside()
    return [
        Question(
            "flash_bytes",
            "How many times smaller is the largest table with tiles of 64 keys, for 1024 tokens?",
            "T · T numbers a head against T · 64.",
            "1024 / 64. With tiles the room grows with T, and no longer with T².",
            answer="16",
            also=("sixteen", "16 times", "sixteen times"),
        ),
    ]


def _beside() -> None:
    """The three ways on random numbers, and what each took just now."""
    columns = st.columns(2)
    T: int = columns[0].segmented_control(
        "Tokens T", _LENGTHS, required=True, **address.choice(parameters.FLASH_T, _LENGTHS)
    )
    size: int = columns[1].segmented_control(
        "Keys of a tile", _SIZES, required=True, **address.choice(parameters.FLASH_SIZE, _SIZES)
    )
    found = after_gpt2.run_three(T, size)
    gap = max(float((one.output - found["explicit"].output).abs().max()) for one in found.values())
    output.table(
        {
            "way": list(found),
            "largest table of scores, in bytes": [one.largest for one in found.values()],
            "milliseconds, just now": [1000 * one.seconds for one in found.values()],
        },
        "Three ways to the same outputs",
        hide_index=True,
        placeholder="–",
        column_config={
            "largest table of scores, in bytes": st.column_config.NumberColumn(format="localized"),
            "milliseconds, just now": st.column_config.NumberColumn(format="%.1f"),
        },
    )
    prose.markdown(
        f"Largest difference of the outputs: **{difference(gap)}**, which is rounding. The times "
        "were taken once each, where this app runs, and change from one look to the next."
        "\n\nIn plain PyTorch tiles may even be slower: each one is a call of its own. The last "
        "row is PyTorch's own function, which does all of it in one call; what it keeps inside "
        "can't be seen here."
    )
    prose.caption("Random queries, keys and values; 12 heads of 64 channels, causal.")
    code(after_gpt2.explicit, after_gpt2.tiled, after_gpt2.fused, after_gpt2.run_three)

"""RoPE: queries and keys turned by where they stand."""

from __future__ import annotations

import numpy as np
import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.course.checks import Question
from gpt2viz.app.course.parts import Book, code, picture, vectors
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import equals
from gpt2viz.arrays import Array
from gpt2viz.labels import difference
from gpt2viz.pictures.curves import curves_at
from gpt2viz.textbook import after_gpt2

_AT = range(33)
_MOVES = [0, 1, 2, 5, 10, 100, 1000]
_FURTHEST = 64


def draw(book: Book) -> list[Question]:
    """Rotary positions: only the distance counts."""
    prose.markdown(
        "GPT-2 adds a learned vector to each token to say where it stands. It has 1,024 of them, "
        "and can't read further. **RoPE** adds nothing. It *turns* queries and keys: two "
        "neighbouring numbers are a point in a plane, and each pair is turned by an angle that "
        "grows with the position. Pair 0 turns fast, later ones slowly (Su et al. 2021, "
        "*RoFormer: Enhanced Transformer with Rotary Position Embedding*).\n\n"
        "Turn two arrows by the same angle: the angle between them stays, and so does their dot "
        "product. So a score tells **how far apart** query and key are, not where they stand. Move "
        "both on, and look at the score."
    )
    left, right = st.columns([2, 3], gap="large")
    columns = ("x₀", "y₀", "x₁", "y₁")
    with left:
        both = table(
            parameters.ROPE_QK,
            "Query and key",
            (after_gpt2.ROPE_QUERY, after_gpt2.ROPE_KEY),
            "qk",
            columns,
        )
        at, key_at, move = _places()
    turned = after_gpt2.rotate(both, [at + move, key_at + move])
    q, k = both
    before, after = (after_gpt2.rotary_score(q, k, at + by, key_at + by) for by in (0, move))
    with right:
        rows = ("q", "k", f"q at {at + move}", f"k at {key_at + move}")
        panel = vectors("before and after turning", [*both, *turned], rows, columns, ("", ""))
        picture(book, "rope_turned", [panel], height=250)
    first, second = np.asarray(after_gpt2.rotary_angles([1], 4))[0]
    st.latex(rf"\theta_0 {equals(first)} \qquad \theta_1 {equals(second)} \quad \text{{a step}}")
    prose.caption(
        "θ (theta) is how far a pair turns in one step, in radians: 2π is all the way round. "
        "Pair 0 is (x₀, y₀), pair 1 is (x₁, y₁)."
    )
    st.latex(rf"q_{{{at}}} \cdot k_{{{key_at}}} {equals(before)}")
    st.latex(rf"q_{{{at + move}}} \cdot k_{{{key_at + move}}} {equals(after)}")
    prose.markdown(
        f"Both moved on by {move:,}, still {abs(at - key_at)} apart. Change of the score: "
        f"**{difference(abs(after - before))}**. It may change by rounding, no more."
        + (" Here the key comes later: the causal mask would hide it." if key_at > at else "")
    )
    code(after_gpt2.rotary_angles, after_gpt2.rotate, after_gpt2.rotary_score)
    _by_distance(book, q, k)
    return _rope_questions()


def _places() -> tuple[int, int, int]:
    """Where the query and the key stand, and how far both are moved on."""
    at: int = st.select_slider("Query at", _AT, **address.choice(parameters.ROPE_Q, _AT))
    key_at: int = st.select_slider("Key at", _AT, **address.choice(parameters.ROPE_K, _AT))
    move: int = st.select_slider(
        "Move both by", _MOVES, **address.choice(parameters.ROPE_MOVE, _MOVES)
    )
    return at, key_at, move


def _by_distance(book: Book, q: Array, k: Array) -> None:
    """The score of q and k (hs,) at every distance."""
    output.picture(
        curves_at(
            "Score by distance",
            range(_FURTHEST + 1),
            {"q · k": after_gpt2.score_by_distance(q, k, _FURTHEST)},
            "tokens from the key to the query",
            "score",
        ),
        book.colors,
        key="rope_distance",
        of_run=False,
    )
    prose.markdown(
        "Each pair adds a wave of its own. The first comes round every 2π tokens, about 6; the "
        "second takes 628. Real models have more pairs, and the slowest take tens of thousands."
    )
    code(after_gpt2.score_by_distance)


def _rope_questions() -> list[Question]:
    return [
        Question(
            "rope_moved",
            "A query at 12 looks at a key at 9. The query moves to 40. Where must the **key** "
            "stand, before the query, for the same score?",
            "What does the score depend on? Keep that as it was.",
            "Three tokens before the query, as before: 40 − 3.",
            answer="37",
            also=("thirty-seven",),
        ),
    ]

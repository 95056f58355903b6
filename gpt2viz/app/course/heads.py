"""Many heads: how the shapes change, the variants side by side, heads apart and together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import streamlit as st

from gpt2viz.analysis.scores import SCORES
from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.components import lines
from gpt2viz.app.course.parts import TOKENS, Book, code, heading, picture, play, vectors
from gpt2viz.app.course.questions import Question
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import equals
from gpt2viz.app.frame import controls
from gpt2viz.app.parameters import SelectParam
from gpt2viz.app.view import whole_text
from gpt2viz.app.views.measures import draw_weights
from gpt2viz.labels import difference
from gpt2viz.pictures import frames
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE
from gpt2viz.textbook import attention, heads


def draw(book: Book) -> Iterator[Question]:
    """E21, E8, E20 and E24, and the heads of the model above."""
    prose.markdown(
        "A row of attention weights is one mixture: a token can't take one thing from here and "
        "another from there."
        "\n\nSo the channels are shared out among several **heads**. Each has queries, keys and "
        "values of its own, only narrower, and looks where it likes. Their outputs are then laid "
        "side by side and mixed by one more table."
    )
    yield from _way(book)
    yield from _variants(book)
    yield from _real(book)


def _sizes() -> tuple[int, int, int, int]:
    """Pick B, T, C and nh."""
    choices: tuple[tuple[str, SelectParam, list[int]], ...] = (
        ("B", parameters.WAY_B, [1, 2, 4]),
        ("T", parameters.WAY_T, [1, 4, 6, 100]),
        ("C", parameters.WAY_C, [12, 768, 1024, 1280]),
        ("heads nh", parameters.WAY_NH, [1, 2, 4, 6, 7, 12, 16, 20, 24]),
    )
    B, T, C, nh = (
        column.selectbox(name, options, **address.choice(which, options))
        for column, (name, which, options) in zip(st.columns(4), choices, strict=True)
    )
    return B, T, C, nh


def _way(book: Book) -> Iterator[Question]:
    heading("E21")
    prose.markdown(
        "Nothing is copied to do this. The C channels are simply *read* as $n_h$ heads of $h_s = "
        "C/n_h$ channels. Then the head axis is moved to the front, so that one multiplication "
        "serves all heads."
    )
    B, T, C, nh = _sizes()
    try:
        way = heads.shape_steps(B, T, C, nh)
        output.table(
            {"step": [what for what, _ in way], "shape": [size for _, size in way]},
            "Shapes on the way through the heads",
            height="content",
        )
        failed = False
    except heads.ShapeError as error:
        st.error(str(error), icon=":material/error:")
        failed = True
    st.latex(
        r"h_s = \frac{C}{n_h} \qquad "
        r"\text{MultiHead}(x) = [\text{head}_0, \ldots, \text{head}_{n_h-1}]\,W_O"
    )
    st.latex(rf"h_s = {C} / {nh} {f'= {C // nh}' if C % nh == 0 else equals(C / nh)}")
    prose.caption(
        "B texts at once, T tokens each, C channels, $n_h$ heads (nh) of $h_s$ channels (hs). The "
        "brackets lay the heads' outputs side by side; $W_O$ is the table that mixes them."
    )
    whole = heads.MultiHeadAttention
    code(heads.shape_steps, whole.__init__, whole.split)
    if not failed:
        heads_split(book, B, T, C, nh)
    yield from _way_questions(failed, C)
    heading("E8")
    prose.markdown(
        "Look at the steps above once more. `transpose` doesn't move a single number; it only "
        "changes the order in which they are counted. That is why `view` refuses to merge the "
        "heads afterwards, while `reshape` moves the numbers first."
    )


def _way_questions(refused: bool, C: int) -> list[Question]:
    return [
        Question(
            "way_scores",
            "2 texts, 100 tokens, 16 heads, C = 1024. What is the shape of the **scores**?",
            "Each score belongs to a query and a key. How many such tables does one text have?",
            "(B, nh, T, T). The number of channels has gone: it was summed over.",
            answer="(2, 16, 100, 100)",
        ),
        Question(
            "way_fails",
            "Find a number of heads that can't share 1024 channels equally.",
            "1024 is a power of 2.",
            "6, 7, 12, 20 and 24 don't divide 1024. GPT-2 medium has 1024 channels and 16 heads.",
            done=refused and C == 1024,
            note=f"That is refused too, but with {C:,} channels." if refused else "",
        ),
    ]


def _variants(book: Book) -> Iterator[Question]:
    heading("E20")
    prose.markdown(
        "One input goes through four forms of attention. The first has nothing learned; the others "
        "have learned tables, whose numbers are drawn from a seed here. Each row is a word "
        "afterwards. In the causal forms the first word has seen only itself."
    )
    labels, axes = attention.JOURNEY, ("x₁", "x₂", "x₃")
    left, right = st.columns([3, 1], gap="medium")
    with left:
        x = table(parameters.VARIANTS_X, "Input", attention.JOURNEY_X, labels, axes)
    seeds = range(10)
    seed: int = right.selectbox("Seed", seeds, **address.choice(parameters.VARIANTS_SEED, seeds))
    outputs = heads.four_variants(x, nh=3, seed=seed)
    panels = [vectors(name, out, labels, axes, TOKENS) for name, out in outputs.items()]
    picture(book, "variants", panels, height=300)
    code(
        heads.four_variants,
        heads.mix,
        heads.SimplifiedAttention,
        heads.TrainableAttention,
        heads.CausalAttention,
        heads.MultiHeadAttention,
    )
    causal, free = outputs["causal"], outputs["trainable"]
    yield Question(
        "variants_last",
        "The trainable and the causal form have the same tables here. For which word do they "
        "agree, whatever the numbers?",
        "What does the mask take away from a word? Compare rows of the pictures.",
        f"The last word sees everything before it in both. Largest difference here: "
        f"{difference(float((causal[-1] - free[-1]).abs().max()))}.",
        answer="step",
        also=("last", "last one", "sixth", "sixth one", "final"),
    )
    _apart(book, seed)


def _apart(book: Book, seed: int) -> None:
    heading("E24")
    prose.markdown(
        "Heads can be built separately, each with three small tables, and their outputs joined. Or "
        "they can be built together, as three wide tables in which each head has its own rows. "
        "With the same numbers both give the same result:"
    )
    fused, apart = heads.apart_and_fused(C=12, nh=3, seed=seed)
    tokens, channels = [f"{n}" for n in range(6)], [f"{n}" for n in range(12)]
    both = [
        vectors("three wide tables", fused, tokens, channels, ("token", "channel")),
        vectors("three separate heads", apart, tokens, channels, ("token", "channel")),
    ]
    picture(book, "apart", both, height=260)
    gap = float((fused - apart).abs().max())
    prose.markdown(
        f"Largest difference: **{difference(gap)}**. They may differ by rounding, no more."
    )
    code(heads.apart_and_fused, heads.separate, heads.SeparateHeads)


def _real(book: Book) -> Iterator[Question]:
    view = book.view
    st.subheader("Heads of a trained model", anchor="trained")
    prose.markdown(
        "What a head looks for is learned, and its work seldom has a name. Look through the heads "
        "of the model above, with your sentence."
        "\n\nIn the bundled model a few heads were nudged toward a habit for a short part of its "
        "training. At the start one learned to look one token back; near the end one learned to "
        "rest on the first. From then on they were left to themselves; its card says which. All "
        "the others were told nothing."
    )
    with st.container(horizontal=True, gap="large"):
        layer, head = controls.layer(view), controls.head(view)
        as_lines = lines.switched(whole_text(view.n_tokens), named=True)
    draw_weights(
        view,
        layer,
        head,
        key="real_head",
        as_lines=as_lines,
        height=420,
        numbers=NUMBERS_FIT_LARGE,
    )
    config = view.trace.config
    to_itself, scores, do = SCORES["same token"], {}, {}
    for n in range(config.n_layer):
        for m, weights in enumerate(view.trace.stage("weights", n)[0]):
            do[n, m] = _most_to_itself(weights)
            scores[n, m] = float(np.nan_to_num(to_itself.of(weights, view.trace.token_ids)))
    best, here = max(scores.values()), scores[layer, head]
    note = f"In this head a token gives itself {here:.2f} on average."
    if len(view.labels) == 1:
        note = "A single token can see nothing else: write a longer sentence first."
    yield from [
        Question(
            "real_self",
            f"Find a head in which every token looks most at **itself**. {note}",
            "Look for a diagonal of strong colour. “Side by side” shows several layers at once.",
            f"Mean weight on the token itself: {here:.2f}; the largest of all "
            f"{config.n_layer * config.n_head} heads for this sentence is {best:.2f}. Where it is "
            "1, nothing moves between tokens: what the head adds comes from each token alone.",
            done=len(view.labels) > 1 and do[layer, head],
            note=""
            if any(do.values())
            else "No head does so with this sentence. Try another sentence.",
        ),
    ]


def _most_to_itself(weights: np.ndarray) -> bool:
    """True where every token of a head (T, T) looks at itself more than at any other."""
    return bool((weights.argmax(axis=1) == np.arange(len(weights))).all())


#: Tokens whose vectors are drawn.
_ROWS = 4


def heads_split(book: Book, B: int, T: int, C: int, nh: int) -> None:
    """Vectors of C channels into nh heads and back; nh must divide C."""
    drawn, hs = min(T, _ROWS), C // nh
    states = heads.split_and_merge(drawn, C, nh)
    captions = [
        f"({B}, {T}, {C}): a row for each token. A colour marks the {hs} channels of one head.",
        f"view: ({B}, {T}, {nh}, {hs}). Each row is cut into {nh} pieces. Nothing has moved.",
        f"transpose: ({B}, {nh}, {T}, {hs}). Heads are counted first, so they are drawn apart; in "
        "memory nothing has moved. Now each head works on its own rows.",
        f"transpose: ({B}, {T}, {nh}, {hs}). The heads' outputs are counted by token again.",
        f"reshape: ({B}, {T}, {C}). Now they are moved, and stand side by side in one row.",
    ]
    prose.markdown(
        f"**To scale.** {'The first ' if drawn < T else ''}{drawn} of {T} tokens of one text. "
        "A block is what one head gets of one token."
    )
    play(book, frames.splitting_heads(states, nh, captions), parameters.WAY_STEP)
    code(heads.split_and_merge)

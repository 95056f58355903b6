"""Seven short chapters on what came after GPT-2."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import streamlit as st

from gpt2viz.analysis.scores import first_token, weight_on
from gpt2viz.app import address, output, pages, parameters, prose
from gpt2viz.app.course.parts import PLANE, SAME, TOKENS, Book, code, link, pairs, picture, vectors
from gpt2viz.app.course.questions import Question
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import enough, equals
from gpt2viz.app.frame import sentence
from gpt2viz.app.views import find
from gpt2viz.arrays import Array
from gpt2viz.labels import difference, pluralize, signed
from gpt2viz.pictures.find import head_map
from gpt2viz.pictures.training import curves_at
from gpt2viz.textbook import after_gpt2, attention, heads, mlp, residual


def draw_kv_cache(book: Book) -> Iterator[Question]:
    """Keys and values that are kept: the same outputs for less work."""
    prose.markdown(
        "GPT-2 writes one token at a time. Must it read the whole text again for each? No. The "
        "causal mask lets no token see a later one. So what a head has worked out for a token "
        "never changes, and its key and value can be kept: that is the **KV cache**.\n\n"
        "The new token's query meets all keys that were kept. Old queries aren't needed again "
        "(Pope et al. 2022, *Efficiently Scaling Transformer Inference*).\n\n"
        "Here four words are written by one small head, with the tables of *Attention by hand*. It "
        "is done both ways: reading all words again at each step, and with a cache."
    )
    tables, labels = attention.drawn_weights(), attention.SENTENCE
    left, right = st.columns([2, 5], gap="large")
    with left:
        x = table(parameters.CACHE_X, "x: four words", attention.SENTENCE_X, labels, PLANE)
    again, cached = after_gpt2.write_again(x, *tables), after_gpt2.write_cached(x, *tables)
    with right:
        made = {"keys kept": cached.keys, "values kept": cached.values}
        made |= {"output, read again": again.output, "output, cached": cached.output}
        panels = [vectors(name, part, labels, ("1", "2"), TOKENS) for name, part in made.items()]
        picture(book, "cache_kept", panels, height=240)
    gap = float((again.output - cached.output).abs().max())
    prose.markdown(
        f"Largest difference of the outputs: **{difference(gap)}**. They may differ by rounding, "
        "no more. What differs is the work. Here it is in multiply-adds, step by step: each is a "
        "product that is added to a sum."
    )
    for name, cost in (("read again", again.cost), ("cached", cached.cost)):
        st.latex(rf"\text{{{name}: }} {' + '.join(map(str, cost))} = {sum(cost)}")
    code(
        attention.drawn_weights,
        attention.attend,
        after_gpt2.write_again,
        after_gpt2.write_cached,
        after_gpt2.Counter,
    )
    yield from _cache_questions()
    _long_text(book)
    to_generate("The model's own cache, on Generate")


def to_generate(label: str) -> None:
    """A link to where the model writes, with its cache shown."""
    link(pages.PREDICT, label, {parameters.PREDICT: "generate", parameters.CACHE: True})


def _long_text(book: Book) -> None:
    """The work at each step of a longer text, in a head as wide as GPT-2 small's."""
    T, C, hs = 32, 768, 64
    again, cached = after_gpt2.cache_costs(T, C, hs)
    output.picture(
        curves_at(
            f"Multiply-adds of each step in a head of GPT-2 small, {T} tokens",
            range(1, T + 1),
            {"read again": again, "cached": cached},
            "step",
            "multiply-adds",
        ),
        book.colors,
        key="cache_cost",
        of_run=False,
    )
    prose.markdown(
        f"In all {T} steps, reading again takes **{sum(again) / sum(cached):.1f}** times as many "
        f"multiply-adds. The price of the cache is room: 2 · {hs} numbers a token, in each head of "
        "each layer."
    )
    code(after_gpt2.cache_costs)


def _cache_questions() -> list[Question]:
    return [
        Question(
            "cache_tenth",
            "How many multiply-adds would a **tenth** word take in the small head, with the cache?",
            "Part of the work is for the word itself, the rest for each word that it sees. By how "
            "much does the cost above grow from step to step?",
            "12 + 10 · 4. Read again, it would be 10 · 12 + 10 · 10 · 4 = 520.",
            answer="52",
            also=("fifty-two",),
        ),
    ]


_FOUR = ("0", "1", "2", "3")
_SHIFTS = [-10.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 10.0]


def draw_rmsnorm(book: Book) -> list[Question]:
    """RMSNorm beside LayerNorm: what a shift of all numbers does to each."""
    prose.markdown(
        "LayerNorm does two things to a token's numbers. It moves their mean to 0, and it brings "
        "them to a standard size. **RMSNorm** does only the second: it divides by the root mean "
        "square. No mean is subtracted, and no shift β is added. That is less work, with half as "
        "many learned numbers (Zhang & Sennrich 2019, *Root Mean Square Layer Normalization*). "
        "Llama and many other models use it.\n\n"
        "Add the same number c to all of x, and the two part ways. LayerNorm takes c off again "
        "with the mean. RMSNorm lets it through. The gain γ is 1 here."
    )
    left, right = st.columns([2, 3], gap="large")
    with left:
        x = table(
            parameters.RMS_X, "x", np.add(residual.STREAM, residual.ADDED).round(6), ("x",), _FOUR
        )
        shift: float = st.select_slider(
            "c, added to all of x",
            _SHIFTS,
            format_func=lambda c: signed(c, "g"),
            **address.choice(parameters.RMS_SHIFT, _SHIFTS),
        )
    both, ones, none = (x[0], x[0] + np.float32(shift)), np.ones(4), np.zeros(4)
    layer = [residual.layer_norm(row, ones, none) for row in both]
    scaled = [residual.rms_norm(row, ones) for row in both]
    with right:
        rows = ("Layer, x", "Layer, x + c", "RMS, x", "RMS, x + c")
        outputs = [*(part.output for part in layer), *(part.output for part in scaled)]
        panel = vectors("LayerNorm and RMSNorm", outputs, rows, _FOUR, ("", "channel"))
        picture(book, "rms_rows", [panel], height=250)
    st.latex(r"\text{RMS}(z) = \sqrt{\textstyle\frac{1}{C}\sum_i z_i^2 + \varepsilon}")
    for name, row, part in zip(("x", "x + c"), both, scaled, strict=True):
        n = enough(part.size, partial(np.divide, row.astype(float)), part.output)
        st.latex(
            rf"\text{{RMS}}({name}) {equals(part.size, n)} \qquad "
            rf"\frac{{{name}}}{{\text{{RMS}}({name})}} {equals(part.output)}"
        )
    moved = [float((two.output - first.output).abs().max()) for first, two in (layer, scaled)]
    prose.markdown(
        f"With c the numbers after LayerNorm move by up to **{moved[0]:.4f}**, after RMSNorm by up "
        f"to **{moved[1]:.4f}**."
    )
    code(residual.layer_norm, residual.rms_norm)
    return _rms_questions(x[0], float((layer[0].output - scaled[0].output).abs().max()))


def _rms_questions(x: Array, gap: float) -> list[Question]:
    """``gap`` is how far the two norms of x are apart."""
    same, centred = gap < SAME, bool(abs(x.mean()) <= 1e-4 * abs(x).max())
    note = "x is so small that ε decides. Take larger numbers." if same else ""
    if not x.any():
        note = "Not four zeros."
    return [
        Question(
            "rms_same",
            "Find an x, not all zeros, of which both norms make the **same** numbers. Now they "
            f"differ by up to {gap:.4f}.",
            "Which of its two steps would LayerNorm have to do for nothing?",
            "If the mean of x is 0, subtracting it changes nothing. What is left of LayerNorm is "
            "RMSNorm.",
            done=same and centred and bool(x.any()),
            note=note,
        ),
    ]


def draw_swiglu(book: Book) -> Iterator[Question]:
    """SwiGLU: one token through a gate, and how many parameters that takes."""
    prose.markdown(
        "GPT-2's MLP makes a vector longer, bends it by a curve, and makes it short again. Many "
        "later models have a **gate** there. One table, *up*, makes numbers. Another, *gate*, says "
        "through SiLU how much of each may pass: the two are multiplied, channel by channel. A "
        "third, *down*, leads back. This is **SwiGLU** (Shazeer 2020, *GLU Variants Improve "
        "Transformer*).\n\n"
        "So each token opens channels of its own. Set x₁ to −1, and channel 1 opens in place of "
        "channel 0."
    )
    first, second = st.columns(2, gap="large"), st.columns(2, gap="large")
    three = ("0", "1", "2")
    with first[0]:
        x = table(parameters.GATE_X, "x", (mlp.GATED_X,), ("x",), PLANE)[0]
    with first[1]:
        down = table(parameters.GATE_DOWN, "Down", mlp.DOWN, ("y₁", "y₂"), three)
    with second[0]:
        gate = table(parameters.GATE_W, "Gate", mlp.GATE, three, PLANE)
    with second[1]:
        up = table(parameters.GATE_UP, "Up", mlp.UP, three, PLANE)
    inside = mlp.gated(x, gate, up, down)
    names = ("gate", "SiLU(gate)", "up", "passes")
    panel = vectors("inside", list(inside[:4]), names, three, ("", "channel"))
    picture(book, "gate_inside", [panel], height=250)
    passed = np.asarray(inside.passed, float)
    n = enough(passed, lambda p: down.astype(float) @ p, inside.output)
    opened, made = np.asarray(inside.opened, float), np.asarray(inside.up, float)
    m = enough(opened, lambda o: o * made.round(n), passed, n)
    st.latex(rf"\text{{SiLU(gate)}} {equals(opened, m)} \qquad \text{{up}} {equals(made, m)}")
    st.latex(rf"\text{{passes}} = \text{{SiLU(gate)}} \cdot \text{{up}} {equals(passed, n)}")
    st.latex(rf"y = \text{{down}} \cdot \text{{passes}} {equals(inside.output)}")
    code(mlp.silu, mlp.gated)
    unchanged = [np.allclose(a, b) for a, b in ((x, mlp.GATED_X), (up, mlp.UP))]
    yield from _gate_questions(float(passed[1]), all(unchanged))
    _gate_sizes()


def _gate_sizes() -> None:
    prose.markdown(
        "Three tables would be half as many parameters again as two. So each is made narrower: 8 C "
        "/ 3 channels in place of 4 C, rounded up to a multiple of 256. Then both forms are about "
        "the same size."
    )
    sizes = [768, 1024, 4096]
    C: int = st.segmented_control(
        "Channels C", sizes, required=True, **address.choice(parameters.GATE_C, sizes)
    )
    output.table(
        mlp.forms(C),
        "The MLP in both forms, by its channels",
        column_config={"parameters": st.column_config.NumberColumn(format="localized")},
    )
    code(mlp.forms, mlp.swiglu_width, mlp.FeedForward, mlp.SwiGLU)


def _gate_questions(passed: float, unchanged: bool) -> list[Question]:
    """``passed`` is what channel 1 lets through, ``unchanged`` tells that x and up are."""
    shut = abs(passed) < SAME
    return [
        Question(
            "gate_shut",
            "Shut channel 1: edit **Gate** alone so that nothing passes there. Now it is "
            f"{signed(passed, '.4f')}.",
            "For which number is SiLU 0? Let row 1 of the table make that number of x.",
            "SiLU(0) = 0, so nothing passes, however large *up* is. Far below 0 it is shut too.",
            done=shut and unchanged,
            note="It is shut, but x or Up was changed too. Put them back." if shut else "",
        ),
    ]


_AT = range(33)
_MOVES = [0, 1, 2, 5, 10, 100, 1000]
_FURTHEST = 64


def draw_rope(book: Book) -> list[Question]:
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
        at, key_at, move = _pick_positions()
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


def _pick_positions() -> tuple[int, int, int]:
    """Pick the positions of the query and the key, and how far both are moved on."""
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


_GROUPS = [1, 2, 3, 4]


def draw_grouped(book: Book) -> list[Question]:
    """Query heads that share keys and values."""
    prose.markdown(
        "A KV cache grows with every token, in every head. In **grouped-query attention** several "
        "query heads share one head of keys and values. Each still asks its own question, but they "
        "search the same keys.\n\n"
        "With one group for all it is called multi-query attention (Shazeer 2019, *Fast "
        "Transformer Decoding*). With a group for each head it is what GPT-2 does. In between, "
        "nearly as little must be kept, and little quality is lost (Ainslie et al. 2023, "
        "*GQA*).\n\n"
        "Here are four heads, their tables drawn from a seed. The keys and values of a group are "
        "made by the mean of its heads' tables. In the same way the paper turns a trained model "
        "into a grouped one, and then trains it a little more."
    )
    nh, hs, labels = 4, 2, attention.SENTENCE
    left, right = st.columns([2, 5], gap="large")
    with left:
        x = table(parameters.GROUP_X, "x: four words", attention.SENTENCE_X, labels, PLANE)
        groups: int = st.segmented_control(
            "Groups", _GROUPS, required=True, **address.choice(parameters.GROUPS, _GROUPS)
        )
    w_q, w_k, w_v = after_gpt2.drawn_heads(nh, hs, x.shape[1])
    try:
        shared = after_gpt2.share(
            x, w_q, after_gpt2.pool(w_k, groups), after_gpt2.pool(w_v, groups)
        )
    except heads.ShapeError as error:
        st.error(str(error), icon=":material/error:")
        code(after_gpt2.drawn_heads, after_gpt2.pool)
    else:
        with right:
            panels = [
                pairs(
                    f"head {n}, group {group}",
                    head.weights,
                    labels,
                    "attention weight",
                    head.masked_scores.isneginf(),
                )
                for n, (head, group) in enumerate(zip(*shared, strict=True))
            ]
            picture(book, "group_weights", panels, "unit", height=260)
        code(after_gpt2.drawn_heads, after_gpt2.pool, after_gpt2.share, attention.attend)
    return _groups_kept(groups, hs, len(x))


def _groups_kept(groups: int, hs: int, T: int) -> list[Question]:
    """The size of the cache in the small case, and in GPT-2 small."""
    if not 4 % groups:
        few = after_gpt2.cache_bytes(T, groups, hs, width=4)
        st.latex(
            rf"2 \cdot {groups} \text{{ groups}} \cdot {T} \text{{ words}} \cdot {hs} "
            rf"\text{{ numbers}} \cdot 4 = {few} \text{{ bytes}}"
        )
    sizes = [12, 6, 4, 3, 2, 1]
    n_bytes = [after_gpt2.cache_bytes(1024, n, 64, n_layer=12) for n in sizes]
    prose.markdown(
        "Only keys and values are kept: here with 4 bytes a number. Below is what GPT-2 small "
        "would keep of 1,024 tokens if its 12 heads shared, in all 12 layers, with 2 bytes a "
        "number. 64 is its head size."
    )
    output.table(
        {
            "groups": sizes,
            "query heads in each": [12 // n for n in sizes],
            "megabytes kept": [n / 1e6 for n in n_bytes],
        },
        "What GPT-2 small would keep, by groups",
        column_config={"megabytes kept": st.column_config.NumberColumn(format="%.1f")},
    )
    st.latex(
        rf"2 \cdot 12 \text{{ layers}} \cdot 12 \text{{ groups}} \cdot 1024 \cdot 64 \cdot 2 = "
        rf"{n_bytes[0]:,} \text{{ bytes}}".replace(",", "{,}")
    )
    code(after_gpt2.cache_bytes)
    return [
        Question(
            "groups_factor",
            "32 query heads share 8 groups of keys and values. How many **times** smaller is the "
            "cache than with a group for each head?",
            "What is kept grows with the number of groups.",
            "32 / 8. Keys and values shrink alike. The queries were never kept.",
            answer="4",
            also=("fourfold", "quarter", "to a quarter"),
        ),
    ]


_LENGTHS, _SIZES = [64, 256, 1024], [16, 64, 256]


def draw_flash(book: Book) -> list[Question]:
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
    _run_flash()
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


def _run_flash() -> None:
    """The three ways on random numbers, and what each took just now."""
    columns = st.columns(2)
    T: int = columns[0].segmented_control(
        "Tokens T", _LENGTHS, required=True, **address.choice(parameters.FLASH_T, _LENGTHS)
    )
    size: int = columns[1].segmented_control(
        "Keys of a tile", _SIZES, required=True, **address.choice(parameters.FLASH_SIZE, _SIZES)
    )
    runs = after_gpt2.run_three(T, size)
    gap = max(float((run.output - runs["explicit"].output).abs().max()) for run in runs.values())
    output.table(
        {
            "way": list(runs),
            "largest table of scores, in bytes": [run.largest for run in runs.values()],
            "milliseconds, just now": [1000 * run.seconds for run in runs.values()],
        },
        "Three ways to the same outputs",
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


def draw_sinks(book: Book) -> Iterator[Question]:
    """A head that rests on the first token, in a small case and in the model above."""
    prose.markdown(
        "Softmax can't say nothing. The weights of a row sum to 1, even where no token has what a "
        "head looks for. Nor does it help to lower all scores: only their differences count. So a "
        "head learns to rest on a token that does little harm, mostly the first, which all others "
        "can see. That is an **attention sink** (Xiao et al. 2023, *Efficient Streaming Language "
        "Models with Attention Sinks*).\n\n"
        "Here “fish” looks back. “A” has a high score and a value of almost nothing, so resting "
        "there adds almost nothing.\n\n"
        "Now drop the first token, as a cache that keeps only the newest ones does. Its weight "
        "falls to the others, wanted or not. The paper found that models break down then, and that "
        "keeping the first four tokens mends it."
    )
    labels = attention.SENTENCE
    left, right = st.columns([2, 3], gap="large")
    with left:
        scores = table(
            parameters.SINK_SCORES, "Scores of fish", after_gpt2.SINK_SCORES, ("fish",), labels
        )[0]
        values = table(parameters.SINK_VALUES, "Values", after_gpt2.SINK_VALUES, labels, PLANE)
        forget = st.toggle("Drop the first token", **address.switch(parameters.SINK_DROP))
    last = after_gpt2.look_back(scores, values, forget)
    with right:
        panel = vectors("weights of fish", last.weights, ("fish",), labels, ("query", "key"))
        picture(book, "sink_weights", [panel], "unit", height=170)
    weights = np.asarray(last.weights, float)
    n = enough(weights, lambda w: w @ values.astype(float), last.output)
    st.latex(rf"\text{{softmax}} {equals(weights, n)}")
    st.latex(rf"\text{{weights}} \cdot V {equals(last.output)}")
    prose.markdown(f"The vector that fish takes away has length **{last.length:.2f}**.")
    code(after_gpt2.look_back)
    yield from _sink_questions(scores, values, weights, forget)
    to_generate("What dropping tokens costs the model, on Generate")
    _real_sinks(book)


def _real_sinks(book: Book) -> None:
    """The weight that each head of the model gives to the sentence's first token."""
    view = book.view
    trace, n = view.trace, len(view.labels)
    st.subheader("Heads of the model above", anchor="real-sinks")
    prose.markdown(
        f"The token {sentence.EOT_TEXT} stands between two texts. The switch above puts it "
        "before your sentence, so that heads can rest on it in place of your first word."
    )
    if n == 1:
        prose.markdown("A single token can look nowhere else. Write a longer sentence.")
        return
    targets = first_token(trace.token_ids)
    layers = range(trace.config.n_layer)
    on_first = np.stack([weight_on(trace.stage("weights", layer)[0], targets) for layer in layers])
    drawn = head_map(on_first, "mean weight on the first token")
    picture(book, "sink_heads", [drawn], "unit", height=260)
    code(first_token, weight_on)
    layer, head = np.unravel_index(np.nan_to_num(on_first).argmax(), on_first.shape)
    even = _even(n, trace.causal)
    prose.markdown(
        f"In your sentence head {layer}.{head} rests there most: the {pluralize(n - 1, 'tokens')} "
        f"after the first give it **{on_first[layer, head]:.2f}** of their weight, on average. If "
        f"a head looked at all tokens alike, it would be {even:.2f}. In a short text a large share "
        "means little: there is not much else to look at."
    )
    across = find.survey(view)
    if across is not None and "first token" in across.mean:
        mean = across.mean["first token"]
        layer, head = np.unravel_index(np.nan_to_num(mean).argmax(), mean.shape)
        prose.markdown(
            f"Over {pluralize(across.n_passages, 'passages')} of up to {across.n_tokens} tokens, "
            f"the most is **{mean[layer, head]:.2f}**, in head {layer}.{head}. In a passage of "
            f"{across.n_tokens} tokens, all alike would be {_even(across.n_tokens, True):.2f}."
        )


def _even(n: int, causal: bool) -> float:
    """The first token's share of n tokens' weights where all that may be seen get the same."""
    return float(np.mean([1 / (query + 1 if causal else n) for query in range(1, n)]))


def _sink_questions(scores: Array, values: Array, weights: Array, forget: bool) -> list[Question]:
    rests = bool(weights[0] > 0.9)
    unchanged = scores[0] == np.float32(after_gpt2.SINK_SCORES[0]) and np.allclose(
        values, after_gpt2.SINK_VALUES
    )
    note = ""
    if forget:
        note = "The first token is dropped. Switch that off."
    elif rests:
        note = "It rests there, but the score of “A” or a value was changed. Put that back."
    return [
        Question(
            "sink_rest",
            "Let this head find nothing: leave the score of “A” and all values alone, and make "
            f"“fish” give “A” **more than 0.9**. Now it is {weights[0]:.2f}.",
            "Softmax compares. What must happen to the other three scores?",
            "No score of “A” went up. It takes what the others don't get, since all must sum to 1.",
            done=rests and bool(unchanged) and not forget,
            note=note,
        ),
    ]

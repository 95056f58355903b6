"""Examples of seven short chapters on what came after GPT-2."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from gpt2viz.analysis.scores import first_token, weight_on
from gpt2viz.app import address, output, parameters
from gpt2viz.app.course.parts import (
    PLANE,
    SAME,
    TOKENS,
    Book,
    curves,
    largest_gap,
    pairs,
    pick,
    picture,
    vectors,
)
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.tables import Table
from gpt2viz.app.course.written import decimals, equals
from gpt2viz.app.views import measures
from gpt2viz.labels import difference, numeral, pluralize
from gpt2viz.model.mask import hidden_pairs
from gpt2viz.pictures.find import head_map
from gpt2viz.run.trace import Trace
from gpt2viz.textbook import after_gpt2, attention, heads, mlp, residual

_WORDS = attention.SENTENCE
_THREE, _FOUR = ("0", "1", "2"), ("0", "1", "2", "3")


def write(book: Book) -> dict[str, Any]:
    """Generate four words, once by rereading everything at each step, once with a cache."""
    tables = attention.random_weights()
    left, right = st.columns([2, 5], gap="large")
    x = Table(parameters.CACHE_X, "x: four words", attention.SENTENCE_X, _WORDS, PLANE).draw(left)
    again, cached = after_gpt2.write_uncached(x, *tables), after_gpt2.write_cached(x, *tables)
    with right:
        made = {"keys kept": cached.keys, "values kept": cached.values}
        made |= {"output, read again": again.output, "output, cached": cached.output}
        panels = [vectors(name, part, _WORDS, ("1", "2"), TOKENS) for name, part in made.items()]
        picture("cache_kept", panels, height=240)
    costs = {"cost_again": again.cost, "cost_cached": cached.cost}
    return {
        "outputs_gap": difference(largest_gap(again.output, cached.output)),
        **{name: f"{' + '.join(map(str, cost))} = {sum(cost)}" for name, cost in costs.items()},
    }


def long_text(book: Book) -> dict[str, Any]:
    """Draw the work at each step of a longer text, in a head as wide as GPT-2 small's."""
    T, C, hs = 32, 768, 64
    again, cached = after_gpt2.cache_costs(T, C, hs)
    curves(
        "cache_cost",
        f"Multiply-adds of each step in a head of GPT-2 small, {T} tokens",
        range(1, T + 1),
        {"read again": again, "cached": cached},
        ("step", "multiply-adds"),
    )
    return {"T": T, "hs": hs, "times_more": f"{sum(again) / sum(cached):.1f}"}


def norms(book: Book) -> dict[str, Any]:
    """Draw LayerNorm and RMSNorm of x, and of x with the same number added everywhere."""
    shifts = {c: numeral(c, "g") for c in (-10.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 10.0)}
    left, right = st.columns([2, 3], gap="large")
    with left:
        total = np.add(residual.STREAM, residual.ADDED).round(6)
        x = Table(parameters.RMS_X, "x", total, ("x",), _FOUR).draw()[0]
        shift: float = st.select_slider(
            "c, added to all of x", **address.choice(parameters.RMS_SHIFT, shifts)
        )
    both, ones, none = (x, x + np.float32(shift)), np.ones(4), np.zeros(4)
    layer = [residual.layer_norm(row, ones, none) for row in both]
    scaled = [residual.rms_norm(row, ones) for row in both]
    rows = ("Layer, x", "Layer, x + c", "RMS, x", "RMS, x + c")
    outputs = [*(part.output for part in layer), *(part.output for part in scaled)]
    panel = vectors("LayerNorm and RMSNorm", outputs, rows, _FOUR, ("", "channel"))
    picture("rms_rows", [panel], height=250, slot=right)
    values: dict[str, Any] = {}
    for name, row, part in zip(("x", "moved"), both, scaled, strict=True):
        n = decimals(part.size, partial(np.divide, row), part.output)
        values |= {f"rms_{name}": equals(part.size, n), f"normed_{name}": equals(part.output)}
    moves = [largest_gap(first.output, moved.output) for first, moved in (layer, scaled)]
    gap = largest_gap(layer[0].output, scaled[0].output)
    same, centred = gap < SAME, bool(abs(x.mean()) <= 1e-4 * abs(x).max())
    note = "x is so small that ε decides. Take larger numbers." if same else ""
    if not x.any():
        note = "Not four zeros."
    return values | {
        "layer_moves": f"{moves[0]:.4f}",
        "rms_moves": f"{moves[1]:.4f}",
        "norms_gap": f"{gap:.4f}",
        "rms_same": Check(same and centred and bool(x.any()), note),
    }


def gate(book: Book) -> dict[str, Any]:
    """Draw one token passing through a gated MLP."""
    first, second = st.columns(2, gap="large"), st.columns(2, gap="large")
    x = Table(parameters.GATE_X, "x", (mlp.GATED_X,), ("x",), PLANE).draw(first[0])[0]
    down = Table(parameters.GATE_DOWN, "Down", mlp.DOWN, ("y₁", "y₂"), _THREE).draw(first[1])
    gate = Table(parameters.GATE_W, "Gate", mlp.GATE, _THREE, PLANE).draw(second[0])
    up = Table(parameters.GATE_UP, "Up", mlp.UP, _THREE, PLANE).draw(second[1])
    inside = mlp.walk_swiglu(x, gate, up, down)
    names = ("gate", "SiLU(gate)", "up", "passes")
    panel = vectors("inside", list(inside[:4]), names, _THREE, ("", "channel"))
    picture("gate_inside", [panel], height=250)
    passed, made = np.asarray(inside.passed, float), np.asarray(inside.up, float)
    n = decimals(passed, lambda p: down @ p, inside.output)
    m = decimals(inside.opened, lambda o: o * made.round(n), passed, n)
    unchanged = np.allclose(x, mlp.GATED_X) and np.allclose(up, mlp.UP)
    shut = abs(passed[1]) < SAME
    return {
        "opened": equals(inside.opened, m),
        "up": equals(made, m),
        "passes": equals(passed, n),
        "y": equals(inside.output),
        "passes_1": numeral(float(passed[1]), ".4f"),
        "gate_shut": Check(
            bool(shut and unchanged),
            "It is shut, but x or Up was changed too. Put them back." if shut else "",
        ),
    }


def gate_sizes(_book: Book) -> None:
    """Draw the parameters of the MLP in both forms."""
    C = pick("Channels C", parameters.GATE_C, [768, 1024, 4096])
    output.table(
        mlp.forms(C),
        "The MLP in both forms, by its channels",
        formats={"parameters": "localized"},
        of_run=False,
    )


def rotation(book: Book) -> dict[str, Any]:
    """Draw a query and a key, rotated by their positions and shifted together."""
    columns, moves = ("x₀", "y₀", "x₁", "y₁"), [0, 1, 2, 5, 10, 100, 1000]
    left, right = st.columns([2, 3], gap="large")
    with left:
        start = after_gpt2.ROPE_QUERY, after_gpt2.ROPE_KEY
        both = Table(parameters.ROPE_QK, "Query and key", start, "qk", columns).draw()
        at, key_at, move = (
            st.select_slider(label, **address.choice(parameter, options))
            for label, parameter, options in (
                ("Query at", parameters.ROPE_Q, range(33)),
                ("Key at", parameters.ROPE_K, range(33)),
                ("Move both by", parameters.ROPE_MOVE, moves),
            )
        )
    q, k = both
    turned = after_gpt2.rotate(both, [at + move, key_at + move])
    before, after = (after_gpt2.rotary_score(q, k, at + by, key_at + by) for by in (0, move))
    rows = ("q", "k", f"q at {at + move}", f"k at {key_at + move}")
    panel = vectors("before and after turning", [*both, *turned], rows, columns, ("", ""))
    picture("rope_turned", [panel], height=250, slot=right)
    first, second = np.asarray(after_gpt2.rotary_angles([1], 4))[0]
    return {
        "both": both,
        "theta_0": equals(first),
        "theta_1": equals(second),
        "at": at,
        "key_at": key_at,
        "score": equals(before),
        "at_moved": at + move,
        "key_at_moved": key_at + move,
        "score_moved": equals(after),
        "move": f"{move:,}",
        "apart": abs(at - key_at),
        "score_gap": difference(abs(after - before)),
        "later": key_at > at,
    }


def score_by_distance(book: Book) -> None:
    """Draw the score of the query and the key at every distance."""
    furthest, (q, k) = 64, book.values["both"]
    curves(
        "rope_distance",
        "Score by distance",
        range(furthest + 1),
        {"q · k": after_gpt2.score_by_distance(q, k, furthest)},
        ("tokens from the key to the query", "score"),
    )


def groups(book: Book) -> dict[str, Any]:
    """Draw four query heads that share keys and values in groups."""
    nh, hs = 4, 2
    left, right = st.columns([2, 5], gap="large")
    with left:
        x = Table(parameters.GROUP_X, "x: four words", attention.SENTENCE_X, _WORDS, PLANE).draw()
        groups = pick("Groups", parameters.GROUPS, [1, 2, 3, 4])
    values = {"groups": groups, "words": len(x), "hs": hs}
    w_q, w_k, w_v = after_gpt2.random_heads(nh, hs, x.shape[1])
    try:
        k, v = after_gpt2.pool(w_k, groups), after_gpt2.pool(w_v, groups)
        steps, group_of = after_gpt2.share(x, w_q, k, v)
    except heads.ShapeError as error:
        st.error(str(error), icon=":material/error:")
        return values | {"divides": False}
    hidden = steps.masked_scores[0].isneginf()
    panels = [
        pairs(f"head {n}, group {group}", steps.weights[n], _WORDS, "attention weight", hidden)
        for n, group in enumerate(group_of)
    ]
    picture("group_weights", panels, "unit", height=260, slot=right)
    return values | {"divides": True}


def group_bytes(book: Book) -> dict[str, Any]:
    """Return the cache's bytes in the small case, and in GPT-2 small by number of groups."""
    groups, words, hs = (book.values[name] for name in ("groups", "words", "hs"))
    by_groups = {n: after_gpt2.cache_bytes(1024, n, 64, n_layer=12) for n in (12, 6, 4, 3, 2, 1)}
    return {
        "few_bytes": after_gpt2.cache_bytes(words, groups, hs, width=4),
        "by_groups": by_groups,
        "all_bytes": f"{by_groups[12]:,}".replace(",", "{,}"),
    }


def group_sizes(book: Book) -> None:
    """Draw a table of what GPT-2 small would cache, by groups."""
    by_groups = book.values["by_groups"]
    output.table(
        {
            "groups": list(by_groups),
            "query heads in each": [12 // n for n in by_groups],
            "megabytes kept": [n_bytes / 1e6 for n_bytes in by_groups.values()],
        },
        "What GPT-2 small would keep, by groups",
        formats={"megabytes kept": "%.1f"},
        of_run=False,
    )


def three_ways(_book: Book) -> dict[str, str]:
    """Run three ways to the same outputs on random numbers, and show their memory and time."""
    left, right = st.columns(2)
    T = pick("Tokens T", parameters.FLASH_T, [64, 256, 1024], left)
    size = pick("Keys of a tile", parameters.FLASH_SIZE, [16, 64, 256], right)
    runs = after_gpt2.run_three(T, size)
    gap = max(largest_gap(run.output, runs["explicit"].output) for run in runs.values())
    output.table(
        {
            "way": list(runs),
            "largest table of scores, in bytes": [run.largest for run in runs.values()],
            "milliseconds, just now": [1000 * run.seconds for run in runs.values()],
        },
        "Three ways to the same outputs",
        placeholder="–",
        of_run=False,
        formats={
            "largest table of scores, in bytes": "localized",
            "milliseconds, just now": "%.1f",
        },
    )
    return {"ways_gap": difference(gap)}


def sink(book: Book) -> dict[str, Any]:
    """Draw a head that attends mostly to the first token, and the same head without that token."""
    left, right = st.columns([2, 3], gap="large")
    with left:
        scores = Table(
            parameters.SINK_SCORES, "Scores of fish", after_gpt2.SINK_SCORES, ("fish",), _WORDS
        ).draw()[0]
        values = Table(
            parameters.SINK_VALUES, "Values", after_gpt2.SINK_VALUES, _WORDS, PLANE
        ).draw()
        forget = st.toggle("Drop the first token", **address.switch(parameters.SINK_DROP))
    weights, output = after_gpt2.attend_once(scores, values, forget)
    panel = vectors("weights of fish", weights, ("fish",), _WORDS, ("query", "key"))
    picture("sink_weights", [panel], "unit", height=170, slot=right)
    n = decimals(weights, lambda w: w @ values, output)
    rests = float(weights[0]) > 0.9
    unchanged = scores[0] == np.float32(after_gpt2.SINK_SCORES[0]) and np.allclose(
        values, after_gpt2.SINK_VALUES
    )
    note = ""
    if forget:
        note = "The first token is dropped. Switch that off."
    elif rests:
        note = "It rests there, but the score of “A” or a value was changed. Put that back."
    return {
        "weights": equals(weights, n),
        "output": equals(output),
        "length": f"{float(output.norm()):.2f}",
        "on_a": f"{float(weights[0]):.2f}",
        "sink_rest": Check(rests and bool(unchanged) and not forget, note),
    }


def real_sinks(book: Book) -> dict[str, Any]:
    """Draw each head's mean weight on the sentence's first token."""
    trace, n = book.view.trace, len(book.view.labels)
    if n == 1:
        return {"alone": True, "surveyed": False}
    targets = first_token(trace.token_ids)
    layers = range(trace.config.n_layer)
    on_first = np.stack([weight_on(trace.stage("weights", layer)[0], targets) for layer in layers])
    drawn = head_map(on_first, "mean weight on the first token")
    picture("sink_heads", [drawn], "unit", height=260, of_run=True)
    name, most = _largest_head(on_first)
    values = {
        "alone": False,
        "head": name,
        "later_tokens": pluralize(n - 1, "tokens"),
        "most": most,
        "even": _even_share(trace, name, n, trace.causal),
    }
    across = measures.survey(book.view)
    if across is None or "first token" not in across.mean:
        return values | {"surveyed": False}
    name, most = _largest_head(across.mean["first token"])
    return values | {
        "surveyed": True,
        "passages": pluralize(across.n_passages, "passages"),
        "passage_tokens": across.n_tokens,
        "survey_head": name,
        "survey_most": most,
        "survey_even": _even_share(trace, name, across.n_tokens, True),
    }


def _largest_head(by_head: NDArray[np.floating]) -> tuple[str, str]:
    """Return the head with the largest of these numbers, (n_layer, nh), and that number."""
    layer, head = np.unravel_index(np.nan_to_num(by_head).argmax(), by_head.shape)
    return f"{layer}.{head}", f"{by_head[layer, head]:.2f}"


def _even_share(trace: Trace, head: str, n: int, causal: bool) -> str:
    """Return the mean weight on the first of n tokens if a ``head``, "1.3", spreads it evenly."""
    window = trace.config.window(int(head.partition(".")[0]))
    seen = ~hidden_pairs(np.arange(n), causal, window=window)[1:]
    return f"{(seen[:, 0] / seen.sum(axis=1)).mean():.2f}"

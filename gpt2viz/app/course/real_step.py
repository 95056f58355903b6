"""A chapter's step in the chosen model, with a link to the page that shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz import sampling_distribution
from gpt2viz.analysis.cell import HeadCell, cell_arithmetic
from gpt2viz.app import address, pages, parameters, run_cache
from gpt2viz.app.course.parts import Book, link, picture, vectors
from gpt2viz.app.course.written import bracket, decimals, equals, latex_decimals
from gpt2viz.app.frame import controls
from gpt2viz.app.literal import literal
from gpt2viz.app.parameters import Parameter
from gpt2viz.app.view import View
from gpt2viz.app.views.head import strongest_key
from gpt2viz.app.views.measures import draw_weights
from gpt2viz.arrays import Array, largest
from gpt2viz.labels import numeral, percent, pluralize
from gpt2viz.model.transformer import Norm
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE
from gpt2viz.run.stages import StageName
from gpt2viz.textbook.after_gpt2 import cache_bytes
from gpt2viz.textbook.embeddings import cosines, nearest, table_of
from gpt2viz.textbook.mlp import gated_at, neurons_at

#: The effect of choosing a token.
CHOOSING = "Choose the token that is followed."
#: How many numbers of a vector, and how many next tokens, fit on screen.
_SHOWN, _TOP = 8, 5
#: Most tokens whose names are horizontal below a picture; with more they are vertical and taller.
_FEW = 12


def _quote(view: View, position: int) -> str:
    return f"“{literal(view.labels[position])}”"


def _format(number: float) -> str:
    return numeral(number, ".3f")


def cell_of(view: View, layer: int, head: int) -> HeadCell:
    """Return the followed token's cell in a head, at the key of its largest weight."""
    query = view.position
    return HeadCell(layer, head, query, strongest_key(view, layer, head, query))


def _followed_cell(book: Book, layer: int, head: int) -> HeadCell:
    """Return the followed token's cell in a head, and put its parts into the book's values."""
    view = book.view
    at = cell_of(view, layer, head)
    book.values.update(at._asdict(), asks=_quote(view, at.query), looked=_quote(view, at.key))
    return at


def choices_of(at: HeadCell) -> dict[Parameter, Any]:
    """Return the choices that frame a cell: its layer, head, query and key."""
    return {parameters.NAMED[name]: n for name, n in at._asdict().items()}


def link_to_cell(view: View, at: HeadCell) -> None:
    """Draw a link to the head, with the cell framed in each of its pictures."""
    label = f"The cell of {_quote(view, at.query)} and {_quote(view, at.key)} on the page Head"
    link(pages.HEAD, label, {parameters.SEE: "run", **choices_of(at)})


def _draw_first(key: str, title: str, rows: Mapping[str, ArrayLike]) -> None:
    """Draw the first numbers of some vectors, a row each, at most as many as the shortest has."""
    size = min(_SHOWN, *map(np.size, rows.values()))
    values = np.stack([np.asarray(row)[:size] for row in rows.values()])
    columns = [f"{n}" for n in range(size)]
    across, down = Axis("channel", columns), Axis("", tuple(rows), numbered=False)
    panel = Panel(title, values, down, across, name=title, quantity="value")
    picture(key, [panel], height=90 + 32 * len(values), of_run=True)


def _sum(parts: Sequence[float], total: float) -> str:
    """Return the sum of the first channel in LaTeX."""
    n = decimals(parts, np.sum, total)
    added = " + ".join(bracket(latex_decimals(part, n)) for part in parts)
    return rf"\text{{channel }} 0\text{{: }} {added} {equals(total)}"


def _row(view: View, stage: StageName, layer: int | None = None) -> Array:
    """Return a stage's vector (C,) of the followed token."""
    vector: Array = view.trace.stage(stage, layer)[0][view.position]
    return vector


def _stream_before(view: View, layer: int) -> Array:
    """Return the stream (C,) of the followed token, as a layer reads it."""
    return _row(view, "residual_out", layer - 1) if layer else _row(view, "embedding")


def tokens(book: Book, text: str) -> None:
    """Draw the text on the token table's row of the followed token."""
    view, n = book.view, book.view.position
    begins = _format(_row(view, "token_embedding")[0])
    id = f"{view.trace.token_ids[n]:,}"
    book.write(text, followed=_quote(view, n), id=id, begins=begins)


def order(book: Book, text: str) -> dict[str, str]:
    """Draw the token's vector, its position's, and their sum."""
    view, n = book.view, book.view.position
    token, total = _row(view, "token_embedding"), _row(view, "embedding")
    position = view.trace.stage("position_embedding")[n]
    book.write(text, followed=_quote(view, n), n=n)
    rows = {"token": token, "position": position, "sum x": total}
    _draw_first("real_order", "the stream's start", rows)
    # A copy: PyTorch doesn't support read-only arrays.
    tokens = np.array(view.trace.stage("token_embedding")[0])
    alike = cosines(tokens, np.array(view.trace.stage("position_embedding"))).abs().mean()
    return {"sum": _sum([token[0], position[0]], total[0]), "alike": f"{alike:.2f}"}


def crane(book: Book, text: str) -> None:
    """Draw the query and its best-matching key, and their score."""
    view = book.view
    at = _followed_cell(book, *controls.layer_and_head(view))
    q, k = view.trace.stage("q", *at[:2])[at.query], view.trace.stage("k", *at[:2])[at.key]
    score = view.trace.stage("scores", *at[:2])[at.query, at.key]
    with np.errstate(all="ignore"):  # the page warns of overflows above
        product = q * k
    alone = view.n_tokens == 1 or (view.trace.causal and at.query == 0)
    book.write(text, alone=alone, size=len(q), score=_format(score))
    _draw_first("real_qk", "query and key", {"query": q, "key": k, "product": product})


def by_hand(book: Book, text: str) -> None:
    """Draw raw and scaled scores."""
    view = book.view
    at = _followed_cell(book, *controls.layer_and_head(view))
    config = view.trace.config
    raw, scaled = (
        view.trace.stage(stage, *at[:2])[at.query] for stage in ("scores", "scaled_scores")
    )
    further = config.layer_divisor(at.layer)
    root = rf"\sqrt{{{config.head_dim}}}"
    divisor = root if further == 1 else rf"({root} \cdot {further})"
    book.write(text)
    size = config.head_dim**0.5 * further
    n = decimals(raw[at.key], lambda score: score / size, scaled[at.key])
    st.latex(rf"{latex_decimals(raw[at.key], n)} / {divisor} {equals(scaled[at.key])}")
    names = ("raw scores", "scaled scores")
    panel = vectors("scores", [raw, scaled], names, view.labels, ("", "key"))
    picture("real_scaled", [panel], height=150 if view.n_tokens <= _FEW else 230, of_run=True)


def mask(book: Book, text: str) -> None:
    """Draw the weights, with the mask on or off."""
    view = book.view
    at = _followed_cell(book, *controls.layer_and_head(view))
    weight = _format(view.trace.stage("weights", *at[:2])[at.query, at.key])
    book.write(text, on=view.trace.causal, weight=weight)
    draw_weights(
        view,
        at.layer,
        at.head,
        key="real_mask",
        height=380,
        numbers=NUMBERS_FIT_LARGE,
        column=at.key,
    )


def heads(book: Book, text: str) -> dict[str, bool]:
    """Draw the outputs of a layer's heads, and W_O's output; return whether dropout follows it."""
    view = book.view
    at = _followed_cell(book, address.get(parameters.LAYER), address.get(parameters.HEAD))
    config, outputs = view.trace.config, view.trace.stage("head_output", at.layer)[0][:, at.query]
    book.write(
        text,
        size=config.head_dim,
        nh=pluralize(config.n_head, "heads"),
        merged=config.n_head * config.head_dim,
        begins=_format(outputs[at.head, 0]),
    )
    rows = {f"head {n}": row for n, row in enumerate(outputs)}
    rows["added"] = _row(view, "attention_output", at.layer)
    _draw_first("real_outputs", "outputs of the heads", rows)
    return {"drops": "projected" in view.trace.graph}


def mlp(book: Book, text: str) -> None:
    """Draw the stream before a layer's MLP, and what the MLP adds."""
    view, (layer, _) = book.view, controls.layer_and_head(book.view)
    book.write(text, followed=_quote(view, view.position), layer=layer)
    stream, adds = _row(view, "residual_mid", layer), _row(view, "mlp_output", layer)
    rows = {"x + attention": stream, "MLP adds": adds}
    _draw_first("real_mlp", f"the MLP of layer {layer}", rows)


def neurons(book: Book, text: str) -> dict[str, str]:
    """Draw the neurons furthest from 0, and what they add to a channel."""
    view, layer = book.view, book.values["layer"]
    stream, adds = _row(view, "residual_mid", layer), _row(view, "mlp_output", layer)
    inside = neurons_at(view.model, layer, stream)
    best = largest(abs(inside.bent), _SHOWN)
    book.write(
        text,
        neurons=pluralize(len(inside.bent), "neurons"),
        above=f"{(inside.widened > 0).sum():,}",
        shown=len(best),
    )
    columns = [f"{n}" for n in best]
    values = [inside.widened[best], inside.bent[best]]
    names = ("widened", "bent")
    panel = vectors("the strongest neurons", values, names, columns, ("", "neuron"))
    picture("real_neurons", [panel], height=150, of_run=True)
    parts = inside.back[0] * inside.bent
    strong = float(parts[best].sum(dtype=float))
    rest = float(parts.sum(dtype=float)) - strong
    return {"sum": _sum([strong, rest, float(inside.bias[0])], float(adds[0]))}


def most_active_neuron(book: Book, text: str) -> None:
    """Draw the token's most active neuron: on which tokens it fires, and what it writes."""
    view, layer = book.view, book.values["layer"]
    inside = neurons_at(view.model, layer, view.trace.stage("residual_mid", layer)[0])
    neuron = int(np.nan_to_num(inside.bent[view.position]).argmax())
    (alike,) = cosines(table_of(view.model), inside.back[:, [neuron]].T)
    near = nearest(alike, _TOP)
    names = run_cache.vocabulary(view.model.name)
    book.write(text, neuron=neuron, writes=", ".join(f"“{literal(names[n.id])}”" for n in near))
    fires = inside.bent[:, neuron]
    panel = vectors("where it fires", [fires], (f"neuron {neuron}",), view.labels, ("", "token"))
    picture("real_fires", [panel], height=120 if view.n_tokens <= _FEW else 200, of_run=True)


def residual(book: Book, text: str) -> dict[str, str]:
    """Draw the stream before and after a layer, and what the layer adds."""
    view, (layer, _) = book.view, controls.layer_and_head(book.view)
    book.write(text, followed=_quote(view, view.position), layer=layer)
    rows = {
        "before": _stream_before(view, layer),
        "attention": _row(view, "attention_output", layer),
        "MLP": _row(view, "mlp_output", layer),
        "after": _row(view, "residual_out", layer),
    }
    _draw_first("real_stream", f"the stream in layer {layer}", rows)
    *parts, total = (float(row[0]) for row in rows.values())
    streams = view.trace.graph["residual_mid"].path(layer).removesuffix("_mid")
    return {"sum": _sum(parts, total), "streams": streams}


def next_word(book: Book, text: str) -> dict[str, int]:
    """Draw the highest logits after the token."""
    view, n = book.view, book.view.position
    logits, names = view.trace.logits_at(n), run_cache.vocabulary(view.model.name)
    best = largest(np.nan_to_num(logits), _TOP)
    book.write(
        text,
        followed=_quote(view, n),
        count=f"{len(logits):,}",
        first=literal(names[int(best[0])]),
        chance=percent(sampling_distribution(logits)[best[0]], 1),
    )
    words = [names[int(id)] for id in best]
    panel = vectors("highest logits", [logits[best]], ("logit",), words, ("", "next word"))
    picture("real_logits", [panel], height=120, of_run=True)
    return {"n": n}


def rms_norm(book: Book, text: str) -> dict[str, str]:
    """Draw the stream before a layer of a Llama model, and the norm's steps there."""
    view, (layer, _) = book.view, controls.layer_and_head(book.view)
    book.write(text, followed=_quote(view, view.position), layer=layer)
    x = _stream_before(view, layer).astype(float)
    norm = Norm.of(view.model.network.blocks[layer].attention_norm)
    with np.errstate(all="ignore"):  # the page warns of overflows above
        rms = float(norm.sigma(x))
        normed = x / rms
        before, after = _format(x.mean()), _format(normed.mean())
    rows = {"x": x, "x / RMS": normed, "times γ": normed * norm.gain}
    _draw_first("real_norm", f"the norm before layer {layer}", rows)
    return {"rms": _format(rms), "mean_before": before, "mean_after": after}


def gate(book: Book, text: str) -> dict[str, Any]:
    """Draw the channels of a gated MLP with the largest outputs."""
    view, (layer, _) = book.view, controls.layer_and_head(book.view)
    inside = gated_at(view.model, layer, _row(view, "residual_mid", layer))
    best = largest(abs(inside.passed.numpy()), _SHOWN)
    book.write(text, followed=_quote(view, view.position), layer=layer, shown=len(best))
    curve = type(view.model.network.layers[layer].mlp.act_fn).__name__
    rows = ("gate", f"{curve}(gate)", "up", "passes")
    values = np.stack([part.numpy()[best] for part in inside[:4]])
    panel = vectors("what passes most", values, rows, [f"{n}" for n in best], ("", "channel"))
    picture("real_gate", [panel], height=210, of_run=True)
    return {
        "channel": best[0],
        "passed": _format(values[-1, 0]),
        "shut": percent(float((inside.gate < 0).float().mean())),
    }


def turn(book: Book) -> dict[str, Any]:
    """Return the product of a query and its best-matching key, before and after their rotation."""
    view = book.view
    at = _followed_cell(book, *controls.layer_and_head(view))
    arithmetic = cell_arithmetic(view.trace, *at)
    q, k = arithmetic.unrotated
    return {
        "unrotated": _format(float(q @ k)),
        "turned": _format(arithmetic.model_score),
        "away": pluralize(abs(at.query - at.key), "tokens"),
        "itself": at.query == at.key,
    }


def groups(book: Book) -> dict[str, Any]:
    """Return the heads of each group, and the bytes of the sentence's keys and values."""
    view, (layer, head) = book.view, controls.layer_and_head(book.view)
    config, T = view.model.config, view.n_tokens
    shared = config.n_head // config.n_kv_head
    *others, last = (f"{n} to {n + shared - 1}" for n in range(0, config.n_head, shared))
    few, many = (
        f"{cache_bytes(T, n, config.head_dim, config.n_layer, width=4):,}"
        for n in (config.n_kv_head, config.n_head)
    )
    return {
        "layer": layer,
        "head": head,
        "reader": literal(view.model.name),
        "n_heads": pluralize(config.n_head, "heads"),
        "n_groups": pluralize(config.n_kv_head, "groups"),
        "share": shared > 1,
        "sharing": f"{', '.join(others)} and {last}" if others else last,
        "tokens": pluralize(T, "tokens"),
        "few": few,
        "many": many,
    }

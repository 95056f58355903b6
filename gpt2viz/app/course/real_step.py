"""A chapter's step in the model that the reader has chosen, with a link to where it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz import Trace, sampling_distribution
from gpt2viz.analysis.cell import Step
from gpt2viz.app import address, pages, parameters, prose, run_cache
from gpt2viz.app.course.parts import Book, code, link, picture, vectors
from gpt2viz.app.course.written import bracketed, enough, equals, spelled
from gpt2viz.app.frame import controls
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View
from gpt2viz.app.views.head import hardest_key
from gpt2viz.app.views.measures import draw_weights
from gpt2viz.arrays import Array
from gpt2viz.labels import pluralize, signed
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE
from gpt2viz.run.stages import StageName
from gpt2viz.textbook import mlp

#: What the chips above do.
CHOOSING = "Choose the token that is followed."
#: Numbers of a vector, and tokens that may come next, that fit on screen.
_SHOWN, _TOP = 8, 5
#: Tokens whose names stand level below a picture; those of more stand upright, and need room.
_FEW = 12


def _followed(view: View) -> int:
    """The place of the token that is followed: the chosen one, else the last."""
    return view.n_tokens - 1 if view.query is None else view.query


def _written(view: View, position: int) -> str:
    return f"“{literal(view.labels[position])}”"


def _rounded(number: float) -> str:
    return signed(number, ".3f")


def _cell(view: View) -> Step:
    """The cell that is followed: in the head that every page shows, at its hardest key."""
    layer, head = controls.layer_and_head(view)
    return cell_of(view, layer, head)


def cell_of(view: View, layer: int, head: int) -> Step:
    """The cell of the followed token in a head: at the key that it looks at hardest."""
    query = _followed(view)
    return Step(layer, head, query, hardest_key(view, layer, head, query))


def to_cell(view: View, at: Step) -> None:
    """A link to the head, with the cell framed in each of its pictures."""
    both = f"{_written(view, at.query)} and {_written(view, at.key)}"
    link(
        pages.HEAD,
        f"The cell of {both} on the page Head",
        {
            parameters.SEE: "run",
            parameters.LAYER: at.layer,
            parameters.HEAD: at.head,
            parameters.QUERY: at.query,
            parameters.KEY: at.key,
        },
    )


def to_shapes(label: str, tensor: str) -> None:
    """A link to a tensor by its name, in the list of all."""
    link(pages.SHAPES, label, {parameters.FILTER: tensor})


def _first(book: Book, key: str, title: str, rows: Mapping[str, ArrayLike]) -> None:
    """The first numbers of some vectors, a row each; as many as the shortest has."""
    size = min(_SHOWN, *map(np.size, rows.values()))
    values = np.stack([np.asarray(row)[:size] for row in rows.values()])
    columns = [f"{n}" for n in range(size)]
    across, down = Axis("channel", columns), Axis("", tuple(rows), numbered=False)
    panel = Panel(title, values, down, across, name=title, quantity="value")
    picture(book, key, [panel], height=90 + 32 * len(values))


def _sum(parts: Sequence[float], total: float) -> None:
    """The first channel, added up."""
    n = enough(parts, np.sum, total)
    added = " + ".join(bracketed(spelled(part, n)) for part in parts)
    st.latex(rf"\text{{channel }} 0\text{{: }} {added} {equals(total)}")


def _lines(view: View, layer: int | None, *stages: str) -> None:
    """The lines of the model that made what is drawn."""
    code(*(Line(view.trace, stage, layer) for stage in stages))


def _row(view: View, stage: StageName, layer: int | None = None) -> Array:
    """The vector (C,) of the token that is followed."""
    vector: Array = view.trace.stage(stage, layer)[0][_followed(view)]
    return vector


def _tokens(book: Book) -> None:
    view, n = book.view, _followed(book.view)
    id, row = view.trace.token_ids[n], _row(book.view, "token_embedding")
    prose.markdown(
        f"In your sentence, {_written(view, n)} has the id **{id:,}**. So its vector is row {id:,} "
        f"of the table, which begins with {_rounded(row[0])}."
    )
    to_shapes("The token vectors among all tensors", "token_embedding")


def _order(book: Book) -> None:
    view, n = book.view, _followed(book.view)
    token, total = _row(view, "token_embedding"), _row(view, "embedding")
    position = view.trace.stage("position_embedding")[n]
    prose.markdown(
        f"{_written(view, n)} stands at position **{n}**. The first numbers of its token vector, "
        "of its position vector, and of their sum:"
    )
    rows = {"token": token, "position": position, "sum x": total}
    _first(book, "real_order", "the stream's start", rows)
    _sum([token[0], position[0]], total[0])
    _lines(view, None, "token_embedding", "position_embedding", "embedding")
    to_shapes("The vectors and their sums among all tensors", "embedding")


def _crane(book: Book) -> None:
    view, at = book.view, _cell(book.view)
    q, k = view.trace.stage("q", *at[:2])[at.query], view.trace.stage("k", *at[:2])[at.key]
    score = view.trace.stage("scores", *at[:2])[at.query, at.key]
    with np.errstate(all="ignore"):  # what float32 can't hold, the page has said above
        product = q * k
    alone = view.n_tokens == 1 or (view.trace.causal and at.query == 0)
    looks = "sees only itself" if alone else f"looks hardest at {_written(view, at.key)}"
    prose.markdown(
        "The real model does this in many places at once; later chapters show how. In one place "
        f"{_written(view, at.query)} {looks}. Query and key "
        f"have {len(q)} numbers there. The sum of all {len(q)} products is the score, "
        f"**{_rounded(score)}**."
    )
    _first(book, "real_qk", "query and key", {"query": q, "key": k, "product": product})
    _lines(view, at.layer, "q", "k", "scores")
    to_cell(view, at)


def _by_hand(book: Book) -> None:
    view, at = book.view, _cell(book.view)
    config = view.trace.config
    raw, scaled = (
        view.trace.stage(stage, *at[:2])[at.query] for stage in ("scores", "scaled_scores")
    )
    further = config.layer_divisor(at.layer)
    divisor = rf"(\sqrt{{{config.head_dim}}} \cdot {further})"
    if further == 1:
        divisor = rf"\sqrt{{{config.head_dim}}}"
    prose.markdown(
        f"All scores of {_written(view, at.query)} in the same place, raw and scaled. For "
        f"{_written(view, at.key)}:"
    )
    size = config.head_dim**0.5 * further
    n = enough(raw[at.key], lambda score: score / size, scaled[at.key])
    st.latex(rf"{spelled(raw[at.key], n)} / {divisor} {equals(scaled[at.key])}")
    names = ("raw scores", "scaled scores")
    panel = vectors("scores", [raw, scaled], names, view.labels, ("", "key"))
    picture(book, "real_scaled", [panel], height=150 if view.n_tokens <= _FEW else 230)
    _lines(view, at.layer, "scores", "scaled_scores")
    to_cell(view, at)


def _mask(book: Book) -> None:
    view, at = book.view, _cell(book.view)
    weight = view.trace.stage("weights", *at[:2])[at.query, at.key]
    state = "with the mask on" if view.trace.causal else "with the mask off"
    prose.markdown(
        f"The weights in the same place, {state}; the switch is above, from this chapter on. "
        f"{_written(view, at.query)} gives {_written(view, at.key)} **{_rounded(weight)}**."
    )
    draw_weights(
        view,
        at.layer,
        at.head,
        key="real_mask",
        height=380,
        numbers=NUMBERS_FIT_LARGE,
        column=at.key,
    )
    to_cell(view, at)


def _heads(book: Book) -> None:
    view = book.view
    at = cell_of(view, address.get(parameters.LAYER), address.get(parameters.HEAD))
    config, outputs = view.trace.config, view.trace.stage("head_output", at.layer)[0][:, at.query]
    added = _row(view, "attention_output", at.layer)
    prose.markdown(
        f"In layer {at.layer}, {_written(view, at.query)} gets {config.head_dim} numbers from each "
        f"of {pluralize(config.n_head, 'heads')}: side by side, {config.n_embd}. From them $W_O$ "
        f"makes what attention adds. The first numbers of each are drawn; those of head {at.head} "
        f"begin with {_rounded(outputs[at.head, 0])}."
    )
    rows = {f"head {n}": row for n, row in enumerate(outputs)} | {"added": added}
    _first(book, "real_outputs", "outputs of the heads", rows)
    _lines(view, at.layer, "head_output", "projected")
    to_cell(view, at)


def _mlp(book: Book) -> None:
    view, (layer, _) = book.view, controls.layer_and_head(book.view)
    n = _followed(view)
    prose.markdown(
        f"What {_written(view, n)} has after the attention of layer {layer}, and what the MLP of "
        "that layer adds:"
    )
    stream, adds = _row(view, "residual_mid", layer), _row(view, "mlp_output", layer)
    rows = {"x + attention": stream, "MLP adds": adds}
    _first(book, "real_mlp", f"the MLP of layer {layer}", rows)
    _lines(view, layer, "residual_mid", "mlp_in", "mlp_act", "mlp_projected")
    inside = mlp.neurons_at(view.model, layer, stream)
    best = inside.strongest(_SHOWN)
    prose.markdown(
        f"In the middle are {pluralize(len(inside.bent), 'neurons')}. Before the curve, "
        f"{(inside.widened > 0).sum():,} are above 0. These {len(best)} are furthest from 0 after "
        "it:"
    )
    columns = [f"{n}" for n in best]
    values = [inside.widened[best], inside.bent[best]]
    names = ("widened", "bent")
    panel = vectors("the strongest neurons", values, names, columns, ("", "neuron"))
    picture(book, "real_neurons", [panel], height=150)
    prose.markdown(
        "What is added to channel 0: the part of these, that of all others, and the bias."
    )
    parts = inside.back[0] * inside.bent
    strong = float(parts[best].sum(dtype=float))
    rest = float(parts.sum(dtype=float)) - strong
    _sum([strong, rest, float(inside.bias[0])], float(adds[0]))
    code(mlp.neurons_at)
    to_shapes(f"The MLP of layer {layer} among all tensors", f"h.{layer}.mlp")


def _residual(book: Book) -> None:
    view, (layer, _) = book.view, controls.layer_and_head(book.view)
    n = _followed(view)
    before = _row(view, "residual_out", layer - 1) if layer else _row(view, "embedding")
    rows = {
        "before": before,
        "attention": _row(view, "attention_output", layer),
        "MLP": _row(view, "mlp_output", layer),
        "after": _row(view, "residual_out", layer),
    }
    prose.markdown(
        f"The stream of {_written(view, n)} before layer {layer}, what the layer adds to it, and "
        "the stream after it:"
    )
    _first(book, "real_stream", f"the stream in layer {layer}", rows)
    *parts, total = (float(row[0]) for row in rows.values())
    _sum(parts, total)
    _lines(view, layer, "residual_mid", "residual_out")
    to_shapes(f"The stream in layer {layer} among all tensors", f"h.{layer}.residual")


def _next_word(book: Book) -> None:
    view, n = book.view, _followed(book.view)
    logits, names = view.trace.logits_at(n), run_cache.vocabulary(view.model.name)
    chances = sampling_distribution(logits)
    best = np.argsort(-np.nan_to_num(logits), kind="stable")[:_TOP]
    first = int(best[0])
    prose.markdown(
        f"The highest logits after {_written(view, n)}, of {len(logits):,}. Softmax gives "
        f"“{literal(names[first])}” **{chances[first]:.1%}**."
    )
    words = [names[int(id)] for id in best]
    panel = vectors("highest logits", [logits[best]], ("logit",), words, ("", "next word"))
    picture(book, "real_logits", [panel], height=120)
    code(Trace.logits_at, sampling_distribution)
    link(
        pages.PREDICT,
        "All of it, on Predict",
        {parameters.PREDICT: "next", parameters.QUERY: n},
    )


STEPS: Mapping[str, Callable[[Book], None]] = {
    "tokens": _tokens,
    "order": _order,
    "crane": _crane,
    "by-hand": _by_hand,
    "mask": _mask,
    "heads": _heads,
    "mlp": _mlp,
    "residual": _residual,
    "next-word": _next_word,
}

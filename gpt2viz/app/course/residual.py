"""The stream, LayerNorm and small initial parameters, which let many layers work together."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from gpt2viz.app import parameters
from gpt2viz.app.course.parts import Book, curves, pick, picture, play, vectors
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.tables import Table
from gpt2viz.app.course.written import decimals, equals
from gpt2viz.labels import bidi_isolate, label, power_of_ten
from gpt2viz.pictures import frames
from gpt2viz.pictures.frames import Stop, block_number
from gpt2viz.textbook import residual

_FOUR = ("0", "1", "2", "3")
_DEPTHS = [2, 6, 12, 24, 48]


def stream(book: Book) -> dict[str, Any]:
    """Draw a stream to which a layer adds."""
    names = ("x", "f(x)")
    left, right = st.columns(2, gap="large")
    with left:
        start = (residual.STREAM, residual.ADDED)
        both = Table(parameters.STREAM, "The stream, and what is added", start, names, _FOUR).draw()
    total = residual.add(both[0], both[1])
    panel = vectors("x + f(x)", [*both, total], (*names, "sum"), _FOUR, ("", "channel"))
    picture("stream_picture", [panel], height=210, slot=right)
    erased = bool(abs(np.asarray(total)).max() < 1e-6)
    unchanged = bool(np.allclose(both[0], residual.STREAM))
    note = "The sum is 0, but x was changed too. Put it back." if erased else ""
    return {"total": equals(total), "stream_erase": Check(erased and unchanged, note)}


def flow(book: Book) -> None:
    """Draw a token of the sentence passing through the model above."""
    view = book.view
    stops = residual.stops(view.model, view.trace, view.position)
    name, tokenizer = bidi_isolate(view.labels[view.position]), view.model.tokenizer
    stations = []
    for n, stop in enumerate(stops):
        ids, alike = zip(*stop.nearest, strict=True)
        texts = [label(tokenizer.token_bytes(id)) for id in ids]
        added, length = (float(np.linalg.norm(x.astype(float))) for x in (stop.added, stop.stream))
        near = f"Nearest row: “{bidi_isolate(texts[0])}”, cosine {block_number(alike[0])}."
        stations.append(
            Stop(
                f"“{name}”: {_caption(stop, added, length)} {near}",
                added,
                length,
                stop.cosine if n else None,
                list(zip(ids, texts, strict=True)),
                list(alike),
            )
        )
    play(frames.way_through(stations), parameters.STREAM_STEP, of_run=True)


def _caption(stop: residual.Stop, added: float, length: float) -> str:
    if stop.key == "token_embedding":
        return f"its row of the token table, length {block_number(length)}."
    part = {"embedding": "its position", "residual_mid": "attention", "residual_out": "the MLP"}
    where = "" if stop.layer is None else f"layer {stop.layer}, "
    return (
        f"{where}{part[stop.key]} adds a vector of length {block_number(added)}. The stream is now "
        f"{block_number(length)} long; cosine to before {block_number(stop.cosine)}."
    )


def lane(book: Book) -> dict[str, str]:
    """Draw the gradient that arrives at each layer, in four stacks of the same parts."""
    depth = pick("Layers", parameters.LANE_DEPTH, _DEPTHS)
    gradients = {lane: residual.lane_gradients(depth, lane) for lane in residual.LANES}
    curves(
        "lane",
        "Gradient at each layer of four stacks, as powers of ten",
        range(depth + 1),
        {name: np.log10(sizes) for name, sizes in gradients.items()},
        ("layer", "log₁₀ of the gradient over that at the end"),
    )
    first, lost, normed, small = (sizes[0] for sizes in gradients.values())
    return {
        "arrives": f"{first:.3g}",
        "without": power_of_ten(lost),
        "normed": f"{normed:.3g}",
        "small": f"{small:.3g}",
    }


def norm(_book: Book) -> dict[str, Any]:
    """Compute LayerNorm line by line; each line follows from those above it and the table."""
    rows = Table(
        parameters.NORM,
        "x, gain and shift",
        (np.add(residual.STREAM, residual.ADDED).round(6), np.ones(4), np.zeros(4)),
        ("x", "gain γ", "shift β"),
        _FOUR,
    ).draw()
    steps = residual.layer_norm(*rows)
    x, gain, shift = rows.astype(float)
    normed, variance = np.asarray(steps.normed, float), float(steps.variance)
    k = decimals(normed, lambda z: z * gain + shift, steps.output)
    centred = np.asarray(steps.centred, float)
    m = decimals(centred, lambda c: c / np.sqrt(variance + residual.EPSILON), normed, k)
    n = decimals(variance, lambda v: centred / np.sqrt(v + residual.EPSILON), normed, m)
    equal, shifted = bool(np.ptp(x) == 0), bool(np.any(shift != 0))
    note = "The shift is added at the end. Put it back to 0." if shifted else "Not four zeros."
    return {
        "mean": equals(steps.mean, decimals(steps.mean, lambda mu: x - mu, centred, n)),
        "variance": equals(variance, n),
        "centred": equals(centred, m),
        "normed": equals(normed, k),
        "output": equals(steps.output),
        "norm_flat": Check(equal and bool(x[0] != 0) and not shifted, note if equal else ""),
    }


def order(book: Book) -> dict[str, Any]:
    """Draw the gradient along the stream with norms before the parts, and with norms after them."""
    depth, orders = 24, ("pre-norm", "post-norm")
    straight = {order: residual.gradients(order, depth, straight=True) for order in orders}
    curves(
        "norm_order",
        "Gradient that comes straight back along the stream, with pre-norm and post-norm",
        range(depth + 1),
        straight,
        ("parts from the start of the stack", "gradient, as a fraction of the end's"),
    )
    pre, post = (f"{residual.gradients(order, depth)[0]:.1f}" for order in orders)
    return {
        "parts": depth,
        "left": f"{straight['post-norm'][0]:.4f}",
        "grown": f"{residual.growth('pre-norm', depth)[-1]:.1f}",
        "pre_norm": pre,
        "post_norm": post,
    }


def depth(_book: Book) -> dict[str, Any]:
    """Pick the number of layers; return how much smaller this makes the initial parameters."""
    n_layer = pick("Layers L", parameters.DEPTH, _DEPTHS)
    return {"n_layer": n_layer, "deviation": equals(residual.first_deviation(n_layer), 5)}


def sizes(book: Book) -> dict[str, Any]:
    """Draw the stream's size after each layer, with and without smaller writers."""
    n_layer = book.values["n_layer"]
    plain, small = (residual.stream_sizes(n_layer, scaled=scaled) for scaled in (False, True))
    curves(
        "depth_curves",
        "Size of the stream against depth",
        range(n_layer + 1),
        {"all parameters 0.02": plain, "writers 0.02 / √(2L)": small},
        ("layers passed", "size of the stream (RMS)"),
    )
    grown, held = plain[-1] / plain[0], small[-1] / small[0]
    return {
        "plain": f"{grown:.2f}",
        "small": f"{held:.2f}",
        "still": f"{held:.1f}",
        "depth_ten": Check(grown > 10),
    }

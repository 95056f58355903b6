"""What moves in a chapter: the mask closing, heads splitting, a token's way through the stream."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.components import player
from gpt2viz.app.course.parts import Book, code
from gpt2viz.app.parameters import SelectParam
from gpt2viz.labels import isolated, label
from gpt2viz.pictures import frames
from gpt2viz.pictures.frames import Frames, Place, written
from gpt2viz.textbook import attention, heads, residual

#: Tokens whose vectors are drawn.
_ROWS = 4


def mask_closes(book: Book, scores: ArrayLike) -> None:
    """Scaled scores (T, T) of the sentence of E7 on their way through the mask."""
    prose.markdown(
        "**Row by row.** Play it, or take one step at a time. On the left −∞ goes into the scores; "
        "on the right is softmax of what stands there. So later words lose their weight to the "
        "others."
    )
    states = attention.closing(scores)
    told = ["No mask yet: each word looks at all four, and each row of weights sums to 1."]
    for n, word in enumerate(attention.SENTENCE):
        before, after = (
            ", ".join(written(float(x)) for x in states[at].weights[n]) for at in (n, n + 1)
        )
        later = " and ".join(attention.SENTENCE[n + 1 :])
        went = f"−∞ goes in for {later}. Its weights {before} become {after}."
        told.append(f"Row “{word}”: {went if later else 'nothing comes later, so it stays.'}")
    _play(book, frames.closing_mask(states, attention.SENTENCE, told), parameters.MASK_STEP)
    code(attention.closing)


def heads_split(book: Book, B: int, T: int, C: int, nh: int) -> None:
    """Vectors of C channels into nh heads and back; nh must divide C."""
    drawn, hs = min(T, _ROWS), C // nh
    states = heads.split_and_merge(drawn, C, nh)
    told = [
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
    _play(book, frames.splitting_heads(states, nh, told), parameters.WAY_STEP)
    code(heads.split_and_merge)


def stream_flows(book: Book) -> None:
    """A token of the sentence on its way through the model above."""
    view = book.view
    place = view.n_tokens - 1 if view.query is None else view.query
    prose.markdown(
        "**In the model above.** Choose a token and follow its vector. A vector's **length** is "
        "the root of the sum of its squared numbers. The **cosine** of two vectors tells whether "
        "they point the same way: 1 if they do, 0 at a right angle, −1 if they are opposite."
        "\n\nAt each step those rows of the token table are listed that point most nearly the same "
        "way."
    )
    stops = residual.stops(view.model, view.trace, place)
    name, tokenizer = isolated(view.labels[place]), view.model.tokenizer
    found = []
    for n, stop in enumerate(stops):
        texts = [label(tokenizer.token_bytes(int(id))) for id in stop.nearest]
        added, length = (float(np.linalg.norm(x.astype(float))) for x in (stop.added, stop.stream))
        near = f"Nearest row: “{isolated(texts[0])}”, cosine {written(stop.alike[0])}."
        found.append(
            Place(
                f"“{name}”: {_what(stop, added, length)} {near}",
                added,
                length,
                stop.cosine if n else None,
                list(zip(map(int, stop.nearest), texts, strict=True)),
                stop.alike.tolist(),
            )
        )
    _play(book, frames.way_through(found), parameters.STREAM_STEP, of_run=True)
    code(residual.stops)


def _what(stop: residual.Stop, added: float, length: float) -> str:
    if stop.key == "token_embedding":
        return f"its row of the token table, length {written(length)}."
    part = {"embedding": "its position", "residual_mid": "attention", "residual_out": "the MLP"}
    where = "" if stop.layer is None else f"layer {stop.layer}, "
    return (
        f"{where}{part[stop.key]} adds a vector of length {written(added)}. The stream is now "
        f"{written(length)} long; cosine to before {written(stop.cosine)}."
    )


def _play(book: Book, drawn: Frames, parameter: SelectParam, of_run: bool = False) -> None:
    address.choice(parameter, range(len(drawn.frames)))
    at: int = address.chosen(parameter)
    choose = partial(address.put, parameter)
    output.remember(drawn.still(at), of_run)
    player.draw(drawn, book.colors, key=f"{parameter.name}_player", at=at, choose=choose)

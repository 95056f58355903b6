"""Any model's attention as a page of this package: ``gpt2viz.show``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import ceil, floor, isqrt, log10
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpt2viz.analysis.top_attention import TopAttention, strongest_links
from gpt2viz.arrays import Array, Numbers, Pairs
from gpt2viz.errors import AttentionError
from gpt2viz.labels import head_of, layers_of_heads, numeral, percent, pluralize, sentence
from gpt2viz.notebook.given import FILL, Given, check
from gpt2viz.notebook.picture import picture
from gpt2viz.notebook.stored import STEPS, Stored, deflate, pool_heads, store
from gpt2viz.notebook.view import AttentionView
from gpt2viz.pictures import canvas, lines
from gpt2viz.pictures.cells import decimals
from gpt2viz.pictures.palette import DARK, LIGHT, LOWER, UPPER, Palette
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.pooling import THUMBNAIL, block_starts, pool_by_maximum
from gpt2viz.run.session import Session, open_session, run_of, session_of
from gpt2viz.run.stages import STAGE, PairStageName, Scale
from gpt2viz.run.trace import Trace

#: Up to this many numbers are stored unrounded …
EXACT = 600_000
#: … and up to this many in steps: those of 12 layers of 12 heads at 256 tokens. Above that they are
#: pooled to at most ``SIDE`` blocks along a side, except for the layers in ``layers``.
WHOLE = 144 * 256**2
SIDE = 256
#: The fewest steps below the number at which colours end …
SHADES = 64
#: … and the most that codes of 16 bits have room for.
MOST_STEPS = 65_000
#: Weights below this are barely visible on colours that end at 1.
FAINT = 0.1
#: The tolerance of a row's sum around 1: bfloat16 has three digits.
NEAR = 0.01

_KEYS = (
    "Arrow keys go from head to head, Page Up and Page Down from token to token, Enter chooses, "
    "o goes to the large picture."
)
_CELL_KEYS = "Arrow keys go from cell to cell, Enter lights its row in every head."
_HINT = "Point at a row: its token lights up in every head{}. A click enlarges a head."
_LISTED = ", and the heads that look hardest from it stand here"


class _Facts(NamedTuple):
    """Facts about all layers together.

    Finite numbers lie between ``low`` and ``high``; ``weights`` is True if they are attention
    weights. Colours end at ``peak``; ``beyond`` is the share farther off. ``hidden`` (T, S) are
    the cells that the mask hid or, if none is known, that are 0 or −∞ in every head, as ``grey``
    says; ``sums`` are those of all rows.
    """

    low: float
    high: float
    weights: bool
    peak: float
    beyond: float
    scale: Scale
    quantity: str
    hidden: Pairs
    grey: str
    sums: Numbers

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest step."""
        return (0.0, 1.0) if self.weights else (self.low, self.high)

    @property
    def n_steps(self) -> int:
        """The number of steps: as many as colours can distinguish below the ``peak``."""
        low, high = self.ends
        return min(MOST_STEPS, max(STEPS, ceil(SHADES * (high - low) / self.peak)))

    @property
    def of_block(self) -> str:
        """The number that a cell shows if it stands for a block."""
        most = f"largest {self.quantity}", f"{self.quantity} farthest from 0"
        return most[self.scale == "signed"]

    def shares(self, tiles: Array) -> Array:
        """Map numbers to the scale of colours, from 0 to 1."""
        shares: Array = tiles / np.float32(self.peak)
        return (shares + np.float32(1)) / np.float32(2) if self.scale == "signed" else shares


def show(
    attention: Any,
    tokens: Any = None,
    ids: Any = None,
    *,
    layers: Iterable[int] = (),
    stage: PairStageName = "weights",
    text: int | None = None,
    part: str = "",
    title: str | None = None,
    head: str | Sequence[int] | None = None,
    vmax: float | None = None,
    image: Any = None,
    grid: tuple[int, int] | None = None,
) -> AttentionView:
    """Show the attention of any model: every head small, one large, in a notebook or as a file.

    ``attention`` is a list of layers or one array, (L, B, H, T, S), (L, H, T, S), (H, T, S) or
    (T, S), of torch, NumPy or JAX: L layers, B texts, H heads, T queries down, S keys across. Or a
    ``Trace``, TransformerLens' cache, an output of transformers with ``output_attentions=True`` or
    of its ``generate``, the result of ``watch``, of one ``part`` if there are several, or the file
    of a session that the app saved: its sentence is run again. ``tokens`` are T texts; for
    cross-attention two lists, (queries, keys); or a fast tokenizer's output; or a tokenizer,
    with the ``ids`` of the text or both, or the output of ``generate``.

    ``stage`` names another stage of a trace or cache, such as "masked_scores"; −5,000 or less is
    a mask's fill there, shown as −∞. ``text`` chooses one of several texts, along a
    layer's first axis. ``head``, (layer, head) or "1.3", is large at first, and ``title`` is the
    heading. Colours of weights end at ``vmax``, by default 1, or the median of the rows' largest
    weights if that is below 0.1, as for a long text. All numbers of ``layers`` are stored, whatever
    the length. A query's row is drawn over the ``image`` too, a path, Pillow's or an array, whose
    ``grid`` of (rows, columns) are the last keys, or those that a processor in a tokenizer's place
    marks. Raises ``AttentionError`` if these don't fit, ``ExportError`` for another file.
    """
    opened = open_session(attention) if isinstance(attention, str | Path) else None
    attention = attention if opened is None else run_of(opened)
    data = check(attention, tokens, ids, stage, text, part)
    exact, facts = sorted(set(layers)), _facts(data, stage, vmax)
    read = _layers(data, facts, exact)
    over, pixels = picture(image, grid, data)
    about = _script_data(data, facts, read) | _choice(data, read, exact, opened, head) | over
    notes = tuple(_notes(data, facts, read))
    title = _title(data, facts, read) if title is None else title
    run = attention if isinstance(attention, Trace) else None
    session = partial(session_of, run.key, run.text, run.weight_files) if run else None
    return AttentionView(title, notes, tuple(read.layers), about, read.parts | pixels, session)


def _title(data: Given, facts: _Facts, read: _Layers) -> str:
    n_layer, n_head = data.n_layer, read.tiles.shape[1]
    what = f"{facts.quantity}s of {layers_of_heads(n_layer, n_head)}"
    return " · ".join(filter(None, [data.model, what[0].upper() + what[1:]]))


def _script_data(data: Given, facts: _Facts, read: _Layers) -> dict[str, Any]:
    """The data of the page's script, besides the numbers."""
    return {
        "map": _map(data, facts, read),
        "large": _large(facts, LIGHT),
        "lines": _lines(facts),
        "schemes": {"light": _scheme(facts, LIGHT), "dark": _scheme(facts, DARK)},
        "layers": [layer._replace(text="")._asdict() for layer in read.layers],
        "queries": Axis("query", data.queries).plain_names(),
        "keys": Axis("key", data.keys).plain_names(),
        "ofBlock": facts.of_block,
    }


def _choice(
    data: Given,
    read: _Layers,
    exact: list[int],
    opened: Session | None,
    given_head: str | Sequence[int] | None,
) -> dict[str, int]:
    """The head that is large at first, by its index among all, and the token of the lit row.

    They are the given ones, or those of an opened session, if it names some; otherwise a head with
    strong attention, in the first of the ``exact`` layers, and no token, -1.
    """
    n_head = read.tiles.shape[1]
    layer, head = read.links.opening(exact[0] if exact else None) if read.links else (0, 0)
    token = -1
    if opened:
        token = _number(opened, "query", len(data.queries))
        named = _number(opened, "layer", data.n_layer), _number(opened, "head", n_head)
        layer, head = named if min(named) >= 0 else (layer, head)
    if given_head is not None:
        layer, head = _head(given_head, data.n_layer, n_head)
    return {"chosen": layer * n_head + head, "token": token}


def _head(given_head: Any, n_layer: int, n_head: int) -> tuple[int, int]:
    try:
        is_name = isinstance(given_head, str)
        layer, head = head_of(given_head) if is_name else map(int, given_head)
    except (TypeError, ValueError):
        layer = head = -1
    if not (0 <= layer < n_layer and 0 <= head < n_head):
        raise AttentionError(
            f"There is no head {given_head!r:.40}: head=(layer, head), with layers 0 to "
            f"{n_layer - 1} and heads 0 to {n_head - 1}."
        )
    return layer, head


def _number(session: Session, name: str, end: int) -> int:
    """A session's choice out of 0 to ``end`` - 1; -1 if it has none."""
    raw = session.parameters.get(name, "")
    return int(raw) if raw in map(str, range(end)) else -1


def _facts(data: Given, stage: PairStageName, vmax: float | None) -> _Facts:
    low, high, sums, most = np.inf, -np.inf, [], []
    T, S = len(data.queries), len(data.keys)
    zero, minus = np.ones((T, S), bool), np.ones((T, S), bool)
    for heads in map(data.layer, range(data.n_layer)):
        finite = np.isfinite(heads)
        low = min(low, float(heads.min(where=finite, initial=np.inf)))
        high = max(high, float(heads.max(where=finite, initial=-np.inf)))
        zero &= (heads == 0).all(axis=0)
        minus &= np.isneginf(heads).all(axis=0)
        sums.append(heads.sum(axis=-1, dtype=np.float64).ravel())
        most.append(heads.max(axis=-1).ravel())
    if low > high:  # no number is finite
        low = high = 0.0
    weights = stage == "weights" and low >= 0 and high <= 1 + NEAR
    quantity = STAGE[stage].quantity if weights or stage != "weights" else "value"
    hidden, nothing = (zero, "0") if weights else (minus, "−∞")
    grey = f"{nothing} in every head of every layer"
    if data.mask:
        hidden, grey = hidden & data.mask[0], data.mask[1].name
    if hidden.all():
        hidden = np.zeros_like(hidden)
    peak = _peak(vmax, 1.0 if weights else max(-low, high), most if weights else ())
    full = weights and peak == 1
    scale: Scale = "unit" if full else "signed" if low < 0 else "amount"
    beyond = 0.0 if full or max(-low, high) <= peak else _beyond(data, peak)
    return _Facts(
        low, high, weights, peak, beyond, scale, quantity, hidden, grey, np.concatenate(sums)
    )


def _beyond(data: Given, peak: float) -> float:
    """The share of all finite numbers farther from 0 than the colours reach."""
    far = [np.abs(x[np.isfinite(x)]) > peak for x in map(data.layer, range(data.n_layer))]
    return float(np.concatenate(far).mean())


def _peak(vmax: float | None, whole: float, most: Sequence[Array]) -> float:
    """The number at which colours end: ``vmax``, or the end of the ``whole`` scale.

    Or less, if half of the rows' largest weights, ``most``, would be barely visible on it.
    """
    if vmax is not None:
        if not (isinstance(vmax, int | float) and 0 < vmax < np.inf):
            raise AttentionError(f"vmax={vmax!r:.40} must be a number above 0: colours end there.")
        return float(vmax)
    typical = float(np.median(np.concatenate(most))) if most else 1.0
    if not 0 < typical < FAINT:
        return whole or 1.0
    return float(round_up(typical, digits=1))


class _Layers(NamedTuple):
    """The layers as a page stores them.

    ``whole`` are those stored with all numbers, ``side`` is the number of blocks along a side of
    the others. ``tiles`` (L, H, rows, columns) is each head small; ``links`` is None
    if numbers aren't weights. ``parts`` are the page's texts of the map and of hidden cells.
    """

    layers: list[Stored]
    whole: list[int]
    side: int
    tiles: Array
    links: TopAttention | None
    parts: dict[str, str]


def _layers(data: Given, facts: _Facts, exact: list[int]) -> _Layers:
    if wrong := [n for n in exact if not 0 <= n < data.n_layer]:
        raise AttentionError(f"There is no layer {wrong[0]}: layers are 0 to {data.n_layer - 1}.")
    T, S = facts.hidden.shape
    n_head = len(data.layer(0))
    every = data.n_layer * n_head
    side = min(SIDE, isqrt(WHOLE // every)) or 1
    whole = exact if every * T * S > WHOLE else list(range(data.n_layer))
    others = data.n_layer - len(whole)
    n_kept = n_head * (len(whole) * T * S + others * min(T, side) * min(S, side))
    ends = None if n_kept <= EXACT else facts.ends
    layers, tiles, links = [], [], []
    for n in range(data.n_layer):
        heads = data.layer(n)
        tiles.append(pool_heads(heads, facts.hidden, THUMBNAIL))
        links.append(_links(heads))
        numbers = heads if n in whole else pool_heads(heads, facts.hidden, side)
        layers.append(store(numbers, ends, facts.n_steps))
    small = np.stack(tiles)
    shares = canvas.quantize(facts.shares(small), ~pool_by_maximum(~facts.hidden, THUMBNAIL))
    parts = {"map": deflate(shares.tobytes())}
    if facts.hidden.any():
        parts["whole"] = _bits(facts.hidden)
        parts["blocks"] = _bits(~pool_by_maximum(~facts.hidden, side))
    keys, weights = map(np.stack, zip(*links, strict=True))
    strongest = TopAttention(keys, weights) if facts.weights else None
    return _Layers(layers, whole, side, small, strongest, parts)


def _links(heads: Array) -> tuple[NDArray[np.int64], Array]:
    """Each head's strongest attention from every query, (H, T) keys and weights.

    If queries and keys are the same tokens, to another token but the first; otherwise to any.
    """
    _, T, S = heads.shape
    if T == S:
        return strongest_links(heads)
    keys = heads.argmax(axis=-1)
    weights = np.take_along_axis(heads, keys[..., None], axis=-1)[..., 0]
    none = ~(weights > 0)
    return np.where(none, -1, keys), np.where(none, np.float32(0), weights)


def _bits(truths: Pairs) -> str:
    return deflate(np.packbits(truths, bitorder="little").tobytes())


def _map(data: Given, facts: _Facts, read: _Layers) -> dict[str, Any]:
    """The map's data, except for its cells."""
    n_layer, n_head, rows, columns = read.tiles.shape
    query, key = Axis("query", data.queries), Axis("key", data.keys)
    starts = block_starts(len(data.queries), rows)
    same = len(data.queries) == len(data.keys)
    digits = decimals(facts.peak)
    only = " (at another token that isn't the first)" if same else ""
    links = read.links and [
        [(at.layer * n_head + at.head, at.key, f"{at.weight:.{digits}f}") for at in of_token]
        for of_token in read.links.strongest_of_each
    ]
    return {
        "rows": query.part(starts, None).plain_names(),
        "columns": key.part(block_starts(len(data.keys), columns), None).plain_names(),
        "layers": n_layer,
        "heads": n_head,
        "tokens": query.plain_names(),
        "keys": key.plain_names(),
        "positions": list(range(len(data.queries))),
        "starts": starts,
        "links": links,
        "lead": ", to others than the first: " if same else ": ",
        "none": ": none, only at itself and at the first token" if same else ": none",
        "arrows": [],
        "hint": _HINT.format(_LISTED + only if links else ""),
        "alt": f"Every head: {n_layer} layers down, {n_head} heads across. {_KEYS}",
    }


def _large(facts: _Facts, colors: Palette) -> dict[str, Any]:
    """The large picture's data without its numbers, for one cell; a script fills it in."""
    cell = Panel(
        "",
        np.full((1, 1), facts.peak, np.float32),
        Axis("query", [""]),
        Axis("key", [""]),
        quantity=facts.quantity,
        masked=facts.hidden[:1, :1],
        masked_text=facts.grey,
        masked_name=facts.grey,
    )
    picture = Heatmaps("", [cell], facts.scale, numbers=NUMBERS_FIT_LARGE, bar=facts.quantity)
    fields = {"alt": f"One head, large. {_CELL_KEYS}", "chooses": True, "drags": True, "asks": []}
    return canvas.header(picture, colors) | fields


def _lines(facts: _Facts) -> dict[str, Any] | None:
    """The data of the same head as lines; None if numbers are negative, which no width shows."""
    if facts.scale == "signed":
        return None
    fields = {"alt": "One head, as lines from each query to its keys.", "hint": lines.HINT}
    return fields | {"peak": facts.peak, "decimals": decimals(facts.peak)} | lines.FOR_SCRIPT


def _scheme(facts: _Facts, colors: Palette) -> dict[str, Any]:
    """The colours of the page and of both pictures on it."""
    large = _large(facts, colors)
    scale = colors.signed if facts.scale == "signed" else colors.unit
    return {
        "page": colors.of_page,
        "map": canvas.quantized_colors(scale, colors),
        "lines": colors.cases(1),
        "large": {name: large[name] for name in ("scale", "special", "line", "frame")},
    }


def _notes(data: Given, facts: _Facts, read: _Layers) -> list[str]:
    """Notes on the numbers, one sentence each."""
    T, S = facts.hidden.shape
    notes = [f"Queries down: {T:,}. Keys across: {S:,}."]
    if not facts.weights:
        colors = f"{UPPER} above 0, {LOWER} below" if facts.scale == "signed" else "from 0 up"
        ends = {"low": numeral(facts.low, ".4g"), "high": numeral(facts.high, ".4g")}
        notes.append(sentence("notebook.no_weights", **ends, colors=colors))
    if facts.beyond:
        notes.append(sentence("notebook.beyond", peak=facts.peak, share=percent(facts.beyond, 2)))
    elif facts.weights and facts.peak != 1:
        notes.append(sentence("notebook.peak", peak=facts.peak))
    off = facts.sums[~(np.abs(facts.sums - 1) <= NEAR)]
    if facts.weights and len(off):
        of, finite = f"{len(off):,} of {pluralize(len(facts.sums), 'rows')}", off[np.isfinite(off)]
        sums = f"{finite.min():.3g} to {finite.max():.3g}" if len(finite) else "not finite"
        notes.append(sentence("notebook.sums", of=of, sums=sums))
    if facts.hidden.any():
        notes.append(sentence("notebook.grey", cells=facts.grey))
    if data.filled:
        notes.append(sentence("notebook.fill", fill=FILL))
    return [*notes, *data.notes, *_storage_notes(data, facts, read)]


def _storage_notes(data: Given, facts: _Facts, read: _Layers) -> list[str]:
    """Notes on the precision of the stored numbers, and on those left out."""
    T, S = facts.hidden.shape
    side, step = read.side, read.layers[0].step
    notes = ["The numbers are in this file as float32."]
    if step:
        error = round_up(max(layer.error for layer in read.layers), digits=2)
        notes = [sentence("notebook.steps", step=step, error=error)]
    if len(read.whole) < data.n_layer and max(T, S) > side:
        size = f"{-(-T // min(T, side))} × {-(-S // min(S, side))}"
        names = ", ".join(map(str, read.whole))
        layers = f"every layer but {names}" if names else "every layer"
        blocks = {"summary": facts.of_block, "size": size}
        notes.append(sentence("notebook.blocks", layers=layers, **blocks))
    if max(T, S) > THUMBNAIL:
        notes.append(sentence("notebook.small", size=THUMBNAIL, summary=facts.of_block))
    return notes


def round_up(number: float, digits: int) -> str:
    """Round up to some digits."""
    if not number:
        return "0"
    unit = 10.0 ** (floor(log10(number)) + 1 - digits)
    return f"{ceil(number / unit * (1 - 1e-4)) * unit:.{digits}g}"

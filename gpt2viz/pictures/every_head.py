"""Kinds of picture that show every head of a model in a grid: as small weights, or as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpt2viz.arrays import Array, Pairs
from gpt2viz.labels import numeral
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Fixed, Heatmaps, Picture, Series
from gpt2viz.pictures.pooling import block_starts, pool_by_maximum

#: The height in pixels of a map of all heads, without its layers.
_MAP = 80
#: The height in pixels of a head among others.
_HEAD = 200


@dataclass(frozen=True, eq=False)
class Arrow(Fixed):
    """An arrow from one head (layer, head) to another: its ``share``, and its ``written`` text.

    Without a ``start`` it comes from the token and position embeddings.
    """

    start: tuple[int, int] | None
    end: tuple[int, int]
    share: float
    written: str

    @property
    def ends(self) -> str:
        """Name both ends."""
        start = "embeddings" if self.start is None else f"head {self.start[0]}.{self.start[1]}"
        return f"{start} → head {self.end[0]}.{self.end[1]}"


@dataclass(frozen=True, eq=False)
class Thumbnails(Picture):
    """Every head of every layer, small: layers down, heads across.

    ``tiles`` (n_layer, nh, side, side) are weights, each the largest of its block; ``masked``
    (T, T) are the cells that the mask hides. ``labels`` are the T tokens, and ``positions`` those
    of words in the text. ``row`` is the position of a query that is highlighted in every head,
    ``chosen`` the layer and head that are framed. ``arrows`` lead from head to head. ``groups``
    is how many groups of a layer's heads share keys and values, None if none do.
    """

    tiles: Array
    masked: Pairs
    labels: Sequence[str]
    positions: Sequence[int] | None = None
    row: int | None = None
    chosen: tuple[int, int] | None = None
    arrows: Sequence[Arrow] = ()
    groups: int | None = None

    @property
    def series(self) -> tuple[Series, ...]:
        """The share of each arrow, by its ends."""
        if not self.arrows:
            return ()
        ends, shares = [arrow.ends for arrow in self.arrows], [arrow.share for arrow in self.arrows]
        return (Series("share of the arrow", "bar", ends, shares),)

    @property
    def hidden(self) -> Pairs:
        """The blocks (side, side) in which every cell is masked."""
        return ~pool_by_maximum(~self.masked, self.tiles.shape[-1])

    @property
    def starts(self) -> list[int]:
        """The row of ``masked`` at which each row and column begins."""
        return block_starts(len(self.masked), self.tiles.shape[-1])

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Queries and keys of every head: a block is named after its first token."""
        whole = (Axis(title, self.labels, self.positions) for title in ("query", "key"))
        query, key = (axis.part(self.starts, None) for axis in whole)
        return query, key

    @property
    def matrices(self) -> tuple[Panel, ...]:
        """One panel per head, layer by layer."""
        (query, key), hidden = self.axes, self.hidden
        return tuple(
            Panel(
                f"Layer {layer} · Head {head}", tile, query, key, f"{layer}.{head}", masked=hidden
            )
            for layer, heads in enumerate(self.tiles)
            for head, tile in enumerate(heads)
        )


@dataclass(frozen=True, eq=False)
class MapRow(Fixed):
    """Maps of every head side by side, one per score, measured on one ``text`` or by the weights.

    A panel is named after its score, which its quantity spells out, and shows its ``masked_text``
    if it has no number. Its colours run between its ``ends``, which are written above it with its
    unit: "0 to 3.2 bits".
    """

    text: str
    panels: Sequence[Panel]
    ends: Sequence[tuple[float, float]]
    units: Sequence[str]

    @property
    def ranges(self) -> list[str]:
        """Both ends of every map, as written above it."""
        return [f"{numeral(low, '.3g')} to {numeral(high, '.3g')}" for low, high in self.ends]


@dataclass(frozen=True, eq=False)
class HeadMaps(Picture):
    """Maps (layers down, heads across) of every score, in rows.

    Rows may have different scores; none is longer than the first. The layer and head that are
    ``chosen`` are framed in all.
    """

    rows: Sequence[MapRow]
    chosen: tuple[int | None, int | None] = (None, None)

    @property
    def matrices(self) -> tuple[Panel, ...]:
        """The maps, row by row."""
        return tuple(panel for row in self.rows for panel in row.panels)


def as_heatmaps(picture: Heatmaps | HeadMaps | Thumbnails) -> Heatmaps:
    """Any picture of matrices as matrices side by side; ends and unit are written above a map."""
    if isinstance(picture, Heatmaps):
        return picture
    if isinstance(picture, Thumbnails):
        n_layer, n_head = picture.tiles.shape[:2]
        size = {"n_columns": n_head, "height": n_layer * _HEAD, "numbers": 0}
        return Heatmaps(picture.what, picture.matrices, row=picture.row, **size)
    panels = [
        replace(
            panel,
            title=f"{panel.quantity}\n{ends} {unit}".rstrip(),
            rows=replace(panel.rows, title=f"{row.text} · layer"),
        )
        for row in picture.rows
        for panel, ends, unit in zip(row.panels, row.ranges, row.units, strict=True)
    ]
    layer, head = picture.chosen
    return Heatmaps(
        picture.what,
        panels,
        "amount",
        len(picture.rows[0].panels),
        len(picture.rows) * min(_MAP + 20 * len(panels[0].values), 260),
        row=layer,
        column=head,
        numbers=0,
        legend=False,
        ranges=[ends for row in picture.rows for ends in row.ends],
    )

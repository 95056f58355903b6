"""One tensor of a run in every form that the command line gives: numbers, table, picture, page."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gpt2viz import GPT2VizError, Trace, export, files
from gpt2viz.cli.options import nonfinite_as_none
from gpt2viz.export import (
    PICTURE_KINDS,
    TABLE_KINDS,
    TRACE_KINDS,
    About,
    about,
)
from gpt2viz.labels import label
from gpt2viz.pictures.from_trace import head_picture, head_stage
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.pooling import GRID, pool_panel
from gpt2viz.run.stages import HEAD_STAGES, STAGE, StageName

if TYPE_CHECKING:
    import pandas as pd


#: The endings of files, pictures first.
KINDS = (*PICTURE_KINDS, "html", *TABLE_KINDS, "json", *TRACE_KINDS)
#: A picture's smallest and largest height in pixels, and what a row of it takes.
_LOW, _HIGH, _ROW = 320, 900, 28


@dataclass(frozen=True, eq=False)
class Tensor:
    """One stage of a run. ``layer`` and ``head`` are None where the stage belongs to none."""

    run: Trace
    key: str
    layer: int | None
    head: int | None

    @property
    def about(self) -> About:
        """A file's account of itself."""
        return about(self.run, STAGE[self.key].label, self.layer, self.head)

    @cached_property
    def panel(self) -> Panel:
        """The numbers (T, T), (T, hs) or (T, C) with the tokens beside them."""
        labels = [label(part) for part in self.run.token_bytes]
        if self.layer is not None and self.head is not None:
            return head_stage(self.run, labels, self.key, self.layer, self.head, self.about.title)
        values = self.run.stage(cast("StageName", self.key), self.layer)
        return Panel(
            title=self.about.title,
            values=values[0] if values.ndim == 3 else values,
            rows=Axis("token", labels),
            columns=Axis("channel", [str(n) for n in range(values.shape[-1])]),
            name=self.key,
            quantity=STAGE[self.key].quantity,
        )

    @property
    def table(self) -> pd.DataFrame:
        """The numbers as a table whose rows and columns have names."""
        from gpt2viz.pictures.tables import panel_table

        return panel_table(self.panel)

    @property
    def picture(self) -> Heatmaps:
        """The numbers as a heatmap; above 256 rows or columns each point is a block's largest."""
        if self.layer is not None and self.head is not None:
            return head_picture(self.run, self.layer, self.head, self.key)
        panel = pool_panel(self.panel, GRID)
        height = min(_HIGH, max(_LOW, 120 + _ROW * len(panel.values)))
        scale = STAGE[self.key].scale
        bar = panel.quantity
        return Heatmaps(self.about.title, [panel], scale, height=height, numbers=0, bar=bar)

    @property
    def document(self) -> dict[str, Any]:
        """All of it for JSON: where it comes from, tokens, shape and values."""
        return asdict(self.about) | {
            "stage": self.key,
            "tokens": self.run.tokens,
            "token_ids": self.run.token_ids,
            "shape": self.panel.values.shape,
            "values": self.panel.values.tolist(),
        }

    def save(self, path: Path, width: int | None = None) -> None:
        """Write a file as its ending says; .npz and .safetensors hold the whole run.

        ``width`` is a picture's, in pixels. Raises ``ExportError`` where this machine can't draw
        pictures or write the file, and for a width without room.
        """
        kind = path.suffix.removeprefix(".").lower()
        if kind in TRACE_KINDS:
            export.save_trace(self.run, path)
        elif kind in TABLE_KINDS:
            export.save_table(self.table, path, self.about)
        elif kind == "json":
            written = json.dumps(nonfinite_as_none(self.document), ensure_ascii=False)
            files.save(path, f"{written}\n".encode())
        elif kind == "html":
            title = self.panel.title
            export.save_page(
                path, [(title, self.picture)], self.about, [("Its numbers", self.table)]
            )
        else:
            export.save_figure(self.picture, path, self.about, width=width)


def choose(run: Trace, key: str, layer: int, head: int) -> Tensor:
    """A stage of a run; its layer and head are left out where it has none.

    Raises ``GPT2VizError`` for a layer or head that the model doesn't have.
    """
    check_head(run, layer, head)
    of_head = key in HEAD_STAGES
    return Tensor(run, key, layer if STAGE[key].per_layer else None, head if of_head else None)


def check_head(run: Trace, layer: int, head: int) -> None:
    """Raise ``GPT2VizError`` for a layer or head that the model doesn't have."""
    n_layer, n_head = run.config.n_layer, run.config.n_head
    if layer >= n_layer or head >= n_head:
        raise GPT2VizError(
            f"{run.model_name} has layers 0 to {n_layer - 1}, each with heads 0 to {n_head - 1}; "
            f"there is no layer {layer}, head {head}"
        )

"""One tensor of a run in every form of the command line: numbers, table, picture, page."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpt2viz import Trace, export, files
from gpt2viz.cli.options import nonfinite_as_none
from gpt2viz.export import (
    PICTURE_KINDS,
    TABLE_KINDS,
    TRACE_KINDS,
    About,
    about,
)
from gpt2viz.pictures.from_trace import stage_panel, stage_picture
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Heatmaps

if TYPE_CHECKING:
    import pandas as pd


#: The endings of files, pictures first.
KINDS = (*PICTURE_KINDS, "html", *TABLE_KINDS, "json", *TRACE_KINDS)


@dataclass(frozen=True, eq=False)
class Tensor:
    """One stage of a run. ``layer`` and ``head`` are None if the stage belongs to none."""

    run: Trace
    key: str
    layer: int | None
    head: int | None

    @property
    def about(self) -> About:
        """The origin of the numbers, for a file."""
        return about(self.run, self.run.graph[self.key].label, self.layer, self.head)

    @cached_property
    def panel(self) -> Panel:
        """The numbers (T, T), (T, hs) or (T, C) with the tokens as labels."""
        run = self.run
        return stage_panel(run, run.labels, self.key, self.layer, self.head, self.about.title)

    @property
    def table(self) -> pd.DataFrame:
        """The numbers as a table whose rows and columns have names."""
        from gpt2viz.pictures.tables import panel_table

        return panel_table(self.panel)

    @property
    def picture(self) -> Heatmaps:
        """The numbers as a heatmap; above 256 rows or columns each cell is a block's largest."""
        return stage_picture(self.run, self.key, self.layer, self.head)

    @property
    def document(self) -> dict[str, Any]:
        """The content for JSON: origin, tokens, shape and values."""
        return asdict(self.about) | {
            "stage": self.key,
            "tokens": self.run.tokens,
            "token_ids": self.run.token_ids,
            "shape": self.panel.values.shape,
            "values": self.panel.values.tolist(),
        }

    def save(self, path: Path, width: int | None = None) -> None:
        """Write a file in the format of its ending; .npz and .safetensors hold the whole run.

        ``width`` is a picture's, in pixels. Raises ``ExportError`` if this machine can't draw
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
    """Choose a stage of a run; layer and head are dropped if it has none.

    Raises ``PlaceError`` for a layer or head that the model doesn't have.
    """
    run.stage("q", layer, head)
    stage = run.graph[key]
    return Tensor(run, key, layer if stage.per_layer else None, head if stage.of_head else None)

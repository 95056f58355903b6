"""A survey's results as Parquet and CSV, as ``gpt2viz.survey.stored`` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from gpt2viz.analysis.scores import SCORES
from gpt2viz.files import whole
from gpt2viz.survey.stored import HEADS, STEPS, Passage
from gpt2viz.survey.sums import Sums, Where


def head_rows(sums: Sums) -> list[dict[str, Any]]:
    """One row for every score of every head.

    ``mean`` is over the ``passages`` that had the score, ``low`` and ``high`` its 95 % confidence
    interval with documents as clusters (``Sums.margin``), and NaN for fewer than five
    ``documents``.
    """
    mean, margin, documents = sums.mean, sums.margin, sums.close().documents.number
    return [
        {
            "score": name,
            "layer": layer,
            "head": head,
            "mean": mean[s, layer, head],
            "low": mean[s, layer, head] - margin[s, layer, head],
            "high": mean[s, layer, head] + margin[s, layer, head],
            "passages": int(sums.count[s, layer, head]),
            "documents": int(documents[s, layer, head]),
        }
        for s, name in enumerate(SCORES)
        for layer, head in np.ndindex(*mean.shape[1:])
    ]


def passage_rows(sums: Sums) -> list[dict[str, Any]]:
    """One row for each of the passages on which a head scored highest, best first."""
    names = list(SCORES)
    rows = []
    for s, layer, head, rank in np.argwhere(np.isfinite(sums.best)).tolist():
        at = Where(*sums.where[s, layer, head, rank].tolist())
        value = sums.best[s, layer, head, rank]
        rows.append(Passage(names[s], layer, head, rank + 1, value, *at, sums.texts[at])._asdict())
    return rows


def write(tables: Mapping[str, list[dict[str, Any]]], folder: Path) -> None:
    """Write the rows of tables, by their names, into a folder."""
    for name, rows in tables.items():
        _write(pa.Table.from_pylist(rows), folder, name)


def write_steps(folder: Path, steps: Iterable[int]) -> None:
    """Join the heads of the surveys in ``folder/step-N`` into one table, with a first column
    ``step``."""
    tables = []
    for step in steps:
        heads = parquet.read_table(folder / f"step-{step}" / f"{HEADS}.parquet")
        tables.append(heads.add_column(0, "step", pa.array([step] * len(heads), pa.int64())))
    _write(pa.concat_tables(tables), folder, STEPS)


def _write(table: pa.Table, folder: Path, name: str) -> None:
    with whole(folder / f"{name}.parquet") as partial:
        parquet.write_table(table, partial)
    with whole(folder / f"{name}.csv") as partial:
        csv.write_csv(table, partial)

"""A survey beside a model's weights: every head's scores across many texts, and its best passages.

``gpt2viz heads --corpus FILE --model FOLDER --out FOLDER/survey`` makes it.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpt2viz.analysis.scores import SCORES, Scores
from gpt2viz.errors import CheckpointError
from gpt2viz.files import own_file, read_json
from gpt2viz.model.fingerprint import WeightFiles

#: The folder of a model's survey, inside the model's folder.
FOLDER = "survey"
#: The unit that a survey's intervals treat as independent, in its record; passages aren't.
INTERVALS = "documents"
#: In a survey's folder: the record of its inputs, and the tables' names without endings.
RECORD, HEADS, PASSAGES = "survey.json", "heads", "passages"
#: The table of all checkpoints, in a folder with a survey of each checkpoint of a training.
STEPS = "steps"


class Passage(NamedTuple):
    """One of the passages on which a head scored highest: ``rank`` 1 is the best.

    It begins at ``token`` of ``document``, both from 0; in a document of more
    than a million characters the token is counted from the start of its ``part``.
    """

    score: str
    layer: int
    head: int
    rank: int
    value: float
    document: int
    token: int
    part: int
    text: str


@dataclass(frozen=True, eq=False)
class Survey:
    """Scores by name, (n_layer, n_head) each: the mean over passages, and its 95 % margin.

    Scores that the survey or this program doesn't have are missing.

    ``n_passages`` of ``n_documents`` were scored, of up to ``n_tokens`` tokens each. The margins
    are NaN for too few documents: see ``gpt2viz.survey.sums``. ``about`` describes
    the texts, if the survey's author did.
    """

    mean: dict[str, Scores]
    margin: dict[str, Scores]
    n_passages: int
    n_documents: int
    n_tokens: int
    best: tuple[Passage, ...]
    about: str = ""


def read_survey(
    model: str | Path, weights: WeightFiles, n_layer: int, n_head: int
) -> Survey | None:
    """Read the survey in a checkpoint folder; None if there is none.

    Raises ``CheckpointError`` if it is broken or was made with other ``weights``.
    """
    folder = Path(model) / FOLDER
    if not (folder / f"{HEADS}.csv").is_file():
        return None
    try:
        made = read_json(folder / RECORD)
        if made["model"] != weights.sha256:
            raise ValueError("it was made with other weights")
        if made.get("intervals") != INTERVALS:
            raise ValueError("an earlier version made it, and its intervals are too narrow")
        rows = _rows(folder / f"{HEADS}.csv")
        best = [_passage(row) for row in _rows(folder / f"{PASSAGES}.csv")]
        columns = ("mean", "high", "passages", "documents")
        mean, high, count, number = (_column(rows, name, n_layer, n_head) for name in columns)
        return Survey(
            mean=mean,
            margin={name: high[name] - mean[name] for name in mean},
            n_passages=int(np.nanmax([*count.values()])),
            n_documents=int(np.nanmax([*number.values()])),
            n_tokens=int(made["tokens"]),
            best=tuple(best),
            about=str(made.get("about", "")),
        )
    except (ArithmeticError, LookupError, OSError, TypeError, ValueError, csv.Error) as error:
        raise CheckpointError(
            f"{FOLDER}: this isn't a survey of this model ({error}). Make a new one with "
            "gpt2viz heads, or take the folder away."
        ) from error


def _rows(path: Path) -> list[dict[str, str]]:
    with own_file(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _column(
    rows: list[dict[str, str]], column: str, n_layer: int, n_head: int
) -> dict[str, Scores]:
    """A column by score, for the scores that both the table and ``SCORES`` have."""
    sizes = (n_layer, n_head)
    listed = {row["score"] for row in rows}
    by_score = {name: np.full(sizes, np.nan) for name in SCORES if name in listed}
    cells = {(row["score"], row["layer"], row["head"]) for row in rows}
    of_all_heads = len(rows) == len(cells) == len(listed) * n_layer * n_head
    if not of_all_heads or not by_score:
        raise ValueError(f"{len(rows)} rows for {len(listed)} scores of {n_layer * n_head} heads")
    for row in rows:
        cell = np.ravel_multi_index((int(row["layer"]), int(row["head"])), sizes)  # refuses −1 too
        if row["score"] in by_score:
            by_score[row["score"]].flat[cell] = float(row[column])
    return by_score


def _passage(row: dict[str, Any]) -> Passage:
    kinds = {"value": float, "score": str, "text": str}
    return Passage(**{name: kinds.get(name, int)(row[name]) for name in Passage._fields})

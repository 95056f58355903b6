"""The record of a training is read as it was written, or refused with its file's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from numpy.testing import assert_array_equal

from gpt2viz import CheckpointError
from gpt2viz.anatomy.training_record import RECORD, read_record


def point(tokens: int) -> dict[str, Any]:
    scores = [[tokens / 100, 0.2], [0.3, 0.4], [0.5, 0.6]]
    return {
        **{"tokens": tokens, "held_out_loss": 5.0, "first_half_loss": 9.0, "second_half_loss": 4.0},
        **dict.fromkeys(("previous", "induction", "first"), scores),
    }


def write(folder: Path, stored: Any) -> None:
    (folder / RECORD).write_text(json.dumps(stored), encoding="utf-8")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write(tmp_path, {"curves": [point(10), point(20)], "set_heads": [[0, 1]], "held-out rows": 32})
    record = read_record(tmp_path, 3, 2)
    assert record is not None
    assert_array_equal(record.tokens, [10, 20])
    assert_array_equal(record.second_half, [4, 4])
    assert record.scores["induction"].shape == (2, 3, 2)
    assert_array_equal(record.scores["previous token"][:, 0, 0], [0.1, 0.2])
    assert record.set_heads == ((0, 1),)
    assert record.held_out_rows == 32


def test_record_may_have_other_scores(tmp_path: Path) -> None:
    """A record of a version that followed fewer or other scores."""
    older = {name: value for name, value in point(10).items() if name != "first"}
    write(tmp_path, {"curves": [older | {"unknown": [[0.0]]}]})
    record = read_record(tmp_path, 3, 2)
    assert record is not None
    assert list(record.scores) == ["previous token", "induction"]


def test_folder_without_a_record_has_none(tmp_path: Path) -> None:
    assert read_record(tmp_path, 3, 2) is None


@pytest.mark.parametrize(
    "stored",
    [
        [],
        {},
        {"curves": []},
        {"curves": [point(10) | {"first": [[1, 2]]}]},
        {"curves": [point(10) | {"held_out_loss": "low"}]},
        {"curves": [point(10) | {"held_out_loss": float("nan")}]},
        {"curves": [{}]},
        {"curves": [{n: v for n, v in point(10).items() if not isinstance(v, list)}]},
        {"curves": [point(10), {n: v for n, v in point(20).items() if n != "first"}]},
        {"curves": [point(10)], "held-out rows": "some"},
        {"curves": [point(10)], "set_heads": [1]},
        {"curves": [point(10)], "set_heads": [[float("inf"), 0]]},
        {"curves": [point(10) | {"tokens": 10**400}]},
    ],
)
def test_a_broken_record_is_refused(tmp_path: Path, stored: Any) -> None:
    write(tmp_path, stored)
    with pytest.raises(CheckpointError, match=r"training\.json: this isn't a record"):
        read_record(tmp_path, 3, 2)


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text('{"curves": [', encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"training\.json"):
        read_record(tmp_path, 3, 2)


def test_record_of_another_model_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"curves": [point(10)]})
    with pytest.raises(CheckpointError, match=r"training\.json"):
        read_record(tmp_path, 4, 6)

"""A survey beside the weights is read as it was written, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.scores import SCORES
from gpt2viz.model.fingerprint import WeightFiles
from gpt2viz.survey.documents import Shard
from gpt2viz.survey.engines import local, score
from gpt2viz.survey.run import survey
from gpt2viz.survey.stored import Survey
from gpt2viz.survey.stored import read_survey as read
from tests.checkpoints import TEXT, edit_json, write_checkpoint


@pytest.fixture
def surveyed_model(folder: Path, tmp_path: Path) -> Path:
    (tmp_path / "texts.txt").write_text(f"{TEXT}\nnothing twice in here", encoding="utf-8")
    survey(tmp_path / "texts.txt", folder, folder / "survey", 10, "cpu", local(1), "Two.")
    return folder


def read_survey(folder: Path, n_layer: int, n_head: int) -> Survey | None:
    return read(str(folder), WeightFiles.of([folder / "model.safetensors"]), n_layer, n_head)


def test_survey_is_read_as_it_was_made(surveyed_model: Path) -> None:
    result = read_survey(surveyed_model, 3, 4)
    assert result is not None
    shard = Shard(0, 0, (TEXT, "nothing twice in here"))
    sums = score(gpt2viz.load_model(surveyed_model), shard, 10)
    for s, name in enumerate(SCORES):
        assert_allclose(result.mean[name], sums.mean[s])
        assert_allclose(result.margin[name], sums.margin[s], atol=1e-12)
    assert result.n_passages == sums.count.max()
    assert (result.n_tokens, result.about) == (10, "Two.")
    assert len(result.best) == np.isfinite(sums.best).sum()
    first = result.best[0]
    assert (first.score, first.layer, first.head, first.rank) == ("previous token", 0, 0, 1)
    assert first.value == pytest.approx(sums.best[0, 0, 0, 0])
    assert_array_equal((first.document, first.token, first.part), sums.where[0, 0, 0, 0])
    assert first.text in TEXT


def test_folder_without_a_survey_has_none(folder: Path) -> None:
    assert read_survey(folder, 3, 4) is None


def test_survey_of_other_weights_is_refused(surveyed_model: Path) -> None:
    write_checkpoint(surveyed_model, seed=1)
    with pytest.raises(gpt2viz.CheckpointError, match="made with other weights"):
        read_survey(surveyed_model, 3, 4)


def test_scores_are_read_by_name(surveyed_model: Path) -> None:
    """A survey of a version that has fewer or other scores."""
    whole = read_survey(surveyed_model, 3, 4)
    table = surveyed_model / "survey" / "heads.csv"
    table.write_text(table.read_text().replace("entropy", "enthalpy"))
    result = read_survey(surveyed_model, 3, 4)
    assert whole is not None
    assert result is not None
    assert list(result.mean) == list(result.margin) == [n for n in SCORES if n != "entropy"]
    for name in result.mean:
        assert_array_equal(result.mean[name], whole.mean[name])
        assert_array_equal(result.margin[name], whole.margin[name])
    assert (result.n_passages, result.n_documents) == (whole.n_passages, whole.n_documents)


def test_survey_of_another_size_is_refused(surveyed_model: Path) -> None:
    with pytest.raises(gpt2viz.CheckpointError, match="96 rows for 8 scores of 15 heads"):
        read_survey(surveyed_model, 3, 5)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("heads.csv", '"entropy",0,0', '"enthalpy",0,0'),
        ("heads.csv", '\n"entropy",2,3,', '\n"entropy",9,3,'),  # no such layer
        ("heads.csv", '\n"entropy",2,3,', '\n"entropy",-1,3,'),
        ("heads.csv", '\n"entropy",2,3,', '\n"entropy",2,2,'),  # one is twice there, one is missing
        ("passages.csv", "A crane", "A crane" + 200_000 * "!"),  # over the reader's limit
        ("survey.json", '"tokens": 10', '"tokens": Infinity'),
        ("survey.json", "", "[]"),  # the whole file
    ],
)
def test_broken_survey_is_refused(surveyed_model: Path, file: str, old: str, new: str) -> None:
    path = surveyed_model / "survey" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new) if old else new, encoding="utf-8")
    with pytest.raises(gpt2viz.CheckpointError, match="isn't a survey of this model"):
        read_survey(surveyed_model, 3, 4)


def test_intervals_of_an_earlier_version_are_refused(surveyed_model: Path) -> None:
    """They treated passages as independent."""
    edit_json(surveyed_model / "survey" / "survey.json", intervals=None)
    with pytest.raises(gpt2viz.CheckpointError, match=r"intervals are too narrow.*Make a new one"):
        read_survey(surveyed_model, 3, 4)

"""Surveys: shards, sums that can be merged, and the command, against one plain loop over all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.errors import SurveyError
from gpt2viz.heads import SCORES, head_scores
from gpt2viz.survey.documents import Shard, documents, shards
from gpt2viz.survey.engines import Task, local, on_ray, work
from gpt2viz.survey.run import survey
from gpt2viz.survey.score import SHORTEST, score
from gpt2viz.survey.sums import BEST, Sums, Where, load, merge, merged, of_passages, save
from gpt2viz.survey.tables import head_rows, passage_rows

TEXTS = [
    "A crane ate fish. A crane lifted steel. A crane ate fish.",
    "The animal didn't cross the street because it was too tired; it was too tired.",
    "she'll say it's 42 degrees, they've said",
    "too short",
    "東京, مرحبا, 🦩🦩! A crane ate fish, and the street was too tired to cross.",
]
N_TOKENS = 12


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The texts as a file, cut into shards of one or two of them."""
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(TEXTS), encoding="utf-8")
    monkeypatch.setattr("gpt2viz.survey.run.shards", lambda path: shards(path, size=45))
    return path


def random_sums(seed: int, n: int) -> tuple[np.ndarray, list[Where], list[str], Sums]:
    random = np.random.default_rng(seed)
    scores = random.random((n, 2, 3, 2)).round(1)
    scores[random.random(scores.shape) < 0.2] = np.nan
    where = [Where(seed, 8 * k) for k in range(n)]
    texts = [f"passage {seed}:{k}" for k in range(n)]
    return scores, where, texts, of_passages(scores, where, texts)


def assert_equal(one: Sums, other: Sums) -> None:
    for name in ("count", "total", "squares", "best", "where"):
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert dict(one.texts) == dict(other.texts)


def test_documents_and_shards(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\n\n  two \nthree", encoding="utf-8")
    assert list(documents(file)) == ["one", "two", "three"]
    assert list(shards(file, size=5)) == [Shard(0, 0, ("one", "two")), Shard(1, 2, ("three",))]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.txt").write_text("four\nlines", encoding="utf-8")
    assert list(documents(tmp_path)) == ["four\nlines", "one\n\n  two \nthree"]
    with pytest.raises(SurveyError, match="can't be read"):
        list(documents(tmp_path / "nowhere.txt"))


def test_a_long_document_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt2viz.survey.documents.LONGEST", 4)
    (tmp_path / "long.txt").write_text("abcdefghij", encoding="utf-8")
    assert list(documents(tmp_path / "long.txt")) == ["abcd", "efgh", "ij"]


def test_sums_of_parts_are_the_sums_of_all() -> None:
    parts = [random_sums(seed, n) for seed, n in enumerate((5, 1, 9))]
    scores = np.concatenate([part[0] for part in parts])
    where = [place for part in parts for place in part[1]]
    texts = [text for part in parts for text in part[2]]
    found = merged(part[3] for part in parts)
    assert_allclose(found.mean, np.nanmean(scores, axis=0))
    n = (~np.isnan(scores)).sum(axis=0)
    assert_array_equal(found.count, n)
    assert_allclose(found.margin, 1.96 * np.nanstd(scores, axis=0, ddof=1) / np.sqrt(n))
    for place in np.ndindex(2, 3, 2):
        by_score = sorted(
            (-scores[k][place], where[k], texts[k])
            for k in range(len(scores))
            if not np.isnan(scores[k][place])
        )[:BEST]
        assert_array_equal(found.best[place], [-value for value, _, _ in by_score])
        assert [Where(*w) for w in found.where[place].tolist()] == [w for _, w, _ in by_score]
        for _, w, text in by_score:
            assert found.texts[w] == text


def test_best_passages_do_not_depend_on_the_order() -> None:
    one, other, third = (random_sums(seed, 6)[3] for seed in range(3))
    a, b = merge(merge(one, other), third), merge(third, merge(other, one))
    assert_array_equal(a.best, b.best)
    assert_array_equal(a.where, b.where)
    assert dict(a.texts) == dict(b.texts)
    assert len(a.texts) == len({tuple(w) for w in a.where.reshape(-1, 2).tolist()})


def test_few_passages() -> None:
    _, _, _, one = random_sums(0, 1)
    assert np.isnan(one.margin).all()
    assert np.isneginf(one.best[..., 1:]).all()
    nothing = of_passages(np.empty((0, 2, 3, 2)), [], [])
    assert np.isnan(nothing.mean).all()
    assert_equal(merge(nothing, one), one)


def test_sums_are_read_as_they_were_written(tmp_path: Path) -> None:
    sums = random_sums(3, 4)[3]
    save(sums, tmp_path / "shard.npz")
    assert_equal(load(tmp_path / "shard.npz"), sums)
    assert [path.name for path in tmp_path.iterdir()] == ["shard.npz"]


def passages(model: gpt2viz.Model) -> list[tuple[Where, list[int]]]:
    found = []
    for document, text in enumerate(TEXTS):
        ids = model.tokenizer.encode(text)
        for start in range(0, len(ids), N_TOKENS):
            if len(ids[start : start + N_TOKENS]) >= SHORTEST:
                found.append((Where(document, start), ids[start : start + N_TOKENS]))
    return found


def test_a_shard_against_one_run_for_each_passage(tiny: gpt2viz.Model) -> None:
    sums = score(tiny, Shard(0, 0, tuple(TEXTS)), N_TOKENS)
    runs = [(place, head_scores(gpt2viz.trace(tiny, ids))) for place, ids in passages(tiny)]
    for s, name in enumerate(SCORES):
        scores = np.stack([run[name] for _, run in runs])
        assert_array_equal(sums.count[s], (~np.isnan(scores)).sum(axis=0))
        assert_allclose(sums.mean[s], np.nanmean(scores, axis=0), atol=1e-6)
        assert_allclose(sums.best[s, ..., 0], np.nanmax(scores, axis=0), atol=1e-6)
        best = [runs[k][0] for k in np.nanargmax(scores, axis=0).ravel()]
        assert [Where(*w) for w in sums.where[s, ..., 0, :].reshape(-1, 2).tolist()] == best
    starts = {place: tiny.tokenizer.decode(ids) for place, ids in passages(tiny)}
    assert all(text == starts[place] for place, text in sums.texts.items())


def test_the_survey_of_a_file(tiny_folder: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    heard: list[tuple[int, int]] = []
    survey(corpus, tiny_folder, out, N_TOKENS, "cpu", local(1), progress=lambda *n: heard.append(n))
    assert heard == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert len(list(out.glob("shard-*.npz"))) == 4
    whole = score(gpt2viz.load_model(tiny_folder), Shard(0, 0, tuple(TEXTS)), N_TOKENS)
    for kind, read in (("parquet", pd.read_parquet), ("csv", pd.read_csv)):
        heads = read(out / f"heads.{kind}")
        assert len(heads) == 8 * 3 * 4
        expected = pd.DataFrame(head_rows(whole))
        assert_array_equal(heads[["score", "layer", "head"]], expected[["score", "layer", "head"]])
        for name in ("mean", "low", "high", "passages"):
            assert_allclose(heads[name], expected[name], atol=1e-6)
        assert_allclose(heads["mean"], whole.mean.ravel(), atol=1e-6)
        for side in (heads["high"] - heads["mean"], heads["mean"] - heads["low"]):
            assert_allclose(side, whole.margin.ravel(), atol=1e-6)
        found = read(out / f"passages.{kind}")
        expected = pd.DataFrame(passage_rows(whole))
        assert_array_equal(found["document"], expected["document"])
        assert_array_equal(found["text"], expected["text"])
        assert_allclose(found["value"], expected["value"], atol=1e-6)


def test_a_survey_that_was_cut_off_goes_on(tiny_folder: Path, corpus: Path, tmp_path: Path) -> None:
    done: list[int] = []

    def breaks(tasks: Iterable[Task]) -> Iterator[tuple[int, Sums]]:
        for task in tasks:
            if len(done) == 2:
                raise KeyboardInterrupt
            done.append(task.shard.number)
            yield work(task)

    def notes(tasks: Iterable[Task]) -> Iterator[tuple[int, Sums]]:
        for task in tasks:
            done.append(task.shard.number)
            yield work(task)

    out, whole = tmp_path / "out", tmp_path / "whole"
    with pytest.raises(KeyboardInterrupt):
        survey(corpus, tiny_folder, out, N_TOKENS, "cpu", breaks)
    assert not list(out.glob("heads.*"))
    survey(corpus, tiny_folder, out, N_TOKENS, "cpu", notes)
    assert done == [0, 1, 2, 3]
    survey(corpus, tiny_folder, whole, N_TOKENS, "cpu", local(1))
    assert (out / "heads.csv").read_bytes() == (whole / "heads.csv").read_bytes()
    assert (out / "passages.csv").read_bytes() == (whole / "passages.csv").read_bytes()


def test_another_survey_is_not_mixed_in(tiny_folder: Path, corpus: Path, tmp_path: Path) -> None:
    survey(corpus, tiny_folder, tmp_path / "out", N_TOKENS, "cpu", local(1))
    with pytest.raises(SurveyError, match="a survey of other texts"):
        survey(corpus, tiny_folder, tmp_path / "out", N_TOKENS + 1, "cpu", local(1))
    with pytest.raises(SurveyError, match="2 to 24"):
        survey(corpus, tiny_folder, tmp_path / "out", 25, "cpu", local(1))
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(SurveyError, match="no text"):
        survey(tmp_path / "empty.txt", tiny_folder, tmp_path / "none", 12, "cpu", local(1))


def test_what_the_texts_are_may_be_said_anew(
    tiny_folder: Path, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for about in ("", "Five texts."):
        survey(corpus, tiny_folder, out, N_TOKENS, "cpu", local(1), about)
        assert json.loads((out / "survey.json").read_text())["about"] == about


def same_as_one_worker(engine: object, tiny_folder: Path, corpus: Path, tmp_path: Path) -> None:
    survey(corpus, tiny_folder, tmp_path / "one", N_TOKENS, "cpu", local(1))
    survey(corpus, tiny_folder, tmp_path / "two", N_TOKENS, "cpu", engine)
    for number in range(4):
        name = f"shard-{number:06}.npz"
        assert_equal(load(tmp_path / "one" / name), load(tmp_path / "two" / name))
    for name in ("heads.csv", "passages.csv", "heads.parquet", "passages.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_two_processes_give_the_same(
    tiny_folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Streamlit's AppTest leaves a page as __main__, which a spawned process would run again.
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    same_as_one_worker(local(2), tiny_folder, corpus, tmp_path)


@pytest.mark.filterwarnings("default")  # Ray's own
def test_a_ray_of_two_workers_gives_the_same(
    tiny_folder: Path, corpus: Path, tmp_path: Path
) -> None:
    same_as_one_worker(on_ray(2, None), tiny_folder, corpus, tmp_path)

"""Surveys: shards, mergeable sums and the command, compared with one plain loop."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pytest
import scipy  # imports its parts when they are used
import torch
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet

import gpt2viz
from gpt2viz.analysis.scores import SCORES
from gpt2viz.cli import main
from gpt2viz.errors import SurveyError
from gpt2viz.survey.documents import Corpus, Shard, documents, shards
from gpt2viz.survey.engines import SHORTEST, Engine, Task, local, on_ray, score, work
from gpt2viz.survey.run import survey, survey_steps
from gpt2viz.survey.sums import BEST, Sums, Where, load, merge, merge_all, passage_sums, save
from gpt2viz.survey.tables import head_rows, passage_rows
from tests.analysis.head_scores import expected_scores
from tests.checkpoints import edit_json, write_checkpoint
from tests.oracles import FAMILIES, oracle, write_model
from tests.processes import has_ended

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
    """The texts in a file, with shards of one or two texts."""
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(TEXTS), encoding="utf-8")
    monkeypatch.setattr("gpt2viz.survey.run.shards", lambda path: shards(path, size=45))
    return path


def random_sums(seed: int, n: int) -> tuple[np.ndarray, list[Where], list[str], Sums]:
    """Scores of n passages of three documents, which differ by seed."""
    random = np.random.default_rng(seed)
    scores = random.random((n, 2, 3, 2)).round(1)
    scores[random.random(scores.shape) < 0.2] = np.nan
    where = [Where(3 * seed + k % 3, 8 * k) for k in range(n)]
    texts = [f"passage {seed}:{k}" for k in range(n)]
    return scores, where, texts, passage_sums(scores, where, texts).close()


def assert_equal(a: Sums, b: Sums) -> None:
    for name in ("count", "total", "documents", "best", "where"):
        assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert dict(a.texts) == dict(b.texts)
    assert a.open.keys() == b.open.keys()
    for number, both in a.open.items():
        for mine, theirs in zip(both, b.open[number], strict=True):
            assert_array_equal(mine, theirs)


def test_documents_and_shards(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\n\n  two \nthree", encoding="utf-8")
    assert list(documents(file)) == ["one", "two", "three"]
    assert list(shards(file, size=5)) == [Shard(0, 0, ("one", "two")), Shard(1, 2, ("three",))]
    (tmp_path / "many.txt").write_text("\n".join(["A crane ate fish. " * 36] * 600))
    ended = [shard.ended for shard in shards(tmp_path / "many.txt")]
    assert sum(ended) == 600
    assert max(ended) <= 60  # so that a progress bar moves
    (tmp_path / "many.txt").unlink()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.txt").write_text("four\nlines", encoding="utf-8")
    assert list(documents(tmp_path)) == ["four\nlines", "one\n\n  two \nthree"]
    with pytest.raises(SurveyError, match="can't be read"):
        list(documents(tmp_path / "nowhere.txt"))


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write the rows as JSON lines or Parquet, by the file's ending."""
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=2)
    else:
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        path.write_text("\n\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["jsonl", "ndjson", "parquet"])
def test_every_row_is_a_document(tmp_path: Path, kind: str) -> None:
    texts = ["one\nline two", "  ", None, 'a "quoted" 東京', "2024-01-01 00:00:00"]
    rows = [{"id": n, "text": f"wrong {n}", "body": text} for n, text in enumerate(texts)]
    corpus = Corpus(write_rows(tmp_path / f"x.{kind}", rows), "body")
    assert list(documents(corpus)) == [
        "one\nline two",
        'a "quoted" 東京',
        "2024-01-01 00:00:00",
    ]
    assert list(documents(corpus.path)) == [f"wrong {n}" for n in range(5)]
    assert corpus.record["field"] == "body"
    assert corpus.record["texts"] == Corpus(corpus.path).record["texts"]


def test_folder_may_have_all_kinds_of_files(tmp_path: Path) -> None:
    (tmp_path / "c.TXT").write_text("five\nsix", encoding="utf-8")
    (tmp_path / "notes.md").write_text("not a text of the corpus", encoding="utf-8")
    (tmp_path / "more.txt").mkdir()
    write_rows(tmp_path / "a.jsonl", [{"text": "one"}, {"text": "two"}])
    write_rows(tmp_path / "b.parquet", [{"text": "three"}, {"text": "four"}])
    assert list(documents(tmp_path)) == ["one", "two", "three", "four", "five\nsix"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"id,text", r"x\.csv can't be read: a corpus is \.txt .* or a folder of these"),
        ("x.json", b"[]", r"x\.json can't be read: a corpus is"),
        ("x.jsonl", b'{"text": "a"}\n{"body": "b"}', r"x\.jsonl, line 2: no field 'text'\. There "
         r"are: body\. Name the field with the text\."),
        ("x.jsonl", b"plain prose", r"x\.jsonl, line 1: no JSON"),
        ("x.jsonl", b"[1]", "line 1: a JSON object is expected"),
        ("x.jsonl", b'{"text": ["a"]}', "line 1: 'text' is list, no text"),
        ("x.jsonl", b'{"text": "a\\ud800"}', "line 1: 'text' is half of a surrogate pair"),
        ("x.jsonl", b"[" * 100_000, "line 1: no JSON"),
        ("x.jsonl", b'{"text": "\xff"}', r"x\.jsonl: can't be read"),
        ("x.txt", b"\xff", r"x\.txt: can't be read"),
        ("x.parquet", b"PAR1 no", r"x\.parquet: can't be read"),
    ],
)  # fmt: skip
def test_bad_corpus_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SurveyError, match=message) as refusal:
        list(documents(tmp_path / name))
    assert "\n" not in str(refusal.value)


def test_number_columns_and_named_pipes_are_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "x.parquet", [{"n": 1}])
    with pytest.raises(SurveyError, match=r"x\.parquet: 'n' is int64, no text"):
        list(documents(Corpus(tmp_path / "x.parquet", "n")))
    with pytest.raises(SurveyError, match=r"x\.parquet: no field 'text'\. There are: n\."):
        list(documents(tmp_path / "x.parquet"))
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(SurveyError, match=r"pipe\.txt isn't an ordinary file; on the command line"):
        list(documents(tmp_path))


@pytest.mark.slow
def test_address_without_a_ray_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr("gpt2viz.survey.engines.ANSWER", 1)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        closed_address = f"127.0.0.1:{closed.getsockname()[1]}"
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts connections, never answers
        silent = f"127.0.0.1:{server.getsockname()[1]}"
        for address in (closed_address, silent, f"ray://{silent}", "no-such-host.invalid:6379"):
            text = rf"^No Ray cluster answers at {address}; `ray start"
            with pytest.raises(SurveyError, match=text):
                on_ray(1, address)
    for address in ("here", "127.0.0.1", "127.0.0.1:x", "a:b:c"):
        with pytest.raises(SurveyError, match="is HOST:PORT of a Ray cluster, or auto, not"):
            on_ray(1, address)


def test_long_document_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt2viz.survey.documents.LONGEST", 4)
    (tmp_path / "long.txt").write_text("a\nabcdefghij\nklmn\nop", encoding="utf-8")
    cut = list(shards(tmp_path / "long.txt", size=3))
    assert cut == [
        Shard(0, 0, ("a", "abcd"), 0, True),
        Shard(1, 1, ("efgh",), 1, True),
        Shard(2, 1, ("ij", "klmn"), 2),
        Shard(3, 3, ("op",)),
    ]
    assert [shard.cut for shard in cut] == [{1}, {1}, {1}, set()]
    assert [shard.ended for shard in cut] == [1, 0, 2, 1]


def test_merged_sums_equal_the_sums_of_all() -> None:
    parts = [random_sums(seed, n) for seed, n in enumerate((5, 1, 9))]
    scores = np.concatenate([part[0] for part in parts])
    where = [w for part in parts for w in part[1]]
    texts = [text for part in parts for text in part[2]]
    result = merge_all(part[3] for part in parts)
    assert_allclose(result.mean, np.nanmean(scores, axis=0))
    n = (~np.isnan(scores)).sum(axis=0)
    assert_array_equal(result.count, n)
    numbers = np.array([w.document for w in where])
    for cell in np.ndindex(2, 3, 2):
        own = {d: scores[numbers == d][:, *cell] for d in set(numbers)}
        whole = [values[~np.isnan(values)] for values in own.values()]
        expected = margin([values for values in whole if len(values)])
        assert result.margin[cell] == pytest.approx(expected)
        by_score = sorted(
            (-scores[k][cell], where[k], texts[k])
            for k in range(len(scores))
            if not np.isnan(scores[k][cell])
        )[:BEST]
        assert_array_equal(result.best[cell], [-value for value, _, _ in by_score])
        assert [Where(*w) for w in result.where[cell].tolist()] == [w for _, w, _ in by_score]
        for _, w, text in by_score:
            assert result.texts[w] == text


def margin(documents: list[np.ndarray]) -> float:
    """The margin of the mean of all passages by loops; ``documents`` has the scores of each."""
    if len(documents) < 5:
        return float("nan")
    n = sum(map(len, documents))
    mean = sum(map(sum, documents)) / n
    shares = [len(scores) / n for scores in documents]
    apart = [
        w**2 * (np.mean(scores) - mean) ** 2 for w, scores in zip(shares, documents, strict=True)
    ]
    both = sum(w**2 for w in shares)
    # if documents' means have one variance, the share of it in their distances from the mean
    left = sum(w**2 * ((1 - w) ** 2 - w**2 + both) for w in shares) / both
    return float(scipy.stats.t.ppf(0.975, 1 / both - 1) * (sum(apart) / left) ** 0.5)


def test_interval_equals_the_textbooks() -> None:
    """For documents of equal length, it is the textbook interval of their means."""
    scores = np.random.default_rng(7).normal(size=(24, 1, 1, 1))
    where = [Where(k // 4, k % 4) for k in range(24)]
    result = merge_all(
        passage_sums(scores[part], [where[k] for k in part], [""] * len(part))
        for part in (range(7), range(7, 9), range(9, 24))  # a document may be in two batches
    )
    means = scores.reshape(6, 4).mean(axis=1)
    low, high = scipy.stats.t.interval(0.95, 5, means.mean(), scipy.stats.sem(means))
    assert result.mean[0, 0, 0] == pytest.approx(means.mean())
    assert result.margin[0, 0, 0] == pytest.approx((high - low) / 2)


@pytest.mark.slow
def test_interval_has_its_stated_coverage(subtests: pytest.Subtests) -> None:
    """2,000 surveys at once, one by head; ``spread`` is the documents' share of the variance."""
    kinds = ("equal", "uneven", "two long ones")
    for spread, sizes, n_documents in product((0.0, 0.1, 0.5), kinds, (5, 20)):
        with subtests.test(spread=spread, sizes=sizes):
            random = np.random.default_rng(n_documents)
            lengths = {
                "equal": np.full(n_documents, 12),
                "uneven": np.geomspace(2, 60, n_documents).astype(int),
                "two long ones": np.array([60, 60] + [2] * (n_documents - 2)),
            }[sizes]
            where = [Where(d, k) for d, length in enumerate(lengths) for k in range(length)]
            own = random.normal(size=(n_documents, 1, 40, 50)) * spread**0.5
            rest = random.normal(size=(len(where), 1, 40, 50)) * (1 - spread) ** 0.5
            scores = own[[w.document for w in where]] + rest
            result = passage_sums(scores, where, [""] * len(where))
            covered = (np.abs(result.mean) < result.margin).mean()
            assert 0.935 < covered < (0.97 if sizes == "equal" else 1)
            if spread:  # as if passages were independent
                narrow = 1.96 * scores.std(axis=0, ddof=1) / len(where) ** 0.5
                assert (np.abs(result.mean) < narrow).mean() < 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("n_documents", "share"), [(5, 0.89), (55, 0.94)])
def test_coverage_of_skewed_scores_is_lower(n_documents: int, share: float) -> None:
    """As docs/researchers.md says, for exponential scores, half of whose variance is documents'."""
    random = np.random.default_rng(0)
    where = [Where(k // 12, k % 12) for k in range(12 * n_documents)]
    own = random.exponential(size=(n_documents, 1, 40, 50)) - 1
    rest = random.normal(size=(len(where), 1, 40, 50))
    result = passage_sums(own[[p.document for p in where]] + rest, where, [""] * len(where))
    assert (np.abs(result.mean) < result.margin).mean() == pytest.approx(share, abs=0.015)


def test_pieces_of_a_long_document_are_one_document(
    tiny: gpt2viz.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six pieces of one text give no interval; with five more documents they give that of six."""
    text = " ".join(TEXTS)
    monkeypatch.setattr("gpt2viz.survey.documents.LONGEST", len(text) // 6 + 1)
    alone, among = tmp_path / "alone.txt", tmp_path / "among.txt"
    alone.write_text(text, encoding="utf-8")
    among.write_text("\n".join([*TEXTS, text, *TEXTS]), encoding="utf-8")
    cut = list(shards(alone))
    assert len(cut) == 6
    sums = merge_all(score(tiny, shard, N_TOKENS) for shard in cut)
    assert (sums.close().documents.number <= 1).all()
    assert np.isnan(sums.margin).all()
    assert len(set(sums.texts)) == len(set(sums.texts.values()))
    every = [score(tiny, shard, N_TOKENS) for shard in shards(among, size=50)]
    together, backwards = merge_all(every), merge_all(every[::-1])
    assert together.close().documents.number.max() == 9  # two of eleven are too short
    assert_allclose(together.margin, backwards.margin)
    monkeypatch.setattr("gpt2viz.survey.documents.LONGEST", 10_000)
    (whole,) = shards(among)
    assert whole.cut == set()


def test_best_passages_do_not_depend_on_the_order() -> None:
    first, second, third = (random_sums(seed, 6)[3] for seed in range(3))
    a, b = merge(merge(first, second), third), merge(third, merge(second, first))
    assert_array_equal(a.best, b.best)
    assert_array_equal(a.where, b.where)
    assert dict(a.texts) == dict(b.texts)
    assert len(a.texts) == len({tuple(w) for w in a.where.reshape(-1, 3).tolist()})


def test_few_passages_have_no_interval() -> None:
    _, _, _, single = random_sums(0, 1)
    assert np.isnan(single.margin).all()
    _, _, _, three_documents = random_sums(0, 60)
    assert np.isnan(three_documents.margin).all()
    assert (three_documents.documents.number == 3).all()
    assert np.isneginf(single.best[..., 1:]).all()
    nothing = passage_sums(np.empty((0, 2, 3, 2)), [], [])
    assert np.isnan(nothing.mean).all()
    assert_equal(merge(nothing, single), single)


def test_saved_sums_are_loaded_unchanged(tmp_path: Path) -> None:
    whole, more = random_sums(3, 4)[3], random_sums(4, 5)
    sums = merge(whole, passage_sums(*more[:3]))
    assert list(sums.open) == [12, 13, 14]
    save(sums, tmp_path / "shard.npz")
    assert_equal(load(tmp_path / "shard.npz"), sums)
    assert [path.name for path in tmp_path.iterdir()] == ["shard.npz"]


def passages(model: gpt2viz.Model) -> list[tuple[Where, list[int]]]:
    """Every passage's ids, as the app would read it alone."""
    results, first, last = [], list(model.tokenizer.first), list(model.tokenizer.last)
    room = N_TOKENS - len(first + last)
    for document, text in enumerate(TEXTS):
        ids = model.tokenizer.encode_part(text)
        for start in range(0, len(ids), room):
            part = first + ids[start : start + room] + last
            if len(part) >= SHORTEST:
                results.append((Where(document, start), part))
    return results


@pytest.mark.parametrize("around", [{}, {"add_bos_token": True, "add_eos_token": True}])
@pytest.mark.parametrize("family", FAMILIES)
def test_shard_equals_numpy_for_each_passage(
    tmp_path: Path, family: str, around: dict[str, bool]
) -> None:
    """With and without the tokens that the tokenizer adds before and after a text."""
    of = oracle(write_model(tmp_path, family))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(around), encoding="utf-8")
    model = gpt2viz.load_model(tmp_path)
    sums, runs = score(model, Shard(0, 0, tuple(TEXTS)), N_TOKENS), []
    for passage, ids in passages(model):
        assert [ids[0], ids[-1]].count(0) == len(around)
        runs.append((passage, [expected_scores(w, ids) for w in of.run(ids, True)["weights"]]))
    for s, name in enumerate(SCORES):
        scores = np.array([[layer[name] for layer in run] for _, run in runs])
        assert_array_equal(sums.count[s], (~np.isnan(scores)).sum(axis=0))
        assert_allclose(sums.mean[s], np.nanmean(scores, axis=0), atol=1e-6)
        assert_allclose(sums.best[s, ..., 0], np.nanmax(scores, axis=0), atol=1e-6)
        best = [runs[k][0] for k in np.nanargmax(scores, axis=0).ravel()]
        assert [Where(*w) for w in sums.where[s, ..., 0, :].reshape(-1, 3).tolist()] == best
    own = {passage: model.tokenizer.text_of(ids) for passage, ids in passages(model)}
    assert not any("<|" in text for text in own.values())
    assert all(text == own[passage] for passage, text in sums.texts.items())


@pytest.mark.parametrize("form", [str, Path])
def test_survey_of_a_file(tiny_folder: Path, corpus: Path, tmp_path: Path, form: type) -> None:
    model, out = write_checkpoint(tmp_path / "model", seed=1), tmp_path / "out"
    survey(corpus, model, tmp_path / "earlier", N_TOKENS, "cpu", local(1))
    shutil.copy(tiny_folder / "model.safetensors", model)  # other weights in the same file
    progress: list[tuple[int, int]] = []
    given = form(corpus), form(model), form(out), N_TOKENS, "cpu", local(1)
    survey(*given, progress=lambda *n: progress.append(n))
    assert progress == [(0, 5), (1, 5), (2, 5), (4, 5), (5, 5)]  # documents; one shard has two
    assert len(list(out.glob("shard-*.npz"))) == 4
    whole = score(gpt2viz.load_model(tiny_folder), Shard(0, 0, tuple(TEXTS)), N_TOKENS)
    for kind, read in (("parquet", pd.read_parquet), ("csv", pd.read_csv)):
        heads = read(out / f"heads.{kind}")
        assert len(heads) == 8 * 3 * 4
        expected = pd.DataFrame(head_rows(whole))
        assert_array_equal(heads[["score", "layer", "head"]], expected[["score", "layer", "head"]])
        for name in ("mean", "low", "high", "passages", "documents"):
            assert_allclose(heads[name], expected[name], atol=1e-6)
        assert_allclose(heads["mean"], whole.mean.ravel(), atol=1e-6)
        for side in (heads["high"] - heads["mean"], heads["mean"] - heads["low"]):
            assert_allclose(side, whole.margin.ravel(), atol=1e-6)
        result = read(out / f"passages.{kind}")
        expected = pd.DataFrame(passage_rows(whole))
        assert_array_equal(result["document"], expected["document"])
        assert_array_equal(result["text"], expected["text"])
        assert_allclose(result["value"], expected["value"], atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_interrupted_survey_resumes(corpus: Path, tmp_path: Path, family: str) -> None:
    model, done = write_model(tmp_path / "model", family), list[int]()

    def note_tasks(tasks: Iterable[Task], most: int = 99) -> Iterator[tuple[int, Sums]]:
        for task in tasks:
            if len(done) == most:
                raise KeyboardInterrupt
            done.append(task.shard.number)
            yield work(task)

    out, whole = tmp_path / "out", tmp_path / "whole"
    with pytest.raises(KeyboardInterrupt):
        survey(corpus, model, out, N_TOKENS, "cpu", lambda tasks: note_tasks(tasks, 2))
    assert not list(out.glob("heads.*"))
    survey(corpus, model, out, N_TOKENS, "cpu", note_tasks)
    assert done == [0, 1, 2, 3]
    survey(corpus, model, whole, N_TOKENS, "cpu", local(1))
    assert (out / "heads.csv").read_bytes() == (whole / "heads.csv").read_bytes()
    assert (out / "passages.csv").read_bytes() == (whole / "passages.csv").read_bytes()


def test_survey_of_every_checkpoint_resumes(corpus: Path, tmp_path: Path) -> None:
    steps, out = (1, 20, 300), tmp_path / "out"
    for step in steps:
        write_checkpoint(tmp_path / "grown" / f"step-{step}", seed=step)
    done: list[tuple[int | None, int]] = []

    def note_tasks(tasks: Iterable[Task], most: int = 99) -> Iterator[tuple[int, Sums]]:
        for task in tasks:
            if len(done) == most:
                raise KeyboardInterrupt
            assert isinstance(task.sums, partial)
            done.append((task.sums.args[0][1], task.shard.number))
            yield work(task)

    given = corpus, tmp_path / "grown" / "step-300", out, N_TOKENS, "cpu"
    with pytest.raises(KeyboardInterrupt):
        survey_steps(*given, lambda tasks: note_tasks(tasks, 6))
    assert not list(out.glob("steps.*"))
    progress: list[tuple[int, int]] = []
    survey_steps(*given, note_tasks, progress=lambda *n: progress.append(n))
    assert done == [(step, shard) for step in steps for shard in range(4)]
    assert [now for now, _ in progress] == sorted(now for now, _ in progress)
    assert (progress[0], progress[-1]) == ((5, 15), (15, 15))  # finished work is counted
    for result in (pd.read_csv(out / "steps.csv"), pd.read_parquet(out / "steps.parquet")):
        assert result["step"].unique().tolist() == list(steps)
        for step, rows in result.groupby("step"):
            model = gpt2viz.load_model(tmp_path / "grown" / f"step-{step}")
            whole = score(model, Shard(0, 0, tuple(TEXTS)), N_TOKENS)
            assert_allclose(rows["mean"], whole.mean.ravel(), atol=1e-6)
            assert rows["score"].tolist() == [row["score"] for row in head_rows(whole)]


def test_survey_in_this_process_restores_the_threads(
    tiny_folder: Path, corpus: Path, tmp_path: Path
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        survey(corpus, tiny_folder, tmp_path / "out", N_TOKENS, "cpu", local(1))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_folders_of_other_surveys_and_bad_arguments_are_refused(
    tiny_folder: Path, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for about in ("", "Five texts."):  # it may change
        survey(corpus, tiny_folder, out, N_TOKENS, "cpu", local(1), about)
        assert json.loads((out / "survey.json").read_text())["about"] == about
    with pytest.raises(SurveyError, match="a survey of other texts"):
        survey(corpus, tiny_folder, out, N_TOKENS + 1, "cpu", local(1))
    for n_tokens in (25, 1, 0, -5):
        with pytest.raises(SurveyError, match="2 to 24"):
            survey(corpus, tiny_folder, out, n_tokens, "cpu", local(1))
    begun = write_checkpoint(tmp_path / "begun")
    (begun / "tokenizer_config.json").write_text('{"add_bos_token": true}', encoding="utf-8")
    with pytest.raises(SurveyError, match="3 to 24"):
        survey(corpus, begun, out, 2, "cpu", local(1))
    with pytest.raises(SurveyError, match="has no checkpoints of its training, such as steps/step"):
        survey_steps(corpus, tiny_folder, out, N_TOKENS, "cpu", local(1))
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(SurveyError, match="no text"):
        survey(tmp_path / "empty.txt", tiny_folder, tmp_path / "none", 12, "cpu", local(1))
    assert json.loads((out / "survey.json").read_text())["scores"] == list(SCORES)
    edit_json(out / "survey.json", scores=[name for name in SCORES if name != "entropy"])
    with pytest.raises(SurveyError, match="by an earlier version"):
        survey(corpus, tiny_folder, out, N_TOKENS, "cpu", local(1))


def check_equal_bytes(engine: Engine, tiny_folder: Path, corpus: Path, tmp_path: Path) -> None:
    survey(corpus, tiny_folder, tmp_path / "one", N_TOKENS, "cpu", local(1))
    survey(corpus, tiny_folder, tmp_path / "two", N_TOKENS, "cpu", engine)
    for number in range(4):
        name = f"shard-{number:06}.npz"
        assert_equal(load(tmp_path / "one" / name), load(tmp_path / "two" / name))
    for name in ("heads.csv", "passages.csv", "heads.parquet", "passages.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.slow
def test_two_processes_give_the_same_bytes(
    tiny_folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Streamlit's AppTest leaves a page as __main__, which a spawned process would run again.
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    check_equal_bytes(local(2), tiny_folder, corpus, tmp_path)


@pytest.mark.filterwarnings("default")  # Ray's own
@pytest.mark.slow
def test_ray_gives_the_same_bytes_and_is_found_by_address(
    tiny_folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpt2viz.survey.engines.ANSWER", 60)  # seconds, on a busy machine
    ray = pytest.importorskip("ray")
    answered: list[Engine] = []

    def engine(tasks: Iterable[Task]) -> Iterator[tuple[int, Sums]]:
        for done in on_ray(2, None)(tasks):
            if not answered:
                answered.append(on_ray(1, ray.get_runtime_context().gcs_address))  # else it raises
            yield done

    check_equal_bytes(engine, tiny_folder, corpus, tmp_path)
    assert answered


def test_missing_ray_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    text = r"^A survey on Ray needs ray: pip install 'gpt2viz\[ray\]'$"
    with pytest.raises(gpt2viz.MissingExtraError, match=text):
        on_ray(1, None)


def run_heads(arguments: str, log: Path) -> None:
    """Run the command as the leader of a process group, with its messages in a file."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    with log.open("w") as sys.stderr:
        main(["heads", *arguments.split()])


@pytest.mark.slow
def test_stopped_survey_prints_one_line(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Ctrl-C, which its processes get too, and by SIGTERM; no process is left."""
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join([" ".join(TEXTS)] * 2000), encoding="utf-8")
    for number, send in ((signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)):
        out, text = tmp_path / number.name, tmp_path / f"{number.name}.txt"
        given = f"-c {corpus} -m {tiny_folder} -o {out} --workers 2 --tokens 12 --quiet"
        run = get_context("fork").Process(target=run_heads, args=(given, text))
        run.start()
        assert run.pid
        while run.is_alive() and len(psutil.Process(run.pid).children()) < 2:
            time.sleep(0.05)
        send(run.pid, number)
        run.join()
        assert (run.exitcode, text.read_text().strip()) == (130, "gpt2viz: stopped")
        assert has_ended(run.pid)

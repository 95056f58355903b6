"""A survey, from texts to tables; finished shards are stored, so that it can resume."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import gpt2viz
from gpt2viz.analysis.scores import SCORES
from gpt2viz.errors import SurveyError
from gpt2viz.extras import require
from gpt2viz.files import read_json, whole
from gpt2viz.labels import sentence
from gpt2viz.survey.documents import SHARD, Corpus, Shard, shards
from gpt2viz.survey.engines import SHORTEST, Engine, Task, cached_model, checksum, score
from gpt2viz.survey.stored import HEADS, INTERVALS, PASSAGES, RECORD
from gpt2viz.survey.sums import Sums, load, merge_all, save

#: Called with the number of finished documents, and of all.
Progress = Callable[[int, int], None]


def survey(
    texts: str | Path | Corpus,
    model: str | Path,
    out: str | Path,
    n_tokens: int,
    device: str,
    engine: Engine,
    about: str = "",
    progress: Progress = lambda _done, _of: None,
    step: int | None = None,
) -> None:
    """Score the missing shards, then merge all and write the tables into ``out``.

    ``about`` describes the texts for readers of the result; ``progress`` is called at the start
    and after each shard with the number of finished documents, and of all. ``step`` selects a
    checkpoint of the model's training instead of the model itself. Raises ``SurveyError``
    if ``out`` holds another survey, texts can't be read or there are none, or passages are
    longer than the model's context; ``DeviceError`` if a machine has no such ``device``;
    ``MissingExtraError`` without PyArrow and SciPy; and what ``load_model`` raises.
    """
    tables, out = table_writer(), Path(out)  # before any work is done
    cached_model.cache_clear()
    read = cached_model(model, step)
    check_length(read, n_tokens)
    names = tuple(SCORES)
    made_from = {
        "model": checksum(read),
        "tokens": n_tokens,
        "intervals": INTERVALS,
        "scores": list(names),  # what each shard holds, in this order
    }
    sums_of = partial(score, (model, step), n_tokens=n_tokens, names=names, device=device)
    corpus = texts if isinstance(texts, Corpus) else Corpus(Path(texts))
    sums = collect(corpus, out, RECORD, made_from, about, sums_of, engine, progress)
    tables.write({HEADS: tables.head_rows(sums), PASSAGES: tables.passage_rows(sums)}, out)


def collect(
    corpus: Corpus,
    out: Path,
    record: str,
    made_from: dict[str, Any],
    about: str,
    sums_of: Callable[[Shard], Sums],
    engine: Engine,
    progress: Progress,
) -> Sums:
    """Compute the ``sums_of`` a corpus's missing shards, store them in ``out``, and return all.

    ``record`` names the file there that records what they are ``made_from``, besides the corpus.
    Raises what ``survey`` raises.
    """
    ended = [shard.ended for shard in shards(corpus)]  # documents, by shard
    if not ended:
        raise SurveyError(f"{corpus.path}: holds no text")
    _check_same_survey(out / record, {**corpus.record, "shard": SHARD, **made_from}, about)
    files = [out / f"shard-{number:06}.npz" for number in range(len(ended))]

    left = (shard for shard in shards(corpus) if not files[shard.number].is_file())
    n_done = sum(n for n, file in zip(ended, files, strict=True) if file.is_file())
    progress(n_done, of := sum(ended))
    for number, sums in engine(Task(shard, sums_of) for shard in left):
        save(sums, files[number])
        progress(n_done := n_done + ended[number], of)
    sums = merge_all(map(load, files))
    if not sums.count.any():
        raise SurveyError(sentence("changes.too_short", tokens=min(SHORTEST, made_from["tokens"])))
    return sums


def survey_steps(
    texts: str | Path | Corpus,
    model: str | Path,
    out: str | Path,
    n_tokens: int,
    device: str,
    engine: Engine,
    about: str = "",
    progress: Progress = lambda _done, _of: None,
) -> None:
    """Survey each checkpoint of a model's training into ``out/step-N``, then join the tables.

    Finished shards of each are stored, as by ``survey``; ``progress`` counts the documents of all.
    Raises ``SurveyError`` if the model has no checkpoints, and what ``survey`` raises.
    """
    out, steps = Path(out), list(gpt2viz.load_steps(model))
    if not steps:
        raise SurveyError(f"{model} has no checkpoints of its training, such as steps/step-100")
    for before, step in enumerate(steps):

        def report(done: int, of: int, before: int = before) -> None:
            progress(before * of + done, len(steps) * of)

        survey(
            texts, model, out / f"step-{step}", n_tokens, device, engine, about, report, step=step
        )
    table_writer().write_steps(out, steps)


def table_writer() -> ModuleType:
    """The module ``tables``, if everything that a survey needs is installed.

    Raises ``MissingExtraError`` if it isn't.
    """
    with require("A survey", "survey"):
        import_module("scipy.special")
        return import_module("gpt2viz.survey.tables")


def check_length(model: gpt2viz.Model, n_tokens: int) -> None:
    """Raise ``SurveyError`` for passages of a length that the model can't read."""
    fewest = 2 + len(model.tokenizer.first) + len(model.tokenizer.last)
    most = model.config.n_positions
    if not fewest <= n_tokens <= most:
        raise SurveyError(f"Passages must have {fewest} to {most} tokens for this model.")


def _check_same_survey(path: Path, record: dict[str, Any], about: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shards = any(path.parent.glob("shard-*.npz"))  # of another kind, where their record isn't ours
    made = read_json(path) if path.is_file() else {} if shards else record
    if {name: made.get(name) for name in record} != record:
        raise SurveyError(
            f"{path.parent} holds a survey of other texts, another model, other scores, passages "
            "of another length, or by an earlier version. Choose another folder."
        )
    with whole(path) as partial:
        partial.write_text(json.dumps(record | {"about": about}), encoding="utf-8")

"""Two checkpoints over many texts: which heads behave differently, and on which texts.

The distances are those of ``gpt2viz.analysis.model_changes``; heads are listed by how far their own
output moved. Rounding moves it too, which is measured with ``before`` alone, each weight changed by
an error as large as a 16-bit format causes; a head counts as changed if its own output moved more
than twice as far. Many heads are tested at once, so the false discovery rate is limited: at most
5 % of those listed are expected to be there by chance (Benjamini & Hochberg 1995, "Controlling the
False Discovery Rate"), by one-sided t-tests over documents, as for a survey's intervals.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch

from gpt2viz.analysis.model_changes import (
    LOSSES,
    MEASURES,
    Pair,
    WeightChange,
    check_comparable,
    equal_heads,
    equal_mlps,
    equal_weights,
    equal_words,
    rounding,
    weight_changes,
)
from gpt2viz.analysis.restored import Restored, restore
from gpt2viz.arrays import Numbers
from gpt2viz.errors import SurveyError
from gpt2viz.labels import first_few, sentence
from gpt2viz.model import devices, model_registry
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.forward import RUN_LOCK
from gpt2viz.survey.documents import FIELD, Corpus, Shard, documents
from gpt2viz.survey.engines import (
    BATCH,
    Checkpoint,
    Engine,
    cached_model,
    checksum,
    empty_sums,
    load_checkpoint,
    local,
    passages_of,
)
from gpt2viz.survey.run import Progress, check_length, collect, table_writer
from gpt2viz.survey.sums import FEWEST, Sums, Where, merge_all, passage_sums

#: The file in a folder that records what its numbers were made from.
RECORD = "changes.json"
#: A head counts as changed if its own output moved this many times as far as rounding moves it.
BEYOND_ROUNDING = 2.0
#: The number of heads whose passages are listed.
_WITH_TEXTS = 8
#: The share of the changed heads expected by chance.
FALSE_DISCOVERIES = 0.05
#: The most numbers of a batch's streams, and of its logits, to limit the memory.
_STREAM, _LOGITS = 2**24, 2**26


class Moved(NamedTuple):
    """A mean distance with its 95 % interval over documents, and the distance by rounding alone."""

    mean: float
    low: float
    high: float
    rounding: float


class HeadChange(NamedTuple):
    """The change of a head: how far it ``moved`` by each of ``MEASURES``.

    ``q`` is the smallest false discovery rate at which it would be listed as changed,
    NaN for fewer than five documents; ``changed`` says that it is listed. ``equal`` says that its
    weights, with the norm before them, are bit for bit the same.
    """

    layer: int
    head: int
    moved: Mapping[str, Moved]
    q: float
    changed: bool
    equal: bool

    @property
    def name(self) -> str:
        """Its name, such as "1.3"."""
        return f"{self.layer}.{self.head}"


class TextChange(NamedTuple):
    """A passage on which a head's own output moved most, ``rank`` 1 first, and its tokens.

    ``query`` is the token at which it moved most, and ``distance`` how far.
    """

    layer: int
    head: int
    rank: int
    value: float
    position: Where
    text: str
    tokens: tuple[str, ...]
    query: int
    distance: float


@dataclass(frozen=True, eq=False)
class Changes:
    """The differences of two checkpoints over many texts; ``compare_models`` makes it.

    ``heads`` are all heads, the one whose own output moved most first; ``mean`` has the mean
    distances by ``MEASURES``, (n_layer, n_head) each. ``loss`` has mean and margin of both models'
    losses on the second half of each passage. ``weights`` are all tensors of weights, in the
    network's order.
    """

    before: Model = field(repr=False)
    after: Model = field(repr=False)
    n_tokens: int
    n_passages: int
    n_documents: int
    heads: tuple[HeadChange, ...] = field(repr=False)
    weights: tuple[WeightChange, ...] = field(repr=False)
    loss: dict[str, tuple[float, float]]
    mean: dict[str, Numbers] = field(repr=False)
    _sums: Sums = field(repr=False)
    _sample: tuple[tuple[int, ...], ...] = field(repr=False)

    @property
    def texts(self) -> tuple[TextChange, ...]:
        """The passages on which the most changed heads' own outputs moved most, head by head."""
        moved = self.heads[:_WITH_TEXTS]
        return tuple(text for head in moved for text in self.texts_of(head.layer, head.head))

    @cached_property
    def _pair(self) -> Pair:
        return Pair.of(self.before, self.after)

    def texts_of(self, layer: int, head: int) -> list[TextChange]:
        """The passages on which one head's own output moved most, best first."""
        number = layer * self.before.config.n_head + head  # "own output" comes first
        texts = []
        for rank, value in enumerate(self._sums.best[0, 0, number], start=1):
            if not value > 0:  # −∞ where there are fewer passages
                break
            position = Where(*self._sums.where[0, 0, number, rank - 1].tolist())
            text = self._sums.texts[position]
            ids = self.before.tokenizer.encode(text)
            tokens = tuple(self.before.tokenizer.decode([n]) for n in ids)
            apart = self._pair.own_output(ids, layer, head)
            query = int(apart.argmax())
            moved = float(value), position, text, tokens, query, float(apart[query])
            texts.append(TextChange(layer, head, rank, *moved))
        return texts

    def words(self) -> str:
        """Say first what is equal, then how many heads changed, and which."""
        return " ".join(filter(None, (equal_words(self.before, self.after), self._changed_words())))

    def _changed_words(self) -> str:
        if equal_weights(self.before.network, self.after.network):
            return ""
        if self.n_documents < FEWEST:
            return sentence("changes.few_documents", documents=self.n_documents)
        changed = [head.name for head in self.heads if head.changed]
        return sentence(
            ("changes.none", "changes.one", "changes.some")[min(2, len(changed))],
            few=len(changed),
            all=len(self.heads),
            heads=first_few(changed, 8),
        )

    def restore(
        self,
        share: float = 0.95,
        progress: Callable[[Restored, float], object] | None = None,
    ) -> Restored:
        """Restore heads and MLPs of ``before`` in ``after``, each time the one that undoes most.

        Ends when a ``share`` of the change in the predictions is undone, or nothing is left to
        restore: see ``gpt2viz.analysis.restored``. ``progress`` is called after every batch with
        the result so far and the share that is done; an exception that it raises ends the search.
        """
        blocks = zip(self.before.network.blocks, self.after.network.blocks, strict=True)
        mlps = [(n, None) for n, pair in enumerate(blocks) if not equal_mlps(*pair)]
        heads = [(head.layer, head.head) for head in self.heads if not head.equal]
        return restore(self.before, self.after, self._sample, [*heads, *mlps], share, progress)


def compare_models(
    before: Checkpoint | str | Path,
    after: Checkpoint | str | Path,
    texts: Sequence[str] | str | Path | Corpus,
    *,
    n_tokens: int = 64,
    device: str | None = None,
    out: str | Path | None = None,
    engine: Engine | None = None,
    progress: Progress = lambda _done, _of: None,
) -> Changes:
    """Compare two checkpoints with the same tokenizer and shape, such as a model before and after
    fine-tuning, over many texts: documents, or a file or folder as for ``gpt2viz heads``.

    Each document is cut into passages of ``n_tokens`` tokens. ``device`` is by default that of
    the first model in memory, or the CPU; a model on another is copied. Finished shards are stored
    in ``out``, so that an interrupted comparison can resume. An ``engine`` other than this process
    needs checkpoints in folders. ``progress`` is called with the number of finished documents, and
    of all. Raises ``ArgumentError`` for models that can't be compared, ``SurveyError`` if texts
    can't be read, there are none, or ``out`` holds another comparison, ``MissingExtraError``
    without the extra ``survey``, and what ``load_model`` raises.
    """
    table_writer()  # raises for a missing module before any work is done
    cached_model.cache_clear()
    in_memory = [given.network.device for given in (before, after) if isinstance(given, Model)]
    device = device or str(next(iter(in_memory), "cpu"))
    pair = [_checkpoint(given, device) for given in (before, after)]
    first, second = (load_checkpoint(given, device if in_memory else "cpu") for given in pair)
    check_comparable(first, second)
    check_length(first, n_tokens)
    made_from = {
        "before": out and checksum(first, isinstance(before, Model)),
        "after": out and checksum(second, isinstance(after, Model)),
        "tokens": n_tokens,
        "measures": [*MEASURES, *LOSSES],
    }
    sums_of = partial(_distances, pair[0], pair[1], n_tokens, device)
    with TemporaryDirectory() as temporary:
        folder = Path(out or f"{temporary}/changes")
        corpus = _corpus(texts, Path(temporary))
        sums = collect(corpus, folder, RECORD, made_from, "", sums_of, engine or local(1), progress)
        return _changes(first, second, sample_of(first, corpus, n_tokens), n_tokens, sums)


def change_rows(changes: Changes) -> dict[str, list[dict[str, Any]]]:
    """The tables "heads", "weights" and "texts": a row for each head, tensor and passage."""
    heads = [
        {"layer": head.layer, "head": head.head, "changed": head.changed, "equal": head.equal}
        | {"q": head.q}
        | {
            f"{name} {part}".removesuffix(" mean"): value
            for name, moved in head.moved.items()
            for part, value in moved._asdict().items()
        }
        for head in changes.heads
    ]
    weights = [w._asdict() | {"size": " × ".join(map(str, w.size))} for w in changes.weights]
    texts = [
        {"layer": text.layer, "head": text.head, "rank": text.rank, "value": text.value}
        | {**text.position._asdict(), "text": text.text, "query": text.query}
        | {"query token": text.tokens[text.query], "query moved": text.distance}
        for text in changes.texts
    ]
    return {"heads": heads, "weights": weights, "texts": texts}


def _corpus(texts: Sequence[str] | str | Path | Corpus, folder: Path) -> Corpus:
    """The texts as a corpus; a sequence of texts is written into a folder."""
    if isinstance(texts, Corpus | Path | str):
        return texts if isinstance(texts, Corpus) else Corpus(Path(texts))
    if not any(texts):
        raise SurveyError("No text was given: nothing can be compared.")
    path = folder / "texts.jsonl"
    path.write_text("\n".join(json.dumps({FIELD: text}) for text in texts), encoding="utf-8")
    return Corpus(path)


def _checkpoint(given: Checkpoint | str | Path, device: str) -> Checkpoint:
    """A checkpoint by its name or folder; a model in memory on the ``device``, itself or a copy."""
    if isinstance(given, str | Path):
        return model_registry.find(given)[1], None
    at = torch.empty(0, device=devices.find(device)).device  # "cuda" is "cuda:0"
    if not isinstance(given, Model) or given.network.device == at:
        return given
    with RUN_LOCK, devices.require_memory(given.name, at):  # a run's hooks aren't copied
        network = copy.deepcopy(given.network).to(at)
    if given.config.tie_word_embeddings:
        network.lm_head.weight = network.embedding.weight
    return replace(given, network=network)


def _distances(
    first: Checkpoint, second: Checkpoint, n_tokens: int, device: str, shard: Shard
) -> Sums:
    """Every distance on a shard's passages: ``MEASURES`` of each head, then ``LOSSES``, in one row
    of numbers, (1, 1, 4 · n_layer · n_head + 2)."""
    before, after = (load_checkpoint(given, device) for given in (first, second))
    n = len(MEASURES) * before.config.n_layer * before.config.n_head + len(LOSSES)
    compare, sums = Pair.of(before, after), [empty_sums(1, 1, n)]
    for passages in passages_of(before, shard, n_tokens, _batch_size(before, n_tokens)):
        rows = [ids for _, ids in passages]
        numbers = compare.distances(torch.tensor(rows, device=before.network.device))
        texts = [before.tokenizer.text_of(row) for row in rows]
        where = [position for position, _ in passages]
        sums.append(passage_sums(numbers[:, None, None], where, texts))
    return merge_all(sums).close(but=shard.cut)


def _batch_size(model: Model, n_tokens: int) -> int:
    config = model.config
    stream = n_tokens * config.n_embd * config.n_layer
    most = min(_STREAM // stream, _LOGITS // (n_tokens * config.vocab_size))
    return max(1, min(BATCH, most))


def _changes(
    before: Model, after: Model, sample: tuple[tuple[int, ...], ...], n_tokens: int, sums: Sums
) -> Changes:
    """Evaluate the sums of both models' distances."""
    sizes = (len(MEASURES), before.config.n_layer, before.config.n_head)
    mean, margin = sums.mean[0, 0], sums.margin[0, 0]
    rows = (mean, mean - margin, mean + margin, rounding(before, after, sample))
    *numbers, floor = (row[: -len(LOSSES)].reshape(sizes) for row in rows)
    freedom, error = (row[0, 0, : floor[0].size].reshape(sizes[1:]) for row in sums.spread())
    q = smallest_rates(_chance(numbers[0][0] - BEYOND_ROUNDING * floor[0], error, freedom))
    equal = equal_heads(before, after)
    heads = []
    for at in np.ndindex(q.shape):
        values = ([float(part[n][at]) for part in (*numbers, floor)] for n in range(sizes[0]))
        moved = {name: Moved(*four) for name, four in zip(MEASURES, values, strict=True)}
        rate = float(q[at])
        layer, head = at
        heads.append(
            HeadChange(layer, head, moved, rate, rate <= FALSE_DISCOVERIES, bool(equal[at]))
        )
    losses = zip(mean[-len(LOSSES) :].tolist(), margin[-len(LOSSES) :].tolist(), strict=True)
    return Changes(
        before=before,
        after=after,
        n_tokens=n_tokens,
        n_passages=int(sums.count.max()),
        n_documents=int(sums.close().documents.number.max()),
        heads=tuple(sorted(heads, key=lambda head: -head.moved["own output"].mean)),
        weights=weight_changes(before, after),
        loss=dict(zip(LOSSES, losses, strict=True)),
        mean=dict(zip(MEASURES, numbers[0], strict=True)),
        _sums=sums,
        _sample=sample,
    )


def _chance(beyond: Numbers, error: Numbers, freedom: Numbers) -> Numbers:
    """The probability of a mean at least this far beyond its bound: one-sided, by Student's t.

    NaN if the error is unknown.
    """
    from scipy.special import stdtr

    with np.errstate(invalid="ignore", divide="ignore"):
        p = stdtr(freedom, -beyond / error)
        exact = np.where(beyond > 0, 0.0, 1.0)  # no variance
        chance: Numbers = np.where(error == 0, exact, p)
    return chance


def smallest_rates(p: Numbers) -> Numbers:
    """The smallest false discovery rate at which each test would be listed, of the same shape as
    ``p`` (Benjamini & Hochberg 1995); NaN where p is."""
    from scipy.stats import false_discovery_control

    q, there = np.full_like(p, np.nan), ~np.isnan(p)
    q[there] = false_discovery_control(p[there])
    return q


def sample_of(
    model: Model, texts: Corpus, n_tokens: int, most: int = 8
) -> tuple[tuple[int, ...], ...]:
    """The ids of the first passage of up to ``most`` documents, spread evenly over all texts; a
    document of fewer than two tokens is passed over for the next longer one."""
    number = sum(1 for _ in documents(texts))
    chosen = {n * number // most for n in range(most)} if number > most else set(range(number))
    room = n_tokens - len(model.tokenizer.first) - len(model.tokenizer.last)
    rows, due = [], 0
    for n, text in enumerate(documents(texts)):
        due += n in chosen
        part = model.tokenizer.encode_part(text[: 64 * n_tokens])[:room] if due else []
        if len(part) > 1:
            rows.append((*model.tokenizer.first, *part, *model.tokenizer.last))
            due -= 1
    if not rows:
        raise SurveyError(sentence("changes.too_short", tokens=2))
    return tuple(rows)

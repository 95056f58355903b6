"""Shards scored in processes on this machine, or on a Ray cluster, with the same results."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from multiprocessing import active_children, get_context
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import torch

import gpt2viz
from gpt2viz.analysis.batch_scores import attention_weights
from gpt2viz.analysis.scores import SCORES, Score
from gpt2viz.arrays import Numbers
from gpt2viz.errors import SurveyError
from gpt2viz.extras import require
from gpt2viz.model import devices
from gpt2viz.model.checkpoint import Model
from gpt2viz.survey.documents import Shard
from gpt2viz.survey.sums import Sums, Where, merge_all, passage_sums

#: Passages per batch.
BATCH = 32
#: A shorter passage, the end of a document, is left out.
SHORTEST = 8


#: A model, or a folder with a step of its training, None for the model itself.
Checkpoint = Model | tuple[str | Path, int | None]


def score(
    given: Checkpoint,
    shard: Shard,
    n_tokens: int,
    names: Sequence[str] | None = None,
    device: str = "cpu",
) -> Sums:
    """Every score of every head on a shard's passages of ``n_tokens`` tokens each.

    Each document is cut into passages; the rest at its end is one too, if it has
    ``SHORTEST`` tokens. A passage is scored alone, without the text before it, but with the tokens
    that the tokenizer puts around every text. ``names`` selects scores, by default all; ``device``
    is for a model in a folder. Raises ``SurveyError`` if this machine doesn't have a score, and
    ``PluginError`` if another package's score can't be computed.
    """
    requested = [_find_score(name) for name in (SCORES if names is None else names)]
    model = load_checkpoint(given, device)
    config, network = model.config, model.network
    batches = [empty_sums(len(requested), config.n_layer, config.n_head)]
    for passages in passages_of(model, shard, n_tokens):
        ids = [ids for _, ids in passages]
        layers = attention_weights(network, torch.tensor(ids, device=network.device))
        scores = np.stack(
            [
                [[measure.measure(layer[n], ids[n]) for layer in layers] for measure in requested]
                for n in range(len(ids))
            ]
        )
        texts = [model.tokenizer.text_of(row) for row in ids]
        batches.append(passage_sums(scores, [position for position, _ in passages], texts))
    return merge_all(batches).close(but=shard.cut)


def _find_score(name: str) -> Score:
    if name not in SCORES:
        raise SurveyError(
            f"A worker doesn't know the score {name!r}. Install the package that adds it on every "
            "machine, or take one worker for one that only this program has."
        )
    return SCORES[name]


def passages_of(
    model: Model, shard: Shard, n_tokens: int, batch: int = BATCH
) -> Iterator[list[tuple[Where, list[int]]]]:
    """Yield batches of passages of equal length, full ones first, then the ends of documents."""
    by_length: dict[int, list[tuple[Where, list[int]]]] = {}
    first, last = model.tokenizer.first, model.tokenizer.last
    room = n_tokens - len(first) - len(last)
    for number, text in enumerate(shard.texts, start=shard.first):
        ids = model.tokenizer.encode_part(text)
        for start in range(0, len(ids), room):
            part = [*first, *ids[start : start + room], *last]
            if len(part) >= min(SHORTEST, n_tokens):
                position = Where(number, start, shard.part if number == shard.first else 0)
                by_length.setdefault(len(part), []).append((position, part))
    for length in sorted(by_length, reverse=True):
        some = by_length[length]
        yield from (some[n : n + batch] for n in range(0, len(some), batch))


def empty_sums(*sizes: int) -> Sums:
    """The sums of no passages, for these numbers of scores, layers and heads."""
    none: Numbers = np.empty((0, *sizes))
    return passage_sums(none, [], [])


#: Seconds to reach a cluster, and for its answer.
ANSWER = 5


class Task(NamedTuple):
    """A shard, and the function that computes its sums; sent to another process or machine."""

    shard: Shard
    sums: Callable[[Shard], Sums]


#: Takes tasks, one by one as workers become free, and yields shard numbers with their sums.
Engine = Callable[[Iterable[Task]], Iterator[tuple[int, Sums]]]


@lru_cache(maxsize=2)  # a comparison has two
def cached_model(folder: str | Path, step: int | None) -> gpt2viz.Model:
    """Load the model in a folder, or the checkpoint of its training after ``step`` steps.

    A survey clears the cache first, as files may have changed. Raises ``StageError`` for a step
    without a checkpoint, and what ``load_model`` raises.
    """
    if step is None:
        return gpt2viz.load_model(folder)
    with warnings.catch_warnings():  # the survey's start has warned of equal checkpoints
        warnings.simplefilter("ignore")
        return gpt2viz.load_steps(folder)[step]


def load_checkpoint(given: Checkpoint, device: str) -> Model:
    """A model in memory as it is; one in a folder on the ``device``, from the cache."""
    if isinstance(given, Model):
        return given
    model = cached_model(*given)
    model.network.to(devices.find(device))
    return model


def checksum(model: Model, in_memory: bool = False) -> str:
    """SHA-256 of the files that a model was read from.

    Of its config and parameters if it was ``in_memory``, where it can be changed, or the files have
    changed since.
    """
    if model.weight_files and not in_memory and model.weight_files.sha256:
        return model.weight_files.sha256
    content = hashlib.sha256(repr(model.config).encode())
    for weight in model.network.parameters():
        content.update(devices.to_numpy(weight).ravel().data)
    return content.hexdigest()


def work(task: Task) -> tuple[int, Sums]:
    """Do a task, on one thread so that every engine sums in the same order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        sums = task.sums(task.shard)
    finally:
        torch.set_num_threads(before)  # with one worker the process is the caller's
    return task.shard.number, sums


def _end_with(parent: int) -> None:
    """Make this process exit if its parent was killed; otherwise it would wait forever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


@contextmanager
def _kill_on_error() -> Iterator[None]:
    """On an error or Ctrl-C, kill the processes started in the block: their pool would wait for
    their current tasks.
    """
    before = active_children()
    try:
        yield
    except BaseException:
        for process in active_children():
            if process not in before:
                process.kill()  # they don't get SIGTERM either
        raise


@contextmanager
def _block_signals() -> Iterator[None]:
    """Start processes in the block that ignore Ctrl-C and SIGTERM; here these signals wait.

    Another thread may get a signal that this one blocks, and Python would handle it here, between
    the start of a process and its first input: so handlers wait too.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    signals, late = (signal.SIGINT, signal.SIGTERM), list[int]()
    here = signals if current_thread() is main_thread() else ()
    answers = [
        signal.signal(signal_number, lambda number, _: late.append(number))
        for signal_number in here
    ]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        for signal_number, answer in zip(here, answers, strict=True):
            signal.signal(signal_number, answer)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number in late[:1]:
            signal.raise_signal(number)


def local(workers: int) -> Engine:
    """Score in ``workers`` processes of this machine, or in this one for a single worker."""

    def engine(tasks: Iterable[Task]) -> Iterator[tuple[int, Sums]]:
        if workers == 1:
            yield from map(work, tasks)
            return
        tasks = iter(tasks)
        context = get_context("spawn")
        with (
            ProcessPoolExecutor(workers, context, _end_with, (os.getpid(),)) as pool,
            _kill_on_error(),
        ):
            running: set[Future[tuple[int, Sums]]] = set()
            while True:
                # Two tasks per worker: none idles, and memory holds no more of the corpus.
                fresh = list(islice(tasks, 2 * workers - len(running)))
                with _block_signals():  # signals are for the caller, which ends them
                    running |= {pool.submit(work, task) for task in fresh}
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                try:
                    yield from (future.result() for future in done)
                except BrokenExecutor:
                    raise SurveyError(
                        "The system stopped a worker, most likely for lack of memory. Use "
                        "fewer workers; finished work is kept."
                    ) from None

    return engine


def _check_answers(address: str) -> None:
    """Raise ``SurveyError`` unless a cluster's server answers: ``ray.init`` would wait minutes.

    Ray speaks gRPC, which is HTTP/2 (RFC 9113, section 3.4): a server replies to a client's preface
    with a frame of settings (type 4).
    """
    try:
        parts = urlsplit(f"//{address.removeprefix('ray://')}")
        endpoint = parts.hostname or "", parts.port or 0
    except ValueError:
        endpoint = "", 0
    if not all(endpoint):
        raise SurveyError(f"address is HOST:PORT of a Ray cluster, or auto, not {address!r:.100}")
    try:
        with socket.create_connection(endpoint, timeout=ANSWER) as connection:
            if os.environ.get("RAY_USE_TLS") == "1":
                return
            connection.sendall(
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
            )
            if connection.recv(9, socket.MSG_WAITALL)[3:4] == b"\x04":
                return
    except OSError:
        pass
    raise SurveyError(f"No Ray cluster answers at {address}; `ray start --head` starts one")


def on_ray(workers: int, address: str | None) -> Engine:
    """Score in ``workers`` tasks at a time on a Ray cluster: a local one without an ``address``.

    The model's folder must have the same path on every machine of the cluster. Raises
    ``MissingExtraError`` if Ray isn't installed, and ``SurveyError`` if no cluster answers
    at the address.
    """
    with require("A survey on Ray", "ray"):
        import ray

    if address not in (None, "auto", "local"):
        _check_answers(address)

    def engine(tasks: Iterable[Task]) -> Iterator[tuple[int, Sums]]:
        here: dict[str, Any] = {} if address else {"num_cpus": workers, "include_dashboard": False}
        try:
            ray.init(address=address, log_to_driver=False, **here)
        except (OSError, RuntimeError, ValueError) as error:
            why = " ".join(str(error).split())
            raise SurveyError(f"Ray can't be used: {why:.300}") from None
        try:
            remote = ray.remote(work)
            tasks, running = iter(tasks), list[Any]()
            while True:
                running += [remote.remote(t) for t in islice(tasks, 2 * workers - len(running))]
                if not running:
                    return
                done, running = ray.wait(running)
                yield from ray.get(done)
        finally:
            ray.shutdown()

    return engine

"""Time single steps on one thread: ``python -m benchmarks.steps PART``.

    explain      why a head attends there, in a text of the full context
    weights      every head analysed by its weights alone, without cached results
    checkpoints  another checkpoint of a training, as the page Training shows it
    many         texts traced one after the other, and together
    steady       the slowest of many short traces and the median, with one and with four users

Processor seconds, which other processes don't affect; ``steady`` has wall time. Run it with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``, so that NumPy has one thread, too.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import torch

import gpt2viz
from benchmarks.__main__ import SIZES
from benchmarks.peers import FOLDER
from benchmarks.tables import spread
from gpt2viz.analysis.batch_scores import measure_probe
from gpt2viz.analysis.weight_scores import weight_scores
from gpt2viz.pictures.pooling import thumbnails
from tests.checkpoints import write_checkpoint

#: The numbers of texts, and of tokens in each.
TEXTS = ((64, 8), (64, 32), (16, 128))
#: The number of short traces, and of tokens in each.
TRACES, SHORT = 200, 16


class Steps:
    """The seconds that each step took, round by round."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Time the body as that step."""
        start = time.process_time()
        yield
        self.seconds[step].append(time.process_time() - start)

    def print(self) -> None:
        """Print a row of a Markdown table a step: the median, the fastest and the slowest."""
        for step, seconds in self.seconds.items():
            print(f"| {step} | {spread(seconds)} |")


def explain(model: gpt2viz.Model, first: int, steps: Steps) -> None:
    """Time a run of a text that begins with ``first``, two rows of its last layer, and a reason."""
    layer, T = model.config.n_layer - 1, model.config.n_positions
    with steps.timed(f"a run of {T:,} tokens"):
        trace = gpt2viz.trace(model, [first, *range(1, T)])
    for step, query in (("the first row of it", T - 1), ("another row", T - 2)):
        with steps.timed(step):
            row = gpt2viz.explain_row(model, trace, layer, 0, query)
            row.deviation(T // 2)
    with steps.timed("its reason in words"):
        gpt2viz.reason(row, T // 2).words()


def weights(model: gpt2viz.Model, token: int, steps: Steps) -> None:
    """Time one head's circuit for a token, every head's scores, and every pair of heads."""
    with steps.timed("one head: what it writes and likes, and its places"):
        circuit = gpt2viz.head_circuit(model, model.config.n_layer - 1, 0)
        circuit.writes(token)
        circuit.top_keys(token)
        circuit.by_distance  # noqa: B018
    with steps.timed("its copying score"):
        circuit.copying_score  # noqa: B018
    with steps.timed("the scores of every head"):
        weight_scores(model)
    with steps.timed("every pair of heads"):
        gpt2viz.composition(model)


def checkpoints(_model: gpt2viz.Model, n: int, steps: Steps) -> None:
    """Time the bundled model's ``n``-th checkpoint: loading it, a sentence, and random tokens."""
    points = gpt2viz.load_steps()
    ids = np.random.default_rng(0).integers(0, points.config.vocab_size, 64).tolist()
    points.tokenizer  # noqa: B018 (shared by all checkpoints)
    with steps.timed("a checkpoint from disk"):
        point = points[list(points)[n % len(points)]]
    with steps.timed("what it does with 64 tokens"):
        trace = gpt2viz.trace(point, ids)
        thumbnails(trace.stage("weights", layer)[0] for layer in range(point.config.n_layer))
        gpt2viz.logit_lens(point, trace, [len(ids) - 1])
    with steps.timed("every head's scores on random tokens"):
        measure_probe(point)


def many(model: gpt2viz.Model, first: int, steps: Steps) -> None:
    """Time the texts of ``TEXTS``, one after the other and together."""
    for n_texts, n_tokens in TEXTS:
        ids = range(first, first + n_texts)
        texts = [[(n * k + k) % model.config.vocab_size for k in range(n_tokens)] for n in ids]
        with steps.timed(f"{n_texts} of {n_tokens} tokens, one after the other"):
            [gpt2viz.trace(model, text) for text in texts]  # kept, as trace_many keeps them
        with steps.timed(f"{n_texts} of {n_tokens} tokens, together"):
            gpt2viz.trace_many(model, texts)


def print_ratios(steps: Steps) -> None:
    """Print each step's ratio to the one before it, round by round."""
    for alone, together in zip(*[iter(steps.seconds.items())] * 2, strict=True):
        ratios = [b / a for a, b in zip(alone[1], together[1], strict=True)]
        print(f"| {together[0]}: ratio | {spread(ratios)} |")


def steady(model: gpt2viz.Model) -> None:
    """Print the median and slowest wall time of ``TRACES`` traces, with the app's threads."""

    def trace(n: int) -> float:
        start = time.perf_counter()
        gpt2viz.trace(model, [n, *range(1, SHORT)])
        return time.perf_counter() - start

    trace(0)
    for users in (1, 4):
        with ThreadPoolExecutor(users) as pool:
            seconds = list(pool.map(trace, range(TRACES)))
        middle, slowest = median(seconds), max(seconds)
        print(f"| {users} | {1e3 * middle:.0f} | {1e3 * slowest:.0f} | {slowest / middle:.1f} |")


#: The parts, with the default model and rounds of each.
PARTS: dict[str, tuple[Callable[[gpt2viz.Model, int, Steps], None], Path, int]] = {
    "explain": (explain, FOLDER, 7),
    "weights": (weights, FOLDER, 3),
    "checkpoints": (checkpoints, gpt2viz.BUNDLED, 7),
    "many": (many, gpt2viz.BUNDLED, 7),
}


def main() -> None:
    """Print a row of a Markdown table for each step."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.steps",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", choices=[*PARTS, "steady"])
    parser.add_argument("--model", type=Path, help="a folder; default: as in docs/benchmarks.md")
    parser.add_argument("--rounds", type=int)
    given = parser.parse_args()
    measure, folder, rounds = PARTS.get(given.part, (None, FOLDER, 0))
    folder = given.model or folder
    if folder == FOLDER and not (folder / "config.json").is_file():
        write_checkpoint(FOLDER, **SIZES)
    gpt2viz.tune_process()
    model = gpt2viz.load_model(folder)
    if measure is None:
        return steady(model)
    torch.set_num_threads(1)
    steps = Steps()
    for n in range(given.rounds or rounds):
        measure(model, n, steps)
    steps.print()
    if measure is many:
        print_ratios(steps)


if __name__ == "__main__":
    main()

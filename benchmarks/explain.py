"""What it takes to say why a head looks there, in a text as long as the model reads.

    python -m benchmarks.explain [folder]

Processor seconds on one thread, which wait for nobody on a busy machine: of a run, of the first row
of its last layer that is explained, which makes the outputs of all earlier heads again, of each
row after it, and of the reason in words.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import gpt2viz
from benchmarks.peers import FOLDER

ROUNDS = 7

Times = defaultdict[str, list[float]]


def main() -> None:
    """Print a row of a Markdown table for each step: the median, the fastest and the slowest."""
    gpt2viz.tune_process()
    torch.set_num_threads(1)
    model = gpt2viz.load_model(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
    times: Times = defaultdict(list)
    for first in range(ROUNDS):
        _explain(model, first, times)
    for what, found in times.items():
        low, middle, high = (pick(found) for pick in (min, statistics.median, max))
        print(f"| {what} | {middle:.2f} ({low:.2f} to {high:.2f}) |")


def _explain(model: gpt2viz.Model, first: int, times: Times) -> None:
    """All steps once, of a text that begins with ``first``."""
    layer, T = model.config.n_layer - 1, model.config.n_positions
    with _timed(times[f"a run of {T:,} tokens"]):
        trace = gpt2viz.trace(model, [first, *range(1, T)])
    for what, query in (("the first row of it", T - 1), ("another row", T - 2)):
        with _timed(times[what]):
            row = gpt2viz.explain_row(model, trace, layer, 0, query)
            row.deviation(T // 2)
    with _timed(times["its reason in words"]):
        gpt2viz.reason(row, T // 2).words()


@contextmanager
def _timed(found: list[float]) -> Iterator[None]:
    start = time.process_time()
    yield
    found.append(time.process_time() - start)


if __name__ == "__main__":
    main()

"""What another point of a training takes, as the page Training shows it.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.checkpoints [folder] [rounds]

Processor seconds on one thread, which wait for nobody on a busy machine: of reading a checkpoint,
of what it does with a sentence of 64 tokens, and of every head's scores. Each round takes another.
"""

from __future__ import annotations

import sys

import numpy as np

import gpt2viz
from benchmarks.steps import Steps
from gpt2viz.analysis.births import measured
from gpt2viz.pictures.pooling import thumbnails


def main() -> None:
    """Print a row of a Markdown table for each part: the median, the fastest and the slowest."""
    folder = sys.argv[1] if len(sys.argv) > 1 else gpt2viz.BUNDLED
    gpt2viz.load_model(folder)  # as the page does before any point
    points = gpt2viz.load_steps(folder)
    rounds, parts = int(sys.argv[2]) if len(sys.argv) > 2 else 7, Steps()
    ids = np.random.default_rng(0).integers(0, points.config.vocab_size, 64).tolist()
    points.tokenizer  # noqa: B018 (all points have the one)
    for n in range(rounds):
        with parts.timed("a checkpoint from disk"):
            model = points[list(points)[n % len(points)]]
        with parts.timed("what it does with 64 tokens"):
            trace = gpt2viz.trace(model, ids)
            thumbnails(trace.stage("weights", layer)[0] for layer in range(model.config.n_layer))
            gpt2viz.logit_lens(model, trace, [len(ids) - 1])
        with parts.timed("every head's scores on random tokens"):
            measured(model)
    parts.print()


if __name__ == "__main__":
    main()

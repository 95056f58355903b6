"""A run made again by another worker, beside one that is handed to it: python -m benchmarks.workers

Handed: a worker writes the run into memory that all share, and another makes it its own from there;
the weights stay where they are. In processor time of one thread.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import time
from io import BytesIO
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import torch

import gpt2viz
from gpt2viz.model.tuning import tune_process


def handed(trace: gpt2viz.Trace, weights: dict[int, np.ndarray]) -> tuple[float, int]:
    """Seconds to write a run into shared memory and to read it from there, and its bytes.

    ``weights`` are those of the model, by their place in memory: every worker has them.
    """

    class Writer(pickle.Pickler):
        def persistent_id(self, value: object) -> int | None:
            at = value.ctypes.data if isinstance(value, np.ndarray) else 0
            return at if at in weights else None

    class Reader(pickle.Unpickler):
        def persistent_load(self, pid: int) -> np.ndarray:
            return weights[pid]

    started = time.process_time()
    file = BytesIO()
    Writer(file, protocol=5).dump(trace)
    written = file.getbuffer()
    shared = SharedMemory(create=True, size=len(written))
    try:
        place = memoryview(shared.buf or b"")
        place[: len(written)] = written
        Reader(BytesIO(place[: len(written)])).load()
        place.release()
        return time.process_time() - started, len(written)
    finally:
        shared.close()
        shared.unlink()


def made(model: gpt2viz.Model, ids: list[int]) -> tuple[float, gpt2viz.Trace]:
    """Seconds that a run takes, and the run."""
    started = time.process_time()
    trace = gpt2viz.trace(model, ids)
    return time.process_time() - started, trace


def main() -> None:
    """Print a table: tokens, MB, ms to make a run and to hand it over."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.workers")
    parser.add_argument("--model", default=str(gpt2viz.BUNDLED))
    parser.add_argument("--lengths", type=int, nargs="+", default=[8, 32, 128])
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    tune_process()
    torch.set_num_threads(1)
    model = gpt2viz.load_model(arguments.model)
    weights = {w.data_ptr(): w.numpy() for w in model.network.parameters()}
    print(f"{'tokens':>6} {'MB':>6} {'made, ms':>9} {'handed, ms':>11}")
    for length in arguments.lengths:
        ids = [n % model.config.vocab_size for n in range(length)]
        rounds = []
        for _ in range(arguments.rounds):
            seconds, trace = made(model, ids)
            over, nbytes = handed(trace, weights)
            rounds.append((1000 * seconds, 1000 * over, nbytes / 1e6))
        again, over, size = map(statistics.median, zip(*rounds, strict=True))
        print(f"{length:>6} {size:>6.1f} {again:>9.1f} {over:>11.1f}")


if __name__ == "__main__":
    main()

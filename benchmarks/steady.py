"""How even short traces are: the slowest of many over the median, alone and with four users."""

from __future__ import annotations

import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gpt2viz

#: Traces of this many tokens, like a sentence.
N_TOKENS = 16
TRACES = 200


def seconds(model: gpt2viz.Model, users: int) -> list[float]:
    """How long each of ``TRACES`` took, in turn or by several users at a time."""

    def trace(n: int) -> float:
        start = time.perf_counter()
        gpt2viz.trace(model, [n, *range(1, N_TOKENS)])
        return time.perf_counter() - start

    with ThreadPoolExecutor(users) as pool:
        return list(pool.map(trace, range(TRACES)))


def main() -> None:
    """Print median, slowest and their ratio for the model in the folder that is given."""
    gpt2viz.tune_process()
    model = gpt2viz.load_model(Path(sys.argv[1]))
    seconds(model, 1)
    for users in (1, 4):
        found = seconds(model, users)
        median, slowest = statistics.median(found), max(found)
        print(f"| {users} | {1e3 * median:.0f} | {1e3 * slowest:.0f} | {slowest / median:.1f} |")


if __name__ == "__main__":
    main()

"""The cost of a trace beside transformers and other tools that capture a run.

Each contender runs in its own process; a round measures one after the other, so that load on the
machine slows all of them. The baseline runs twice a round: the ratio of the two is the noise.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.peers import CAPTURE, FOLDER, ROOT, AbsentError, python_of

BASELINE = "transformers, last logits, no capture"
GENERATION = "transformers, the last 64 of T generated"
#: Processes that the peak memory is measured in.
PROCESSES = 5
OURS: Mapping[str, str] = {
    BASELINE: "floor",
    "the same again (noise)": "floor",
    "transformers, all logits, no capture": "all_logits",
    "transformers eager, output_attentions": "eager",
    "transformers, last logits, gpt2viz.watch": "watched",
    GENERATION: "generation",
    "the same, gpt2viz.watch": "watched_generation",
    "gpt2viz trace": "gpt2viz",
    "gpt2viz trace + one layer's weights": "gpt2viz_and_a_layer",
    "gpt2viz trace, explicit=False": "gpt2viz_fused",
    "gpt2viz trace, explicit=True": "gpt2viz_explicit",
}


class Contender:
    """A process that runs one tool, once for each number it is sent."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, line: str) -> float:
        """One number for a line such as "seconds 64", "cpu 64" or "memory 64"."""
        assert self._process.stdin  # noqa: S101 (for mypy; it is piped)
        print(line, file=self._process.stdin, flush=True)
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout  # noqa: S101
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise AbsentError(f"it stopped: {_last_line(self._process)}")
        return answer

    def wait_until_ready(self) -> None:
        """Raise ``AbsentError`` where the tool can't be loaded."""
        while self._answer() != "ready":
            pass


def _last_line(process: subprocess.Popen[str]) -> str:
    assert process.stderr  # noqa: S101
    return (process.stderr.read().strip().splitlines() or ["no message"])[-1][:200]


@contextmanager
def started(
    contender: str, threads: int, python: Path, folder: Path = FOLDER
) -> Iterator[Contender]:
    """Start a contender under an interpreter and stop it at the end. Raises ``AbsentError``."""
    command = [str(python), str(ROOT / "benchmarks" / "contenders.py"), contender, str(folder)]
    settings = {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT)}
    settings |= {
        "TRANSFORMERS_VERBOSITY": "error",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    pipe = subprocess.PIPE
    process = subprocess.Popen(  # noqa: S603
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=os.environ | settings
    )
    try:
        result = Contender(process)
        result.wait_until_ready()
        yield result
    finally:
        process.terminate()
        process.communicate()


def peak(contender: str, threads: int, python: Path, n_tokens: int, folder: Path) -> str:
    """Peak megabytes over the loaded model: the median of several processes, and their range.

    In processes of their own, as later runs reuse what was freed; in several, as it depends on
    where the C library finds room.
    """
    results = []
    for _ in range(PROCESSES):
        with started(contender, threads, python, folder) as process:
            results.append(process.ask(f"memory {n_tokens}"))
    return f"{median(results):,.0f} ({min(results):,.0f} to {max(results):,.0f})"


def capture(
    lengths: list[int], rounds: int, threads: int, clock: str, *, alone: bool, folder: Path
) -> None:
    """Print the ratios to the baseline, round by round, and the peak memory.

    ``alone`` leaves out the tools that need environments of their own.
    """
    with ExitStack() as stack:
        running, peaks = dict[str, Contender](), dict[str, str]()
        expected: dict[str, tuple[str, str | None]] = {n: (made, None) for n, made in OURS.items()}
        for environment, peer in () if alone else CAPTURE.items():
            expected |= {name: (made, environment) for name, made in peer.contenders.items()}
        for name, (contender, venv) in expected.items():
            try:
                python = python_of(venv) if venv else Path(sys.executable)
                peaks[name] = peak(contender, threads, python, lengths[-1], folder)
                running[name] = stack.enter_context(started(contender, threads, python, folder))
            except AbsentError as reason:
                print(f"\n{name} is absent: {reason}")
        columns = [f"T={n}" for n in lengths]
        print(f"\n| | {' | '.join(columns)} | peak MB at T={lengths[-1]} |")
        print("|---" * (len(lengths) + 2) + "|")
        cells: dict[str, list[str]] = {name: [] for name in running}
        for n in lengths:
            times: dict[str, list[float]] = {name: [] for name in running}
            for _ in range(rounds):
                for name, process in running.items():
                    times[name].append(process.ask(f"{clock} {n}"))
            for name, result in times.items():
                base = GENERATION if OURS.get(name) == "watched_generation" else BASELINE
                ratios = [a / b for a, b in zip(result, times[base], strict=True)]
                shown = f"**{median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"
                if name == BASELINE:
                    shown = f"{1e3 * median(result):.0f} ms"
                cells[name].append(shown)
        for name in running:
            print(f"| {name} | {' | '.join(cells[name])} | {peaks[name]} |")

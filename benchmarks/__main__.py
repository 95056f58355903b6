"""Measure capture beside transformers and other tools, and the app in a browser.

    python -m benchmarks [--lengths 4 16 64 256 1024] [--rounds 7] [--threads 2] [--clock cpu]
                         [--only capture]

Prints Markdown tables, as they stand in docs/benchmarks.md. Each contender runs in a process of
its own; a round asks one after the other, so that what slows the machine slows all of them. The
baseline runs twice a round: the ratio of the two is the noise.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks import browser
from benchmarks.peers import PEERS, ROOT, AbsentError, python_of
from tests.checkpoints import write_checkpoint

#: GPT-2 small's sizes with random weights; made once.
FOLDER = ROOT / "build" / "gpt2-small-random"
SIZES = {"n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024, "vocab_size": 50257}

BASELINE = "transformers, last logits, no capture"
OURS: Mapping[str, str] = {
    BASELINE: "floor",
    "the same again (noise)": "floor",
    "transformers, all logits, no capture": "all_logits",
    "transformers eager, output_attentions": "eager",
    "gpt2viz trace": "gpt2viz",
    "gpt2viz trace + one layer's weights": "gpt2viz_and_a_layer",
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
def started(contender: str, threads: int, python: Path) -> Iterator[Contender]:
    """Start a contender under an interpreter and stop it at the end. Raises ``AbsentError``."""
    command = [str(python), str(ROOT / "benchmarks" / "contenders.py"), contender, str(FOLDER)]
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
        found = Contender(process)
        found.wait_until_ready()
        yield found
    finally:
        process.terminate()
        process.communicate()


def capture(lengths: list[int], rounds: int, threads: int, clock: str) -> None:
    """Print the ratios to the baseline, round by round, and the peak memory."""
    with ExitStack() as stack:
        running: dict[str, Contender] = {}
        wanted = {name: (contender, None) for name, contender in OURS.items()}
        wanted |= {name: (peer.contender, name) for name, peer in PEERS.items()}
        for name, (contender, environment) in wanted.items():
            try:
                python = python_of(environment) if environment else Path(sys.executable)
                running[name] = stack.enter_context(started(contender, threads, python))
            except AbsentError as reason:
                print(f"\n{name} is absent: {reason}")
        print(f"\n| | {' | '.join(f'T={n}' for n in lengths)} | peak MB at T={lengths[-1]} |")
        print("|---" * (len(lengths) + 2) + "|")
        # First, while the memory is as the loaded model left it: later runs reuse what was freed.
        peaks = {name: one.ask(f"memory {lengths[-1]}") for name, one in running.items()}
        cells: dict[str, list[str]] = {name: [] for name in running}
        for n in lengths:
            times: dict[str, list[float]] = {name: [] for name in running}
            for _ in range(rounds):
                for name, contender in running.items():
                    times[name].append(contender.ask(f"{clock} {n}"))
            for name, found in times.items():
                ratios = [a / b for a, b in zip(found, times[BASELINE], strict=True)]
                shown = f"**{median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"
                if name == BASELINE:
                    shown = f"{1e3 * median(found):.0f} ms"
                cells[name].append(shown)
        for name in running:
            print(f"| {name} | {' | '.join(cells[name])} | {peaks[name]:.0f} |")


def drawing(lengths: list[int], rounds: int) -> None:
    """Print how long the app takes to draw another layer, and what it sends."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not chromium:
        print("\nThe browser part is absent: no Chromium; set CHROMIUM to its path.")
        return
    print("\n| T | another layer of 12 heads: median s (min to max) | MB sent |")
    print("|---|---|---|")
    for n in lengths:
        found = browser.layer_changes(FOLDER, chromium, n, rounds)
        seconds = sorted(one.seconds for one in found)
        sent = max(one.megabytes for one in found)
        ends = f"({seconds[0]:.2f} to {seconds[-1]:.2f})"
        print(f"| {n} | **{median(seconds):.2f}** {ends} | {sent:.2f} |")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[4, 16, 64, 256, 1024])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--clock", choices=["seconds", "cpu"], default="seconds")
    parser.add_argument("--only", choices=["capture", "drawing"])
    given = parser.parse_args()
    if not (FOLDER / "config.json").is_file():
        write_checkpoint(FOLDER, **SIZES)
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.machine()}, {os.cpu_count()} cores, "
        f"{given.threads} threads, {given.clock}, load before: {load}"
    )
    if given.only != "drawing":
        capture(given.lengths, given.rounds, given.threads, given.clock)
    if given.only != "capture":
        drawing([n for n in given.lengths if n >= 64], given.rounds)


if __name__ == "__main__":
    main()

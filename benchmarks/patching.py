"""The time to patch every piece of a run into another, beside TransformerLens.

    python -m benchmarks.patching --clock cpu --threads 1 --rounds 3

GPT-2 small's sizes with random weights, and two texts that differ at every token. A round times the
same sweep in both tools, one after the other, each in its own process: the clean run, and every
patch of the corrupted one. Below are as many sweeps of a sentence with the bundled model.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.__main__ import SIZES
from benchmarks.capture import started
from benchmarks.peers import FOLDER, AbsentError, python_of
from benchmarks.tables import spread
from gpt2viz.model.checkpoint import read_config
from gpt2viz.settings import BUNDLED
from tests.checkpoints import write_checkpoint

PEER = "TransformerLens 4.3"
#: The sweeps, with the ends of the names of the contenders that run them.
SWEEPS = {
    "the stream before {L} layers at {T} tokens: {LT} patches": "streams",
    "the outputs of {H} heads: {H} patches": "heads",
}
N_TOKENS = 16
#: Tokens of the sentence that the bundled model reads.
SENTENCE = 15


def main() -> None:
    """Read the command line, measure, and print a row of a Markdown table for each sweep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.patching", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--clock", choices=["seconds", "cpu"], default="seconds")
    given = parser.parse_args()
    if not (FOLDER / "config.json").is_file():
        write_checkpoint(FOLDER, **SIZES)
    print(f"\n| median s (min to max) | {PEER} | gpt2viz | gpt2viz : {PEER} |\n|---|---|---|---|")
    for what, name in SWEEPS.items():
        result = _times(name, given)
        theirs, ours = zip(*result, strict=True)
        cells = [spread(theirs), spread(ours), spread([b / a for a, b in result])]
        print(f"| {_named(what, FOLDER, N_TOKENS)} | {' | '.join(cells)} |", flush=True)
    print("\n| the bundled model | median s (min to max) |\n|---|---|")
    for what, name in SWEEPS.items():
        with started(f"gpt2viz_{name}", given.threads, Path(sys.executable), BUNDLED) as process:
            taken = [process.ask(f"{given.clock} {SENTENCE}") for _ in range(given.rounds)]
        print(f"| {_named(what, BUNDLED, SENTENCE)} | {spread(taken)} |", flush=True)


def _named(what: str, folder: Path, n_tokens: int) -> str:
    """A sweep's name with the sizes of a model."""
    config = read_config(folder)
    L = config.n_layer
    return what.format(L=L, T=n_tokens, LT=L * n_tokens, H=L * config.n_head)


def _times(name: str, given: argparse.Namespace) -> list[tuple[float, float]]:
    """The times (the peer's, ours) of every round. Exits if the peer is absent."""
    try:
        with ExitStack() as stack:
            both = [
                stack.enter_context(started(f"{whose}_{name}", given.threads, python))
                for whose, python in (
                    ("transformer_lens", python_of(PEER)),
                    ("gpt2viz", Path(sys.executable)),
                )
            ]
            line = f"{given.clock} {N_TOKENS}"
            return [(both[0].ask(line), both[1].ask(line)) for _ in range(given.rounds)]
    except AbsentError as reason:
        raise SystemExit(f"{PEER} is absent: {reason}") from reason


if __name__ == "__main__":
    main()

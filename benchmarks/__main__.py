"""Measure capture beside transformers and other tools, and the app in a browser.

Prints Markdown tables as in docs/benchmarks.md. The parts:

capture  time and memory of a trace beside transformers, TransformerLens and nnsight
layers   the app in Chromium: from a click on another layer to the last picture
map      from opening the map of every head, its text run before, to the last picture
opening  from opening the first page to its last picture
first    the same beside BertViz and CircuitsVis
typing   the app with its own model: from Enter to all heads drawn
start    from starting the app's process to its first picture

Other tools get their own environments below build/peers; a tool that can't be installed or loaded
is left out, and the reason is printed.
"""

from __future__ import annotations

import argparse
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.capture import capture
from benchmarks.peers import FOLDER, ROOT
from tests.browser.conftest import find_chromium
from tests.checkpoints import write_checkpoint
from tests.llama_checkpoints import write_llama

SIZES: dict[str, Any] = {
    "n_layer": 12,
    "n_head": 12,
    "n_embd": 768,
    "n_positions": 1024,
    "vocab_size": 50257,
}
#: SmolLM2-135M's sizes, of Llama's family.
LLAMA: dict[str, Any] = {
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "hidden_size": 576,
    "head_dim": 64,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "vocab_size": 49152,
}
PARTS = ("capture", "layers", "map", "opening", "first", "typing", "start")
#: Pages of other tools take many seconds each.
FEW = 3


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tokens = "tokens of a text; pages are drawn from 64 on (default: 4 16 64 256 1024)"
    every = [4, 16, 64, 256, 1024]
    parser.add_argument("--lengths", type=int, nargs="+", default=every, help=tokens)
    parser.add_argument("--rounds", type=int, default=7, help=f"first: at most {FEW}")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="capture only")
    clock = "capture only: wall time, or processor time, which other processes don't affect"
    parser.add_argument("--clock", choices=["seconds", "cpu"], default="seconds", help=clock)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="parts to measure")
    alone = "capture only: without TransformerLens and nnsight, for more rounds in less time"
    parser.add_argument("--alone", action="store_true", help=alone)
    llama = "capture only, and alone: a model of Llama's family, with SmolLM2-135M's sizes"
    parser.add_argument("--llama", action="store_true", help=llama)
    beside = "another checkout of this app, measured by turns: layers, opening and start"
    parser.add_argument("--beside", type=Path, help=beside)
    given = parser.parse_args()
    folder = FOLDER.with_name("llama") if given.llama else FOLDER
    if not (folder / "config.json").is_file():
        write_llama(folder, **LLAMA) if given.llama else write_checkpoint(folder, **SIZES)
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.machine()}, {os.cpu_count()} cores, "
        f"{given.threads} threads, {given.clock}, load before: {load}"
    )
    if "capture" in given.only:
        alone = given.alone or given.llama
        capture(given.lengths, given.rounds, given.threads, given.clock, alone=alone, folder=folder)
    if set(given.only) != {"capture"}:
        _in_browser(given)


def _in_browser(given: argparse.Namespace) -> None:
    """Measure the parts that need Chromium."""
    chromium = find_chromium()
    if not chromium:
        print("\nThe browser's parts are absent: no Chromium; set CHROMIUM to its path.")
        return
    lengths = [n for n in given.lengths if n >= 64]
    roots = [ROOT, *([given.beside.resolve()] if given.beside else [])]
    if "layers" in given.only:
        tables.layers(lengths, given.rounds, chromium, roots)
    if "map" in given.only:
        tables.maps(lengths, given.rounds, chromium)
    if "opening" in given.only:
        tables.openings(lengths, given.rounds, chromium, roots)
    if "first" in given.only:
        tables.first_drawings(lengths, min(given.rounds, FEW), chromium)
    if "typing" in given.only:
        tables.typing(chromium)
    if "start" in given.only:
        tables.starting(given.rounds, chromium, roots)


if __name__ == "__main__":
    main()

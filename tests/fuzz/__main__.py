"""Load spoiled checkpoints and say what happened: python -m tests.fuzz --count 20000 --measure

Each one must load to a model whose run is finite, or whose run says which tensor is not; or be
refused with a ``CheckpointError`` that names the file and the field. ``--measure`` also demands
that none takes more than 2 seconds or 500 MB. ``--only N`` spoils the N-th alone and shows it.
"""

from __future__ import annotations

import argparse
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

import gpt2viz
from gpt2viz.analysis.nonfinite import first_not_finite
from tests.fuzz.files import Files, bases, write
from tests.fuzz.spoil import WAYS, spoil

SECONDS, MEGABYTES, LONGEST = 2.0, 500.0, 700
IDS = [5, 6, 7]

FILE = re.compile(
    r"(config|vocab|tokenizer|added_tokens|model\.safetensors\.index)\.json|merges\.txt"
    r"|(model(-0000\d-of-00002)?|other)\.safetensors"
)
# A file that can't be read as what it is has no field; else a field, tensor, token or merge is
# named.
UNREADABLE = re.compile(
    "can't be read|not a whole safetensors|no config.json|no model.safetensors|no tokenizer"
    "|a JSON object is expected|leads out of|not an ordinary file|only there as a pickle"
    "|is not a file|are read|are parts|only byte-level BPE|header"
)
FIELD = re.compile(
    r"\w+\.(weight|bias)|\b(n_\w+|vocab_size|\w+_pdrop|layer_norm_epsilon|activation_function"
    r"|tie_word_embeddings|model_type|pruned_heads|scale_attn\w+|num_hidden_layers|weight_map)\b"
    r"|the id of|both have the id|the merge|a merge|no merge makes"
    r"|not in the expected form|has size|has no place|\d tokens|needs .* of memory"
    r"|added token|is missing"
)


@dataclass
class Tally:
    """What came of it so far: outcomes counted, faults in words, and the largest of each cost."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    largest: tuple[float, str] = (0.0, "")


def outcome(folder: Path) -> tuple[str, str]:
    """What became of a folder, and what is wrong with that, if anything."""
    try:
        model = gpt2viz.load_model(folder)
    except gpt2viz.CheckpointError as error:
        return "refused", fault_of(str(error))
    home = folder.resolve()
    if not all(path.resolve().is_relative_to(home) for path in folder.iterdir()):
        return "loaded", "a link out of the folder was followed"
    trace = gpt2viz.trace(model, IDS)
    told = first_not_finite(trace)
    model.tokenizer.decode(model.tokenizer.encode("A crane <b>ate</b> fish \x00 ("))
    if told:
        return "loaded and told not to be finite", ""
    return "loaded", "" if torch.tensor(trace.logits).isfinite().all() else "NaN without a word"


def fault_of(message: str) -> str:
    """What a refusal lacks."""
    if not FILE.search(message):
        return f"no file is named: {message:.300}"
    if not FIELD.search(message) and not UNREADABLE.search(message):
        return f"no field is named: {message:.300}"
    return f"{len(message)} characters: {message:.300}" if len(message) > LONGEST else ""


def try_one(files: Files, seed: str, n: int, folder: Path, tally: Tally, measure: bool) -> None:
    """Spoil, load, and put down what happened."""
    way, later = spoil(files, seed, n)
    write(files, folder)
    for do in later:
        try:
            do(folder)
        except OSError:
            way += " (not possible here)"
    before, started = resident("VmRSS", reset=measure), time.perf_counter()
    try:
        what, fault = outcome(folder)
    except Exception as error:  # any other error is what is looked for
        what, fault = "failed", f"{type(error).__name__}: {error!s:.300}"
    took, grown = time.perf_counter() - started, resident("VmHWM") - before
    tally.outcomes[what] += 1
    name = f"{n}: {way}"
    if measure:
        tally.slowest = max(tally.slowest, (took, name))
        tally.largest = max(tally.largest, (grown, name))
        if took > SECONDS or grown > MEGABYTES:
            fault = fault or f"took {took:.1f} s and {grown:.0f} MB"
    if fault:
        tally.faults.append(f"{name}: {fault}")


def resident(name: str, reset: bool = False) -> float:
    """This process's memory in MB, from the kernel; ``reset`` lets the largest begin anew."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024 / 1e6


def main(given: Sequence[str] | None = None) -> int:
    """Spoil as many as asked; 1 where one of them wasn't met as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.fuzz")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", type=int)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--limit-mb", type=int, help="memory that the whole process may add")
    arguments = parser.parse_args(given)
    torch.set_num_threads(1)
    tally = Tally()
    with tempfile.TemporaryDirectory() as made:
        whole = bases(Path(made))
        if arguments.limit_mb:
            now = int(resident("VmData") * 1e6)
            resource.setrlimit(resource.RLIMIT_DATA, (now + arguments.limit_mb * 10**6,) * 2)
        only = arguments.only
        for n in range(arguments.count) if only is None else [only]:
            folder = Path(made) / "spoiled" / "model"
            try_one(
                dict(whole[n // len(WAYS) % 3]), arguments.seed, n, folder, tally, arguments.measure
            )
    for fault in tally.faults:
        print(f"FAULT {fault}")
    print(", ".join(f"{count} {what}" for what, count in sorted(tally.outcomes.items())))
    if arguments.measure:
        print("slowest: {:.2f} s ({})".format(*tally.slowest))
        print("largest: {:.0f} MB ({})".format(*tally.largest))
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())

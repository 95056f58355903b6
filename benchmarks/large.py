"""Run the largest released model here: time and peak memory, with random weights.

    python -m benchmarks.large [medium|large|xl] [folder]

Writes a checkpoint of that size (XL: 6.2 GB) unless the folder has one, then loads and runs it in
its own process. Compare with the memory that the Models page predicts for 1,024 tokens.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import gpt2viz
from benchmarks.peers import ROOT
from gpt2viz.model.memory import run_bytes, spell
from tests.checkpoints import write_tokenizer

SIZES = {
    "medium": {"n_layer": 24, "n_head": 16, "n_embd": 1024},
    "large": {"n_layer": 36, "n_head": 20, "n_embd": 1280},
    "xl": {"n_layer": 48, "n_head": 25, "n_embd": 1600},
}
#: Lengths of the runs, in tokens.
LENGTHS = (16, 1024)


def write(folder: Path, sizes: dict[str, Any]) -> None:
    """Write a checkpoint with random weights, tensor by tensor."""
    folder.mkdir(parents=True)
    write_tokenizer(folder)
    config = gpt2viz.GPT2Config(**sizes)
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", **sizes}))
    tensors = [(n, size) for n, size in config.tensors() if n != "lm_head.weight"]
    header, end = {}, 0
    for name, size in tensors:
        start, end = end, end + 4 * math.prod(size)
        header[name] = {"dtype": "F32", "shape": size, "data_offsets": [start, end]}
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    draw = np.random.default_rng(0)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(written).to_bytes(8, "little") + written)
        for name, size in tensors:
            weight = draw.standard_normal(size, np.float32) * np.float32(0.02)
            file.write((weight + np.float32(name.endswith("weight") and "ln_" in name)).tobytes())


def measure(folder: Path) -> None:
    """Load and run the model; print a row of a Markdown table for each step."""
    start = time.perf_counter()
    model = gpt2viz.load_model(folder)
    _row("loaded", start)
    for n_tokens in LENGTHS:
        start = time.perf_counter()
        trace = gpt2viz.trace(model, list(range(1, n_tokens + 1)))
        _row(f"{n_tokens:,} tokens, trace of {spell(trace.nbytes)}", start)
    print(f"predicted: {spell(model.nbytes)} + {spell(run_bytes(model.config))}")


def _row(what: str, start: float) -> None:
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kilobytes, on Linux
    print(f"| {what} | {time.perf_counter() - start:.1f} s | {spell(peak)} |", flush=True)


def main() -> None:
    """Write the checkpoint if need be, and measure in a fresh process."""
    name = sys.argv[1] if len(sys.argv) > 1 else "xl"
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "build" / f"gpt2-{name}-random"
    if name == "measure":
        return measure(folder)
    if not (folder / "model.safetensors").is_file():
        write(folder, SIZES[name])
    command = [sys.executable, "-m", "benchmarks.large", "measure", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT)  # noqa: S603 (ourselves)


if __name__ == "__main__":
    main()

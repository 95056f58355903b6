"""The cost of a trace that reuses an earlier one, beside a full trace and transformers.

    python -m benchmarks.reuse [model [tokens]]

Processor seconds on one thread, which other processes don't affect; GPT-2 small's sizes unless a
model is named, and a text of the full context unless ``tokens`` are given. Ratios are taken in each
round: the median and the range. First come the time and memory of loading: the process's own memory
excludes the files of libraries, which processes share.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import median
from typing import Any

import psutil
import torch

import gpt2viz
from benchmarks.peers import FOLDER
from gpt2viz.files import is_gguf
from gpt2viz.model.checkpoint import config_values
from gpt2viz.model.model_registry import find

#: Rounds of a text of the full context.
ROUNDS = 7
#: The tokens before the generated one: the rounds.
WRITTEN_AFTER = {16: 31, 256: 21, 900: 9}


def main() -> None:
    """Print a table for a changed last token of a full text, and for tokens that are appended."""
    gpt2viz.tune_process()
    torch.set_num_threads(1)
    if "--help" in sys.argv:
        sys.exit(__doc__)
    name, *tokens = sys.argv[1:] or [str(FOLDER)]
    start, used = time.perf_counter(), time.process_time()
    model = gpt2viz.load_model(name)
    wall, used = time.perf_counter() - start, time.process_time() - used
    print(f"loaded in {wall:.2f} s, {used:.2f} of the processor", end="; ")
    own = psutil.Process().memory_full_info().uss
    peak = getrusage(RUSAGE_SELF).ru_maxrss * 1024
    print(f"peak of the process: {peak / 1e6:.0f} MB; its own then: {own / 1e6:.0f} MB")
    theirs = _of_transformers(find(name)[1], model)
    T = int(tokens[0]) if tokens else model.config.n_positions
    print(f"\n| the last of {T:,} tokens changed | s | of a full trace |\n|---|---|---|")
    _print([_changed(model, theirs, T, n) for n in range(ROUNDS)])
    for T, rounds in WRITTEN_AFTER.items():
        print(f"\n| a token written after {T} | s | of transformers' step |\n|---|---|---|")
        _print(list(_written(model, theirs, T, rounds)))


def _of_transformers(folder: Path, model: gpt2viz.Model) -> Any:
    """The same model in transformers, which reads no GGUF file without more packages."""
    from transformers import AutoConfig, AutoModelForCausalLM  # here, as its memory isn't ours

    made: Any = {"attn_implementation": "sdpa", "dtype": torch.float32}
    if not is_gguf(folder):
        return AutoModelForCausalLM.from_pretrained(folder, **made).eval()
    config = AutoConfig.for_model(**config_values(folder))
    theirs = AutoModelForCausalLM.from_config(config, **made).eval()
    theirs.model.load_state_dict(model.network.state_dict(), strict=False)
    return theirs


def _changed(model: gpt2viz.Model, theirs: Any, T: int, n: int) -> dict[str, float]:
    ids = [n, *range(1, T)]
    changed = [*ids[:-1], 0]
    earlier = gpt2viz.trace(model, ids)
    return {
        "gpt2viz trace": _seconds(lambda: gpt2viz.trace(model, changed)),
        "the same again (noise)": _seconds(lambda: gpt2viz.trace(model, changed)),
        "transformers, last logits, no capture": _seconds(
            lambda: theirs(torch.tensor([changed]), logits_to_keep=1, use_cache=False)
        ),
        "**gpt2viz trace, reuse=**": _seconds(lambda: gpt2viz.trace(model, changed, reuse=earlier)),
        "the same, and all that it keeps looked at": _seconds(
            lambda: list(gpt2viz.trace(model, changed, reuse=earlier).captured.values())
        ),
    }


def _written(model: gpt2viz.Model, theirs: Any, T: int, rounds: int) -> Iterator[dict[str, float]]:
    ids = [*range(T)]
    earlier = gpt2viz.trace(model, ids)
    with torch.inference_mode():
        cache = theirs(torch.tensor([ids]), use_cache=True).cache
    for new in range(rounds):
        result = {}
        for name in ("transformers, cached step, no capture", "the same again (noise)"):
            own = deepcopy(cache)  # a step writes into it
            result[name] = _seconds(partial(theirs, torch.tensor([[new]]), cache=own))
        result["gpt2viz trace"] = _seconds(partial(gpt2viz.trace, model, [*ids, new]))
        reused = _seconds(partial(gpt2viz.trace, model, [*ids, new], reuse=earlier))
        yield {**result, "**gpt2viz trace, reuse=**": reused}


def _seconds(run: Callable[[], Any]) -> float:
    with torch.inference_mode():
        start = time.process_time()
        result = run()
        seconds = time.process_time() - start
    del result
    return seconds


def _print(rounds: list[dict[str, float]]) -> None:
    """Print a row for each name: its median seconds, and the ratios to the first name's."""
    from benchmarks.tables import spread  # also imports a browser, whose memory isn't ours

    first = next(iter(rounds[0]))
    for name in rounds[0]:
        ratios = [round_[name] / round_[first] for round_ in rounds]
        middle = median(round_[name] for round_ in rounds)
        print(f"| {name} | {middle:.3f} | {spread(ratios)} |", flush=True)


if __name__ == "__main__":
    main()

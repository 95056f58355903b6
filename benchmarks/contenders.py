"""One contender in a process of its own, in its own environment.

    python contenders.py NAME FOLDER

reads a line such as "seconds 64" and answers with the time that one run of 64 tokens took; "cpu"
asks for the processor's time instead, which waits for nobody on a busy machine, and "memory" for
the megabytes by which the peak lay above the loaded model. Every
contender runs in float32 with the same sizes. Imports nothing of this package's environment
unless asked to.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[[list[int]], Any]

#: The right and the wrong token of patches.
ANSWER = (12, 40)


def _transformers(folder: Path, attention: str, **options: Any) -> Run:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation=attention, dtype=torch.float32
    ).eval()

    def run(ids: list[int]) -> Any:
        with torch.inference_mode():
            return model(torch.tensor([ids]), use_cache=False, **options)

    return run


def floor(folder: Path) -> Run:
    """transformers, fused attention, the logits of the last token only, nothing kept."""
    return _transformers(folder, "sdpa", logits_to_keep=1)


def all_logits(folder: Path) -> Run:
    """The same with the logits of every token, as it runs by default."""
    return _transformers(folder, "sdpa")


def eager(folder: Path) -> Run:
    """transformers with the attention weights and the stream of every layer."""
    return _transformers(folder, "eager", output_attentions=True, output_hidden_states=True)


def gpt2viz(folder: Path) -> Run:
    """A trace: every stage of every head can be shown, and what comes next."""
    import gpt2viz

    gpt2viz.tune_process()
    model = gpt2viz.load_model(folder)
    return lambda ids: gpt2viz.trace(model, ids)


def gpt2viz_and_a_layer(folder: Path) -> Run:
    """A trace, and the weights of all heads of one layer from it."""
    trace = gpt2viz(folder)
    return lambda ids: trace(ids).stage("weights", 5)


def gpt2viz_fused(folder: Path) -> Run:
    """A trace that keeps q, k and v and makes scores and weights from them when they are shown."""
    import gpt2viz

    gpt2viz.tune_process()
    model = gpt2viz.load_model(folder)
    return lambda ids: gpt2viz.trace(model, ids, explicit=False)


def gpt2viz_explicit(folder: Path) -> Run:
    """A trace with every score and weight of every head kept, as TransformerLens keeps them."""
    import gpt2viz

    gpt2viz.tune_process()
    model = gpt2viz.load_model(folder)
    return lambda ids: gpt2viz.trace(model, ids, explicit=True)


def transformer_lens(folder: Path) -> Run:
    """run_with_cache, everything."""
    import json

    import torch
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    sizes = json.loads((folder / "config.json").read_text())
    config = HookedTransformerConfig(
        n_layers=sizes["n_layer"],
        d_model=sizes["n_embd"],
        n_ctx=sizes["n_positions"],
        n_heads=sizes["n_head"],
        d_head=sizes["n_embd"] // sizes["n_head"],
        d_vocab=sizes["vocab_size"],
        act_fn="gelu_new",
        normalization_type="LN",
        device="cpu",
    )
    model = HookedTransformer(config).eval()

    def run(ids: list[int]) -> Any:
        with torch.inference_mode():
            return model.run_with_cache(torch.tensor([ids]))

    return run


def transformer_lens_bridge(folder: Path) -> Run:
    """run_with_cache of version 4, everything."""
    import torch
    from transformer_lens.model_bridge import TransformerBridge

    model = TransformerBridge.boot_transformers(str(folder), device="cpu", dtype=torch.float32)
    model.enable_compatibility_mode(no_processing=True)

    def run(ids: list[int]) -> Any:
        with torch.inference_mode():
            return model.run_with_cache(torch.tensor([ids]))

    return run


def transformer_lens_streams(folder: Path) -> Run:
    """Version 4's patches of the stream before every layer, at every position."""
    return _transformer_lens_patches(folder, "get_act_patch_resid_pre")


def transformer_lens_heads(folder: Path) -> Run:
    """Version 4's patches of every head's output, at all positions together."""
    return _transformer_lens_patches(folder, "get_act_patch_attn_head_out_all_pos")


def _transformer_lens_patches(folder: Path, function: str) -> Run:
    os.environ["TQDM_DISABLE"] = "1"  # nobody reads its bars
    import torch
    from transformer_lens import patching
    from transformer_lens.model_bridge import TransformerBridge

    model = TransformerBridge.boot_transformers(str(folder), device="cpu", dtype=torch.float32)
    model.enable_compatibility_mode(no_processing=True)
    right, wrong = ANSWER

    def run(ids: list[int]) -> Any:
        with torch.inference_mode():
            _, cache = model.run_with_cache(torch.tensor([ids]))
            return getattr(patching, function)(
                model,
                torch.tensor([_corrupted(ids)]),
                cache,
                lambda logits: logits[0, -1, right] - logits[0, -1, wrong],
            ).numpy()

    return run


def gpt2viz_streams(folder: Path) -> Run:
    """The same patches of the stream."""
    return _gpt2viz_patches(folder, "residual_in")


def gpt2viz_heads(folder: Path) -> Run:
    """The same patches of every head's output."""
    return _gpt2viz_patches(folder, "head_output")


def _gpt2viz_patches(folder: Path, stage: str) -> Run:
    import gpt2viz

    gpt2viz.tune_process()
    model = gpt2viz.load_model(folder)
    return lambda ids: gpt2viz.patch_sweep(model, ids, _corrupted(ids), stage, ANSWER).values


def _corrupted(ids: list[int]) -> list[int]:
    """Another text, which differs at every token: so no patch is left out."""
    return [n + 1 for n in ids]


def nnsight(folder: Path) -> Run:
    """Every layer's attention (weights too), MLP and output saved."""
    import torch
    from nnsight import NNsight
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    ).eval()
    watched = NNsight(model)

    def run(ids: list[int]) -> Any:
        kept = []
        with (
            torch.inference_mode(),
            watched.trace(torch.tensor([ids]), output_attentions=True, use_cache=False),
        ):
            for layer in watched.transformer.h:
                kept.append(layer.attn.c_attn.output.save())
                kept.append(layer.attn.output.save())
                kept.append(layer.mlp.output.save())
                kept.append(layer.output.save())
            kept.append(watched.lm_head.output.save())
        return kept

    return run


CONTENDERS: dict[str, Callable[[Path], Run]] = {
    made.__name__: made
    for made in (
        floor,
        all_logits,
        eager,
        gpt2viz,
        gpt2viz_and_a_layer,
        gpt2viz_fused,
        gpt2viz_explicit,
        transformer_lens,
        transformer_lens_bridge,
        transformer_lens_streams,
        transformer_lens_heads,
        gpt2viz_streams,
        gpt2viz_heads,
        nnsight,
    )
}


def _status(field: str) -> float:
    """A field of Linux's account of this process, in megabytes."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(field + ":")[1].split()[0]) * 1024 / 1e6


def _peak(run: Run, ids: list[int]) -> float:
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _status("VmRSS")
    kept = run(ids)
    peak = _status("VmHWM") - before
    del kept
    return peak


def main() -> None:
    """Load the contender, then answer line by line."""
    name, folder = sys.argv[1:3]
    run = CONTENDERS[name](Path(folder))
    run([1, 2, 3])
    print("ready", flush=True)
    for line in sys.stdin:
        what, number = line.split()
        ids = random.Random(number).choices(range(300), k=int(number))  # noqa: S311
        if what == "memory":
            print(_peak(run, ids), flush=True)
            continue
        clock = time.perf_counter if what == "seconds" else time.process_time
        start = clock()
        kept = run(ids)
        print(clock() - start, flush=True)
        del kept


if __name__ == "__main__":
    main()

"""One contender in a process of its own, in its own environment.

    python contenders.py NAME FOLDER

reads a line such as "seconds 64" and answers with the time that one run of 64 tokens took; "cpu"
asks for processor time instead, which other processes don't affect, and "memory" for the peak in
megabytes above the loaded model. Every contender runs in float32 with the same sizes. Only those of
gpt2viz import this package, as other tools have their own environments.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

Run = Callable[[list[int]], Any]

#: The right and the wrong token of patches.
ANSWER = (12, 40)


def _transformers(
    folder: Path, attention: str, watched: bool = False, new: int = 0, **options: Any
) -> Run:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation=attention, dtype=torch.float32
    ).eval()

    act = partial(model, use_cache=False, **options)
    if new:
        act = partial(model.generate, do_sample=False, min_new_tokens=new, max_new_tokens=new)
    if watched:
        from gpt2viz import watch

    def run(ids: list[int]) -> Any:
        with torch.inference_mode(), watch(model) if watched else nullcontext() as record:
            return act(torch.tensor([ids[: max(1, len(ids) - new)]])), record

    return run


def _gpt2viz(folder: Path, **options: Any) -> Run:
    import gpt2viz

    gpt2viz.tune_process()
    model = gpt2viz.load_model(folder)
    return lambda ids: gpt2viz.trace(model, ids, **options)


def gpt2viz_and_a_layer(folder: Path) -> Run:
    """A trace, and the weights of all heads of one layer from it."""
    trace = _gpt2viz(folder)
    return lambda ids: trace(ids).stage("weights", 5)


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


def _transformer_lens_patches(folder: Path, function: str) -> Run:
    os.environ["TQDM_DISABLE"] = "1"  # without progress bars
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


def _gpt2viz_patches(folder: Path, stage: str) -> Run:
    import gpt2viz

    gpt2viz.tune_process()
    model = gpt2viz.load_model(folder)
    return lambda ids: gpt2viz.patch_sweep(model, ids, _corrupted(ids), stage, ANSWER).values


def _corrupted(ids: list[int]) -> list[int]:
    """A text that differs at every token, so that no patch is skipped."""
    return [n + 1 for n in ids]


def nnsight(folder: Path) -> Run:
    """Every layer's attention (weights too), MLP and output saved."""
    import torch
    from nnsight import NNsight
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    ).eval()
    watched, gpt2 = NNsight(model), hasattr(model, "transformer")
    qkv = ("c_attn",) if gpt2 else ("q_proj", "k_proj", "v_proj")

    def run(ids: list[int]) -> Any:
        saved = []
        with (
            torch.inference_mode(),
            watched.trace(torch.tensor([ids]), output_attentions=True, use_cache=False),
        ):
            for layer in watched.transformer.h if gpt2 else watched.model.layers:
                attention = layer.attn if gpt2 else layer.self_attn
                inputs = (getattr(attention, name) for name in qkv)
                for part in (*inputs, attention, layer.mlp, layer):
                    saved.append(part.output.save())
            saved.append(watched.lm_head.output.save())
        return saved

    return run


CONTENDERS: dict[str, Callable[[Path], Run]] = {
    # transformers: only the last token's logits, with fused attention; those of every token; every
    # layer's weights and stream; q, k and masks of every layer; the last 64 tokens generated
    "floor": partial(_transformers, attention="sdpa", logits_to_keep=1),
    "all_logits": partial(_transformers, attention="sdpa"),
    "eager": partial(
        _transformers, attention="eager", output_attentions=True, output_hidden_states=True
    ),
    "watched": partial(_transformers, attention="sdpa", watched=True, logits_to_keep=1),
    "generation": partial(_transformers, attention="sdpa", new=64),
    "watched_generation": partial(_transformers, attention="sdpa", new=64, watched=True),
    # A trace: by default; plus a layer's weights; with q, k and v alone, from which scores are made
    # when shown; with every score and weight, as TransformerLens keeps them
    "gpt2viz": _gpt2viz,
    "gpt2viz_and_a_layer": gpt2viz_and_a_layer,
    "gpt2viz_fused": partial(_gpt2viz, explicit=False),
    "gpt2viz_explicit": partial(_gpt2viz, explicit=True),
    "transformer_lens": transformer_lens,
    "transformer_lens_bridge": transformer_lens_bridge,
    # Patches of the stream before every layer at every position, and of every head's output
    "transformer_lens_streams": partial(
        _transformer_lens_patches, function="get_act_patch_resid_pre"
    ),
    "transformer_lens_heads": partial(
        _transformer_lens_patches, function="get_act_patch_attn_head_out_all_pos"
    ),
    "gpt2viz_streams": partial(_gpt2viz_patches, stage="residual_in"),
    "gpt2viz_heads": partial(_gpt2viz_patches, stage="head_output"),
    "nnsight": nnsight,
}


def _status(field: str) -> float:
    """A field of Linux's account of this process, in megabytes."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(field + ":")[1].split()[0]) * 1024 / 1e6


def _peak(run: Run, ids: list[int]) -> float:
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = _status("VmRSS")
    result = run(ids)
    peak = _status("VmHWM") - before
    del result
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
        result = run(ids)
        print(clock() - start, flush=True)
        del result


if __name__ == "__main__":
    main()

"""TransformerLens' patches of a random GPT-2: rebuilds ``peer_patches.json``.

    pip install transformer_lens==4.3.0
    python -m tests.analysis.peer_patches

TransformerLens needs too much to be installed for every test run, so its answers are kept. The
model is random with a seed, and never changes.
"""

from __future__ import annotations

import json
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.checkpoints import write_checkpoint

CLEAN = [5, 300, 17, 219, 88, 401, 7]
CORRUPTED = [5, 300, 23, 219, 91, 401, 7]
ANSWER = (12, 40)
SIZES: dict[str, Any] = {"seed": 3, "n_embd": 24, "n_head": 4, "n_layer": 3}

#: Our stage, by position or not, and TransformerLens' function for the same patch.
THEIRS = {
    ("residual_in", False): "get_act_patch_resid_pre",
    ("attention_output", False): "get_act_patch_attn_out",
    ("mlp_output", False): "get_act_patch_mlp_out",
    ("head_output", False): "get_act_patch_attn_head_out_all_pos",
    ("q", False): "get_act_patch_attn_head_q_all_pos",
    ("k", False): "get_act_patch_attn_head_k_all_pos",
    ("v", False): "get_act_patch_attn_head_v_all_pos",
    ("weights", False): "get_act_patch_attn_head_pattern_all_pos",
    ("head_output", True): "get_act_patch_attn_head_out_by_pos",
    ("q", True): "get_act_patch_attn_head_q_by_pos",
    ("k", True): "get_act_patch_attn_head_k_by_pos",
    ("v", True): "get_act_patch_attn_head_v_by_pos",
    ("weights", True): "get_act_patch_attn_head_pattern_by_pos",
}


def main() -> None:
    """Ask TransformerLens for every sweep of a clean run into the corrupted one, and every path."""
    import torch
    from transformer_lens import patching
    from transformer_lens.model_bridge import TransformerBridge

    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), **SIZES)
        model = TransformerBridge.boot_transformers(folder, device="cpu", dtype=torch.float32)
    model.enable_compatibility_mode(no_processing=True)
    with torch.inference_mode():
        corrupted = torch.tensor([CORRUPTED])
        (_, cache), (_, other) = (
            model.run_with_cache(ids) for ids in (torch.tensor([CLEAN]), corrupted)
        )
        sweeps = {}
        for (stage, by_position), name in THEIRS.items():
            result = getattr(patching, name)(model, corrupted, cache, _difference)
            # Theirs is (layer, position, head), but for weights.
            values = result.transpose(1, 2) if by_position and stage != "weights" else result
            sweeps[f"{stage} {by_position}"] = values.tolist()
        # From (layer, head) to (layer, head); 0 where there is no path.
        paths = {
            into: patching.get_act_patch_direct_path_all_sources(
                model, corrupted, cache, other, _difference, into
            ).tolist()
            for into in "qkv"
        }
    made = {"made by": f"{Path(__file__).name}, transformer_lens {version('transformer_lens')}"}
    path = Path(__file__).with_suffix(".json")
    record = made | {"sweeps": sweeps, "paths": paths}
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")


def _difference(logits: Any) -> Any:
    return logits[0, -1, ANSWER[0]] - logits[0, -1, ANSWER[1]]


if __name__ == "__main__":
    main()

"""Write a network as a checkpoint folder in Hugging Face's layout, at half precision."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from gpt2viz.files import whole
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from gpt2viz.model.weights import CONV1D


def export(network: GPT2, folder: Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` (float16) into an existing folder."""
    weights = {}
    for name, tensor in network.state_dict().items():
        if name == "lm_head.weight" and network.config.tie_word_embeddings:
            continue
        half = tensor.detach().to("cpu", torch.float16)
        key = name if name == "lm_head.weight" else f"transformer.{name}"
        weights[key] = half.t().contiguous() if name.endswith(CONV1D) else half.contiguous()
    with whole(folder / "model.safetensors") as partial:
        save_file(weights, partial, metadata={"format": "pt"})
    config = json.dumps(_config(network.config), indent=2)
    with whole(folder / "config.json") as partial:
        partial.write_text(config + "\n", encoding="utf-8")


def _config(config: GPT2Config) -> dict[str, Any]:
    last = config.vocab_size - 1
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **asdict(config),
        "bos_token_id": last,
        "eos_token_id": last,
    }

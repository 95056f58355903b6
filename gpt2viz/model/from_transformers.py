"""Use a model that transformers has in memory as it is, without a file or a copy.

It doesn't import transformers: it only reads the objects' parameters and config, and calls
``save_pretrained``.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from gpt2viz.errors import CheckpointError
from gpt2viz.model.checkpoint import Model, network_of, tie
from gpt2viz.model.config import ModelConfig, config_from
from gpt2viz.model.tokenizer import load_tokenizer
from gpt2viz.model.weights import CONV1D, check_numbers, is_of_task_head, plain_name


def from_transformers(model: Any, tokenizer: Any, name: str | None = None) -> Model:
    """Use transformers' ``GPT2LMHeadModel``, ``LlamaForCausalLM``, or another of Llama's family.

    Of a model with a head for another task, such as ``GPT2ForSequenceClassification``, the trunk
    is used, and ``set_aside`` names the rest; ``wte`` is then the unembedding too.

    The parameters are shared, on their device: a change in them changes the
    model returned, which has no dropout, whatever the mode of the given one.
    ``tokenizer`` is transformers' own for it; ``name`` is the model's ``name_or_path`` by
    default. The model returned belongs to no file, so it has no checksum.

    Raises ``CheckpointError`` for another architecture, for adapters that aren't merged, for
    numbers other than float32, for NaN and infinity, and for a tokenizer that can't be
    read or is another model's.
    """
    described: Any = getattr(model, "config", None)
    if not (isinstance(model, nn.Module) and hasattr(described, "to_dict")):
        raise CheckpointError(
            f"{type(model).__name__} isn't a model of transformers: pass one such as a "
            "GPT2LMHeadModel or a LlamaForCausalLM, or read files with gpt2viz.load_model"
        )
    if isinstance(tokenizer, type) or not hasattr(tokenizer, "save_pretrained"):
        raise CheckpointError(
            f"The tokenizer is {type(tokenizer).__name__}, and must be one of transformers: pass "
            "AutoTokenizer.from_pretrained(name), or PreTrainedTokenizerFast(tokenizer_object=…)"
        )
    config = config_from(described.to_dict())
    parameters = {plain_name(key): p.detach() for key, p in model.named_parameters()}
    aside = tuple(sorted(filter(is_of_task_head, parameters)))
    trunk = {key: weight for key, weight in parameters.items() if key not in aside}
    weights = _weights(type(model).__name__, trunk, config)
    with TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        cut = load_tokenizer(Path(folder))
    name = name or getattr(model, "name_or_path", "") or "transformers"
    cut.fit(config.vocab_size, name)
    network = network_of(config, weights)
    if config.tie_word_embeddings:
        network.lm_head.weight = network.embedding.weight
    return Model(name, config, network, cut, set_aside=aside)


def _weights(kind: str, weights: dict[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Parameters of a ``kind`` of model by our names and in our shapes: views of its memory."""
    if config.tie_word_embeddings and config.embedding_name in weights:
        tie(weights, config.embedding_name)
    sizes = dict(config.tensors())
    if strange := sorted(weights.keys() ^ sizes.keys()):
        adapted = any("lora" in key.lower() for key in weights)
        merged = "; merge its adapters first (merge_and_unload)" if adapted else ""
        raise CheckpointError(
            f"{kind} isn't a language model as transformers makes it: {strange[0]} "
            f"{'has no place in one' if strange[0] in weights else 'is missing'}{merged}"
        )
    for key, weight in weights.items():
        if tuple(weight.shape) != sizes[key] or weight.dtype != torch.float32:
            raise CheckpointError(
                f"{key} is {tuple(weight.shape)} of {str(weight.dtype).removeprefix('torch.')}, "
                f"not {sizes[key]} of float32; call .float() on the model"
            )
        check_numbers(weight, key)
    return {key: w.t() if key.endswith(CONV1D) else w for key, w in weights.items()}

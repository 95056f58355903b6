"""A transformers model in memory is used directly: same numbers, same memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

import gpt2viz
from gpt2viz.errors import CheckpointError
from tests.bundled import bundled_model
from tests.checkpoints import TEXT, transformers_model, write_checkpoint, write_tokenizer

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast


def load(folder: Path, **changes: Any) -> tuple[GPT2LMHeadModel, PreTrainedTokenizerFast]:
    """A transformers model and its tokenizer, as a notebook has them."""
    from transformers import PreTrainedTokenizerFast

    write_checkpoint(folder, **changes)
    bpe = write_tokenizer(folder)
    bpe.save(str(folder / "tokenizer.json"))
    theirs = transformers_model(folder)
    return theirs, PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


@pytest.mark.parametrize("tied", [True, False])
def test_logits_and_attention_equal_transformers(tmp_path: Path, tied: bool) -> None:
    theirs, bpe = load(tmp_path, tie_word_embeddings=tied, scale_attn_by_inverse_layer_idx=True)
    ours = gpt2viz.from_transformers(theirs, bpe)
    trace = gpt2viz.trace(ours, "A crane ate fish")
    ids = torch.tensor([bpe("A crane ate fish")["input_ids"]])
    assert list(trace.token_ids) == ids[0].tolist()
    with torch.no_grad():
        out = theirs(ids, output_attentions=True)
    assert_allclose(trace.logits, out.logits, rtol=1e-5, atol=1e-5)
    for layer, weights in enumerate(out.attentions):
        assert_allclose(trace.stage("weights", layer), weights, rtol=1e-5, atol=1e-5)


def test_weights_of_one_head_are_its_columns(tmp_path: Path) -> None:
    theirs, bpe = load(tmp_path)
    attention = gpt2viz.from_transformers(theirs, bpe).network.blocks[1].attention
    whole, biases = (x.detach() for x in theirs.transformer.h[1].attn.c_attn.parameters())
    for into, columns, bias in zip("qkv", whole.split(24, dim=1), biases.split(24), strict=True):
        weights, offset = attention.input_weights(into, head=1)
        assert torch.equal(weights, columns[:, 6:12])
        assert torch.equal(offset, bias[6:12])


def test_task_heads_are_set_aside_and_listed(tmp_path: Path) -> None:
    import transformers

    config, bpe = (part if n else part.config for n, part in enumerate(load(tmp_path)))
    ids = torch.tensor([bpe("A crane ate fish")["input_ids"]])
    for kind, aside in (
        (transformers.GPT2ForSequenceClassification, "score."),
        (transformers.GPT2ForTokenClassification, "classifier."),
        (transformers.GPT2DoubleHeadsModel, "multiple_choice_head."),
    ):
        theirs = kind(config).eval()
        ours = gpt2viz.from_transformers(theirs, bpe)
        assert ours.set_aside
        assert all(name.startswith(aside) for name in ours.set_aside)
        trace = gpt2viz.trace(ours, "A crane ate fish")
        with torch.no_grad():
            attentions = theirs.transformer(ids, output_attentions=True).attentions
        for layer, weights in enumerate(attentions):
            assert_allclose(trace.stage("weights", layer), weights, rtol=1e-5, atol=1e-5)


def test_memory_is_shared(tmp_path: Path) -> None:
    theirs, bpe = load(tmp_path)
    ours = gpt2viz.from_transformers(theirs, bpe, name="mine")
    assert ours.name == "mine"
    addresses = {weight.data_ptr() for weight in theirs.parameters()}
    assert {weight.data_ptr() for weight in ours.network.parameters()} == addresses
    before = gpt2viz.trace(ours, "A crane").logits
    with torch.no_grad():
        theirs.transformer.h[1].attn.c_attn.weight.mul_(2)  # a step of fine-tuning
    assert np.abs(gpt2viz.trace(ours, "A crane").logits - before).max() > 1e-3
    assert all(weight.requires_grad for weight in theirs.parameters())


class Adapted(nn.Module):
    """A model wrapped by an adapter that isn't merged."""

    def __init__(self, base: GPT2LMHeadModel) -> None:
        super().__init__()
        self.config, self.base = base.config, base
        self.lora_A = nn.Linear(2, 2)


def with_nan(model: GPT2LMHeadModel) -> GPT2LMHeadModel:
    model.transformer.h[0].mlp.c_fc.weight.data[1, 2] = torch.nan
    return model


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda _: object(), "object isn't a model of transformers"),
        (lambda m: m.transformer, "GPT2Model isn't a language model .*lm_head.weight is"),
        (Adapted, "merge its adapters first"),
        (lambda m: m.half(), r"of float16, not .* of float32; call \.float\(\)"),
        (with_nan, r"h\.0\.mlp\.c_fc\.weight holds nan at \[1, 2\]"),
    ],
    ids=["no-model", "no-head", "adapters", "half", "nan"],
)
def test_unusable_models_are_refused(tmp_path: Path, made: Any, message: str) -> None:
    theirs, bpe = load(tmp_path, tie_word_embeddings=False)
    with pytest.raises(CheckpointError, match=message):
        gpt2viz.from_transformers(made(theirs), bpe)


def test_other_tokenizer_objects_are_refused(tmp_path: Path) -> None:
    theirs, bpe = load(tmp_path)
    own, kind = bpe.backend_tokenizer, type(bpe)
    for given in (None, "gpt2", own, 5, kind, bundled_model().tokenizer):
        with pytest.raises(CheckpointError, match="must be one of transformers: pass"):
            gpt2viz.from_transformers(theirs, given)
    made = gpt2viz.from_transformers(theirs, kind(tokenizer_object=own))
    assert made.tokenizer.encode(TEXT) == bpe(TEXT)["input_ids"]


def test_tokenizer_may_have_more_tokens_than_the_model(tmp_path: Path) -> None:
    """Only texts with the extra tokens are refused, until the embedding is resized."""
    theirs, bpe = load(tmp_path)
    bpe.add_tokens([f"crane{n}" for n in range(100)])
    ours = gpt2viz.from_transformers(theirs, bpe)
    last = theirs.config.vocab_size - len(bpe) + 99
    assert gpt2viz.trace(ours, f"A crane{last}").token_ids[-1] == theirs.config.vocab_size - 1
    with pytest.raises(gpt2viz.TextError, match=rf"'crane{last + 1}' was added .* only 420 tokens"):
        gpt2viz.trace(ours, f"A crane{last + 1}")
    theirs.resize_token_embeddings(len(bpe))
    ours = gpt2viz.from_transformers(theirs, bpe)
    assert ours.config.vocab_size == len(bpe)
    assert gpt2viz.trace(ours, f"{TEXT[:16]} crane7").token_ids[-1] == len(bpe) - 93

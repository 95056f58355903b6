"""A model's parts, compared with transformers, PyTorch's FLOP counter and Hugging Face's BPE."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import ByteLevelBPETokenizer
from torch.utils.flop_counter import FlopCounterMode

import gpt2viz
from gpt2viz.anatomy.cost import activations, products
from gpt2viz.anatomy.merges import follow
from gpt2viz.anatomy.parameters import parts
from gpt2viz.model.checkpoint import read_config
from gpt2viz.model.tokenizer import Tokenizer, load_tokenizer
from tests.checkpoints import (
    edit_json,
    transformers_model,
    write_checkpoint,
    write_tokenizer,
)
from tests.model.test_tokenizer import anything, both, like_text
from tests.oracles import FAMILIES, write_model

__all__ = ["both"]

RELEASED: dict[int, dict[str, Any]] = {
    124_439_808: {"n_layer": 12, "n_head": 12, "n_embd": 768},
    354_823_168: {"n_layer": 24, "n_head": 16, "n_embd": 1024},
    774_030_080: {"n_layer": 36, "n_head": 20, "n_embd": 1280},
    1_557_611_200: {"n_layer": 48, "n_head": 25, "n_embd": 1600},
}
#: Our products by the module that makes them.
MODULES: dict[str, dict[str, list[str]]] = {
    "GPT2": {
        "h.{}.attn.c_attn": ["Q, K and V"],
        "h.{}.attn.attend": ["scores Q · Kᵀ", "weights · V"],
        "h.{}.attn.c_proj": ["heads · W_O"],
        "h.{}.mlp.c_fc": ["MLP: widen"],
        "h.{}.mlp.c_proj": ["MLP: back"],
    },
    "Llama": {
        "layers.{}.self_attn.q_proj": ["Q"],
        "layers.{}.self_attn.k_proj": ["K"],
        "layers.{}.self_attn.v_proj": ["V"],
        "layers.{}.self_attn.attend": ["scores Q · Kᵀ", "weights · V"],
        "layers.{}.self_attn.o_proj": ["heads · W_O"],
        "layers.{}.mlp.gate_proj": ["MLP: gate"],
        "layers.{}.mlp.up_proj": ["MLP: widen"],
        "layers.{}.mlp.down_proj": ["MLP: back"],
    },
}


@pytest.fixture(scope="module", params=[*FAMILIES, "gpt2, odd sizes, untied"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    if request.param in FAMILIES:
        return write_model(folder, request.param)
    return write_checkpoint(folder, n_inner=10, n_head=2, tie_word_embeddings=False)


def test_parameters_of_every_part_equal_transformers(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    counted, ours = Counter[str](), Counter[str]()
    for name, weight in transformers_model(folder).named_parameters():  # a tied one is listed once
        module = re.sub(r"^(model|transformer)\.|(h|layers)\.\d+\.", "", name.rpartition(".")[0])
        counted[module] += weight.numel()
    listed = parts(read_config(folder))
    for part in listed:
        ours[part.tensors.partition(":")[0]] += part.n_parameters
    assert ours == counted
    untied = "untied" in request.node.callspec.params["folder"]
    assert listed[-1].name == ("unembedding" if untied else "unembedding: tied")
    assert max(len(part.tensors) for part in listed) <= 32  # the room of a column at 1000 pixels
    assert len({part.n_parameters for part in listed if "c_attn" in part.tensors}) <= 1


@pytest.mark.parametrize("total", RELEASED)
def test_parts_sum_to_the_released_counts(total: int) -> None:
    result = parts(gpt2viz.GPT2Config(**RELEASED[total]))
    assert sum(part.n_parameters for part in result) == total
    assert [part.n_parameters for part in result if part.group == "unembedding"] == [0]


@pytest.mark.parametrize("n_tokens", [1, 5, 24])
def test_multiply_adds_are_half_of_pytorchs_flops(folder: Path, n_tokens: int) -> None:
    model, ids = gpt2viz.load_model(folder), list(range(n_tokens))
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        # Explicit, as PyTorch doesn't count the fused step on a CPU.
        model.network(torch.tensor([ids]), explicit=True, last_only=True)
    counts = counter.get_flop_counts().items()
    theirs = {name.partition(".")[2]: sum(flops.values()) for name, flops in counts}
    for explicit in (True, False):
        trace = gpt2viz.trace(model, ids, explicit=explicit)
        ours = {product.name: 2 * product.multiply_adds for product in products(trace)}
        assert sum(ours.values()) == counter.get_total_flops()
        assert max(map(len, ours)) <= 13  # the room of a column at 1000 pixels
        labels = [trace.graph[record.key].label for record in trace.tensors]
        assert {tensors.name for tensors in activations(trace)} == {*labels}
        for module, names in MODULES[type(model.network).__name__].items():
            counted = sum(theirs[module.format(layer)] for layer in range(3))
            assert sum(ours.pop(name) for name in names) == counted, module
        assert ours == {"logits": theirs["lm_head"]}


def test_formula_of_each_product_gives_its_count(tiny: gpt2viz.Model) -> None:
    for product in products(gpt2viz.trace(tiny, [1, 2, 3])):
        factors = [int(n.replace(",", "")) for n in product.worked.split(" · ")]
        assert len(factors) == len(product.formula.split(" · "))
        assert torch.tensor(factors).prod() * product.times == product.multiply_adds


@pytest.mark.parametrize("explicit", [True, False])
def test_bytes_equal_those_of_the_trace(tiny: gpt2viz.Model, explicit: bool) -> None:
    trace = gpt2viz.trace(tiny, [1, 2, 3, 4, 5], explicit=explicit)
    result = activations(trace)
    assert sum(tensors.kept_bytes for tensors in result) == trace.nbytes
    made = sum(record.nbytes for record in trace.tensors if not record.shared)
    assert sum(tensors.made_bytes for tensors in result) == made
    weights = [t for t in result if t.key == "weights"]
    assert [(t.times, t.shape, t.kept_bytes) for t in weights] == [
        (3, (1, 4, 5, 5), 3 * 4 * 5 * 5 * 4)
    ] * explicit


@pytest.fixture(scope="module")
def repetitive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, ByteLevelBPETokenizer]:
    """(ours, Hugging Face's) of a text of two letters, whose merges overlap in every way."""
    folder = tmp_path_factory.mktemp("runs")
    two_letters = "".join(random.Random(0).choices("aab", k=4000))
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([two_letters], vocab_size=400, show_progress=False)
    tokenizer.save_model(str(folder))
    return load_tokenizer(folder), tokenizer


@pytest.mark.slow
@given(text=anything | like_text, letters=st.text("ab", max_size=30))
@example("it's \n\t 42 🦩🦩 e\u0301", "")
@example("\x1c\x1f\x85\u200b\u3000x", "")
def test_merges_end_in_hugging_faces_tokens(
    both: tuple[Tokenizer, ByteLevelBPETokenizer],
    repetitive: tuple[Tokenizer, ByteLevelBPETokenizer],
    text: str,
    letters: str,
) -> None:
    for (ours, theirs), read in ((both, text), (repetitive, letters), (repetitive, text)):
        result = follow(ours, read)
        assert [i for word in result for i in word.ids] == theirs.encode(read).ids
        assert b"".join(piece for word in result for piece in word.pieces) == read.encode()
        for word in result:
            pieces = word.start
            assert all(len(piece) == 1 for piece in pieces)
            for merge in word.merges:
                at = next(k for k in range(len(pieces)) if pieces[k : k + 2] == merge.pair)
                pieces = (*pieces[:at], b"".join(merge.pair), *pieces[at + 2 :])
                assert pieces == merge.pieces
                assert all(merge.rank < rank for _, rank in merge.others)


def test_ranks_are_line_numbers_of_merges_txt(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    lines = (tmp_path / "merges.txt").read_text(encoding="utf-8").split("\n")
    merges = [line for line in lines if line and not line.startswith("#version")]
    (word,) = follow(load_tokenizer(tmp_path), " crane")
    assert len(word.merges) > 2
    for merge in word.merges:
        left, right = (part.decode().replace(" ", "Ġ") for part in merge.pair)
        assert merges[merge.rank] == f"{left} {right}"


def test_added_word_has_no_merges(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    n = load_tokenizer(tmp_path).n_vocab
    (tmp_path / "added_tokens.json").write_text("{}")
    edit_json(tmp_path / "added_tokens.json", **{"<user>": n})
    tokenizer = load_tokenizer(tmp_path)
    result = follow(tokenizer, "a<user>b")
    assert [i for word in result for i in word.ids] == tokenizer.encode("a<user>b")
    assert [word.whole for word in result] == [False, True, False]
    assert result[1].pieces == (b"<user>",)
    assert result[1].ids == (n,)


def test_lone_surrogate_is_refused(both: tuple[Tokenizer, Any]) -> None:
    with pytest.raises(gpt2viz.TextError, match="Character 2"):
        follow(both[0], "a\ud83d")

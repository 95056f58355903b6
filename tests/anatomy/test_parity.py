"""What a model is made of, against transformers, PyTorch's own counter and Hugging Face's BPE."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
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
    TEXT,
    edit_json,
    transformers_model,
    write_checkpoint,
    write_tokenizer,
)
from tests.oracles import FAMILIES, written

RELEASED: dict[int, dict[str, Any]] = {
    124_439_808: {"n_layer": 12, "n_head": 12, "n_embd": 768},
    354_823_168: {"n_layer": 24, "n_head": 16, "n_embd": 1024},
    774_030_080: {"n_layer": 36, "n_head": 20, "n_embd": 1280},
    1_557_611_200: {"n_layer": 48, "n_head": 25, "n_embd": 1600},
}
ODD = {"vocab_size": 11, "n_positions": 7, "n_embd": 6, "n_layer": 3, "n_head": 2, "n_inner": 5}
LLAMAS = [family for family in FAMILIES if family != "gpt2"]

# Our parts by the module of transformers that holds them.
THEIRS = {
    "wte": ["token embeddings"],
    "wpe": ["position embeddings"],
    "ln_1": ["norm before attention"],
    "attn.c_attn": ["attention: Q", "attention: K", "attention: V"],
    "attn.c_proj": ["attention: output"],
    "ln_2": ["norm before the MLP"],
    "mlp.c_fc": ["MLP: widen"],
    "mlp.c_proj": ["MLP: back"],
    "ln_f": ["final norm"],
    "lm_head": ["head", "head: tied"],
}


def test_every_part_has_as_many_parameters_as_transformers(subtests: pytest.Subtests) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    cases: list[dict[str, Any]] = [*RELEASED.values(), ODD]
    for tied in (True, False):
        for sizes in cases:
            with subtests.test(tied=tied, sizes=sizes):
                ours = parts(gpt2viz.GPT2Config(**sizes, tie_word_embeddings=tied))
                with torch.device("meta"):
                    theirs = GPT2LMHeadModel(GPT2Config(**sizes, tie_word_embeddings=tied))
                theirs.tie_weights()
                counted = dict.fromkeys(THEIRS, 0)
                for name, weight in theirs.named_parameters():  # a tied one comes once
                    counted[next(m for m in THEIRS if f".{m}." in f".{name}")] += weight.numel()
                for module, names in THEIRS.items():
                    assert (
                        sum(p.n_parameters for p in ours if p.name in names) == counted[module]
                    ), module
                assert sum(p.n_parameters for p in ours) == sum(
                    p.numel() for p in theirs.parameters()
                )
                assert len({p.n_parameters for p in ours if p.name in THEIRS["attn.c_attn"]}) == 1


@pytest.mark.parametrize("total", RELEASED)
def test_the_parts_sum_to_the_released_counts(total: int) -> None:
    result = parts(gpt2viz.GPT2Config(**RELEASED[total]))
    assert sum(part.n_parameters for part in result) == total
    assert [part.n_parameters for part in result if part.group == "head"] == [0]


@pytest.mark.parametrize("explicit", [True, False], ids=["explicit", "fused"])
@pytest.mark.parametrize("n_tokens", [1, 5, 24])
@pytest.mark.parametrize("changes", [{}, {"n_inner": 10, "n_head": 2}], ids=["plain", "odd"])
def test_multiply_adds_are_half_of_pytorchs_flops(
    tmp_path: Path, changes: dict[str, Any], n_tokens: int, explicit: bool
) -> None:
    model = gpt2viz.load_model(write_checkpoint(tmp_path, **changes))
    ids = list(range(n_tokens))
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        # Explicit: of the fused step on a processor PyTorch has no count.
        model.network(torch.tensor([ids]), explicit=True, last_only=True)
    result = products(gpt2viz.trace(model, ids, explicit=explicit))
    assert 2 * sum(p.multiply_adds for p in result) == counter.get_total_flops()
    theirs = {
        name.removeprefix("GPT2."): sum(flops.values())
        for name, flops in counter.get_flop_counts().items()
    }
    ours = {p.name: 2 * p.multiply_adds for p in result}
    layers = range(model.config.n_layer)
    for module, names in {
        "attn.c_attn": ["Q, K and V"],
        "attn.attend": ["scores Q · Kᵀ", "weights · V"],
        "attn.c_proj": ["heads merged and projected"],
        "mlp.c_fc": ["MLP: widen"],
        "mlp.c_proj": ["MLP: back"],
    }.items():
        counted = sum(theirs[f"h.{layer}.{module}"] for layer in layers)
        assert sum(ours[name] for name in names) == counted, module
    assert ours["logits after the last token"] == theirs["lm_head"]


@pytest.mark.parametrize("family", LLAMAS)
def test_multiply_adds_of_each_family_are_half_of_pytorchs_flops(
    tmp_path: Path, family: str
) -> None:
    model = gpt2viz.load_model(written(tmp_path, family))
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model.network(torch.tensor([[1, 2, 3, 4, 5]]), explicit=True, last_only=True)
    theirs = {
        name.removeprefix("Llama."): sum(flops.values())
        for name, flops in counter.get_flop_counts().items()
    }
    trace = gpt2viz.trace(model, [1, 2, 3, 4, 5])
    result, made = products(trace), [tensors.name for tensors in activations(trace)]
    assert sorted(made) == sorted(stage.label for stage in trace.graph.values())
    ours = {product.name: 2 * product.multiply_adds for product in result}
    for module, names in {
        "self_attn.q_proj": ["Q"],
        "self_attn.k_proj": ["K"],
        "self_attn.v_proj": ["V"],
        "self_attn.attend": ["scores Q · Kᵀ", "weights · V"],
        "self_attn.o_proj": ["heads merged and projected"],
        "mlp.gate_proj": ["MLP: gate"],
        "mlp.up_proj": ["MLP: widen"],
        "mlp.down_proj": ["MLP: back"],
    }.items():
        counted = sum(theirs[f"layers.{layer}.{module}"] for layer in range(3))
        assert sum(ours.pop(name) for name in names) == counted, module
    assert ours == {"logits after the last token": theirs["lm_head"]}


@pytest.mark.parametrize("family", LLAMAS)
def test_every_part_of_each_family_has_as_many_parameters_as_transformers(
    tmp_path: Path, family: str
) -> None:
    folder = written(tmp_path, family)
    counted: dict[str, int] = {}
    for name, weight in transformers_model(folder).named_parameters():  # a tied one comes once
        module = name.rpartition(".")[0].removeprefix("model.")
        module = module.partition(".")[2].partition(".")[2] or module
        counted[module] = counted.get(module, 0) + weight.numel()
    ours = {part.tensors.partition(":")[0]: part for part in parts(read_config(folder))}
    tied = ours["lm_head"].name == "head: tied"
    assert counted == {
        name: part.n_parameters for name, part in ours.items() if not (tied and name == "lm_head")
    }
    assert tied == ("untied" not in family)


def test_each_product_is_written_out_as_it_is_counted(tiny: gpt2viz.Model) -> None:
    for product in products(gpt2viz.trace(tiny, [1, 2, 3])):
        factors = [int(n.replace(",", "")) for n in product.worked.split(" · ")]
        assert len(factors) == len(product.formula.split(" · "))
        assert torch.tensor(factors).prod() * product.times == product.multiply_adds


@pytest.mark.parametrize("explicit", [True, False])
def test_bytes_are_those_of_the_trace(tiny: gpt2viz.Model, explicit: bool) -> None:
    trace = gpt2viz.trace(tiny, [1, 2, 3, 4, 5], explicit=explicit)
    result = activations(trace)
    assert sum(tensors.kept_bytes for tensors in result) == trace.nbytes
    assert sum(tensors.made_bytes for tensors in result) == sum(
        r.nbytes for r in trace.tensors if not r.shared
    )
    weights = [t for t in result if t.key == "weights"]
    assert [(t.times, t.shape, t.kept_bytes) for t in weights] == [
        (3, (1, 4, 5, 5), 3 * 4 * 5 * 5 * 4)
    ] * explicit


@pytest.fixture(scope="module", params=["text", "two letters"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, ByteLevelBPETokenizer]:
    """(ours, Hugging Face's) of one vocabulary; the second's merges overlap in every way."""
    folder = tmp_path_factory.mktemp("bpe")
    if request.param == "text":
        write_tokenizer(folder, 600)
    else:
        tokenizer = ByteLevelBPETokenizer()
        letters = "".join(random.Random(0).choices("aab", k=4000))
        tokenizer.train_from_iterator([letters], vocab_size=400, show_progress=False)
        tokenizer.save_model(str(folder))
    theirs = ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    return load_tokenizer(folder), theirs


words = st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=30)
known = st.lists(st.sampled_from([*TEXT.split(" "), " ", "'s", "a", "ab", "7"])).map("".join)


@pytest.mark.slow
@given(text=words | known)
@example("it's \n\t 42 🦩🦩 e\u0301")
@example("\x1c\x1f\x85\u200b\u3000x")
@settings(max_examples=300)
def test_merges_end_in_the_tokens_of_both_tokenizers(
    both: tuple[Tokenizer, ByteLevelBPETokenizer], text: str
) -> None:
    ours, theirs = both
    result = follow(ours, text)
    ids = [i for word in result for i in word.ids]
    assert ids == ours.encode(text) == theirs.encode(text).ids
    assert b"".join(piece for word in result for piece in word.pieces) == text.encode()
    for word in result:
        pieces = word.start
        assert all(len(piece) == 1 for piece in pieces)
        for merge in word.merges:
            at = next(k for k in range(len(pieces)) if pieces[k : k + 2] == merge.pair)
            pieces = (*pieces[:at], b"".join(merge.pair), *pieces[at + 2 :])
            assert pieces == merge.pieces
            assert all(merge.rank < rank for _, rank in merge.others)


def test_ranks_are_the_lines_of_merges_txt(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    lines = (tmp_path / "merges.txt").read_text(encoding="utf-8").split("\n")
    merges = [line for line in lines if line and not line.startswith("#version")]
    (word,) = follow(load_tokenizer(tmp_path), " crane")
    assert len(word.merges) > 2
    for merge in word.merges:
        left, right = (part.decode().replace(" ", "Ġ") for part in merge.pair)
        assert merges[merge.rank] == f"{left} {right}"


def test_an_added_word_is_taken_as_it_stands(tmp_path: Path) -> None:
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


def test_half_a_surrogate_pair_is_one_message(both: tuple[Tokenizer, Any]) -> None:
    with pytest.raises(gpt2viz.TextError, match="Character 2"):
        follow(both[0], "a\ud83d")

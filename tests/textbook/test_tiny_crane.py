"""The tiny crane against NumPy, which shares no code, and against the package's own GPT-2."""

from __future__ import annotations

import torch
from numpy.testing import assert_allclose
from torch import nn

from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from gpt2viz.textbook import tiny_crane
from tests.mutants import Mutant
from tests.textbook.oracle import hidden, softmax, tiny_looks, tiny_story


def test_every_step_is_that_of_the_oracle() -> None:
    found, expected = tiny_crane.read(), tiny_story()
    for name, values in expected.items():
        assert_allclose(getattr(found, name), values, atol=1e-5, err_msg=name)
    x = expected["x"]
    for head, scaled in zip(found.heads, tiny_looks(x), strict=True):
        assert_allclose(head.scaled_scores, scaled, atol=1e-5)
        weights = softmax(hidden(scaled))
        assert_allclose(head.weights, weights, atol=1e-6)
        assert_allclose(head.output, weights @ x[:, :2], atol=1e-5)


def test_the_last_word_sees_the_same_without_the_mask() -> None:
    found = tiny_crane.read()
    assert torch.equal(found.free.weights[-1], found.heads[0].weights[-1])
    assert (found.free.weights[:-1].triu(1) > 0).any()


def test_it_expects_the_next_word_of_its_sentence_and_the_full_stop() -> None:
    best = tiny_crane.read().probabilities.argmax(dim=-1)
    assert [tiny_crane.VOCABULARY[n] for n in best] == ["crane", "ate", "fish", "."]


def test_all_that_is_to_be_worked_out_by_hand_is_whole() -> None:
    found = tiny_crane.read()
    for part in (found.x, found.free.q, found.free.k, found.free.v, found.free.scores):
        assert torch.equal(part, part.round())
        assert part.abs().max() <= 12


def network() -> GPT2:
    """The package's own GPT-2 with these tables, and nothing in place of its LayerNorms."""
    config = GPT2Config(
        vocab_size=5,
        n_positions=4,
        n_embd=4,
        n_layer=1,
        n_head=2,
        n_inner=3,
        activation_function="relu",
    )
    made = GPT2(config).eval()
    made.ln_f = nn.Identity()  # type: ignore[assignment]
    for name in ("ln_1", "ln_2"):
        setattr(made.h[0], name, nn.Identity())
    tables = {
        "wte.weight": tiny_crane.TOKENS,
        "wpe.weight": tiny_crane.POSITIONS,
        "h.0.attn.c_attn.weight": [
            row for part in zip(*tiny_crane.HEADS, strict=True) for table in part for row in table
        ],
        "h.0.attn.c_proj.weight": tiny_crane.MERGE,
        "h.0.mlp.c_fc.weight": tiny_crane.WIDEN,
        "h.0.mlp.c_fc.bias": tiny_crane.BIAS,
        "h.0.mlp.c_proj.weight": tiny_crane.BACK,
    }
    with torch.no_grad():
        for name, weights in made.named_parameters():
            weights.copy_(torch.tensor(tables.get(name, 0), dtype=torch.float32))
    return made


def test_it_is_gpt2_without_its_norms() -> None:
    with torch.inference_mode():
        logits = network()(torch.tensor([tiny_crane.IDS]))[0]
    assert_allclose(logits, tiny_crane.read().logits, atol=1e-5)


#: Faults that these tests notice: see ``tests.mutants``.
MUTANTS = (
    Mutant(
        "the tiny crane's MLP reads x without what attention adds",
        "textbook/tiny_crane.py",
        "widened = mlp.linear(mid, WIDEN, BIAS)",
        "widened = mlp.linear(x, WIDEN, BIAS)",
        "test_every_step_is_that_of_the_oracle",
    ),
    Mutant(
        "the tiny crane's second head looks ahead",
        "textbook/tiny_crane.py",
        "heads = tuple(look(x, head) for head in HEADS)",
        "heads = tuple(look(x, head, head is WHO) for head in HEADS)",
        "test_it_is_gpt2_without_its_norms",
    ),
)

"""Numbers equal those of TransformerLens 2.18 in double precision, for a model made by formula.

Its ``fold_layer_norm``, ``center_writing_weights`` and ``center_unembed`` were called on the same
numbers; then ``all_composition_scores``, the full circuits and the eigenvalues of its
``FactoredMatrix``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gpt2viz
from gpt2viz.analysis.circuits import head_circuit
from gpt2viz.analysis.composition import composition
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from tests.bundled import bundled_model

C, nh, V, T = 12, 2, 17, 6

#: From a sender's head to a receiver's, both (layer, head), by what it goes into.
COMPOSITION = {
    "q": {(0, 0, 1, 1): 0.304487, (0, 1, 2, 0): 0.290721, (1, 0, 2, 1): 0.369645},
    "k": {(0, 0, 1, 1): 0.348394, (0, 1, 2, 0): 0.370784, (1, 0, 2, 1): 0.434804},
    "v": {(0, 0, 1, 1): 0.411244, (0, 1, 2, 0): 0.350011, (1, 0, 2, 1): 0.276740},
}
#: Of a head: what token 3 writes into the first logits and scores with the first keys, Σλ / Σ|λ|
#: of the full OV circuit, and the first numbers of ``b_Q``.
CIRCUITS = {
    (0, 1): (
        [3.014805, -6.610872, 9.691457, -5.045670],
        [-8.842680, 9.020172, 9.597553, 13.475191],
        0.462067,
        [-2.186736, -0.467073, 0.067914],
    ),
    (2, 0): (
        [7.218372, 0.323792, 2.642404, 3.170794],
        [-6.268893, -12.238079, 15.006303, -3.091426],
        0.203090,
        [1.357467, 1.420527, 3.973720],
    ),
}


def wave(name: str, *shape: int) -> torch.Tensor:
    """Numbers in [−1, 1] that a name and a shape decide, without a rank below the shape's."""
    n = int(np.prod(shape))
    numbers = np.sin(np.arange(n) ** 2 * (0.3 + 0.01 * len(name))).reshape(shape)
    return torch.from_numpy(numbers).float()


@pytest.fixture(scope="module")
def model() -> gpt2viz.Model:
    config = GPT2Config(
        vocab_size=V, n_positions=T, n_embd=C, n_layer=3, n_head=nh, n_inner=5,
        tie_word_embeddings=False,
    )  # fmt: skip
    network = GPT2(config)
    inner: Any = network
    with torch.no_grad():
        inner.wte.weight.copy_(wave("wte.weight", V, C))
        inner.wpe.weight.copy_(wave("wpe.weight", T, C))
        inner.lm_head.weight.copy_(wave("lm_head.weight", V, C))
        inner.ln_f.weight.copy_(1 + 0.5 * wave("ln_f.weight", C))
        for layer, block in enumerate(inner.h):
            at = f"h.{layer}.{'x' * layer}"
            block.attn.c_attn.weight.copy_(wave(f"{at}attn.c_attn.weight", C, 3 * C).T)
            block.attn.c_attn.bias.copy_(wave(f"{at}attn.c_attn.bias", 3 * C))
            block.attn.c_proj.weight.copy_(wave(f"{at}attn.c_proj.weight", C, C).T)
            block.ln_1.weight.copy_(1 + 0.5 * wave(f"{at}ln_1.weight", C))
            block.ln_1.bias.copy_(wave(f"{at}ln_1.bias", C))
    return gpt2viz.Model("by formula", config, network, bundled_model().tokenizer)


def test_composition(model: gpt2viz.Model) -> None:
    result = composition(model)
    for into, pairs in COMPOSITION.items():
        for pair, score in pairs.items():
            assert result.ratio[into][pair] == pytest.approx(score, abs=2e-6)  # type: ignore[index]


@pytest.mark.parametrize("head", CIRCUITS)
def test_full_circuits(model: gpt2viz.Model, head: tuple[int, int]) -> None:
    writes, scores, copying, b_Q = CIRCUITS[head]
    circuit = head_circuit(model, *head)
    E = model.network.wte.weight.detach().double().numpy()
    sigma = np.sqrt(E[3].var() + model.network.ln_f.eps)
    by_token = dict(circuit.writes(3, V).most)
    assert [sigma * by_token[n] for n in range(4)] == pytest.approx(writes, abs=2e-5)
    q, k = E[3] @ circuit.query.weight, E[:4] @ circuit.key.weight
    assert (k @ q).tolist() == pytest.approx(scores, abs=2e-5)
    assert circuit.copying_score == pytest.approx(copying, abs=2e-6)
    assert circuit.query.bias[:3].tolist() == pytest.approx(b_Q, abs=2e-6)

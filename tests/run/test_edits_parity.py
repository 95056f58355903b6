"""Every kind of edit against transformers, edited here by other means: its own hooks and masks.

A head is changed in the slice that goes into ``c_proj``, the mask in ``attention_mask``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

import gpt2viz
from gpt2viz.run.edit_kinds import OURS
from gpt2viz.run.edits import REFERENCE_TEXT
from tests.checkpoints import transformers_model
from tests.numpy_gpt2 import Tolerance, reference

TOLERANCE: Tolerance = {"rtol": 1e-5, "atol": 1e-5}
IDS, OTHER_IDS = np.random.default_rng(5).integers(0, 420, (2, 11)).tolist()
HS = 6

#: The edits, and the same written out for the oracle: slices of heads, layers, hidden pairs.
CASES: dict[str, dict[str, Any]] = {
    "off:0.0": {"heads": [(0, 0, "times", 0)]},
    "off:1.3": {"heads": [(1, 3, "times", 0)]},
    "scale:1.2:-1.5": {"heads": [(1, 2, "times", -1.5)]},
    "scale:1.2:2.5,scale:1.2:0.5": {"heads": [(1, 2, "times", 1.25)]},
    "mean:0.1": {"heads": [(0, 1, "mean", None)]},
    "mean:2.0,scale:2.0:0.5": {"heads": [(2, 0, "mean", None), (2, 0, "times", 0.5)]},
    "attn:1": {"parts": ["h.1.attn"]},
    "mlp:0": {"parts": ["h.0.mlp"]},
    "forbid:5:2": {"pairs": [(5, 2)]},
    "forbid:5:2,forbid:5:5,forbid:9:0": {"pairs": [(5, 2), (5, 5), (9, 0)]},
    "window:1": {"pairs": [(i, j) for i in range(11) for j in range(11) if i != j]},
    "window:3": {"pairs": [(i, j) for i in range(11) for j in range(11) if not -3 < i - j < 3]},
    "window:2:3": {"pairs": [(i, j) for i in range(11) for j in range(3, 11) if abs(i - j) > 1]},
    "nofirst": {"pairs": [(i, 0) for i in range(1, 11)]},
    "patch:head_output:1.3": {"heads": [(1, 3, "other", None)]},
    "off:0.1,mlp:1,nofirst,scale:2.3:3.0": {
        "heads": [(0, 1, "times", 0), (2, 3, "times", 3)],
        "parts": ["h.1.mlp"],
        "pairs": [(i, 0) for i in range(1, 11)],
    },
}


@pytest.fixture(scope="module")
def pair(tiny_folder: Path, tiny: gpt2viz.Model) -> Any:
    """(checkpoint folder, transformers' model of it, ours)."""
    return tiny_folder, transformers_model(tiny_folder), tiny


def means(folder: Path, model: gpt2viz.Model) -> list[np.ndarray]:
    """Mean output (nh, hs) of every head of every layer over the reference text, by NumPy."""
    ids = model.tokenizer.encode(REFERENCE_TEXT)[: model.config.n_positions]
    return [heads.mean(axis=1) for heads in reference(folder, list(ids), True)["head_output"]]


def zero(_module: Any, _inputs: Any, output: Any) -> Any:
    """A hook that puts 0 in place of an output."""
    if isinstance(output, tuple):
        return (torch.zeros_like(output[0]), *output[1:])
    return torch.zeros_like(output)


def oracle(
    pair: Any,
    *,
    heads: Sequence[Any] = (),
    parts: Sequence[str] = (),
    pairs: Sequence[tuple[int, int]] = (),
) -> Any:
    folder, theirs, ours = pair

    def change_slice(layer: int, head: int, how: str, factor: float) -> Any:
        def hook(_module: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
            merged = inputs[0].clone()  # (B, T, C)
            here = slice(head * HS, (head + 1) * HS)
            if how == "mean":
                merged[..., here] = torch.from_numpy(means(folder, ours)[layer][head])
            elif how == "other":
                other = reference(folder, OTHER_IDS, True)["head_output"][layer][head]
                merged[..., here] = torch.from_numpy(other)
            else:
                merged[..., here] = merged[..., here] * factor
            return (merged,)

        return hook

    n = len(IDS)
    hidden = np.triu(np.ones((n, n), bool), 1)
    for i, j in pairs:
        hidden[i, j] = True
    added = torch.zeros(1, 1, n, n).masked_fill(torch.from_numpy(hidden), torch.finfo().min)
    with ExitStack() as hooks, torch.no_grad():
        for layer, head, how, factor in heads:
            module = theirs.transformer.h[layer].attn.c_proj
            hook = change_slice(layer, head, how, factor)
            hooks.callback(module.register_forward_pre_hook(hook).remove)
        for name in parts:
            module = theirs.transformer.get_submodule(name)
            hooks.callback(module.register_forward_hook(zero).remove)
        return theirs(
            torch.tensor([IDS]),
            attention_mask=added,
            output_attentions=True,
            output_hidden_states=True,
        )


def test_every_kind_equals_transformers(pair: Any, subtests: pytest.Subtests) -> None:
    assert {edit.kind for text in CASES for edit in gpt2viz.parse_edits(text)} == set(OURS)
    for explicit in (True, False):
        for text in CASES:
            with subtests.test(explicit=explicit, text=text):
                edits = gpt2viz.parse_edits(text)
                trace = gpt2viz.trace(
                    pair[2], IDS, explicit=explicit, edits=edits, patch_from=OTHER_IDS
                )
                out = oracle(pair, **CASES[text])
                assert_allclose(trace.logits, out.logits, **TOLERANCE)
                assert_allclose(
                    trace.next_token_probabilities, out.logits[:, -1].softmax(-1), **TOLERANCE
                )
                for layer, attention in enumerate(out.attentions):
                    assert_allclose(trace.stage("weights", layer), attention, **TOLERANCE)
                for layer, hidden in enumerate(out.hidden_states[1:-1]):
                    assert_allclose(trace.stage("residual_out", layer), hidden, **TOLERANCE)
                plain = gpt2viz.trace(pair[2], IDS)
                assert np.abs(trace.logits - plain.logits).max() > 0.01  # else the edit is no edit


def test_the_output_of_an_edited_head_is_what_is_recorded(pair: Any) -> None:
    folder, _, model = pair
    trace = gpt2viz.trace(model, IDS, edits=gpt2viz.parse_edits("off:0.1,mean:0.2,scale:0.3:2"))
    plain = reference(folder, IDS, causal=True)["head_output"][0]
    heads = trace.stage("head_output", 0)[0]
    assert not heads[1].any()
    assert_allclose(heads[2], np.tile(means(folder, model)[0][2], (11, 1)), **TOLERANCE)
    assert_allclose(heads[3], 2 * plain[3], **TOLERANCE)
    assert_allclose(heads[0], plain[0], **TOLERANCE)
    assert (
        not gpt2viz.trace(model, IDS, edits=gpt2viz.parse_edits("mlp:2"))
        .stage("mlp_output", 2)
        .any()
    )

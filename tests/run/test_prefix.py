"""A trace that reuses an earlier one equals a full run, though only the new tokens are run.

``test_parity`` compares such runs with NumPy.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.export import save_trace
from gpt2viz.model.network import GPT2
from gpt2viz.run.key import RunKey
from gpt2viz.run.stages import STAGES
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import Tolerance

TOLERANCE: Tolerance = {"rtol": 1e-5, "atol": 1e-5}
IDS = [5, 300, 17, 9, 9, 30, 2]
KINDS: dict[str, dict[str, Any]] = {
    "deeper layers scaled down": {"scale_attn_by_inverse_layer_idx": True},
    "odd head size": {"n_head": 4, "n_embd": 20},
    "relu, untied": {"activation_function": "relu", "tie_word_embeddings": False},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, gpt2viz.Model]:
    made = {}
    for kind, changes in KINDS.items():
        folder = write_checkpoint(tmp_path_factory.mktemp("prefix") / "model", **changes)
        made[kind] = gpt2viz.load_model(folder)
    return made


def assert_equals_full_run(result: gpt2viz.Trace, full: gpt2viz.Trace) -> None:
    """Every stage, the prediction, the key and the records equal those of a full run."""
    assert (result.key, result.text, result.tokens) == (full.key, full.text, full.tokens)
    assert result.explicit == full.explicit
    assert result.captured.keys() == full.captured.keys()
    assert result.tensors == full.tensors
    assert result.nbytes == full.nbytes
    for stage in (s for s in STAGES if s.keep):
        for layer in range(full.config.n_layer) if stage.per_layer else (None,):
            array, expected = result.stage(stage.key, layer), full.stage(stage.key, layer)
            assert_allclose(array, expected, **TOLERANCE, err_msg=f"{stage.key} of layer {layer}")
    assert_allclose(result.logits, full.logits, **TOLERANCE)
    assert_allclose(result.next_token_probabilities, full.next_token_probabilities, **TOLERANCE)


@st.composite
def changed_texts(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """A text before and after one edit by a user who types."""
    ids = st.lists(st.integers(0, 419), min_size=1, max_size=12)
    before, new = draw(ids), draw(st.lists(st.integers(0, 419), min_size=1, max_size=4))
    start, end = sorted((draw(st.integers(0, len(before))), draw(st.integers(0, len(before)))))
    after = draw(
        st.sampled_from(
            [
                [*before, *new],  # written on
                [*before[:start], *new, *before[end:]],  # a word in the middle
                before[:start] or before,  # the end deleted
                before,
                [*new, *before],  # all moved to other positions
            ]
        )
    )
    return before, after


@given(
    texts=changed_texts(),
    kind=st.sampled_from(list(KINDS)),
    was_explicit=st.booleans(),
    explicit=st.booleans(),
)
@settings(max_examples=60)
def test_reused_trace_equals_the_full_trace(
    models: dict[str, gpt2viz.Model],
    texts: tuple[list[int], list[int]],
    kind: str,
    was_explicit: bool,
    explicit: bool,
) -> None:
    model = models[kind]
    before, after = texts
    earlier = gpt2viz.trace(model, before, explicit=was_explicit)
    result = gpt2viz.trace(model, after, explicit=explicit, reuse=earlier)
    same = [a == b for a, b in zip(before, after, strict=False)]
    assert result.reused == min([*same, False].index(False), len(after) - 1)
    assert_equals_full_run(result, gpt2viz.trace(model, after, explicit=explicit))


@pytest.mark.parametrize("explicit", [True, False])
def test_only_new_tokens_are_run(
    tiny: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch, explicit: bool
) -> None:
    ran: list[list[int]] = []
    forward = GPT2.forward

    def record_ids(self: GPT2, ids: Any, **rest: Any) -> Any:
        ran.extend(ids.tolist())
        return forward(self, ids, **rest)

    earlier = gpt2viz.trace(tiny, IDS, explicit=explicit)
    monkeypatch.setattr(GPT2, "forward", record_ids)
    for text, reused in (([*IDS, 4, 5], 7), (IDS, 6), (IDS[:3], 2), ([1, *IDS], 0), ([5], 0)):
        result = gpt2viz.trace(tiny, text, explicit=explicit, reuse=earlier)
        assert result.reused == reused
        assert ran.pop() == text[reused:]
    assert not ran


def test_chain_of_traces_is_complete_and_shares_no_memory(tiny: gpt2viz.Model) -> None:
    for explicit in (True, False):
        trace = gpt2viz.trace(tiny, IDS[:1], explicit=explicit)
        for n in range(2, len(IDS) + 1):
            earlier, trace = trace, gpt2viz.trace(tiny, IDS[:n], explicit=explicit, reuse=trace)
        cut = gpt2viz.trace(tiny, [*IDS[:4], 8], explicit=explicit, reuse=trace)
        assert_equals_full_run(cut, gpt2viz.trace(tiny, [*IDS[:4], 8], explicit=explicit))
        assert_equals_full_run(trace, gpt2viz.trace(tiny, IDS, explicit=explicit))
        for key, array in trace.captured.items():
            assert not np.shares_memory(array, earlier.captured[key])
            assert not array.flags.writeable
    text = "7 tokens through tiny (3 layers of 4 heads), causal mask on, the first 6 from an"
    assert text in repr(trace)


def test_a_saved_trace_is_reused(tiny: gpt2viz.Model, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    save_trace(gpt2viz.trace(tiny, IDS), path)
    result = gpt2viz.trace(tiny, [*IDS, 8], reuse=gpt2viz.load_trace(path, tiny))
    assert result.reused == len(IDS)
    assert_equals_full_run(result, gpt2viz.trace(tiny, [*IDS, 8]))


def test_bos_in_front_prevents_reuse(tiny: gpt2viz.Model) -> None:
    plain, first = (tiny.tokenizer.encode("A crane", bos=on) for on in (False, True))
    assert first[1:] == plain
    result = gpt2viz.trace(tiny, first, reuse=gpt2viz.trace(tiny, plain))
    assert result.reused == 0
    assert_equals_full_run(result, gpt2viz.trace(tiny, first))
    again = gpt2viz.trace(tiny, [*first, 3], reuse=result)
    assert again.reused == len(first)


@pytest.mark.parametrize(
    ("later", "earlier", "message"),
    [
        ({"causal": False}, {}, "Only with the causal mask on, in both runs"),
        ({}, {"causal": False}, "Only with the causal mask on, in both runs"),
        ({"edits": "off:0.1"}, {}, "A run with edits can't reuse another"),
        ({"edits": "off:0.1"}, {"edits": "off:0.1"}, "A run with edits can't reuse another"),
        ({}, {"edits": "window:2"}, "nor be reused"),
    ],
)
def test_invalid_reuse_is_refused(
    tiny: gpt2viz.Model, later: dict[str, Any], earlier: dict[str, Any], message: str
) -> None:
    made = [
        options | {"edits": gpt2viz.parse_edits(options.get("edits", ""))}
        for options in (later, earlier)
    ]
    with pytest.raises(ValueError, match=message):
        gpt2viz.trace(tiny, IDS, **made[0], reuse=gpt2viz.trace(tiny, IDS, **made[1]))


def test_another_model_is_refused(
    tiny: gpt2viz.Model, models: dict[str, gpt2viz.Model], tmp_path: Path
) -> None:
    """By its sizes, and by its weights where name and sizes are the same."""
    other = gpt2viz.load_model(write_checkpoint(tmp_path / "tiny", seed=1))
    with pytest.raises(ValueError, match="by another tiny, with other weights"):
        gpt2viz.trace(tiny, IDS, reuse=gpt2viz.trace(other, IDS))
    narrow = models["odd head size"]
    with pytest.raises(ValueError, match="was made by model, not by tiny"):
        gpt2viz.trace(tiny, IDS, reuse=gpt2viz.trace(narrow, IDS))


def test_common_prefix_length() -> None:
    key = RunKey("tiny", (1, 2, 3))
    same = ((1, 2, 3), 3), ((1, 2), 2), ((1, 2, 4, 5), 2), ((1, 2, 3, 4), 3), ((2, 2, 3), 0)
    others: tuple[dict[str, Any], ...] = (
        {"causal": False},
        {"model": "other"},
        {"edits": gpt2viz.parse_edits("mlp:0")},
    )
    for (ids, n), other in product(same, ({}, *others)):
        run = RunKey(**{"model": "tiny", "token_ids": ids} | other)
        assert key.common_prefix_length(run) == run.common_prefix_length(key) == (0 if other else n)
    for other in others[1:]:
        run = RunKey(**{"model": "tiny", "token_ids": (1, 2, 3)} | other)
        assert run.common_prefix_length(run) == 3
    blind = RunKey("tiny", (1, 2, 3), causal=False)
    assert blind.common_prefix_length(blind) == 0

"""Generation: greedy as in transformers, and draws that follow the distribution and the seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gpt2viz
from gpt2viz.analysis.generation import appraise, draw, generate
from gpt2viz.analysis.sampling import sampling_distribution, surprise
from gpt2viz.model.network import GPT2
from tests.checkpoints import transformers_model, with_stages

IDS = [5, 300, 17]


@torch.no_grad()
def test_greedy_equals_transformers(tiny_folder: Path, tiny: gpt2viz.Model) -> None:
    theirs, ours = transformers_model(tiny_folder), tiny
    ids = torch.tensor([IDS])
    out = theirs.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12, pad_token_id=0
    )
    expected = out[0, 3:].tolist()
    choices = list(generate(ours, IDS, len(expected)))
    assert [choice.token for choice in choices] == expected
    assert {choice.rank for choice in choices} == {1}
    logits = theirs(out).logits[0].double().softmax(-1)
    for n, choice in enumerate(choices):
        p = float(logits[2 + n, choice.token])
        assert choice.probability == pytest.approx(p, rel=1e-4)
        assert choice.surprise == pytest.approx(-np.log2(p), rel=1e-4)


def test_draws_follow_the_distribution(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, IDS)
    for settings in ({"temperature": 0.6, "top_k": 4}, {"temperature": 2.0, "top_p": 0.5}):
        probabilities: Any = sampling_distribution(trace.logits_at(-1), **settings)  # type: ignore[arg-type]
        for seed in range(100):
            at = np.random.default_rng([seed, len(IDS)]).random()
            drawn = draw(trace, **settings, seed=seed)  # type: ignore[arg-type]
            assert drawn == np.searchsorted(probabilities.cumsum(), at)


def test_the_same_seed_writes_the_same_text(tiny: gpt2viz.Model) -> None:

    def write(seed: int, ids: list[int], n: int) -> list[int]:
        return [c.token for c in generate(tiny, ids, n, temperature=1.5, seed=seed)]

    whole = write(3, IDS, 8)
    assert write(3, IDS, 8) == whole
    assert write(4, IDS, 8) != whole
    assert write(3, IDS + whole[:5], 3) == whole[5:]  # a step back, and on again


@pytest.mark.parametrize("causal", [True, False])
def test_earlier_tokens_are_not_run_again(
    tiny: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch, causal: bool
) -> None:
    runs: list[int] = []
    forward = GPT2.forward

    def record_length(self: GPT2, ids: Any, **rest: Any) -> Any:
        runs.append(ids.shape[1])
        return forward(self, ids, **rest)

    with monkeypatch.context() as patched:
        patched.setattr(GPT2, "forward", record_length)
        choices = list(generate(tiny, IDS, 5, causal=causal, temperature=1.5, seed=2))
    assert runs == ([3, 1, 1, 1, 1] if causal else [3, 4, 5, 6, 7])
    ids = list(IDS)
    for choice in choices:  # as in full runs
        trace = gpt2viz.trace(tiny, ids, causal)
        assert choice.token == draw(trace, temperature=1.5, seed=2)
        expected = appraise(trace, choice.token)
        assert choice.rank == expected.rank
        assert choice.probability == pytest.approx(expected.probability, rel=1e-5)
        ids.append(choice.token)


def test_generation_ends_at_a_full_context(tiny: gpt2viz.Model) -> None:
    """From any start: the same text, as long as the context."""
    text = IDS * 7
    whole = text + [choice.token for choice in generate(tiny, text, 10)]
    assert len(whole) == tiny.config.n_positions
    for start in range(len(text), len(whole) + 1):
        added = [choice.token for choice in generate(tiny, whole[:start], 10)]
        assert added == whole[start:], f"from {start} tokens"
    with pytest.raises(gpt2viz.ContextError):
        next(generate(tiny, IDS * 9, 1))


def test_generation_ends_at_the_end_of_text(tiny: gpt2viz.Model) -> None:
    (end,) = [n for n in range(400) if tiny.tokenizer.token_bytes(n) == b"<|endoftext|>"]
    trace = gpt2viz.trace(tiny, IDS)
    result = next(n for n in range(5000) if draw(trace, temperature=5.0, seed=n) == end)
    assert [c.token for c in generate(tiny, IDS, 5, temperature=5.0, seed=result)] == [end]


def test_surprise_of_a_tiny_probability_is_finite(tiny: gpt2viz.Model) -> None:
    """If one logit is far above all others, −ln p is how far it is above the token's own."""
    plain = gpt2viz.trace(tiny, IDS)
    trace = with_stages(plain, {("final_norm", None): 1e4 * plain.stage("final_norm")})
    bits = surprise(trace)
    for position, token in enumerate(IDS[1:]):
        logits = trace.logits_at(position).astype(float)
        choice = appraise(trace, token, position)
        assert choice.probability == 0
        assert choice.surprise == pytest.approx((logits.max() - logits[token]) / np.log(2))
        assert choice.surprise == pytest.approx(bits[position + 1])

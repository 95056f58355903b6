"""Logit lens and contributions against transformers' own modules, and surprise against its loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.lens import contributions, logit_lens
from tests.checkpoints import transformers_model, write_checkpoint

IDS = [5, 300, 17, 17, 219, 88, 400]
N_LAYER, N_HEAD, C = 3, 4, 24


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = write_checkpoint(tmp_path_factory.mktemp("lens"), tie_word_embeddings=request.param)
    theirs = transformers_model(folder)
    return theirs, gpt2viz.load_model(folder)


def streams_of(theirs: Any) -> dict[tuple[str, int | None], torch.Tensor]:
    """The residual stream as transformers has it, by its own hooks."""
    found: dict[tuple[str, int | None], torch.Tensor] = {}
    hooks = []
    for n, block in enumerate(theirs.transformer.h):
        hooks.append(
            block.ln_2.register_forward_pre_hook(
                lambda _m, args, n=n: found.__setitem__(("residual_mid", n), args[0])
            )
        )
        following = theirs.transformer.h[n + 1].ln_1 if n + 1 < N_LAYER else theirs.transformer.ln_f
        hooks.append(
            following.register_forward_pre_hook(
                lambda _m, args, n=n: found.__setitem__(("residual_out", n), args[0])
            )
        )
    hooks.append(
        theirs.transformer.h[0].ln_1.register_forward_pre_hook(
            lambda _m, args: found.__setitem__(("embedding", None), args[0])
        )
    )
    theirs(torch.tensor([IDS]))
    for hook in hooks:
        hook.remove()
    return found


@torch.no_grad()
def test_logit_lens_equals_transformers_modules(pair: Any) -> None:
    theirs, ours = pair
    lens = logit_lens(ours, gpt2viz.trace(ours, IDS))
    assert len(lens.sites) == 1 + 2 * N_LAYER
    streams = streams_of(theirs)
    answer = theirs(torch.tensor([IDS])).logits[0].argmax(-1)
    assert_array_equal(lens.answer, answer)
    for n, place in enumerate(lens.sites):
        logits = theirs.lm_head(theirs.transformer.ln_f(streams[place]))[0].double()
        p = logits.softmax(-1)
        assert_array_equal(lens.top[n], p.argmax(-1), err_msg=str(place))
        assert_allclose(lens.probability[n], p.max(-1).values, rtol=1e-4)
        bits = torch.distributions.Categorical(logits=logits).entropy() / np.log(2)
        assert_allclose(lens.entropy[n], bits, rtol=1e-4)
        order = (-logits).argsort(dim=-1)
        expected = (order == answer[:, None]).int().argmax(dim=-1) + 1
        assert_array_equal(lens.rank[n], expected)
    assert (lens.rank[-1] == 1).all()


@torch.no_grad()
def test_other_answers_can_be_followed(pair: Any) -> None:
    theirs, ours = pair
    trace = gpt2viz.trace(ours, IDS)
    plain, lens = logit_lens(ours, trace, [1, 4]), logit_lens(ours, trace, [1, 4], [44, 301])
    assert list(lens.answer) == [44, 301]
    assert_array_equal(lens.top, plain.top)
    streams = streams_of(theirs)
    for n, place in enumerate(lens.sites):
        logits = theirs.lm_head(theirs.transformer.ln_f(streams[place]))[0].double()
        better = [(logits[1] > logits[1, 44]).sum(), (logits[4] > logits[4, 301]).sum()]
        assert_array_equal(lens.rank[n], np.array(better) + 1)
    with pytest.raises(ValueError, match="2 positions need as many answers, not 1"):
        logit_lens(ours, trace, [1, 4], [44])


def test_lens_reads_only_the_positions_asked_for(pair: Any) -> None:
    _, ours = pair
    trace = gpt2viz.trace(ours, IDS)
    whole, some = logit_lens(ours, trace), logit_lens(ours, trace, [5, 2])
    assert some.positions == (5, 2)
    assert_array_equal(some.top, whole.top[:, [5, 2]])
    assert_allclose(some.entropy, whole.entropy[:, [5, 2]])
    with pytest.raises(IndexError):
        logit_lens(ours, trace, [7])


@torch.no_grad()
@pytest.mark.parametrize("layer", range(N_LAYER))
@pytest.mark.parametrize("head", [0, 3])
def test_one_heads_share_is_what_the_logit_loses_without_it(
    pair: Any, layer: int, head: int
) -> None:
    """Take the head's own vector out of transformers' last stream, the scale frozen."""
    theirs, ours = pair
    parts = contributions(ours, gpt2viz.trace(ours, IDS), 301)
    end = streams_of(theirs)["residual_out", N_LAYER - 1][0, -1].double()
    taken: list[torch.Tensor] = []
    c_proj = theirs.transformer.h[layer].attn.c_proj
    hook = c_proj.register_forward_pre_hook(lambda _m, args: taken.append(args[0][0, -1]))
    theirs(torch.tensor([IDS]))
    hook.remove()
    rows = slice(head * C // N_HEAD, (head + 1) * C // N_HEAD)
    written = (taken[0][rows] @ c_proj.weight[rows]).double()
    norm = theirs.transformer.ln_f

    def logit(x: torch.Tensor) -> float:
        sigma = (end.var(unbiased=False) + norm.eps).sqrt()
        normed = (x - x.mean()) / sigma * norm.weight.double() + norm.bias.double()
        return float(normed @ theirs.lm_head.weight[301].double())

    assert parts.heads[layer, head] == pytest.approx(logit(end) - logit(end - written), abs=1e-4)


def test_what_cannot_be_asked(pair: Any, tmp_path: Path) -> None:
    _, ours = pair
    trace = gpt2viz.trace(ours, IDS)
    for wrong in ({"token": 420}, {"token": 1, "versus": -1}, {"token": 1, "position": 7}):
        with pytest.raises(IndexError):
            contributions(ours, trace, **wrong)
    other = gpt2viz.load_model(write_checkpoint(tmp_path / "other"))
    with pytest.raises(ValueError, match="was made by"):
        contributions(other, trace, 1)
    with pytest.raises(ValueError, match="was made by"):
        logit_lens(other, trace)


def test_what_they_print_is_a_line(pair: Any) -> None:
    _, ours = pair
    trace = gpt2viz.trace(ours, IDS)
    lens = "LogitLens: 7 tokens read at 7 places of the stream, arrays (7, 7)"
    assert repr(logit_lens(ours, trace)) == lens
    parts = contributions(ours, trace, token=301, versus=7)
    assert repr(parts).startswith("Contributions to the logit of token 301 − 7 after position 6: ")
    assert repr(parts).endswith(" nats, from 3 layers of 4 heads")
    assert f"{parts.logit:.4f}" in repr(parts)

"""Logit lens and contributions against transformers' own modules, routes against NumPy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.explanation import Part
from gpt2viz.analysis.lens import contributions, logit_lens
from tests.analysis.test_explanation import EDITS, parts_of, read_by
from tests.checkpoints import transformers_model, write_checkpoint
from tests.oracles import FAMILIES, oracle, written

IDS = [5, 300, 17, 17, 219, 88, 400]
N_LAYER, N_HEAD, C = 3, 4, 24


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = write_checkpoint(tmp_path_factory.mktemp("lens"), tie_word_embeddings=request.param)
    theirs = transformers_model(folder)
    return theirs, gpt2viz.load_model(folder)


def streams_of(theirs: Any) -> dict[tuple[str, int | None], torch.Tensor]:
    """The residual stream as transformers has it, by its own hooks."""
    results: dict[tuple[str, int | None], torch.Tensor] = {}
    hooks = []
    for n, block in enumerate(theirs.transformer.h):
        hooks.append(
            block.ln_2.register_forward_pre_hook(
                lambda _m, args, n=n: results.__setitem__(("residual_mid", n), args[0])
            )
        )
        following = theirs.transformer.h[n + 1].ln_1 if n + 1 < N_LAYER else theirs.transformer.ln_f
        hooks.append(
            following.register_forward_pre_hook(
                lambda _m, args, n=n: results.__setitem__(("residual_out", n), args[0])
            )
        )
    hooks.append(
        theirs.transformer.h[0].ln_1.register_forward_pre_hook(
            lambda _m, args: results.__setitem__(("embedding", None), args[0])
        )
    )
    theirs(torch.tensor([IDS]))
    for hook in hooks:
        hook.remove()
    return results


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


#: Lengths and edits of runs that are routed; the mask is off with two of them.
ROUTED = (1, "none"), (60, "heads"), (60, "mean"), (60, "silent"), (60, "hidden"), (1024, "none")
#: The factors of heads that ``EDITS`` scale, or take from this text's tokens.
FACTORS = {("heads", 0, 1): 0, ("heads", 1, 0): -0.5, ("mean", 0, 2): 0}
FACTORS |= {("silent", 0, head): 0 for head in range(N_HEAD)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("length", "edits"), ROUTED)
def test_a_route_by_token(tmp_path: Path, family: str, length: int, edits: str) -> None:
    folder = written(tmp_path, family, n_positions=1024, max_position_embeddings=1024)
    model, of = gpt2viz.load_model(folder), oracle(folder)
    ids = np.random.default_rng(length).integers(0, 400, length).tolist()
    causal, explicit = edits not in ("mean", "hidden"), length < 1024
    run = gpt2viz.trace(model, ids, causal, explicit=explicit, edits=EDITS[edits])
    query, u = length // 2, of.unembedding[301] - of.unembedding[7]
    end = run.stage("residual_out", N_LAYER - 1)[0, query].astype(float)
    result = gpt2viz.route(model, run, 301, query, versus=7)
    rest = parts_of(of, run, N_LAYER)
    cells = np.zeros((N_LAYER, N_HEAD, length, C))
    for layer, head in np.ndindex(N_LAYER, N_HEAD):
        weights = run.weights_of_queries(layer, slice(query, query + 1))[head, 0].astype(float)
        v = run.stage("v", layer, head) * float(FACTORS.get((edits, layer, head), 1))
        cells[layer, head] = weights[:, None] * v @ of.merging(layer)[0][head]
        if EDITS[edits] != f"mean:{layer}.{head}":
            del rest[f"head {layer}.{head}"]
    assert_allclose(result.heads, of.held(cells, end, None) @ u, rtol=1e-9, atol=1e-9)
    expected = {part: of.held(x[query], end, None) @ u for part, x in rest.items()}
    expected["constant"] = of.bias(None) @ u if family == "gpt2" else 0
    parts = {Part("constant"): 0.0, **result.rest}
    assert abs(parts.pop(Part("rounding"))) < 1e-5
    assert parts == pytest.approx(expected, abs=1e-9)
    assert result.heads.sum() + sum(result.rest.values()) == pytest.approx(result.logit, abs=1e-9)
    assert result.logit == pytest.approx(run.logits_at(query)[[301, 7]] @ [1, -1], abs=1e-5)
    largest = np.sort(np.abs(result.heads).ravel())[:-6:-1]
    for ((layer, head, at, source), added), size in zip(result.top(5), largest, strict=True):
        assert (at, added, abs(added)) == (query, result.heads[layer, head, source], size)
    opened, stream = result.opened(2, 1, query), run.stage("residual_out", 1)[0].astype(float)
    wrote: dict[str, Any] = {**parts_of(of, run, 2), "constant": None}
    share = run.weights_of_queries(2, slice(query, query + 1))[1, 0, query]
    along = share * of.held(of.merging(2)[0][1], end, None) @ u  # (hs,)
    expected = {part: read_by(of, 2, 1, "v", x, stream)[query] @ along for part, x in wrote.items()}
    expected["rounding"] = result.heads[2, 1, query] - sum(expected.values())
    assert opened == pytest.approx(expected, abs=1e-9 if length < 1024 else 1e-6)
    assert sum(opened.values()) == pytest.approx(result.heads[2, 1, query], abs=1e-9)
    assert abs(opened[Part("rounding")]) < 1e-6


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

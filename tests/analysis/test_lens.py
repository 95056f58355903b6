"""Routes equal NumPy's; ``test_edited_runs`` checks the logit lens and contributions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis.explanation import Part
from gpt2viz.analysis.lens import contributions, logit_lens
from tests.analysis.test_explanation import EDITS, parts_of, read_by
from tests.oracles import FAMILIES, oracle, write_model

IDS = [5, 300, 17, 17, 219, 88, 400]
N_LAYER, N_HEAD, C = 3, 4, 24


#: Lengths and edits of runs that are routed; the mask is off with two of them.
ROUTED = (1, "none"), (60, "heads"), (60, "mean"), (60, "silent"), (60, "hidden"), (1024, "none")
#: The factors of heads that ``EDITS`` scale, or set to a mean.
FACTORS = {("heads", 0, 1): 0, ("heads", 1, 0): -0.5, ("mean", 0, 2): 0}
FACTORS |= {("silent", 0, head): 0 for head in range(N_HEAD)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("length", "edits"), ROUTED)
def test_routes_by_token_equal_numpy(tmp_path: Path, family: str, length: int, edits: str) -> None:
    folder = write_model(tmp_path, family, n_positions=1024, max_position_embeddings=1024)
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
        cells[layer, head] = weights[:, None] * v @ of.out_proj(layer)[0][head]
        if EDITS[edits] != f"mean:{layer}.{head}":
            del rest[f"head {layer}.{head}"]
    assert_allclose(result.heads, of.norm(cells, end, None) @ u, rtol=1e-9, atol=1e-9)
    expected = {part: of.norm(x[query], end, None) @ u for part, x in rest.items()}
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
    reads: dict[str, Any] = {**parts_of(of, run, 2), "constant": None}
    share = run.weights_of_queries(2, slice(query, query + 1))[1, 0, query]
    along = share * of.norm(of.out_proj(2)[0][1], end, None) @ u  # (hs,)
    expected = {part: read_by(of, 2, 1, "v", x, stream)[query] @ along for part, x in reads.items()}
    expected["rounding"] = result.heads[2, 1, query] - sum(expected.values())
    assert opened == pytest.approx(expected, abs=1e-9 if length < 1024 else 1e-6)
    assert sum(opened.values()) == pytest.approx(result.heads[2, 1, query], abs=1e-9)
    assert abs(opened[Part("rounding")]) < 1e-6


def test_repr_is_one_line(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, IDS)
    lens = "LogitLens: 7 tokens read at 7 places of the stream, arrays (7, 7)"
    assert repr(logit_lens(tiny, trace)) == lens
    parts = contributions(tiny, trace, token=301, versus=7)
    assert repr(parts).startswith("Contributions to the logit of token 301 − 7 after position 6: ")
    assert repr(parts).endswith(" nats, from 3 layers of 4 heads")
    assert f"{parts.logit:.4f}" in repr(parts)

"""Every analysis of a run with every kind of edit, against the NumPy GPT-2, edited by other means.

What a key gives to a query is found here by a second computation without that key's value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file

import gpt2viz
from gpt2viz.analysis.attribution import difference_from_run, rollout, taken, value_weighted
from gpt2viz.analysis.cell import cell_arithmetic
from gpt2viz.analysis.comparison import (
    addition_places,
    largest_differences,
    nearest,
    path,
    stream_places,
)
from gpt2viz.analysis.generation import appraise, draw
from gpt2viz.analysis.sampling import surprise
from gpt2viz.analysis.scores import head_scores
from gpt2viz.run.edits import REFERENCE_TEXT
from tests.analysis.head_scores import expected_scores
from tests.checkpoints import with_stages, write_checkpoint
from tests.numpy_gpt2 import Tolerance, layer_norm, reference, softmax

IDS = [5, 300, 17, 17, 219, 88, 5, 300, 41]
N_LAYER, N_HEAD, HS, C = 3, 4, 6, 24
LAST = len(IDS) - 1
CLOSE: Tolerance = {"rtol": 2e-4, "atol": 2e-5}

#: The edits, and what they come to: heads that become (factor × what they were, or the mean of a
#: reference run × factor), parts that add nothing, pairs that are hidden.
CASES: dict[str, dict[str, Any]] = {
    "": {},
    "off:0.0": {"heads": {(0, 0): 0}},
    "off:2.3": {"heads": {(2, 3): 0}},
    "scale:1.2:-1.5": {"heads": {(1, 2): -1.5}},
    "scale:1.2:2.5,scale:1.2:0.5": {"heads": {(1, 2): 1.25}},
    "scale:0.1:0": {"heads": {(0, 1): 0}},
    "mean:0.1": {"means": {(0, 1): 1}},
    "mean:2.0,scale:2.0:-0.5": {"means": {(2, 0): -0.5}},
    "scale:2.0:3,mean:2.0": {"means": {(2, 0): 1}},
    "mean:1.1,off:1.1": {"heads": {(1, 1): 0}},
    "off:1.1,mean:1.1": {"means": {(1, 1): 1}},
    "attn:0": {"silent": ["h.0.attn"]},
    "attn:1": {"silent": ["h.1.attn"]},
    "attn:2,attn:0": {"silent": ["h.2.attn", "h.0.attn"]},
    "attn:1,off:1.2,scale:1.0:2,mean:1.3": {
        "heads": {(1, 2): 0, (1, 0): 2},
        "means": {(1, 3): 1},
        "silent": ["h.1.attn"],
    },
    "mlp:0": {"silent": ["h.0.mlp"]},
    "mlp:2": {"silent": ["h.2.mlp"]},
    "forbid:5:2": {"pairs": [(5, 2)]},
    "forbid:5:2,forbid:5:5,forbid:8:0": {"pairs": [(5, 2), (5, 5), (8, 0)]},
    "window:1": {"pairs": [(i, j) for i in range(9) for j in range(9) if i != j]},
    "window:3": {"pairs": [(i, j) for i in range(9) for j in range(9) if not -3 < i - j < 3]},
    "nofirst": {"pairs": [(i, 0) for i in range(1, 9)]},
    "off:0.1,mlp:1,nofirst,scale:2.3:3.0,mean:1.0,attn:2": {
        "heads": {(0, 1): 0, (2, 3): 3},
        "means": {(1, 0): 1},
        "silent": ["h.1.mlp", "h.2.attn"],
        "pairs": [(i, 0) for i in range(1, 9)],
    },
}


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """A run of ours and the oracle's of the same: its stages, its edits, its weights' file."""

    model: gpt2viz.Model
    run: gpt2viz.Trace
    plain: gpt2viz.Trace
    theirs: dict[str, Any]
    theirs_plain: dict[str, Any]
    weights: dict[str, np.ndarray]
    heads: dict[tuple[int, int], float]
    means: dict[tuple[int, int], np.ndarray]
    silent: list[str]

    def become(self, layer: int, heads: np.ndarray) -> np.ndarray:
        """What the edits make of a layer's heads (nh, T, hs)."""
        changed = heads.copy()
        for head in range(N_HEAD):
            if (layer, head) in self.means:
                changed[head] = self.means[layer, head]
            else:
                changed[head] = heads[head] * self.heads.get((layer, head), 1)
        return changed

    def written(self, layer: int, heads: np.ndarray) -> np.ndarray:
        """What the heads (nh, T, hs) of a layer add to the stream, each alone: (nh, T, C)."""
        by_head = self.weights[f"h.{layer}.attn.c_proj.weight"].reshape(N_HEAD, HS, C)
        return np.einsum("htd,hdc->htc", heads, by_head) * self.loud(layer, "attn")

    def given(self, layer: int, query: int, keys: list[int]) -> np.ndarray:
        """What a query gets from keys, by head: the change where their values are 0, (nh, C)."""
        weights, v = self.theirs["weights"][layer], self.theirs["v"][layer]
        without = v.copy()
        without[:, keys] = 0
        kept, lost = (
            self.written(layer, self.become(layer, np.einsum("hij,hjd->hid", weights, values)))
            for values in (v, without)
        )
        found: np.ndarray = (kept - lost)[:, query]
        return found

    def loud(self, layer: int, part: str) -> bool:
        return f"h.{layer}.{part}" not in self.silent


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, gpt2viz.Model]:
    folder = tmp_path_factory.mktemp("edited")
    write_checkpoint(folder)
    return folder, gpt2viz.load_model(folder)


@pytest.fixture(scope="module")
def means(pair: tuple[Path, gpt2viz.Model]) -> list[np.ndarray]:
    """Mean output (nh, hs) of every head of every layer over the reference text, by NumPy."""
    folder, model = pair
    ids = model.tokenizer.encode(REFERENCE_TEXT)[: model.config.n_positions]
    return [heads.mean(axis=1) for heads in reference(folder, list(ids), True)["head_output"]]


@pytest.fixture(params=["captured", "derived"])
def explicit(request: pytest.FixtureRequest) -> bool:
    return request.param == "captured"


@pytest.fixture(params=[True, False], ids=["masked", "unmasked"])
def causal(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def cases(
    pair: tuple[Path, gpt2viz.Model], means: list[np.ndarray]
) -> Callable[[str, bool, bool], Case]:
    """What makes a case of its edits, with the mask or without, captured or derived: each once."""
    folder, model = pair
    stored = reference_weights(folder)

    @cache
    def case(edits: str, causal: bool, explicit: bool) -> Case:
        made = CASES[edits]
        half = Case(
            model,
            gpt2viz.trace(model, IDS, causal, explicit=explicit, edits=gpt2viz.parse_edits(edits)),
            gpt2viz.trace(model, IDS, causal),
            {},
            reference(folder, IDS, causal),
            stored,
            made.get("heads", {}),
            {at: factor * means[at[0]][at[1]] for at, factor in made.get("means", {}).items()},
            made.get("silent", []),
        )
        theirs = reference(
            folder,
            IDS,
            causal,
            heads_become=half.become,
            silent=half.silent,
            pairs=made.get("pairs", ()),
        )
        assert_allclose(half.run.logits[0], theirs["logits"], **CLOSE)
        return replace(half, theirs=theirs)

    return case


@pytest.fixture(params=CASES)
def case(
    request: pytest.FixtureRequest,
    cases: Callable[[str, bool, bool], Case],
    causal: bool,
    explicit: bool,
) -> Case:
    return cases(request.param, causal, explicit)


def reference_weights(folder: Path) -> dict[str, np.ndarray]:
    stored = load_file(folder / "model.safetensors")
    return {name.removeprefix("transformer."): x.astype(float) for name, x in stored.items()}


@pytest.mark.parametrize("position", [0, 4, -1])
def test_contributions(case: Case, position: int) -> None:
    """Each part is what the logit loses where the part's own vector is taken from the stream."""
    found = gpt2viz.contributions(case.model, case.run, 301, 7, position)
    w, end = case.weights, case.theirs["residual_out"][-1][position]
    sigma = np.sqrt(end.var() + 1e-5)
    u = w["wte.weight"][301] - w["wte.weight"][7]

    def logit(x: np.ndarray) -> float:
        return float(((x - x.mean()) / sigma * w["ln_f.weight"] + w["ln_f.bias"]) @ u)

    def share(x: np.ndarray) -> float:
        return logit(end) - logit(end - x)

    logits = case.theirs["logits"][position]
    assert found.logit == pytest.approx(logits[301] - logits[7], abs=1e-4)
    assert found.total == pytest.approx(logits[301] - logits[7], abs=1e-4)
    place = range(len(IDS))[position]
    assert found.token_embedding == pytest.approx(share(w["wte.weight"][IDS[place]]), abs=1e-4)
    assert found.position_embedding == pytest.approx(share(w["wpe.weight"][place]), abs=1e-4)
    for layer in range(N_LAYER):
        heads = case.written(layer, case.theirs["head_output"][layer])[:, place]
        assert_allclose(found.heads[layer], [share(x) for x in heads], atol=1e-4)
        bias = w[f"h.{layer}.attn.c_proj.bias"] * case.loud(layer, "attn")
        assert found.attention_bias[layer] == pytest.approx(share(bias), abs=1e-4)
        mlp = case.theirs["mlp_output"][layer][place]
        assert found.mlp[layer] == pytest.approx(share(mlp), abs=1e-4)


def test_logit_lens(case: Case) -> None:
    found, w = gpt2viz.logit_lens(case.model, case.run), case.weights
    answer = case.theirs["logits"].argmax(axis=1)
    assert_array_equal(found.answer, answer)
    for n, (key, layer) in enumerate(found.places):
        x = case.theirs[key] if layer is None else case.theirs[key][layer]
        logits = layer_norm(x, w["ln_f.weight"], w["ln_f.bias"], 1e-5) @ w["wte.weight"].T
        p = softmax(logits)
        assert_array_equal(found.top[n], p.argmax(axis=1))
        assert_allclose(found.probability[n], p.max(axis=1), **CLOSE)
        assert_allclose(found.entropy[n], -(p * np.log2(p)).sum(axis=1), **CLOSE)
        own = logits[range(len(IDS)), answer][:, None]
        assert_array_equal(found.rank[n], 1 + (logits > own).sum(axis=1))


def test_value_weighted(case: Case) -> None:
    for layer in range(N_LAYER):
        expected = np.zeros((N_HEAD, len(IDS), len(IDS)))
        for query in range(len(IDS)):
            for key in range(len(IDS)):
                given = case.given(layer, query, [key])
                expected[:, query, key] = np.linalg.norm(given, axis=-1)
        assert_allclose(value_weighted(case.model, case.run, layer), expected, **CLOSE)


@pytest.mark.parametrize("keys", [[3], [0, 2, 5]])
def test_what_several_keys_give_together(case: Case, keys: list[int]) -> None:
    for layer in range(N_LAYER):
        expected = np.linalg.norm(case.given(layer, LAST, keys), axis=-1)
        assert_allclose(taken(case.model, case.run, layer, LAST, keys), expected, **CLOSE)


def test_rollout(case: Case) -> None:
    """Of the heads in which some key gives something to some query; none of a silent layer."""
    mixed, T = np.eye(len(IDS)), len(IDS)
    for layer in range(N_LAYER):
        heads = [
            weights
            for head, weights in enumerate(case.theirs["weights"][layer])
            if any(case.given(layer, query, list(range(T)))[head].any() for query in range(T))
        ]
        mean = sum(heads) / len(heads) if heads else np.eye(T)
        mixed = (mean + np.eye(T)) / 2 @ mixed
        found = rollout(case.run, layer)
        assert_allclose(found, mixed, **CLOSE)
        assert_allclose(found.sum(axis=1), 1, **CLOSE)


@pytest.mark.parametrize(("query", "key"), [(LAST, 0), (5, 2), (5, 5), (2, 6)])
def test_the_cell_written_out(case: Case, query: int, key: int) -> None:
    for layer in range(N_LAYER):
        theirs = {name: case.theirs[name][layer] for name in ("scores", "weights", "v")}
        without = theirs["v"].copy()
        without[:, key] = 0
        kept, lost = (
            case.become(layer, np.einsum("hij,hjd->hid", theirs["weights"], values))
            for values in (theirs["v"], without)
        )
        for head in range(N_HEAD):
            cell = cell_arithmetic(case.run, layer, head, query, key)
            assert cell.score == pytest.approx(theirs["scores"][head, query, key], abs=1e-4)
            assert_allclose(cell.weights, theirs["weights"][head, query], **CLOSE)
            assert_allclose(cell.contribution, (kept - lost)[head, query], **CLOSE)
            assert_allclose(cell.output, kept[head, query], **CLOSE)
            assert cell.largest_difference < 1e-4
            assert cell.masked == (theirs["weights"][head, query, key] == 0)


def test_the_proof(case: Case) -> None:
    for layer in range(N_LAYER):
        difference, largest = difference_from_run(case.model, case.run, layer)
        expected = np.abs(case.theirs["attention_output"][layer]).max()
        assert largest == pytest.approx(expected, rel=1e-4)
        assert difference < 1e-5


def test_the_proof_shows_weights_that_were_not_used(case: Case) -> None:
    """Each head's in turn, wherever the head's keys still give something."""
    run, layer = case.run, 1
    for head in range(N_HEAD):
        weights = run.stage("weights", layer).copy()
        weights[0, head, LAST] = weights[0, head, LAST, ::-1]
        spoilt = with_stages(run, {("weights", layer): weights})
        used = case.given(layer, LAST, list(range(len(IDS))))[head].any()
        alike = np.ptp(weights[0, head, LAST]) < 1e-3
        assert (difference_from_run(case.model, spoilt, layer)[0] > 1e-4) == (used and not alike)


def test_scores_of_heads(case: Case) -> None:
    found = head_scores(case.run)
    for layer in range(N_LAYER):
        expected = expected_scores(case.theirs["weights"][layer], IDS)
        for name, values in expected.items():
            assert_allclose(found[name][layer], values, **CLOSE, err_msg=name)


def test_some_queries_weights(case: Case) -> None:
    for layer in range(N_LAYER):
        found = case.run.weights_of_queries(layer, slice(3, 6))
        assert_allclose(found, case.theirs["weights"][layer][:, 3:6], **CLOSE)


def test_each_heads_weights(case: Case) -> None:
    for layer in range(N_LAYER):
        found = [one.copy() for one in case.run.weights_of_heads(layer)]
        assert_allclose(found, case.theirs["weights"][layer], **CLOSE)


def test_comparison_with_the_run_as_it_is(case: Case) -> None:
    same = [(n, n) for n in range(len(IDS))]
    found = largest_differences(case.plain, case.run, same)
    apart = np.abs(np.array(case.theirs["weights"]) - np.array(case.theirs_plain["weights"]))
    assert_allclose(found, apart.max(axis=(2, 3)), **CLOSE)
    for places in (stream_places(N_LAYER)[1:], addition_places(N_LAYER)):
        both = path(case.plain, case.run, (4, 4), places)
        for n, (key, layer) in enumerate(places):
            x, y = (
                (run[key] if layer is None else run[key][layer])[4]
                for run in (case.theirs_plain, case.theirs)
            )
            assert both.difference[n] == pytest.approx(np.abs(x - y).max(), abs=1e-4)
            lengths = np.linalg.norm(x) * np.linalg.norm(y)
            if lengths:
                assert both.cosine[n] == pytest.approx(x @ y / lengths, abs=1e-4)
            else:
                assert np.isnan(both.cosine[n])


def test_nearest_tokens(case: Case) -> None:
    places, rows = stream_places(N_LAYER)[1:], case.weights["wte.weight"]
    found = nearest(case.run, LAST, places, top=3)
    for n, (key, layer) in enumerate(places):
        x = (case.theirs[key] if layer is None else case.theirs[key][layer])[LAST]
        cosines = rows @ x / np.linalg.norm(rows, axis=1) / np.linalg.norm(x)
        assert_array_equal(found.ids[n], np.argsort(-cosines)[:3])
        assert_allclose(found.cosine[n], np.sort(cosines)[:-4:-1], **CLOSE)


def test_what_comes_next(case: Case) -> None:
    p = softmax(case.theirs["logits"][LAST])
    assert draw(case.run) == p.argmax()
    for token in (int(p.argmax()), 7, 301):
        choice = appraise(case.run, token)
        assert choice.probability == pytest.approx(p[token], rel=1e-3)
        assert choice.rank == 1 + (p > p[token]).sum()
        assert choice.surprise == pytest.approx(-np.log2(p[token]), abs=1e-3)
    drawn = {draw(case.run, temperature=1.0, seed=seed) for seed in range(20)}
    upto = p.cumsum()
    assert drawn == {
        int(np.searchsorted(upto, np.random.default_rng([seed, len(IDS)]).random()))
        for seed in range(20)
    }
    logits = case.theirs["logits"]
    bits = [-np.log2(softmax(logits[n])[IDS[n + 1]]) for n in range(LAST)]
    assert_allclose(surprise(case.run)[1:], bits, **CLOSE)


@pytest.mark.parametrize("edits", ["off:1.2", "scale:1.2:-2", "mean:1.2", "attn:1", "mlp:1"])
def test_a_text_of_one_token(pair: tuple[Path, gpt2viz.Model], edits: str) -> None:
    _, model = pair
    run = gpt2viz.trace(model, [17], edits=gpt2viz.parse_edits(edits))
    parts = gpt2viz.contributions(model, run, 301)
    assert parts.total == pytest.approx(float(run.logits[0, 0, 301]), abs=1e-4)
    for layer in range(N_LAYER):
        assert difference_from_run(model, run, layer)[0] < 1e-5
        assert_allclose(rollout(run, layer), [[1]])
        given = value_weighted(model, run, layer)[:, 0, 0]
        silent = layer == 1 and edits != "scale:1.2:-2" and edits != "mlp:1"
        assert_array_equal(given == 0, [silent and (edits == "attn:1" or h == 2) for h in range(4)])
        assert cell_arithmetic(run, layer, 2, 0, 0).largest_difference < 1e-5


@pytest.mark.parametrize("edits", ["off:1.2", "mean:1.2", "attn:1"])
def test_what_is_switched_off_gives_0_whatever_it_held(
    pair: tuple[Path, gpt2viz.Model], edits: str
) -> None:
    """A head may be too large for float32: the run without it has numbers, and so has the rest."""
    _, model = pair
    run = gpt2viz.trace(model, IDS, edits=gpt2viz.parse_edits(edits))
    spoilt: dict[tuple[str, int | None], np.ndarray] = {
        (key, 1): run.stage(key, 1).copy() for key in ("weights", "v")
    }
    for array in spoilt.values():
        array[0, 2] = np.nan
    if edits == "attn:1":
        spoilt["head_output", 1] = np.full_like(run.stage("head_output", 1), np.nan)
    spoilt_run = with_stages(run, spoilt)
    assert not value_weighted(model, spoilt_run, 1)[2].any()
    assert taken(model, spoilt_run, 1, LAST, [0, 3])[2] == 0
    assert difference_from_run(model, spoilt_run, 1)[0] < 1e-5
    assert_allclose(rollout(spoilt_run, 2), rollout(run, 2))
    parts, expected = (gpt2viz.contributions(model, one, 301) for one in (spoilt_run, run))
    assert_array_equal(parts.heads, expected.heads)
    if edits != "attn:1":
        assert not cell_arithmetic(spoilt_run, 1, 2, LAST, 0).contribution.any()

"""Every analysis of runs with every kind of edit, compared with NumPy models that are so edited.

A key's contribution to a query is computed here by leaving out that key's value, and the effect of
a path by a second run of its sender's layer. A test lists all edits that it fails with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.attribution import difference_from_run, key_norm, rollout, value_weighted
from gpt2viz.analysis.cell import cell_arithmetic
from gpt2viz.analysis.comparison import (
    addition_sites,
    largest_differences,
    nearest,
    path,
    stream_sites,
)
from gpt2viz.analysis.direct_paths import WAYS
from gpt2viz.analysis.generation import appraise, draw
from gpt2viz.analysis.patterns import similarities
from gpt2viz.analysis.sampling import surprise
from gpt2viz.analysis.scores import head_scores
from gpt2viz.run.edit_kinds import ADDED_KINDS, OF_HEADS, STREAMS, EditKind
from gpt2viz.run.edits import REFERENCE_TEXT
from tests.analysis.head_scores import expected_scores
from tests.checkpoints import with_stages
from tests.numpy_gpt2 import Tolerance, softmax
from tests.oracles import FAMILIES, Oracle, oracle, write_model

IDS = [5, 300, 17, 17, 219, 88, 5, 300, 41]
#: The text to patch into, and a right and a wrong answer.
CORRUPTED, ANSWER = [5, 300, 23, 17, 91, 88, 5, 300, 41], (12, 40)
N_LAYER, N_HEAD = 3, 4
LAST = len(IDS) - 1
CLOSE: Tolerance = {"rtol": 2e-4, "atol": 2e-5}
Change = Callable[[np.ndarray], np.ndarray]

#: The edits and their effects: heads scaled by a factor, or set to the mean of a reference run × a
#: factor; parts that are silent; pairs that are hidden.
CASES: dict[str, dict[str, Any]] = {
    "": {},
    "off:0.0": {"heads": {(0, 0): 0}},
    "scale:1.2:-1.5": {"heads": {(1, 2): -1.5}},
    "scale:1.2:2.5,scale:1.2:0.5": {"heads": {(1, 2): 1.25}},
    "scale:0.1:0": {"heads": {(0, 1): 0}},
    "mean:0.1": {"means": {(0, 1): 1}},
    "mean:2.0,scale:2.0:-0.5": {"means": {(2, 0): -0.5}},
    "scale:2.0:3,mean:2.0": {"means": {(2, 0): 1}},
    "mean:1.1,off:1.1": {"heads": {(1, 1): 0}},
    "off:1.1,mean:1.1": {"means": {(1, 1): 1}},
    "attn:1": {"silent": ["h.1.attn"]},
    "attn:2,attn:0": {"silent": ["h.2.attn", "h.0.attn"]},
    "attn:1,off:1.2,scale:1.0:2,mean:1.3": {
        "heads": {(1, 2): 0, (1, 0): 2},
        "means": {(1, 3): 1},
        "silent": ["h.1.attn"],
    },
    "mlp:0": {"silent": ["h.0.mlp"]},
    "mlp:2": {"silent": ["h.2.mlp"]},
    "forbid:5:2,forbid:5:5,forbid:8:0": {"pairs": [(5, 2), (5, 5), (8, 0)]},
    "window:1": {"pairs": [(i, j) for i in range(9) for j in range(9) if i != j]},
    "window:3": {"pairs": [(i, j) for i in range(9) for j in range(9) if not -3 < i - j < 3]},
    "window:2:3": {"pairs": [(i, j) for i in range(9) for j in range(3, 9) if abs(i - j) > 1]},
    "nofirst": {"pairs": [(i, 0) for i in range(1, 9)]},
    "off:0.1,mlp:1,nofirst,scale:2.3:3.0,mean:1.0,attn:2": {
        "heads": {(0, 1): 0, (2, 3): 3},
        "means": {(1, 0): 1},
        "silent": ["h.1.mlp", "h.2.attn"],
        "pairs": [(i, 0) for i in range(1, 9)],
    },
}


#: The edits that are tested in families other than GPT-2.
FEW = ("", "scale:1.2:-1.5", "forbid:5:2,forbid:5:5,forbid:8:0", [*CASES][-1], "bentk:1.3")
#: Registered edits, by their function of a head's stage; a run with one has no attribution.
OWN: dict[str, dict[str, Any]] = {
    "bentq:2.1": {"own": {("q", 2, 1): np.tanh}},
    "bentk:1.3": {"own": {("k", 1, 3): np.tanh}},
    "bentoutput:0.1,attn:1": {"own": {("head_output", 0, 1): np.tanh}, "silent": ["h.1.attn"]},
}


class Edited(NamedTuple):
    """The effect of a list of edits, in the oracle's terms."""

    of: Oracle
    causal: bool
    heads: dict[tuple[int, int], float]
    means: dict[tuple[int, int], np.ndarray]
    silent: Sequence[str]
    pairs: Sequence[tuple[int, int]]
    own: dict[tuple[str, int, int], Change]

    def become(self, layer: int, heads: np.ndarray) -> np.ndarray:
        """A layer's heads after the edits, (nh, T, hs)."""
        changed = heads.copy()
        for head in range(N_HEAD):
            if (layer, head) in self.means:
                changed[head] = self.means[layer, head]
            else:
                changed[head] = heads[head] * self.heads.get((layer, head), 1)
        return changed

    def run(
        self, ids: list[int], patch: tuple[str, int, Change] | None = None, before: bool = False
    ) -> dict[str, Any]:
        """The oracle's run of a text; a ``patch`` of a layer's stage acts ``before`` its registered
        edits or after them.
        """
        changes: dict[tuple[str, int], list[Change]] = {}
        for (stage, layer, head), function in self.own.items():
            row = self.of.row(stage, head)
            changes[stage, layer] = [partial(change_head, head=row, function=function)]
        if patch is not None:
            every = changes.setdefault(patch[:2], [])
            every.insert(0 if before else len(every), patch[2])

        def becomes(name: str, made: np.ndarray) -> np.ndarray:
            stage, _, layer = name.partition(".")
            return in_sequence(changes.get((stage, int(layer or -1)), ()))(made)

        return self.of.run(
            ids,
            self.causal,
            edit_heads=self.become,
            silent=self.silent,
            pairs=self.pairs,
            becomes=becomes,
        )

    def is_active(self, layer: int, part: str) -> bool:
        return f"h.{layer}.{part}" not in self.silent

    def written_by_heads(self, layer: int, heads: np.ndarray) -> np.ndarray:
        """Each head's own contribution to the stream, from a layer's (nh, T, hs): (nh, T, C)."""
        W_O, _ = self.of.out_proj(layer)
        return np.einsum("htd,hdc->htc", heads, W_O) * self.is_active(layer, "attn")

    def biases(self) -> list[np.ndarray]:
        """The biases that the merging of each layer's heads adds, if it has any: (C,) each."""
        every = [(n, self.of.out_proj(n)[1]) for n in range(N_LAYER)]
        return [b_O * self.is_active(n, "attn") for n, b_O in every if b_O is not None]


def in_sequence(changes: Sequence[Change]) -> Change:
    def change(x: np.ndarray) -> np.ndarray:
        for each in changes:
            x = each(x)
        return x

    return change


def change_head(x: np.ndarray, head: int, function: Change) -> np.ndarray:
    return replace(x, head, function(x[head]))


def replace(x: np.ndarray, index: Any, piece: np.ndarray) -> np.ndarray:
    """A copy of an array with another piece at an index."""
    x = x.copy()
    x[index] = piece
    return x


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """Our run and the oracle's with the same edits."""

    name: str
    model: gpt2viz.Model
    run: gpt2viz.Trace
    plain: gpt2viz.Trace
    edited: Edited
    theirs: dict[str, Any]
    theirs_plain: dict[str, Any]
    known: dict[tuple[int, tuple[int, ...]], np.ndarray]

    @property
    def of(self) -> Oracle:
        return self.edited.of

    def heads_from_keys(self, layer: int, keys: Sequence[int]) -> np.ndarray:
        """The heads' output from these keys: the change when their values are 0, (nh, T, hs)."""
        site = layer, tuple(keys)
        if site not in self.known:
            weights, v = self.theirs["weights"][layer], self.theirs["v"][layer]
            without = v.copy()
            without[:, keys] = 0
            with_, less = (
                self.edited.become(
                    layer, np.einsum("hij,hjd->hid", weights, values[self.of.groups])
                )
                for values in (v, without)
            )
            self.known[site] = with_ - less
        return self.known[site]

    def from_keys(self, layer: int, keys: Sequence[int]) -> np.ndarray:
        """The contribution of keys to every query, by head: (nh, T, C)."""
        return self.edited.written_by_heads(layer, self.heads_from_keys(layer, keys))


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("edited"), request.param)


@pytest.fixture(scope="module")
def model(folder: Path) -> gpt2viz.Model:
    return gpt2viz.load_model(folder)


def edits_for(model: gpt2viz.Model, cases: dict[str, Any]) -> list[str]:
    """The edits tested in a family: all in GPT-2, a few in the others."""
    every = isinstance(model.config, gpt2viz.GPT2Config)
    return [edits for edits in cases if every or edits in FEW]


@pytest.fixture(scope="module")
def edited(folder: Path, model: gpt2viz.Model) -> Callable[[str, bool], Edited]:
    return oracle_of_edits(folder, model)


def oracle_of_edits(folder: Path, model: gpt2viz.Model) -> Callable[[str, bool], Edited]:
    """A function that makes the oracle of given edits, with the mask or without."""
    of = oracle(folder)
    ids = model.tokenizer.encode(REFERENCE_TEXT)[: model.config.n_positions]
    means = [heads.mean(axis=1) for heads in of.run(list(ids), True)["head_output"]]

    def make(edits: str, causal: bool) -> Edited:
        made = (CASES | OWN)[edits]
        return Edited(
            of,
            causal,
            made.get("heads", {}),
            {at: factor * means[at[0]][at[1]] for at, factor in made.get("means", {}).items()},
            made.get("silent", ()),
            made.get("pairs", ()),
            made.get("own", {}),
        )

    return make


@pytest.fixture(scope="module")
def cases(model: gpt2viz.Model, edited: Callable[[str, bool], Edited]) -> list[Case]:
    """All edits, with the mask and without, captured and derived in turn."""
    made = []
    for causal in (True, False):
        plain, theirs_plain = gpt2viz.trace(model, IDS, causal), edited("", causal).run(IDS)
        for n, edits in enumerate(edits_for(model, CASES)):
            theirs, explicit = edited(edits, causal), n % 2 == causal
            run = gpt2viz.trace(
                model, IDS, causal, explicit=explicit, edits=gpt2viz.parse_edits(edits)
            )
            name = f"{case_name(edits, causal)}, {'captured' if explicit else 'derived'}"
            made.append(Case(name, model, run, plain, theirs, theirs.run(IDS), theirs_plain, {}))
    return made


def case_name(edits: str, causal: bool) -> str:
    return f"{edits or 'no edit'}, mask {'on' if causal else 'off'}"


def check_all(cases: Sequence[Any], check: Callable[[Any], None]) -> None:
    """Run a check on all cases, and list those that fail with their errors."""
    wrong = []
    for case in cases:
        try:
            check(case)
        except Exception as error:
            message = " ".join(f"{type(error).__name__}: {error}".split())
            wrong.append(f"{case.name}: {message:.200}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(cases)}:", *wrong])


ANALYSES: list[Callable[[Case], None]] = []


def analysis(check: Callable[[Case], None]) -> Callable[[Case], None]:
    """Register a check to run on all cases."""
    ANALYSES.append(check)
    return check


@analysis
def run_logits(case: Case) -> None:
    assert_allclose(case.run.logits[0], case.theirs["logits"], **CLOSE)


@analysis
def contributions(case: Case) -> None:
    """Each part is the logit's loss when the part's vector is removed from the stream."""
    of, theirs = case.of, case.theirs
    u = of.unembedding[301] - of.unembedding[7]
    for position in (0, 4, -1):
        result = gpt2viz.contributions(case.model, case.run, 301, 7, position)
        end, row = theirs["residual_out"][-1][position], range(len(IDS))[position]

        def share(x: np.ndarray, end: np.ndarray = end) -> float:
            return float(of.norm(x, end, None) @ u)

        logits = theirs["logits"][position]
        ends = [of.bias(None) @ u] if of.bias(None).any() else []
        expected = [
            logits[301] - logits[7],
            logits[301] - logits[7],
            share(of.embedding[IDS[row]]),
            *(share(x[row]) for x in of.position_vectors(len(IDS)).values()),
            *ends,
            *map(share, case.edited.biases()),
            *(share(theirs["mlp_output"][n][row]) for n in range(N_LAYER)),
            *(
                share(x)
                for n in range(N_LAYER)
                for x in case.edited.written_by_heads(n, theirs["head_output"][n])[:, row]
            ),
        ]
        ones = result.token_embedding, result.position_embedding, result.norm_bias
        arrays = result.attention_bias, result.mlp, result.heads
        parts = [np.ravel(part) for part in (*ones, *arrays) if part is not None]
        assert_allclose([result.logit, result.total, *np.concatenate(parts)], expected, atol=1e-4)


@analysis
def logit_lens(case: Case) -> None:
    result, of = gpt2viz.logit_lens(case.model, case.run), case.of
    others = gpt2viz.logit_lens(case.model, case.run, [5, 2], [44, 301])  # other answers
    answer = case.theirs["logits"].argmax(axis=1)
    assert_array_equal(result.answer, answer)
    for n, (key, layer) in enumerate(result.sites):
        x = case.theirs[key] if layer is None else case.theirs[key][layer]
        logits = of.normed(x, None) @ of.unembedding.T
        p = softmax(logits)
        assert_array_equal(result.top[n], p.argmax(axis=1))
        assert_allclose(result.probability[n], p.max(axis=1), **CLOSE)
        assert_allclose(result.entropy[n], -(p * np.log2(p)).sum(axis=1), **CLOSE)
        own = logits[range(len(IDS)), answer][:, None]
        assert_array_equal(result.rank[n], 1 + (logits > own).sum(axis=1))
        better = (logits[[5, 2]] > logits[[5, 2], [44, 301]][:, None]).sum(axis=1)
        assert_array_equal(others.rank[n], 1 + better)
        assert_array_equal(others.top[n], result.top[n, [5, 2]])
        assert_allclose(others.entropy[n], result.entropy[n, [5, 2]], **CLOSE)


@analysis
def value_weighted_lengths(case: Case) -> None:
    for layer in range(N_LAYER):
        lengths = [np.linalg.norm(case.from_keys(layer, [key]), axis=-1) for key in range(len(IDS))]
        result = value_weighted(case.model, case.run, layer)
        assert_allclose(result, np.stack(lengths, axis=-1), **CLOSE)


@analysis
def norms_of_several_keys(case: Case) -> None:
    for layer, keys in product(range(N_LAYER), ([3], [0, 2, 5])):
        expected = np.linalg.norm(case.from_keys(layer, keys)[:, LAST], axis=-1)
        assert_allclose(key_norm(case.model, case.run, layer, LAST, keys), expected, **CLOSE)


@analysis
def attention_rollout(case: Case) -> None:
    """Over the heads that write anything at all: none in a silent layer."""
    mixed, T = np.eye(len(IDS)), len(IDS)
    for layer in range(N_LAYER):
        used = case.from_keys(layer, range(T)).any(axis=(1, 2))
        mean = case.theirs["weights"][layer][used].mean(axis=0) if used.any() else np.eye(T)
        mixed = (mean + np.eye(T)) / 2 @ mixed
        result = rollout(case.run, layer)
        assert_allclose(result, mixed, **CLOSE)
        assert_allclose(result.sum(axis=1), 1, **CLOSE)


@analysis
def cell_arithmetics(case: Case) -> None:
    for layer, (query, key) in product(range(N_LAYER), [(LAST, 0), (5, 2), (5, 5), (2, 6)]):
        theirs, everything = case.theirs, case.theirs["head_output"][layer][:, query]
        cells = [cell_arithmetic(case.run, layer, head, query, key) for head in range(N_HEAD)]
        scores = theirs["scores"][layer][:, query, key]
        assert_allclose([cell.score for cell in cells], scores, atol=1e-4)
        weights = theirs["weights"][layer][:, query]
        assert_allclose([cell.weights for cell in cells], weights, **CLOSE)
        contributions = case.heads_from_keys(layer, [key])[:, query]
        assert_allclose([cell.contribution for cell in cells], contributions, **CLOSE)
        assert_allclose([cell.output for cell in cells], everything, **CLOSE)
        assert max(cell.largest_difference for cell in cells) < 1e-4
        assert_array_equal([cell.masked for cell in cells], weights[:, key] == 0)


@analysis
def reconstruction(case: Case) -> None:
    for layer in range(N_LAYER):
        difference, largest = difference_from_run(case.model, case.run, layer)
        expected = np.abs(case.theirs["attention_output"][layer]).max()
        assert largest == pytest.approx(expected, rel=1e-4)
        assert difference < 1e-5


@analysis
def reconstruction_with_wrong_weights(case: Case) -> None:
    """The difference is what the head's wrong weights would have written."""
    run, layer = case.run, 1
    for head in range(N_HEAD):
        weights = run.stage("weights", layer).copy()
        weights[0, head, LAST] = weights[0, head, LAST, ::-1]
        altered = with_stages(run, {("weights", layer): weights})
        heads = case.edited.become(layer, weights[0] @ case.theirs["v"][layer][case.of.groups])
        apart = case.edited.written_by_heads(layer, heads - case.theirs["head_output"][layer])
        result, _ = difference_from_run(case.model, altered, layer)
        assert result == pytest.approx(np.abs(apart.sum(axis=0)).max(), rel=1e-3, abs=1e-5)


@analysis
def scores_of_heads(case: Case) -> None:
    result = head_scores(case.run)
    for layer in range(N_LAYER):
        expected = expected_scores(case.theirs["weights"][layer], IDS)
        for name, values in expected.items():
            assert_allclose(result[name][layer], values, **CLOSE, err_msg=name)


@analysis
def weights_of_some_queries_or_heads(case: Case) -> None:
    for layer in range(N_LAYER):
        expected = case.theirs["weights"][layer]
        result = case.run.weights_of_queries(layer, slice(3, 6))
        assert_allclose(result, expected[:, 3:6], **CLOSE)
        heads = [weights.copy() for weights in case.run.weights_of_heads(layer)]
        assert_allclose(heads, expected, **CLOSE)


@analysis
def similarity_of_heads(case: Case) -> None:
    rows = np.concatenate(case.theirs["weights"])[:, 1:].reshape(N_LAYER * N_HEAD, -1)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert_allclose(similarities(case.run), rows @ rows.T, **CLOSE)


@analysis
def comparison_with_the_plain_run(case: Case) -> None:
    same = [(n, n) for n in range(len(IDS))]
    result = largest_differences(case.plain, case.run, same)
    apart = np.abs(np.array(case.theirs["weights"]) - np.array(case.theirs_plain["weights"]))
    assert_allclose(result, apart.max(axis=(2, 3)), **CLOSE)
    for sites in (stream_sites(N_LAYER)[1:], addition_sites(N_LAYER)):
        both = path(case.plain, case.run, (4, 4), sites)
        for n, (key, layer) in enumerate(sites):
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


@analysis
def nearest_tokens(case: Case) -> None:
    sites, rows = stream_sites(N_LAYER)[1:], case.of.unembedding
    result = nearest(case.run, LAST, sites, top=3)
    for n, (key, layer) in enumerate(sites):
        x = (case.theirs[key] if layer is None else case.theirs[key][layer])[LAST]
        cosines = rows @ x / np.linalg.norm(rows, axis=1) / np.linalg.norm(x)
        assert_array_equal(result.ids[n], np.argsort(-cosines)[:3])
        assert_allclose(result.cosine[n], np.sort(cosines)[:-4:-1], **CLOSE)


@analysis
def next_token(case: Case) -> None:
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


@pytest.mark.slow
def test_every_analysis_of_every_edited_run(cases: list[Case], subtests: pytest.Subtests) -> None:
    for check in ANALYSES:
        with subtests.test(check=check):
            check_all(cases, check)


class Pair(NamedTuple):
    """Two texts under the same edits: the arguments of a patch, and the oracle's runs."""

    name: str
    model: gpt2viz.Model
    edited: Edited
    clean: dict[str, Any]
    corrupted: dict[str, Any]
    given: dict[str, Any]

    def metric(self, run: dict[str, Any]) -> float:
        return float(run["logits"][-1][ANSWER[0]] - run["logits"][-1][ANSWER[1]])

    def patched(self, stage: str, layer: int, index: Any, mix: float = 1) -> float:
        """The metric with a piece of the clean run, or a mix of it, in the corrupted one."""
        source = self.clean[stage][layer] if stage != "residual_in" else self.before(layer)
        piece = source[index]

        def change(x: np.ndarray) -> np.ndarray:
            return replace(x, index, mix * piece + (1 - mix) * x[index])

        return self.metric(self.edited.run(CORRUPTED, (stage, layer, change)))

    def before(self, layer: int) -> np.ndarray:
        """The clean stream before a layer."""
        stream: np.ndarray = (
            self.clean["residual_out"][layer - 1] if layer else (self.clean["embedding"])
        )
        return stream


#: The stage that each registered edit changes.
OWN_STAGES = {"bentq": "q", "bentk": "k", "bentoutput": "head_output"}


@pytest.fixture(scope="module")
def pairs(model: gpt2viz.Model, edited: Callable[[str, bool], Edited]) -> Iterator[list[Pair]]:
    """All edits, registered ones too, with the mask on and off in turn."""
    for name, stage in OWN_STAGES.items():
        gpt2viz.register_edit(EditKind(name, "is bent", torch.tanh, stage=stage))  # type: ignore[arg-type]
    made = []
    for n, edits in enumerate(edits_for(model, CASES | OWN)):
        causal = n % 2 == 0
        theirs = edited(edits, causal)
        given = {"answer": ANSWER, "causal": causal, "edits": gpt2viz.parse_edits(edits)}
        runs = [theirs.run(ids) for ids in (IDS, CORRUPTED)]
        if edits != "window:1":  # then no token reads another, and both runs end alike
            made.append(Pair(case_name(edits, causal), model, theirs, runs[0], runs[1], given))
    yield made
    for name in OWN_STAGES:
        ADDED_KINDS._known.pop(name)


def check_paths(pair: Pair) -> None:
    """The receiver reads what the patched sender's layer adds, by a second run of that."""
    layer, head, of = 2, 1, pair.edited.of
    result = gpt2viz.patch_paths(pair.model, IDS, CORRUPTED, (layer, head), **pair.given)
    before = pair.corrupted["residual_out"][layer - 1]
    expected = np.empty(result.values.shape)
    for first, writer in product(range(layer), range(N_HEAD)):
        piece = pair.clean["head_output"][first][writer]
        sends = ("head_output", first, lambda x, w=writer, piece=piece: replace(x, w, piece))
        wrote = pair.edited.run(CORRUPTED, sends)["attention_output"][first]
        stream = before + wrote - pair.corrupted["attention_output"][first]
        for n, into in enumerate(WAYS):
            row = of.row(into, head)
            new = of.qkv(into, layer, stream)[row]
            reads = into, layer, lambda x, row=row, new=new: replace(x, row, new)
            expected[n, first, writer] = pair.metric(pair.edited.run(CORRUPTED, reads, before=True))
    assert_allclose(result.values, expected, **CLOSE)
    assert result.corrupted == pytest.approx(pair.metric(pair.corrupted), abs=1e-4)
    single = gpt2viz.patch_path(pair.model, IDS, CORRUPTED, "0.1", "2.1", "v", **pair.given)
    assert single.value == pytest.approx(result.values[2, 0, 1], abs=1e-5)


#: The patched piece of every layer, by stage.
PIECES: dict[str, list[Any]] = {stage: [2, 5, LAST] for stage in STREAMS} | {
    stage: [(1, slice(None)), (2, slice(None)), (1, slice(None))] for stage in OF_HEADS
}


def check_sweeps_and_estimates(pair: Pair, stages: Sequence[str]) -> None:
    """An estimate is the slope at a thousandth of the patch."""
    step = 1e-3
    for stage in stages:
        sweep = gpt2viz.patch_sweep(pair.model, IDS, CORRUPTED, stage, **pair.given)
        estimate = gpt2viz.patch_estimate(pair.model, IDS, CORRUPTED, stage, **pair.given)
        for layer, index in enumerate(PIECES[stage]):
            cell = (layer, index) if stage in STREAMS else (layer, index[0])
            if stage in OF_HEADS:
                index = (pair.edited.of.row(stage, index[0]), index[1])
            expected = pair.patched(stage, layer, index)
            assert sweep.values[cell] == pytest.approx(expected, rel=2e-4, abs=2e-5), stage
            up, down = (pair.patched(stage, layer, index, mix) for mix in (step, -step))
            slope = estimate.values[cell] - estimate.corrupted
            assert slope == pytest.approx((up - down) / (2 * step), rel=2e-3, abs=2e-5), stage


@pytest.mark.slow
def test_every_path_and_patch_of_edited_runs(pairs: list[Pair]) -> None:
    """Patches of half of the stages each: all of them take a minute."""
    check_all(pairs, check_paths)
    for half in (0, 1):
        of_half = [pair for n, pair in enumerate(pairs) if n // 2 % 2 == half]
        check_all(of_half, partial(check_sweeps_and_estimates, stages=[*PIECES][half::2]))


@pytest.mark.parametrize("stage", ["q", "k", "v"])
def test_a_patched_head_changes_its_group(
    model: gpt2viz.Model, edited: Callable[[str, bool], Edited], stage: str
) -> None:
    plain, edits = edited("", True), gpt2viz.parse_edits(f"patch:{stage}:1.2")
    row = plain.of.row(stage, 2)
    piece = plain.run(IDS)[stage][1][row]
    theirs = plain.run(CORRUPTED, (stage, 1, lambda x: replace(x, row, piece)))
    run = gpt2viz.trace(model, CORRUPTED, edits=edits, patch_from=IDS)
    assert_allclose(run.logits[0], theirs["logits"], **CLOSE)


@pytest.mark.parametrize("edits", ["off:1.2", "scale:1.2:-2", "mean:1.2", "attn:1", "mlp:1"])
def test_a_text_of_one_token(tiny: gpt2viz.Model, edits: str) -> None:
    run = gpt2viz.trace(tiny, [17], edits=gpt2viz.parse_edits(edits))
    parts = gpt2viz.contributions(tiny, run, 301)
    assert parts.total == pytest.approx(float(run.logits[0, 0, 301]), abs=1e-4)
    for layer in range(N_LAYER):
        assert difference_from_run(tiny, run, layer)[0] < 1e-5
        assert_allclose(rollout(run, layer), [[1]])
        given = value_weighted(tiny, run, layer)[:, 0, 0]
        silent = layer == 1 and edits != "scale:1.2:-2" and edits != "mlp:1"
        assert_array_equal(given == 0, [silent and (edits == "attn:1" or h == 2) for h in range(4)])
        assert cell_arithmetic(run, layer, 2, 0, 0).largest_difference < 1e-5


@pytest.mark.parametrize("edits", ["off:1.2", "mean:1.2", "attn:1"])
def test_switched_off_head_contributes_0_even_for_nan(tiny: gpt2viz.Model, edits: str) -> None:
    """A head may overflow float32: a run without it is finite, and so is every analysis."""
    run = gpt2viz.trace(tiny, IDS, edits=gpt2viz.parse_edits(edits))
    altered: dict[tuple[str, int | None], np.ndarray] = {
        (key, 1): run.stage(key, 1).copy() for key in ("weights", "v")
    }
    for array in altered.values():
        array[0, 2] = np.nan
    if edits == "attn:1":
        altered["head_output", 1] = np.full_like(run.stage("head_output", 1), np.nan)
    altered_run = with_stages(run, altered)
    assert not value_weighted(tiny, altered_run, 1)[2].any()
    assert key_norm(tiny, altered_run, 1, LAST, [0, 3])[2] == 0
    assert difference_from_run(tiny, altered_run, 1)[0] < 1e-5
    assert_allclose(rollout(altered_run, 2), rollout(run, 2))
    parts, expected = (gpt2viz.contributions(tiny, trace, 301) for trace in (altered_run, run))
    assert_array_equal(parts.heads, expected.heads)
    if edits != "attn:1":
        assert not cell_arithmetic(altered_run, 1, 2, LAST, 0).contribution.any()

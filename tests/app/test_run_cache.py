"""A run's numbers are cached by everything that identifies the run, within a budget."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import streamlit as st

import gpt2viz
from gpt2viz.analysis.attribution import difference_from_run
from gpt2viz.analysis.comparison import largest_differences
from gpt2viz.analysis.generation import appraise
from gpt2viz.analysis.patterns import similarities
from gpt2viz.analysis.scores import head_scores
from gpt2viz.app import run_cache
from gpt2viz.app.run_cache import ByteLRUCache
from gpt2viz.app.views import alike, measures, two_runs
from gpt2viz.run.key import RunKey
from tests.app.cases import each
from tests.bundled import bundled_model

IDS = (11, 300, 17, 42, 300, 17)
BASE = RunKey("stories", IDS)
VARIANTS = {
    "mask off": replace(BASE, causal=False),
    "edited": replace(BASE, edits=gpt2viz.parse_edits("scale:0.1:9,window:2")),
    "edited otherwise": replace(BASE, edits=gpt2viz.parse_edits("forbid:4:1,mlp:0")),
    "edited with the mask off": replace(
        BASE, causal=False, edits=gpt2viz.parse_edits("scale:0.1:9,nofirst")
    ),
}
LAST = 3  # the layer compared: every effect of an edit in layer 0 shows there


@pytest.fixture(autouse=True)
def _clear_caches() -> None:
    st.cache_data.clear()
    st.cache_resource.clear()


def path_of(key: RunKey) -> Any:
    panels, _ = measures.layer_panels(key, "mean", "weights", False)
    return np.stack([panel.values for panel in panels])


#: Cached numbers of a run: by the app, and computed afresh.
CACHED: dict[str, Any] = {
    "run": (
        lambda key: run_cache.run(key).stage("weights", LAST),
        lambda model, trace: trace.stage("weights", LAST),
    ),
    "proof": (
        lambda key: measures._proof(key, LAST),
        lambda model, trace: difference_from_run(model, trace, LAST),
    ),
    "every head": (
        lambda key: run_cache.every_head(key, False).tiles,
        lambda model, trace: np.stack([trace.stage("weights", n)[0] for n in range(LAST + 1)]),
    ),
    "in every layer": (
        path_of,
        lambda model, trace: np.stack(
            [trace.stage("weights", n)[0].mean(axis=0) for n in range(LAST + 1)]
        ),
    ),
    "similarities": (
        lambda key: alike._similarities(key)[0],
        lambda model, trace: similarities(trace),
    ),
    "apart": (
        lambda key: two_runs.compare(BASE, key, ((5, 5), (4, 4))),
        lambda model, trace: largest_differences(
            gpt2viz.trace(model, IDS), trace, [(5, 5), (4, 4)]
        ),
    ),
    "head scores": (
        lambda key: run_cache.score_run(key).scores["entropy"],
        lambda model, trace: head_scores(trace)["entropy"],
    ),
    "lens": (
        lambda key: run_cache.lens(key, (5,)).probability,
        lambda model, trace: gpt2viz.logit_lens(model, trace, (5,)).probability,
    ),
    "choice": (
        lambda key: run_cache.choice(key, 7).probability,
        lambda model, trace: appraise(trace, 7).probability,
    ),
}


@each("what", CACHED)
def test_cached_numbers_belong_to_their_run(what: str) -> None:
    """The same text with the mask off, or edited, is another run; repeated, it is the same."""
    ask, work_out = CACHED[what]
    model, seen = bundled_model(), []
    for name, key in {"base": BASE, **VARIANTS, "base again": BASE}.items():
        trace = gpt2viz.trace(model, IDS, causal=key.causal, edits=key.edits)
        assert trace.key == key
        result, expected = np.asarray(ask(key)), np.asarray(work_out(model, trace))
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6, err_msg=name)
        seen.append(result)
    for n, numbers in enumerate(seen[:-1]):
        assert all(not np.allclose(numbers, other, atol=1e-9) for other in seen[n + 1 : -1]), n


def test_choice_is_read_from_a_longer_run(monkeypatch: pytest.MonkeyPatch) -> None:
    edited = VARIANTS["edited"]
    for key in (BASE, edited, replace(BASE, causal=False)):
        run_cache.run(key)
    runs: list[RunKey] = []
    trace_of = run_cache._trace
    monkeypatch.setattr(run_cache, "_trace", lambda key: runs.append(key) or trace_of(key))
    for key in (BASE, edited, replace(BASE, causal=False)):
        start = replace(key, token_ids=IDS[:4])
        trace = gpt2viz.trace(bundled_model(), IDS[:4], key.causal, edits=key.edits)
        expected = appraise(trace, 9)
        result = run_cache.choice(start, 9)
        assert result.rank == expected.rank
        assert result.probability == pytest.approx(expected.probability, rel=1e-4)
    assert [(key.causal, key.token_ids) for key in runs] == [(False, IDS[:4])]


def test_run_reuses_the_longest_shared_prefix() -> None:
    model = bundled_model()
    run_cache.run(replace(BASE, token_ids=(*IDS[:3], 9)))
    run_cache.run(BASE)
    run_cache.run(replace(BASE, token_ids=IDS[:2]))
    longer = replace(BASE, token_ids=(*IDS[:5], 40, 41))
    for key, reused in (
        (longer, 5),
        (replace(longer, token_ids=IDS[:4]), 3),
        (replace(longer, token_ids=(5, *IDS)), 0),
        (replace(longer, causal=False), 0),
        (replace(longer, causal=False, token_ids=IDS), 0),
        (replace(longer, edits=VARIANTS["edited"].edits), 0),
    ):
        trace = run_cache.run(key)
        assert (trace.key, trace.reused) == (key, reused)
        bare = gpt2viz.trace(model, key.token_ids, key.causal, edits=key.edits)
        for result, expected in (
            (trace.stage("weights", LAST), bare.stage("weights", LAST)),
            (trace.stage("residual_out", LAST), bare.stage("residual_out", LAST)),
            (trace.logits, bare.logits),
        ):
            rounding = 1e-5 * np.abs(expected).max()
            np.testing.assert_allclose(result, expected, rtol=0, atol=rounding)


def test_cache_keys_distinguish_all_runs() -> None:
    patched = gpt2viz.parse_edits("patch:residual_in:2:5")
    keys = [BASE, *VARIANTS.values(), replace(BASE, model="stories'"), replace(BASE, mean_over="x")]
    keys += [replace(BASE, token_ids=(*IDS, 1)), replace(BASE, edits=patched)]
    keys += [replace(BASE, edits=patched, patch_from=IDS[::-1])]
    assert len({run_cache.BY_KEY[RunKey](key) for key in keys}) == len(keys)
    equal = replace(BASE, token_ids=tuple(n for n in IDS), model="".join(["sto", "ries"]))
    assert run_cache.BY_KEY[RunKey](equal) == run_cache.BY_KEY[RunKey](BASE)


def test_edited_run_takes_its_means_from_the_cached_reference() -> None:
    mean = replace(BASE, edits=gpt2viz.parse_edits("mean:0.1"))
    trace = run_cache.run(mean)
    assert run_cache.reference("stories").key in run_cache._runs()
    expected = gpt2viz.trace(bundled_model(), IDS, edits=mean.edits)
    np.testing.assert_array_equal(trace.stage("weights", LAST), expected.stage("weights", LAST))


APP = Path(run_cache.__file__).parent
#: Parameters that are part of a run's key, or a run itself.
RUN_FIELDS = {field.name for field in fields(RunKey)} | {"ids", "trace", "view", "run"}
OBJECTS = {"View", "Trace", "Model", "Sides", "Side", "object", "Any"}


def test_cached_functions_take_keys(subtests: pytest.Subtests) -> None:
    """Streamlit ignores arguments with a leading underscore in its cache keys."""
    count = written = 0
    for path in sorted(APP.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        written += text.count("@st.cache_")
        for node in ast.walk(ast.parse(text)) if "st.cache_" in text else ():
            if isinstance(node, ast.FunctionDef) and any(
                "st.cache_" in ast.unparse(decorator) for decorator in node.decorator_list
            ):
                count += 1
                with subtests.test(f"{path.stem}.{node.name}"):
                    check_arguments(node)
    assert count == written >= 15


def check_arguments(cached: ast.FunctionDef) -> None:
    arguments = cached.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    assert not [a.arg for a in parameters if a.arg.startswith("_")]
    types = {a.arg: ast.unparse(a.annotation) if a.annotation else "Any" for a in parameters}
    assert not OBJECTS & set(types.values())
    assert not RUN_FIELDS & set(types)
    called = {ast.unparse(n.func) for n in ast.walk(cached) if isinstance(n, ast.Call)}
    assert bool(called & {"run", "run_cache.run", "_runs"}) == ("RunKey" in types.values())


@dataclass
class Thing:
    nbytes: int


def is_new(cache: ByteLRUCache[Thing], key: str, nbytes: int = 10) -> bool:
    """Get a key; whether its value had to be made."""
    calls: list[str] = []

    def make() -> Thing:
        calls.append(key)
        return Thing(nbytes)

    cache.get(key, make)
    return bool(calls)


def test_least_recently_used_entry_goes_first() -> None:
    cache: ByteLRUCache[Thing] = ByteLRUCache(30)
    assert [is_new(cache, key) for key in "abcabc"] == [True] * 3 + [False] * 3
    assert not is_new(cache, "a")
    assert is_new(cache, "d")  # four times 10 is too much, and b is the least recently used
    assert [is_new(cache, key) for key in "acd"] == [False] * 3
    assert is_new(cache, "b")


def test_budget_is_in_bytes() -> None:
    cache: ByteLRUCache[Thing] = ByteLRUCache(30)
    for key in "abc":
        is_new(cache, key)
    is_new(cache, "large", 25)
    assert [is_new(cache, key) for key in ("large", "c", "b", "a")] == [False, True, True, True]


def test_entry_over_budget_stays_until_the_next() -> None:
    cache: ByteLRUCache[Thing] = ByteLRUCache(30)
    assert is_new(cache, "huge", 1000)
    assert not is_new(cache, "huge")
    assert is_new(cache, "a")
    assert is_new(cache, "huge", 1000)


def test_best_entry_is_the_last_used_of_equals() -> None:
    cache: ByteLRUCache[Thing] = ByteLRUCache(100)
    values = {key: cache.get(key, lambda: Thing(1)) for key in ("aab", "b", "aaa", "")}
    assert cache.best(lambda key: key.count("a")) is values["aaa"]
    is_new(cache, "b")
    is_new(cache, "aab")
    assert cache.best(lambda key: key.count("b")) is values["aab"]
    assert cache.best(lambda key: key.count("c")) is None
    assert ByteLRUCache[Thing](1).best(len) is None


def test_grown_entry_is_recounted() -> None:
    cache: ByteLRUCache[Thing] = ByteLRUCache(30)
    grows = cache.get("grows", lambda: Thing(10))
    is_new(cache, "a")
    grows.nbytes = 25
    assert cache.get("grows", lambda: Thing(0)) is grows
    assert is_new(cache, "a")


def test_slow_entry_blocks_no_other() -> None:
    cache: ByteLRUCache[Thing] = ByteLRUCache(30)
    started, go_on = Event(), Event()

    def slow() -> Thing:
        started.set()
        assert go_on.wait(30)
        return Thing(10)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cache.get, "slow", slow)
        assert started.wait(30)
        assert is_new(cache, "other")
        go_on.set()
        assert waiting.result().nbytes == 10


def test_failed_entry_is_retried() -> None:
    cache: ByteLRUCache[Thing] = ByteLRUCache(30)
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    assert is_new(cache, "a")


def test_trace_counts_its_bytes(tiny: gpt2viz.Model) -> None:
    T, C, hs, nh, V, n_layer = 5, 24, 6, 4, 420, 3
    trace = gpt2viz.trace(tiny, [1, 2, 3, 4, 5], explicit=False)
    captured = trace.nbytes
    stream, heads = T * C * 4, nh * T * hs * 4
    assert captured >= n_layer * (4 * heads + 2 * stream)
    assert trace.stage("weights", 1).nbytes == nh * T * T * 4
    derived = trace.nbytes
    assert derived >= captured + nh * T * T * 4
    assert trace.logits.nbytes == T * V * 4
    assert trace.nbytes == derived + T * V * 4

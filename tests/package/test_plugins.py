"""Scores, edits and pages added by other packages' entry points, or by a call."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis import scores
from gpt2viz.analysis.scores import Scores, TokenIds
from gpt2viz.arrays import Array
from gpt2viz.errors import PluginError, SurveyError
from gpt2viz.heads import SCORES, Score, head_scores, register_score
from gpt2viz.survey.documents import Shard
from gpt2viz.survey.engines import score as score_shard
from tests.bundled import bundled_model
from tests.numpy_gpt2 import reference, softmax
from tests.package.with_plugins import TEXT

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "gpt2viz-example"
BY = "gpt2viz-example 0.1.0"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The report of ``with_plugins``: with the example, then with a broken package too."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    pip += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(site)]
    made = subprocess.run([*pip, str(EXAMPLE)], cwd=site, capture_output=True, text=True)
    assert not made.returncode, made.stderr
    folder = tmp_path_factory.mktemp("work")
    requests = [sys.executable, "-m", "tests.package.with_plugins", str(folder), str(site)]
    done = subprocess.run(requests, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) | {"stderr": done.stderr}


@pytest.fixture(scope="module")
def run() -> gpt2viz.Trace:
    return gpt2viz.trace(bundled_model(), TEXT)


def confidence(rows: np.ndarray) -> float:
    """The largest weight on a key but the first, averaged over queries but the first, by loops."""
    return float(np.mean([max(row[1:]) for row in rows.tolist()[1:]]))


def test_the_examples_score_is_listed_and_measured(seen: Any, run: gpt2viz.Trace) -> None:
    assert seen["scores"] == [*(score.name for score in scores.DECLARED), "confidence"]
    expected = [
        [confidence(head) for head in run.stage("weights", n)[0]] for n in range(run.config.n_layer)
    ]
    assert_allclose(seen["confidence"], expected, rtol=1e-6)
    result = seen["find"]["tables"][0]
    assert list(result)[:3] == ["layer", "head", "confidence"]
    assert_allclose(result["confidence"], sorted(np.ravel(expected))[::-1], rtol=1e-6)
    words = "where idle heads rest (Voita et al. 2019). Added by " + BY
    assert [words in text for text in seen["find"]["said"]].count(True) == 1
    code, printed, _ = seen["printed"]
    assert code == 0
    assert printed.splitlines()[-1].split()[0] == "confidence"
    assert len(printed.splitlines()) == 1 + len(seen["scores"])


def test_the_examples_page_is_in_the_menu_and_draws(seen: Any, run: gpt2viz.Trace) -> None:
    page = seen["page"]
    where, requested = page["menu"]["Surest heads"]
    assert where == "added"
    assert "added=surest_heads" in requested
    layers = range(run.config.n_layer)
    weights = np.stack([run.stage("weights", n)[0, :, 6, 1:] for n in layers])
    layer, head, key = np.unravel_index(weights.argmax(), weights.shape)
    (table,) = page["tables"]
    first = {name: column[0] for name, column in table.items()}
    assert (first["layer"], first["head"]) == (layer, head)
    assert first["looks at"] == run.labels[key + 1]
    assert first["weight"] == pytest.approx(weights.max())
    assert page["pictures"].keys() == {"surest_heads"}
    assert not page["errors"] + page["warnings"]


def test_the_examples_edit_acts_and_is_offered(seen: Any, run: gpt2viz.Trace) -> None:
    def late(layer: int, heads: np.ndarray) -> np.ndarray:
        if layer == 1:
            heads[3] = np.concatenate([0 * heads[3, :1], heads[3, :-1]])
        return heads

    expected = reference(gpt2viz.BUNDLED, list(run.token_ids), True, edit_heads=late)
    assert_allclose(seen["late"][0], expected["logits"], rtol=1e-4, atol=1e-4)
    page = seen["what if"]
    assert not page["errors"] + page["warnings"]
    does = "Layer 1 head 3 outputs what it computed for the token before"
    assert [does in text for text in page["buttons"]].count(True) == 1
    assert page["kinds"][0][-1] == "Late"
    (table,) = (t for t in page["tables"] if "changed (%)" in t)
    shares = 100 * softmax(expected["logits"][-1])
    assert_allclose(table["changed (%)"], shares[table["id"]], rtol=1e-3)


def test_broken_plugins_are_named_and_the_rest_works(seen: Any) -> None:
    taken, no_score, not_there, leaves = seen["troubles"]
    assert leaves == "leaves:SCORE of broken 2.0 can't be loaded: SystemExit: 3"
    assert taken == (
        "The head score 'entropy' of broken 2.0 is left out: gpt2viz has one of that name. Give it "
        "another."
    )
    assert no_score == "d of broken 2.0 is str, not a gpt2viz.heads.Score."
    assert not_there.startswith("broken_too:SCORE of broken 2.0 can't be loaded: ModuleNotFound")
    for text, what in zip(
        seen["failed"],
        (
            "'raises' of broken 2.0 raised ZeroDivisionError: division by zero",
            "'one number' of broken 2.0 returned the shape () instead of (8,), a number a head",
            "'beyond' of broken 2.0 returned ∞",
            "'exits' of broken 2.0 raised SystemExit: enough",
        ),
        strict=True,
    ):
        assert what in text
        assert "uninstall that package" in text
    measured = {name for name, there in seen["scores then"].items() if there}
    never_twice = {"duplicate token", "induction"}
    assert measured == set(seen["scores"]) - never_twice
    taken, leaves = sorted(seen["edit troubles"])
    assert leaves == "leaves:EDIT of broken 2.0 can't be loaded: SystemExit: 3"
    assert taken.startswith(
        f"The edit 'late' of broken 2.0 is left out: {BY} has one of that name."
    )
    failed = "The edit 'fails' of broken 2.0 raised ZeroDivisionError: integer division or modulo"
    assert [failed in text for text in seen["broken edit"]["warnings"]].count(True) == 1
    assert not seen["broken edit"]["errors"]
    odd = "The edit 'odd' of broken 2.0 raised Odd: odd"
    assert [odd in text for text in seen["odd edit"]["warnings"]].count(True) == 1
    assert "Layer 1 head 3 counts twice" in " ".join(seen["lambda"]["buttons"])
    assert not seen["lambda"]["errors"]
    assert any("changed (%)" in table for table in seen["lambda"]["tables"])
    (warned,) = seen["find"]["warnings"]
    messages = [*seen["troubles"], *seen["failed"]]
    assert re.sub(r"\\(.)", r"\1", warned).replace("\u2060", "").split("\n\n") == messages
    code, printed, text = seen["printed then"]
    assert (code, printed) == (1, "")
    assert text.splitlines()[-1] == f"gpt2viz: {seen['failed'][0]}"


def test_a_failing_page_shows_its_error_in_the_frame(seen: Any) -> None:
    (text,) = seen["broken page"]["errors"]
    assert "“Worst heads” of broken 2" in text
    assert "raised LookupError" in text
    assert "Attention" in seen["broken page"]["menu"]
    (text,) = seen["interrupted page"]["errors"]
    assert "“Interrupts” of broken 2.0 raised KeyboardInterrupt" in text.replace("\\", "")
    (text,) = seen["page that leaves"]["errors"]
    assert "can't be loaded: SystemExit: 3" in text.replace("\\", "")
    (nobody,) = seen["no page"]["info"]
    assert "No package here has a page" in nobody
    assert list(seen["no page"]["menu"]).count("Find") == 1
    assert "The page 'find' of broken 2.0 is left out: gpt2viz has one." in seen["stderr"]


def weight(query: int, key: int | slice) -> Callable[[Array, TokenIds], Scores]:
    """A score as a function: a head's weight of one query on one key."""
    return lambda weights, _ids: weights[:, query, key].astype(np.float64)


@pytest.fixture
def own(registries: None) -> Score:
    """A score of this program, for one test."""
    return register_score(Score("mine", "w(1, 0)", "The first.", weight(1, 0)))


def test_a_program_registers_its_own_score(own: Score, run: gpt2viz.Trace) -> None:
    weights = run.stage("weights", 2)[0]
    assert_allclose(head_scores(run)["mine"][2], weights[:, 1, 0])
    assert own.words == "The first. Added by this program."
    again = register_score(replace(own, function=weight(1, 1)))
    assert SCORES["mine"] is again
    assert_allclose(head_scores(run)["mine"][2], weights[:, 1, 1])
    with pytest.raises(PluginError, match=r"'entropy' of this program .* gpt2viz has one of that"):
        register_score(replace(own, name="entropy"))
    with pytest.raises(PluginError, match=r"function, not a gpt2viz\.heads\.Score"):
        register_score(confidence)  # type: ignore[arg-type]
    register_score(replace(own, function=weight(1, slice(None))))
    with pytest.raises(PluginError, match=r"'mine' of this program returned the shape \(8, 7\)"):
        head_scores(run)
    failed: list[PluginError] = []
    assert np.isnan(head_scores(run, failed.append)["mine"]).all()
    assert len(failed) == 1  # it isn't called again after the first layer


def test_a_worker_without_the_score_refuses_the_shard() -> None:
    """Else the numbers of one score would appear under the name of the next."""
    shard = Shard(0, 0, (TEXT,))
    model = bundled_model()
    with pytest.raises(SurveyError, match="A worker doesn't know the score 'mine'"):
        score_shard(model, shard, 8, names=("entropy", "mine"))
    some = score_shard(model, Shard(0, 0, (f"{TEXT} {TEXT}",)), 8, names=("entropy", "same token"))
    every = score_shard(model, Shard(0, 0, (f"{TEXT} {TEXT}",)), 8)
    assert_allclose(some.mean[1], every.mean[list(SCORES).index("same token")])

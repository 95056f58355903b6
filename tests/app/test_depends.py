"""The pieces that the answer depends on: the page against the library and NumPy."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app import jobs
from gpt2viz.app.views import depends, two_texts
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.run.edit_kinds import OF_HEADS, STREAMS
from tests.app.cases import each
from tests.app.pages import (
    chart,
    frames,
    heatmaps,
    matrices,
    notices,
    open_page,
    page_text,
    pictures,
    press,
)
from tests.bundled import HEADS, N_HEAD, bundled_model, copier, ids_of, stages
from tests.numpy_gpt2 import Tolerance, reference, softmax

CLEAN, CORRUPTED = "A crane ate fish. A crane ate", "A crane ate corn. A crane ate"
TOLERANCE: Tolerance = {"rtol": 2e-4, "atol": 2e-4}


@pytest.fixture(autouse=True)
def _wait_for_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs may take long on a busy machine."""
    monkeypatch.setattr(jobs, "WAIT", 600)


def open_depends(**chosen: str) -> AppTest:
    return open_page("what_if?what_if=depends", **{"text": CLEAN, "text2": CORRUPTED} | chosen)


def measurement_tips(at: AppTest) -> str:
    """The measurements in the tooltip of the sentence on the patch."""
    return " ".join(block.help for block in at.markdown if "run it is" in block.help)


def sweep(stage: str, **options: Any) -> gpt2viz.PatchSweep:
    return gpt2viz.patch_sweep(bundled_model(), CLEAN, CORRUPTED, stage, **options)


@each(
    ("direction", "metric", "piece"),
    [
        ("denoise", "logit difference", "head_output"),
        ("denoise", "probability", "q"),
        ("noise", "divergence", "v"),
    ],
)
def test_maps_match_the_librarys_sweeps(direction: Any, metric: Any, piece: str) -> None:
    at = open_depends(direction=direction, metric=metric, piece=piece)
    assert not notices(at)
    maps = heatmaps(at, "depends_streams")
    assert list(maps) == list(STREAMS)
    maps |= heatmaps(at, "depends_heads")
    for stage in (*STREAMS, piece):
        expected = sweep(stage, direction=direction, metric=metric)
        into, source = expected.corrupted, expected.clean
        if direction == "noise":
            into, source = source, into
        assert_allclose(maps[stage], (expected.values - into) / (source - into), **TOLERANCE)
    both = "depends_streams", "depends_heads"
    ends = {(m.panel["low"], m.panel["high"]) for key in both for m in matrices(at, key)}
    ((_, high),) = ends
    assert high >= 1
    assert "estimate" not in " ".join(pictures(at).values())


def test_edits_in_the_address_are_reported_and_ignored() -> None:
    edited, plainly = open_depends(edits="off:0.0"), open_depends()
    assert ["edits don't act here" in page_text(at) for at in (edited, plainly)] == [True, False]
    maps = [heatmaps(at, "depends_streams") for at in (edited, plainly)]
    assert maps[0].keys() == maps[1].keys()
    for name, values in maps[1].items():
        assert_allclose(maps[0][name], values, **TOLERANCE)


def test_nothing_is_a_valid_answer_token() -> None:
    assert "the logit of “·nothing” minus" in page_text(open_depends(right="nothing"))


def test_patched_cell_matches_numpy() -> None:
    clean = stages(CLEAN)

    def put(name: str, stream: np.ndarray) -> np.ndarray:
        here = (name == "residual_in.2") & (np.arange(len(stream)) == 7)
        return np.where(here[:, None], clean["residual_out"][1], stream) if here.any() else stream

    changed = reference(BUNDLED, ids_of(CORRUPTED), causal=True, becomes=put)
    first, second, patched = (run["logits"][-1] for run in (clean, stages(CORRUPTED), changed))
    right, wrong = first.argmax(), second.argmax()
    numbers = [row[right] - row[wrong] for row in (second, patched, first)]
    share = (numbers[1] - numbers[0]) / (numbers[2] - numbers[0])
    assert 0.5 < share < 0.99

    at = open_depends(patch="patch:residual_in:2:7")
    assert_allclose(heatmaps(at, "depends_streams")["residual_in"][2, 7], share, rtol=1e-3)
    message = page_text(at)
    assert (
        "Copying the stream at “·ate” (7) before layer 2 from the first run into the second "
        f"**recovers {100 * share:.0f} % of the answer**." in message
    )
    before, now, source = (f"{number:.2f}".replace("-", "−") for number in numbers)
    assert f"goes from {before} to {now}. In the first run it is {source}." in measurement_tips(at)
    bars = chart(at, "patched")["data"]
    probabilities = [softmax(row) for row in (first, second, patched)]
    best = np.argsort(-np.max(probabilities, axis=0))[:4]
    shown = list(dict.fromkeys([right, wrong, *best]))[:4]
    assert_allclose(
        [case["x"] for case in bars], [100 * p[shown] for p in probabilities], rtol=1e-2
    )
    at.button(key="patch_in_full").click().run()
    assert not notices(at)
    edit = {"what_if": "edits", "edits": "patch:residual_in:2:7"}
    assert {**at.query_params} == {**at.query_params} | edit | {"text": CORRUPTED, "text2": CLEAN}


def test_reported_numbers_give_the_share() -> None:
    """Close probabilities need more digits than logits do."""
    near = {"text": "A crane ate fish", "text2": "A crane happened fish"}
    at = open_depends(**near, metric="probability", patch="patch:attention_output:3:3")
    assert matrices(at, "depends_streams")[0].grid["columns"][2] == "2 ·ate / ·ha…ned"
    result = re.search(
        r"(?s)(\d+) % of the .* goes from (\S+) to (\S+)\. In the first run it is ([\d.]+)\.",
        page_text(at) + measurement_tips(at),
    )
    assert result
    share, into, now, source = map(float, result.groups())
    assert 0.05 < source - into < 0.2
    assert_allclose(share, 100 * (now - into) / (source - into), atol=2)


@each(
    ("patch", "expected"),
    [
        ("attention_output:1:7", "layer 1's attention output at “·ate” (7)"),
        ("mlp_output:3:7", "layer 3's MLP output at “·ate” (7)"),
        ("head_output:1.3", "the output of head 1.3"),
        ("q:1.3", "the queries of head 1.3"),
        ("k:1.3", "the keys of head 1.3"),
        ("v:1.3", "the values of head 1.3"),
        ("weights:1.3", "the attention weights of head 1.3"),
    ],
)
def test_patch_is_described_with_its_share(patch: str, expected: str) -> None:
    stage = patch.partition(":")[0]
    at = open_depends(
        patch=f"patch:{patch}", direction="noise", piece=stage if stage in OF_HEADS else "q"
    )
    cell = tuple(map(int, patch.partition(":")[2].replace(".", ":").split(":")))
    share = 100 * (1 - sweep(stage, direction="noise").restored[cell])
    text = page_text(at)
    assert f"Copying {expected} from the second run into the first" in text
    way = "moves the answer" if share < 0 else "removes"
    rounded = f"{way} {abs(share):.0f} %" if abs(share) >= 0.5 else "has no effect on the answer"
    assert f"**{rounded}" in text
    framed = {key: frames(at, key) for key in ("depends_streams", "depends_heads")}
    assert sum(map(len, framed.values())) == 1
    assert framed["depends_heads" if stage in OF_HEADS else "depends_streams"]


def test_first_patch_is_the_largest_attention_output() -> None:
    carried = sweep("attention_output").restored
    elsewhere = np.delete(carried, 3, axis=1)  # token 3 differs
    assert np.argwhere(carried == elsewhere.max())[0].tolist() == [1, 7]
    assert "layer 1's attention output at “·ate” (7) from the first" in page_text(open_depends())
    only_the_last = open_depends(text="A crane ate fish", text2="A crane ate corn")
    assert "layer 0's attention output at “·fish” (3)" in page_text(only_the_last)


@each("pair", two_texts.PAIRS)
def test_word_is_copied_in_each_example(pair: two_texts.Pair) -> None:
    """The differing token is at least third, and its stream reaches the last token."""
    model = bundled_model()
    texts = pair.clean, pair.corrupted
    ids = [model.tokenizer.encode(text) for text in texts]
    assert len(ids[0]) == len(ids[1])
    (position,) = np.flatnonzero(np.array(ids[0]) != ids[1])
    result = gpt2viz.patch_sweep(model, *texts, answer=(ids[0][position], ids[1][position]))
    assert result.clean > 0 > result.corrupted
    assert result.restored[0, -1] == pytest.approx(0, abs=0.01)
    assert result.restored[-1, -1] > 0.7
    assert result.restored[1, position] > 0.8
    at = open_page("what_if?what_if=depends")
    at.session_state["pairs"] = True
    at.run()
    at.button(key=f"pair_{pair.name}").click().run()
    assert (at.query_params["text"], at.query_params["text2"]) == texts


@each(
    ("second", "expected"),
    [
        ("A big crane ate fish. A crane ate", "have 8 and 9 tokens, and must have as many"),
        ("A crane ate a frog. A crane ate", "' fish' stands against ' a frog'"),
        (CLEAN, "Both texts are the same"),
    ],
)
def test_unaligned_sentences_get_a_message_and_an_aligned_pair(second: str, expected: str) -> None:
    at = open_depends(text2=second)
    assert expected in notices(at).replace("\\", "")
    assert not pictures(at)
    at.button(key="nearest_pair").click().run()
    assert not notices(at)
    assert "depends_streams" in pictures(at)


def test_default_second_sentence_changes_one_token() -> None:
    at = open_page("what_if?what_if=depends")
    assert not notices(at)
    assert "text2" not in at.query_params
    a, b = map(bundled_model().tokenizer.encode, ("A crane ate fish", at.session_state["text2"]))
    assert sum(x != y for x, y in zip(a, b, strict=True)) == 1


@each(
    "chosen",
    [
        {"patch": "patch:residual_in:9:1"},
        {"patch": "patch:residual_in:1"},
        {"patch": "off:1.1"},
        {"right": "·fish", "wrong": "·fish"},
        {"right": "no such token"},
        {"piece": "residual_in"},
    ],
)
def test_invalid_choices_are_reported(chosen: dict[str, str]) -> None:
    assert notices(open_depends(**chosen))


def test_runs_with_equal_metrics_are_not_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depends, "metric_value", lambda *_: 0.0)
    assert "both runs are the same" in notices(open_depends())


def sweep_of(stage: str) -> jobs.Job:
    search = partial(gpt2viz.patch_sweep, clean=CLEAN, corrupted=CORRUPTED, stage=stage)
    return jobs.sweep_of("stories", search)


def test_cancelled_sweep_keeps_its_results_and_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpt2viz.analysis.patching, "AT_ONCE", 8)
    sweeping = sweep_of("mlp_output")
    report = sweeping.report

    def cancel_early(result: gpt2viz.PatchSweep, share: float) -> None:
        if share > 0.6:
            sweeping.cancel()
        report(result, share)

    monkeypatch.setattr(sweeping, "report", cancel_early)
    sweeping.start()
    sweeping.wait(time.monotonic() + 60)
    assert not sweeping.running
    assert 0.6 < sweeping.share < 1
    result = sweeping.result.values
    whole = sweep("mlp_output").values
    done = np.isfinite(result)
    assert 0 < done.sum() < done.size
    assert_allclose(result[done], whole[done], **TOLERANCE)
    sweeping.start()
    assert not sweeping.running  # it was cancelled
    monkeypatch.setattr(sweeping, "report", report)
    sweeping.reset()
    sweeping.start()
    sweeping.wait(time.monotonic() + 60)
    assert_allclose(sweeping.result.values, whole, **TOLERANCE)
    assert sweeping.share == 1


def test_unwatched_sweep_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "UNSEEN", -1)
    sweeping = sweep_of("attention_output")
    sweeping.start()
    sweeping.wait(time.monotonic() + 60)
    assert 0 < sweeping.share < 1
    monkeypatch.setattr(jobs, "UNSEEN", 60)
    sweeping.start()
    sweeping.wait(time.monotonic() + 60)
    assert sweeping.share == 1


def test_estimates_are_labelled_until_patches_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depends, "AT_ONCE", 0)
    jobs.sweep_of.clear()
    at = open_depends()
    estimated = gpt2viz.patch_estimate(bundled_model(), CLEAN, CORRUPTED, "mlp_output")
    shown = heatmaps(at, "depends_streams")["mlp_output"]
    assert_allclose(shown, estimated.restored, **TOLERANCE)
    assert pictures(at)["depends_streams"].count("first-order estimate") == 3
    assert pictures(at)["depends_heads"].count("first-order estimate") == 1
    press(at, "Run every patch")
    assert "estimate" not in " ".join(pictures(at).values())


@each("direction", ["denoise", "noise"])
def test_paths_into_a_head_match_the_library(direction: Any) -> None:
    into = "{}.{}".format(*copier())
    at = open_depends(direction=direction, patch=f"patch:q:{into}", piece="q", detail="paths")
    assert not notices(at)
    result = gpt2viz.patch_paths(
        bundled_model(), CLEAN, CORRUPTED, into, direction=direction
    ).restored  # (3, 1, nh)
    shares = result if direction == "denoise" else 1 - result
    maps = heatmaps(at, "head_paths")
    for way, values in zip("qkv", shares, strict=True):
        assert_allclose(maps[way], values, **TOLERANCE)
    part, _, head = (int(n) for n in np.unravel_index(np.abs(shares).argmax(), shares.shape))
    assert shares[part, 0, head] == shares.max() > 0.01
    does, run = ("recovers", "first") if direction == "denoise" else ("removes", "second")
    name = ("queries", "keys", "values")[part]
    message = f"from the {run} run into only the **{name}** of head **{into}** **{does}"
    message = (
        f"Copying head **0.{head}**'s output {message} {100 * shares.max():.0f} % of the answer**."
    )
    assert message in page_text(at)


def test_head_of_the_first_layer_has_no_path() -> None:
    at = open_depends(patch="patch:head_output:0.3", detail="paths")
    assert "Head **0.3** is in the first layer" in page_text(at)
    assert "head_paths" not in pictures(at)
    followed = page_text(open_depends(patch="patch:residual_in:2:7", detail="paths"))
    strongest = np.abs(sweep("head_output").restored[1:]).argmax()
    assert f"of head **{1 + strongest // N_HEAD}.{strongest % N_HEAD}** **" in followed


def test_fewest_heads_are_computed_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    result = gpt2viz.fewest_heads(bundled_model(), CLEAN, CORRUPTED)
    open_depends()
    monkeypatch.setattr(depends, "AT_ONCE", 0)
    at = open_depends(detail="fewest")
    assert "fewest" not in pictures(at)
    at.button(key="fewest_offer").click().run()
    (curve,) = chart(at, "fewest")["data"]
    assert_allclose(curve["y"], result.faithfulness, **TOLERANCE)
    assert curve["x"].tolist() == list(range(HEADS, -1, -1))
    assert result.words() in page_text(at)
    assert f"heads of {HEADS} keep" in result.words()

"""The chapter "How it learns": its batch, its step, and the models trained there."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

from gpt2viz import settings
from gpt2viz.app import jobs
from gpt2viz.app.course import learning as lesson
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.textbook import learning
from gpt2viz.textbook.learning import Setting
from tests.app.chapters import joined, matrix, text_of
from tests.app.pages import chart, heatmaps, open_page
from tests.bundled import bundled_model, stages
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import softmax

#: Input and target of each position of "banana" and "bans", over the letters a, b, n and s.
PAIRS = [(1, 0), (0, 2), (2, 0), (0, 2), (2, 0), (1, 0), (0, 2), (2, 3)]
TINY = Setting(T=6, B=4, C=8, nh=2, steps=8, points=4)


def chapter(text: str = "A crane ate fish", **chosen: str) -> AppTest:
    return open_page("textbook", chapter="learning", text=text, **chosen)


def loss_of(table: np.ndarray) -> float:
    return float(-np.mean([np.log(softmax(table[a])[b]) for a, b in PAIRS]))


@pytest.fixture
def tiny_training(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fresh tiny trainings, which are cancelled after the test."""
    results = {n: jobs.Job(partial(lesson.train_all, n, TINY), {}) for n in lesson.SEEDS}
    monkeypatch.setattr(lesson, "training", results.__getitem__)
    yield
    for training in results.values():
        training.cancel()
        training.wait(time.monotonic() + 20)


def test_batch_has_the_shifted_sentence_and_the_models_loss() -> None:
    at = chapter("the bank by the river bank")
    ids = bundled_model().tokenizer.encode("the bank by the river bank")
    (frame,) = [t.value for t in at.dataframe if "sentence reads" in t.value]
    numbers = [
        [int(result[1]) for result in re.finditer(r"\((\d+)\)$", "\n".join(frame[name]), re.M)]
        for name in ("sentence reads", "sentence: target")
    ]
    assert numbers == [ids[:-1], ids[1:]]
    padding = frame["second row reads"] == "padding"
    assert padding.any()
    assert (padding == (frame["second row: target"] == "−100")).all()
    count = f"{2 * len(frame)} positions, **{len(ids) - 1 + (~padding).sum()} targets**"
    assert count in text_of(at)
    logits = stages("the bank by the river bank")["logits"]
    loss = -np.mean([np.log(softmax(logits[n])[ids[n + 1]]) for n in range(len(ids) - 1)])
    assert f"the loss of the model above is {loss:.4f} nats" in text_of(at)


def test_single_token_has_no_target() -> None:
    at = chapter("a")
    (frame,) = [t.value for t in at.dataframe if "sentence reads" in t.value]
    assert set(frame["sentence reads"]) == {"padding"}
    assert f"{2 * len(frame)} positions, **{len(frame)} target" in text_of(at)
    assert "On your sentence alone" not in text_of(at)


def test_step_from_an_edited_table_matches_numpy() -> None:
    table = np.array([[0.5, 0, 2, -1], [0, 1, 0, 0.25], [1, 0, 0, 3], [0, 0, 0, 0.0]])
    at = chapter(learn_logits=joined(table), learn_rate="30.0")
    before = loss_of(table)
    assert rf"\approx {before:.4f}" in text_of(at)
    assert f"gives **{before:.4f}**" in text_of(at)
    uphill, tiny = np.zeros((4, 4)), 1e-6
    for cell in np.ndindex(4, 4):
        up, down = table.copy(), table.copy()
        up[cell], down[cell] = up[cell] + tiny, down[cell] - tiny
        uphill[cell] = (loss_of(up) - loss_of(down)) / (2 * tiny)
    gradient = matrix(at, "learn_gradient")
    read = [a for a, _ in PAIRS] + [0, 0]  # padding reads an a
    summed = np.zeros((4, 4))
    np.add.at(summed, read, gradient)
    assert_allclose(summed, uphill, atol=1e-6)
    assert not gradient[8:].any()
    moved = table - 30 * uphill
    assert_allclose(heatmaps(at, "learn_table")["logits after the step"], moved, atol=1e-4)
    assert f"From {before:.4f} to **{loss_of(moved):.4f}**" in text_of(at)
    curve, level = chart(at, "rates")["data"]
    assert_allclose(level["y"], before, atol=1e-6)
    rates, losses = curve["x"], curve["y"]
    expected = [loss_of(table - rate * uphill) for rate in rates]
    assert_allclose(losses, expected, atol=1e-4)


def test_stated_lowest_loss_is_the_minimum() -> None:
    """It is 0.2387: after n, a has 2/3 and s 1/3; all other targets are certain."""
    none = 1e-9
    chances = [[none, none, 1, none], [1, none, none, none], [2, none, none, 1], [1, 1, 1, 1]]
    best = np.log(np.array(chances))
    assert loss_of(best) == pytest.approx(0.2387, abs=5e-5)
    lessons = learning.words()
    uphill = learning.gradient(best[lessons.inputs.flatten()], lessons.targets.flatten())
    of_rows = torch.zeros(4, 4).index_add_(0, lessons.inputs.flatten(), uphill)
    assert_allclose(of_rows, np.zeros((4, 4)), atol=1e-6)  # the minimum, as the loss is convex


def test_models_are_trained_on_request(tiny_training: None) -> None:
    at = chapter(learn_seed="3")
    assert not [t for t in at.dataframe if "it writes" in t.value]
    job = lesson.training(3)
    assert not job.running
    at.button(key="training_offer").click().run()
    job.wait(time.monotonic() + 60)
    assert job.share == 1
    at.run()
    (table,) = [t.value for t in at.dataframe if "it writes" in t.value]
    assert table["model"].tolist() == list(learning.PARTS)
    names, V = list(learning.PARTS), len(learning.corpus().letters)
    last = [learned.points[-1].loss for learned in job.result.values()]
    assert table["loss"].tolist() == last
    text = learning.corpus()
    for name, loss, wrote in zip(learning.PARTS, last, table["it writes"], strict=True):
        model = learning.build(name, len(text.letters), TINY, 3)
        points = list(learning.train(model, text, TINY, 3))
        assert points == list(job.result[name].points)
        n = (len(text.held_out) - 1) // TINY.T * TINY.T
        ids, follow = text.held_out[:n], text.held_out[1 : n + 1]
        with torch.inference_mode():
            logits = model(ids.view(-1, TINY.T)).flatten(0, 1)
        assert float(F.cross_entropy(logits, follow)) == pytest.approx(loss, abs=1e-5)
        assert len(wrote) == lesson.WRITTEN
        assert set(wrote) <= set(text.letters)
    for line, learned in zip(chart(at, "learn_losses")["data"], job.result.values(), strict=True):
        assert line["x"].tolist() == [2, 4, 6, 8]
        assert_allclose(line["y"], [point.loss for point in learned.points[1:]])
    counts = table["parameters"].tolist()
    own = [sum(p.numel() for p in learning.build(n, V, TINY, 3).parameters()) for n in names]
    assert counts == own
    change = [after - before for before, after in pairwise(last)]
    listed = ", ".join(f"{n} {x:+.3f}" for n, x in zip(names[1:], change, strict=True))
    assert listed.replace("-", "−") in text_of(at)
    assert f"The largest step down is {names[1 + int(np.argmin(change))]}." in text_of(at).replace(
        "*", ""
    )
    assert ("Each addition lowered the loss" in text_of(at)) == (max(change) < 0)
    assert any("optimizer.step()" in block.value for block in at.code)


def test_training_is_stopped_and_restarted(
    tiny_training: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = lesson.training(1)
    tell = job.tell

    def stop_early(share: float) -> None:
        if len(job.result) == 3:
            job.cancel()
        tell(share)

    monkeypatch.setattr(job, "tell", stop_early)
    job.start()
    job.wait(time.monotonic() + 60)
    assert job.cancelled
    assert not job.error
    assert 0 < job.share < 1
    assert list(job.result) == list(learning.PARTS)[:3]  # results so far are kept
    assert [bool(learned.written) for learned in job.result.values()] == [True, True, False]
    monkeypatch.setattr(job, "tell", tell)
    job.reset()
    job.start()
    job.wait(time.monotonic() + 60)
    assert (job.share, len(job.result)) == (1.0, len(learning.PARTS))


def test_only_one_training_runs_at_a_time(tiny_training: None) -> None:
    job = lesson.training(2)
    with lesson._ONE_AT_A_TIME:
        job.start()
        time.sleep(0.1)
        assert job.running
        assert not job.result
        job.cancel()
        job.wait(time.monotonic() + 20)
    assert not job.running
    assert not job.result
    job.reset()
    job.start()  # its turn, as the cancelled one left no claim
    job.wait(time.monotonic() + 60)
    assert job.share == 1


def test_curve_shows_the_training_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curves = json.loads((BUNDLED / "training.json").read_text(encoding="utf-8"))["curves"]
    at = chapter()
    line = chart(at, "learn_real")["data"][0]
    losses = [point["held_out_loss"] for point in curves]
    assert_allclose(line["y"], losses)
    first, last = losses[0], losses[-1]
    assert f"from {first:.2f} to **{last:.2f}** nats" in text_of(at)
    n_vocab = bundled_model().config.vocab_size
    assert np.exp(first) > n_vocab  # worse than uniform
    assert f"worse than knowing nothing, which costs ln {n_vocab:,} = {np.log(n_vocab):.2f}." in (
        text_of(at)
    )
    assert f"as unsure as among {np.exp(last):,.0f} equally likely tokens" in text_of(at)
    write_checkpoint(tmp_path / "plain")
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(tmp_path / "plain"))
    assert "has no record of its training" in text_of(chapter("A crane", model="plain"))

"""The page Training: the record of a training, and the numbers at each checkpoint."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz import settings
from gpt2viz.analysis.batch_scores import HABITS, Measured, measure_probe
from gpt2viz.app import checkpoint_runs, output, run_cache
from gpt2viz.app.run_cache import ByteLRUCache
from gpt2viz.labels import label
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.run.key import RunKey
from tests.app.cases import each
from tests.app.pages import (
    chart,
    data_of,
    finish,
    matrices,
    open_page,
    page_text,
    panels,
    pictures,
)
from tests.checkpoints import load_ahead, write_checkpoint
from tests.numpy_gpt2 import reference, softmax
from tests.oracles import Oracle, oracle, write_model

CURVES = json.loads((BUNDLED / "training.json").read_text(encoding="utf-8"))["curves"]


def test_record_and_card_are_shown() -> None:
    at = open_page("training")
    assert data_of(at, "steps")["map"]["chosen"] == np.argmax(CURVES[-1]["induction"]) > 0
    assert f"What {CURVES[-1]['tokens'] / 1e6:.1f} million tokens taught it" in page_text(at)
    assert any(f"measured {len(CURVES)} times" in block.help for block in at.caption)
    names = ("held_out_loss", "first_half_loss", "second_half_loss")
    for line, name in zip(chart(at, "losses")["data"], names, strict=True):
        assert_allclose(line["x"], [point["tokens"] for point in CURVES])
        assert_allclose(line["y"], [point[name] for point in CURVES])
    card = (BUNDLED / "README.md").read_text(encoding="utf-8")
    written = ["".join(re.findall(r"\w+", markdown.value)) for markdown in at.markdown]
    assert "".join(re.findall(r"\w+", card)) in written  # its punctuation is escaped there


@each("score", ["previous token", "induction", "first token"])
def test_drawn_scores_match_the_record(score: str) -> None:
    (drawn,) = matrices(open_page("training", score=score), "score_growth")
    rows, columns = drawn.grid["rows"], drawn.grid["columns"]
    stored = np.array([point[score.split()[0]] for point in CURVES])  # (P, n_layer, n_head)
    for layer, row in enumerate(np.moveaxis(stored, 0, -1)):
        for head, values in enumerate(row):
            assert_allclose(drawn.values[rows.index(f"{layer} · {head}")], values)
    assert len(columns) == len(set(columns)) == len(CURVES)


@pytest.mark.parametrize("record", [None, "[]"])
def test_missing_or_broken_record_is_one_message(
    record: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(folder := tmp_path / ("broken" if record else "plain"))
    if record:
        (folder / "training.json").write_text(record, encoding="utf-8")
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))
    at = open_page("training", model=folder.name, text="A crane")
    (message,) = at.error if record else at.info
    expected = "a record of this model's training" if record else "no `training.json`. The bundled"
    assert expected in message.value.replace("\\", "")
    assert not pictures(at)


TEXT, STEPS = "A crane ate fish", (1, 20, 300)
LLAMA = "qwen3, biases, a window in deeper layers"


@pytest.fixture
def model_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    list_models: Any,
) -> Path:
    """A model with three random checkpoints, the last of which is the model itself.

    All are run, even on a slow machine.
    """
    monkeypatch.setattr(checkpoint_runs, "PATIENCE", 60)
    folder, family = tmp_path / "grown", getattr(request, "param", "gpt2")
    for step in STEPS:
        write_model(folder / "steps" / f"step-{step}", family, step)
    write_model(folder, family, 300)
    list_models(folder)
    return folder


def tiles(data: Any, text: str) -> np.ndarray:
    whole = np.frombuffer(base64.b64decode(text), "<u2") / 65_534
    heads, side = data["map"], len(data["map"]["rows"])
    return whole.reshape(heads["layers"], heads["heads"], side, side)


def lens_probabilities(of: Oracle, run: Any) -> list[np.ndarray]:
    """Next-token probabilities read from the stream after the embeddings and each layer."""
    ends = [run["embedding"][-1], *(stream[-1] for stream in run["residual_out"])]
    return [softmax(of.unembedding @ of.normed(end, None)) for end in ends]


@pytest.mark.parametrize("model_folder", ["gpt2", LLAMA], indirect=True)
def test_every_point_matches_its_checkpoint(model_folder: Path) -> None:
    data = data_of(open_page("training", model="grown", text=TEXT, step="20"), "steps")
    model = gpt2viz.load_model(model_folder)
    ids = model.tokenizer.encode(TEXT)
    assert (data["steps"], data["at"]) == (list(STEPS), 1)
    loss = {line["name"]: line["y"] for line in data["curves"]["loss"]["curves"]}
    for n, (step, point) in enumerate(zip(STEPS, data["points"], strict=True)):
        of = oracle(model_folder / "steps" / f"step-{step}")
        run = of.run(ids, True)
        assert_allclose(tiles(data, point["tiles"]), run["weights"], atol=2e-5)
        probable = softmax(run["logits"][-1])
        assert_allclose([share for _, share in point["next"]], np.sort(probable)[:-6:-1], 1e-4)
        nats = -np.log(softmax(run["logits"])[range(len(ids) - 1), ids[1:]])
        assert_allclose([loss["your sentence"][n], point["loss"]], np.mean(nats), rtol=1e-4)
        for (token, share), probable in zip(
            point["lens"], lens_probabilities(of, run), strict=True
        ):
            assert token == label(model.tokenizer.token_bytes(int(probable.argmax())))
            assert_allclose(share, probable.max(), rtol=1e-4)
    first, *_, last = data["points"]
    assert data["final"] == last
    assert all(last[what] != first[what] for what in ("next", "lens", "loss"))
    assert data["stages"] == ["embeddings", "layer 0", "layer 1", "layer 2"]


def test_chosen_head_is_scored_at_every_point(model_folder: Path) -> None:
    page = open_page("training", model="grown", layer="2", head="1", against="0.3")
    data = data_of(page, "steps")
    assert data["map"]["chosen"] == 2 * 4 + 1
    lines = {line["name"]: line["y"] for line in data["curves"]["score"]["curves"]}
    assert {"previous token", "first token", "induction"} < {*HABITS}
    assert list(lines)[: len(HABITS)] == [*HABITS]
    (beside,) = [name for name in lines if name.startswith("0.3 ")]
    assert "The mask is off" not in page_text(page)
    unmasked = open_page("training", model="grown", layer="2", head="1", causal="false")
    assert "The mask is off for your sentence alone." in page_text(unmasked)
    off = {n["name"]: n["y"] for n in data_of(unmasked, "steps")["curves"]["score"]["curves"]}
    assert off["induction"] == lines["induction"]
    for n, step in enumerate(STEPS):
        result = checkpoint_runs.habits("grown", 1)[step].scores
        assert_allclose(lines["induction"][n], result["induction"][2, 1])
        assert_allclose(lines[beside][n], result[beside.removeprefix("0.3 ")][0, 3])
    words = page_text(page).replace("**", "")
    assert all(text in words for text in ("Head 2.1", "Head 0.3", "Olsson et al. 2022"))


@pytest.mark.parametrize("model_folder", [LLAMA], indirect=True)
def test_no_head_forms_at_a_duplicate_checkpoint(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(model: gpt2viz.Model) -> Measured:
        result = measure_probe(model)
        assert result is not None
        share = 0.4 if model.name == "grown, step 1" else 1
        return result._replace(scores={name: share * s for name, s in result.scores.items()})

    monkeypatch.setattr(checkpoint_runs, "measure_probe", measure)
    shutil.rmtree(model_folder / "steps" / "step-20")
    shutil.copytree(model_folder / "steps" / "step-300", model_folder / "steps" / "step-20")
    with pytest.warns(UserWarning, match="steps 20, 300 have the same weights"):
        at = open_page("training", model="grown", layer="2", head="1")
    (warning,) = at.warning
    assert "steps 20, 300 have the same weights" in warning.value.replace("\\", "")
    became = r"Head 2\.1 became a [a-z ()]+ head between steps 1 and 300\."
    assert re.search(became, page_text(at).replace("**", ""))
    assert [bool(heads) for heads in data_of(at, "steps")["formed"]] == [False, False, True]


def test_changes_between_points_are_measured_over_texts(model_folder: Path) -> None:
    at = open_page("training", step="20", since="1")
    texts = [f"{start} crane ate fish by the river" for start in ("A", "The", "One", "No", "My")]
    at.text_area("texts").set_value("\n".join(texts)).run()
    finish(at, "Compare over 5 texts")
    early, late = (gpt2viz.load_steps(model_folder)[step] for step in STEPS[:2])
    changes = gpt2viz.compare_models(early, late, texts, n_tokens=early.config.n_positions)
    assert changes.words() in page_text(at)
    assert_allclose(panels(at, "changes_map")[0], changes.mean["own output"], rtol=1e-3)
    at.toggle("changes_back").set_value(True).run()
    finish(at.selectbox("since").set_value(STEPS[2]).run(), "Compare over 5 texts")
    assert not at.toggle("changes_back").value  # as in a browser, where it was gone in between


def test_pictures_of_a_point_can_be_saved(model_folder: Path) -> None:
    page = open_page("training", model="grown", text=TEXT, step="20", layer="1", head="0")
    assert "Nothing was measured while this model learned" in page_text(page)
    shown: output.PageOutputs = page.session_state["_shown"]
    ids = gpt2viz.load_model(model_folder).tokenizer.encode(TEXT)
    head = shown.pictures["Weights of head 1.0 at step 20 and in the model itself"].matrices
    ends = []
    for panel, step in zip(head, (20, 300), strict=True):
        run = reference(model_folder / "steps" / f"step-{step}", ids, causal=True)
        assert_allclose(panel.values, run["weights"][1][0], rtol=1e-4, atol=1e-6)
        ends.append(run["next_token_probabilities"])
    assert "Next-token probabilities at step 20 and in the model itself" in shown.pictures
    assert "Loss during training" in shown.pictures
    lens = shown.pictures["Logit lens after the last token, at step 20 and in the model itself"]
    (panel,) = lens.matrices
    assert_allclose(panel.values[-1], [probable.max() for probable in ends], rtol=1e-4)


def test_points_not_read_in_time_are_requested_again(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_runs, "PATIENCE", -1.0)
    page = open_page("training", model="grown", step="20")
    assert [bool(point) for point in data_of(page, "steps")["points"]] == [False, True, False]
    monkeypatch.setattr(checkpoint_runs, "PATIENCE", 60.0)
    page.run()
    assert all(data_of(page, "steps")["points"])
    assert not data_of(page, "steps")["more"]
    checkpoint_runs._habits.clear()  # the heads' scores take longer than the sentence's runs
    monkeypatch.setattr(checkpoint_runs, "PATIENCE", -1.0)
    page.run()
    assert data_of(page, "steps")["more"]


def test_tokens_read_come_from_the_record(model_folder: Path) -> None:
    scores = [[0.0] * 4] * 3
    losses = dict.fromkeys(("held_out_loss", "first_half_loss", "second_half_loss"), 5.0)
    points = [{"step": n, "tokens": 1000 * n, "induction": scores, **losses} for n in (1, 300)]
    (model_folder / "training.json").write_text(json.dumps({"curves": points}), encoding="utf-8")
    data = data_of(open_page("training", model="grown"), "steps")
    assert data["when"] == ["step 1 · 1 k tokens read", "step 20", "step 300 · 300 k tokens read"]


def test_links_to_a_heads_formation(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(plain := model_folder.parent / "plain")
    monkeypatch.setenv(settings.MODELS_VARIABLE, os.pathsep.join(map(str, (model_folder, plain))))
    for page in ("head", "attention"):
        links = open_page(page, model="grown", layer="1", head="2").get("page_link")
        (link,) = [link.proto for link in links if link.proto.label == "When did this head form?"]
        assert link.page == "training"
        assert {"layer=1", "head=2", "model=grown"} <= set(link.query_string.split("&"))
    others = open_page("head", model="plain", layer="1", head="2").get("page_link")
    assert not [link for link in others if "form" in link.proto.label]


def test_unreadable_checkpoint_is_one_message(model_folder: Path) -> None:
    (model_folder / "steps" / "step-1" / "model.safetensors").write_bytes(b"junk")
    at = open_page("training", model="grown")
    assert len(at.error) == 1
    assert "not a whole safetensors file" in at.error[0].value.replace("\\", "")


def test_models_of_points_stay_within_the_owners_bound(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ByteLRUCache[gpt2viz.Model](int(2.5 * gpt2viz.load_model(model_folder).nbytes))
    monkeypatch.setattr(run_cache, "models", lambda: cache)
    ids = gpt2viz.load_model(model_folder).tokenizer.encode(TEXT)
    for step in STEPS:
        checkpoint_runs.run_at(RunKey("grown", tuple(ids), True), step)
    assert "grown" in cache
    assert [step for step in STEPS if ("grown", step) in cache] == [300]


def test_workers_use_shared_checkpoints(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_ahead(monkeypatch, {"grown": model_folder})
    monkeypatch.setattr(run_cache, "load_as", None)  # nothing is read again
    ids = gpt2viz.load_model(model_folder).tokenizer.encode(TEXT)
    for step, model in gpt2viz.load_steps(model_folder).items():
        alone = gpt2viz.trace(model, ids).next_token_probabilities[0]
        result = checkpoint_runs.run_at(RunKey("grown", tuple(ids), True), step)
        assert_allclose([p for _, p in result.following], np.sort(alone)[::-1][:5], rtol=1e-5)


def test_shortest_text_at_an_unknown_step(model_folder: Path) -> None:
    at = open_page("training", model="grown", text="A", step="7")
    data = data_of(at, "steps")
    assert (len(data["map"]["rows"]), data["at"]) == (1, 1)
    assert "your sentence" not in [line["name"] for line in data["curves"]["loss"]["curves"]]
    assert "step: 7 can't be shown here" in "\n".join(block.value for block in at.warning)

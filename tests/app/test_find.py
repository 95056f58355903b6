"""The page Find: every number is recomputed from the NumPy GPT-2, with loops."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz import settings
from gpt2viz.analysis.scores import SCORES
from gpt2viz.analysis.weight_scores import WEIGHT_SCORES, weight_scores
from gpt2viz.app import address, clicks, output, parameters
from gpt2viz.app.views import ranked_heads
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.survey.engines import local
from gpt2viz.survey.run import survey
from tests.analysis.head_scores import expected_scores
from tests.app.cases import each
from tests.app.pages import (
    button_groups,
    frames,
    heatmaps,
    matrices,
    open_page,
    panels,
    pictures,
    plain,
    titles,
)
from tests.bundled import HS, N_HEAD, N_LAYER, VOCABULARY, bundled_model, ids_of, stages, weights
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import Tolerance, read, reference

TEXT = "When Mary and John went to the garden, John gave the flower to Mary"
TOLERANCE: Tolerance = {"rtol": 2e-4, "atol": 2e-4}


def test_maps_of_the_atlas_match_numpy() -> None:
    at = open_page("find", text=TEXT)
    half = np.random.default_rng(0).choice(VOCABULARY, 50, replace=False)
    probe = [int(n) for n in half] * 2
    texts = {
        "your sentence": (stages(TEXT), ids_of(TEXT)),
        "random tokens, repeated": (reference(BUNDLED, probe, causal=True), probe),
    }
    drawn = {matrix.name: matrix.values for matrix in matrices(at, "atlas_maps")}
    # The bundled model's survey and the scores of its weights have rows of their own.
    assert len(drawn) == 3 * len(SCORES) + len(WEIGHT_SCORES)
    for text, (run, words) in texts.items():
        for layer, heads in enumerate(run["weights"]):
            for name, scores in expected_scores(heads, words).items():
                shown = drawn[f"{SCORES[name].title}, {text}"][layer]
                assert_allclose(shown, scores, rtol=1e-3, atol=1e-3)


def test_ranking_has_the_chosen_score_of_the_chosen_text() -> None:
    at = open_page("find", text=TEXT, habit="duplicate token", on="sentence", only="2,3")
    table = at.dataframe[0].value
    assert list(table.columns[:3]) == ["layer", "head", "duplicate token"]
    assert set(table["layer"]) == {2, 3}
    assert list(table["duplicate token"]) == sorted(table["duplicate token"], reverse=True)
    for row in table.to_dict("records"):
        scores = expected_scores(weights(TEXT)[row["layer"]], ids_of(TEXT))
        for name, values in scores.items():
            assert row[SCORES[name].title] == pytest.approx(values[row["head"]], abs=1e-3)
    best = [f"{row['layer']}.{row['head']}" for row in table.head(4).to_dict("records")]
    pictures = heatmaps(at, "best_heads")
    assert list(pictures) == best
    layer, head = map(int, best[0].split("."))
    assert_allclose(pictures[best[0]], weights(TEXT)[layer][head], **TOLERANCE)


def test_ranking_by_the_weights_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_checkpoint(tmp_path / "weighed")
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))
    at = open_page("find", model="weighed", text="A crane ate fish", on="weights")
    expected = weight_scores(gpt2viz.load_model(folder))
    drawn = {matrix.name: matrix for matrix in matrices(at, "atlas_maps")}
    for name, scores in expected.items():
        shown = drawn[f"{WEIGHT_SCORES[name].title}, weights alone"]
        assert_allclose(shown.values, scores, rtol=1e-6)
        assert shown.panel["low"] == WEIGHT_SCORES[name].lowest
    assert drawn["offset, weights alone"].panel["high"] == expected["offset"].max()
    table = at.dataframe[0].value
    assert list(table.columns) == [
        "layer",
        "head",
        "copying (OV)",
        *(n for n in expected if n != "copying"),
    ]
    assert list(table["copying (OV)"]) == sorted(expected["copying"].ravel(), reverse=True)
    for row in table.to_dict("records"):
        for name, scores in expected.items():
            assert row[WEIGHT_SCORES[name].title] == scores[row["layer"], row["head"]]
    assert any("It raises the logit of" in plain(block.value) for block in at.markdown)
    both = open_page("find", model="weighed", text="A crane ate", on="weights", habit="first token")
    assert list(both.dataframe[0].value.columns)[2] == "first token", "both kinds of row have it"
    assert not both.warning


def test_chosen_head_replaces_the_best_heads() -> None:
    find = {"text": TEXT, "habit": "entropy", "on": "sentence", "layer": "3", "head": "1"}
    at = open_page("find", **find, only="0")
    shown = heatmaps(at, "best_heads")
    assert list(shown) == ["3.1"], "whichever layers are listed"
    assert_allclose(shown["3.1"], weights(TEXT)[3][1], **TOLERANCE)
    assert set(map(tuple, frames(at, "atlas_maps"))) == {(3, 3, 1, 1)}
    at.button(key="best_instead").click().run()
    assert {name[0] for name in heatmaps(at, "best_heads")} == {"0"}
    assert not {"layer", "head"} & set(at.query_params)
    assert not frames(at, "atlas_maps")
    other = open_page("find", text=TEXT, find="head", layer="3", head="1")
    assert len(heatmaps(other, "best_heads")) == 4, "it is shown large beside the map"


def test_clicks_on_maps_rows_and_pictures_choose_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    put, rows = dict[Any, Any](), list[int]()
    monkeypatch.setattr(address, "put", lambda parameter, value: put.update({parameter: value}))
    clicks.choose_named_head(clicks.Cell("2.3", 9, 9))
    assert put == {parameters.LAYER: 2, parameters.HEAD: 3}
    clicks.choose_map_head({parameters.QUERY: 7, parameters.KEYS: [1, 4]})(clicks.Cell("", 1, 5))
    assert (put.pop(parameters.QUERY), put.pop(parameters.KEYS)) == (7, [1, 4])
    assert put == {parameters.LAYER: 1, parameters.HEAD: 5}
    for ticked in ([1], []):  # a ticked row, then none
        monkeypatch.setattr("streamlit.session_state", {"ranking": {"selection": {"rows": ticked}}})
        output._choose_row("ranking", rows.append)
    assert rows == [1]


def test_ticked_row_and_chosen_head_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, answers, heads = output.table, list[Any](), list[Any]()
    monkeypatch.setattr(output, "table", lambda *of, **how: answers.append(how) or draw(*of, **how))
    monkeypatch.setattr(ranked_heads, "choose_head", lambda *head: heads.append(head))
    at = open_page("find", layer="2", head="3")
    table = next(iter(at.session_state["_shown"].tables.values()))
    answers[0]["choose"](1)
    assert heads == [(table["layer"][1], table["head"][1])]
    chosen = (table["layer"] == 2) & (table["head"] == 3)
    assert at.session_state["ranking"]["selection"]["rows"] == list(np.flatnonzero(chosen))
    at.button(key="best_instead").click().run()
    assert at.session_state["ranking"]["selection"]["rows"] == []


def test_one_token_has_no_score() -> None:
    at = open_page("find", text="A", on="sentence", layer="0", head="1")
    assert titles(at, "atlas_maps").count("nothing to\nmeasure") == 8
    assert "“copying (induction)” can't be measured" in at.info[0].value
    assert not at.dataframe
    assert len(pictures(at)) == 1


def test_heads_that_attend_from_a_query_to_keys() -> None:
    size = "vector length"  # as short as its column in a window of 1000 pixels
    at = open_page("find", text=TEXT, find="look", query="14", keys="1,3", rank=size)
    alpha = weights(TEXT)[:, :, 14, [1, 3]]  # (n_layer, nh, 2)
    v = np.array(stages(TEXT)["v"])[:, :, [1, 3]]
    drawn = heatmaps(at, "map_attention weight")["attention weight"]
    assert_allclose(drawn, alpha.sum(axis=2), **TOLERANCE)
    for layer, shown in enumerate(heatmaps(at, f"map_{size}")[size]):
        W_O = read(BUNDLED).w[f"h.{layer}.attn.c_proj.weight"].reshape(N_HEAD, HS, -1)
        added = alpha[layer][:, None] @ v[layer] @ W_O  # (nh, 1, C)
        assert_allclose(shown, np.linalg.norm(added[:, 0], axis=1), rtol=2e-3, atol=2e-3)
    table = at.dataframe[0].value
    assert list(table[size]) == sorted(table[size], reverse=True)


def keys(at: Any) -> Any:
    (pills,) = [group for group in button_groups(at) if group.proto.id.endswith("-keys")]
    return pills


def test_only_visible_keys_are_offered() -> None:
    for causal, offered in (("true", 5), ("false", 15)):
        at = open_page("find", text=TEXT, find="look", query="4", causal=causal)
        assert len(keys(at).proto.options) == offered


def test_initial_query_and_key() -> None:
    """They have the chosen head's largest weight off the diagonal and first column."""
    others = weights(TEXT)[2][1].copy()
    np.fill_diagonal(others, 0)
    others[:, 0] = 0
    hardest = int(others.max(axis=1).argmax())
    for chosen, query in (({}, hardest), ({"query": "9"}, 9)):
        at = open_page("find", text=TEXT, find="look", layer="2", head="1", **chosen)
        key = int(others[query].argmax())
        shown = heatmaps(at, "map_attention weight")["attention weight"]
        assert_allclose(shown, weights(TEXT)[:, :, query, key], **TOLERANCE)
        (text,) = [plain(c.value) for c in at.caption if "Example" in c.value]
        assert "in head 2.1, " in text
        assert f"({query}) attends to " in text
        assert f"({key}), with weight {others[query, key]:.2f}." in text
    first = open_page("find", text="A crane", find="look", query="0")
    shown = heatmaps(first, "map_attention weight")["attention weight"]
    itself = np.ones((N_LAYER, N_HEAD))  # the first token sees nothing else
    assert_allclose(shown, itself, **TOLERANCE)
    assert not any("Example" in c.value for c in first.caption)


def test_query_is_kept_when_keys_are_chosen() -> None:
    at = open_page("find", text=TEXT, find="look", layer="2", head="1")
    text = next(c.value for c in at.caption if "Example" in c.value)
    query = int(re.findall(r"\((\d+)\) attends to ", text)[0])
    (first,) = at.session_state["keys"]
    keys(at).set_value([first, 0]).run()
    assert at.query_params["query"] == str(query)
    assert at.query_params["keys"] == "0", "replacing the default key"
    keys(at).set_value([0, first]).run()
    assert set(at.query_params["keys"].split(",")) == {str(first), "0"}
    assert not any("Example" in c.value for c in at.caption)


def cosines(pattern: np.ndarray, since: int = 1) -> np.ndarray:
    """(n_layer, nh): cosine similarities of the rows from ``since`` on with a pattern's."""
    rows = weights(TEXT)[:, :, since:].reshape(N_LAYER, N_HEAD, -1)
    of = pattern[since:].ravel()
    result: np.ndarray = rows @ of / np.linalg.norm(rows, axis=-1) / np.linalg.norm(of)
    return result


def test_heads_similar_to_a_drawn_pattern() -> None:
    at = open_page("find", text=TEXT, find="pattern", pattern="stripes", n="3", cells="7:2,9:6")
    expected = np.zeros((15, 15))
    for t in range(15):
        keys = [j for j in range(t) if (t - j) % 3 == 0]
        if t == 7:
            keys.append(2)
        if t == 9:
            keys.remove(6)
        for j in keys:
            expected[t, j] = 1 / len(keys)
    assert_allclose(heatmaps(at, "drawn")["pattern"], expected, rtol=1e-6)
    shown = heatmaps(at, "map_similarity")["cosine similarity"]
    assert_allclose(shown, cosines(expected, since=3), atol=1e-3)
    assert at.button[-1].label == "Clear 2 painted cells"
    assert any("divides all its weight equally" in caption.value for caption in at.caption)
    at.selectbox(key="pattern").set_value("empty").run()
    assert not at.exception
    assert at.query_params.get("cells") is None
    assert "The pattern is empty" in at.info[0].value
    at.selectbox(key="pattern").set_value("column").run()
    assert heatmaps(at, "drawn")["pattern"][:, 0].all()


def test_heads_similar_to_a_chosen_head() -> None:
    at = open_page("find", text=TEXT, find="head", layer="2", head="3")
    assert_allclose(heatmaps(at, "chosen_head")["weights"], weights(TEXT)[2][3], **TOLERANCE)
    shown = heatmaps(at, "map_similarity")["cosine similarity"]
    assert shown[2, 3] == pytest.approx(1)
    assert_allclose(shown, cosines(weights(TEXT)[2][3]), atol=1e-3)
    table = at.dataframe[0].value
    assert (table["layer"][0], table["head"][0]) == (2, 3)


def test_similarity_of_all_heads() -> None:
    at = open_page("find", text=TEXT, find="all", alike="0.8")
    (drawn,) = matrices(at, "alike_map")
    names, shown = drawn.grid["columns"], drawn.values
    assert sorted(names) == [f"{n}.{head}" for n, head in np.ndindex(N_LAYER, N_HEAD)]
    layers, heads = ([int(name[i]) for name in names] for i in (0, 2))
    for row, layer, head in zip(shown, layers, heads, strict=True):
        assert_allclose(row, cosines(weights(TEXT)[layer][head])[layers, heads], atol=1e-3)
    table = at.dataframe[0].value
    assert len(frames(at, "alike_map")) == len(table) > 0
    assert list(table)[-1] == "layer.head"  # a long list of heads hides no other column
    group = table["layer.head"][0].split()
    assert table["least alike"][0] == pytest.approx(
        min(shown[names.index(a), names.index(b)] for a in group for b in group), abs=1e-6
    )
    at = open_page("find", text=f"{TEXT}. {TEXT}", find="all", alike="0.95")
    assert any("No two heads are this similar" in text.value for text in at.markdown)


DID = ["ate", "lifted", "crossed the street for", "said it's", "was tired, and she'll say", "42"]


@each("n_documents", [2, 6])
def test_scores_of_a_survey_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_documents: int
) -> None:
    """They match the files; ``tests/survey/test_survey.py`` checks those against NumPy."""
    folder = write_checkpoint(tmp_path / f"surveyed{n_documents}")
    texts = [f"A crane ate fish. A crane {did} <b>steel</b>, twice." for did in DID[:n_documents]]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    survey(tmp_path / "texts.txt", folder, folder / "survey", 10, "cpu", local(1))
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))
    at = open_page("find", model=folder.name, text="A crane", on="texts", habit="entropy")
    stored = pd.read_csv(folder / "survey" / "heads.csv").set_index("score")
    drawn = {matrix.name: matrix.values for matrix in matrices(at, "atlas_maps")}
    for name in stored.index.unique():
        assert_allclose(
            drawn[f"{SCORES[name].title}, many texts"].ravel(),
            stored.loc[name, "mean"],
            rtol=1e-5,
            atol=1e-6,
        )
    table, passages = (frame.value for frame in at.dataframe)
    rows = stored.loc["entropy"].sort_values("mean", ascending=False)
    assert_allclose(table["entropy"], rows["mean"])
    assert_allclose(table["± (95 %)"], rows["high"] - rows["mean"])
    assert any(f"only the {n_documents} documents" in caption.value for caption in at.caption)
    best = pd.read_csv(folder / "survey" / "passages.csv")
    assert passages["value"].max() == best[best["score"] == "entropy"]["value"].max()
    assert set(passages["text"]) <= set(best["text"])


def test_score_missing_in_a_survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_checkpoint(tmp_path / "older")
    (tmp_path / "texts.txt").write_text(f"{TEXT}\n{TEXT}", encoding="utf-8")
    survey(tmp_path / "texts.txt", folder, folder / "survey", 10, "cpu", local(1))
    table = folder / "survey" / "heads.csv"
    lines = table.read_text(encoding="utf-8").splitlines(keepends=True)
    table.write_text("".join(line for line in lines if "entropy" not in line), encoding="utf-8")
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))
    at = open_page("find", model="older", text="A crane ate", on="texts", habit="entropy")
    assert not at.warning
    maps = panels(at, "atlas_maps")
    assert len(maps) == 3 * len(SCORES) + len(WEIGHT_SCORES)
    of_texts = maps[2 * len(SCORES) : 3 * len(SCORES)]
    absent = [name == "entropy" for name in SCORES]
    assert [np.isnan(matrix).all() for matrix in of_texts] == absent
    assert titles(at, "atlas_maps").count("not in this\nsurvey") == 1
    assert ["lacks “entropy”" in info.value for info in at.info] == [True]
    assert not at.dataframe


def test_bundled_survey_matches_the_bundled_model() -> None:
    """If this fails after new weights: make survey CORPUS=…"""
    at = open_page("find", text="A crane", on="texts", habit="induction")
    assert not at.warning
    text = " ".join(caption.value for caption in at.caption)
    assert "held out from its training" in text
    assert "only the 55 documents" in text
    stored = pd.read_csv(BUNDLED / "survey" / "passages.csv", keep_default_na=False)
    model, n_matching = bundled_model(), 0
    for name, rows in stored.groupby("score"):
        best = rows.sort_values("value").iloc[-1]
        ids = model.tokenizer.encode(best["text"])
        if model.tokenizer.decode(ids) == best["text"] and len(ids) <= 64:
            heads = reference(BUNDLED, ids, causal=True)["weights"][best["layer"]]
            score = expected_scores(heads, ids)[name][best["head"]]
            n_matching += score == pytest.approx(best["value"], abs=2e-3)
    assert n_matching >= 6  # a passage cut within a word may have other tokens by itself
    assert sum(file.stat().st_size for file in (BUNDLED / "survey").iterdir()) < 300_000


def test_survey_of_other_weights_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_checkpoint(tmp_path / "stale")
    (folder / "survey").mkdir()
    (folder / "survey" / "heads.csv").write_text("score\n")
    (folder / "survey" / "survey.json").write_text('{"model": "another"}')
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))
    at = open_page("find", model="stale", text="A crane")
    assert ["made with other weights" in warning.value for warning in at.warning] == [True]
    assert len(panels(at, "atlas_maps")) == 2 * len(SCORES) + len(WEIGHT_SCORES)

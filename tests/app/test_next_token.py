"""The Predictions page: its numbers against the NumPy GPT-2, its widgets by what they change."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import array, figure, heatmaps, open_page
from tests.bundled import N_HEAD, N_LAYER
from tests.numpy_gpt2 import Tolerance, reference, softmax

TEXT = "The animal didn't cross the street because it was too tired"
TOLERANCE: Tolerance = {"rtol": 2e-4, "atol": 2e-4}


@pytest.fixture(scope="module")
def model() -> gpt2viz.Model:
    return gpt2viz.load_model()


@pytest.fixture(scope="module")
def stages(model: gpt2viz.Model) -> Any:
    return reference(BUNDLED, model.tokenizer.encode(TEXT), causal=True)


@pytest.mark.parametrize("query", [None, 4])
def test_the_whole_vocabulary_is_accounted_for(stages: Any, query: int | None) -> None:
    at = open_page("predict", text=TEXT, **({} if query is None else {"query": str(query)}))
    expected = 100 * softmax(stages["logits"][-1 if query is None else query])
    table = at.dataframe[0].value
    best = np.argsort(-expected)[:12]
    assert list(table["id"][:12]) == list(best)
    assert_allclose(table["model (%)"][:12], expected[best], rtol=2e-3)
    assert table["token"].iloc[-1] == "all other 5,108 tokens"
    assert table["model (%)"].sum() == pytest.approx(100)
    assert "drawn from (%)" not in table  # it would say the same
    bits = -(expected / 100 * np.log2(expected / 100)).sum()
    assert at.metric[0].value.endswith(" bits")
    assert float(at.metric[0].value.split()[0]) == pytest.approx(bits, abs=0.011)
    bars = figure(at, "next_tokens")["data"]
    assert len(bars) == 1
    assert_allclose(array(bars[0]["x"]), table["model (%)"])


def test_sampling_settings_stand_beside_the_model(stages: Any) -> None:
    at = open_page("predict", text=TEXT, temperature="0.5", top_k="5", top_p="0.9")
    p = softmax(2 * stages["logits"][-1])
    best = np.argsort(-p)[:5]
    shares = p[best] / p[best].sum()
    kept = best[: int((shares.cumsum() < 0.9).sum()) + 1]
    table = at.dataframe[0].value
    expected = [100 * p[n] / p[kept].sum() if n in kept else 0 for n in table["id"][:12]]
    assert_allclose(table["drawn from (%)"], [*expected, 0], atol=0.05)
    assert len(figure(at, "next_tokens")["data"]) == 2
    assert [metric.value for metric in at.metric][1] == str(len(kept))


def test_surprise_of_every_token(model: gpt2viz.Model, stages: Any) -> None:
    at = open_page("predict", text=TEXT)
    ids = model.tokenizer.encode(TEXT)
    p = softmax(stages["logits"])
    expected = [-np.log2(p[n, ids[n + 1]]) for n in range(len(ids) - 1)]
    shown = array(figure(at, "surprise")["data"][0]["y"])
    assert np.isnan(shown[0])
    assert_allclose(shown[1:], expected, rtol=1e-3)
    off = open_page("predict", text=TEXT, causal="false")
    assert "already seen" in " ".join(caption.value for caption in off.caption)


def test_the_lens_ends_in_the_models_own_prediction(model: gpt2viz.Model, stages: Any) -> None:
    at = open_page("predict", text=TEXT)
    shown = heatmaps(figure(at, "lens_map"))["lens"]
    p = softmax(stages["logits"])
    assert shown.shape == (9, 10)
    assert_allclose(shown[-1], p.max(axis=1)[2:], **TOLERANCE)
    names = figure(at, "lens_map")["data"][0]["text"]
    ids = p.argmax(axis=1)[2:]
    expected = [model.tokenizer.token_bytes(int(n)).decode().replace(" ", "·") for n in ids]
    assert [name[:5] for name in names[-1]] == [name[:5] for name in expected]
    told = figure(at, "lens_map")["data"][0]["customdata"]
    assert [text.splitlines()[1] for text in told[-1]] == [
        f"the answer {name} has rank 1" for name in expected
    ]
    assert [text.splitlines()[0] for text in told[-1]] == [
        f"{name} {100 * share:.3f} %" for name, share in zip(expected, shown[-1], strict=True)
    ]


def test_contributions_and_what_they_sum_to(stages: Any) -> None:
    at = open_page("predict", text=TEXT, explain="·and", minus=",")
    names = gpt2viz.load_model().tokenizer
    (one,), (other,) = names.encode(" and"), names.encode(",")
    logits = stages["logits"][-1]
    table = at.dataframe[1].value
    assert table["added (nats)"].sum() == pytest.approx(logits[one] - logits[other], abs=1e-3)
    (said,) = [block.value for block in at.markdown if "The parts below" in block.value]
    written = [float(n.replace("−", "-")) for n in re.findall(r"[+−]\d+\.\d{4}", said)]
    assert_allclose(written, [logits[one] - logits[other]] * 2, atol=1e-3)
    shown = heatmaps(figure(at, "contribution_map"))["contributions"]
    assert shown.shape == (N_LAYER, N_HEAD + 2)
    by_part = dict(zip(table["part"], table["added (nats)"], strict=True))
    assert shown[2, 3] == pytest.approx(by_part["layer 2, head 3"])
    assert shown[1, N_HEAD + 1] == pytest.approx(by_part["layer 1, MLP"])


def test_what_nobody_chose_follows_the_sentence() -> None:
    at = open_page("predict", text=TEXT)
    at.query_params["query"] = "4"
    at.run()
    reloaded = open_page("predict", **at.query_params)
    assert "explain" not in at.query_params
    assert at.selectbox(key="explain").value == reloaded.selectbox(key="explain").value
    best = at.dataframe[0].value["token"][0]
    assert at.selectbox(key="explain").value == best
    fifth = at.selectbox(key="explain").options[4]
    at.selectbox(key="explain").set_value(fifth).run()
    at.query_params["query"] = "7"
    at.run()
    assert at.selectbox(key="explain").value == fifth


def test_a_token_can_be_typed_as_people_write_it(stages: Any) -> None:
    at = open_page("predict", text=TEXT, explain="crane")
    (crane,) = gpt2viz.load_model().tokenizer.encode(" crane")
    total = at.dataframe[1].value["added (nats)"].sum()
    assert total == pytest.approx(stages["logits"][-1][crane], abs=1e-3)


def test_what_is_no_token_gets_one_message() -> None:
    at = open_page("predict", text=TEXT, explain="<b>antidisestablishment")
    assert len(at.warning) == 1
    assert "is not a single token" in at.warning[0].value


def test_long_texts_show_a_window_of_the_lens() -> None:
    text = " ".join(["the bank of the river"] * 8)
    at = open_page("predict", text=text, query="3")
    columns = figure(at, "lens_map")["data"][0]["x"]
    assert len(columns) == 10
    assert columns[0].startswith("0 ")
    (frame,) = figure(at, "lens_map")["layout"]["shapes"]
    assert (frame["x0"], frame["x1"]) == (2.5, 3.5)  # the chosen token's column
    at = open_page("predict", text=text)
    assert_array_equal(len(figure(at, "lens_map")["data"][0]["x"]), 10)
    assert any("Tokens 30 to 39 are shown" in caption.value for caption in at.caption)

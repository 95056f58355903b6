"""The Two texts page: its numbers against the NumPy GPT-2, and how tokens are brought together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.checkpoint import BUNDLED
from tests.app.pages import array, figure, heatmaps, open_page
from tests.parity.numpy_gpt2 import reference

FIRST, VERB, AFTER = "A crane ate fish", "A crane lifted steel", "The steel was lifted by a crane"
TOLERANCE = {"rtol": 2e-3, "atol": 2e-3}


def runs(*texts: str, causal: bool = True) -> list[Any]:
    encode = gpt2viz.load_model().tokenizer.encode
    return [reference(BUNDLED, encode(text), causal) for text in texts]


def lines(at: AppTest) -> dict[str, np.ndarray]:
    return {line["name"]: array(line["y"]) for line in figure(at, "path")["data"]}


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def chosen(at: AppTest) -> list[int]:
    (pills,) = [g for g in at.get("button_group") if g.proto.id.endswith("-_match_chosen")]
    return pills.value


def test_before_the_verb_crane_is_the_same_to_the_last_digit() -> None:
    at = open_page("two", text=FIRST, text2=VERB)
    on, off = at.metric
    assert on.value == "0 exactly"
    one, other = runs(FIRST, VERB, causal=False)
    keys = ("residual_mid", "residual_out", "attention_output", "mlp_output")
    apart = max(
        np.abs(x[1] - y[1]).max() for k in keys for x, y in zip(one[k], other[k], strict=True)
    )
    assert float(off.value) == pytest.approx(apart, rel=0.01)
    assert any("same to the last digit" in text.value for text in at.markdown)
    assert (lines(at)["mask on: stream"] == 1).all()


@pytest.mark.parametrize("causal", [True, False])
def test_the_path_of_crane_after_its_context(causal: bool) -> None:
    at = open_page("two", text=FIRST, text2=AFTER)
    one, other = runs(FIRST, AFTER, causal=causal)
    mask = "mask on" if causal else "mask off"
    stream = [1.0, cosine(one["embedding"][1], other["embedding"][6])]
    added = []
    for layer in range(4):
        for after, part in (("residual_mid", "attention_output"), ("residual_out", "mlp_output")):
            stream.append(cosine(one[after][layer][1], other[after][layer][6]))
            added.append(cosine(one[part][layer][1], other[part][layer][6]))
    assert_allclose(lines(at)[f"{mask}: stream"], stream, **TOLERANCE)
    assert_allclose(lines(at)[f"{mask}: added by the part"], added, **TOLERANCE)


def test_where_the_word_looks_in_both_texts() -> None:
    at = open_page("two", text=FIRST, text2=AFTER, layer="2", head="3")
    one, other = (run["weights"][2][3] for run in runs(FIRST, AFTER))
    assert_allclose(heatmaps(figure(at, "weights_first_text"))["weights"], one, **TOLERANCE)
    assert_allclose(heatmaps(figure(at, "weights_second_text"))["weights"], other, **TOLERANCE)
    change = heatmaps(figure(at, "difference"))["difference"]
    # partners: A stands where The does, crane is crane
    expected = one[np.ix_([0, 1], [0, 1])] - other[np.ix_([0, 6], [0, 6])]
    assert_allclose(change, expected, **TOLERANCE)
    first, second = figure(at, "bars")["data"]
    ticks = figure(at, "bars")["layout"]["xaxis"]["ticktext"]
    crane = ticks.index("·crane")
    assert array(first["y"])[crane] == pytest.approx(one[1, 1], abs=2e-3)
    assert array(second["y"])[crane] == pytest.approx(other[6, 6], abs=2e-3)
    assert np.nansum(array(second["y"])) == pytest.approx(1, abs=1e-5)
    assert np.isnan(array(first["y"])[ticks.index("–<br>·steel")])


def test_nearest_tokens() -> None:
    at = open_page("two", text=FIRST, text2=AFTER)
    table = at.dataframe[0].value
    weights = gpt2viz.load_model().network.wte.weight.detach().numpy().astype(np.float64)
    rows = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    names = gpt2viz.load_model().tokenizer
    for run, position, column in zip(runs(FIRST, AFTER), (1, 6), table.columns, strict=True):
        x = run["residual_out"][3][position]
        cosines = rows @ x / np.linalg.norm(x)
        best = int(cosines.argmax())
        written = names.token_bytes(best).decode().replace(" ", "·")
        assert table[column].iloc[-1].startswith(f"{written} {cosines[best]:.2f}")
        assert table[column].iloc[0].startswith("·crane 1.00")


def test_partners_and_the_readers_own() -> None:
    at = open_page("two", text=FIRST, text2=AFTER, query="1")
    assert chosen(at) == 6
    at = open_page("two", text=FIRST, text2=AFTER, query="1", match="1:3")
    assert chosen(at) == 3
    one, other = runs(FIRST, AFTER)
    expected = cosine(one["residual_out"][3][1], other["residual_out"][3][3])
    assert lines(at)["mask on: stream"][-1] == pytest.approx(expected, abs=2e-3)
    at = open_page("two", text=FIRST, text2="A crane", query="3")
    assert "no partner" in at.info[0].value
    assert not at.get("plotly_chart")


def test_an_empty_second_text_and_one_that_is_too_long() -> None:
    at = open_page("two", text=FIRST, text2="")
    assert at.info[0].value.startswith("Second sentence: There is no text yet")
    assert not at.get("plotly_chart")
    at = open_page("two", text=FIRST, text2="fish " * 300)
    assert at.info[0].value.startswith("Second sentence: ")


def test_end_of_text_comes_first_in_both() -> None:
    at = open_page("two", text=FIRST, text2=VERB, endoftext="true")
    assert heatmaps(figure(at, "weights_second_text"))["weights"].shape == (5, 5)

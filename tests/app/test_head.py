"""The page Head: by its weights alone, a copying head, and the check of shown weights."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis.circuits import Ranked, Scored, head_circuit
from gpt2viz.analysis.weight_scores import weight_scores
from gpt2viz.arrays import Array
from gpt2viz.labels import label
from gpt2viz.pictures.circuits import token_table
from gpt2viz.survey.stored import read_survey
from tests.app.cases import each
from tests.app.pages import chart, heatmaps, open_page, page_text, plain, press
from tests.bundled import (
    CATS,
    HEADS,
    HS,
    N_HEAD,
    N_LAYER,
    TWICE,
    back,
    bundled_model,
    copier,
    copiers_of,
    ids_of,
    itself,
    stages,
    weights,
)


def test_copying_head_of_the_bundled_model() -> None:
    layer, head = copier()
    chosen = {"text": CATS, "layer": str(layer), "head": str(head), "query": "1"}
    at = open_page("head?see=weights", **chosen)
    model = bundled_model()
    run = gpt2viz.trace(model, CATS)
    circuit = head_circuit(model, layer, head)
    shown = heatmaps(at, "predicted")
    pairs = []
    for name, scores in (
        ("weights", circuit.scores(run.token_ids)),
        ("run", run.stage("scores", layer, head)),
    ):
        for query in range(len(run.token_ids)):
            row = scores[query, : query + 1] / HS**0.5
            assert_allclose(shown[name][query, : query + 1], row - row.mean(), atol=1e-4)
        pairs.append(shown[name][1:][np.tri(9, 10, k=1, dtype=bool)])
    texts = [plain(text.value) for text in (*at.markdown, *at.caption)]
    r = np.corrcoef(*pairs)[0, 1]
    assert any(f"in this sentence (r = {r:.2f}).**" in text for text in texts)
    every = np.array(
        [[head_circuit(model, n, h).copying_score for h in range(N_HEAD)] for n in range(N_LAYER)]
    )
    rank = 1 + int((every > every[layer, head]).sum())
    assert f"Copying score {every[layer, head]:+.2f}: number {rank} of {HEADS} heads." in texts
    tokens, partners = (table.value for table in at.dataframe)
    token = run.token_ids[1]
    for column, (of, value) in zip(
        tokens.columns,
        (
            circuit.writes(token, 1).most[0],
            circuit.writes(token, 1).least[0],
            circuit.top_keys(token, 1).most[0],
            circuit.top_keys(token, 1).least[0],
        ),
        strict=True,
    ):
        name = label(model.tokenizer.token_bytes(of))
        assert tokens[column][0] == f"{name}  {value:+.1f}".replace("-", "−")
    assert any("likely when it attends to “·cat”." in text for text in texts)
    assert partners.iloc[0, :3].tolist() == ["{}.{}".format(*back()), f"{layer}.{head}", "K"]
    assert partners["z"][0] > 20
    assert_allclose(chart(at, "places")["data"][0]["y"], circuit.by_distance.mean[:65])


def test_weights_predict_scores_of_the_first_layer() -> None:
    at = open_page("head?see=weights", text=CATS, layer="0", head="0")
    shown = heatmaps(at, "predicted")
    assert_allclose(shown["weights"], shown["run"], atol=1e-4)
    assert "alone predict this head's scores in this sentence (r = 1.00).**" in page_text(at)
    assert "layer 0 reads nothing else" in page_text(at)
    assert "attend most to the key 1 token back (1.00) of all distances" in page_text(at)


def test_two_tokens_are_too_few_to_compare() -> None:
    """A row of two minus its mean is a number and its opposite, which always correlate."""
    at = open_page("head?see=weights", text="The cat", layer="1", head="4")
    assert "too short to compare with what the weights alone predict" in page_text(at)


def test_any_token_can_be_typed() -> None:
    model = bundled_model()
    expected = head_circuit(model, 1, 2).writes(model.tokenizer.encode(" fish")[0], 1).most[0]
    sign = "+" if expected.value > 0 else "−"
    name = label(model.tokenizer.token_bytes(expected.token))
    written = f"{name}  {sign}{abs(expected.value):.1f}"
    where = {"text": CATS, "layer": "1", "head": "2"}
    for typed in ("·fish", " fish"):
        at = open_page("head?see=weights", **where | {"token": typed})
        assert at.dataframe[0].value["raises most"][0] == written
        assert any("when it attends to “·fish”." in plain(text.value) for text in at.markdown)
    at.session_state["query"] = 3
    at.query_params["query"] = "3"
    at.run()
    assert any("when it attends to “·on”." in plain(text.value) for text in at.markdown)
    assert "token" not in at.query_params, "another token of the sentence is chosen"
    at = open_page("head?see=weights", **where | {"token": "unbelievable<b>"})
    (words,) = [warning.value for warning in at.warning]
    assert "is not a single token of this model's vocabulary" in words
    assert len(at.dataframe) == 1, "the partners stay"


def test_a_token_of_hyphens_stays_as_it_is_written() -> None:
    result = (Scored(0, 1.5), Scored(1, -0.25))
    table = token_table(Ranked(result, result), Ranked(result, result), ["--'", "·a-b"])
    for column in table:
        assert list(table[column]) == ["--'  +1.5", "·a-b  −0.2"]


def test_rank_in_the_survey_and_link_to_all_heads() -> None:
    bundled = bundled_model()
    at = open_page("head?see=weights", text=CATS, layer="1", head="2")
    tables = at.session_state["_shown"].tables
    (name,) = [name for name in tables if "over many texts" in name]
    shown = tables[name].set_index("score")
    sizes = weight_scores(bundled)["copying"].shape
    stored = bundled.weight_files and read_survey(gpt2viz.BUNDLED, bundled.weight_files, *sizes)
    assert stored
    for score, every in stored.mean.items():
        assert shown["mean"][score] == every[1, 2]
        assert shown["± (95 %)"][score] == stored.margin[score][1, 2]
        assert shown["rank"][score] == 1 + (every > every[1, 2]).sum()
    (link,) = [link.proto for link in at.get("page_link") if link.proto.label == "All heads"]
    for part in ("on=weights", "habit=copying", "layer=1", "head=2"):
        assert part in link.query_string


def copying_head(n: int = 0) -> tuple[int, int]:
    """The n-th copying head."""
    return copiers_of(TWICE)[n]


@each("n", [0, 1])
def test_repeated_sentence_is_offered_and_copied(n: int) -> None:
    layer, head = copying_head(n)
    at = open_page("head", text="A crane ate fish", layer=str(layer), head=str(head))
    (text,) = [c.value for c in at.caption if "no token repeats" in c.value]
    press(at, "Repeat the sentence")
    assert at.text_input(key="text").value == TWICE
    tokenizer = bundled_model().tokenizer
    ids = tokenizer.encode(TWICE)
    query, key = at.session_state["query"], at.session_state["key"]
    row = weights(TWICE)[layer, head, query]
    assert row.argmax() == key
    assert ids[key - 1] == ids[query], "what followed the same token"
    token, copied = (tokenizer.decode([ids[n]]).replace(" ", "·") for n in (query, key))
    assert f"“{token}” attends to what followed it before: “{copied}” ({row.max():.2f})." in text
    assert (at.session_state["layer"], at.session_state["head"]) == (layer, head)
    assert not any("no token repeats" in c.value for c in at.caption)


@each(
    ("chosen", "text"),
    [
        (back, "a b"),  # for such a short text repeated, one token back looks the same
        (itself, "A crane ate fish"),
        (copying_head, "the cat saw the cat"),
        (copying_head, "A"),
    ],
)
def test_repeating_is_not_offered_elsewhere(
    chosen: Callable[[], tuple[int, int]], text: str
) -> None:
    layer, head = chosen()
    at = open_page("head", text=text, layer=str(layer), head=str(head))
    assert not [b for b in at.button if b.label == "Repeat the sentence"]
    assert not re.search("copies, but", " ".join(c.value for c in at.caption))


#: The layers whose weights each page shows.
LAYERS_SHOWN = {
    "attention": (0, 1, 2, 3),  # a head of any layer can be chosen
    "head": (1,),
    "side_by_side": (0, 1),
    "side_by_side?differs=mask": (1,),
    "what_if": (1,),
}
TEXT = "A crane lifted fish"


def reported_difference(page: str, text: str) -> tuple[float, float]:
    """The reported largest difference, and the largest number that attention added."""
    at = open_page(page, text=text, layer="1", layers="0,1", causal="true")
    ((mark, tip),) = [(c.value, plain(c.help)) for c in at.caption if "times V" in (c.help or "")]
    result = re.search(r"difference: (\w+)(?: · 10(\S+))?, among numbers of up to (\S+)\.$", tip)
    assert result, tip
    raised = (result[2] or "0").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    difference, largest = float(result[1].replace("none", "0") + f"e{raised}"), float(result[3])
    assert mark == ("✓ checked" if difference < 1e-3 else "✗ **not what the model computed**")
    return difference, largest


@each("page", LAYERS_SHOWN)
def test_difference_is_small_relative_to_attention_output(page: str) -> None:
    difference, largest = reported_difference(page, TEXT)
    assert 0 <= difference < 1e-3
    added = np.array(stages(TEXT)["attention_output"])  # (n_layer, T, C)
    assert largest == pytest.approx(np.abs(added[[*LAYERS_SHOWN[page]]]).max(), rel=5e-3)


@each("page", ["attention", "side_by_side"])  # one layer and several
def test_wrong_weights_are_detected(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = gpt2viz.Trace.stage

    def wrong(
        run: gpt2viz.Trace, key: Any, layer: int | None = None, head: int | None = None
    ) -> Array:
        result = right(run, key, layer, head)
        return result[..., ::-1] if key == "weights" else result

    monkeypatch.setattr(gpt2viz.Trace, "stage", wrong)
    assert reported_difference(page, f"A crane lifted {page}")[0] > 0.01


@each("text", ("The crane stood by the water and", "When"))
def test_reused_prefix_is_reported(text: str) -> None:
    """The weights are still checked; ``tests/run/test_prefix.py`` tests the numbers."""
    n = len(ids_of(text))
    message = f"The first {'token' if n == 1 else f'{n} tokens'} came from an earlier run."
    assert reported_difference("attention", text)[0] < 1e-3
    again = open_page("attention", text=f"{text} fish")
    (tip,) = [plain(c.help) for c in again.caption if "times V" in (c.help or "")]
    assert message in tip
    assert reported_difference("attention", f"{text} fish")[0] < 1e-3
    shapes = open_page("shapes", text=f"{text} fish")
    words = [plain(markdown.value) for markdown in shapes.markdown]
    assert any(word.endswith(f"{message} The table describes a full run.") for word in words)

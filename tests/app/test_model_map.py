"""The first screen: a map of every head, the head that it opens on, and what is said of it."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.app import address, parameters
from gpt2viz.app.frame.examples import EXAMPLES
from gpt2viz.app.views import attention
from gpt2viz.app.views.measures import MEASURES
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import (
    button_groups,
    canvas,
    figure,
    heatmaps,
    of_head,
    open_page,
    plain,
    unpacked,
)
from tests.bundled import CATS, CRANE, HEADS, N_HEAD, hardest, opening, weights
from tests.numpy_gpt2 import reference


@pytest.fixture(scope="module")
def model() -> gpt2viz.Model:
    return gpt2viz.load_model()


def words(at: Any) -> str:
    written = " ".join(block.value for block in (*at.markdown, *at.caption))
    return f"{plain(written)} {of_head(at)}"


def chosen(at: Any) -> tuple[int, int]:
    return at.session_state["layer"], at.session_state["head"]


@pytest.mark.parametrize("text", [CATS, *(example.text for example in EXAMPLES)])
def test_the_head_that_opens_is_chosen_by_the_numbers(text: str) -> None:
    best = opening(text)
    at = open_page("attention", text=text)
    assert chosen(at) == best
    assert f"Opened on head {best[0]}.{best[1]}: of all heads" in words(at)
    assert not {"layer", "head"} & set(at.query_params)
    assert chosen(open_page("head", text=text)) == best


def test_a_layer_or_a_head_alone_opens_with_the_best_of_it() -> None:
    apart = np.abs(hardest(weights(CRANE)) - 0.5).mean(axis=-1)
    at = open_page("attention", layer="3")
    assert chosen(at) == (3, apart[3].argmin())
    assert f"Opened on head 3.{apart[3].argmin()}: of all heads of layer 3, its" in words(at)
    at = open_page("attention", head="2")
    assert chosen(at) == (apart[:, 2].argmin(), 2)
    assert f"Opened on head {apart[:, 2].argmin()}.2: of the heads 2 of all layers" in words(at)
    assert chosen(open_page("attention", head="99")) == chosen(open_page("attention")) == opening()
    assert "Opened on" not in words(open_page("attention", layer="3", head="2"))


def test_who_picks_a_head_keeps_its_layer_with_another_sentence() -> None:
    at = open_page("head")
    layer, head = opening()
    assert chosen(at) == (layer, head)
    (heads,) = [group for group in button_groups(at) if group.key == "head"]
    heads.set_value(other := (head + 1) % N_HEAD).run()
    assert (at.query_params["layer"], at.query_params["head"]) == (str(layer), str(other))
    at.text_input(key="text").set_value(EXAMPLES[1].text).run()
    assert chosen(at) == (layer, other)


@pytest.mark.parametrize(
    "wanted", [{"text": "x"}, {"text": "a b"}, {"causal": "false"}, {"text": "🦩" * 30}], ids=str
)
def test_any_text_opens_somewhere(wanted: dict[str, str]) -> None:
    at = open_page("attention", **wanted)
    layer, head = chosen(at)
    assert f"Head {layer}.{head}**" in words(at)
    if wanted == {"text": "x"}:
        assert (layer, head) == (0, 0)
        assert "a single token can look only at itself" in words(at)
        assert "Opened on" not in words(at), "of equal heads none is nearest"


@pytest.mark.parametrize("query", [None, "3", "7"])
def test_the_map_lists_the_hardest_looks(query: str | None) -> None:
    text = "When Mary and John went to the garden, John gave the flower to Mary"
    found = weights(text)
    at = open_page("attention", text=text, **({} if query is None else {"query": query}))
    header = unpacked(canvas(at, "all_heads"))[0]
    assert (header["layers"], header["heads"]) == found.shape[:2]
    assert header["token"] == (-1 if query is None else int(query))
    assert header["chosen"] == chosen(at)[0] * N_HEAD + chosen(at)[1]
    largest = hardest(found).reshape(HEADS, -1)
    assert len(header["looks"]) == len(header["tokens"]) == found.shape[-1]
    for token, listed in enumerate(header["looks"]):
        expected = sorted(largest[:, token], reverse=True)[: len(listed)]
        assert [float(weight) for *_, weight in listed] == pytest.approx(expected, abs=0.0051)
        for head, key, weight in listed:
            row = found.reshape(HEADS, *found.shape[2:])[head, token]
            assert row[key] == pytest.approx(float(weight), abs=0.0051)
            assert key not in (0, token)
    assert [len(listed) for listed in header["looks"][:3]] == [0, 0, 5]


def looks(rows: np.ndarray, query: int) -> str:
    """What is said of a row of a head's weights (T, T) on ``CRANE``: its three largest."""
    labels, row = ["A", "·crane", "·ate", "·fish"], rows[query]
    told = [n for n in (-row).argsort()[:3] if row[n] >= 0.05]
    return f"{labels[query]} looks at " + ", ".join(f"{labels[n]} ({row[n]:.2f})" for n in told)


def test_a_sentence_says_where_the_chosen_head_looks() -> None:
    layer, head = opening()
    rows = weights(CRANE)[layer, head]
    said = words(open_page("attention", query="3"))
    assert f"**Head {layer}.{head}**: {looks(rows, 3)}." in said
    row = int(hardest(rows).argmax())
    assert f"**Head {layer}.{head}**: {looks(rows, row)}: of its rows the one" in words(
        open_page("attention")
    )
    said = words(open_page("attention", text="the cat the cat", layer="0", head="2", query="3"))
    assert "·cat (3) looks at" in said, "equal tokens are told apart"


def test_the_mask_switch_says_what_changed(model: gpt2viz.Model) -> None:
    layer, head = opening()
    on, off = (weights(CRANE, causal)[layer, head] for causal in (True, False))
    at = open_page("attention").toggle(key="causal").set_value(False).run()
    assert chosen(at) == (layer, head), "the head stays"
    row = int(hardest(off).argmax())
    shown = re.search(
        rf"\*\*Head {layer}.{head}\*\*: \S+ looks at (.*) \(with the mask on at (.*)\): of",
        words(at),
    )
    assert shown
    for said, of_row in zip(shown.groups(), (off[row], on[row]), strict=True):
        numbers = [float(n) for n in re.findall(r"\((\d\.\d+)\)", said)]
        expected = sorted((w for w in of_row if w >= 0.05), reverse=True)[:3]
        assert numbers == pytest.approx(expected, abs=0.0051)
    assert re.search(r"Opened on head [^.]+\.\d+: [^.]+, with the mask on\.", words(at))
    (said,) = re.findall(
        r"What comes next: “(.+)” (.+) %, with the mask on “(.+)” (.+) %\.", words(at)
    )
    ids = model.tokenizer.encode(CRANE)
    for (token, percent), causal in ((said[:2], False), (said[2:], True)):
        logits = reference(BUNDLED, ids, causal)["logits"][-1].astype(np.float64)
        p = np.exp(logits - logits.max())
        best = model.tokenizer.decode([int(p.argmax())]).replace(" ", "·")
        assert best == token.replace("\\", "")
        assert float(percent) == pytest.approx(100 * p.max() / p.sum(), abs=0.06)


def test_what_comes_next(model: gpt2viz.Model) -> None:
    logits = reference(BUNDLED, model.tokenizer.encode(CRANE), True)["logits"][-1]
    p = np.exp(logits - logits.max())
    p = 100 * p / p.sum()
    (said,) = re.findall(r"What comes next\*\*: (.*?%)\](?:\s|$)", words(open_page("attention")))
    shown = [float(n) for n in re.findall(r"([\d.]+) %", said)]
    assert_allclose(shown, np.sort(p)[::-1][:5], atol=0.051)
    header = unpacked(canvas(open_page("attention"), "all_heads"))[0]
    best = model.tokenizer.decode([int(p.argmax())]).replace(" ", "·")
    assert header["next"] == f"Prediction: “{best}” {shown[0]:.1f} %"


def test_a_click_and_keys_choose_on_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    put: dict[Any, Any] = {}
    monkeypatch.setattr(address, "put", lambda parameter, value: put.update({parameter: value}))
    attention._choose(None)(1, 2, None)
    assert put == {parameters.LAYER: 1, parameters.HEAD: 2}
    attention._choose(None)(3, 0, 4)
    assert put == {parameters.LAYER: 3, parameters.HEAD: 0, parameters.QUERY: 4}
    attention._choose([0, 2, 5])(3, 0, 2)
    assert put[parameters.QUERY] == 5, "the first token of the word"


def test_shrinking_is_said_where_it_is_done() -> None:
    long = "the cat sat on " * 12
    at = open_page("attention", text=long)
    assert "Each is shrunk to 40 × 40 points" in words(at)
    assert {len(shown) for shown in heatmaps(figure(at, "all_heads")).values()} == {40}
    assert "shrunk" not in words(open_page("attention"))


#: A sentence of more tokens than words; some tokens and words stand there twice.
PIECES = "I love 猫 🐈 and tea, unbelievable tea!"
#: A name with the place that tells it from others, and the number of a key.
QUOTED = re.compile(r"(\S+)(?: \((\d+)\))? \((\d+\.\d\d)\)")


def test_what_is_said_of_the_large_head_is_what_it_shows() -> None:
    """Under every measure, between tokens and words, with the mask and without."""
    wrong = []
    for shown, whole, causal, query in product(MEASURES, (False, True), (True, False), ("", "5")):
        here = {"show": shown, "words": str(whole).lower(), "causal": str(causal).lower()}
        here |= {"query": query} if query else {}
        at = open_page("attention", text=PIECES, layer="2", head="6", **here)
        header, (numbers,), (masked,) = unpacked(canvas(at, "one_head"))
        rows = header["grids"][header["panels"][0]["grid"]]["rows"]
        places, names = zip(*(row.split(" ", 1) for row in rows), strict=True)
        says = re.sub(r" \(with the mask on at .*?\)(?=[:.])", "", header["head"]["does"]["2.6"])
        name, place = re.match(r"(\S+)(?: \((\d+)\))?", says).groups()  # type: ignore[union-attr]
        row = names.index(name) if place is None else places.index(place)
        told = [
            (name, place or places[names.index(name)], pytest.approx(float(number), abs=0.0051))
            for name, place, number in QUOTED.findall(says)
        ]
        largest = np.argsort(-numbers[row], kind="stable")[: len(told)]
        if told != [(names[n], places[n], numbers[row][n]) for n in largest] or not told:
            wrong.append(f"{here}: {says}")
        if query and row != max(n for n, place in enumerate(places) if int(place) <= int(query)):
            wrong.append(f"{here}: of row {row}: {says}")
        sums = np.where(masked, 0, numbers).sum(axis=1)
        if "Every row sums to 1" in words(at) and abs(sums - 1).max() > 1e-3:
            wrong.append(f"{here}: rows don't sum to 1")
    assert not wrong, "\n".join(wrong)


def test_a_strong_first_column_is_asked_about_where_one_is() -> None:
    """With the mask on, and without it where a head rests on the first token all the same."""
    wrong = []
    for text, causal in product((CRANE, CATS, "x"), (True, False)):
        later = weights(text, causal)[:, :, 1:, 0]
        strong = later.size > 0 and later.mean(axis=-1).max() > 0.5
        at = open_page("attention", text=text, causal=str(causal).lower())
        asked = any("first column" in one.proto.popover.label for one in at.get("popover"))
        if asked != strong:
            wrong.append(f"{text}, mask {causal}: asked {asked}")
    assert not wrong, "\n".join(wrong)

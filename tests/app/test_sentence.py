"""The sentence: its tokens and words, the first token, and choices that stay as it changes."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz import settings
from gpt2viz.app.frame import sentence as strip
from gpt2viz.app.literal import literal
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.cases import each
from tests.app.pages import (
    SHADE,
    canvas,
    chart,
    chips,
    frames,
    header_of,
    heatmaps,
    masks,
    matrices,
    notices,
    open_page,
    panels,
    pictures,
    plain,
    press,
    titles,
)
from tests.bundled import bundled_model, ids_of, weights
from tests.checkpoints import write_checkpoint
from tests.llama_checkpoints import write_llama
from tests.model.test_tokenizer import train_tokenizer
from tests.numpy_gpt2 import Tolerance, reference, softmax

TEXT = "She sat by the bank of the river"
ON = {"text": TEXT, "bos": "true"}
TOLERANCE: Tolerance = {"rtol": 2e-4, "atol": 2e-4}


@pytest.fixture(scope="module")
def ids() -> list[int]:
    """The first token's id from config.json, then the sentence's."""
    special = json.loads((BUNDLED / "config.json").read_text(encoding="utf-8"))["eos_token_id"]
    return [special, *ids_of(TEXT)]


@pytest.fixture(scope="module")
def stages(ids: list[int]) -> Any:
    return reference(BUNDLED, ids, causal=True)


def tokens(at: Any) -> list[str]:
    labels: list[str] = chips(at)["labels"]
    return labels


def captions(at: Any) -> str:
    return " ".join(block.value for block in at.caption)


def test_first_token_gives_the_first_words_surprise(ids: list[int], stages: Any) -> None:
    at = open_page("predict", **ON)
    p = softmax(stages["logits"])
    table = at.session_state["_shown"].tables["Next tokens after token 8"]
    assert_allclose(table["model (%)"][:12], 100 * p[-1][table["id"][:12].tolist()], rtol=2e-3)
    bits = chart(at, "surprise")["data"][0]["y"]
    assert bits[1] == pytest.approx(-np.log2(p[0, ids[1]]), rel=1e-3)
    lens = heatmaps(at, "lens_map")["lens"]
    assert_allclose(lens[-1], p.max(axis=1), **TOLERANCE)


def test_chosen_token_moves_with_the_first_token() -> None:
    at = open_page("attention", text=TEXT, query="4")
    assert "bank" in tokens(at)[4]
    at.toggle(key="bos").set_value(True).run()
    assert at.query_params["bos"] == "true"
    assert at.query_params["query"] == "5"
    assert "bank" in tokens(at)[5]
    at.toggle(key="bos").set_value(False).run()
    assert at.session_state["query"] == 4
    at = open_page("attention", **ON, query="0")
    at.toggle(key="bos").set_value(False).run()
    assert at.session_state["query"] is None
    assert not at.warning


def test_all_token_parameters_move_with_the_first_token() -> None:
    chosen = {"key": "2", "keys": "0,3", "edits": "forbid:3:1,off:0.0"}
    chosen |= {"match": "1:6,3:2", "cells": "3:1", "pattern": "column", "n": "3"}
    chosen |= {"zoom": "2,5,1,4"}
    at = open_page("attention", text=TEXT, **chosen)
    at.toggle(key="bos").set_value(True).run()
    moved = {"key": "3", "keys": "1,4", "edits": "forbid:4:2,off:0.0"}
    moved |= {"match": "2:7,4:3", "cells": "4:2", "pattern": "column", "n": "4"}
    moved |= {"zoom": "3,6,2,5"}
    assert moved.items() <= at.query_params.items()
    at.toggle(key="bos").set_value(False).run()
    assert chosen.items() <= at.query_params.items()
    at = open_page("what_if", **ON, edits="forbid:3:0")
    at.toggle(key="bos").set_value(False).run()
    assert "edits" not in at.query_params
    assert not at.warning
    at = open_page("attention", text=TEXT, edits="nonsense", query="x", match="y", cells="0:9:1")
    at.toggle(key="bos").set_value(True).run()
    assert not at.exception


def test_part_keeps_its_tokens_with_a_first_token(stages: Any) -> None:
    at = open_page("attention", text=TEXT, zoom="2,5,1,4", layer="2", head="1")
    at.toggle(key="bos").set_value(True).run()
    shown = heatmaps(at, "one_head")["weights"]
    assert_allclose(shown, stages["weights"][2][1][3:6, 2:5], **TOLERANCE)
    at = open_page("attention", **ON, zoom="0,2,0,1")
    at.toggle(key="bos").set_value(False).run()
    assert "zoom" not in at.query_params  # its only key was the removed token


def test_patterns_distance_does_not_move() -> None:
    at = open_page("find", text=TEXT, find="pattern", pattern="back", n="3")
    at.toggle(key="bos").set_value(True).run()
    assert at.query_params["n"] == "3"


def test_first_token_takes_a_position() -> None:
    text = " ".join(["the bank"] * 128)  # exactly the model's 256 positions
    assert not open_page("attention", text=text).warning
    at = open_page("attention", text=text, bos="true")
    assert "has 257 tokens" in at.warning[0].value
    assert "counts as one" in at.warning[0].value
    press(at, "Use the first 255 tokens")
    assert not at.warning
    assert heatmaps(at, "one_head")["weights"].shape == (256, 256)


def test_first_token_may_be_the_only_one() -> None:
    at = open_page("predict?predict=generate", text="", bos="true")
    assert len(tokens(at)) == 1
    assert not at.info


def test_model_without_bos_has_no_switch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "plain")
    path = folder / "vocab.json"
    vocab = json.loads(path.read_text(encoding="utf-8"))
    vocab.pop("<|endoftext|>")
    path.write_text(json.dumps(vocab), encoding="utf-8")
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))
    at = open_page("attention", text="A crane", bos="true")
    assert not switches(at)
    assert "bos: true can't be shown here. It must be false." in at.warning[0].value
    at.run()
    assert not at.warning


def test_tokens_added_by_the_tokenizer_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are counted when a text that is too long is cut."""
    folder = write_checkpoint(tmp_path / "around")
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))
    config = {"add_bos_token": True, "add_eos_token": True, "add_prefix_space": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    for requested in ({}, {"bos": "true"}):
        at = open_page("attention", text="crane", **requested)
        assert tokens(at) == ["<|endoftext|>", "·crane", "<|endoftext|>"]
        assert switches(at) == {"<|endoftext|> first": True}
        text = captions(at)
        assert text.count("was **put first** by this model's own tokenizer") == 2  # a space, too
        assert "was **put last** by this model's own tokenizer" in text
    for bos, text, n in (("true", "count as 2.", 22), ("false", "counts as one.", 23)):
        at = open_page("attention", text=" crane" * 30, bos=bos)
        assert text in at.warning[0].value
        press(at, f"Use the first {n} tokens")
        assert len(tokens(at)) == 24
    at = open_page("models?model=around&part=tokenizer", word=" crane")
    assert "this tokenizer puts" in captions(at)


def switches(at: Any) -> dict[str, bool]:
    """The label and state of the switch for the first token."""
    return {plain(t.label).replace("\\", ""): t.value for t in at.toggle if t.key == "bos"}


def test_tokenizers_own_first_token_can_be_turned_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As Llama 2's, beside SentencePiece's space; other models keep their own default."""
    from transformers import PreTrainedTokenizerFast

    engine = train_tokenizer("Llama 2")
    folder = write_llama(tmp_path / "pieces", vocab_size=engine.get_vocab_size())
    engine.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    oracle = PreTrainedTokenizerFast.from_pretrained(folder)
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))

    def check(at: Any, on: bool, note: str) -> None:
        assert chips(at)["ids"] == oracle("crane é", add_special_tokens=on)["input_ids"]
        assert tokens(at) == ["<s>"] * on + ["·crane", "·", "\\xc3", "\\xa9"]
        assert switches(at) == {"<s> first": on}
        assert note in captions(at)

    at = open_page("attention", text="crane é", query="1")
    check(at, True, "<s\\> was **put first** by this model's own tokenizer")
    at.toggle(key="bos").set_value(False).run()
    check(at, False, "<s\\> was **left out**")
    assert (at.query_params["bos"], at.query_params["query"]) == ("false", "0")
    assert "A space was **put first**" in captions(at)
    query = {name: str(at.query_params[name]) for name in at.query_params}
    check(open_page("head", **query), False, "<s\\> was **left out**")
    at.selectbox(key="model").set_value("stories").run()
    assert switches(at) == {"<|endoftext|> first": False}
    at.toggle(key="bos").set_value(True).run()
    at.selectbox(key="model").set_value("pieces").run()
    check(at, True, "<s\\> was **put first** by this model's own tokenizer")
    at = open_page("attention", text="crane é", model="stories")
    assert switches(at) == {"<|endoftext|> first": False}
    at.selectbox(key="model").set_value("pieces").run()
    check(at, True, "<s\\> was **put first** by this model's own tokenizer")
    assert "bos" not in at.query_params, "it wasn't chosen"
    at = open_page("models?model=pieces&part=tokenizer", word="crane")
    assert "a space before one that has none" in captions(at)


HUNGRY = "The dog bit the man because it was hungry."
OTHER_END = "The dog bit the cat because it was hungry."
OTHER = "A crane ate fish, and it was very good at that"
#: Choices of tokens of ``HUNGRY``: of its first four, which ``OTHER_END`` shares, and more.
CHOSEN = {"query": "6", "key": "2", "keys": "0,3,5", "edits": "forbid:3:1,forbid:6:1,off:0.0"}
CHOSEN |= {"match": "1:3,3:7", "cells": "3:1,6:2", "zoom": "2,5,1,4", "patch": "patch:q:1.4:6"}
STAYS = {"key": "2", "keys": "0,3", "edits": "forbid:3:1,off:0.0", "match": "1:3", "cells": "3:1"}


def type_sentence(at: Any, text: str) -> Any:
    return at.text_input(key="text").set_value(text).run()


def token_parameters(at: Any) -> dict[str, str]:
    """The parameters in the address that name tokens."""
    return {name: value for name, value in at.query_params.items() if name in CHOSEN}


def test_choices_stay_where_the_prefix_is_unchanged() -> None:
    at = type_sentence(open_page("attention", text=HUNGRY, **CHOSEN), OTHER_END)
    assert tokens(at)[:4] == tokens(open_page("attention", text=HUNGRY))[:4]
    assert token_parameters(at) == STAYS
    assert chips(at)["chosen"] is None
    at = type_sentence(open_page("attention", text=HUNGRY, **CHOSEN, bos="true"), OTHER)
    assert token_parameters(at) == {"keys": "0", "edits": "off:0.0"}, "the first token is the same"
    at = type_sentence(open_page("attention", text=HUNGRY, query="3"), HUNGRY + " It ate")
    assert chips(at)["chosen"] == 3
    assert not at.warning
    second = open_page("side_by_side?differs=text", text=HUNGRY, text2=OTHER_END, match="1:3")
    second.text_input(key="text2").set_value(OTHER).run()
    assert "match" not in second.query_params


def test_head_stays_for_another_sentence() -> None:
    at = open_page("attention", text=HUNGRY)
    shown = at.session_state["layer"], at.session_state["head"]
    assert "layer" not in at.query_params, "it wasn't chosen"
    for act in (
        lambda: at.toggle(key="bos").set_value(True).run(),
        lambda: type_sentence(at, OTHER),
        lambda: at.toggle(key="bos").set_value(False).run(),
        lambda: type_sentence(at, "Hi"),
    ):
        act()
        assert (at.session_state["layer"], at.session_state["head"]) == shown
        assert (at.query_params["layer"], at.query_params["head"]) == tuple(map(str, shown))
    at = type_sentence(open_page("find", text=HUNGRY), OTHER)
    assert "head" not in at.query_params, "Find has no large head"


def test_chips_have_ids_and_plain_text() -> None:
    text = "A <b>x</b> $y$ :red[r] [a](http://b)\n"
    ids = ids_of(text)
    drawn = chips(open_page("shapes", text=text))
    assert drawn["ids"] == ids
    assert drawn["labels"] == list(gpt2viz.trace(bundled_model(), text).labels)
    assert (drawn["first"], drawn["part"], drawn["chosen"]) == (0, False, None)


def test_right_to_left_labels_are_isolated() -> None:
    labels = ["a", "·שלום", "b"]  # the bundled model has no token with such letters
    data = strip.chips(labels, [5, 6, 7], range(1, 3), 0)
    assert data["labels"] == ["\u2068·שלום\u2069", "b"]
    assert (data["ids"], data["first"], data["part"], data["chosen"]) == ([6, 7], 1, True, 0)


@pytest.fixture
def _digits_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of three digits, listed by the owner."""
    folder = write_checkpoint(tmp_path / "sorter", vocab_size=3)
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    (folder / "tokens.json").write_text(json.dumps(["0", "1", "2"]), encoding="utf-8")
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))


@pytest.mark.usefixtures("_digits_model")
def test_characters_outside_the_vocabulary_are_one_message() -> None:
    lacks = "a list of 3 tokens, in which these characters are missing: "
    at = open_page("attention", model="sorter", text="[2](x) **1**")
    assert literal(lacks + "'[', ']', '(', 'x', ')', '*'. It has '0', '1', '2'.") in notices(at)
    assert not pictures(at)
    assert pictures(open_page("attention", model="sorter", text="0 2 1 0 1 1"))
    at = open_page("what_if", model="sorter", text="021", edits="mean:0.0")
    assert "this model's vocabulary can't spell" in notices(at)
    at = open_page("what_if", model="sorter", text="021", edits="patch:v:0.0", text2="é")
    assert "Second sentence: " in notices(at)
    assert literal("missing: 'é'") in notices(at)


@pytest.mark.usefixtures("_digits_model")
def test_vocabulary_without_merges_is_shown_as_a_list() -> None:
    at = open_page("models", model="sorter", part="tokenizer", word="2 0")
    read = " ".join(plain(block.value) for block in at.markdown)
    assert "2 tokens, with their ids: \u2002 **2** :small[:gray[2]] \u2002 **0**" in read
    assert "is a plain list of 3 tokens" in read
    assert "list of merges" not in read


SPLIT = "The animal didn't cross 🦩 untired"
IN_WORDS = {"text": SPLIT, "words": "true"}
WORDS = ["The", "·animal", "·didn't", "·cross", "·🦩", "·untired"]


@pytest.fixture(scope="module")
def members() -> np.ndarray:
    """(W, T), 1 where the token is in the word, by their bytes."""
    token_bytes = bundled_model().tokenizer.token_bytes
    owner = [n for n, word in enumerate(WORDS) for _ in word.replace("·", " ").encode()]
    ends = np.cumsum([len(token_bytes(i)) for i in ids_of(SPLIT)])
    word_of = np.array([owner[end - 1] for end in ends])
    return (word_of == np.arange(len(WORDS))[:, None]).astype(float)


def group_words(of: Any, members: np.ndarray) -> np.ndarray:
    return members / members.sum(axis=1, keepdims=True) @ np.asarray(of) @ members.T


def test_attention_page_by_words(members: np.ndarray) -> None:
    at = open_page("attention", **IN_WORDS, layer="2", head="1", query="3")
    assert members.sum(axis=1).max() == 5  # the flamingo with its space
    expected = group_words(weights(SPLIT), members)
    shown = [*heatmaps(at, "all_heads").values()]
    assert_allclose(np.reshape(shown, expected.shape), expected, atol=SHADE)
    later = np.triu(np.ones((6, 6), bool), 1)
    for mask in masks(at, "all_heads"):
        assert_array_equal(mask, later)
    (large,) = matrices(at, "one_head")
    assert_allclose(large.values, expected[2, 1], **TOLERANCE)
    assert titles(at, "one_head") == ["Layer 2 · Head 1 · whole words"]
    assert large.grid["rowEnds"] == WORDS
    assert frames(at, "one_head") == [[2, 2, 0, 5]]  # token 3 is in word 2
    assert "between words" in header_of(canvas(at, "one_head"))["bar"]
    assert "are 6 words" in " ".join(block.value for block in at.caption)
    ((name, table),) = at.session_state["_shown"].tables.items()
    assert name == "Attention weights · whole words, layer 2, head 1"
    assert list(table.index)[2:4] == ["2 ·didn't", "4 ·cross"]


def test_words_without_the_first_word(members: np.ndarray) -> None:
    at = open_page("attention", **IN_WORDS, layer="1", head="5", show="rest")
    rest = group_words(weights(SPLIT)[1][5], members)[1:, 1:]
    shown = heatmaps(at, "one_head")["rest"][1:, 1:]
    expected = rest / rest.sum(axis=1, keepdims=True)
    assert_allclose(shown, expected, rtol=5e-3, atol=2e-3)


def test_norms_are_not_grouped_into_words() -> None:
    n = len(ids_of(SPLIT))
    at = open_page("attention", text=SPLIT, show="norms")
    toggle = at.toggle(key="words")
    assert toggle.disabled
    assert "can't be added up" in toggle.help
    assert heatmaps(at, "one_head")["norms"].shape == (n, n)
    at = open_page("attention", **IN_WORDS)
    at.selectbox(key="show").set_value("norms").run()
    assert heatmaps(at, "one_head")["norms"].shape == (n, n)
    assert "words" not in at.query_params
    assert not at.warning


@each("compare", ["mean", "rollout", "4"])
def test_layers_compared_by_words(members: np.ndarray, compare: str) -> None:
    layers, mixed = [], np.eye(members.shape[1])
    for heads in weights(SPLIT):
        mean = heads.mean(axis=0)
        mixed = (mean + np.eye(len(mean))) / 2 @ mixed
        layers.append({"mean": mean, "rollout": mixed}.get(compare, heads[4]))
    expected = group_words([layers[0], layers[3]], members)
    shown = {"head": compare} if compare == "4" else {"compare": compare}
    at = open_page("side_by_side", **IN_WORDS, layers="0,3", **shown)
    assert_allclose(panels(at, "layers_chart"), expected, **TOLERANCE)
    assert_allclose(panels(at, "differences"), [expected[1] - expected[0]], **TOLERANCE)
    assert all(title.endswith("· whole words") for title in titles(at, "layers_chart"))


@each(
    ("page", "text"),
    [
        ("attention", "x"),
        ("side_by_side", " "),
        ("attention", "🦩🦩 👩‍👩‍👧‍👧"),
        ("side_by_side", "مرحبا بالعالم"),
        ("attention", "<b>it's</b> $x$\n\n\ttab"),
        ("side_by_side", "e\u0301\u0301 a\x00b"),
    ],
)
def test_any_text_is_split_into_words(page: str, text: str) -> None:
    at = open_page(page, text=text, words="true", bos="true", show="rest")
    assert not at.warning
    drawn = matrices(at, "one_head" if page == "attention" else "layers_chart")
    assert unescape(drawn[0].grid["rows"][0]).endswith("<|endoftext|>")  # a word of its own


def test_sentence_without_split_words_is_noted() -> None:
    at = open_page("attention", text="A crane ate fish", words="true")
    assert "nothing changes" in " ".join(block.value for block in at.caption)
    assert heatmaps(at, "one_head")["weights"].shape == (4, 4)


def test_long_texts_by_words_keep_token_positions() -> None:
    at = open_page("attention", text="A" + " didn't" * 120, words="true", query="240")
    names = matrices(at, "one_head")[0].grid["rows"]
    assert len(names) == 121
    assert names[2].startswith("3 ")
    assert [row for row, *_ in frames(at, "one_head")] == [120]

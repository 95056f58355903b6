"""A model's card, config and files in words, and the similarity of its positions."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file

import gpt2viz
from gpt2viz.anatomy.card import LONGEST, harmless, read_card, stored_files
from gpt2viz.anatomy.fields import LLAMA_MEANING, MEANING, explain, other_fields, sizes
from gpt2viz.files import read_json
from gpt2viz.model.checkpoint import read_config, stored_numbers
from gpt2viz.model.config import FIXED, LLAMA_FIXED, config_from
from gpt2viz.pictures.anatomy import part_bars, similarity_at, similarity_map
from gpt2viz.pictures.palette import LIGHT
from tests.checkpoints import edit_json, write_checkpoint
from tests.llama_checkpoints import CONFIG
from tests.pictures.samples import drawn

characters = list("![]()\\`<x\n|~>:$&@ ")
markup = [
    *("```\n", "~~~\n", "````\n", "    ", "- ", "> ", "1. ", "|-|-|\n", "&#58;", "&#96;", "\u2028"),
    *("![x](/e)", "![x]", "![", "](/e)", "[x]()", "[x]: /e\n", "[^x]", "http://e.org", "a@b.org"),
    *(":red[x]", ":x:", ":streamlit:", "$x$", "<b>", "<http://e.org>", "`:red[x]`", "www.e.org"),
]
fragments = st.sampled_from(characters + markup)
#: Reads GitHub's Markdown except for bare addresses, which a test in a browser covers.
READER = MarkdownIt("commonmark").enable("table")


@given(text=st.lists(fragments, max_size=30).map("".join))
@example(text=":x:`:red[x]`http://e.org")  # code keeps two signs apart
def test_harmless_cards_hold_only_plain_markdown(text: str) -> None:
    """By an independent Markdown reader, and by searches for the app's own extensions."""
    tokens = READER.parse(harmless(text) + "\n\n[x]: http://e.org\n")
    leaves = [leaf for token in tokens for leaf in token.children or [token]]
    assert not {leaf.type for leaf in leaves} & {"image", "link_open", "html_inline", "html_block"}
    # The reader removes backslashes, and knows no directives and formulas.
    source = READER.render(harmless(text))
    prose = re.sub(r"<(pre|code)\b.*?</\1>", "§", source, flags=re.DOTALL)
    assert not re.search(r"https?://|www\.|\w@\w|:[+-]*\w[\w+-]*:", prose, re.IGNORECASE)
    for leaf in leaves:
        if leaf.type == "text":
            assert not re.search(r"https?://|www\.|\w@\w|:\w+:", leaf.content)
    inline = [token.content for token in tokens if token.type == "inline"]
    for line in inline:
        outside = re.sub(r"\\[!-/:-@\[-`{-~]", "§", line)  # escaped: neither code nor markup
        outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "§", outside, flags=re.DOTALL)
        assert not re.search(r"\$|:\w+[\[:{]|::", outside), (text, line)


def test_harmless_cards(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("# Big\n## Less", "### Big\n#### Less"),
        ("costs $1 to $2 :tada:", "costs \\$1 to \\$2 \\:\u2060tada:"),
        (":red[x] at 12:30", "\\:red\\[x\\] at 12\\:30"),
        ("::leaf{a} :::box", "\\:\\:leaf{a} \\:\\:\\:box"),
        ("|a|b|\n|:-:|--:|", "|a|b|\n|:-:|--:|"),
        ("[the *paper*](http://e.org 'T')", "the *paper* (http:\u2060//e.org)"),
        ("[![badge](http://e.org/b.svg)](http://e.org)", "badge (http:\u2060//e.org)"),
        ("![a chart](http://e.org/b.svg)", "a chart"),
        ("<http://e.org> or www.e.org", "\\<http:\u2060//e.org> or www\u2060.e.org"),
        ("https&#58;//e.org https:\\//e.org", "https:\u2060//e.org https:\u2060\\//e.org"),
        ("me@e.org", "me\u2060@e.org"),
        ("[x]: http://e.org", "\\[x\\]: http:\u2060//e.org"),
        ("`model[0] $x :red[y]`", "`model[0] $x :red[y]`"),
        ("| `:red[x] | b` |", "| \\`\\:red\\[x\\] | b\\` |"),
        ("[`a`]()``:red[x]``", "`a`\u2060``:red[x]``"),
        ("```sh\n$ pip install :x:\n# none\n```", "```sh\n$ pip install :x:\n# none\n```"),
        ("````\n```\n:red[x]\n````\n:red[y]", "````\n```\n:red[x]\n````\n\\:red\\[y\\]"),
        ("```\n~~~\n``\n:red[x]", "```\n~~~\n``\n:red[x]\n```"),
        ("~~~\n```\n~~~\n:red[x]", "````\n```\n````\n\\:red\\[x\\]"),
        ("- a\n\n  ```\n:red[x]", "- a\n\n```\n:red[x]\n```"),
        ("> ```\n:red[x]", "> \\`\\`\\`\n\\:red\\[x\\]"),
        ("<pre>\n```\n</pre>\n\n:red[x]", "\\<pre>\n```\n</pre>\n\n:red[x]\n```"),
        ("a\u2028```\nb\n```\n:red[x]", "a\n```\nb\n```\n\\:red\\[x\\]"),
        ("```Mermaid x\nA@{img: 'http://e.org'}\n```", "```\nA@{img: 'http://e.org'}\n```"),
    ]
    for card, plain in cases:
        with subtests.test(card=card, plain=plain):
            assert harmless(card) == plain


@pytest.mark.parametrize(
    "card", ["[a](" + "a" * LONGEST, "`" * LONGEST, "[" * LONGEST, "![](" * 25_000, ":" * LONGEST]
)
def test_harmless_is_fast_on_a_long_line(card: str) -> None:
    assert len(harmless(card)) < 3 * LONGEST


def test_front_matter_of_a_card(folder: Path) -> None:
    assert read_card(folder) is None
    readme = folder / "README.md"
    head = "license: mit\nlanguage: [en, de]\ndatasets:\n- a/b\ntags: [x]\nbase_model: {a: 1}"
    readme.write_text(f"---\n{head}\n---\nHello", encoding="utf-8")
    card = read_card(folder)
    assert card is not None
    assert (card.text, card.cut) == ("Hello", False)
    assert card.facts == {"license": "mit", "language": "en, de", "datasets": "a/b"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "head", [": [", "- a list", "license: !!python/object:os.system x", "x: &a [*a]", "{" * 1200]
)
def test_unreadable_front_matter_stays_text(folder: Path, head: str) -> None:
    (folder / "README.md").write_text(f"---\n{head}\n---\nHello", encoding="utf-8")
    card = read_card(folder)
    assert card is not None
    assert card.facts == {}
    assert card.text.endswith("Hello")


def test_long_cards_are_cut_and_invalid_bytes_are_accepted(folder: Path) -> None:
    (folder / "README.md").write_bytes(b"\xff" + b"x" * LONGEST)
    card = read_card(folder)
    assert card is not None
    assert card.cut
    assert len(card.text) == LONGEST


@pytest.mark.parametrize(
    ("values", "meaning", "fixed"),
    [({}, MEANING, FIXED), (CONFIG, LLAMA_MEANING, LLAMA_FIXED)],
    ids=["gpt2", "llama"],
)
def test_every_field_is_explained(
    values: dict[str, Any], meaning: dict[str, Any], fixed: dict[str, Any]
) -> None:
    config = config_from(values)
    declared = [field.name for field in dataclasses.fields(config) if field.name != "family"]
    assert sorted(meaning) == sorted(declared)
    demanded = {name: values.get(name) for name in ["model_type", *fixed]}
    names = [field.name for field in explain(config, demanded)]
    assert sorted(names) == sorted([*meaning, *demanded])
    assert other_fields(config, demanded | dict.fromkeys(meaning)) == {}
    for field in [*explain(config, demanded), *sizes(config)]:
        assert field.meaning.endswith(".")
        assert field.value


def test_llamas_fields_mention_the_files_names() -> None:
    values = CONFIG | {"unheard_of": 1}
    listed = {field.name: field for field in explain(config_from(values), values)}
    assert listed["n_kv_head"].value == "2 groups"
    assert "one that gpt2viz knows." in listed["model_type"].meaning
    assert listed["rope"].value == "default, base 100"
    values["rope_parameters"] = {"rope_type": "linear", "rope_theta": 50.0, "factor": 4.0}
    stretched = {field.name: field.value for field in explain(config_from(values), values)}
    assert stretched["rope"] == "linear, base 50, factor 4"
    assert listed["rope"].source == "rope_parameters"
    assert listed["n_kv_head"].source == "num_key_value_heads"
    assert listed["sliding_window"].source == "default"
    assert other_fields(config_from(values), values).keys() == {
        *("unheard_of", "bos_token_id", "eos_token_id")
    }


def test_values_have_units_and_a_source(folder: Path) -> None:
    edit_json(
        folder / "config.json",
        n_embd=None,
        hidden_size=24,
        attn_pdrop=0.25,
        resid_pdrop=None,
        reorder_and_upcast_attn=True,
    )
    values = read_json(folder / "config.json")
    config = read_config(folder)
    result = {field.name: field for field in explain(config, values)}
    assert result["vocab_size"].value == "420 tokens"
    assert result["n_inner"].value == "empty: 96 channels"
    assert result["attn_pdrop"].value == "25 % of the weights"
    assert result["n_embd"].value == "24 channels"
    assert (result["n_embd"].source, result["n_layer"].source) == ("hidden_size", "config.json")
    assert result["resid_pdrop"].source == "default"
    assert [field.value for field in sizes(config)] == ["6 channels", "96 channels"]
    others = other_fields(config, values)
    assert others["reorder_and_upcast_attn"] == "true"
    assert not others.keys() & {"hidden_size", "n_embd", "model_type"}


def test_unknown_values_are_shortened() -> None:
    (name, value), *_ = other_fields(gpt2viz.GPT2Config(), {"x" * 500: {"y": "z" * 10_000}}).items()
    assert len(name) <= 60
    assert len(value) <= 120


def test_files_have_their_hashes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = {file.name: file for file in stored_files(folder)}
    assert list(result) == ["config.json", "vocab.json", "merges.txt", "model.safetensors"]
    content = (folder / "model.safetensors").read_bytes()
    assert result["model.safetensors"].nbytes == len(content)
    assert result["model.safetensors"].sha256 == hashlib.sha256(content).hexdigest()
    monkeypatch.setattr("gpt2viz.anatomy.card.HASHED", 10_000)
    assert stored_files(folder)[-1].sha256 == ""
    blob = folder.parent / "blobs" / ("ab" * 32)
    blob.parent.mkdir()
    (folder / "model.safetensors").rename(blob)
    (folder / "model.safetensors").symlink_to(blob)
    assert stored_files(folder)[-1].name == "merges.txt"  # a link that leads elsewhere
    snapshot = folder.parent / "snapshots" / "0123"
    snapshot.parent.mkdir()
    folder.rename(snapshot)
    assert stored_files(snapshot)[-1].sha256 == "ab" * 32


def test_number_formats_of_the_weights(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, dtype=torch.float16)
    weights = load_file(tmp_path / "model.safetensors").values()
    assert stored_numbers(tmp_path) == {"F16": sum(weight.size for weight in weights)}


def cosines(vectors: np.ndarray) -> np.ndarray:
    x = torch.from_numpy(vectors)
    return F.cosine_similarity(x[:, None], x[None], dim=-1).numpy()


def test_similarities_of_positions_equal_pytorch(tiny: gpt2viz.Model) -> None:
    vectors = tiny.network.wpe.weight.numpy()
    panel = similarity_map(vectors, 256)
    assert_allclose(panel.values, cosines(vectors), atol=1e-6)
    assert panel.rows.names() == [str(n) for n in range(24)]
    assert panel.quantity == "cosine similarity"


@pytest.mark.parametrize("cells", [1, 1000, 2**22])
def test_blocks_of_positions_show_the_number_farthest_from_0(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpt2viz.pictures.anatomy._CELLS", cells)
    vectors = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32)
    panel = similarity_map(vectors, 8)
    whole = cosines(vectors)
    starts = [n * 50 // 8 for n in range(8)] + [50]
    for i, j in np.ndindex(8, 8):
        block = whole[starts[i] : starts[i + 1], starts[j] : starts[j + 1]].ravel()
        assert_allclose(panel.values[i, j], block[np.abs(block).argmax()], atol=1e-6)
    assert panel.rows.positions == starts[:-1]
    assert panel.quantity == "farthest from 0: cosine similarity of this block"


def test_similarity_at_a_distance() -> None:
    vectors = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    for distance in (1, 3, 8):
        assert similarity_at(vectors, distance) == pytest.approx(
            np.diag(cosines(vectors), distance).mean(), abs=1e-6
        )


def test_zero_position_has_no_similarity() -> None:
    vectors = np.eye(3, dtype=np.float32)
    vectors[1] = 0
    shown = similarity_map(vectors, 256).values
    assert_array_equal(np.isnan(shown), [[0, 1, 0], [1, 1, 1], [0, 1, 0]])
    assert similarity_at(vectors, 2) == 0
    assert np.isnan(similarity_at(vectors, 1))


def test_bars_have_every_part_once() -> None:
    names = ["a", "b", "c"]
    bars = part_bars("what", names, ["MLP", "unembedding", "MLP"], [1, 2, 5000], "parameters")
    figure = drawn(bars, LIGHT)
    shown = {
        figure.layout.yaxis.ticktext[n]: (x, t)
        for bar in figure.data
        for n, x, t in zip(bar.y, bar.x, bar.text, strict=True)
    }
    assert shown == {"a": (1, "<0.1 %"), "b": (2, "<0.1 %"), "c": (5000, "99.9 %")}
    assert [bar.name for bar in figure.data] == ["MLP", "unembedding"]

"""One model's sections on the Models page: their numbers, and what strangers' texts can't do."""

from __future__ import annotations

import json
from os import pathsep
from pathlib import Path

import numpy as np
import pytest
import streamlit as st
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app import owner, run_cache
from gpt2viz.app.views.models.contents import SECTIONS
from gpt2viz.app.views.models.words import LONGEST
from tests.app.pages import PAGES, ROOT, array, figure, heatmaps, open_page, plain
from tests.checkpoints import edit_json, load_ahead, write_checkpoint


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny model that the owner lists."""
    folder = tmp_path / "mine"
    write_checkpoint(folder)
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, str(folder))
    st.cache_data.clear()
    st.cache_resource.clear()
    return folder


def said(at: AppTest) -> str:
    blocks = (*at.markdown, *at.caption, *at.info, *at.warning, *at.error)
    return plain(" ".join(block.value for block in blocks)).replace("\\", "")


def section(part: str, **parameters: str) -> AppTest:
    return open_page("models", part=part, **parameters)


@pytest.mark.parametrize("part", SECTIONS)
def test_every_section_opens_by_its_address(part: str) -> None:
    at = section(part)
    assert not at.error
    assert not at.warning
    sentence = [box for box in at.text_input if box.key == "text"]
    assert bool(sentence) == (SECTIONS[part].draw_run is not None)


def test_only_sections_that_need_it_load_the_model(mine: Path) -> None:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["model"] = "stories"
    at.run()
    at.switch_page(str(ROOT / PAGES["models"]))
    at.query_params["model"] = "mine"
    for part in ("all", "card", "config", "parameters", "tokenizer"):
        at.query_params["part"] = part
        at.run()
        assert "mine" not in run_cache.models(), part
    at.query_params["part"] = "positions"
    at.run()
    assert "mine" in run_cache.models()
    assert not at.exception


def test_what_workers_share_is_in_memory(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> dict[str, bool]:
        table = section("all").dataframe[0].value
        return dict(zip(table["Model"], map(bool, table["In memory"]), strict=True))

    assert told() == {"mine": False, "stories": False}
    load_ahead(monkeypatch, {"mine": mine})
    assert told() == {"mine": True, "stories": False}


def test_a_strangers_card_and_config_do_nothing(mine: Path) -> None:
    trap = "<script>canary=1</script> ![x](http://e.org/x.png) $x$ :red[x] <b>bold</b>"
    head = f"license: {json.dumps(trap)}"
    (mine / "README.md").write_text(f"---\n{head}\n---\n# Mine\n{trap}", encoding="utf-8")
    edit_json(mine / "config.json", _name_or_path=trap)
    at = section("card", model="mine")
    assert "not checked" in said(at)
    (shown,) = [block for block in at.markdown if "### Mine" in block.value]
    assert "![" not in shown.value
    assert not shown.allow_html
    assert all(not block.allow_html for block in at.markdown if "canary" in block.value)
    origin = next(table.value for table in at.dataframe if "what" in table.value)
    assert dict(zip(origin["what"], origin["is"], strict=True))["card: license"] == trap


def test_a_model_without_a_card(mine: Path) -> None:
    assert "has no card (README.md)" in said(section("card", model="mine"))


def test_the_config_says_what_is_not_used(mine: Path) -> None:
    edit_json(mine / "config.json", summary_type="cls_index")
    fields, others = (table.value for table in section("config", model="mine").dataframe)
    assert dict(zip(fields["field"], fields["value"], strict=True))["n_embd"] == "24 channels"
    assert "summary_type" in set(others["field"])
    assert not set(fields["field"]) & set(others["field"])


def test_a_broken_config_is_one_message(mine: Path) -> None:
    edit_json(mine / "config.json", n_head=5)
    for part in ("config", "parameters", "positions", "cost"):
        (error,) = section(part, model="mine").error
        assert "must be a multiple of n_head" in error.value.replace("\\", "")


def test_parameters_in_table_and_bars(mine: Path) -> None:
    at = section("parameters", model="mine")
    model = gpt2viz.load_model(mine)
    whole = sum(weight.numel() for weight in model.network.parameters())
    table = at.dataframe[0].value.set_index("part")["in the model"]
    assert table["all"] == whole == table.drop("all").sum()
    assert table["token embeddings"] == model.network.wte.weight.numel()
    spec = figure(at, "part_bars")
    names = spec["layout"]["yaxis"]["ticktext"]
    bars = {
        names[n]: value
        for bar in spec["data"]
        for n, value in zip(bar["y"], array(bar["x"]), strict=True)
    }
    assert bars == table.drop("all").to_dict()
    assert f"{whole:,} parameters" in said(at)
    assert "counted once" in said(at)


def test_the_positions_drawn_are_the_models(mine: Path) -> None:
    shown = heatmaps(figure(section("positions", model="mine"), "positions"))["positions"]
    vectors = gpt2viz.load_model(mine).network.wpe.weight.numpy().astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    assert_allclose(shown, vectors @ vectors.T / np.outer(lengths, lengths), atol=1e-6)


def test_a_word_is_followed_to_its_tokens() -> None:
    at = section("tokenizer", word=" unbelievable")
    ids = gpt2viz.load_model().tokenizer.encode(" unbelievable")
    assert f"{len(ids)} tokens, with their ids" in said(at)
    assert "1 token, with its id:" in said(section("tokenizer", word="A"))
    last = at.dataframe[0].value.iloc[-1]
    pieces = [gpt2viz.load_model().tokenizer.token_bytes(i).decode() for i in ids]
    assert last["the pieces then"] == "  |  ".join(pieces).replace(" un", "·un")
    at.text_input(key="word").set_value("").run()
    assert "Type a word" in said(at)
    at.text_input(key="word").set_value("<b>`$x$`").run()
    assert not at.exception
    assert not at.error


def test_a_long_word_is_cut_and_says_so() -> None:
    at = section("tokenizer", word="ab" * 900)
    assert f"That is 1,800 characters; the first {LONGEST} are used here." in said(at)
    assert len(at.dataframe[0].value) <= LONGEST


def test_the_cost_is_that_of_the_sentence_on_screen() -> None:
    short, long = "Dog bites man", "Dog bites man and man bites dog"
    at = section("cost", text=short)
    small = at.dataframe[0].value["multiply-adds"]
    assert small.iloc[:-1].sum() == small.iloc[-1]
    at.text_input(key="text").set_value(long).run()
    large = at.dataframe[0].value["multiply-adds"]
    n, m = (len(gpt2viz.load_model().tokenizer.encode(text)) for text in (short, long))
    assert large[0] * n == small[0] * m
    assert large[1] * n**2 == small[1] * m**2


def test_a_long_sentence_has_its_chips_beside_the_sections() -> None:
    at = open_page("attention", text=" ".join(["the cat"] * 75))
    at.selectbox(key="from").select(128).run()
    parameters = {**at.query_params, "part": "cost"}
    at.switch_page(str(ROOT / PAGES["models"]))
    at.query_params = parameters
    at.run()
    assert not at.exception
    assert not at.warning
    assert at.selectbox(key="from").value == 128
    assert "for 150 tokens" in said(at)


def test_two_folders_of_one_name_are_two_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "a" / "gpt2", tmp_path / "b" / "gpt2"]
    for seed, folder in enumerate(folders):
        write_checkpoint(folder, seed=seed)
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, pathsep.join(map(str, folders)))
    st.cache_resource.clear()
    monkeypatch.setattr(run_cache, "from_hub", lambda: {"gpt2": tmp_path / "hub", "a/b": tmp_path})
    monkeypatch.setenv(owner.ALLOW_VARIABLE, owner.EVERY)
    assert list(run_cache.model_folders()) == ["a/gpt2", "b/gpt2", "stories", "gpt2", "a/b"]
    one, other = (run_cache.load(name).network.wte.weight for name in ("a/gpt2", "b/gpt2"))
    assert not (one == other).all()
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, str(folders[0]))
    assert list(run_cache.model_folders()) == ["gpt2", "stories", "hub:gpt2", "a/b"]
    assert run_cache.name_of_fetched("gpt2") == "hub:gpt2"
    assert run_cache.name_of_fetched("other/one") is None
    st.cache_resource.clear()

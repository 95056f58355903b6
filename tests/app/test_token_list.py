"""A model with a small vocabulary of its own: what it can't read is said, the rest is drawn."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import streamlit as st

from gpt2viz.app import run_cache
from gpt2viz.app.literal import literal
from tests.app.pages import open_page, pictures, plain
from tests.app.test_behaviour import said
from tests.checkpoints import write_checkpoint


@pytest.fixture(scope="module")
def _sorter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A model of three digits, listed by the owner."""
    folder = tmp_path_factory.mktemp("models") / "sorter"
    write_checkpoint(folder, vocab_size=3)
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    (folder / "tokens.json").write_text(json.dumps(["0", "1", "2"]), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_cache.MODELS_VARIABLE, str(folder))
        st.cache_resource.clear()
        st.cache_data.clear()
        yield
    st.cache_resource.clear()


@pytest.mark.usefixtures("_sorter")
def test_what_it_lacks_is_one_message_and_what_it_has_is_drawn() -> None:
    lacks = "a list of 3 tokens, in which these characters are missing: "
    at = open_page("attention", model="sorter", text="[2](x) **1**")
    assert literal(lacks + "'[', ']', '(', 'x', ')', '*'. It has '0', '1', '2'.") in said(at)
    assert not pictures(at)
    assert pictures(open_page("attention", model="sorter", text="0 2 1 0 1 1"))
    at = open_page("what_if", model="sorter", text="021", edits="mean:0.0")
    assert "this model's vocabulary can't spell" in said(at)
    at = open_page("what_if", model="sorter", text="021", edits="patch:v:0.0", text2="é")
    assert "Second sentence: " in said(at)
    assert literal("missing: 'é'") in said(at)


@pytest.mark.usefixtures("_sorter")
def test_its_tokenizer_is_shown_as_a_list() -> None:
    at = open_page("models", model="sorter", part="tokenizer", word="2 0")
    read = " ".join(plain(block.value) for block in at.markdown)
    assert "2 tokens, with their ids: \u2002 **2** :small[:gray[2]] \u2002 **0**" in read
    assert "is a plain list of 3 tokens" in read
    assert "list of merges" not in read

"""Every page on models of Llama's family, which share keys, turn them, and have other norms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import pathsep

import pytest
import streamlit as st

from gpt2viz.app import run_cache
from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.app.views.models import SECTIONS
from tests.app.cases import each
from tests.app.pages import VIEWS, chips, open_page, page_text
from tests.llama_checkpoints import FAMILIES, write_llama

#: Every page with each of its modes, each section of Models, each chapter.
OPENED = (
    *VIEWS,
    *(f"models?part={part}" for part in SECTIONS),
    *(f"textbook?chapter={name}" for name in CHAPTERS),
)


@pytest.fixture(scope="module", autouse=True)
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tiny models of two families, which the owner lists."""
    folder = tmp_path_factory.mktemp("families")
    paths = [write_llama(folder / name, **FAMILIES[name]) for name in ("llama", "qwen3")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_cache.MODELS_VARIABLE, pathsep.join(map(str, paths)))
        st.cache_data.clear()
        st.cache_resource.clear()
        yield
    st.cache_data.clear()
    st.cache_resource.clear()


#: Words for parts of GPT-2 that these models lack.
OF_GPT2 = re.compile(r"LayerNorm|GELU|\bwpe\b|b_O|places? has a vector|GPT-2's")


@each(("model", "address"), [(model, page) for model in ("llama", "qwen3") for page in OPENED])
def test_every_page_opens_and_tells_of_no_part_that_is_not_there(model: str, address: str) -> None:
    at = open_page(address, model=model, text="the cat sat on the mat")
    assert not at.error, [block.value for block in at.error]
    if not address.startswith("textbook"):
        assert not OF_GPT2.findall(page_text(at))


@each("name", [name for name, chapter in CHAPTERS.items() if chapter.sentence])
def test_a_chapter_of_what_the_model_lacks_reads_with_the_bundled_one(name: str) -> None:
    at = open_page(f"textbook?chapter={name}", model="llama", text="the cat sat on the mat")
    bundled = "the bundled model, stories, reads your sentence" in page_text(at)
    assert bundled == bool(CHAPTERS[name].stages)
    assert ("·cat" in chips(at)["labels"]) == bundled  # of llama's tokens each is a byte

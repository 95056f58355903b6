"""The smallest models that load: every page, in every one of its ways, draws or says why not."""

from __future__ import annotations

from collections.abc import Iterator
from os import pathsep
from typing import Any

import pytest
import streamlit as st

from gpt2viz.app import pages, run_cache
from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.app.views.measures import MEASURES
from gpt2viz.app.views.models.contents import SECTIONS
from tests.app.pages import VIEWS, figure, heatmaps, open_page, pictures
from tests.app.test_behaviour import said
from tests.checkpoints import write_checkpoint

#: One position, two, and one of everything else.
SMALLEST: dict[str, dict[str, Any]] = {
    "one": {"n_positions": 1, "n_embd": 2, "n_layer": 1, "n_head": 1},
    "two": {"n_positions": 2, "n_embd": 1, "n_layer": 1, "n_head": 1},
}
EVERY = [
    *((view, {"text2": "B", "keys": "0"}) for view in VIEWS),
    *(
        (page, {"picture": "lines"})
        for page in ("attention", "head", "side_by_side", "side_by_side?differs=mask", "what_if")
    ),
    *((view, {"causal": "false"}) for view in VIEWS),
    ("predict?predict=generate", {"cache": "true"}),
    *(("attention", {"show": name}) for name in MEASURES),
    *(("side_by_side", {"compare": which}) for which in ("mean", "rollout")),
    *(
        ("find", {"find": way, "on": on})
        for way in pages.FIND.modes
        for on in ("probe", "sentence")
    ),
    *(("models", {"part": part}) for part in SECTIONS),
    *(("textbook", {"chapter": name}) for name, c in CHAPTERS.items() if c.reads_sentence),
    ("what_if", {"edits": "off:0.0,mean:0.0,attn:0,mlp:0,window:1,nofirst,scale:0.0:2"}),
]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The models, listed by the owner."""
    folders = [tmp_path_factory.mktemp("smallest") / name for name in SMALLEST]
    for folder in folders:
        write_checkpoint(folder, **SMALLEST[folder.name])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_cache.MODELS_VARIABLE, pathsep.join(map(str, folders)))
        st.cache_resource.clear()
        st.cache_data.clear()
        yield
    st.cache_resource.clear()


@pytest.mark.parametrize("name", SMALLEST)
def test_every_page_of_the_smallest_models(names: None, name: str) -> None:
    """The longest text everywhere; on the larger one the shorter too, as each page opens."""
    shown = {"one": {"A": EVERY}, "two": {"AB": EVERY, "A": EVERY[: len(VIEWS)]}}
    for text, pages_shown in shown[name].items():
        for page, parameters in pages_shown:
            for end in ("false", "true") if page == "attention" and text == "A" else ("false",):
                at = open_page(page, model=name, text=text, endoftext=end, **parameters)
                assert not at.exception, (name, page, parameters)
                assert "can't be loaded" not in said(at), (name, page)


def test_a_model_without_room_for_a_text_said_twice(names: None) -> None:
    at = open_page("find", model="one", text="A")
    assert "atlas_maps" in pictures(at)
    words = " ".join(block.value for block in at.caption)
    assert "measured on your sentence" in words
    assert "Second row" not in words
    assert at.session_state["on"] == "sentence"
    maps = heatmaps(figure(open_page("find", model="two", text="A"), "atlas_maps"))
    assert maps is not None
    assert "Second row" in " ".join(
        block.value for block in open_page("find", model="two", text="A").caption
    )

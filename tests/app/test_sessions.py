"""A saved session holds all that is chosen, and opens over whatever was open before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.run.session import Session, open_session
from tests.app.pages import figure, heatmaps, open_page
from tests.notebook.test_show import decoded

#: A second sentence that no address holds, and that still fits the context.
LONG = ("together " * 225).strip()


def _everything() -> None:
    import streamlit as st

    from gpt2viz.app.frame import saved_session

    st.session_state["saved"] = saved_session.everything()


def _restore() -> None:
    import streamlit as st

    from gpt2viz.app import address

    st.session_state["asked"] = address.restored(st.session_state["saved"])


def beside(at: AppTest, script: object, *names: str) -> AppTest:
    """Run a function as a page of the same visitor."""
    other = AppTest.from_function(script, default_timeout=60)  # type: ignore[arg-type]
    for name in ("_address", "text", "model", *names):
        if name in at.session_state:
            other.session_state[name] = at.session_state[name]
    for name, value in at.query_params.items():
        other.query_params[name] = value
    other.run()
    assert not other.exception, other.exception
    return other


def saved(at: AppTest) -> dict[str, str]:
    """What a session's file holds of a page."""
    found: dict[str, str] = beside(at, _everything).session_state["saved"]
    return found


def opened(at: AppTest, session: dict[str, str]) -> AppTest:
    """The same visitor's page once the session's file was opened on it."""
    at.session_state["saved"] = session
    restored = beside(at, _restore, "saved")
    for name in ("_address", "_address_handed"):
        at.session_state[name] = restored.session_state[name]
    at.query_params.clear()
    for name, value in restored.session_state["asked"].items():
        at.query_params[name] = value
    at.run()
    assert not at.exception, at.exception
    return at


def test_a_part_comes_back_over_another_text() -> None:
    session = saved(open_page("attention", text="The cat sat on the mat", zoom="2,5,1,4"))
    assert session["zoom"] == "2,5,1,4"
    at = opened(open_page("attention", text="Dog bites man", zoom="0,2,0,2"), session)
    assert heatmaps(figure(at, "one_head"))["weights"].shape == (3, 3)
    assert at.query_params["zoom"] == "2,5,1,4"
    assert not at.warning


def test_a_second_sentence_that_no_address_holds_comes_back() -> None:
    at = open_page("side_by_side?differs=text", text="A crane ate fish", model="stories")
    at.text_input(key="text2").set_value(LONG).run()
    assert "text2" not in at.query_params
    assert "too long for the address" in " ".join(block.value for block in at.caption)
    session = saved(at)
    assert session["text2"] == LONG
    found = opened(open_page("side_by_side?differs=text", text="Dog bites man"), session)
    assert found.session_state["text2"] == LONG
    assert found.session_state["text"] == "A crane ate fish"
    assert not found.warning


def test_a_long_list_comes_back_as_a_list() -> None:
    cells = ",".join(f"{query}:{key}" for query in range(60) for key in range(query))
    assert len(cells) > 2000
    session = {"text": "the cat " * 30, "find": "pattern", "pattern": "empty", "cells": cells}
    at = opened(open_page("find"), session)
    assert len(at.session_state["cells"]) == 60 * 59 // 2
    assert saved(at)["cells"] == cells


def test_a_session_says_all() -> None:
    """What it doesn't hold is as at first, whatever was chosen before."""
    first = open_page("side_by_side?differs=text", text="A crane ate fish")
    at = open_page("side_by_side?differs=text", text="Dog bites man")
    at.text_input(key="text2").set_value(LONG).run()
    assert at.session_state["text2"] == LONG
    opened(at, {"text": "A crane ate fish", "differs": "text"})
    assert at.session_state["text2"] == first.session_state["text2"] != LONG


def test_a_notebook_shows_what_the_app_saved(tmp_path: Path) -> None:
    chosen = {"text": "Dog bites man", "layer": "2", "head": "3", "query": "1", "causal": "false"}
    at = open_page("attention", endoftext="true", **chosen)
    sha256 = gpt2viz.load_model().weights.sha256  # type: ignore[union-attr]
    content = Session("Attention", saved(at), sha256).to_json()
    (tmp_path / "session.json").write_text(content, encoding="utf-8")
    view = gpt2viz.show(tmp_path / "session.json")
    n_head = view.about["map"]["heads"]
    assert (view.about["chosen"], view.about["token"]) == (2 * n_head + 3, 1)
    drawn = heatmaps(figure(at, "one_head"))["weights"]
    np.testing.assert_array_equal(decoded(view.html())[2][3], drawn)
    assert drawn[0, 1] > 0  # without the mask


def test_the_app_opens_what_a_notebook_saved(tmp_path: Path) -> None:
    model = gpt2viz.load_model()
    ids = model.tokenizer.encode("Dog bites man", end_of_text_first=True)
    trace = gpt2viz.trace(model, ids, causal=False)
    view = gpt2viz.show(trace, layers=[1])
    session = open_session(view.save(tmp_path / "session.json"))
    layer, head = divmod(view.about["chosen"], trace.config.n_head)
    assert (layer, session.page) == (1, "Attention")
    assert session.sha256 == model.weights.sha256  # type: ignore[union-attr]
    at = opened(open_page("attention", text="A crane ate fish"), dict(session.parameters))
    np.testing.assert_array_equal(
        heatmaps(figure(at, "one_head"))["weights"], trace.stage("weights", layer, head)
    )
    assert not at.warning

"""The Models page: the size first, then a question, then real bytes, and a way to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
import streamlit as st
from huggingface_hub import constants
from streamlit.testing.v1 import AppTest

from gpt2viz.app import owner, pages, run_cache
from gpt2viz.app.downloads import downloads
from gpt2viz.model import hub
from tests.app.pages import ROOT, open_page
from tests.checkpoints import write_checkpoint
from tests.hub_server import Hub, point_the_client_at, serving


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with one model, the only one that the app knows; the cache is empty."""
    write_checkpoint(tmp_path / "tiny")
    with serving(Hub({"someone/tiny": tmp_path / "tiny"})) as running:
        point_the_client_at(running, tmp_path / "cache", monkeypatch)
        st.cache_resource.clear()
        monkeypatch.setenv(owner.ALLOW_VARIABLE, owner.EVERY)
        yield running
        running.go_on.set()
        wait(lambda: all(download.ended for download in downloads().values()))
    st.cache_resource.clear()


def wait(holds: Callable[[], bool]) -> None:
    until = monotonic() + 20
    while not holds():
        assert monotonic() < until
        sleep(0.05)


def look_up(name: str) -> AppTest:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    at.switch_page(str(ROOT / pages.MODELS.path)).run()
    at.text_input(key="hub_name").set_value(name)
    press(at, "Look it up")
    assert not at.exception
    return at


def said(at: AppTest) -> str:
    blocks = (*at.markdown, *at.error, *at.warning, *at.success)
    return " ".join(block.value for block in blocks).replace("\\", "").replace("\u2060", "")


def press(at: AppTest, label: str) -> None:
    (button,) = [b for b in at.button if b.label.startswith(label)]
    button.click().run()
    assert not at.exception


def test_the_size_is_said_before_anything_is_fetched(server: Hub) -> None:
    at = look_up("someone/tiny")
    assert "someone/tiny is 138 kB. Fetch it?" in said(at).replace("**", "")
    assert not server.asked("/cdn/")
    assert list(run_cache.model_folders()) == ["stories"]
    press(at, "Download 1")
    wait(lambda: downloads()["someone/tiny"].ended)
    at.run()
    assert "is here." in said(at)
    assert list(run_cache.model_folders()) == ["stories", "someone/tiny"]
    other = open_page("attention", model="someone/tiny")
    assert other.selectbox(key="model").value == "someone/tiny"
    assert run_cache.load("someone/tiny").config.n_embd == 24


def test_released_models_are_offered_by_name(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    server.folders["gpt2"] = server.folders["someone/tiny"]
    at = look_up("")
    offered = [b.label for b in at.button if str(b.key).startswith("released_")]
    assert offered == list(hub.RELEASED)
    assert not server.requests
    at.button(key="released_gpt2").click().run()
    assert "gpt2 is 138 kB. Fetch it?" in said(at).replace("**", "")
    monkeypatch.setenv(owner.ALLOW_VARIABLE, "someone/tiny, distilgpt2")
    offered = [b.label for b in look_up("").button if str(b.key).startswith("released_")]
    assert offered == ["distilgpt2"]


def test_it_can_be_stopped_and_goes_on(server: Hub) -> None:
    server.slow = True
    at = look_up("someone/tiny")
    press(at, "Download")
    wait(lambda: downloads()["someone/tiny"].here > 60_000)
    at.run()
    (bar,) = at.get("progress")
    here = downloads()["someone/tiny"].here
    assert f"({here:,} of " in bar.proto.text
    press(at, "Stop")
    server.go_on.set()
    wait(lambda: downloads()["someone/tiny"].ended)
    server.slow = False
    at.run()
    assert "Stopped. What came so far is kept." in said(at)
    assert "is here already. Fetch it?" in said(at)
    server.requests.clear()
    press(at, "Download")
    wait(lambda: downloads()["someone/tiny"].ended)
    (headers,) = server.asked("/cdn/")
    assert int(headers["range"].removeprefix("bytes=").removesuffix("-")) > 50_000
    at.run()
    assert "is here." in said(at)


def test_what_is_not_allowed_is_not_asked_for(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(owner.ALLOW_VARIABLE, "gpt2, someone/else")
    assert "has not allowed 'someone/tiny'" in said(look_up("someone/tiny"))
    assert "; write owner" not in said(look_up("../../etc/passwd"))
    assert not server.requests


def test_where_nothing_is_allowed_it_says_how_to(
    server: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(owner.ALLOW_VARIABLE)
    at = open_page("models")
    assert "None is allowed yet" in said(at)
    assert "gpt2viz app --allow-model gpt2" in at.code[0].value
    assert not [box for box in at.text_input if box.key == "hub_name"]
    assert not server.requests


def test_without_network_it_is_one_line(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    words = said(look_up("gpt2"))
    assert "No connection to http://127.0.0.1:9. In the cache: nothing." in words

"""What the owner sets bounds what visitors can do, and they are told."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import streamlit as st
from streamlit import runtime
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager

import gpt2viz
from gpt2viz.app import compat, limits, owner
from tests.app.pages import VIEWS, WITHOUT, open_page, pictures
from tests.app.test_behaviour import said

LONG = "the cat sat on the mat and the dog"


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


def captions(page: str = "attention") -> str:
    return " ".join(block.value for block in open_page(page).caption)


def test_a_text_may_be_as_long_as_the_owner_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.TOKENS_VARIABLE, "6")
    at = open_page("attention", text=LONG)
    assert "this server reads at most 6 at once" in said(at)
    assert not pictures(at)
    (shorten,) = (button for button in at.button if button.label == "Use the first 6 tokens")
    shorten.click().run()
    assert at.text_input(key="text").value == "the cat sat on the mat"
    assert not said(at)
    assert len(pictures(at)) == 2


def test_a_million_spaces_are_too_long_and_no_more() -> None:
    at = open_page("attention")
    at.text_input(key="text").set_value(" " * 999_999 + "x").run(timeout=120)
    assert "this model reads at most 256 at once" in said(at)


@pytest.mark.parametrize("page", ["find", "predict?predict=generate", "side_by_side?differs=text"])
def test_no_page_runs_more(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    monkeypatch.setenv(limits.TOKENS_VARIABLE, "6")
    longest: list[int] = []
    trace = gpt2viz.trace
    monkeypatch.setattr(
        "gpt2viz.trace", lambda m, ids, **rest: longest.append(len(ids)) or trace(m, ids, **rest)
    )
    open_page(page, text="the cat sat on the mat", text2=LONG, new="5,6,7")
    assert max(longest) <= 6


def test_a_full_server_says_so_and_lets_nobody_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.SESSIONS_VARIABLE, "30")
    monkeypatch.setattr(compat, "connected", lambda: 30)
    inside = open_page("attention")
    assert not said(inside)
    monkeypatch.setattr(compat, "connected", lambda: 31)
    late = open_page("attention")
    assert "This server is full: its owner lets 30 visitors in" in said(late)
    assert not pictures(late)
    assert pictures(inside.run())  # who is in stays in
    monkeypatch.setattr(compat, "connected", lambda: 30)
    assert pictures(late.run())


@pytest.mark.parametrize("value", ["many", "-1", "0", "nan", "inf", "1e400", "0.5"])
@pytest.mark.parametrize("name", [limits.TOKENS_VARIABLE, limits.SESSIONS_VARIABLE])
def test_a_limit_that_is_no_number_is_one_message(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    at = open_page("attention")
    (message,) = (error.value.replace("\\", "") for error in at.error)
    assert message.startswith(f"{name} must be")
    assert not pictures(at)


def test_on_an_address_that_others_reach_visitors_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "Other machines" not in captions()
    get = st.get_option
    everywhere = {"server.address": "0.0.0.0"}  # noqa: S104 (what is told about)
    monkeypatch.setattr(st, "get_option", lambda name: everywhere.get(name) or get(name))
    assert "Other machines can reach this server. Visitors can run" in captions()
    monkeypatch.setenv(limits.TOKENS_VARIABLE, "128")
    assert "on texts of up to 128 tokens" in captions("models")
    assert not owner.allows("gpt2")


def test_as_it_comes_only_this_machine_is_served_and_nothing_is_told() -> None:
    assert st.get_option("server.address") == "127.0.0.1"
    assert st.get_option("server.allowedHosts") == ["localhost", "127.0.0.1", "::1"]
    assert st.get_option("browser.gatherUsageStats") is False
    assert st.get_option("server.enableXsrfProtection") is True
    assert st.get_option("server.enableCORS") is True
    assert st.get_option("server.enableStaticServing") is False
    assert st.get_option("client.showErrorDetails") == "none"
    assert st.get_option("server.maxCacheDataSize") == "64mb"


@pytest.mark.parametrize("page", [*VIEWS, *WITHOUT])
def test_a_device_that_is_not_here_is_one_message(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", "--device", "abacus"])
    at = open_page(page)
    assert not at.exception
    if page not in ("models", *WITHOUT):  # these run nothing yet
        (message,) = at.error
        assert "There is no device 'abacus' here; there is cpu" in message.value.replace("\\", "")
        assert not pictures(at)


def test_streamlit_counts_who_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compat.connected() == 0  # no server
    server = runtime.Runtime(
        runtime.RuntimeConfig(
            script_path="app.py",
            media_file_storage=MemoryMediaFileStorage("/media"),
            uploaded_file_manager=MemoryUploadedFileManager("/upload"),
        )
    )
    try:
        monkeypatch.setattr(server._session_mgr, "num_active_sessions", lambda: 3)
        assert compat.connected() == 3
    finally:
        runtime.Runtime._instance = None

"""The owner's settings limit what visitors can do, and the pages say so."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from packaging.version import Version

import gpt2viz
from gpt2viz import settings
from gpt2viz.app import metrics, server, server_config
from tests.app.cases import each
from tests.app.pages import NO_SENTENCE, PAGES, notices, open_page, pictures, press


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The owner's file, empty, without any other list of models."""
    monkeypatch.delenv(settings.MODELS_VARIABLE, raising=False)
    monkeypatch.setenv(settings.CONFIG_VARIABLE, str(tmp_path / "gpt2viz.toml"))
    (tmp_path / "gpt2viz.toml").touch()
    return tmp_path / "gpt2viz.toml"


@each("address", ["127.0.0.1", "localhost", "192.0.2.1", None])
def test_nothing_is_allowed_by_default_at_any_address(
    file: Path, monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    """Through a local proxy others can reach the server, whatever its address is."""
    monkeypatch.setattr(st, "get_option", {"server.address": address}.get)
    assert server_config.allowed_models() == []
    assert not server_config.allows("gpt2")
    assert not server_config.allows("*")


@each(
    ("address", "names", "local"),
    [
        ("127.0.0.1", ["localhost", "127.0.0.1"], True),
        ("::1", ["::1"], True),
        ("127.0.0.1", ["localhost", "a.example"], False),
        ("127.0.0.1", [], False),
        ("127.0.0.1", ["*"], False),
        ("0.0.0.0", ["localhost"], False),  # noqa: S104
        (None, ["localhost"], False),
    ],
)
def test_server_is_local_if_its_address_and_names_are(
    monkeypatch: pytest.MonkeyPatch, address: str | None, names: list[str], local: bool
) -> None:
    options = {"server.address": address, "server.allowedHosts": names}
    monkeypatch.setattr(st, "get_option", options.get)
    assert server_config.is_local() is local


@each(("arguments", "device"), [([], "cpu"), (["--device", "cuda:1"], "cuda:1")])
def test_device_of_the_models(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], device: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", *arguments])
    assert server_config.device() == device


def test_allowed_models_from_any_source(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def allowed() -> list[str]:
        return [name for name in ("gpt2", "a/b", "c/d") if server_config.allows(name)]

    monkeypatch.setattr(st, "get_option", {"server.address": "192.0.2.1"}.get)
    file.write_text('allow = ["c/d"]')
    assert allowed() == ["c/d"]
    monkeypatch.setenv(settings.ALLOW_VARIABLE, "a/b, gpt2")
    assert allowed() == ["gpt2", "a/b"]
    monkeypatch.setattr(sys, "argv", ["app.py", "--allow-model", "gpt2", "--other", "x"])
    assert allowed() == ["gpt2"]
    monkeypatch.setattr(sys, "argv", ["app.py", "--allow-model", "*"])
    assert allowed() == ["gpt2", "a/b", "c/d"]


def test_folders_from_command_and_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server_config.folders() == []
    file.write_text('models = ["mine", "/data/theirs"]')
    monkeypatch.setattr(sys, "argv", ["app.py", "--model", "here"])
    assert server_config.folders() == [Path("here"), file.parent / "mine", Path("/data/theirs")]
    monkeypatch.setenv(settings.MODELS_VARIABLE, os.pathsep.join(["", "a", "~/b"]))
    assert settings.folders()[:2] == [Path("a"), Path.home() / "b"]


@each(
    ("content", "message"),
    [
        ("models = [", r"gpt2viz\.toml: can't be read"),
        ('models = "mine"', r'models must be a list of texts, such as \["gpt2"\]'),
        ("models = [1]", "models must be a list of texts"),
        ('modles = ["mine"]', "'modles' is unknown; there are: models allow"),
    ],
)
def test_broken_file_is_one_message(file: Path, content: str, message: str) -> None:
    file.write_text(content)
    with pytest.raises(gpt2viz.CheckpointError, match=message):
        server_config.folders()


def test_unknown_home_folder_is_one_message(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = "~no-such-person/models"
    file.write_text(f'models = ["{nobody}"]')
    with pytest.raises(gpt2viz.CheckpointError, match=f"{nobody}: there is no such home folder"):
        settings.folders()
    file.write_text("")
    for variable in (settings.MODELS_VARIABLE, settings.CONFIG_VARIABLE):
        monkeypatch.setenv(variable, nobody)
        with pytest.raises(gpt2viz.CheckpointError, match="there is no such home folder"):
            settings.folders()
    monkeypatch.delenv(settings.MODELS_VARIABLE)
    monkeypatch.delenv(settings.CONFIG_VARIABLE)
    monkeypatch.setattr(sys, "argv", ["app.py", "--model", nobody])
    with pytest.raises(gpt2viz.CheckpointError, match="there is no such home folder"):
        server_config.folders()


def test_location_of_the_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(settings.CONFIG_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(settings, "APP", tmp_path / "clone")
    assert settings.config_file() == tmp_path / "config" / "gpt2viz" / "gpt2viz.toml"
    assert settings.setting("models") == []
    clone_file = tmp_path / "clone" / "gpt2viz.toml"
    clone_file.parent.mkdir()
    clone_file.write_text("models = ['mine']")
    assert settings.folders() == [clone_file.parent / "mine"]
    monkeypatch.setenv(settings.CONFIG_VARIABLE, str(tmp_path / "other.toml"))
    with pytest.raises(gpt2viz.CheckpointError, match=r"other\.toml, which isn't a file"):
        settings.folders()


def test_folders_of_equal_names_get_distinct_names(tmp_path: Path) -> None:
    def at(*names: str) -> list[Path]:
        return [tmp_path / name for name in names]

    assert list(settings.name_paths(at("a/gpt2", "b/gpt2", "c/mine"))) == [
        *("a/gpt2", "b/gpt2", "mine", "stories"),
    ]
    deep = settings.name_paths(at("x/a/gpt2", "y/a/gpt2"))
    assert list(deep) == ["x/a/gpt2", "y/a/gpt2", "stories"]
    assert list(deep.values())[:2] == at("x/a/gpt2", "y/a/gpt2")
    own = settings.name_paths(at("mine/stories"))
    assert own["stories"] == settings.BUNDLED
    assert own["mine/stories"] == tmp_path / "mine/stories"


def test_folder_listed_twice_appears_once(tmp_path: Path) -> None:
    twice = settings.name_paths([tmp_path / "a", tmp_path / "b" / ".." / "a", settings.BUNDLED])
    assert list(twice) == ["a", "stories"]


LONG = "the cat sat on the mat and the dog"


@pytest.fixture(autouse=True)
def _clear_caches() -> Iterator[None]:
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


def captions(page: str = "attention") -> str:
    return " ".join(block.value for block in open_page(page).caption)


def test_owner_limits_the_length_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(server_config.TOKENS_VARIABLE, "6")
    at = open_page("attention", text=LONG)
    assert "this server reads at most 6 at once" in notices(at)
    assert not pictures(at)
    press(at, "Use the first 6 tokens")
    assert at.text_input(key="text").value == "the cat sat on the mat"
    assert not notices(at)
    assert len(pictures(at)) == 2


@each("page", ["find", "predict?predict=generate", "side_by_side?differs=text"])
def test_no_page_runs_more_tokens(
    monkeypatch: pytest.MonkeyPatch, runs: list[int], page: str
) -> None:
    monkeypatch.setenv(server_config.TOKENS_VARIABLE, "6")
    open_page(page, text="the cat sat on the mat", text2=LONG, new="5,6,7")
    assert max(runs) <= 6


def test_full_server_refuses_only_new_visitors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(server_config.SESSIONS_VARIABLE, "30")
    monkeypatch.setitem(metrics._counts, "visitors", 30)
    early = open_page("attention")
    assert not notices(early)
    monkeypatch.setitem(metrics._counts, "visitors", 31)
    late = open_page("attention")
    assert "This server is full: it takes 30 visitors at a time" in notices(late)
    assert not pictures(late)
    assert pictures(early.run())  # earlier visitors stay
    monkeypatch.setitem(metrics._counts, "visitors", 30)
    assert pictures(late.run())


LIMITS = (
    server_config.TOKENS_VARIABLE,
    server_config.SESSIONS_VARIABLE,
    server.CONNECTIONS_VARIABLE,
    server.REQUESTS_VARIABLE,
)
NO_NUMBERS = ("many", "-1", "0", "nan", "inf", "1e400", "0.5")


@each(("name", "value"), [(LIMITS[n % 4], value) for n, value in enumerate(NO_NUMBERS)])
def test_invalid_limit_is_one_message(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    at = open_page("attention")
    (message,) = (error.value.replace("\\", "") for error in at.error)
    assert message.startswith(f"{name} must be")
    assert not pictures(at)


def test_pages_say_if_others_can_reach_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Other machines" not in captions()
    get = st.get_option
    everywhere = {"server.address": "0.0.0.0"}  # noqa: S104 (what the page reports)
    monkeypatch.setattr(st, "get_option", lambda name: everywhere.get(name) or get(name))
    assert "Other machines can reach this server. Visitors can run" in captions()
    monkeypatch.setenv(server_config.TOKENS_VARIABLE, "128")
    assert "on texts of up to 128 tokens" in captions("models")
    assert not server_config.allows("gpt2")


def test_default_settings_serve_only_this_machine() -> None:
    assert st.get_option("server.address") == "127.0.0.1"
    assert st.get_option("server.allowedHosts") == ["localhost", "127.0.0.1", "::1"]
    assert st.get_option("browser.gatherUsageStats") is False
    assert st.get_option("server.enableXsrfProtection") is True
    assert st.get_option("server.enableCORS") is True
    assert st.get_option("server.enableStaticServing") is False
    assert st.get_option("client.showErrorDetails") == "none"
    if Version(st.__version__) >= Version("1.67"):  # an older one has no such bound
        assert st.get_option("server.maxCacheDataSize") == "64mb"


@each("page", [*PAGES, *NO_SENTENCE, "textbook, order"])
def test_unavailable_device_is_one_message(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", "--device", "abacus"])
    page, _, chapter = page.partition(", ")  # a chapter that needs some stages
    at = open_page(page, **{"chapter": chapter} if chapter else {})
    assert not at.exception
    if page not in ("models", *NO_SENTENCE):  # these pages run nothing yet
        (message,) = at.error
        assert "There is no device 'abacus' here; there is cpu" in message.value.replace("\\", "")
        assert not pictures(at)

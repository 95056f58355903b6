"""Who may load what: the command line, the variable, the file, and whether the server is local."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import streamlit as st

import gpt2viz
from gpt2viz import settings
from gpt2viz.app import owner


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The owner's file, with nothing in it, and no other list."""
    monkeypatch.delenv(settings.MODELS_VARIABLE, raising=False)
    monkeypatch.setenv(settings.CONFIG_VARIABLE, str(tmp_path / "gpt2viz.toml"))
    (tmp_path / "gpt2viz.toml").touch()
    return tmp_path / "gpt2viz.toml"


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "192.0.2.1", None])
def test_where_nothing_is_listed_nothing_is_allowed_whatever_the_address(
    file: Path, monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    """A proxy on this machine lets others in, and the server's address doesn't tell."""
    monkeypatch.setattr(st, "get_option", {"server.address": address}.get)
    assert owner.allowed() == []
    assert not owner.allows("gpt2")
    assert not owner.allows("*")


@pytest.mark.parametrize(
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
def test_a_server_is_for_this_machine_where_address_and_names_are(
    monkeypatch: pytest.MonkeyPatch, address: str | None, names: list[str], local: bool
) -> None:
    options = {"server.address": address, "server.allowedHosts": names}
    monkeypatch.setattr(st, "get_option", options.get)
    assert owner.is_local() is local


@pytest.mark.parametrize(("given", "device"), [([], "cpu"), (["--device", "cuda:1"], "cuda:1")])
def test_where_the_models_compute(
    monkeypatch: pytest.MonkeyPatch, given: list[str], device: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", *given])
    assert owner.device() == device


def test_a_list_holds_wherever_it_stands(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def allowed() -> list[str]:
        return [name for name in ("gpt2", "a/b", "c/d") if owner.allows(name)]

    monkeypatch.setattr(st, "get_option", {"server.address": "192.0.2.1"}.get)
    file.write_text('allow = ["c/d"]')
    assert allowed() == ["c/d"]
    monkeypatch.setenv(owner.ALLOW_VARIABLE, "a/b, gpt2")
    assert allowed() == ["gpt2", "a/b"]
    monkeypatch.setattr(sys, "argv", ["app.py", "--allow-model", "gpt2", "--other", "x"])
    assert allowed() == ["gpt2"]
    monkeypatch.setattr(sys, "argv", ["app.py", "--allow-model", "*"])
    assert allowed() == ["gpt2", "a/b", "c/d"]


def test_folders_of_the_command_line_and_of_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert owner.folders() == []
    file.write_text('models = ["mine", "/data/theirs"]')
    monkeypatch.setattr(sys, "argv", ["app.py", "--model", "here"])
    assert owner.folders() == [Path("here"), file.parent / "mine", Path("/data/theirs")]
    monkeypatch.setenv(settings.MODELS_VARIABLE, os.pathsep.join(["", "a", "~/b"]))
    assert settings.folders()[:2] == [Path("a"), Path.home() / "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("models = [", r"gpt2viz\.toml: can't be read"),
        ('models = "mine"', r'models must be a list of texts, such as \["gpt2"\]'),
        ("models = [1]", "models must be a list of texts"),
        ('modles = ["mine"]', "'modles' is unknown; there are: models allow"),
    ],
)
def test_a_broken_file_is_one_message(file: Path, content: str, message: str) -> None:
    file.write_text(content)
    with pytest.raises(gpt2viz.CheckpointError, match=message):
        owner.folders()


def test_the_home_of_nobody_is_one_message(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        owner.folders()


def test_where_the_file_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(settings.CONFIG_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(settings, "APP", tmp_path / "clone")
    assert settings.config_file() == tmp_path / "config" / "gpt2viz" / "gpt2viz.toml"
    assert settings.listed("models") == []
    beside = tmp_path / "clone" / "gpt2viz.toml"
    beside.parent.mkdir()
    beside.write_text("models = ['mine']")
    assert settings.folders() == [beside.parent / "mine"]
    monkeypatch.setenv(settings.CONFIG_VARIABLE, str(tmp_path / "other.toml"))
    with pytest.raises(gpt2viz.CheckpointError, match=r"other\.toml, which isn't a file"):
        settings.folders()


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    def at(*names: str) -> list[Path]:
        return [tmp_path / name for name in names]

    assert list(settings.by_name(at("a/gpt2", "b/gpt2", "c/mine"))) == [
        *("a/gpt2", "b/gpt2", "mine", "stories"),
    ]
    deep = settings.by_name(at("x/a/gpt2", "y/a/gpt2"))
    assert list(deep) == ["x/a/gpt2", "y/a/gpt2", "stories"]
    assert list(deep.values())[:2] == at("x/a/gpt2", "y/a/gpt2")
    own = settings.by_name(at("mine/stories"))
    assert own["stories"] == settings.BUNDLED
    assert own["mine/stories"] == tmp_path / "mine/stories"


def test_a_folder_that_is_listed_twice_comes_once(tmp_path: Path) -> None:
    twice = settings.by_name([tmp_path / "a", tmp_path / "b" / ".." / "a", settings.BUNDLED])
    assert list(twice) == ["a", "stories"]

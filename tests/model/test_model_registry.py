"""A model is found by its name or its folder: the same in Python, in commands and in the app."""

from __future__ import annotations

import json
import os
import pwd
import sys
from pathlib import Path

import pytest
import streamlit as st

import gpt2viz
from gpt2viz import settings
from gpt2viz.anatomy.card import stored_files
from gpt2viz.app import run_cache, server, server_config
from gpt2viz.errors import CheckpointError
from gpt2viz.model import model_registry
from tests.checkpoints import write_checkpoint
from tests.cli.conftest import Run, run

__all__ = ["run"]


@pytest.fixture
def fetched(run: Run, tmp_path: Path) -> Path:
    """The folder of someone/tiny in the hub's cache, which has gpt2 too; no folder is listed."""
    for name in ("someone--tiny", "gpt2"):
        repository = tmp_path / "cache" / f"models--{name}"
        write_checkpoint(repository / "snapshots" / "abc")
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("abc")
    return tmp_path / "cache" / "models--someone--tiny" / "snapshots" / "abc"


def test_python_and_commands_find_the_same_models(fetched: Path, run: Run) -> None:
    write_checkpoint(Path("gpt2"))
    for given, name, folder in (
        ("someone/tiny", "someone/tiny", fetched),
        (str(fetched), "someone/tiny", fetched),
        ("stories", "stories", gpt2viz.BUNDLED),
        ("gpt2", "gpt2", Path("gpt2")),  # not that of the hub's cache
        ("./gpt2", "gpt2", Path("gpt2")),
    ):
        assert model_registry.find(given) == (name, folder)
        model = gpt2viz.load_model(given)
        assert (model.name, model.config.n_layer) == (name, 4 if name == "stories" else 3)
        assert model.weight_files is not None
        traced = run("trace", "A", "-m", given, "--json")
        assert json.loads(traced.stdout)["model"] == name
        assert json.loads(traced.stdout)["sha256"] == model.weight_files.sha256
    assert gpt2viz.load_model(fetched).name == "someone/tiny"
    assert gpt2viz.load_model("gpt2", "other").name == "other"


def test_names_take_precedence_over_folders(
    fetched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(Path("stories"))
    write_checkpoint(tmp_path / "gpt2")
    assert model_registry.find("stories")[1] == gpt2viz.BUNDLED
    assert model_registry.find("./stories")[1] == Path("stories")
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(tmp_path / "gpt2"))
    assert model_registry.find("gpt2") == ("gpt2", tmp_path / "gpt2")
    assert model_registry.find("hub:gpt2")[1] == tmp_path / "cache/models--gpt2/snapshots/abc"
    assert list(model_registry.models()) == ["gpt2", "stories", "hub:gpt2", "someone/tiny"]


def test_listed_folder_of_the_cache_appears_once(
    fetched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", "--model", str(fetched), "--allow-model", "gpt2"])
    run_cache.hub_cache.clear()
    assert list(run_cache.model_folders()) == ["someone/tiny", "stories", "gpt2"]
    assert run_cache.model_folders()["someone/tiny"] == fetched
    run_cache.hub_cache.clear()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("gpt3", r"'gpt3'; there are: stories, gpt2, someone/tiny\. `gpt2viz fetch gpt3` looks"),
        ("a/b/c", r"no model and no folder 'a/b/c'; there are: stories, gpt2, someone/tiny$"),
        ("/nowhere", r"^/nowhere: there is no such folder.*`gpt2viz fetch NAME`"),
        ("weights.safetensors", r"^weights\.safetensors: no config\.json; give a folder"),
        ("~no-such-person", "there is no such home folder"),
    ],
)
def test_unknown_model_is_refused_with_the_fetch_command(
    fetched: Path, run: Run, given: str, message: str
) -> None:
    Path("weights.safetensors").touch()
    with pytest.raises(CheckpointError, match=message) as refusal:
        gpt2viz.load_model(given)
    for command in (["trace", "A", "-m", given], ["app", "-m", given]):
        result = run(*command)
        assert (result.exit_code, str(refusal.value) in result.stderr) == (1, True)


def test_circular_links_are_listed_and_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(tmp_path / "back")
    (tmp_path / "back").symlink_to(loop)
    snapshots = tmp_path / "cache" / "models--a--b" / "snapshots"
    snapshots.mkdir(parents=True)
    (snapshots / "abc").symlink_to(snapshots / "abc")
    (snapshots.parent / "refs").mkdir()
    (snapshots.parent / "refs" / "main").write_text("abc")
    write_checkpoint(tmp_path / "files")
    (tmp_path / "files" / "README.md").symlink_to("README.md")
    monkeypatch.setenv(settings.MODELS_VARIABLE, f"{loop}{os.pathsep}{tmp_path / 'files'}")
    assert "README.md" not in [file.name for file in stored_files(tmp_path / "files")]
    assert "loop can't be loaded" in run("models").stderr
    monkeypatch.setattr(sys, "argv", ["app.py"])
    run_cache.hub_cache.clear()
    assert {"loop", "files"} <= run_cache.model_folders().keys()
    assert not any(map(run_cache.is_bundled, (loop, tmp_path / "files")))
    assert run("trace", "A", "-m", "loop").exit_code == 1
    assert run("app", "-m", str(loop)).exit_code == 1
    run_cache.hub_cache.clear()


def test_app_rereads_its_folders_each_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that opens after a training wrote its next checkpoint shows that one."""
    write_checkpoint(tmp_path / "mine" / "step-1")
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(tmp_path / "mine"))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    now = 100.0
    monkeypatch.setattr("gpt2viz.app.run_cache.time.monotonic", lambda: now)
    assert run_cache.model_folders()["mine"] == tmp_path / "mine" / "step-1"
    write_checkpoint(tmp_path / "mine" / "step-2")
    now = 101.0
    assert run_cache.model_folders()["mine"] == tmp_path / "mine" / "step-2"


def test_user_without_a_home_has_no_settings_file(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown_user(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown_user)
    assert [settings.folders(), settings.setting("allow"), server_config.folders()] == [[], [], []]
    assert run("trace", "A crane", "--json").exit_code == 0
    homes: list[Path] = []
    monkeypatch.setattr(st.App, "run", lambda *_, **__: homes.append(Path.home()))
    monkeypatch.setattr(server, "_limited", False)
    monkeypatch.setattr(sys, "argv", sys.argv)
    result = run("app", "--port", "8677", "--no-browser")
    assert result.exit_code == 0, result.stderr
    assert homes == [settings.APP]
    os.environ.pop("HOME")  # set by the command; pytest restores the original

"""Models fetched by name, with the real client, from a hub that the test runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from huggingface_hub import constants, utils
from numpy.testing import assert_array_equal
from packaging.version import Version

import gpt2viz
from gpt2viz import settings
from gpt2viz.errors import HubError
from gpt2viz.model import hub
from gpt2viz.model.memory import spell
from tests.checkpoints import edit_json, transformers_model, write_checkpoint
from tests.cli.conftest import Run, run
from tests.hub_server import Hub, point_the_client_at, serving
from tests.llama_checkpoints import write_llama

__all__ = ["run"]

NEEDED = ["config.json", "vocab.json", "merges.txt", "model.safetensors"]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with one model; the client's endpoint and cache as the environment would set them."""
    write_checkpoint(tmp_path / "tiny")
    (tmp_path / "tiny" / "pytorch_model.bin").write_bytes(b"a pickle")
    (tmp_path / "tiny" / "flax_model.msgpack").write_bytes(bytes(50_000))
    with serving(Hub({"someone/tiny": tmp_path / "tiny"})) as running:
        point_the_client_at(running, tmp_path / "cache", monkeypatch)
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        yield running


def get(name: str = "someone/tiny") -> Path:
    return hub.fetch(hub.look_up(name))


def assert_refused(message: str, name: str = "someone/tiny") -> None:
    with pytest.raises(HubError, match=message) as refusal:
        get(name)
    assert "\n" not in str(refusal.value)


def test_only_needed_files_are_fetched(server: Hub, tmp_path: Path) -> None:
    offer = hub.look_up("someone/tiny")
    assert [file.name for file in offer.files] == NEEDED
    assert offer.nbytes == sum((tmp_path / "tiny" / name).stat().st_size for name in NEEDED)
    assert not server.headers_of("/cdn/")
    progress: list[int] = []
    folder = hub.fetch(offer, progress.append)
    assert progress == sorted(progress)
    assert progress[-1] == offer.nbytes == offer.here
    assert not server.headers_of("pytorch_model")
    assert not server.headers_of("flax")
    ours = gpt2viz.load_model(folder, "someone/tiny")
    assert ours.name == "someone/tiny"
    theirs = gpt2viz.load_model(tmp_path / "tiny")
    assert_array_equal(gpt2viz.trace(ours, "A").logits, gpt2viz.trace(theirs, "A").logits)
    assert hub.cached_models() == {"someone/tiny": folder}


def test_llama_model_is_fetched_and_runs(server: Hub, tmp_path: Path) -> None:
    server.folders["someone/llama"] = write_llama(tmp_path / "llama")
    folder = get("someone/llama")
    assert hub.cached_models() == {"someone/llama": folder}
    fetched, written = map(gpt2viz.load_model, (folder, tmp_path / "llama"))
    assert fetched.config.n_kv_head == 2
    assert_array_equal(gpt2viz.trace(fetched, "A").logits, gpt2viz.trace(written, "A").logits)


def test_model_card_is_fetched(server: Hub, tmp_path: Path) -> None:
    (tmp_path / "tiny" / "README.md").write_text("# Tiny", encoding="utf-8")
    assert [file.name for file in hub.look_up("someone/tiny").files][:2] == [NEEDED[0], "README.md"]
    assert (get() / "README.md").read_text(encoding="utf-8") == "# Tiny"


def test_second_fetch_downloads_nothing(server: Hub) -> None:
    folder = get()
    server.requests.clear()
    assert get() == folder
    assert not server.headers_of("/cdn/")
    assert not server.headers_of("/resolve/")


def test_token_is_sent_to_the_hub_alone(server: Hub) -> None:
    # A name of its own: another test's client may still send requests to this port.
    server.folders["someone/secret"] = server.folders["someone/tiny"]
    server.private["someone/secret"] = "Bearer hf_secret"
    get("someone/secret")
    requested = server.headers_of("/api/models/someone/secret")
    assert {h.get("authorization") for h in requested} == {"Bearer hf_secret"}
    assert [h.get("authorization") for h in server.headers_of("/cdn/")] == [None]


def test_renamed_model_is_found(server: Hub) -> None:
    server.renamed["gpt2"] = "someone/tiny"
    assert gpt2viz.load_model(get("gpt2")).config.n_layer == 3
    assert list(hub.cached_models()) == ["gpt2"]


def test_sharded_weights_are_fetched(server: Hub, tmp_path: Path) -> None:
    theirs = transformers_model(tmp_path / "tiny")
    (tmp_path / "tiny" / "model.safetensors").unlink()
    theirs.save_pretrained(tmp_path / "tiny", max_shard_size="40KB")
    folder = get()
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    assert gpt2viz.load_model(folder).config.n_layer == 3


def test_revision_is_a_checkpoint_of_the_model(server: Hub, tmp_path: Path, run: Run) -> None:
    newest = get()
    write_checkpoint(tmp_path / "step10", seed=1)
    server.folders["someone/tiny@step10"] = tmp_path / "step10"
    assert run("fetch", "someone/tiny@step10", "--dry-run").exit_code == 0
    assert not gpt2viz.load_steps(newest)  # its config alone is here
    assert hub.look_up("someone/tiny", "step10").files[-1] != hub.look_up("someone/tiny").files[-1]
    assert run("fetch", "someone/tiny@step10").exit_code == 0
    assert hub.cached_models() == {"someone/tiny": newest}
    result, earlier = (
        gpt2viz.trace(model, "A").logits
        for model in (gpt2viz.load_steps(newest)[10], gpt2viz.load_model(tmp_path / "step10"))
    )
    assert_array_equal(result, earlier)
    for wrong, message in (("step9", "has no such revision"), ("", "names no revision")):
        refused = run("fetch", f"someone/tiny@{wrong}")
        assert refused.exit_code == 1
        assert message in refused.stderr


@pytest.mark.skipif(
    Version(version("huggingface_hub")) < Version("1.24"),
    reason="the hub's client goes on by itself from 1.24 on; before, the command is repeated",
)
def test_interrupted_download_resumes(server: Hub) -> None:
    server.cut_after, server.cuts = 30_000, 1
    gpt2viz.load_model(get())
    assert [h.get("range") for h in server.headers_of("/cdn/")] == [None, "bytes=30000-"]


def test_stopped_download_keeps_its_bytes_and_resumes(server: Hub) -> None:
    offer = hub.look_up("someone/tiny")
    small = sum(file.nbytes for file in offer.files[:-1])
    here = [0]
    with pytest.raises(hub.StoppedError, match=r"What came so far is kept\."):
        hub.fetch(offer, lambda n: here.append(n), lambda: here[-1] > small)
    assert offer.here == here[-1] == small + 10_000
    assert not hub.cached_models()
    server.requests.clear()
    gpt2viz.load_model(hub.fetch(offer))
    assert [h.get("range") for h in server.headers_of("/cdn/")] == ["bytes=10000-"]


def test_a_damaged_file_is_not_kept(server: Hub) -> None:
    server.damaged = True
    assert_refused(
        r"model\.safetensors of someone/tiny arrived damaged and was not kept\. Try again\."
    )
    assert not hub.cached_models()
    server.damaged = False
    gpt2viz.load_model(get())


def test_missing_private_and_gated_models_are_refused(server: Hub) -> None:
    assert_refused(r"has no someone/else that you may read\. Check the name", "someone/else")
    server.private["someone/tiny"] = "Bearer another"
    assert_refused(r"has no someone/tiny that you may read\. .* `hf auth login`, or HF_TOKEN")
    server.private.clear()
    server.gated.add("someone/tiny")
    assert_refused(r"someone/tiny is gated: ask for access on http://127\.0\.0\.1")
    server.gated.clear()
    server.failing = 418
    assert_refused(r"answers 418 for someone/tiny\. Try again later\.")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc", "a/b/c", "a..b/c", "", "x" * 200])
def test_invalid_name_reaches_neither_disk_nor_network(server: Hub, name: str) -> None:
    assert_refused("isn't a model's name; write owner/name", name)
    assert not server.requests
    assert not Path(constants.HF_HUB_CACHE).exists()


def test_unsupported_model_is_refused_before_its_download(server: Hub, tmp_path: Path) -> None:
    edit_json(tmp_path / "tiny" / "config.json", model_type="bert")
    with pytest.raises(gpt2viz.CheckpointError, match="model_type is 'bert'"):
        get()
    (tmp_path / "tiny" / "model.safetensors").unlink()
    assert_refused(r"has no model\.safetensors; only models in Hugging Face's layout")
    assert not server.headers_of("/cdn/")
    assert not server.headers_of("pytorch_model")


def forget_sessions() -> None:
    """Reset the client's sessions, which before 1.0 never go offline or online later."""
    getattr(utils, "reset_sessions", lambda: None)()


def test_without_network_the_error_lists_cached_models(
    server: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    get()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    forget_sessions()
    assert_refused(
        r"^No connection to http://127\S+\. In the cache: someone/tiny\.$", "someone/else"
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    forget_sessions()
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert_refused(r"^No connection to http://127\.0\.0\.1:9\. In the cache: someone/tiny\.$")


@pytest.mark.slow
def test_client_environment_variables_are_respected(server: Hub, tmp_path: Path) -> None:
    code = (
        "from gpt2viz.model import hub; print(hub.fetch(hub.look_up('someone/tiny')));"
        "print(*hub.cached_models())"
    )
    own = {"HF_ENDPOINT": server.address, "HF_HOME": str(tmp_path / "home")}
    variables = os.environ | own
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=True)
    folder, names = done.stdout.splitlines()
    assert Path(folder).is_relative_to(tmp_path / "home" / "hub")
    assert names == "someone/tiny"


def test_fetch_command_prints_the_size_and_resumes(server: Hub, run: Run) -> None:
    nbytes = hub.look_up("someone/tiny").nbytes
    config = hub.look_up("someone/tiny").here
    size = f"someone/tiny is {spell(nbytes)}, {spell(config)} of it here already\n"
    first = run("fetch", "someone/tiny", "--dry-run")
    assert (first.stdout, first.stderr) == (f"someone/tiny: {nbytes:,} bytes\n", size)
    assert not server.headers_of("/cdn/")
    here = [0]
    with pytest.raises(hub.StoppedError):
        hub.fetch(hub.look_up("someone/tiny"), here.append, lambda: here[-1] > nbytes // 2)
    server.requests.clear()
    done = run("fetch", "someone/tiny")
    assert [h.get("range", "")[:6] for h in server.headers_of("/cdn/")] == ["bytes="]
    folder = hub.cached_models()["someone/tiny"]
    assert done.stdout == f"someone/tiny: {folder}\n"
    opening, *tenths = done.stderr.splitlines()
    assert opening.startswith(f"someone/tiny is {spell(nbytes)}, ")
    assert tenths == sorted(tenths, key=lambda line: int(line.split()[1]))
    assert tenths[-1] == "Fetching: 100 %"
    result = json.loads(run("fetch", "someone/tiny", "--json", "--quiet").stdout)
    assert result == {
        "name": "someone/tiny", "bytes": nbytes, "here": nbytes, "folder": str(folder)
    }  # fmt: skip
    assert (
        json.loads(run("trace", "A", "-m", "someone/tiny", "--json").stdout)["model"]
        == result["name"]
    )
    assert gpt2viz.load_model("someone/tiny").config.n_layer == 3


def test_fetch_command_obeys_the_allow_list(
    server: Hub, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(settings.ALLOW_VARIABLE, "gpt2, a/b")
    result = run("fetch", "someone/tiny")
    assert (result.exit_code, result.stderr) == (
        1,
        "gpt2viz: 'someone/tiny' may not be fetched here; the list `allow` in gpt2viz.toml, or "
        "GPT2VIZ_ALLOW_MODEL, has: gpt2, a/b\n",
    )
    assert not server.requests
    monkeypatch.setenv(settings.ALLOW_VARIABLE, "*")
    assert run("fetch", "someone/tiny", "-q").exit_code == 0
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    result = run("fetch", "gpt2")
    assert (result.exit_code, "In the cache: someone/tiny." in result.stderr) == (1, True)

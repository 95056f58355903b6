"""Ground of other libraries that nobody promised us is still where it was."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from huggingface_hub import HfApi, constants, hf_hub_download

from gpt2viz.model import compat as hub
from tests.checkpoints import write_checkpoint
from tests.hub_server import Hub, point_the_client_at, serving


def test_the_hubs_client_goes_on_into_a_file_that_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path / "tiny")
    whole = (tmp_path / "tiny" / "model.safetensors").read_bytes()
    target = io.BytesIO(whole[:5000])
    target.seek(5000)
    with serving(Hub({"someone/tiny": tmp_path / "tiny"})) as running:
        point_the_client_at(running, tmp_path / "cache", monkeypatch)
        url = f"{running.address}/someone/tiny/resolve/main/model.safetensors"
        hub.download(url, target, 5000, {"accept-encoding": "identity"}, len(whole))
        assert running.asked("/cdn/")[0]["range"] == "bytes=5000-"
    assert target.getvalue() == whole


def test_the_hubs_client_names_its_folders_as_we_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path / "tiny")
    with serving(Hub({"someone/tiny": tmp_path / "tiny"})) as running:
        point_the_client_at(running, tmp_path / "cache", monkeypatch)
        found = Path(hf_hub_download("someone/tiny", "config.json"))
    assert found.is_relative_to(Path(constants.HF_HUB_CACHE, hub.folder_of("someone/tiny")))


def test_the_hubs_client_lets_through_what_we_catch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Hub()) as running:
        point_the_client_at(running, tmp_path / "cache", monkeypatch)
    with pytest.raises(hub.transport_error()):
        HfApi(endpoint=running.address).model_info("someone/tiny")

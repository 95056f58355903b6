"""Killed, interrupted, repeated or on a full disk: nothing is lost, left over or different."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import getsource
from pathlib import Path

import pytest
from click.testing import CliRunner
from huggingface_hub import constants
from numpy.testing import assert_array_equal

import gpt2viz
from gpt2viz.cli import main
from gpt2viz.errors import HubError
from gpt2viz.model import hub
from gpt2viz.survey import run as survey_run
from gpt2viz.survey.documents import shards
from gpt2viz.survey.engines import local
from gpt2viz.training.train import STATE, Trainer
from tests.checkpoints import write_checkpoint
from tests.hub_server import Hub, point_the_client_at, serving
from tests.processes import full_disk, has_ended, run_fork
from tests.servers import comes_up, free_ports
from tests.training.runs import RECIPE, held_out, stream, train

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
TEXT = "A crane ate fish and the animal did not cross the street because it was too tired.\n\n" * 12


@contextmanager
def snapshot(folder: Path, n: int, copy: Path) -> Iterator[None]:
    """Copy a folder just before its n-th file is renamed into place, as kill -9 leaves it."""
    left, replace = [n], Path.replace

    def copying(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] == 0:
            shutil.copytree(folder, copy)
        return replace(self, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", copying)
        yield
    assert left[0] <= 0


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(survey_run, "shards", lambda path: shards(path, size=200))
    (tmp_path / "corpus.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "corpus.txt"


def test_a_killed_survey_resumes(tiny_folder: Path, corpus: Path, tmp_path: Path) -> None:
    broken, whole, given = tmp_path / "broken", tmp_path / "whole", (12, "cpu", local(1))
    with snapshot(whole, 4, broken):  # after survey.json and two shards
        survey_run.survey(corpus, tiny_folder, whole, *given)
    assert len(list(broken.glob("shard-*.npz"))) == 2
    (left,) = broken.glob("*.partial")
    assert not (broken / "heads.csv").exists()
    survey_run.survey(corpus, tiny_folder, broken, *given)
    assert (broken / "heads.csv").read_bytes() == (whole / "heads.csv").read_bytes()
    assert not list(whole.glob("*.partial"))
    assert {p.name for p in broken.iterdir()} == {p.name for p in whole.iterdir()} | {left.name}


def test_a_killed_training_resumes(tmp_path: Path) -> None:
    with snapshot(tmp_path / "whole", 3, tmp_path / "broken"):
        whole = train(tmp_path / "whole", 8)
    assert 0 < Trainer(RECIPE, stream(), held_out(), tmp_path / "broken").step < 8
    broken = train(tmp_path / "broken", 8)
    for name, weight in whole.network.state_dict().items():
        assert_array_equal(broken.network.state_dict()[name], weight, err_msg=name)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    write_checkpoint(tmp_path / "tiny")
    with serving(Hub({"someone/tiny": tmp_path / "tiny"})) as running:
        point_the_client_at(running, tmp_path / "cache", monkeypatch)
        yield running


def killed_download() -> None:
    """Start a download, and be killed by SIGKILL after 60,000 bytes."""
    write, written = hub._Watched.write, [0]

    def counting(self: hub._Watched, data: bytes) -> int:
        written[0] += (n := write(self, data))
        if written[0] > 60_000:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    hub._Watched.write = counting  # type: ignore[method-assign]
    hub.fetch(hub.look_up("someone/tiny"))


def test_a_killed_download_resumes(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 10_000)
    assert run_fork(killed_download) == -signal.SIGKILL
    assert not hub.cached_models()
    server.requests.clear()
    gpt2viz.load_model(hub.fetch(hub.look_up("someone/tiny")))
    (again,) = (headers.get("range") for headers in server.headers_of("/cdn/"))
    assert again is not None


def test_a_full_disk_gives_one_message(
    server: Hub, tiny_folder: Path, corpus: Path, tmp_path: Path
) -> None:
    with full_disk(50_000), pytest.raises(HubError, match="could not be fetched") as refusal:
        hub.fetch(hub.look_up("someone/tiny"))
    assert "\n" not in str(refusal.value)
    command = ["heads", "--corpus", str(corpus), "--model", str(tiny_folder), "--tokens", "12"]
    command += ["--workers", "1", "--quiet", "--out"]
    for path, free in ((tmp_path / "out", 3000), (Path("/dev/null/out"), 10**9)):
        with full_disk(free):
            result = CliRunner().invoke(main, [*command, str(path)])
        assert (result.exit_code, result.stdout) == (1, "")
        assert "can't be written" in result.stderr
        assert result.stderr.count("\n") == 1
    assert not list((tmp_path / "out").glob("*.partial"))
    train(tmp_path / "run", 4)
    before = (tmp_path / "run" / STATE).read_bytes()
    with full_disk(), pytest.raises((OSError, RuntimeError)):
        train(tmp_path / "run", 8)
    assert (tmp_path / "run" / STATE).read_bytes() == before


def test_control_c_leaves_no_process(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true"]
    process = subprocess.Popen(
        [*command, "--server.port", str(port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert comes_up(f"http://127.0.0.1:{port}")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 0
    assert has_ended(process.pid)


def digest() -> str:
    from hashlib import sha256

    import gpt2viz

    model, made = gpt2viz.load_model(), sha256()
    for explicit in (True, False):
        trace = gpt2viz.trace(model, "A crane ate fish", explicit=explicit)
        for key in sorted(trace.captured, key=str):
            made.update(str(key).encode() + trace.captured[key].tobytes())
        made.update(trace.stage("weights", 2).tobytes() + trace.logits.tobytes())
    return made.hexdigest()


def test_the_same_input_gives_the_same_bytes() -> None:
    """Also with another hash seed; with as many threads, as their number can change the order of a
    sum, and with it the last bits."""
    other = os.environ | {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", f"{getsource(digest)}\nprint(digest())"]
    printed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, env=other)
    assert printed.stdout.decode().strip() == digest()

"""Killed, interrupted, on a full disk or a second time: nothing is lost, left over or different."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
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
from tests.processes import ends, forked, full_disk
from tests.servers import answers, free_ports
from tests.training.runs import RECIPE, held_out, stream, trained

ROOT = Path(__file__).parents[1]
TEXT = "A crane ate fish and the animal did not cross the street because it was too tired.\n\n" * 12


def killed(n: int, act: Callable[..., object], *arguments: object) -> None:
    """Act in another process; kill -9 comes when the n-th finished file would take its place."""
    left, replace = [n], Path.replace

    def dies(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(self, target)

    def doomed() -> None:
        Path.replace = dies  # type: ignore[method-assign, assignment]
        act(*arguments)

    assert forked(doomed) == -signal.SIGKILL


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(survey_run, "shards", lambda path: shards(path, size=200))
    (tmp_path / "corpus.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "corpus.txt"


def test_a_killed_survey_goes_on(tiny_folder: Path, corpus: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    given = 12, "cpu", local(1)
    # When survey.json and two shards are in their place.
    killed(4, survey_run.survey, corpus, tiny_folder, out, *given)
    assert len(list(out.glob("shard-*.npz"))) == 2
    assert not (out / "heads.csv").exists()
    for folder in (out, whole):
        survey_run.survey(corpus, tiny_folder, folder, *given)
    assert (out / "heads.csv").read_bytes() == (whole / "heads.csv").read_bytes()
    assert not list(whole.glob("*.partial"))
    assert {path.name for path in out.iterdir()} == {path.name for path in whole.iterdir()}


def test_a_killed_training_goes_on(tmp_path: Path) -> None:
    killed(3, trained, tmp_path / "broken", 8)
    assert 0 < Trainer(RECIPE, stream(), held_out(), tmp_path / "broken").step < 8
    broken, whole = trained(tmp_path / "broken", 8), trained(tmp_path / "whole", 8)
    for name, weight in whole.network.state_dict().items():
        assert_array_equal(broken.network.state_dict()[name], weight, err_msg=name)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    write_checkpoint(tmp_path / "tiny")
    with serving(Hub({"someone/tiny": tmp_path / "tiny"})) as running:
        point_the_client_at(running, tmp_path / "cache", monkeypatch)
        yield running


def killed_download() -> None:
    """Let kill -9 come after 60,000 bytes."""
    write, written = hub._Watched.write, [0]

    def counting(self: hub._Watched, data: bytes) -> int:
        written[0] += (n := write(self, data))
        if written[0] > 60_000:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    hub._Watched.write = counting  # type: ignore[method-assign]
    hub.fetch(hub.look_up("someone/tiny"))


def test_a_killed_download_goes_on(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 10_000)
    assert forked(killed_download) == -signal.SIGKILL
    assert not hub.cached()
    server.requests.clear()
    gpt2viz.load_model(hub.fetch(hub.look_up("someone/tiny")))
    (again,) = (headers.get("range") for headers in server.asked("/cdn/"))
    assert again is not None


def test_a_full_disk_is_one_message(
    server: Hub, tiny_folder: Path, corpus: Path, tmp_path: Path
) -> None:
    with full_disk(50_000), pytest.raises(HubError, match="could not be fetched") as refusal:
        hub.fetch(hub.look_up("someone/tiny"))
    assert "\n" not in str(refusal.value)
    command = ["heads", "--corpus", str(corpus), "--model", str(tiny_folder), "--tokens", "12"]
    command += ["--workers", "1", "--quiet", "--out"]
    for place, free in ((tmp_path / "out", 3000), (Path("/dev/null/out"), 10**9)):
        with full_disk(free):
            result = CliRunner().invoke(main, [*command, str(place)])
        assert (result.exit_code, result.stdout) == (1, "")
        assert "can't be written" in result.stderr
        assert result.stderr.count("\n") == 1
    assert not list((tmp_path / "out").glob("*.partial"))
    trained(tmp_path / "run", 4)
    before = (tmp_path / "run" / STATE).read_bytes()
    with full_disk(), pytest.raises((OSError, RuntimeError)):
        trained(tmp_path / "run", 8)
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
    assert answers(f"http://127.0.0.1:{port}")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 0
    assert ends(process.pid)


def digest() -> str:
    from hashlib import sha256

    import gpt2viz

    model, made = gpt2viz.load_model(), sha256()
    for explicit in (True, False):
        trace = gpt2viz.trace(model, "A crane ate fish", explicit=explicit)
        for place in sorted(trace.captured, key=str):
            made.update(str(place).encode() + trace.captured[place].tobytes())
        made.update(trace.stage("weights", 2).tobytes() + trace.logits.tobytes())
    return made.hexdigest()


def test_the_same_input_gives_the_same_bytes() -> None:
    """In a process that orders its sets differently; threads alike, as their number can change
    the order of a sum, and with it the last bits."""
    other = os.environ | {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", f"{getsource(digest)}\nprint(digest())"]
    printed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, env=other)
    assert printed.stdout.decode().strip() == digest()

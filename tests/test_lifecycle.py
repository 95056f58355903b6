"""Killed, interrupted, on a full disk or a second time: nothing is lost, left over or different."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
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
from tests.servers import answers, free_ports
from tests.training.runs import RECIPE, held_out, stream, trained

ROOT = Path(__file__).parents[1]
TEXT = "A crane ate fish and the animal did not cross the street because it was too tired.\n\n" * 12

# The n-th time that a finished file would take its place, kill -9 comes first.
KILLED = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
left = [int(sys.argv[1])]
replace = Path.replace
def dies(self, target):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
Path.replace = dies
"""

SURVEY = """
from gpt2viz.survey import run
from gpt2viz.survey.engines import local
cut = run.shards
run.shards = lambda path: cut(path, size=200)
run.survey(Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]), 12, "cpu", local(1))
"""

TRAINING = """
from tests.training.runs import trained
trained(Path(sys.argv[2]), 8)
"""

DOWNLOAD = """
from gpt2viz.model import hub
write, came = hub._Watched.write, [0]
def counting(self, data):
    written = write(self, data)
    came[0] += written
    if came[0] > 60_000:
        os.kill(os.getpid(), signal.SIGKILL)
    return written
hub._Watched.write = counting
hub.fetch(hub.look_up("someone/tiny"))
"""

DIGEST = """
from hashlib import sha256
import gpt2viz
model, digest = gpt2viz.load_model(), sha256()
for explicit in (True, False):
    trace = gpt2viz.trace(model, "A crane ate fish", explicit=explicit)
    for place in sorted(trace.captured, key=str):
        digest.update(str(place).encode() + trace.captured[place].tobytes())
    digest.update(trace.stage("weights", 2).tobytes() + trace.logits.tobytes())
print(digest.hexdigest())
"""


def killed(program: str, *arguments: object, **environment: str) -> None:
    command = [sys.executable, "-c", KILLED + program, *map(str, arguments)]
    run = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True)
    assert run.returncode == -signal.SIGKILL, run.stderr.decode()


@contextmanager
def full_disk(free: int = 3000) -> Iterator[None]:
    """No file can grow beyond so many bytes: to a program the same as a disk without room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(survey_run, "shards", lambda path: shards(path, size=200))
    (tmp_path / "corpus.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "corpus.txt"


def test_a_killed_survey_goes_on(tiny_folder: Path, corpus: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    killed(SURVEY, 4, corpus, tiny_folder, out)  # survey.json and two shards were in their place
    assert len(list(out.glob("shard-*.npz"))) == 2
    assert not (out / "heads.csv").exists()
    for folder in (out, whole):
        survey_run.survey(corpus, tiny_folder, folder, 12, "cpu", local(1))
    assert (out / "heads.csv").read_bytes() == (whole / "heads.csv").read_bytes()
    assert not list(whole.glob("*.partial"))
    assert {path.name for path in out.iterdir()} == {path.name for path in whole.iterdir()}


def test_a_killed_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    killed(TRAINING, 3, tmp_path / "broken")
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


def test_a_killed_download_goes_on(server: Hub, tmp_path: Path) -> None:
    places = {"HF_ENDPOINT": server.address, "HF_HUB_CACHE": str(tmp_path / "cache")}
    killed(
        "from huggingface_hub import constants\nconstants.DOWNLOAD_CHUNK_SIZE = 10_000\n"
        + DOWNLOAD,
        99,
        **places,
    )
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
    for _ in range(50):
        if not group(process.pid):
            break
        time.sleep(0.1)
    assert not group(process.pid)


def group(leader: int) -> list[str]:
    """The processes of a group that are still there."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return []
    return [str(leader)]


def test_the_same_input_gives_the_same_bytes() -> None:
    """In processes that order their sets differently; threads alike, as their number can change
    the order of a sum, and with it the last bits."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
        ).stdout
        for seed in ("1", "2")
    }
    (digest,) = digests
    assert len(digest) == 65

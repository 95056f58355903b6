"""A process is tuned by one call, and by nothing else: how threads wait, and how many there are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import pytest
import torch

from gpt2viz.model import tuning
from gpt2viz.model.tuning import ONE_THREAD, threads

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def output_of(script: str, *arguments: str, **given: str) -> str:
    """A script's output in its own process, with only the given OpenMP variables set."""
    ours = ("OMP_", "OPENBLAS_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    command = [sys.executable, "-c", script, *arguments]
    environment = inherited | {"PYTHONPATH": str(ROOT)} | given
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return run.stdout


#: A library user's calls, watched for changes to the process, before and after it is tuned.
USE = """
import os, sys
before = dict(os.environ)
import gpt2viz
heavy = {"torch", "streamlit", "pandas", "plotly", "scipy", "pyarrow"}
assert not heavy & sys.modules.keys()
import torch
dear = (heavy | {"torch._dynamo"}) - sys.modules.keys()
calls = []
set_threads = torch.set_num_threads
def spy(n):
    calls.append(n)
    set_threads(n)
set_threads(3)
torch.set_num_threads = spy
def use():
    calls.clear()
    trace = gpt2viz.trace(gpt2viz.load_model(), "A crane ate fish", explicit=False)
    trace.stage("weights", 1), trace.logits
    print(calls, torch.get_num_threads())
use()
assert not dear & sys.modules.keys(), dear & sys.modules.keys()
assert os.environ == before
print(*gpt2viz.tune_process())
use()
assert os.environ == before
"""


@LINUX
def test_library_leaves_the_process_alone_until_it_is_tuned() -> None:
    """Then a run and its weights take one thread each.

    Once torch is loaded, only variables set before apply to its threads.
    """
    lines = output_of(USE, OMP_WAIT_POLICY="PASSIVE").splitlines()
    assert lines == ["[] 3", "True True", "[1, 3, 1, 3] 3"]


TUNE = """
import os
from gpt2viz import tune_process
first = tune_process()
assert tune_process() is first
print(*first, os.environ["OMP_WAIT_POLICY"])
"""


@LINUX
def test_tune_process_reports_its_success() -> None:
    assert output_of(TUNE) == "True True PASSIVE\n"
    owners = {"OMP_WAIT_POLICY": "A", tuning.PRODUCTS_VARIABLE: "2"}
    assert output_of(TUNE, **owners) == "False False A\n"


#: The entry points, each as the first import of its process.
PROGRAMS = {
    "the app's room": "import gpt2viz.app.frame.page",
    "a command": "from gpt2viz.cli import main\nmain(['--version'])",
    "training": "import gpt2viz.training.__main__",
}
WATCH = """
import atexit, importlib.abc, os, sys
def tell():
    print(os.environ.get("OMP_WAIT_POLICY"), flush=True)
    os._exit(0)  # it is settled: torch itself would take seconds
class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            tell()
sys.meta_path.insert(0, Watch())
atexit.register(tell)
"""


def test_every_program_is_tuned_before_torch_is_loaded() -> None:
    message = {name: output_of(f"{WATCH}\n{program}") for name, program in PROGRAMS.items()}
    assert {name: text.splitlines()[-1] for name, text in message.items()} == dict.fromkeys(
        PROGRAMS, "PASSIVE"
    )


#: How many threads OpenBLAS may take for a product: as NumPy loads it, and once tuned.
THREADS_OF_A_PRODUCT = """
import sys
import gpt2viz
from gpt2viz.model import tuning
names = [name.replace("set_num", "get_num") for name in tuning._SET_THREADS]
library = tuning._openblas()
count = next((getattr(library, name) for name in names if hasattr(library, name)), lambda: 0)
print(count())
if sys.argv[1] == "tuned":
    gpt2viz.tune_process()
print(count())
"""


@LINUX
def test_numpys_products_take_one_thread() -> None:
    """Read from the library, as a measurement would depend on what else runs."""
    default, tuned = map(int, output_of(THREADS_OF_A_PRODUCT, "tuned").split())
    assert tuned == min(default, 1)  # 0: a NumPy that multiplies with another library
    assert output_of(THREADS_OF_A_PRODUCT, "not").split() == [str(default)] * 2
    owners = output_of(THREADS_OF_A_PRODUCT, "tuned", **{tuning.PRODUCTS_VARIABLE: "2"}).split()
    assert owners == [str(min(default, 2))] * 2


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this process had been tuned, for one test."""
    monkeypatch.setattr(tuning, "_done", tuning.Tuning(True, True))


@pytest.fixture
def three_threads(tuned: None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_overlapping_runs_restore_the_thread_count() -> None:
    entered, leave = (Event(), Event()), (Event(), Event())

    def use_one_thread(n: int) -> None:
        with threads(1):
            entered[n].set()
            leave[n].wait(60)

    runs = [Thread(target=use_one_thread, args=(n,)) for n in range(2)]
    for n, run in enumerate(runs):
        run.start()
        assert entered[n].wait(60)
    for n, run in enumerate(runs):
        leave[n].set()
        run.join()
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result() == torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_a_small_run_takes_one_thread_and_a_large_one_all() -> None:
    for multiplications, taken in ((ONE_THREAD, 1), (ONE_THREAD + 1, 3)):
        with threads(multiplications):
            assert torch.get_num_threads() == taken
        assert torch.get_num_threads() == 3

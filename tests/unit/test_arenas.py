"""What the C library does with memory: arenas that threads share, and pages that are used again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from gpt2viz.model import memory

ROOT = Path(__file__).parents[2]

#: Twelve threads that hold memory at one time; then as many arenas as glibc has made.
COUNT = """
import ctypes, pathlib, sys, threading
from gpt2viz.model import memory
said = memory.bound_arenas() if sys.argv[1] == "bound" else None
together = threading.Barrier(12)
def hold():
    some = bytearray(10_000)
    together.wait()
    return some
threads = [threading.Thread(target=hold) for _ in range(12)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file), libc.fclose(file)
print(said, pathlib.Path(sys.argv[2]).read_text().count("<heap nr="))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas to be bound")
@pytest.mark.parametrize(
    ("bound", "given", "said", "least", "most"),
    [
        ("bound", "", "True", 2, 2),
        ("bound", "5", "False", 5, 5),  # what the owner says holds
        ("not", "", "None", 6, 99),  # else this test would show nothing
    ],
)
def test_threads_share_them(
    tmp_path: Path, bound: str, given: str, said: str, least: int, most: int
) -> None:
    environment = {k: v for k, v in os.environ.items() if k != memory.ARENAS_VARIABLE}
    environment |= {"PYTHONPATH": str(ROOT)} | ({memory.ARENAS_VARIABLE: given} if given else {})
    run = subprocess.run(
        [sys.executable, "-c", COUNT, bound, str(tmp_path / "arenas.xml")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    answer, count = run.stdout.split()
    assert answer == said
    assert least <= int(count) <= most


#: New pages that 30 times three blocks of 24 MB ask for, each three let go before the next come.
PAGES = """
import ctypes, resource, sys
from gpt2viz.model import memory
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
with memory.used_again(int(sys.argv[1])):
    start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(30):
        blocks = [libc.malloc(24_000_000) for _ in range(3)]
        for block in blocks:
            ctypes.memset(block, 1, 24_000_000)
        for block in blocks:
            libc.free(block)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - start)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told what it keeps")
@pytest.mark.parametrize(
    ("nbytes", "given", "again"),
    [
        (memory.LARGE, "", True),
        (memory.LARGE - 1, "", False),  # a short run: glibc decides
        (memory.LARGE, "131072", False),  # what the owner says holds
    ],
)
def test_a_long_run_uses_its_pages_again(nbytes: int, given: str, again: bool) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    environment |= {"PYTHONPATH": str(ROOT)} | ({memory.TRIM_VARIABLE: given} if given else {})
    command = [sys.executable, "-c", PAGES, str(nbytes)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    of_three_blocks = 3 * 24_000_000 // os.sysconf("SC_PAGE_SIZE")
    assert (int(run.stdout) < 3 * of_three_blocks) == again

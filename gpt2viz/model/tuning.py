"""Settings of a whole process, which a program of its own may make and a library must not.

They say how threads wait for each other and how many a run or a product takes, how large memory
pages are, and how much freed memory the C library keeps. ``import gpt2viz`` and a trace change
none of them: the owner of the process calls ``tune_process``, as the app and the commands do.

Measured with GPT-2 small's sizes, 64 tokens, two cores that other programs kept busy: threads that
wait by spinning, as they do by default, took 1.8 s a run and 3.8 s at worst; bound to their cores
(``OMP_PROC_BIND``) 1.0 and 1.2 s; a single thread 0.25 and 0.37 s; two that sleep while they wait
0.17 and 0.29 s.

NumPy multiplies with OpenBLAS, whose threads wait by spinning, too, for a tenth of a second after
each product. On a page that asks for a few small ones they took as much of the processor as the
page.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

#: Settings where the owner has made none; torch reads both when it is loaded, and never again.
SLEEP = ("OMP_WAIT_POLICY", "PASSIVE")
LARGE_PAGES = ("THP_MEM_ALLOC_ENABLE", "1")

#: The variable with glibc's number of arenas, read when a program starts.
ARENAS_VARIABLE = "MALLOC_ARENA_MAX"
#: Arenas for all threads. By default glibc makes one for each, up to eight a core.
ARENAS = 2
#: The variable with the bytes that glibc keeps free at the heap's end; that holds, too.
TRIM_VARIABLE = "MALLOC_TRIM_THRESHOLD_"

#: The variable with OpenBLAS's number of threads, read when it is loaded.
PRODUCTS_VARIABLE = "OPENBLAS_NUM_THREADS"
#: What its builds call the function that tells it later: NumPy's wheels, and others.
_SET_THREADS = tuple(
    f"{prefix}openblas_set_num_threads{suffix}"
    for prefix in ("scipy_", "")
    for suffix in ("64_", "")
)

#: Runs whose (T, C) tensors take this many bytes, or more, have glibc keep the memory they free.
LARGE = 2**20
#: Up to this many multiplications a run stays on one thread: to wake a second one would take
#: longer than a small model computes.
ONE_THREAD = 10**9

# malloc.h; the largest blocks that glibc puts into the heap, and what it keeps free at its end.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGEST_IN_HEAP, _KEPT_FREE = 32 * 2**20, 256 * 2**20


class Tuning(NamedTuple):
    """The settings that ``tune_process`` could make here.

    ``threads_sleep``: threads sleep while they wait for each other. ``large_pages``: large tensors
    come in pages of 2 MB. Both are False where torch was loaded before. ``shared_arenas``: all
    threads share ``ARENAS`` arenas of the C library, which has to be glibc. ``products_alone``: a
    product of NumPy's stays on the thread that asks for it, where NumPy has OpenBLAS. The owner's
    variables go before all four. That a small run stays on one thread, and a long one keeps its
    memory for its next layer, holds in any case.
    """

    threads_sleep: bool
    large_pages: bool
    shared_arenas: bool
    products_alone: bool


_done: Tuning | None = None


def tune_process() -> Tuning:
    """Set this process up for runs, for as long as it lasts; for a program, not for a library.

    Call it once, first of all: before torch is loaded, as two of the settings are read then, and
    before there are many threads. It sets ``OMP_WAIT_POLICY`` and ``THP_MEM_ALLOC_ENABLE``, unless
    they are set, for this process and those that it starts; and lets glibc share two arenas among
    all threads, unless ``MALLOC_ARENA_MAX`` is set: with eight arenas it has made up its mind. From
    then on a product of NumPy's takes one thread, unless ``OPENBLAS_NUM_THREADS`` is set; a small
    run takes one of torch's, and a long one keeps what it lets go for its next layer, unless
    ``MALLOC_TRIM_THRESHOLD_`` is set. Returns what could be done; a second call
    changes nothing.
    """
    global _done
    if _done is None:
        if "torch" not in sys.modules:
            for name, value in (SLEEP, LARGE_PAGES):
                os.environ.setdefault(name, value)
        sleep, pages = (os.environ.get(name) == value for name, value in (SLEEP, LARGE_PAGES))
        _done = Tuning(sleep, pages, _share_arenas(), _multiply_alone())
    return _done


def _share_arenas() -> bool:
    """Each rerun of a page is a thread of its own, and an arena keeps some of what its thread let
    go. Python runs one thread at a time anyway."""
    return ARENAS_VARIABLE not in os.environ and _mallopt(_M_ARENA_MAX, ARENAS)


def _multiply_alone() -> bool:
    """NumPy has loaded its library long before a process is tuned, so a variable would do nothing.

    How long its threads spin can't be told any more by then either; how many there are, can.
    """
    library = None if PRODUCTS_VARIABLE in os.environ else _openblas()
    tell = next((name for name in _SET_THREADS if hasattr(library, name)), None)
    if tell is None:
        return False
    getattr(library, tell)(1)
    return True


@contextmanager
def threads(n_multiplications: int) -> Iterator[None]:
    """Let torch use the threads that this many multiplications are worth, for a while."""
    if _done is None or n_multiplications > ONE_THREAD:
        yield
        return
    import torch  # not before a process is tuned

    before = torch.get_num_threads()
    if before == 1:
        # Nothing is set, not even to what it is: a new thread begins with the last number that any
        # thread set, so a 1 that was only meant for a run would stay behind when that run is over.
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def used_again(nbytes: int) -> Iterator[None]:
    """Keep freed memory for a run's next layer, if its tensors of ``nbytes`` are ``LARGE``.

    Else every layer asks the system for new pages: with GPT-2 small and 1,024 tokens that took a
    tenth of the time. Afterwards up to 256 MB are kept for the next run, and more is given back.
    Together with pages of 2 MB such a run's peak is also the same in every process: blocks that
    begin where a page does leave no gaps too small for others.
    """
    if _done is None or nbytes < LARGE or TRIM_VARIABLE in os.environ:
        yield
        return
    _mallopt(_M_MMAP_THRESHOLD, _LARGEST_IN_HEAP)
    _mallopt(_M_TRIM_THRESHOLD, 2**30)
    try:
        yield
    finally:
        _mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE)


def _mallopt(what: int, value: int) -> bool:
    """Set one of glibc's knobs; False where the C library is another one."""
    library = _glibc()
    return library is not None and bool(library(what, value))


@lru_cache(maxsize=1)
def _glibc() -> Callable[[int, int], int] | None:
    if sys.platform != "linux":
        return None
    try:
        return ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return None


def _openblas() -> ctypes.CDLL | None:
    """The library that NumPy multiplies with, as it is loaded; None where it is another one."""
    if sys.platform != "linux":
        return None
    import_module("numpy")
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    mapped = (line.split(maxsplit=5)[5:] for line in lines)
    path = next((path for path in mapped if path and "openblas" in Path(path[0]).name), None)
    return None if path is None else ctypes.CDLL(path[0])

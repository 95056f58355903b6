"""Settings of a whole process, which a program may change and a library must not.

They determine how threads wait for each other, and how many a run or a product uses. ``import
gpt2viz`` and a trace change none of them: the program calls ``tune_process``, as the
app and the commands do.

Measured with GPT-2 small's sizes, 64 tokens, two cores that other programs kept busy: threads that
wait by spinning, as they do by default, took 1.8 s a run and 3.8 s at worst; bound to their cores
(``OMP_PROC_BIND``) 1.0 and 1.2 s; a single thread 0.25 and 0.37 s; two that sleep while they wait
0.17 and 0.29 s.

NumPy multiplies with OpenBLAS, whose threads also spin for a tenth of a second after
each product. On a page with a few small products they used as much of the processor as the
page itself.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

#: The variable that makes threads sleep, and its value; torch reads it only when it is loaded.
SLEEP = ("OMP_WAIT_POLICY", "PASSIVE")
#: The variable with OpenBLAS's number of threads, read when it is loaded.
PRODUCTS_VARIABLE = "OPENBLAS_NUM_THREADS"
#: The names of the function that sets it later: in the OpenBLAS of NumPy's wheels, and in others.
_SET_THREADS = tuple(
    f"{prefix}openblas_set_num_threads{suffix}"
    for prefix in ("scipy_", "")
    for suffix in ("64_", "")
)

#: Up to this many multiplications a run stays on one thread: waking a second one would take
#: longer than a small model computes.
ONE_THREAD = 10**9


class Tuning(NamedTuple):
    """The settings that ``tune_process`` could make here.

    ``threads_sleep``: threads sleep while they wait for each other; False if torch was loaded
    before. ``products_alone``: a product in NumPy stays on its calling thread; False if
    NumPy has no OpenBLAS. Variables in the environment take precedence. A small run stays on one
    thread in any case.
    """

    threads_sleep: bool
    products_alone: bool


_done: Tuning | None = None


def tune_process() -> Tuning:
    """Set this process up for runs, for as long as it lasts; for a program, not for a library.

    Call it once, before anything else: torch reads ``OMP_WAIT_POLICY`` when it is loaded. That
    variable is set, unless it already is, for this process and its children. From then on a product
    in NumPy uses one thread, unless ``OPENBLAS_NUM_THREADS`` is set, and so does a small run in
    torch. Returns the settings that could be made; a second call changes nothing.
    """
    global _done
    if _done is None:
        name, value = SLEEP
        if "torch" not in sys.modules:
            os.environ.setdefault(name, value)
        _done = Tuning(os.environ.get(name) == value, _use_one_thread())
    return _done


def _use_one_thread() -> bool:
    """Set OpenBLAS to one thread; True if that was possible.

    NumPy is already loaded, so a variable would do nothing, and the spinning can't be changed.
    """
    library = None if PRODUCTS_VARIABLE in os.environ else _openblas()
    tell = next((name for name in _SET_THREADS if hasattr(library, name)), None)
    if tell is None:
        return False
    getattr(library, tell)(1)
    return True


@contextmanager
def threads(n_multiplications: int) -> Iterator[None]:
    """Limit torch, while the block runs, to the threads that so many multiplications are worth."""
    if _done is None or n_multiplications > ONE_THREAD:
        yield
        return
    import torch  # not before a process is tuned

    before = torch.get_num_threads()
    if before == 1:
        # Don't set it, not even to 1: a new thread starts with the last number that any thread
        # set, so a 1 meant for one run would outlast it.
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _openblas() -> ctypes.CDLL | None:
    """The library that NumPy multiplies with, as loaded; None if it isn't OpenBLAS."""
    if sys.platform != "linux":
        return None
    import_module("numpy")
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    mapped = (line.split(maxsplit=5)[5:] for line in lines)
    path = next((path for path in mapped if path and "openblas" in Path(path[0]).name), None)
    return None if path is None else ctypes.CDLL(path[0])

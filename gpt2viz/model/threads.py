"""How processor threads wait for each other, and how many a run takes.

Measured with GPT-2 small's sizes, 64 tokens, two cores that other programs kept busy: threads that
wait by spinning, as they do by default, took 1.8 s a run and 3.8 s at worst; bound to their cores
(``OMP_PROC_BIND``) 1.0 and 1.2 s; a single thread 0.25 and 0.37 s; two that sleep while they wait
0.17 and 0.29 s. So they sleep, unless ``OMP_WAIT_POLICY``, which the package sets, says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

#: Up to this many multiplications a run stays on one thread: to wake a second one would take
#: longer than a small model computes.
ONE_THREAD = 10**9


@contextmanager
def threads(n_multiplications: int) -> Iterator[None]:
    """Let torch use the threads that this many multiplications are worth, for a while."""
    before = torch.get_num_threads()
    if n_multiplications > ONE_THREAD or before == 1:
        # Nothing is set, not even to what it is: a new thread begins with the last number that any
        # thread set, so a 1 that was only meant for a run would stay behind when that run is over.
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

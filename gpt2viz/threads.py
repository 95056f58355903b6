"""How many processor threads a run takes, and why a small one takes a single one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

#: Up to this many multiplications a run stays on one thread: when another program keeps a core
#: busy, two threads wait for each other a hundred times longer than a small model computes.
ONE_THREAD = 10**9


@contextmanager
def threads(n_multiplications: int) -> Iterator[None]:
    """Let torch use the threads that this many multiplications are worth, for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if n_multiplications <= ONE_THREAD else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)

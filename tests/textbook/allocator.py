"""PyTorch's requests for memory, counted by its own profiler: copies inside an operation too."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from torch.profiler import ProfilerActivity, profile


def peak_bytes(act: Callable[[], object]) -> int:
    """The peak bytes of the tensors that ``act`` allocates."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        act()
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return max(accumulate(event.nbytes() for event in events), default=0)

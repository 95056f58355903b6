"""Free ports for a test's own server, and a wait until it answers."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from urllib.request import urlopen


def free_ports(count: int) -> list[int]:
    """Ports of this machine that are free now."""
    with ExitStack() as held:  # all at once, so that no two are the same
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def comes_up(address: str, path: str = "_stcore/health", seconds: float = 240) -> bool:
    """Wait until a server, the app's by default, answers; False after so many seconds without."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            urlopen(f"{address}/{path}", timeout=10).close()  # noqa: S310 (our own)
            return True
        except OSError:
            time.sleep(0.1)
    return False

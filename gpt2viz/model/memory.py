"""How much memory a model needs and how much is free, in bytes, before anything is loaded.

And what a server does about its own: how much of what was let go the C library keeps, and what
Python looks through for what can go.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from gpt2viz.errors import TooLargeError
from gpt2viz.model.config import GPT2Config

#: Where glibc is told the number of its arenas before a program starts.
ARENAS_VARIABLE = "MALLOC_ARENA_MAX"
#: Arenas for all threads. By default glibc makes one for each, up to eight a core.
ARENAS = 2

#: Where glibc is told how much it keeps of what was let go at the heap's end; that holds, too.
TRIM_VARIABLE = "MALLOC_TRIM_THRESHOLD_"
#: Runs whose (T, C) tensors take this many bytes, or more, have glibc keep what they let go.
LARGE = 2**20

_FLOAT32 = 4
# malloc.h; the largest blocks that glibc puts into the heap, and what it keeps free at its end.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGEST_IN_HEAP, _KEPT_FREE = 32 * 2**20, 256 * 2**20


def run_bytes(config: GPT2Config) -> int:
    """What the longest text takes: what its trace keeps, and what one layer needs meanwhile.

    Of each layer Q, K, V and the additions of attention and MLP are kept, (T, C) each. As much
    again as two more was measured to be taken meanwhile: 2.26 GB at GPT-2 XL's sizes, 1,024 tokens.
    """
    C, F = config.n_embd, config.mlp_dim
    kept = 7 * C * config.n_layer + 3 * C
    meanwhile = 6 * C + 2 * F
    return _FLOAT32 * (config.n_positions * (kept + meanwhile) + 3 * config.vocab_size)


def free_memory(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that a program can still take without pushing others out, or None where unknown.

    The kernel's own estimate, or what a container's limit leaves if that is less. Known on Linux
    only, from the files below ``proc`` and ``cgroup`` (version 2).
    """
    known = [_field(proc / "meminfo", "MemAvailable:", 1024)]
    limit, taken = _number(cgroup / "memory.max"), _number(cgroup / "memory.current")
    if limit is not None and taken is not None:
        files = _field(cgroup / "memory.stat", "inactive_file", 1) or 0  # given back when needed
        known.append(max(0, limit - taken + files))
    return min((n for n in known if n is not None), default=None)


def total_memory() -> int:
    """Bytes of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check(name: str, weights: int, config: GPT2Config, free: int | None) -> None:
    """Raise ``TooLargeError`` where ``weights`` bytes and a run don't fit into ``free`` bytes."""
    run = run_bytes(config)
    if free is not None and weights + run > free:
        raise TooLargeError(
            f"{name} needs {spell(weights + run)} of memory: {spell(weights)} for its weights and "
            f"{spell(run)} for a text of {config.n_positions:,} tokens. {spell(free)} is free. "
            "Close other programs, or choose a smaller model."
        )


def spell(n_bytes: int) -> str:
    """A size in three digits, such as "498 MB" or "6.23 GB" (a GB is 10⁹ bytes)."""
    size = float(n_bytes)
    for unit in ("bytes", "kB", "MB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} GB" if size >= 999.5 else f"{size:.3g} GB"


@lru_cache(maxsize=1)
def bound_arenas() -> bool:
    """Let all threads of a server share two arenas of the C library; whether it was told so.

    Each rerun of a page is a thread of its own, and an arena keeps some of what its thread let
    go. Python runs one thread at a time anyway. Call it before there are many threads: with eight
    arenas glibc has made up its mind. Nothing is done where ``MALLOC_ARENA_MAX`` says how many
    there are, and none can be where the C library isn't glibc.
    """
    return ARENAS_VARIABLE not in os.environ and _mallopt(_M_ARENA_MAX, ARENAS)


@contextmanager
def used_again(nbytes: int) -> Iterator[None]:
    """Keep what a run lets go for its next layer, where its tensors of ``nbytes`` are ``LARGE``.

    Else every layer asks the system for new pages: with GPT-2 small and 1,024 tokens that took a
    tenth of the time. Afterwards up to 256 MB are kept for the next run, and more is given back.
    Together with pages of 2 MB, which the package asks torch for, such a run's peak is also the
    same in every process: blocks that begin where a page does leave no gaps too small for others.
    """
    if nbytes < LARGE or TRIM_VARIABLE in os.environ:
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
    found = _glibc()
    return found is not None and bool(found(what, value))


@lru_cache(maxsize=1)
def _glibc() -> Callable[[int, int], int] | None:
    if sys.platform != "linux":
        return None
    try:
        return ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return None


@lru_cache(maxsize=1)
def pass_over_modules() -> None:
    """Let Python look for garbage only among what comes from now on: modules never go away.

    Streamlit has it look after each rerun of a page, and all other pages wait meanwhile: 0.42 s
    with thirty visitors on two busy cores, 0.18 s since modules are passed over. Call it when a
    server has loaded its modules and before it has drawn a page.
    """
    gc.collect()
    gc.freeze()


def _field(file: Path, name: str, unit: int) -> int | None:
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(s.split()[1]) * unit for s in lines if s.startswith(f"{name} ")), None)


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such file, or "max": no limit
        return None

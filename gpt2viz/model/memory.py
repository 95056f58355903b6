"""How much memory a model needs and how much is free, in bytes, before anything is loaded."""

from __future__ import annotations

import os
from pathlib import Path

from gpt2viz.errors import TooLargeError
from gpt2viz.model.config import GPT2Config

_FLOAT32 = 4


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
    only, from the files below ``proc`` and ``cgroup`` (version 2). psutil reads the same line of
    the first and knows nothing of the second.
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

"""The memory that a model needs, and the free memory, in bytes, before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import psutil

from gpt2viz.errors import TooLargeError
from gpt2viz.model.config import ModelConfig

#: Tokens of a long text. Models with more positions would need more than most machines have.
LONG = 1024
_FLOAT32 = 4


def run_bytes(config: ModelConfig) -> int:
    """Bytes of a run of the longest text, or of ``LONG`` tokens if that is less.

    For its trace, and for one layer's temporaries. The trace keeps Q, K, V and the outputs
    of attention and MLP of each layer, and, with RoPE, Q and K before rotation too. Temporaries
    were measured as two more layers' worth: 2.26 GB at GPT-2 XL's sizes, 1,024 tokens.
    """
    C, F = config.n_embd, config.mlp_dim
    q, k = (n * config.head_dim for n in (config.n_head, config.n_kv_head))
    stored = (2 * q + 3 * k + 2 * C) * config.n_layer + 3 * C
    meanwhile = 6 * C + 2 * F
    return _FLOAT32 * (longest(config) * (stored + meanwhile) + 3 * config.vocab_size)


def longest(config: ModelConfig) -> int:
    """Tokens of the longest text that memory is reserved for."""
    return min(config.n_positions, LONG)


def free_memory(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that a program can still allocate without displacing others.

    The system's own estimate, or what a container's limit leaves if that is less: from the files
    below ``cgroup`` (version 2), which psutil doesn't read.
    """
    free: int = psutil.virtual_memory().available
    limit, taken = _number(cgroup / "memory.max"), _number(cgroup / "memory.current")
    if limit is None or taken is None:
        return free
    return min(free, max(0, limit - taken + _reclaimable(cgroup / "memory.stat")))


def total_memory(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes of the machine's memory, or of a container's, whose files are below ``cgroup``."""
    total: int = psutil.virtual_memory().total
    return min(total, _number(cgroup / "memory.max") or total)


def check(name: str, weights: int, config: ModelConfig, free: int) -> None:
    """Raise ``TooLargeError`` if ``weights`` bytes and a run don't fit into ``free`` bytes."""
    run = run_bytes(config)
    if weights + run > free:
        raise TooLargeError(
            f"{name} needs {spell(weights + run)} of memory: {spell(weights)} for its weights and "
            f"{spell(run)} for a text of {longest(config):,} tokens. {spell(free)} is free. "
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


def _reclaimable(stat: Path) -> int:
    """Bytes of cached files that a container frees when it needs room; 0 where unknown."""
    try:
        lines = stat.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(s.split()[1]) for s in lines if s.startswith("inactive_file ")), 0)


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such file, or "max": no limit
        return None

"""The device where a model computes: this machine's processor, or a GPU that it has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from gpt2viz.arrays import Array, Numbers
from gpt2viz.errors import DeviceError, TooLargeError


def find(name: str) -> torch.device:
    """The device with a name such as "cpu", "cuda", "cuda:1" or "mps".

    Raises ``DeviceError`` if this machine has none of that name, or can't reach it.
    """
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()  # "meta" is a name too, but computes nothing
    except (AssertionError, RuntimeError):  # torch raises either
        gpu = torch.accelerator.current_accelerator(check_available=True)
        known = "cpu" if gpu is None else f"cpu and {gpu.type}"
        raise DeviceError(
            f"There is no device {name!r} here; there is {known}. A GPU needs a PyTorch that was "
            "built for it: see https://pytorch.org/get-started"
        ) from None
    return device


@contextmanager
def require_memory(what: str, device: torch.device) -> Iterator[None]:
    """Raise ``TooLargeError``, with advice, if a GPU has no room for ``what``."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise TooLargeError(
            f"{device} has too little memory for {what}. Close other programs that use it, choose "
            "a smaller model or a shorter text, or stay on the processor, the device cpu."
        ) from None


def to_numpy(tensor: Tensor) -> Array:
    """A tensor as a read-only float32 array, without a copy where possible."""
    array: Array = tensor.detach().cpu().float().numpy()
    array.flags.writeable = False
    return array


def double(tensor: Tensor) -> Numbers:
    """A copy of a tensor in double precision, for sums of many parts."""
    return tensor.detach().cpu().double().numpy()  # MPS has no double

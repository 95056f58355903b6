"""The weights of every head, sent to the browser once: there any head can be drawn large."""

from __future__ import annotations

from zlib import crc32

from gpt2viz.app.components import component
from gpt2viz.arrays import Array
from gpt2viz.pictures.canvas import message

#: So many numbers are sent at most, a quarter of a megabyte.
MOST = 65_536

_bring = component(__name__)


def bring(weights: Array) -> str:
    """Send the weights (n_layer, nh, T, T) of every head, and return what they are called there.

    "" where they are more than ``MOST`` numbers, and none are sent.
    """
    if weights.size > MOST:
        return ""
    numbers = weights.astype("<f4").tobytes()
    name = f"{crc32(numbers):08x}-{len(numbers)}"
    _bring(key="head_numbers", data=message({"name": name}, numbers))
    return name

"""The keyboard's way into popovers at the page's end, and along strips that scroll."""

from __future__ import annotations

from gpt2viz.app.components import component

_walk = component(__name__)


def popovers() -> None:
    """Let the keyboard into every popover of the page. Draws nothing."""
    _walk(key="keyboard", data={})

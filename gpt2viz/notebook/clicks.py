"""Clicks in a notebook's frame, in Python: an invisible anywidget widget.

The frame may only run its scripts, so ``clicks.js`` beside it passes it a port, whose messages
become the widget's state. anywidget is by Trevor Manz: https://anywidget.dev
"""

from __future__ import annotations

from anywidget import AnyWidget
from IPython.core.getipython import get_ipython
from traitlets import Int, Tuple, Unicode

from gpt2viz import files


class Clicks(AnyWidget):
    """The frames named ``frame``, and the last cell or head that was ``clicked`` in one of them.

    ``clicked`` is a layer, a head, and a query and a key or None each; None before a first click.
    """

    _esm = files.asset("clicks.js")
    frame = Unicode().tag(sync=True)
    clicked = Tuple(
        Int(),
        Int(),
        Int(allow_none=True),
        Int(allow_none=True),
        default_value=None,
        allow_none=True,
    ).tag(sync=True)

    def __repr__(self) -> str:
        return "Hears what is clicked above."


def kernel_runs() -> bool:
    """True in a notebook's kernel, which can receive a page's clicks."""
    return getattr(get_ipython(), "kernel", None) is not None

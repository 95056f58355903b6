"""A picture as a file that the visitor's own browser makes: nothing has to be installed for it."""

from __future__ import annotations

from typing import Any

from gpt2viz.app import output
from gpt2viz.app.components import mount


def save(request: str, kind: str, figure: Any, **options: Any) -> None:
    """Let the browser save a figure, once for every new ``request``; "" for none.

    ``kind`` is "svg" or "png", or "pdf" for the browser's print window, which saves what it is
    shown as one. ``options`` are Plotly's: ``filename`` without its ending, ``width`` and
    ``height`` in pixels, ``scale``.
    """
    output.bring_plotly()  # the page may have no chart
    data: dict[str, Any] = {"script": "browser_picture", "id": request}
    if request:
        options["format"] = "png" if kind == "png" else "svg"
        data |= {"figure": figure.to_json(), "options": options, "print": kind == "pdf"}
    mount(data, key="browser_picture")

"""Attention as a page: the app's own canvases, in one file or in a notebook's frame."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from gpt2viz import __version__, files
from gpt2viz.errors import ExportError, MissingExtraError
from gpt2viz.extras import require
from gpt2viz.notebook.stored import Stored
from gpt2viz.run.session import Session

if TYPE_CHECKING:  # an extra of its own
    from gpt2viz.notebook.clicks import Clicks

#: The scripts of a page's painters, by the names that it has for them.
PAINTERS = {"map": "model_map", "tiles": "tiles", "lines": "lines", "attention": "attention"}
#: The height in a notebook in pixels.
_HEIGHT = 760


class Selected(NamedTuple):
    """The head that was clicked, or the cell of one. All count from 0.

    ``query`` is None if a head was clicked, unless its token was chosen by keys, and ``key``
    if no cell was. If a cell stands for a block, they are the block's first ones.
    """

    layer: int
    head: int
    query: int | None
    key: int | None


@dataclass(frozen=True, eq=False, repr=False)
class AttentionView:
    """Attention that displays itself in a notebook, and is saved as one file without a network.

    ``notes`` are the sentences below the pictures: how the numbers are stored and their error,
    what is pooled, which rows don't sum to 1. ``layers``, ``about`` and ``parts`` are the data
    of the page's script; it holds no reference to the given arrays. ``session`` makes a run's.
    """

    title: str
    notes: tuple[str, ...]
    layers: tuple[Stored, ...]
    about: Mapping[str, Any]
    parts: Mapping[str, str]
    session: Callable[[], Session] | None = None

    def save(self, path: str | Path) -> Path:
        """Write one HTML file, which opens anywhere; or, for a run, a session, ``.json``.

        The app opens a session (*Save*, *Open*), with the layer, head and query that are chosen
        here. Raises ``ExportError`` if a file can't be written, or the app couldn't show it.
        """
        path = Path(path)
        as_session = path.suffix.lower() == ".json"
        files.save(path, (self._session().to_json() if as_session else self.html()).encode())
        return path

    def _session(self) -> Session:
        if self.session is None:
            raise ExportError(
                "A session is of a run, which the app runs again, and this attention was given as "
                "numbers: save it as .html."
            )
        layer, head = divmod(self.about["chosen"], self.about["map"]["heads"])
        query = self.about["token"]
        if clicked := "clicks" in vars(self) and self.clicks.clicked:
            layer, head, query, _ = clicked
        session = self.session()
        chosen = {"layer": str(layer), "head": str(head)}
        chosen |= {} if query in (None, -1) else {"query": str(query)}
        return replace(session, parameters={**session.parameters, **chosen})

    def html(self) -> str:
        """The page: pictures that respond to pointer and keys, numbers, and their scripts.

        It forbids itself any request; all texts are escaped.
        """
        numbers = {f'data-part="{name}"': text for name, text in self.parts.items()}
        numbers |= {f'data-layer="{n}"': layer.text for n, layer in enumerate(self.layers)}
        start = "attention(document, { map, tiles, lines })"
        return render_page(self.title, self.notes, self.about, numbers, PAINTERS, start)

    @property
    def selected(self) -> Selected | None:
        """The last head or cell that was clicked, or chosen by keys; None before that.

        Read it in a later cell than the one that shows this. Raises ``MissingExtraError`` if
        anywidget isn't installed.
        """
        clicked = self.clicks.clicked
        return Selected(*clicked) if clicked else None

    @cached_property
    def clicks(self) -> Clicks:
        """The widget beside the frame that receives its clicks.

        In marimo, ``picked = marimo.ui.anywidget(view.clicks)`` reruns the cells that read
        ``picked`` after each click. Raises ``MissingExtraError`` if anywidget isn't installed.
        """
        with require("What is selected in a notebook", "widget"):
            from gpt2viz.notebook.clicks import Clicks

        return Clicks(frame=f"gpt2viz-{uuid4().hex}")

    def _ipython_display_(self) -> None:
        """Display the frame and, with a kernel, the widget that receives its clicks."""
        from IPython.display import display

        clicks = self._listener()
        display(self._bundle(clicks.frame if clicks else ""), raw=True)  # type: ignore[no-untyped-call]
        if clicks:
            display(clicks)  # type: ignore[no-untyped-call]

    def _listener(self) -> Clicks | None:
        """The widget for the frame's clicks; None without a notebook's kernel or anywidget."""
        try:
            clicks = self.clicks
        except MissingExtraError:
            return None
        from gpt2viz.notebook.clicks import kernel_runs

        return clicks if kernel_runs() else None

    def _display_(self) -> Any:
        """Display the same in marimo, whose protocol this is: it shows the returned object."""
        marimo = sys.modules["marimo"]  # only marimo calls this
        try:
            clicks = self.clicks
        except MissingExtraError:
            return marimo.Html(self._bundle()["text/html"])
        frame = marimo.Html(self._bundle(clicks.frame)["text/html"])
        return marimo.vstack([frame, marimo.ui.anywidget(clicks)])

    def _repr_mimebundle_(self, **_formats: Any) -> dict[str, str]:
        """The page in a notebook's frame that may run its scripts and nothing else."""
        return self._bundle()

    def _bundle(self, name: str = "") -> dict[str, str]:
        named = f'name="{name}" ' if name else ""
        frame = (
            f'<iframe {named}sandbox="allow-scripts" class="gpt2viz" title="{escape(self.title)}" '
            f'width="100%" height="{_HEIGHT}" style="border:0" srcdoc="{escape(self.html())}">'
            f"</iframe><style>{files.asset('frame.css')}</style>"
        )
        return {"text/plain": repr(self), "text/html": frame}

    def __repr__(self) -> str:
        return "\n".join([self.title, *self.notes])


def render_page(
    title: str,
    notes: Sequence[str],
    about: Mapping[str, Any],
    numbers: Mapping[str, str],
    scripts: Mapping[str, str],
    start: str,
    **parts: str,
) -> str:
    """A page that forbids itself any request, and runs these ``scripts`` and no others.

    ``numbers`` are texts by their attribute; in the line ``start`` a script's name stands for its
    default export. ``parts`` are the HTML ``above`` the pictures and ``below``
    them, and more ``style``.
    """
    code = files.scripts(scripts, start)
    made = {f"{name}_html": files.elements(PAINTERS[name]) for name in ("map", "tiles", "lines")}
    style = "".join(map(files.asset, ("attention.css", "style.css"))) + parts.pop("style", "")
    return Template(files.asset("attention.html")).substitute(
        version=__version__,
        title=escape(title),
        style=style,
        notes="".join(f"<li>{escape(sentence)}</li>\n" for sentence in notes),
        about=json.dumps(about, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        numbers="\n".join(
            f'<script type="text/plain" {name}>{text}</script>' for name, text in numbers.items()
        ),
        script=code,
        hash=f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'",
        **{"above": "", "below": ""} | parts,
        **made,
    )

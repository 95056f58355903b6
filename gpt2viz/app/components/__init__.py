"""What the browser does by scripts of our own: a folder a component.

``component.js`` is what runs there, ``style.css`` its look where it has one, ``component.html``
what it finds in the page where ``gpt2viz.show`` draws with it too, and ``__init__.py`` what the
pages call. Streamlit takes a script as one text, so a component is one module: its default export
is what Streamlit calls, and the others are there to be tested. What it imports of the scripts
beside the folders is written into it (``whole``).

Streamlit sends that text with everything that the component draws. Where a page draws many, one
that draws nothing brings the script (``brought``), and what is sent with each is two lines.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import streamlit as st

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer


#: How the function begins that Streamlit calls.
_CALLED = "export default function ("

#: How a component takes something of a script beside the folders.
_TAKEN = re.compile(r'^import \{.+\} from "\.\./(\w+\.js)"$', re.MULTILINE)


class Brought(NamedTuple):
    """``bring`` mounts a component's script, once on a page; ``draw`` mounts what draws with it."""

    bring: ComponentRenderer
    draw: ComponentRenderer


def component(package: str, html: str | None = None) -> ComponentRenderer:
    """Register the component that stands in a ``package`` of this one, and return what draws it.

    ``html`` is what the script finds in the page; where it isn't given, ``component.html`` is.
    """
    return _registered(package, _script(package), html)


def brought(package: str) -> Brought:
    """Register a component that a page draws many of: its script comes once, for all of them.

    As the same text each time, which Streamlit then sends no more than once to a browser.
    """
    loading, drawing = parted(_name(package), _script(package))
    name = f"{_name(package)}_script"
    return Brought(
        st.components.v2.component(name, js=loading), _registered(package, drawing, None)
    )


def parted(name: str, script: str) -> tuple[str, str]:
    """A component's script as two: one that hands it on, and one that draws once it is there.

    It may come before or after. Another version of a script has another name.
    """
    handed = _beside("handed.js")
    here = f'handed("{name}_{crc32(script.encode()):08x}")'
    body = script.replace(_CALLED, "const forStreamlit = function (")
    loading = f"{body}\n{handed}\n{here}.give(forStreamlit)\nexport default () => null\n"
    drawing = f"{handed}\nexport default async (one) => (await {here}.script)(one)\n"
    return loading, drawing


def whole(script: str) -> str:
    """A component's script with those that it imports written in: Streamlit takes one text."""
    return _TAKEN.sub(lambda taken: _beside(taken[1]), script)


def _beside(name: str) -> str:
    return (resources.files(__name__) / name).read_text(encoding="utf-8")


def _name(package: str) -> str:
    return f"gpt2viz_{package.rpartition('.')[2]}"


def _script(package: str) -> str:
    return whole((resources.files(package) / "component.js").read_text(encoding="utf-8"))


def _registered(package: str, script: str, html: str | None) -> ComponentRenderer:
    folder = resources.files(package)
    markup, style = folder / "component.html", folder / "style.css"
    return st.components.v2.component(
        _name(package),
        html=html or (markup.read_text(encoding="utf-8") if markup.is_file() else None),
        css=style.read_text(encoding="utf-8") if style.is_file() else None,
        js=script,
    )

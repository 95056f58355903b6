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

from importlib import resources
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import streamlit as st

from gpt2viz import files

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

#: How the function begins that Streamlit calls.
_CALLED = "export default function ("


class Brought(NamedTuple):
    """``bring`` mounts a component's script, once on a page; ``draw`` mounts what draws with it.

    Other scripts of the page get it by its ``name``, from ``handed.js``.
    """

    bring: ComponentRenderer
    draw: ComponentRenderer
    name: str


def component(package: str, html: str | None = None, css: str | None = None) -> ComponentRenderer:
    """Register the component that stands in a ``package`` of this one, and return what draws it.

    ``html`` is what the script finds in the page, ``css`` its look; where they aren't given,
    ``component.html`` and ``style.css`` are.
    """
    return _registered(package, _script(package), html, css)


def brought(package: str) -> Brought:
    """Register a component that a page draws many of: its script comes once, for all of them.

    As the same text each time, which Streamlit then sends no more than once to a browser.
    """
    name, script = _name(package), _script(package)
    loading, drawing = parted(name, script)
    return Brought(
        st.components.v2.component(f"{name}_script", js=loading),
        _registered(package, drawing),
        _version(name, script),
    )


def parted(name: str, script: str) -> tuple[str, str]:
    """A component's script as two: one that hands it on, and one that draws once it is there.

    It may come before or after.
    """
    handed = _beside("handed.js")
    if handed in script:  # it gets others' scripts itself
        handed = ""
    here = f'handed("{_version(name, script)}")'
    body = script.replace(_CALLED, "const forStreamlit = function (")
    loading = f"{body}\n{handed}\n{here}.give(forStreamlit)\nexport default () => null\n"
    drawing = f"{handed}\nexport default async (one) => (await {here}.script)(one)\n"
    return loading, drawing


def _version(name: str, script: str) -> str:
    """What a component's script is handed on as: another version of it has another name."""
    return f"{name}_{crc32(script.encode()):08x}"


def whole(script: str) -> str:
    """A component's script with those that it imports written in: Streamlit takes one text."""
    return files.script(script, _beside)


def _beside(name: str) -> str:
    return (resources.files(__name__) / name).read_text(encoding="utf-8")


def _name(package: str) -> str:
    return f"gpt2viz_{package.rpartition('.')[2]}"


def _script(package: str) -> str:
    return whole((resources.files(package) / "component.js").read_text(encoding="utf-8"))


def beside(package: str, name: str) -> str:
    """The text of a file of a component, "" where it has none of that name."""
    file = resources.files(package) / name
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _registered(
    package: str, script: str, html: str | None = None, css: str | None = None
) -> ComponentRenderer:
    return st.components.v2.component(
        _name(package),
        html=html or beside(package, "component.html") or None,
        css=css or beside(package, "style.css") or None,
        js=script,
    )

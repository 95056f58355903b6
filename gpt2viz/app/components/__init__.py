"""What the browser does by scripts of our own: a folder a component.

``component.js`` is what runs there, ``style.css`` its look where it has one, ``component.html``
what it finds in the page where ``gpt2viz.show`` draws with it too, and ``__init__.py`` what the
pages call. Streamlit takes a script as one text, so a component is one module: its default export
is what Streamlit calls, and the others are there to be tested. What it imports of the scripts
beside the folders is written into it (``whole``).

Streamlit sends that text with everything that the component draws, each time. So the scripts and
styles of those that draw most come together, once, by one that draws nothing (``bundle.py``), and
what is sent with each of these is two lines (``brought``). Comments and indents stay here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import streamlit as st

from gpt2viz import files

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

#: How the function begins that Streamlit calls.
_CALLED = "export default function ("

#: What a browser needs none of: lines that are comments, and indents.
_SPARED = re.compile(r"^[ ]*(?://[^\n]*|/\*\*[\s\S]*?\*/)\n|^[ ]+", re.MULTILINE)


class Brought(NamedTuple):
    """A component whose script is in the bundle: what draws it, and what it is handed on as there,
    by ``handed.js``, to this and to other scripts."""

    draw: ComponentRenderer
    name: str


def component(package: str, html: str | None = None) -> ComponentRenderer:
    """Register the component that stands in a ``package`` of this one, and return what draws it.

    ``html`` is what the script finds in the page; where it isn't given, ``component.html`` is.
    """
    css, script = beside(package, "style.css"), whole(beside(package, "component.js"))
    return _registered(package, spared(script), html, css)


def brought(package: str, html: str | None = None) -> Brought:
    """Register one that draws by the bundle's script; ``html`` is as for ``component``."""
    name = handed_as(package)
    return Brought(_registered(package, drawing(name), html), name)


def handed_as(package: str) -> str:
    """What a component is handed on as: another version of its script has another name."""
    return f"{_name(package)}_{crc32(whole(beside(package, 'component.js')).encode()):08x}"


def drawing(name: str) -> str:
    """A script that draws by the one that is handed on with a name, before or after."""
    handed = _spared_exports(_beside("handed.js"))
    return f'{handed}\nexport default (one) => drawnBy("{name}", one)\n'


def bundled(parts: Mapping[str, tuple[str, str]]) -> str:
    """One script that hands on those of components, each with its style, by their names.

    What they import of the scripts beside the folders is there once, for all of them.
    """
    shared = {"handed.js"}.union(*(files.imported(script) for script, _ in parts.values()))
    texts = [_spared_exports(_beside(name)) for name in sorted(shared)]
    for name, (script, style) in parts.items():
        body = files.script(script, lambda _name: "").replace(
            _CALLED, "const forStreamlit = function ("
        )
        given = f'handed("{name}").give({{ style: {json.dumps(style)}, draw: forStreamlit }})'
        texts.append(f"{{\n{_spared_exports(body)}\n{given}\n}}")
    return "\n".join([*texts, "export default () => null\n"])


def spared(script: str) -> str:
    """A script without what no browser needs."""
    return _SPARED.sub("", script)


def _spared_exports(script: str) -> str:
    return re.sub(r"^export ", "", spared(script), flags=re.MULTILINE)


def whole(script: str) -> str:
    """A component's script with those that it imports written in: Streamlit takes one text."""
    return files.script(script, _beside)


def _beside(name: str) -> str:
    return (resources.files(__name__) / name).read_text(encoding="utf-8")


def _name(package: str) -> str:
    return f"gpt2viz_{package.rpartition('.')[2]}"


def beside(package: str, name: str) -> str:
    """The text of a file of a component, "" where it has none of that name."""
    file = resources.files(__name__) / package.rpartition(".")[2] / name
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _registered(
    package: str, script: str, html: str | None = None, css: str = ""
) -> ComponentRenderer:
    return st.components.v2.component(
        _name(package),
        html=html or beside(package, "component.html") or None,
        css=css or None,
        js=script,
    )

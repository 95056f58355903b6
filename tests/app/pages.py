"""Run pages without a browser, and read the numbers back out of their charts."""

from __future__ import annotations

import html
import json
import re
import struct
import time
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest, local_script_runner

from gpt2viz.app import pages, parameters
from gpt2viz.pictures.lines import Lines
from tests.bundled import CRANE
from tests.pictures.samples import figure_of

# Each AppTest searches all installed packages for components, which takes several times as long as
# a page here and always finds the same.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)

_poll_deltas = local_script_runner.require_widgets_deltas


def _join_thread(runner: local_script_runner.LocalScriptRunner, timeout: float = 3) -> None:
    """Wait for a page's thread; AppTest itself reads all messages a thousand times a second."""
    assert runner._script_thread
    runner._script_thread.join(timeout)
    if not runner.script_stopped():
        _poll_deltas(runner, 0)  # raises an error


local_script_runner.require_widgets_deltas = _join_thread

ROOT = Path(__file__).parents[2]
#: The scripts of the pages, by name.
PAGES = {page.name: page.path for page in pages.MENU}
#: Pages that read no sentence.
NO_SENTENCE = {pages.GLOSSARY.name: pages.GLOSSARY.path}
#: The page of other packages' pages.
ADDED = {pages.ADDED.name: pages.ADDED.path}


#: Every page, and each of its modes, by its address.
VIEWS = tuple(
    address
    for page in pages.MENU
    for address in (
        [f"{page.name}?{parameters.MODE[page].name}={mode}" for mode in page.modes] or [page.name]
    )
)


def open_page(address: str, odd: Mapping[str, str] | None = None, /, **chosen: str) -> AppTest:
    """Open a page as a new visitor by its address, such as "predict?predict=generate".

    ``chosen`` are more parameters of the app; ``odd`` are unknown ones in the address. The default
    sentence is the crane's.
    """
    return _run(_prepare(address, odd or {}, chosen))


def _prepare(address: str, odd: Mapping[str, str], chosen: dict[str, str]) -> AppTest:
    page, _, query = address.partition("?")
    chosen = {"text": CRANE} | dict(parse_qsl(query)) | chosen
    assert set(chosen) <= set(parameters.NAMED)
    assert not set(odd) & set(parameters.NAMED)
    at = AppTest.from_file(str(ROOT / pages.ATTENTION.path), default_timeout=60)
    if page != pages.ATTENTION.name:
        at.switch_page(str(ROOT / (PAGES | NO_SENTENCE | ADDED)[page]))
    for name, value in {**chosen, **odd}.items():
        at.query_params[name] = value
    return at


def _run(at: AppTest) -> AppTest:
    at.run()
    assert not at.exception, at.exception
    return at


def button_groups(at: AppTest) -> Any:
    """Every button group, for which AppTest has no type."""
    return at.get("button_group")


def button(at: AppTest, label: str) -> Any:
    """The only button with a label."""
    (result,) = (b for b in at.button if b.label == label)
    return result


def press(at: AppTest, label: str) -> AppTest:
    """Press the only button with a label; the page then."""
    pressed: AppTest = button(at, label).click().run()
    return pressed


def finish(at: AppTest, offer: str) -> None:
    """Press a button that starts work, and wait for the end of that work."""
    button(at, offer).click().run()
    for _ in range(200):
        if not any(b.label == "Cancel" for b in at.button):
            return
        time.sleep(0.1)
        at.run()
    raise AssertionError(f"{offer}: no end")


def chips(at: AppTest) -> dict[str, Any]:
    """The data of the strip of tokens. Tests choose a token by the address: AppTest can't
    press a component."""
    return data_of(at, "token_chips")


def plain(markdown: str) -> str:
    """A Markdown text without its links to the glossary and its character references."""
    markdown = html.unescape(markdown).replace("\u00a0", " ")
    return re.sub(r'\[([^\[\]]+)\]\(glossary\?term=\S+ "[^"]*"\)', r"\1", markdown)


def page_text(at: AppTest) -> str:
    """All text and messages of a page, as a reader sees them."""
    blocks = (*at.markdown, *at.caption, *at.info, *at.warning, *at.error, *at.success)
    return plain("\n".join(block.value for block in blocks)).replace("\\", "").replace("\u2060", "")


def notices(at: AppTest) -> str:
    """The warnings, notes and errors of a page, in Markdown."""
    return " ".join(block.value for block in [*at.warning, *at.info, *at.error])


def chart(at: AppTest, key: str) -> Any:
    """The JSON of a chart of bars, curves or points; numbers are arrays, NaN for none."""
    figure = figure_of(data_of(at, key)["picture"])
    for trace in figure["data"]:
        numbers = {side: trace[side] for side in "xy" if str not in map(type, trace[side])}
        trace |= {side: np.array(values, float) for side, values in numbers.items()}
    return figure


def component(at: AppTest, key: str) -> Any:
    """The message of the only component with a key."""
    drawn = [part.proto for part in at.get("bidi_component") if part.proto.id.endswith(f"-{key}")]
    assert len(drawn) == 1, f"{key}: {len(drawn)} components"
    return drawn[0]


def canvas(at: AppTest, key: str) -> bytes:
    """The message from which a canvas draws matrices."""
    return bytes(component(at, key).bytes)


def pictures(at: AppTest) -> dict[str, str]:
    """The text alternative of every chart, canvas and view of lines on the page, by its key."""
    drawn: dict[str, str] = {}
    for part in at.get("bidi_component"):
        if script_of(part.proto) in ("chart", "lines"):
            drawn[part.proto.id] = json.loads(part.proto.json)["alt"]
        elif part.proto.bytes and "alt" in (header := header_of(part.proto.bytes)):
            drawn |= dict(zip(_picture_names(part.proto.id), _alts(header), strict=False))
    return {name.split("-")[-1]: alt for name, alt in drawn.items()}


def _picture_names(id: str) -> Iterator[str]:
    """The names of a canvas's pictures: its key, then the key with a number."""
    yield id
    yield from (f"{id}_{n}" for n in count(1))


def _alts(header: Mapping[str, Any]) -> list[str]:
    """The text alternative of a canvas's matrices, or of each of its pictures of lines."""
    either = header.get("either", {"picture": "matrix"})
    lined = either["picture"] == "lines"
    return [picture["alt"] for picture in either["lined"]] if lined else [header["alt"]]


def data_of(at: AppTest, key: str) -> dict[str, Any]:
    """The data of a component that is sent as JSON."""
    data: dict[str, Any] = json.loads(component(at, key).json)
    return data


def script_of(component: Any) -> str:
    """The name of the script that draws a component."""
    data = header_of(component.bytes) if component.bytes else json.loads(component.json)
    return str(data["script"])


def header_of(message: bytes) -> dict[str, Any]:
    """The header of a canvas's message: all but its numbers."""
    (length,) = struct.unpack_from("<I", message)
    header: dict[str, Any] = json.loads(message[4 : 4 + length])
    return header


def head_text(at: AppTest) -> str:
    """The sentences on the chosen head below the large picture, as Markdown."""
    head = header_of(canvas(at, "one_head"))["head"]
    name = f"{head['layer']}.{head['head']}"
    return f"**Head {name}**: {head['descriptions'][name]} {head['reason']}"


def unpack(message: bytes) -> tuple[dict[str, Any], list[np.ndarray], list[np.ndarray]]:
    """The parts of a canvas's message: its header, each panel's numbers and its masked cells."""
    (length,) = struct.unpack_from("<I", message)
    header = header_of(message)
    if "panels" not in header:
        return _unpack_map(header, np.frombuffer(message, np.uint8, offset=4 + length))
    grids = [header["grids"][panel["grid"]] for panel in header["panels"]]
    shapes = [(len(grid["rows"]), len(grid["columns"])) for grid in grids]
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    values = np.frombuffer(message, "<f4", int(ends[-1]), 4 + length)
    bits = np.frombuffer(message, np.uint8, offset=4 + length + values.nbytes)
    masked = np.unpackbits(bits, count=values.size, bitorder="little")
    cut = [np.split(flat, ends[:-1]) for flat in (values, masked)]
    first, second = (
        [flat.reshape(shape) for flat, shape in zip(part, shapes, strict=True)] for part in cut
    )
    return header, first, second


#: The tolerance of a weight in the map: half a shade, and rounding.
SHADE = 0.5 / 252 + 1e-6


def _unpack_map(
    header: dict[str, Any], cells: np.ndarray
) -> tuple[dict[str, Any], list[np.ndarray], list[np.ndarray]]:
    """Unpack the map of all heads, one byte per cell, in the form of other canvases."""
    layers, heads, side = header["layers"], header["heads"], len(header["rows"])
    most = len(header["shades"]) - 1
    special = np.array([0, np.nan, np.inf], np.float32)[np.maximum(cells.astype(int) - most - 1, 0)]
    values = np.where(cells <= most, cells / np.float32(most), special)
    panel = {"title": "", "grid": 0, "low": 0, "high": 1, "quantity": "attention weight"}
    panel |= {"hidden": "masked", "words": [], "hover": [], "empty": ""}
    names = [f"{n // heads}.{n % heads}" for n in range(layers * heads)]
    grid = {"rows": header["rows"], "columns": header["columns"], "frame": None}
    grid |= {"rowTitle": "query", "columnTitle": "key", "rowEnds": [], "columnEnds": []}
    header |= {"panels": [panel | {"name": name} for name in names], "grids": [grid]}
    header |= {"frames": [], "scale": header["shades"], "bar": ""}
    first, second = (
        list(x.reshape(-1, side, side)) for x in (values, (cells == most + 1).astype(np.uint8))
    )
    return header, first, second


class Matrix(NamedTuple):
    """A matrix of a canvas: its panel, its grid, its numbers, and which of them are masked.

    Each of its ``frames`` has the first and last row, then the first and last column.
    """

    panel: dict[str, Any]
    grid: dict[str, Any]
    frames: list[list[int]]
    values: np.ndarray
    masked: np.ndarray

    @property
    def name(self) -> str:
        """Its panel's name; in a map over one of several texts, the title and the text."""
        text, of_layers, _ = self.grid["rowTitle"].partition(" · layer")
        title = self.panel["title"].splitlines()[0] if of_layers else ""
        return f"{title}, {text}" if of_layers else str(self.panel["name"])

    def texts(self, kind: str) -> np.ndarray:
        """The texts of its cells: inside them ("words") or on hover ("hover")."""
        return np.reshape(self.panel[kind], self.values.shape)


def matrices(at: AppTest, key: str) -> list[Matrix]:
    """The matrices of a canvas, in their order."""
    header, values, masked = unpack(canvas(at, key))
    grids = [header["grids"][panel["grid"]] for panel in header["panels"]]
    frames = [([grid["frame"]] if grid["frame"] else []) + header["frames"] for grid in grids]
    hidden = [cells.astype(bool) for cells in masked]
    return list(map(Matrix, header["panels"], grids, frames, values, hidden))


def heatmaps(at: AppTest, key: str) -> dict[str, np.ndarray]:
    """Panel name -> numbers of its matrix."""
    return {matrix.panel["name"]: matrix.values for matrix in matrices(at, key)}


def panels(at: AppTest, key: str) -> list[np.ndarray]:
    """The numbers of a picture's matrices, in their order."""
    return [matrix.values for matrix in matrices(at, key)]


def masks(at: AppTest, key: str) -> list[np.ndarray]:
    """The cells painted as masked, one boolean matrix per panel that has any."""
    return [matrix.masked for matrix in matrices(at, key) if matrix.masked.any()]


def titles(at: AppTest, key: str) -> list[str]:
    """The titles of a picture's matrices, and the texts shown instead of empty ones."""
    texts = [(m.panel["title"], m.panel["empty"]) for m in matrices(at, key)]
    return [text for pair in texts for text in pair if text]


def frames(at: AppTest, key: str) -> list[list[int]]:
    """The frames in a picture's matrices."""
    return [frame for matrix in matrices(at, key) for frame in matrix.frames]


def check_line_data(drawn: Mapping[str, Any], picture: Lines) -> None:
    """The browser's lines equal those of the picture that the server would draw."""
    assert [s["name"] for s in drawn["sources"]] == [s.name for s in picture.sources]
    for source, expected in zip(drawn["sources"], picture.sources, strict=True):
        assert_array_equal(source["q"], expected.queries)
        assert_array_equal(source["k"], expected.keys)
        assert_array_equal(np.float32(source["v"]), expected.weights)
    ends = [drawn[name] for name in ("threshold", "atRest", "peak", "lost")]
    assert_allclose(
        ends, [picture.threshold, picture.at_rest, picture.peak, picture.lost], rtol=1e-6, atol=1e-6
    )
    assert drawn["quantity"] == picture.quantity
    for side, axis in (("queries", picture.rows), ("keys", picture.columns)):
        assert drawn[side] == [[axis.position(n), text] for n, text in enumerate(axis.short())]

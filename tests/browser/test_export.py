"""Pictures and pages as files: parsed by independent readers, opened without a network."""

from __future__ import annotations

import io
import json
import re
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import pytest
from numpy.testing import assert_allclose
from PIL import Image
from PIL.PngImagePlugin import PngImageFile
from playwright.sync_api import Frame, Page, expect
from pypdf import PdfReader

import gpt2viz
from gpt2viz import export, files
from gpt2viz.cli.trace import choose
from gpt2viz.labels import label
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.pictures.palette import DARK, LIGHT
from gpt2viz.pictures.plotly.offline import _Offline
from tests.browser.conftest import axe_violations
from tests.bundled import CATS, bundled_model, ids_of
from tests.checkpoints import write_checkpoint
from tests.live_page import SENTENCES, LivePage
from tests.notebook.test_show import CASES, in_float32
from tests.pictures.samples import one_of_every_kind
from tests.pictures.test_svg import colors

#: Settings of a small model that the bundled one lacks.
OTHER: dict[str, Any] = {
    "activation_function": "relu",
    "scale_attn_by_inverse_layer_idx": True,
    "tie_word_embeddings": False,
    "n_inner": 13,
}
#: Sentences have fewer tokens than the first; the second is the number of them to continue.
SHORT, CONTINUED = 36, 2
TEXT = "<script>window.hacked=1</script> & $x$ ate fish"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def trace() -> gpt2viz.Trace:
    return gpt2viz.trace(bundled_model(), TEXT)


@pytest.fixture(scope="module")
def about(trace: gpt2viz.Trace) -> export.About:
    return export.about(trace, "weights", layer=1, head=0)


@pytest.fixture
def chromium_path(chromium: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", chromium)


def test_svg_has_title_metadata_and_caption(
    trace: gpt2viz.Trace, about: export.About, tmp_path: Path
) -> None:
    root = ElementTree.parse(  # noqa: S314 (our own file)
        export.save_figure(trace.heatmap(1, 0), tmp_path / "x.svg", about)
    ).getroot()
    assert root.findtext(f"{SVG}title") == "weights, layer 1, head 0"
    assert json.loads(root.findtext(f"{SVG}metadata") or "")["text"] == TEXT
    written = " ".join(text for part in root.iter(f"{SVG}text") for text in part.itertext())
    assert f"“{TEXT}” · model {trace.model_name} · sha256" in " ".join(written.split())
    assert "causal mask on" in written
    assert not list(root.iter(f"{SVG}script"))


@pytest.mark.usefixtures("chromium_path")
def test_caption_is_below_the_picture_within_the_page(
    trace: gpt2viz.Trace, about: export.About
) -> None:
    """Both when the app's script draws it, and when Plotly draws a changed figure."""
    changed = trace.heatmap(1, 0).update_layout(title="mine")
    for figure in (one_of_every_kind()["bars"], changed):
        root = ElementTree.fromstring(export.figure_bytes(figure, "svg", about))  # noqa: S314
        (drawing,) = root.findall(f"{SVG}g/{SVG}svg")
        first, *_, last = root.findall(f"{SVG}text")
        edge = float(drawing.get("height", "")) + float(first.get("font-size", ""))
        assert edge <= float(first.get("y", "")) < float(last.get("y", ""))
        assert float(last.get("y", "")) < float(root.get("height", "")) - 3
        assert first.text == "weights, layer 1, head 0"


def test_png_has_300_pixels_per_inch(trace: gpt2viz.Trace, about: export.About) -> None:
    data = export.figure_bytes(trace.heatmap(1, 0), "png", about, width=480)
    with Image.open(io.BytesIO(data)) as picture:
        picture.load()
        assert picture.width == 1500  # 480 at 96 per inch are five inches
        assert picture.info["dpi"] == pytest.approx((300, 300), abs=0.1)
        assert isinstance(picture, PngImageFile)
        assert json.loads(picture.text["gpt2viz"])["sha256"] == about.sha256
        colors = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    assert (colors == 255).all(axis=1).mean() > 0.3  # on white


def test_pdf_has_metadata_and_text(
    trace: gpt2viz.Trace, about: export.About, tmp_path: Path
) -> None:
    path = export.save_figure(trace.heatmap(1, 0), tmp_path / "x.pdf", about, width="8.5cm")
    pdf = PdfReader(path, strict=True)
    assert pdf.metadata is not None
    assert pdf.metadata.title == "weights, layer 1, head 0"
    assert pdf.metadata.subject == about.source
    assert pdf.metadata.creator == f"gpt2viz {gpt2viz.__version__}"
    assert json.loads(str(pdf.metadata["/gpt2viz"]))["sha256"] == about.sha256
    assert "/CreationDate" not in pdf.metadata
    (page,) = pdf.pages
    assert float(page.mediabox.width) / 72 * 2.54 == pytest.approx(8.5, abs=0.02)
    written = " ".join(page.extract_text().split())  # not outlines
    for words in ("weights, layer 1, head 0", "causal mask on", f"gpt2viz {gpt2viz.__version__}"):
        assert words in written.replace("\xa0", " ")
    bare = PdfReader(io.BytesIO(export.figure_bytes(trace.heatmap(1, 0), "pdf"))).metadata
    assert bare is not None
    assert (bare.title, bare.creator) == (None, f"gpt2viz {gpt2viz.__version__}")


@pytest.mark.usefixtures("chromium_path")
def test_pictures_are_deterministic(trace: gpt2viz.Trace, about: export.About) -> None:
    figures = trace.heatmap(1, 0), one_of_every_kind()["bars"]
    runs = [
        [export.figure_bytes(fig, kind, about) for fig in figures for kind in export.PICTURE_KINDS]
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


_WRITTEN = """
() => [...document.querySelectorAll("svg text")].filter((text) => text.textContent.trim())
  .map((text) => [text.textContent, parseFloat(getComputedStyle(text).fontSize),
    ...["left", "right", "top", "bottom"].map((side) => text.getBoundingClientRect()[side])])
"""

LONG = "word " * 60
COLUMNS = {
    "one head": lambda run: run.heatmap(1, 0),
    "its queries": lambda run: run.heatmap(1, 0, "q"),
    "a layer": lambda run: run.heads(1),
    "all heads": lambda run: run.overview(),
    "the stream": lambda run: choose(run, "residual_out", 1).picture,
}

COLUMN_CASES = [
    ("A crane ate fish", "one head", "8.5cm"),
    (LONG, "one head", "17.5cm"),
    ("猫が座った。" * 13, "one head", "8.5cm"),
    *((CATS, name, "8.5cm") for name in list(COLUMNS)[1:]),
    (CATS, "all heads", "17.5cm"),
]


def test_column_wide_picture_is_legible_and_fills_its_area(
    offline: Page, subtests: pytest.Subtests
) -> None:
    for text, picture, width in COLUMN_CASES:
        with subtests.test(f"{picture}, {width}, {text[:9]}"):
            run = gpt2viz.trace(bundled_model(), text)
            drawn = export.figure_bytes(
                COLUMNS[picture](run), "svg", export.about(run, "weights", 1, 0), width=width
            ).decode()
            root = ElementTree.fromstring(drawn)  # noqa: S314 (our own file)
            size = {name: round(float(root.get(name) or 0)) for name in ("width", "height")}
            assert size["width"] == export.pixels(width)
            offline.set_viewport_size(size)  # type: ignore[arg-type]
            offline.set_content(
                f"<style>body {{ margin: 0 }} svg {{ display: block }}</style>{drawn}"
            )
            written = offline.evaluate(_WRITTEN)
            shot = np.asarray(Image.open(io.BytesIO(offline.screenshot())).convert("L"))
            for words, font_size, left, right, top, bottom in written:
                assert font_size >= 8, words  # pixels: 6 pt
                assert left >= -1, words
                assert right <= size["width"] + 1, words
                assert top >= -1, words
                assert bottom <= size["height"] + 1, words
            caption = [part for part in written if f"gpt2viz\xa0{gpt2viz.__version__}" in part[0]]
            assert caption
            names = [part for part in written if part[0] in ("key", "dimension", "channel")]
            assert all(part[5] <= caption[0][4] + 4 for part in names)
            for axis in (1, 0):
                blank: np.ndarray = np.all(shot > 250, axis=axis)
                runs = [len(part) for part in "".join("x "[bool(b)] for b in blank).split("x")]
                assert max(runs) < 0.15 * len(blank)


def buttons(page: Page | Frame) -> list[str]:
    """The titles of Plotly's buttons."""
    named = page.locator(".modebar-btn").evaluate_all("all => all.map(b => b.dataset.title)")
    return list(map(str, named))


_NUMBERS = """
() => [...document.querySelectorAll(".js-plotly-plot")]
  .map((plot) => plot.calcdata.length && Array.from(plot.calcdata[0][0].z.at(-1)))
"""


def test_saved_page_opens_from_disk(
    offline: Page, trace: gpt2viz.Trace, about: export.About, tmp_path: Path
) -> None:
    """It shows every kind of picture, and a dragged part of a matrix."""
    weights, scores = trace.stage("weights", 1, 0), trace.stage("scores", 1, 0)
    kinds: dict[str, Any] = one_of_every_kind()
    every = [(f"Every kind: {kind}", picture) for kind, picture in kinds.items()]
    foreign = ("Another's <figure>", go.Figure(go.Bar(x=["a"], y=[1])))
    pictures = [("One <head>", trace.heatmap(1, 0)), ("Scores", trace.heatmap(1, 0, "scores"))]
    tables = [("Its <b>numbers</b>", trace.table(1, 0))]
    path = export.save_page(tmp_path / "x.html", [*pictures, *every], about, tables)
    assert path.stat().st_size < 300_000
    offline.goto(path.as_uri())
    offline.wait_for_function("document.querySelector('.tiles')?.p")
    for n, numbers in enumerate((weights, scores)):
        drawn = offline.locator(".tiles").nth(n).evaluate("view => [...view.p.values]")
        np.testing.assert_allclose(np.reshape(drawn, numbers.shape), numbers, rtol=1e-6)
    offline.wait_for_function(_ALL_DRAWN)
    for name, picture in every:
        figure = offline.locator(f"figure[aria-label='{name}']")
        for view in figure.locator(".tiles, .chart > svg").all():
            assert (view.get_attribute("aria-label") or "").startswith(f"{picture.what}.")
    bars = offline.locator("figure[aria-label='Every kind: bars'] text.number").all_text_contents()
    assert bars == [written for case in kinds["bars"].cases for written in case.written]
    curves = offline.locator("figure[aria-label='Every kind: lens'] text").all_text_contents()
    assert set(kinds["lens"].panel.rows.plain_names()) <= set(curves)
    facts = offline.locator("dl").inner_text()
    for value in (TEXT, trace.model_name, about.sha256, gpt2viz.__version__, "on"):
        assert value in facts
    assert offline.get_by_role("heading", name="Its <b>numbers</b>").count() == 1
    expect(offline.locator("tbody th").first).to_have_css("white-space", "nowrap")
    assert offline.evaluate("window.hacked") is None
    drag(offline, columns=2.4, rows=1.4)
    part = offline.locator(".tiles").first.evaluate("view => [...view.p.values]")
    np.testing.assert_allclose(part, weights[:1, :2].ravel(), rtol=1e-6)
    offline.locator(".tiles canvas").first.dblclick(position={"x": 5, "y": 5})
    offline.wait_for_function(f"{_TILES}.p.values.length === {weights.size}")
    offline.goto(export.save_page(tmp_path / "x.html", [*pictures, foreign]).as_uri())
    offline.wait_for_function("document.querySelectorAll('.js-plotly-plot .bars').length")


# Whether each picture of a saved page has its canvas, its bars or curves, or is an SVG.
_ALL_DRAWN = """
() => [...document.querySelectorAll("figure")].every((figure) =>
  figure.querySelector(":scope > svg, .chart path, .chart rect")
  || figure.querySelector(".tiles")?.look?.boxes.length)
"""


# The colour of every cell of the large head, sampled in the middle or above its number.
_PAINTED = """
() => {
  const view = document.querySelector(".tiles"), { x, y, cw, ch } = view.look.boxes[0]
  const { width, height } = view.canvas, [{ rows, columns }] = view.p.panels
  const bytes = view.canvas.getContext("2d").getImageData(0, 0, width, height).data
  const at = (start, n, size) =>
    Math.floor((start + n * size + Math.min(size / 2, 6)) * devicePixelRatio)
  return rows.map((_, row) => columns.map((_, column) => {
    const n = 4 * (at(y, row, ch) * width + at(x, column, cw))
    return [...bytes.slice(n, n + 3)]
  }))
}
"""
_GREYS = "({ p: { legend } }) => legend.map(([, colors]) => colors)"
_BACKGROUND = "color => getComputedStyle(document.body).backgroundColor === color"
# Also tested where the notebook is a file, whose frames have no origin either.
_REACHES_THE_NOTEBOOK = "() => { try { return !!parent.document.body } catch { return false } }"
_TILES = "document.querySelector('.tiles')"
#: Token texts that would run if taken for markup.
HOSTILE = ("</script><img>", "<img/src=x>", "<script>")
_LARGE = f"head => {_TILES}.p?.panels[0].title === head"


@pytest.fixture
def attention() -> np.ndarray:
    """Weights of 2 layers, 3 heads, 20 queries and 300 keys, which are pooled above 256."""
    given = np.random.default_rng(0).random((2, 3, 20, 300), np.float32) ** 40
    return given / given.sum(axis=-1, keepdims=True)


@pytest.fixture
def view(attention: np.ndarray) -> gpt2viz.AttentionView:
    """The view of those weights, with tokens that look like markup."""
    queries = [*HOSTILE, *(f"q{n}" for n in range(17))]
    return gpt2viz.show(attention, (queries, [f"k{n}" for n in range(300)]))


def open_file(page: Page, view: gpt2viz.AttentionView, path: Path) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="light")
    page.goto(view.save(path).as_uri())
    page.wait_for_function(_LARGE, arg=_head(view.about["chosen"]))


def test_saved_attention_responds_to_the_pointer(
    offline: Page, tmp_path: Path, attention: np.ndarray, view: gpt2viz.AttentionView
) -> None:
    open_file(offline, view, tmp_path / "attention.html")
    # a click on another head enlarges it, in the colours of the largest of its blocks
    offline.locator(".map canvas").click(position=_middle(offline, 1))
    offline.wait_for_function(_LARGE, arg=_head(1))
    starts = [n * 300 // 256 for n in range(256)]
    largest = np.maximum.reduceat(attention[0, 1], starts, axis=1)
    np.testing.assert_allclose(offline.evaluate(_PAINTED), colors(largest, LIGHT.unit), atol=2)
    # a cell under the pointer shows its number and what that means
    assert "of a block of up to 1 × 2. Drag" in offline.locator(".note").inner_text()
    _to_first_cell(offline)
    tip = offline.locator(".tiles .tip").inner_text()
    assert HOSTILE[0] in tip
    assert f"largest attention weight of this block: {largest[0, 0]:.6g}" in tip


def test_saved_attention_paints_the_given_weights(offline: Page, tmp_path: Path) -> None:
    """For each shape and number type, every cell of the initial large head."""
    for given, shape in CASES.values():
        weights, view = in_float32(given).reshape(shape), gpt2viz.show(given)
        open_file(offline, view, tmp_path / "attention.html")
        chosen = divmod(view.about["chosen"], shape[1])
        painted, hidden = np.array(offline.evaluate(_PAINTED)), (weights == 0).all(axis=(0, 1))
        np.testing.assert_allclose(
            painted[~hidden], colors(weights[chosen][~hidden], LIGHT.unit), atol=2
        )
        greys = [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in painted[hidden]]
        assert set(greys) <= {LIGHT.masked, LIGHT.masked_other}
        legend = offline.locator(".tiles").evaluate(_GREYS)
        assert legend == int(hidden.any()) * [[LIGHT.masked, LIGHT.masked_other]]


def test_saved_attention_responds_to_keys_and_zooms(
    offline: Page, tmp_path: Path, attention: np.ndarray, view: gpt2viz.AttentionView
) -> None:
    open_file(offline, view, tmp_path / "attention.html")
    offline.locator(".map canvas").click(position=_middle(offline, 1))
    offline.wait_for_function(_LARGE, arg=_head(1))
    _to_first_cell(offline)
    offline.locator(".tiles").focus()
    offline.keyboard.press("ArrowDown")
    offline.keyboard.press("Enter")  # lights its row in every head
    assert offline.locator(".map").evaluate("view => view.p.token") == 1
    offline.locator(".map").focus()
    offline.keyboard.press("PageDown")
    assert "Strongest from 2 <script>" in offline.locator(".links").inner_text()
    offline.keyboard.press("ArrowDown")
    offline.keyboard.press("Enter")
    offline.wait_for_function(_LARGE, arg=_head(4))
    assert offline.get_by_role("button", name="Lines: of 256 tokens or fewer").is_disabled()
    # a dragged part shows its own numbers
    drag(offline, columns=40.4, rows=9.4)
    offline.wait_for_function(f"{_TILES}.p.panels[0].rows.length === 9")
    assert "queries 0 to 8, keys 1 to 45" in offline.evaluate(f"{_TILES}.p.panels[0].part")
    numbers = offline.evaluate(f"[...{_TILES}.p.values]")
    np.testing.assert_array_equal(np.reshape(numbers, (9, 45)), attention[1, 1, :9, 1:46])
    check_lines(offline, attention[1, 1, :9, 1:46])
    offline.get_by_role("button", name="Show the whole head").click()
    offline.wait_for_function(f"{_TILES}.p.panels[0].rows.length === 20")
    offline.emulate_media(color_scheme="dark")
    offline.wait_for_function(_BACKGROUND, arg="rgb(18, 20, 28)")
    assert offline.locator("img").count() == 0


_PIXELS = """
c => {
  const { width, height } = c
  const copy = new OffscreenCanvas(width, height).getContext("2d")  // reading one twice is slow
  copy.drawImage(c, 0, 0)
  return [...copy.getImageData(0, 0, width, height).data]
}
"""


def blend(picture: np.ndarray, row: np.ndarray) -> np.ndarray:
    """A picture blended with colours for 4 × 4 patches, each relative to the largest weight."""
    size = [side // 4 for side in picture.shape[:2]]
    share = np.kron((row / row.max()).reshape(4, 4), np.ones(size))[..., None]
    part = 0.15 + 0.6 * share
    return (1 - part) * picture + part * colors(share[..., 0], LIGHT.unit)


def test_attention_row_is_blended_over_the_image(offline: Page, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    given = rng.random((2, 3, 17, 17), np.float32) ** 4
    given /= given.sum(axis=-1, keepdims=True)
    image = rng.integers(0, 256, (48, 64, 3), np.uint8)
    open_file(offline, gpt2viz.show(given, image=image, head=(1, 2)), tmp_path / "attention.html")
    canvases = offline.locator(".over canvas")
    large, note = canvases.first, offline.locator("[data-part=patch]")
    assert canvases.count() == 7
    for query in (0, 1 + 4 * 2 + 3):
        if query:  # a click on the patch in the third row and the last column
            large.hover(position={"x": 360, "y": 180})
            assert f" {query}: {given[1, 2, 0, query]:#.3g}" in note.inner_text()
            large.click(position={"x": 360, "y": 180})
        offline.wait_for_function(
            f"document.querySelector('.over canvas').title.endsWith('{query}')"
        )
        for n in range(7):
            layer, head = divmod(n - 1, 3) if n else (1, 2)
            mixed = blend(image, given[layer, head, query, 1:])
            painted = np.reshape(canvases.nth(n).evaluate(_PIXELS), (48, 64, 4))[..., :3]
            np.testing.assert_allclose(painted, mixed, atol=3)
    canvases.nth(2).click()
    offline.wait_for_function(_LARGE, arg=_head(1))
    assert "Layer 0 · Head 1, from 12" in note.inner_text()
    with pytest.raises(gpt2viz.AttentionError, match=r"17 keys aren't 5 × 5 patches: .* grid="):
        gpt2viz.show(given, image=image, grid=(5, 5))


_LINES = """
all => all.map(({ dataset: { query, key }, attributes }) =>
  [query, key, attributes["stroke-opacity"].value].map(Number))
"""
_LISTEN = """
() => {
  const { port1, port2 } = new MessageChannel()
  port1.onmessage = ({ data }) => { window.heard = data }
  postMessage("clicks", "*", [port2])
}
"""


def check_lines(page: Page, weights: np.ndarray) -> None:
    """The key L turns the matrix into lines as opaque as its weights; a button turns them back."""
    page.keyboard.press("l")
    paths = page.locator(".lines .rest path")
    paths.first.wait_for(state="attached")
    queries, keys = np.nonzero(weights >= 0.01)
    drawn = {(int(q), int(k)): opacity for q, k, opacity in paths.evaluate_all(_LINES)}
    assert drawn.keys() == set(zip(queries.tolist(), keys.tolist(), strict=True))
    for cell, opacity in drawn.items():
        assert opacity == pytest.approx(0.25 + 0.7 * weights[cell], abs=1e-6)
    left_out = 100 * weights[weights < 0.01].sum() / weights.sum()
    assert f"together {left_out:.1f} % of the total" in page.inner_text("body")
    named = [page.locator(f".lines button.{side}").last for side in "qk"]
    names = [button.get_attribute("aria-label") for button in named]
    assert names == ["query 8 q5", "key 45 k45"]
    page.evaluate(_LISTEN)
    page.locator(".lines button.q").nth(3).click()
    page.wait_for_function("String(window.heard) === '1,1,3,'")
    assert not page.locator(".tiles").is_visible()
    page.get_by_role("button", name="Matrix").click()
    assert page.locator(".tiles").is_visible()
    assert not paths.first.is_visible()


# A widget's model like anywidget's, which records what is set.
_MODEL = """
{ get: () => "clicks", set: (_, clicked) => (window.heard ??= []).push(clicked), save_changes() {} }
"""


def test_attention_in_a_notebook_frame_runs_isolated(
    offline: Page, tmp_path: Path, view: gpt2viz.AttentionView
) -> None:
    cell = f'<meta charset="utf-8">{view._bundle("clicks")["text/html"]}'
    (tmp_path / "notebook.html").write_text(cell, encoding="utf-8")
    offline.goto((tmp_path / "notebook.html").as_uri())
    frame = offline.frames[1]
    frame.wait_for_function(_LARGE, arg=_head(view.about["chosen"]))
    assert frame.evaluate("window.origin") == "null"
    assert not frame.evaluate(_REACHES_THE_NOTEBOOK)
    assert frame.locator("img").count() == 0
    # clicks are sent to whoever passes a port, including earlier ones
    frame.locator(".map canvas").click(position=_middle(frame, 4))
    frame.wait_for_function(_LARGE, arg=_head(4))
    offline.evaluate(f"(() => {{ {files.script('clicks')} }})().render({{ model: {_MODEL} }})")
    x, y, width, height = frame.locator(".tiles").evaluate(_BOX)
    frame.locator(".tiles canvas").click(position={"x": x + 200.5 * width, "y": y + 3.5 * height})
    offline.wait_for_function("window.heard?.length === 2")
    assert offline.evaluate("heard") == [[1, 1, None, None], [1, 1, 3, 200 * 300 // 256]]


_INK = "ink => document.documentElement.style.getPropertyValue('--st-text-color') === ink"
# At most what such notebooks are known to let an output do: only its own scripts run.
_SANDBOX = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"


def test_attention_in_a_sandboxed_output_responds_to_pointer_and_keys(
    offline: Page, tmp_path: Path, view: gpt2viz.AttentionView
) -> None:
    """Our frame lies in one of an opaque origin without network access, as in Colab or stricter."""
    output = (
        f'<meta http-equiv="Content-Security-Policy" content="{_SANDBOX}">'
        f'<body class="vscode-dark">{view._repr_mimebundle_()["text/html"]}'
    )
    notebook = (
        '<meta charset="utf-8"><iframe sandbox="allow-scripts" width="1300" height="800" '
        f'srcdoc="{escape(output)}"></iframe>'
    )
    (tmp_path / "notebook.html").write_text(notebook, encoding="utf-8")
    offline.set_viewport_size({"width": 1440, "height": 900})
    offline.emulate_media(color_scheme="null")  # which would override the notebook's
    offline.goto((tmp_path / "notebook.html").as_uri())
    offline.frame_locator("iframe").frame_locator("iframe").locator(".tiles[aria-label]").wait_for()
    frame = offline.frames[2]
    frame.wait_for_function(_INK, arg=DARK.ink)
    offline.frames[1].evaluate("document.body.className = 'vscode-light'")
    frame.wait_for_function(_INK, arg=LIGHT.ink)
    assert [f.evaluate("window.origin") for f in offline.frames[1:]] == ["null", "null"]
    frame.locator(".map canvas").click(position=_middle(frame, 1))
    frame.wait_for_function(_LARGE, arg=_head(1))
    frame.locator(".map").focus()
    offline.keyboard.press("ArrowDown")
    offline.keyboard.press("Enter")
    frame.wait_for_function(_LARGE, arg=_head(4))
    assert frame.locator("img").count() == 0


def _to_first_cell(page: Page) -> None:
    x, y, width, height = page.locator(".tiles").first.evaluate(_CORNER)
    page.mouse.move(x + width / 2, y + height / 2)


def _middle(page: Page | Frame, head: int) -> Any:
    """The middle of a head in the map, as a click position."""
    return page.locator(".map").evaluate(
        """(view, head) => {
          const { boxes, side } = view.look
          return { x: boxes[head].x + side / 2, y: boxes[head].y + side / 2 }
        }""",
        head,
    )


_BOX = "({ look: { boxes: [{ x, y, cw, ch }] } }) => [x, y, cw, ch]"
_CORNER = """
view => {
  const { x, y, cw, ch } = view.look.boxes[0], at = view.getBoundingClientRect()
  return [at.x + x, at.y + y, cw, ch]
}
"""


def drag(page: Page, columns: float, rows: float) -> None:
    """Drag over that many cells of the large head, from a pixel inside its first one."""
    x, y, width, height = page.locator(".tiles").first.evaluate(_CORNER)
    page.mouse.move(x + 1, y + 1)
    page.mouse.down()
    page.mouse.move(x + columns * width, y + rows * height, steps=3)
    page.mouse.up()


def _head(number: int) -> str:
    return f"Layer {number // 3} · Head {number % 3}"


def test_plotly_html_offers_no_upload(offline: Page, trace: gpt2viz.Trace, tmp_path: Path) -> None:
    """As a notebook without ``offline()`` shows it, but with Plotly's script included."""
    trace.heatmap(1, 0).write_html(tmp_path / "x.html", include_plotlyjs=True)
    offline.goto((tmp_path / "x.html").as_uri())
    offline.wait_for_selector(".modebar-btn", state="attached")
    assert buttons(offline)
    assert not [title for title in buttons(offline) if "hare" in title]


def test_notebook_figure_opens_offline(offline: Page, trace: gpt2viz.Trace, tmp_path: Path) -> None:
    html = _Offline(in_each=False).to_mimebundle(trace.heatmap(1, 0).to_dict())["text/html"]
    html += f"<script>{pio._html.get_plotlyjs()}</script>"  # VS Code shows the small one first
    (tmp_path / "x.html").write_text(f'<meta charset="utf-8">{html}', encoding="utf-8")
    offline.goto((tmp_path / "x.html").as_uri())
    offline.wait_for_function("document.querySelectorAll('.js-plotly-plot .heatmaplayer').length")
    (weights,) = offline.evaluate(_NUMBERS)
    np.testing.assert_allclose(weights, trace.stage("weights", 1, 0)[-1], rtol=1e-6)


def test_sandboxed_notebook_output_is_complete(
    offline: Page, trace: gpt2viz.Trace, tmp_path: Path
) -> None:
    """Some notebooks show each output in a sandboxed frame with scripts but no network."""
    figure = _Offline(in_each=True).to_mimebundle(trace.heatmap(1, 0).to_dict())["text/html"]
    output = (
        f'<meta http-equiv="Content-Security-Policy" content="{_SANDBOX}; img-src data: blob:">'
        f"{trace._repr_mimebundle_()['text/html']}{figure}"
    )
    (tmp_path / "x.html").write_text(
        '<meta charset="utf-8"><iframe sandbox="allow-scripts" width="900" height="800" '
        f'srcdoc="{escape(output)}"></iframe>',
        encoding="utf-8",
    )
    offline.goto((tmp_path / "x.html").as_uri())
    frame = offline.frames[1]
    frame.wait_for_function("document.querySelectorAll('.js-plotly-plot .heatmaplayer').length")
    (weights,) = frame.evaluate(_NUMBERS)
    np.testing.assert_allclose(weights, trace.stage("weights", 1, 0)[-1], rtol=1e-6)
    assert frame.evaluate("document.querySelector('img').naturalWidth") > 100
    sizes = f"{trace.config.n_layer} layers of {trace.config.n_head} heads"
    assert frame.get_by_text(sizes).count() == 1
    assert frame.evaluate("window.hacked") is None
    assert frame.evaluate("window.origin") == "null"
    assert frame.locator("a[href^=http]").count() == 0  # nor Plotly's logo, which is a link
    assert buttons(frame) == ["Download plot as a PNG", "Reset axes"]


@pytest.fixture(scope="module")
def live_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gpt2viz.write_page(bundled_model(), tmp_path_factory.mktemp("live") / "attention.html")


@pytest.mark.parametrize("which", ["stories", "small"])
def test_live_page_matches_numpy(offline: Page, tmp_path: Path, which: str) -> None:
    """On some sentences; ``python -m tests.live_page`` checks all, each with ten new tokens."""
    offline.context.set_offline(True)
    if which == "small":  # with settings that the bundled model lacks
        live = LivePage(offline, write_checkpoint(tmp_path / "small", **OTHER), tmp_path)
        sentences = ["A crane ate fish", "ate"]
    else:
        live = LivePage(offline, BUNDLED, tmp_path)
        sentences = [text for text in SENTENCES[::18] if len(ids_of(text)) < SHORT]
        long = next(text for text in SENTENCES if len(ids_of(text)) > 128)
        assert live.check(long, causal=True, tokens=0) < 0.01
    for n, text in enumerate(sentences):  # every other one without the mask
        moved = live.check(text, causal=n % 2 == 0, tokens=10 if n < CONTINUED else 0)
        assert moved < 0.01


def open_live(page: Page, file: Path, width: int = 1440, dark: bool = False) -> Page:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if dark else "light")
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]")
    return page


def type_sentence(page: Page, text: str) -> None:
    page.get_by_label("Sentence").fill(text)
    tokens = "n => document.querySelector('.map').p.tokens.length === n"
    page.wait_for_function(tokens, arg=len(ids_of(text)))


def test_live_page_runs_the_model_on_typed_text(offline: Page, live_page: Path) -> None:
    page = open_live(offline, live_page)
    check_accessible(page, 1440)
    coming, tiles = page.locator("[data-part=next] li"), page.locator("[data-row=weights] .tiles")
    likely, percent, _ = coming.first.inner_text().split()
    (best,) = gpt2viz.trace(bundled_model(), CATS).next_tokens(1)
    assert likely == label(best.text.encode())
    assert_allclose(int(percent), 100 * best.probability, atol=1.5)
    for text in ("A crane ate fish", "</script><img src=x onerror=alert(1)> 🙂 ate"):
        type_sentence(page, text)
        for causal in (True, False):
            page.get_by_label("Causal mask").set_checked(causal)
            expect(page.locator("[data-part=with]")).to_be_visible(visible=not causal)
            run = gpt2viz.trace(bundled_model(), text, causal=causal)
            title = page.locator("h2[data-part=inside]").inner_text()
            weights = run.stage("weights", *map(int, re.findall(r"\d+", title)))
            drawn = tiles.evaluate("tiles => [...tiles.p.values]")
            assert tiles.evaluate(_GREYS) == causal * [[LIGHT.masked, LIGHT.masked_other]]
            assert_allclose(np.reshape(drawn, weights.shape), weights, atol=0.02)
            (best,) = run.next_tokens(1)
            expect(coming.first).to_contain_text(label(run.spell(best.id)))
            expect(page.locator(".map .links")).to_contain_text(run.labels[-1])
    assert page.locator("img").count() == 0
    page.get_by_label("Sentence").press_sequentially(" l")  # also a shortcut of the pictures
    page.keyboard.press("Enter")
    assert page.get_by_label("Sentence").input_value() == f" l{text}"
    assert page.locator(".tiles").first.is_visible()
    type_sentence(page, "a" * 16)
    expect(coming.last).to_contain_text("<0.1 %")
    page.get_by_label("Sentence").fill("a " * 300)
    expect(page.get_by_role("alert")).to_contain_text("this model reads 256 at most")
    expect(page.locator(".map .links")).to_contain_text("aa")  # the earlier drawing stays
    type_sentence(page, "a" + " a" * 255)
    expect(page.get_by_role("alert")).to_contain_text("no more can follow")


def check_accessible(page: Page, width: int) -> None:
    assert axe_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_text("What the full app has more").click()
    expect(page.get_by_text("make run")).to_be_visible()


def test_live_page_generates_in_a_narrow_dark_window(offline: Page, live_page: Path) -> None:
    page = open_live(offline, live_page, 400, dark=True)
    check_accessible(page, 400)
    more = page.get_by_role("button", name="Write ten tokens")
    page.get_by_label("Sentence").fill("A crane ate")
    more.click()
    expect(page.get_by_label("Sentence")).to_have_value(re.compile("^A crane ate .+"))
    expect(more).to_be_enabled()
    type_sentence(page, CATS)
    page.locator(".map").focus()
    for key in ("ArrowUp", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("h2[data-part=inside]")).to_contain_text("layer 0")
    page.locator("[data-row=scores] .tiles").focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):  # the first cell, then the one beside it
        page.keyboard.press(key)
    expect(page.locator("h3[data-part=cell]")).to_contain_text("query 0 The, key 1 ·cat")
    expect(page.locator(".sum")).to_contain_text("masked, as this key comes after the query")

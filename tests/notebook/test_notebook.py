"""A trace, shown in a notebook."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

import gpt2viz
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.plotly.offline import CONFIG, _Offline
from tests.bundled import N_HEAD, N_LAYER, bundled_model

FETCHES = re.compile(r"""<(script|link|img|iframe)[^>]*(src|href)\s*=\s*["']?(https?:)?//""")


@pytest.fixture(scope="module")
def trace() -> gpt2viz.Trace:
    return gpt2viz.trace(bundled_model(), "<img src=x onerror=alert(1)> & the cat")


class Parts(HTMLParser):
    """Tags, and all text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text, self.image = "", ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.image = self.image or dict(attrs).get("src") or ""

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_and_text_of_a_trace(trace: gpt2viz.Trace) -> None:
    bundle = trace._repr_mimebundle_(include=None, exclude=None)
    parts = Parts(bundle["text/html"])
    assert parts.tags.count("img") == 1  # ours; the text's own is text
    assert "script" not in parts.tags
    assert f"stories · {N_LAYER} layers of {N_HEAD} heads" in parts.text
    for n, token in enumerate(["<", "im"]):
        assert f"{n} {token}" in parts.text
    assert "1:im" in bundle["text/plain"]
    assert not FETCHES.search(bundle["text/html"])
    assert len(bundle["text/html"]) < 100_000


def test_a_traces_picture_has_every_heads_weights(trace: gpt2viz.Trace) -> None:
    encoded = Parts(trace._repr_mimebundle_()["text/html"]).image.partition("base64,")[2]
    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        drawn = np.asarray(picture)
    T = len(trace.tokens)
    height, width = drawn.shape[0] // N_LAYER, drawn.shape[1] // N_HEAD
    zoom = (height - 4) // T
    dark, *masked = (
        np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])
        for color in (LIGHT.unit[-1][1], LIGHT.masked, LIGHT.masked_other)
    )
    for layer, head in np.ndindex(N_LAYER, N_HEAD):
        corner = drawn[layer * height + 2 :, head * width + 2 :][: T * zoom, : T * zoom]
        cells = corner[zoom // 2 :: zoom, zoom // 2 :: zoom]
        np.testing.assert_array_equal(cells[0, 0], dark)  # the first token sees only itself
        np.testing.assert_array_equal(cells[0, 1:3], masked[::-1])  # by turns
        weights, seen = trace.stage("weights", layer, head), np.tri(T, dtype=bool)
        shades, order = -cells.sum(axis=-1, dtype=int)[seen], weights[seen].argsort()
        assert (np.diff(shades[order]) >= 0).all()  # more weight is darker


def test_a_long_run_has_no_picture(tiny: gpt2viz.Model) -> None:
    long = gpt2viz.trace(tiny, [1, 2, 3], explicit=False)
    assert "img" not in Parts(long._repr_mimebundle_()["text/html"]).tags


def test_figures_and_tables_have_the_runs_numbers(trace: gpt2viz.Trace) -> None:
    for stage in gpt2viz.HEAD_STAGES:
        drawn = np.asarray(trace.heatmap(2, 3, stage).data[0].z)
        np.testing.assert_array_equal(drawn, trace.stage(stage, 2)[0, 3], err_msg=stage)
        np.testing.assert_array_equal(trace.table(2, 3, stage).to_numpy(), drawn, err_msg=stage)


def test_a_figure_offers_no_upload(trace: gpt2viz.Trace) -> None:
    """With ``offline()`` and without it. tests/browser/test_export.py presses the buttons."""
    for figure in (trace.heatmap(1, 0), trace.heads(1), trace.overview()):
        assert figure.layout.modebar.remove == "sendChartToCloud"
        shown = _Offline(in_each=False).to_mimebundle(figure.to_dict())
        for config in (CONFIG, shown["application/vnd.plotly.v1+json"]["config"]):
            assert config["showSendToCloud"] is False
            assert config["displaylogo"] is False


def test_the_figure_of_a_layer_has_all_heads(trace: gpt2viz.Trace) -> None:
    numbers = [
        drawn.z for drawn in trace.heads(1).data if drawn.type == "heatmap" and drawn.coloraxis
    ]
    np.testing.assert_array_equal(np.stack(numbers), trace.stage("weights", 1)[0])


def test_html_and_heatmap_of_a_reason(trace: gpt2viz.Trace) -> None:
    model = bundled_model()
    row = gpt2viz.explain_row(model, trace, 2, 1, 5)
    case = gpt2viz.reason(row, 3)
    html = case._repr_mimebundle_(include=None, exclude=None)["text/html"]
    parts = Parts(html)
    assert not {"img", "script"} & set(parts.tags)  # the text's own tag is text
    for sentence in case.words():
        assert sentence in parts.text
    for pair in case.pairs:
        assert f"{pair.value:.2f}" in parts.text
        assert pair.key_part in parts.text
    for raw, table in ((True, row.table(3)), (False, row.deviation(3))):
        drawn = np.asarray(case.heatmap(raw=raw).data[0].z)
        np.testing.assert_allclose(drawn[:-1, :-1], table, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(drawn[-1, -1], table.sum(), rtol=1e-5)


def test_unknown_stages_and_layers_are_named(trace: gpt2viz.Trace) -> None:
    with pytest.raises(KeyError, match="no stage 'wights'"):
        trace.heatmap(0, 0, "wights")  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="no layer 9"):
        trace.heatmap(9, 0)

"""Saved files, read back by independent readers."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import typst
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngImageFile
from pypdf import PdfReader
from safetensors import safe_open

import gpt2viz
from gpt2viz import export
from gpt2viz.analysis.comparison import align
from gpt2viz.export import chromium, figure_bytes
from gpt2viz.export.metadata import label_pdf, label_png
from gpt2viz.export.numbers import FORMULA
from gpt2viz.pictures.compare import aligned_bars
from gpt2viz.pictures.every_head import Arrow, Thumbnails
from gpt2viz.pictures.find import similarity_map
from gpt2viz.pictures.from_trace import stage_panel
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.prediction import probability_bars
from tests.pictures.samples import heatmaps, one_of_every_kind

ABOUT = export.About("weights", "stories", "ab" * 32, "A crane ate fish", 4, 1, 0)


@pytest.fixture(scope="module")
def trace(tiny: gpt2viz.Model) -> gpt2viz.Trace:
    edits = gpt2viz.parse_edits("off:1.2,forbid:3:1")
    return gpt2viz.trace(tiny, [5, 7, 5, 11, 2], causal=True, edits=edits)


def test_npz_has_every_array_and_the_metadata(trace: gpt2viz.Trace, tmp_path: Path) -> None:
    with np.load(export.save_trace(trace, tmp_path / "t.npz"), allow_pickle=False) as saved:
        for (key, layer), array in trace.captured.items():
            name = key if layer is None else f"{key}.{layer}"
            np.testing.assert_array_equal(saved[name], array)
            assert saved[name].dtype == np.float32
        assert saved["token_ids"].tolist() == [5, 7, 5, 11, 2]
        assert saved["forbidden"][3, 1]
        assert saved["forbidden"].sum() == 1
        text = json.loads(str(saved["about"]))
    assert text["model"] == "tiny"
    assert text["causal"] == "true"
    assert text["edits"] == "off:1.2,forbid:3:1"
    assert text["version"] == gpt2viz.__version__
    assert bytes.fromhex(json.loads(text["token_bytes"])[1]) == trace.token_bytes[1]


def test_safetensors_has_the_same_as_npz(trace: gpt2viz.Trace, tmp_path: Path) -> None:
    export.save_trace(trace, tmp_path / "t.npz")
    path = export.save_trace(trace, tmp_path / "t.safetensors")
    with np.load(tmp_path / "t.npz") as saved, safe_open(path, framework="pt") as tensors:
        assert set(tensors.keys()) == set(saved) - {"about"}  # safetensors' own reader
        for name in tensors.keys():  # noqa: SIM118 (a safetensors handle is no dict)
            np.testing.assert_array_equal(tensors.get_tensor(name).numpy(), saved[name])
        assert tensors.metadata() == json.loads(str(saved["about"]))


def test_metadata_of_a_long_run_lists_what_is_left_out(tiny: gpt2viz.Model) -> None:
    long = gpt2viz.trace(tiny, [1, 2, 3], explicit=False)
    text = export.numbers.metadata(long)
    assert "weights" in json.loads(text["left_out"])
    assert "weights.0" not in export.numbers.arrays(long)
    whole = export.numbers.metadata(gpt2viz.trace(tiny, [1, 2, 3], explicit=True))
    assert json.loads(whole["left_out"]) == []


def test_the_checksum_is_sha256sums_unless_the_weights_have_changed(folder: Path) -> None:
    file = folder / "model.safetensors"
    command = ["sha256sum", str(file)]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    run, later = (gpt2viz.trace(gpt2viz.load_model(folder), [1, 2]) for _ in range(2))
    assert export.about(run, "trace").sha256 == theirs
    with file.open("ab") as opened:
        opened.write(b"x")
    assert export.about(later, "trace").sha256 == ""
    file.unlink()
    assert export.about(later, "trace").sha256 == ""


def test_parquet_has_every_value_and_the_metadata(tmp_path: Path) -> None:
    table = pd.DataFrame({"token": ["=1+1", "·a"], "value": [-1.5, 2]})
    saved = pq.read_table(export.save_table(table, tmp_path / "t.parquet", ABOUT))
    assert saved.to_pydict() == {"token": ["=1+1", "·a"], "value": [-1.5, 2.0]}
    assert json.loads(saved.schema.metadata[b"gpt2viz"])["text"] == "A crane ate fish"


def rows(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))


def test_csv_keeps_numbers_and_has_the_metadata() -> None:
    table = pd.DataFrame({"token": ["·a", "b"], "value": np.array([-0.1, 1e-9], np.float32)})
    of_two = replace(ABOUT, sha256=f"{'ab' * 32} / {'cd' * 32}")
    header, first, second = rows(export.table_bytes(table, "csv", of_two))
    assert header == ["token", "value", "about"]
    assert np.float32(first[1]) == np.float32(-0.1)
    assert second == ["b", "1e-09", ""]
    source = "· “A crane ate fish” · model stories · sha256 abababababab / cdcdcdcdcdcd · causal"
    assert f"weights, layer 1, head 0 {source}" in first[2]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=6), min_size=1, max_size=4))
def test_texts_in_csv_are_never_formulas(texts: list[str]) -> None:
    table = pd.DataFrame({"=x": texts, "n": range(-2, len(texts) - 2)})
    result = rows(export.table_bytes(table, "csv", replace(ABOUT, what="=cmd")))
    for row, text in zip(result[1:], texts, strict=True):
        assert row[0].removeprefix("'" if text.startswith(FORMULA) else "") == text
        assert not row[0].startswith(FORMULA)
        assert not row[2].startswith(FORMULA)
    assert result[0][0] == "'=x"
    assert result[1][1] == "-2"


def test_a_figures_table_has_the_numbers_of_the_run(trace: gpt2viz.Trace) -> None:
    labels = ["<a>", "$b", "c", "c", "&lt;"]
    panels = [stage_panel(trace, labels, "weights", 1, n, f"Head {n}") for n in range(4)]
    result = export.figure_table(heatmaps(panels, LIGHT, n_columns=2))
    assert list(result.columns) == ["picture", "query", "key", "value", "hidden"]
    weights = trace.stage("weights", 1)[0]
    np.testing.assert_array_equal(result["value"].to_numpy().reshape(4, 5, 5), weights)
    masked = [text.startswith("masked") for text in result["hidden"]]
    np.testing.assert_array_equal(masked, np.isinf(trace.stage("masked_scores", 1)[0]).ravel())
    assert result["picture"].unique().tolist() == [f"Head {n}" for n in range(4)]
    assert result["query"].unique().tolist() == ["0 <a>", "1 $b", "2 c", "3 c", "4 &lt;"]
    assert result.iloc[1]["key"] == "1 $b"
    assert result["query"][:6].tolist() == ["0 <a>"] * 5 + ["1 $b"]


def test_two_axes_with_the_same_name_keep_both_columns() -> None:
    values = np.array([[1, 0.25, 0.5], [0.25, 1, 0.75], [0.5, 0.75, 1]])
    picture = similarity_map("what", values, [2, 0, 1], [], ["0.0", "0.1", "1.0"])
    result = export.figure_table(picture)
    rows_and_columns = ("head, as layer.head (row)", "head, as layer.head (column)")
    assert list(result.columns) == ["picture", *rows_and_columns, "value"]
    by_pair = {(row, column): value for _, row, column, value in result.itertuples(index=False)}
    assert by_pair["1.0", "0.0"] == 0.5
    assert by_pair["0.1", "1.0"] == 0.75
    assert len(by_pair) == 9


def test_bars_are_saved_with_names_that_the_axis_leaves_out() -> None:
    ids = list(range(90))
    labels = [f"token {n}" for n in ids]
    rows = np.linspace(0, 1, 90), np.linspace(1, 0, 90)
    bars = aligned_bars("what", align(ids, ids), (labels, labels), rows, ("a", "b"))
    result = export.figure_table(bars)
    read = pd.read_parquet(io.BytesIO(export.table_bytes(result, "parquet")))
    assert read["x"][:4].tolist() == ["token 0", "token 1", "token 2", "token 3"]
    np.testing.assert_array_equal(read["y"], np.concatenate(rows))


def test_label_png_keeps_pixels_and_sets_the_resolution() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    plain = io.BytesIO()
    Image.fromarray(pixels).save(plain, "PNG")
    with Image.open(io.BytesIO(label_png(plain.getvalue(), {"Title": "fish ·"}, 300))) as opened:
        opened.load()
        np.testing.assert_array_equal(np.asarray(opened), pixels)
        assert opened.info["dpi"] == pytest.approx((300, 300), abs=0.1)
        assert isinstance(opened, PngImageFile)
        assert opened.text == {"Title": "fish ·"}
    with pytest.raises(ValueError, match="not a PNG"):
        label_png(struct.pack("10x"), {}, 300)


def test_file_names_and_captions(subtests: pytest.Subtests) -> None:
    cases: list[tuple[export.About, str]] = [
        (ABOUT, "gpt2viz_stories_A-crane-ate-fish_L1H0_weights_causal.svg"),
        (
            replace(ABOUT, what="All heads of layer 1", layer=None, head=None, causal=False),
            "gpt2viz_stories_A-crane-ate-fish_All-heads-of-L1_no-mask.svg",
        ),
        (
            replace(ABOUT, model="../../etc", text="CON: <a>|*?\n\x00\u202eé", edits="attn:1"),
            "gpt2viz_etc_CON-a-e_L1H0_weights_causal_edited.svg",
        ),
        (replace(ABOUT, text="日本語"), "gpt2viz_stories_text-77710aed_L1H0_weights_causal.svg"),
        (export.About("Every shape"), "gpt2viz_Every-shape.svg"),
        (
            replace(
                ABOUT,
                what="Every score of every head, on each text and by the weights alone",
                text="A crane flew over the sea and back",
            ),
            "gpt2viz_stories_A-crane-flew-over-the-sea-and_L1H0_"
            "Every-score-of-every-head-on-each-text-and-by-the-weights_causal.svg",
        ),
        (export.About(f"{'one ' * 15}{'a' * 9}"), f"gpt2viz_{'one-' * 14}one.svg"),
        (export.About("a" * 70), f"gpt2viz_{'a' * 60}.svg"),
    ]
    for about, name in cases:
        with subtests.test(about=about, name=name):
            assert export.file_name(about, "svg") == name
            assert not {"\0", "\u202e"} & set(about.caption[1])
    both = replace(ABOUT, text=f"{'a' * 99} / {'b' * 99}")
    assert both.source.startswith(f"“{'a' * 89}… / {'b' * 89}…” · model stories")


@given(st.text(), st.text(), st.text())
def test_file_names_are_safe_on_every_system(model: str, text: str, what: str) -> None:
    name = export.file_name(replace(ABOUT, model=model, text=text, what=what), "parquet")
    assert len(name) <= 160
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    assert name.startswith("gpt2viz_")
    assert ".." not in name


@pytest.mark.parametrize("ending", ["docx", "", "txt"])
def test_unknown_extensions_are_refused(trace: gpt2viz.Trace, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"
    things = {"trace": trace, "table": pd.DataFrame(), "figure": trace.heatmap(0, 0)}
    for what, thing in things.items():
        for name, to in ((f"save_{what}", path), (f"{what}_bytes", ending)):
            with pytest.raises(gpt2viz.ExportError, match=rf"is saved as \..*, not as '{ending}'"):
                getattr(export, name)(thing, to)
    assert not path.exists()


BARS = probability_bars("what", ["a", "b"], {"on": [1.0, 2.0]})


def test_without_chromium_only_pictures_that_need_it_are_refused(
    trace: gpt2viz.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "none"))
    with pytest.raises(gpt2viz.ExportError, match=r"apt-get install.* CHROMIUM names no program"):
        export.save_figure(BARS, tmp_path / "x.png")
    assert not export.prints(BARS)
    assert export.save_figure(BARS, tmp_path / "x.html").stat().st_size < 200_000
    pdf = export.save_figure(trace.heatmap(1, 0), tmp_path / "x.pdf")
    assert pdf.read_bytes().startswith(b"%PDF-")
    assert b'width="321"' in export.figure_bytes(trace.heatmap(0, 0), "svg", ABOUT, width="8.5cm")
    for width, height in (("2.5cm", None), (None, -5), (None, 0), (None, 150)):
        with pytest.raises(gpt2viz.ExportError, match=r"at least [\d.]+ (cm wide|pixels tall)"):
            figure_bytes(trace.heatmap(0, 0), "svg", ABOUT, width=width, height=height)
    monkeypatch.delenv("CHROMIUM")
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    (tmp_path / "google-chrome").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert export.prints(BARS)


@pytest.mark.skipif(chromium.browser() is None, reason="needs Chromium")
@pytest.mark.parametrize("script", ["exec tail -f", "tail -f"], ids=["alone", "with a child"])
@pytest.mark.slow
def test_a_hung_browser_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    slow = tmp_path / "chromium"
    slow.write_text(f"#!/bin/sh\n{script} {tmp_path}/wait\n")
    (tmp_path / "wait").touch()
    slow.chmod(0o755)
    monkeypatch.setenv("CHROMIUM", str(slow))
    monkeypatch.setattr(chromium, "LIMIT", 1)
    with pytest.raises(gpt2viz.ExportError, match="not drawn the picture within 1 seconds and was"):
        figure_bytes(BARS, "svg")
    processes = Path("/proc").glob
    for _ in range(50):
        left = [pid for pid in processes("[0-9]*") if has_argument(pid, str(tmp_path))]
        time.sleep(0.1 if left else 0)
    assert not left
    with chromium._LOCK, pytest.raises(gpt2viz.ExportError, match="kept Chromium busy for 1 sec"):
        figure_bytes(BARS, "svg")
    monkeypatch.undo()
    assert figure_bytes(BARS, "svg").startswith(b"<svg")


def has_argument(process: Path, path: str) -> bool:
    """True if a process runs with a path among its arguments."""
    try:
        return path.encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


def test_a_page_has_its_title_once(trace: gpt2viz.Trace, tmp_path: Path) -> None:
    path = export.save_figure(trace.heatmap(0, 0), tmp_path / "x.html", ABOUT)
    page = path.read_text(encoding="utf-8")
    assert f"<h1>{ABOUT.title}</h1>" in page
    assert "<h2>" not in page
    assert f'aria-label="{ABOUT.title}"' in page
    several = [(ABOUT.title, trace.heatmap(0, 0)), ("Another head", trace.heatmap(0, 1))]
    assert re.findall("<h2>(.*?)</h2>", export.page_html(several, ABOUT)) == ["Another head"]


def test_a_page_mentions_dragging_only_if_cells_respond() -> None:
    map_of_heads = one_of_every_kind()["thumbnails"]
    assert isinstance(map_of_heads, Thumbnails)
    still = replace(map_of_heads, arrows=[Arrow(None, (0, 0), 0.5, "50 %")])
    for picture, offered in ((map_of_heads, True), (still, False)):
        page = export.page_html([("Every head", picture)])
        assert ("<p>Drag over cells" in page) == offered


def test_missing_numbers_are_empty_cells_in_a_page() -> None:
    table = pd.DataFrame({"a": pd.array([1.23456789, None], "Float32"), "b": [float("nan"), 2.5]})
    cells = re.findall("<td>(.*?)</td>", export.page_html([], ABOUT, [("Numbers", table)]))
    assert cells == ["1.23457", "", "", "2.5"]


def test_wide_tables_and_their_index_are_saved_as_csv() -> None:
    numbers = np.arange(600, dtype=np.float32).reshape(2, 300)
    wide = pd.DataFrame(numbers, index=["=a", "b"], columns=[f"{n} ·x" for n in range(300)])
    saved = pd.read_csv(io.BytesIO(export.table_bytes(wide, "csv", export.About("weights"))))
    np.testing.assert_array_equal(saved.iloc[:, 1:301], numbers)
    assert saved.iloc[0, 0] == "'=a"
    assert "1 cell begins with ' so" in saved["about"][0]
    two = rows(export.table_bytes(pd.DataFrame({"token": ["=1+1", "@a", "b"]}), "csv", ABOUT))
    deep = pd.MultiIndex.from_tuples([("a", 2)], names=["x", None])
    assert rows(export.table_bytes(pd.DataFrame({"n": [1]}, deep), "csv"))[0] == ["x", "row1", "n"]
    with pytest.raises(gpt2viz.ExportError, match="index and the columns need different names"):
        export.table_bytes(pd.DataFrame({"row": [1]}, ["a"]), "csv")
    assert two[1][1].endswith("2 cells begin with ' so that no spreadsheet runs it")


def test_lengths_in_pixels(subtests: pytest.Subtests) -> None:
    lengths: list[str | float] = ["8.5cm", "85 mm", "3in", "241pt", "321px", 321.4]
    assert [*map(export.pixels, lengths)] == [321, 321, 288, 321, 321, 321]
    for wrong in ("8.5", "wide", "", "-3cm", "1e3cm", "200cm", "0.1px", 0, float("nan")):
        with subtests.test(wrong=wrong), pytest.raises(gpt2viz.ExportError, match=r"isn't|pixel"):
            export.pixels(wrong)


@pytest.mark.skipif(chromium.browser() is None, reason="needs Chromium")
def test_bars_at_another_width_keep_their_numbers() -> None:
    drawn = figure_bytes(BARS, "svg", ABOUT, width=321).decode()
    assert 'width="321"' in drawn
    assert {"1.00 %", "2.00 %"} <= set(re.findall("<text [^>]*>([^<]*)</text>", drawn))
    assert 'height="300"' in figure_bytes(BARS, "svg", ABOUT, width=321, height=300).decode()
    for width, height in (("2.5cm", None), (None, 5)):
        with pytest.raises(gpt2viz.ExportError, match=r"at least [\d.]+ (cm wide|pixels tall)"):
            figure_bytes(BARS, "svg", ABOUT, width=width, height=height)


@pytest.mark.skipif(chromium.browser() is None, reason="needs Chromium")
def test_a_changed_figure_is_saved_with_its_changes(trace: gpt2viz.Trace) -> None:
    figure = trace.heatmap(0, 0)
    assert export.sheet_of(figure)
    figure.update_layout(title="mine")
    assert export.sheet_of(figure) is None
    drawn = figure_bytes(figure, "svg", ABOUT, width=321).decode()
    assert ">mine</text>" in drawn
    assert 'width="321"' in drawn


PDF = typst.compile(b"#set document(title: [typed])", format="pdf")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30))
def test_label_pdf_sets_the_metadata_of_a_valid_pdf(text: str) -> None:
    message = label_pdf(PDF, {"Title": text, "gpt2viz": "{}"})
    start = int(message.split()[-2])
    number, _, offset = message[start:].removeprefix(b"xref\n").split()[:3]
    assert message[int(offset) :].startswith(number + b" 0 obj\n")  # readers repair wrong ones
    read = PdfReader(io.BytesIO(message), strict=True)
    assert read.metadata is not None
    assert str(read.metadata["/Title"]) == text
    assert dict(read.metadata).keys() == {"/Title", "/gpt2viz"}
    assert len(read.pages) == 1


def test_label_pdf_refuses_other_files() -> None:
    for document in (b"", b"%PDF-1.4", PDF.replace(b"/Size", b"/Sise")):
        with pytest.raises(ValueError, match="PDF"):
            label_pdf(document, {})


def test_saving_again_gives_the_same_bytes(trace: gpt2viz.Trace, tmp_path: Path) -> None:
    for name in ("t.npz", "t.safetensors", "t.csv", "t.parquet", "t.html"):
        made = set()
        for n in range(3):
            path = tmp_path / str(n) / name
            path.parent.mkdir(exist_ok=True)
            if name.endswith((".npz", ".safetensors")):
                export.save_trace(trace, path)
            elif name.endswith(".html"):
                figures = [(f"Head {head}", trace.heatmap(1, head)) for head in range(2)]
                export.save_page(path, figures, ABOUT, [("Numbers", trace.table(0, 0))])
            else:
                export.save_table(trace.table(0, 0), path, ABOUT)
            made.add(path.read_bytes())
        assert len(made) == 1, name

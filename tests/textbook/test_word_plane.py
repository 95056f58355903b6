"""Words as points, held against the eigenvectors of their covariance and plain cosines in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.textbook import embeddings
from tests.bundled import bundled_model
from tests.numpy_gpt2 import read
from tests.textbook.oracle import made


@pytest.mark.parametrize(("n", "C"), [(2, 5), (3, 2), (5, 4), (10, 256), (4, 1)])
def test_the_plane_is_that_of_the_largest_variance(n: int, C: int) -> None:
    x = made(n, C)
    tensor = torch.tensor(x, dtype=torch.float32)
    result = embeddings.plane(tensor)
    centred = x - x.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    points = embeddings.onto_plane(result, tensor).numpy()
    k = min(2, n - 1, C)
    for m in range(k):
        direction = vectors[:, -1 - m]
        direction = direction * np.sign(direction[np.abs(direction).argmax()])
        assert_allclose(result.directions[m], direction, atol=2e-4)
        assert_allclose(points[:, m], centred @ direction, atol=1e-3)
        assert result.share[m] == pytest.approx(values[-1 - m] / values.sum(), abs=1e-4)
    assert_allclose(points[:, k:], 0, atol=1e-6)
    assert_allclose(result.share[k:], 0, atol=1e-6)


def test_equal_words_are_one_point() -> None:
    result = embeddings.plane(torch.ones(3, 4))
    assert_allclose(embeddings.onto_plane(result, torch.ones(3, 4)), 0)
    assert_allclose(result.share, 0)


def test_neighbours_are_those_of_the_largest_cosine() -> None:
    table, requested = made(50, 6), made(3, 6)
    table[7] = 0  # points nowhere
    lengths = np.linalg.norm(table, axis=1)
    lengths[7] = 1
    expected = requested @ table.T / lengths / np.linalg.norm(requested, axis=1)[:, None]
    result = embeddings.cosines(*(torch.tensor(t, dtype=torch.float32) for t in (table, requested)))
    assert_allclose(result, expected, atol=1e-5)
    for row, cosine in zip(result, expected, strict=True):
        order = np.argsort(-cosine)
        left_out = [int(order[0]), int(order[3]), 49]
        kept = [n for n in order.tolist() if n not in left_out]
        assert embeddings.rank(row, int(order[2])) == 3
        near = embeddings.nearest(row, 4, left_out)
        assert [one.id for one in near] == kept[:4]
        assert_allclose([one.cosine for one in near], cosine[kept[:4]], atol=1e-5)
        for place in (0, 5, len(kept) - 1):
            assert embeddings.rank(row, kept[place], left_out) == place + 1
    assert len(embeddings.nearest(result[0], 99, [1, 2])) == 48


def test_a_sum_is_the_first_less_the_second_and_the_third() -> None:
    table = made(9, 3)
    result = embeddings.sum_of(torch.tensor(table), [4, 0, 7])
    assert_allclose(result, table[4] - table[0] + table[7])


def test_the_table_is_the_checkpoints_and_a_word_is_one_token_with_its_space() -> None:
    model = bundled_model()
    _, weights = read(BUNDLED)
    assert_allclose(embeddings.table_of(model), weights["wte.weight"], atol=1e-6)
    id = embeddings.token_of("king", model.tokenizer)
    assert id is not None
    assert model.tokenizer.token_bytes(id) == b" king"
    for no_token in ("unbelievable", "\ud800"):
        assert embeddings.token_of(no_token, model.tokenizer) is None

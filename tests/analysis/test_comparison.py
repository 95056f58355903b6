"""Two texts: the alignment by hand, and every number against the NumPy GPT-2 and loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.attribution import key_norm
from gpt2viz.analysis.comparison import (
    addition_sites,
    align,
    largest_differences,
    match_tokens,
    nearest,
    path,
    stream_sites,
)
from gpt2viz.errors import PlaceError
from tests.checkpoints import weights_of, write_checkpoint
from tests.numpy_gpt2 import reference

A, B = [5, 300, 17, 219, 41], [5, 300, 88, 41, 17, 7]
IDS = st.lists(st.integers(0, 4), max_size=12)


def alignment(a: str, b: str) -> list[str]:
    """The alignment of two words, letter by letter: ``x=x``, ``x|y``, ``x|-``."""
    pairs = align([ord(c) for c in a], [ord(c) for c in b])
    return [
        f"{'-' if p.a is None else a[p.a]}{'|='[p.same]}{'-' if p.b is None else b[p.b]}"
        for p in pairs
    ]


def test_alignment_by_hand() -> None:
    assert alignment("ACEF", "ACLS") == ["A=A", "C=C", "E|L", "F|S"]
    assert alignment("ABC", "AXYC") == ["A=A", "B|X", "-|Y", "C=C"]
    assert alignment("ABC", "C") == ["A|-", "B|-", "C=C"]
    assert alignment("", "A") == ["-|A"]


@given(IDS, IDS)
def test_alignment_has_every_token_once_in_order(a: list[int], b: list[int]) -> None:
    pairs = align(a, b)
    assert [p.a for p in pairs if p.a is not None] == list(range(len(a)))
    assert [p.b for p in pairs if p.b is not None] == list(range(len(b)))
    for p in pairs:
        both = p.a is not None and p.b is not None and a[p.a] == b[p.b]
        assert not p.same or both


@given(IDS, IDS)
def test_match_tokens_matches_all_common_tokens(a: list[int], b: list[int]) -> None:
    result = match_tokens(a, b)
    assert all(a[i] == b[j] for i, j in result)
    assert len({i for i, _ in result}) == len({j for _, j in result}) == len(result)
    assert len(result) == sum(min(a.count(n), b.count(n)) for n in set(a))
    assert [i for i, _ in result] == sorted(i for i, _ in result)


def test_moved_tokens_are_matched() -> None:
    assert match_tokens([1, 2, 3, 4], [9, 4, 8, 1, 2]) == ((0, 3), (1, 4), (3, 1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("comparison") / "tiny")


@pytest.mark.parametrize("causal", [True, False])
def test_path_of_a_token_equals_numpy(folder: Path, causal: bool) -> None:
    model = gpt2viz.load_model(folder)
    first, second = (gpt2viz.trace(model, ids, causal=causal) for ids in (A, B))
    theirs = [reference(folder, ids, causal) for ids in (A, B)]
    at = (2, 4)  # token 17 in both
    streams = path(first, second, at, stream_sites(3))
    additions = path(first, second, at, addition_sites(3))
    assert [key for key, _ in streams.sites[:4]] == [
        *("token_embedding", "embedding", "residual_mid", "residual_out")
    ]
    assert [layer for _, layer in additions.sites] == [0, 0, 1, 1, 2, 2]
    assert streams.cosine[0] == 1
    assert streams.difference[0] == 0
    for result in (streams, additions):
        for (key, layer), cosine, difference in zip(
            result.sites, result.cosine, result.difference, strict=True
        ):
            if key == "token_embedding":
                continue
            x, y = (
                (run[key] if layer is None else run[key][layer])[n]
                for run, n in zip(theirs, at, strict=True)
            )
            expected = sum(x * y) / (sum(x * x) * sum(y * y)) ** 0.5
            assert cosine == pytest.approx(expected, abs=1e-5)
            assert difference == pytest.approx(max(abs(x - y)), abs=1e-4)


def test_invalid_position_is_refused(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    run = gpt2viz.trace(model, A)
    for at in ((5, 0), (0, 9), (0, -6)):
        with pytest.raises(PlaceError, match="this text has tokens 0 to 4"):
            path(run, run, at, stream_sites(3))
    for query, key in ((5, 0), (0, 5)):
        with pytest.raises(PlaceError, match="this text has tokens 0 to 4"):
            key_norm(model, run, 0, query, [0, key])


def test_cosine_of_a_zero_addition_is_nan(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    off = gpt2viz.trace(model, A, edits=gpt2viz.parse_edits("mlp:1"))
    cosine = path(gpt2viz.trace(model, A), off, (2, 2), addition_sites(3)).cosine
    assert_array_equal(np.isnan(cosine), [key == ("mlp_output", 1) for key in addition_sites(3)])
    both_off = path(off, off, (2, 2), addition_sites(3))
    assert_array_equal(both_off.cosine, 1)


def test_zero_vector_is_the_last_neighbour(folder: Path, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "padded")
    with weights_of(tmp_path / "padded") as weights:
        weights["transformer.wte.weight"][419] = 0  # a padding row
    trace = gpt2viz.trace(gpt2viz.load_model(tmp_path / "padded"), A)
    result = nearest(trace, 3, stream_sites(3), top=420)
    assert np.isfinite(result.cosine[:, :419]).all()
    assert_array_equal(result.ids[:, 419], 419)
    assert_array_equal(result.ids[:, :4], nearest(trace, 3, stream_sites(3), top=4).ids)


def test_largest_differences(folder: Path, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "other", seed=5, n_layer=2, n_head=3)
    run_a, run_b = (
        gpt2viz.trace(gpt2viz.load_model(f), ids)
        for f, ids in ((folder, A), (tmp_path / "other", B))
    )
    matches = [(0, 0), (1, 1), (4, 3), (2, 4)]
    result = largest_differences(run_a, run_b, matches)
    first, second = (
        np.array([heads[:3] for heads in reference(f, ids, causal=True)["weights"][:2]])
        for f, ids in ((folder, A), (tmp_path / "other", B))
    )
    a, b = np.transpose(matches)
    apart = np.abs(second[..., b[:, None], b] - first[..., a[:, None], a])  # (2, 3, 4, 4)
    assert_allclose(result, apart.max(axis=(2, 3)), atol=1e-5)


def test_streams_of_different_widths_are_refused(folder: Path, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "other", n_embd=16)
    first, second = (gpt2viz.trace(gpt2viz.load_model(f), A) for f in (folder, tmp_path / "other"))
    with pytest.raises(ValueError, match="24 channels, the other 16"):
        path(first, second, (0, 0), stream_sites(3))

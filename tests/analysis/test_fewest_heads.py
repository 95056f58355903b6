"""The remaining heads are those of a hand-built circuit, and the curve equals real runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis import fewest_heads as module
from gpt2viz.analysis import patching
from gpt2viz.analysis.fewest_heads import FewestHeads
from tests.analysis.copying_model import copying_model
from tests.checkpoints import write_checkpoint
from tests.oracles import FAMILIES, write_model

CLEAN, CORRUPTED, ANSWER = [5, 300, 17, 219, 7], [5, 300, 23, 219, 7], (12, 40)


@pytest.fixture(scope="module")
def copying() -> gpt2viz.Model:
    """0.0 attends one back and 1.0 copies that token; 0.1 and 1.1 write small random vectors."""
    made, n, random = copying_model(), 12, torch.Generator().manual_seed(3)
    inner: Any = made.network
    C, hs = 6 * n, 3 * n
    with torch.no_grad():
        copies = inner.h[1].attn
        copies.c_attn.weight[2 * C : 2 * C + n, :n] = torch.eye(n)
        copies.c_proj.weight[:n, :n] = 10 * torch.eye(n)
        copies.c_proj.weight[hs : hs + n, :n] = -10 * torch.eye(n)
        for block in inner.h:
            block.attn.c_attn.weight[2 * C + hs :].normal_(0, 0.01, generator=random)
            block.attn.c_proj.weight[:, hs:].normal_(0, 0.01, generator=random)
    return made


def test_hand_built_circuit_is_found(copying: gpt2viz.Model) -> None:
    """ "a b c d a" goes on with b, and "c b a d a" with d: this takes both heads alone."""
    result = gpt2viz.fewest_heads(copying, [1, 5, 2, 6, 1], [2, 5, 1, 6, 1], (5, 6))
    assert result.keeping() == ((0, 0), (1, 0))
    assert set(result.given_up[:2]) == {(0, 1), (1, 1)}
    assert_allclose(result.faithfulness[:3], 1, atol=0.05)
    assert np.ptp(result.faithfulness[:3]) > 0
    assert_allclose(result.faithfulness[3:], 0, atol=0.05)
    assert result.keeping(1 - 1e-9) == ((0, 0), (0, 1), (1, 0), (1, 1))


@pytest.mark.parametrize(
    ("family", "over", "causal", "part"),
    [
        ("gpt2", "the pair", True, 32),
        *((family, "the pair", True, 3) for family in FAMILIES),
        ("gpt2", "others", False, 32),
        *((family, "others", True, 32) for family in FAMILIES),
    ],
)
def test_curve_equals_runs_with_mean_edits(
    tmp_path: Path, family: str, over: str, causal: bool, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step drops the least important head, by runs with ``mean`` edits or a third of them."""
    layers = {"gpt2": "n_layer"}.get(family, "num_hidden_layers")
    model = gpt2viz.load_model(write_model(tmp_path, family, **{layers: 2}))
    texts = [CLEAN, CORRUPTED] if over == "the pair" else [[8, 9, 10, 11, 12], [9, 3, 200, 1, 2, 4]]
    means = gpt2viz.mean_reference(model, texts)

    def share(gone: tuple[tuple[int, int], ...]) -> float:
        edits = gpt2viz.parse_edits(",".join(f"mean:{layer}.{head}" for layer, head in gone))
        runs = [
            gpt2viz.trace(model, ids, causal, edits=edits, reference=means).logits_at(-1)
            for ids in (CLEAN, CORRUPTED)
        ]
        clean, corrupted = (float(run[ANSWER[0]]) - float(run[ANSWER[1]]) for run in runs)
        return clean - corrupted

    monkeypatch.setattr(patching, "AT_ONCE", 20)
    monkeypatch.setattr(module, "_SHARE", part)
    reference = None if over == "the pair" else means
    result = gpt2viz.fewest_heads(
        model, CLEAN, CORRUPTED, ANSWER, causal=causal, reference=reference
    )
    whole, gone = share(()), tuple[tuple[int, int], ...]()
    alone: dict[tuple[int, int], float] = {}
    for n, head in enumerate(result.given_up):
        if part == 32 or n not in (1, 3):  # these two are the second of a round
            now = guess = share(gone) / whole
            left = sorted({*np.ndindex(2, 4)} - set(gone))
            alone = {candidate: share((*gone, candidate)) / whole - now for candidate in left}
        missed = {candidate: abs(guess + lost - 1) for candidate, lost in alone.items()}
        assert missed[head] == pytest.approx(min(missed.values()), abs=2e-4)
        guess += alone.pop(head)
        gone = (*gone, head)
        assert result.faithfulness[n + 1] == pytest.approx(share(gone) / whole, abs=2e-4)
    assert len(set(gone)) == result.n_heads == 8
    assert np.ptp(result.faithfulness) > 0.5


def test_kept_heads_neither_fall_short_nor_overshoot() -> None:
    heads = tuple((0, n) for n in range(5))
    curve = np.array([1, 1.05, 0.94, 1.3, 0.91, 0])
    result = FewestHeads((1, 2), 5, heads, curve)
    assert result.keeping() == ((0, 4),)
    assert result.keeping(0.94) == ((0, 2), (0, 3), (0, 4))
    assert result.keeping(0.95) == ((0, 1), (0, 2), (0, 3), (0, 4))
    assert result.keeping(1) == heads
    assert FewestHeads((1, 2), 6, heads, curve).keeping() is None


def test_kept_heads_in_words() -> None:
    heads = ((0, 0), (1, 3), (0, 2))
    result = FewestHeads((1, 2), 3, heads, np.array([1, 1.04, 0.93, 0]))
    assert result.words() == "1 head of 3 keeps 93 % of the difference between the texts: 0.2."
    two = "2 heads of 3 keep 104 % of the difference between the texts: 0.2, 1.3."
    assert result.words(0.95) == two
    none = "Without any of its 3 heads the model keeps 0 % of the difference between the texts."
    assert result.words(0) == none
    assert FewestHeads((1, 2), 4, heads, result.faithfulness).words() == ""


def test_search_reports_progress_and_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = gpt2viz.load_model(write_checkpoint(tmp_path, n_layer=2))
    monkeypatch.setattr(patching, "AT_ONCE", 2 * 3 * 4)  # both texts, for four heads
    reports: list[tuple[int, float]] = []

    def progress(so_far: FewestHeads, share: float) -> None:
        reports.append((len(so_far.given_up), share))
        if len(reports) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gpt2viz.fewest_heads(model, CLEAN, CORRUPTED, ANSWER, progress=progress)
    assert [n for n, _ in reports] == [0, 0, 1]
    assert [share for _, share in reports[:2]] == pytest.approx([4 / 36, 8 / 36])

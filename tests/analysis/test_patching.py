"""Patches equal TransformerLens'; ``test_edited_runs`` compares edited runs with NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis import patching
from gpt2viz.model import hub
from gpt2viz.run.paired_texts import nearest_pair
from tests.analysis import peer_patches
from tests.analysis.peer_patches import ANSWER, CLEAN, CORRUPTED
from tests.bundled import bundled_model
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import softmax


def test_every_sweep_equals_transformer_lens(tmp_path: Path) -> None:
    """Its ``get_act_patch_*`` on a random GPT-2: see ``tests.analysis.peer_patches``."""
    peer = json.loads(Path(peer_patches.__file__).with_suffix(".json").read_text("utf-8"))
    model = gpt2viz.load_model(write_checkpoint(tmp_path, **peer_patches.SIZES))
    for stage, by_position in peer_patches.THEIRS:
        sweep = gpt2viz.patch_sweep(model, CLEAN, CORRUPTED, stage, ANSWER, by_position=by_position)
        theirs = np.array(peer["sweeps"][f"{stage} {by_position}"])
        assert_allclose(sweep.values, theirs, rtol=1e-5, atol=1e-5, err_msg=stage)
        assert np.ptp(theirs) > 0.01


@pytest.mark.parametrize("stage", ["residual_in", "head_output"])
def test_noise_equals_denoising_with_swapped_texts(tiny: gpt2viz.Model, stage: str) -> None:
    noise = gpt2viz.patch_sweep(tiny, CLEAN, CORRUPTED, stage, ANSWER, direction="noise")
    swapped = gpt2viz.patch_sweep(tiny, CORRUPTED, CLEAN, stage, ANSWER)
    assert_allclose(noise.values, swapped.values, rtol=1e-6)
    assert (noise.clean, noise.corrupted) == (swapped.corrupted, swapped.clean)


@pytest.mark.parametrize("stage", ["k", "head_output"])
def test_estimates_by_position_add_up(tiny: gpt2viz.Model, stage: str) -> None:
    """To those of whole heads, which ``test_edited_runs`` compares with slopes."""
    whole, apart = (
        gpt2viz.patch_estimate(tiny, CLEAN, CORRUPTED, stage, ANSWER, by_position=by_position)
        for by_position in (False, True)
    )
    added = apart.values - apart.corrupted  # (n_layer, nh, T)
    assert_allclose(added.sum(axis=-1), whole.values - whole.corrupted, rtol=1e-4, atol=1e-5)
    assert not added[:, :, :2].any(), "what stands before the first other token is the same"
    assert added[0, :, 2].all()
    assert apart.estimate


@pytest.mark.parametrize("stage", ["attention_output", "q", "weights"])
def test_batched_patches_equal_single_patches(
    tiny: gpt2viz.Model, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = gpt2viz.patch_sweep(tiny, CLEAN, CORRUPTED, stage, ANSWER, by_position=True)
    monkeypatch.setattr(patching, "AT_ONCE", 1)
    alone = gpt2viz.patch_sweep(tiny, CLEAN, CORRUPTED, stage, ANSWER, by_position=True)
    assert_allclose(together.values, alone.values, rtol=1e-5, atol=1e-6)


def test_each_metric(tiny: gpt2viz.Model) -> None:
    """Divergence written out; the last patch is the whole run, of two tokens."""
    clean, corrupted = (gpt2viz.trace(tiny, ids).logits_at(-1) for ids in ([5, 17], [5, 23]))
    p, q = (softmax(x.astype(np.float64)) for x in (clean, corrupted))
    result = {
        metric: gpt2viz.patch_sweep(tiny, [5, 17], [5, 23], "residual_in", 12, metric=metric)
        for metric in ("logit difference", "probability", "divergence")
    }
    wrong = int(corrupted.argmax())
    assert result["probability"].answer == (12, wrong)
    assert_allclose(result["logit difference"].clean, clean[12] - clean[wrong], rtol=1e-5)
    assert_allclose(result["probability"].clean, p[12], rtol=1e-5)
    assert_allclose(result["probability"].corrupted, q[12], rtol=1e-5)
    assert result["divergence"].clean == pytest.approx(0, abs=1e-9)
    assert_allclose(result["divergence"].corrupted, (p * np.log2(p / q)).sum(), rtol=1e-5)
    assert_allclose(result["divergence"].restored[0], [0, 1], atol=1e-5)


def test_sweep_reports_progress_and_can_be_stopped(
    tiny: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patching, "AT_ONCE", 5 * 5)  # five tokens are read again
    reports: list[tuple[int, float]] = []

    def progress(so_far: gpt2viz.PatchSweep, share: float) -> None:
        reports.append((int(np.isfinite(so_far.values).sum()), share))
        if len(reports) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gpt2viz.patch_sweep(tiny, CLEAN, CORRUPTED, answer=ANSWER, progress=progress)
    assert [n for n, _ in reports] == [9 + 5, 9 + 10]  # 9 pieces are the same in both
    assert_allclose([share for _, share in reports], [14 / 21, 19 / 21])


def test_texts_of_unequal_length_get_a_suggestion(tiny: gpt2viz.Model) -> None:
    with pytest.raises(gpt2viz.PatchError, match="7 and 6 tokens") as error:
        gpt2viz.patch_sweep(tiny, CLEAN, [5, 300, 23, 88, 401, 7])
    assert error.value.nearest == [5, 300, 23, 219, 88, 401, 7]
    sweep = gpt2viz.patch_sweep(tiny, CLEAN, error.value.nearest, answer=ANSWER)
    assert sweep.values.shape == (3, 7)
    assert nearest_pair([1, 2, 3], [1, 9, 8, 3]) == [1, 9, 3]
    assert nearest_pair([1, 2, 3], [1, 3]) is None, "what is left is the same text"
    assert nearest_pair([1, 2, 3], [1, 9, 3]) is None


def test_invalid_patches_are_refused(tiny: gpt2viz.Model, subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"corrupted": CLEAN}, gpt2viz.PatchError, "the same"),
        ({"answer": (7, 7)}, gpt2viz.PatchError, "are both"),
        ({"answer": (1, 2, 3)}, gpt2viz.PatchError, "one or two tokens"),
        ({"answer": 420}, gpt2viz.PatchError, "of the vocabulary"),
        ({"answer": -1}, gpt2viz.PatchError, "of the vocabulary"),
        ({"stage": "scores"}, ValueError, "no stage 'scores'"),
        ({"direction": "up"}, ValueError, "denoise, noise"),
        ({"metric": "loss"}, ValueError, "logit difference"),
        ({"corrupted": []}, gpt2viz.TextError, "no text"),
        ({"edits": "attn:0,attn:1,attn:2"}, gpt2viz.PatchError, "the same logit difference"),
    ]
    for arguments, error, text in cases:
        with subtests.test(arguments=arguments, error=error):
            requested = {"clean": CLEAN, "corrupted": CORRUPTED, "answer": ANSWER} | arguments
            with pytest.raises(error, match=text):
                gpt2viz.patch_sweep(tiny, **requested)


@pytest.mark.parametrize(
    ("sender", "receiver", "into", "error"),
    [
        ("1.0", "1.2", "q", gpt2viz.PatchError),
        ("0.9", "1.2", "q", gpt2viz.EditError),
        ("head", "1.2", "q", gpt2viz.EditError),
        ("0.1", "1.2", "weights", ValueError),
    ],
)
def test_invalid_paths_are_refused(
    tiny: gpt2viz.Model, sender: str, receiver: str, into: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        gpt2viz.patch_path(tiny, CLEAN, CORRUPTED, sender, receiver, into, ANSWER)


def test_bundled_model_copies_the_word_that_differs() -> None:
    """ "A crane ate fish. A crane ate": the fish alone, at the start, brings the whole answer."""
    bundled = bundled_model()
    texts = "A crane ate fish. A crane ate", "A crane ate corn. A crane ate"
    sweep = gpt2viz.patch_sweep(bundled, *texts)
    assert [bundled.tokenizer.decode([n]) for n in sweep.answer] == [" fish", " corn"]
    assert sweep.restored[0, 3] == pytest.approx(1, abs=1e-4)
    assert np.delete(sweep.restored[0], 3) == pytest.approx(0, abs=1e-4)


def test_published_heads_of_gpt2_small() -> None:
    """Wang et al. 2022: name movers lead, negative ones oppose, S-inhibition acts by its values.

    8.6 tells 9.9 where to look: TransformerLens' demo of direct paths says +0.083 of the answer,
    with <|endoftext|> first, by LayerNorm's scale as it was.
    """
    folder = hub.cached_models().get("gpt2") or hub.cached_models().get("openai-community/gpt2")
    if folder is None:
        pytest.skip("gpt2 isn't on this machine")
    small = gpt2viz.load_model(folder)
    message = "When Mary and John went to the store, {} gave a drink to"
    texts = message.format("John"), message.format("Mary")
    encode = small.tokenizer.encode
    answer = [encode(name)[0] for name in (" Mary", " John")]

    def rank_heads(stage: str) -> list[tuple[int, int]]:
        values = gpt2viz.patch_sweep(small, *texts, stage, answer).values
        return [divmod(int(n), 12) for n in (-values).ravel().argsort()]

    outputs = rank_heads("head_output")
    assert {(9, 9), (9, 6), (10, 0)} <= set(outputs[:12])
    assert {(10, 7), (11, 10)} <= set(outputs[-6:])
    assert {(7, 3), (7, 9), (8, 6), (8, 10)} <= set(rank_heads("v")[:12])
    clean, corrupted = (encode(text, bos=True) for text in texts)
    path = gpt2viz.patch_path(small, clean, corrupted, "8.6", "9.9", "q", answer)
    assert path.restored == pytest.approx(0.083, abs=0.02)

"""Patches against the NumPy GPT-2, into which the same pieces are put one at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis import patching
from gpt2viz.analysis.patching import Direction
from gpt2viz.model import hub
from gpt2viz.run.edit_kinds import OF_HEADS, STREAMS
from gpt2viz.run.paired_texts import nearest_pair
from tests.analysis import peer_patches
from tests.bundled import bundled_model
from tests.checkpoints import ODD, write_checkpoint
from tests.numpy_gpt2 import read, reference, unchanged

CLEAN = [5, 300, 17, 219, 88, 401, 7]
CORRUPTED = [5, 300, 23, 219, 91, 401, 7]
ANSWER = (12, 40)
SHAPES: dict[str, dict[str, Any]] = {"plain": {}, "odd": {**ODD, "layer_norm_epsilon": 1e-5}}


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(the oracle, our model)."""
    folder = write_checkpoint(tmp_path_factory.mktemp("patched"), **SHAPES[request.param])
    return Oracle(folder), gpt2viz.load_model(folder)


@pytest.fixture
def model(tiny: gpt2viz.Model) -> gpt2viz.Model:
    return tiny


class Oracle:
    """The NumPy GPT-2, with a piece of another text's run put into one of its stages.

    Heads, as (layer, head), that are ``off`` put out 0 in all of its runs.
    """

    def __init__(
        self, folder: Path, causal: bool = True, off: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.of, self.causal, self.off = read(folder), causal, off
        self.n_head = self.of.config["n_head"]

    def run(self, ids: list[int], becomes: Callable[[str, np.ndarray], np.ndarray]) -> np.ndarray:
        """The logits (n_vocab,) after the last token."""

        def silence(layer: int, heads: np.ndarray) -> np.ndarray:
            on = [(layer, head) not in self.off for head in range(self.n_head)]
            return heads * np.array(on)[:, None, None]

        run = reference(self.of, ids, self.causal, heads_become=silence, becomes=becomes)
        logits: np.ndarray = run["logits"][-1]
        return logits

    def stage(self, ids: list[int], stage: str, layer: int) -> np.ndarray:
        """A stage of a run: (T, C) of a stream, (nh, T, …) of heads."""
        stages: dict[str, np.ndarray] = {}
        self.run(ids, lambda name, made: stages.setdefault(name, made))
        return stages[f"{stage}.{layer}"]

    def logits(
        self, into: list[int], source: list[int], stage: str, layer: int, place: Any, mix: float = 1
    ) -> np.ndarray:
        """Those after the last token, a piece mixed ``mix`` to 1 − ``mix`` with the run's own.

        ``place`` is a position of a stream, or (head, position or all) of a head.
        """
        piece = self.stage(source, stage, layer)[place]

        def becomes(name: str, made: np.ndarray) -> np.ndarray:
            if name == f"{stage}.{layer}":
                made = made.copy()
                made[place] = mix * piece + (1 - mix) * made[place]
            return made

        return self.run(into, becomes)

    def sweep(
        self, into: list[int], source: list[int], stage: str, by_position: bool, mix: float = 1
    ) -> np.ndarray:
        """The metric after every patch: (n_layer, pieces)."""
        positions = range(len(CLEAN)) if by_position or stage in STREAMS else [slice(None)]
        heads = [] if stage in STREAMS else [range(self.n_head)]
        places = [p if heads else p[0] for p in product(*heads, positions)]
        patches = [(stage, layer, place, mix) for layer in range(3) for place in places]
        results = [metric(self.logits(into, source, *patch)) for patch in patches]
        return np.array(results).reshape(3, -1)


def metric(logits: np.ndarray) -> float:
    return float(logits[ANSWER[0]] - logits[ANSWER[1]])


def test_every_patch_is_as_numpy_makes_it(pair: Any, subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, bool, Any]] = [
        *((stage, False, "denoise") for stage in STREAMS + OF_HEADS),
        ("weights", True, "denoise"),
        ("residual_in", False, "noise"),
        ("head_output", True, "noise"),
    ]
    for stage, by_position, direction in cases:
        with subtests.test(stage=stage, by_position=by_position):
            oracle, ours = pair
            sweep = gpt2viz.patch_sweep(
                ours, CLEAN, CORRUPTED, stage, ANSWER, direction=direction, by_position=by_position
            )
            into, source = (CORRUPTED, CLEAN) if direction == "denoise" else (CLEAN, CORRUPTED)
            expected = oracle.sweep(into, source, stage, by_position)
            assert_allclose(sweep.values.reshape(3, -1), expected, rtol=1e-5, atol=1e-5)
            alone = [metric(oracle.run(ids, unchanged)) for ids in (CLEAN, CORRUPTED)]
            assert_allclose([sweep.clean, sweep.corrupted], alone, rtol=1e-5, atol=1e-5)
            assert np.ptp(sweep.values) > 0.01


@pytest.mark.slow
def test_the_estimate_is_the_slope_of_a_patch(pair: Any, subtests: pytest.Subtests) -> None:
    """That of a thousandth of the patch, from both sides; every stage: ``test_edited_runs``."""
    for stage in ("residual_in", "head_output", "k"):
        with subtests.test(stage=stage):
            (oracle, ours), step = pair, 1e-3
            by_position = stage == "k"
            result = gpt2viz.patch_estimate(
                ours, CLEAN, CORRUPTED, stage, ANSWER, by_position=by_position
            )
            up, down = (
                oracle.sweep(CORRUPTED, CLEAN, stage, by_position, mix) for mix in (step, -step)
            )
            added = result.values.reshape(3, -1) - result.corrupted
            assert_allclose(added, (up - down) / (2 * step), rtol=2e-3, atol=2e-5)
            assert result.estimate
            assert np.ptp(added) > 0.01


def test_every_sweep_is_as_transformer_lens_makes_it(tmp_path: Path) -> None:
    """Its ``get_act_patch_*`` on a random GPT-2: see ``tests.analysis.peer_patches``."""
    kept = json.loads(Path(peer_patches.__file__).with_suffix(".json").read_text("utf-8"))
    model = gpt2viz.load_model(write_checkpoint(tmp_path, **peer_patches.SIZES))
    for stage, by_position in peer_patches.THEIRS:
        texts, answer = (peer_patches.CLEAN, peer_patches.CORRUPTED), peer_patches.ANSWER
        sweep = gpt2viz.patch_sweep(model, *texts, stage, answer, by_position=by_position)
        theirs = np.array(kept["sweeps"][f"{stage} {by_position}"])
        assert_allclose(sweep.values, theirs, rtol=1e-5, atol=1e-5, err_msg=stage)
        assert np.ptp(theirs) > 0.01


@pytest.mark.parametrize("stage", ["attention_output", "q", "weights"])
def test_a_batch_is_its_patches_one_at_a_time(
    model: gpt2viz.Model, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = gpt2viz.patch_sweep(model, CLEAN, CORRUPTED, stage, ANSWER, by_position=True)
    monkeypatch.setattr(patching, "AT_ONCE", 1)
    alone = gpt2viz.patch_sweep(model, CLEAN, CORRUPTED, stage, ANSWER, by_position=True)
    assert_allclose(together.values, alone.values, rtol=1e-5, atol=1e-6)


def test_each_metric(model: gpt2viz.Model) -> None:
    """Softmax and divergence written out; the last patch is the whole run, of two tokens."""
    clean, corrupted = (gpt2viz.trace(model, ids).logits_at(-1) for ids in ([5, 17], [5, 23]))
    p, q = (
        np.exp(x.astype(np.float64)) / np.exp(x.astype(np.float64)).sum()
        for x in (clean, corrupted)
    )
    result = {
        metric: gpt2viz.patch_sweep(model, [5, 17], [5, 23], "residual_in", 12, metric=metric)
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


def test_a_sweep_tells_how_far_it_is_and_can_be_ended(
    model: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patching, "AT_ONCE", 5 * 5)  # five tokens are read anew
    messages: list[tuple[int, float]] = []

    def progress(so_far: gpt2viz.PatchSweep, share: float) -> None:
        messages.append((int(np.isfinite(so_far.values).sum()), share))
        if len(messages) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gpt2viz.patch_sweep(model, CLEAN, CORRUPTED, answer=ANSWER, progress=progress)
    assert [n for n, _ in messages] == [9 + 5, 9 + 10]  # 9 pieces are the same in both
    assert_allclose([share for _, share in messages], [14 / 21, 19 / 21])


def test_texts_that_do_not_line_up_are_told_where(model: gpt2viz.Model) -> None:
    with pytest.raises(gpt2viz.PatchError, match="7 and 6 tokens") as error:
        gpt2viz.patch_sweep(model, CLEAN, [5, 300, 23, 88, 401, 7])
    assert error.value.nearest == [5, 300, 23, 219, 88, 401, 7]
    sweep = gpt2viz.patch_sweep(model, CLEAN, error.value.nearest, answer=ANSWER)
    assert sweep.values.shape == (3, 7)
    assert nearest_pair([1, 2, 3], [1, 9, 8, 3]) == [1, 9, 3]
    assert nearest_pair([1, 2, 3], [1, 3]) is None, "what is left is the same text"
    assert nearest_pair([1, 2, 3], [1, 9, 3]) is None


def test_what_cannot_be_patched_says_so(model: gpt2viz.Model, subtests: pytest.Subtests) -> None:
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
    ]
    for arguments, error, text in cases:
        with subtests.test(arguments=arguments, error=error):
            requested = {"clean": CLEAN, "corrupted": CORRUPTED, "answer": ANSWER} | arguments
            with pytest.raises(error, match=text):
                gpt2viz.patch_sweep(model, **requested)


@pytest.mark.parametrize(
    ("sender", "receiver", "into", "error"),
    [
        ("1.0", "1.2", "q", gpt2viz.PatchError),
        ("0.9", "1.2", "q", gpt2viz.EditError),
        ("head", "1.2", "q", gpt2viz.EditError),
        ("0.1", "1.2", "weights", ValueError),
    ],
)
def test_a_path_that_is_not_there_says_so(
    model: gpt2viz.Model, sender: str, receiver: str, into: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        gpt2viz.patch_path(model, CLEAN, CORRUPTED, sender, receiver, into, ANSWER)


def test_on_the_bundled_model_what_is_copied_depends_on_the_word_that_differs() -> None:
    """ "A crane ate fish. A crane ate": the fish alone, at the start, brings the whole answer."""
    bundled = bundled_model()
    texts = "A crane ate fish. A crane ate", "A crane ate corn. A crane ate"
    sweep = gpt2viz.patch_sweep(bundled, *texts)
    assert [bundled.tokenizer.decode([n]) for n in sweep.answer] == [" fish", " corn"]
    assert sweep.restored[0, 3] == pytest.approx(1, abs=1e-4)
    assert np.delete(sweep.restored[0], 3) == pytest.approx(0, abs=1e-4)


def test_the_published_heads_of_gpt2_small() -> None:
    """Wang et al. 2022: name movers lead, negative ones oppose, S-inhibition acts by its values.

    8.6 tells 9.9 where to look: TransformerLens' demo of direct paths says +0.083 of the answer,
    with <|endoftext|> first, by LayerNorm's scale as it was.
    """
    folder = hub.cached().get("gpt2") or hub.cached().get("openai-community/gpt2")
    if folder is None:
        pytest.skip("gpt2 isn't on this machine")
    small = gpt2viz.load_model(folder)
    message = "When Mary and John went to the store, {} gave a drink to"
    texts = message.format("John"), message.format("Mary")
    encode = small.tokenizer.encode
    answer = [encode(name)[0] for name in (" Mary", " John")]

    def ranked(stage: str) -> list[tuple[int, int]]:
        values = gpt2viz.patch_sweep(small, *texts, stage, answer).values
        return [divmod(int(n), 12) for n in (-values).ravel().argsort()]

    outputs = ranked("head_output")
    assert {(9, 9), (9, 6), (10, 0)} <= set(outputs[:12])
    assert {(10, 7), (11, 10)} <= set(outputs[-6:])
    assert {(7, 3), (7, 9), (8, 6), (8, 10)} <= set(ranked("v")[:12])
    clean, corrupted = (encode(text, bos=True) for text in texts)
    path = gpt2viz.patch_path(small, clean, corrupted, "8.6", "9.9", "q", answer)
    assert path.restored == pytest.approx(0.083, abs=0.02)


def test_pieces_come_from_the_clean_run_or_go_into_it(pair: Any) -> None:
    _, model = pair
    for direction in get_args(Direction):
        runs = patching.paired_runs(
            model, CLEAN, CORRUPTED, ANSWER, direction, "probability", True, (), None
        )
        assert {id(runs.source), id(runs.into)} == {id(runs.clean), id(runs.corrupted)}
        assert list(runs.source.token_ids) == (CLEAN if direction == "denoise" else CORRUPTED)

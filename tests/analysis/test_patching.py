"""Patches against transformers, where the same piece is put in by its own hooks, one at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

import gpt2viz
from gpt2viz.analysis import patching
from gpt2viz.model import hub
from gpt2viz.run.edit_kinds import OF_HEADS, STREAMS
from gpt2viz.run.pieces import nearest_pair
from tests.analysis import peer_patches
from tests.checkpoints import write_checkpoint

CLEAN = [5, 300, 17, 219, 88, 401, 7]
CORRUPTED = [5, 300, 23, 219, 91, 401, 7]
ANSWER = (12, 40)
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "odd sizes, untied, scores divided in deeper layers": {
        "n_embd": 15,
        "n_head": 3,
        "tie_word_embeddings": False,
        "scale_attn_by_inverse_layer_idx": True,
    },
}


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(transformers' model in double precision, ours)."""
    folder = tmp_path_factory.mktemp("patched")
    theirs = write_checkpoint(folder, **SHAPES[request.param])
    return theirs.double(), gpt2viz.load_model(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> gpt2viz.Model:
    folder: Path = tmp_path_factory.mktemp("model")
    write_checkpoint(folder)
    return gpt2viz.load_model(folder)


class Oracle:
    """transformers' model, with places that can be read and written by hooks.

    Heads, as (layer, head), that are ``off`` put out 0 in all of its runs.
    """

    def __init__(
        self, theirs: Any, causal: bool = True, off: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.theirs, self.n_head, self.causal, self.off = theirs, theirs.config.n_head, causal, off

    def forward(self, ids: list[int]) -> Any:
        hs = self.theirs.config.n_embd // self.n_head
        unmasked = torch.zeros(1, 1, len(ids), len(ids), dtype=self.theirs.dtype)

        def silence(head: int) -> Any:
            def hook(_module: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
                merged = inputs[0].clone()
                merged[..., head * hs : (head + 1) * hs] = 0
                return (merged,)

            return hook

        with ExitStack() as hooks, torch.no_grad():
            for layer, head in self.off:
                module = self.theirs.transformer.h[layer].attn.c_proj
                handle = module.register_forward_pre_hook(silence(head), prepend=True)
                hooks.callback(handle.remove)
            return self.theirs(
                torch.tensor([ids]),
                attention_mask=None if self.causal else unmasked,
                output_attentions=True,
            )

    def run(self, ids: list[int], at: str, layer: int, change: Callable[[Tensor], Tensor]) -> Any:
        """The logits (n_vocab,) after the last token, with what stands ``at`` a place changed."""
        attn, C = self.theirs.transformer.h[layer].attn, self.theirs.config.n_embd

        def after(_module: Any, _inputs: Any, output: Any) -> Any:
            if isinstance(output, tuple):
                return change(output[0]), *output[1:]
            return change(output)

        def before(_module: Any, inputs: tuple[Any, ...]) -> Any:
            return change(inputs[0]), *inputs[1:]

        def part(which: int) -> Any:
            def hook(_module: Any, _inputs: Any, output: Tensor) -> Tensor:
                parts = list(output.split(C, dim=-1))
                parts[which] = change(parts[which])
                return torch.cat(parts, dim=-1)

            return hook

        with ExitStack() as hooks, torch.no_grad():
            handle = {
                "residual_in": lambda: self.theirs.transformer.h[layer].register_forward_pre_hook(
                    before
                ),
                "attention_output": lambda: attn.register_forward_hook(after),
                "mlp_output": lambda: self.theirs.transformer.h[layer].mlp.register_forward_hook(
                    after
                ),
                "head_output": lambda: attn.c_proj.register_forward_pre_hook(before),
                "q": lambda: attn.c_attn.register_forward_hook(part(0)),
                "k": lambda: attn.c_attn.register_forward_hook(part(1)),
                "v": lambda: attn.c_attn.register_forward_hook(part(2)),
            }[at]()
            hooks.callback(handle.remove)
            return self.forward(ids).logits[0, -1]

    def read(self, ids: list[int], at: str, layer: int) -> Tensor:
        """What stands at a place: (1, T, C)."""
        found: list[Tensor] = []

        def look(value: Tensor) -> Tensor:
            found.append(value.clone())
            return value

        self.run(ids, at, layer, look)
        return found[0]

    def weights(self, ids: list[int], layer: int) -> Tensor:
        return self.forward(ids).attentions[layer][0]

    def metric(self, logits: Tensor) -> float:
        return float(logits[ANSWER[0]] - logits[ANSWER[1]])

    def patched(
        self, into: list[int], source: list[int], stage: str, layer: int, place: Any, mix: float = 1
    ) -> float:
        """The metric, the piece mixed ``mix`` to 1 − ``mix`` with the run's own."""
        return self.metric(self.logits(into, source, stage, layer, place, mix))

    def logits(
        self, into: list[int], source: list[int], stage: str, layer: int, place: Any, mix: float = 1
    ) -> Tensor:
        """Those after the last token; ``place`` is a position of a stream, or (head, position or
        all) of a head.
        """
        if stage == "weights":
            return self._weights_patched(into, source, layer, place, mix)
        piece = self.read(source, stage, layer)

        def change(value: Tensor) -> Tensor:
            changed = value.clone()
            if stage in STREAMS:
                changed[0, place] = mix * piece[0, place] + (1 - mix) * value[0, place]
                return changed
            head, t = place
            hs = value.shape[-1] // self.n_head
            here = slice(head * hs, (head + 1) * hs)
            changed[0, t, here] = mix * piece[0, t, here] + (1 - mix) * value[0, t, here]
            return changed

        logits: Tensor = self.run(into, stage, layer, change)
        return logits

    def _weights_patched(
        self, into: list[int], source: list[int], layer: int, place: Any, mix: float
    ) -> Tensor:
        """By what the head then puts out: weights times this run's values."""
        head, t = place
        wanted = self.weights(into, layer)[head].clone()
        wanted[t] = mix * self.weights(source, layer)[head][t] + (1 - mix) * wanted[t]
        values = self.read(into, "v", layer)[0]
        hs = values.shape[-1] // self.n_head
        here = slice(head * hs, (head + 1) * hs)

        def change(merged: Tensor) -> Tensor:
            changed = merged.clone()
            changed[0, :, here] = wanted @ values[:, here]
            return changed

        logits: Tensor = self.run(into, "head_output", layer, change)
        return logits


def places(stage: str, n_head: int, by_position: bool) -> list[Any]:
    T = len(CLEAN)
    if stage in STREAMS:
        return list(range(T))
    positions: list[Any] = list(range(T)) if by_position else [slice(None)]
    return [(head, t) for head in range(n_head) for t in positions]


def test_every_patch_is_as_transformers_makes_it(pair: Any, subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, bool, Any]] = [
        *((stage, False, "denoise") for stage in STREAMS + OF_HEADS),
        ("weights", True, "denoise"),
        ("residual_in", False, "noise"),
        ("head_output", True, "noise"),
    ]
    for stage, by_position, direction in cases:
        with subtests.test(stage=stage, by_position=by_position):
            theirs, ours = pair
            oracle = Oracle(theirs)
            sweep = gpt2viz.patch_sweep(
                ours, CLEAN, CORRUPTED, stage, ANSWER, direction=direction, by_position=by_position
            )
            into, source = (CORRUPTED, CLEAN) if direction == "denoise" else (CLEAN, CORRUPTED)
            expected = [
                [
                    oracle.patched(into, source, stage, layer, place)
                    for place in places(stage, theirs.config.n_head, by_position)
                ]
                for layer in range(3)
            ]
            assert_allclose(sweep.values.reshape(3, -1), expected, rtol=1e-5, atol=1e-5)
            alone = [
                oracle.metric(oracle.run(ids, "q", 0, lambda x: x)) for ids in (CLEAN, CORRUPTED)
            ]
            assert_allclose([sweep.clean, sweep.corrupted], alone, rtol=1e-5, atol=1e-5)
            assert np.ptp(sweep.values) > 0.01


def test_the_estimate_is_the_slope_of_a_patch(pair: Any, subtests: pytest.Subtests) -> None:
    """That of a thousandth of the patch, from both sides, by transformers in double precision."""
    for stage in STREAMS + OF_HEADS:
        with subtests.test(stage=stage):
            theirs, ours = pair
            oracle, step = Oracle(theirs), 1e-3
            by_position = stage == "k"
            found = gpt2viz.patch_estimate(
                ours, CLEAN, CORRUPTED, stage, ANSWER, by_position=by_position
            )
            slopes = [
                [
                    (
                        oracle.patched(CORRUPTED, CLEAN, stage, layer, place, step)
                        - oracle.patched(CORRUPTED, CLEAN, stage, layer, place, -step)
                    )
                    / (2 * step)
                    for place in places(stage, theirs.config.n_head, by_position)
                ]
                for layer in range(3)
            ]
            added = found.values.reshape(3, -1) - found.corrupted
            assert_allclose(added, slopes, rtol=2e-3, atol=2e-5)
            assert found.estimate
            assert np.ptp(added) > 0.01


@pytest.mark.parametrize("into", ["q", "k", "v"])
@pytest.mark.parametrize("direction", ["denoise", "noise"])
def test_a_path_is_as_transformers_makes_it(pair: Any, into: Any, direction: Any) -> None:
    """The receiver reads the stream with the sender's other output in it; all else is held."""
    theirs, ours = pair
    oracle = Oracle(theirs)
    base, other = (CORRUPTED, CLEAN) if direction == "denoise" else (CLEAN, CORRUPTED)
    (first, writer), (second, reader) = (0, 1), (2, 2)
    C = theirs.config.n_embd
    hs = C // theirs.config.n_head
    block, sender = theirs.transformer.h[second], theirs.transformer.h[first]
    rows = slice(writer * hs, (writer + 1) * hs)
    with torch.no_grad():
        outputs = [oracle.read(ids, "head_output", first)[0, :, rows] for ids in (other, base)]
        written = (outputs[0] - outputs[1]) @ sender.attn.c_proj.weight[rows]
        stream = oracle.read(base, "residual_in", second) + written
        start = "qkv".index(into) * C + reader * hs
        new = block.attn.c_attn(block.ln_1(stream))[0, :, start : start + hs]

    def change(value: Tensor) -> Tensor:
        changed = value.clone()
        changed[0, :, reader * hs : (reader + 1) * hs] = new
        return changed

    expected = oracle.metric(oracle.run(base, into, second, change))
    found = gpt2viz.patch_path(
        ours, CLEAN, CORRUPTED, "0.1", (2, 2), into, ANSWER, direction=direction
    )
    assert_allclose(found.value, expected, rtol=1e-5, atol=1e-5)
    untouched = oracle.metric(oracle.run(base, "q", 0, lambda x: x))
    assert abs(expected - untouched) > 1e-4
    span = found.clean - found.corrupted
    assert_allclose(found.restored, (found.value - found.corrupted) / span)


def test_every_sweep_is_as_transformer_lens_makes_it(tmp_path: Path) -> None:
    """Its ``get_act_patch_*`` on a random GPT-2: see ``tests.analysis.peer_patches``."""
    kept = json.loads(Path(peer_patches.__file__).with_suffix(".json").read_text("utf-8"))
    write_checkpoint(tmp_path, **peer_patches.SIZES)
    model = gpt2viz.load_model(tmp_path)
    for stage, by_position in peer_patches.THEIRS:
        sweep = gpt2viz.patch_sweep(
            model,
            peer_patches.CLEAN,
            peer_patches.CORRUPTED,
            stage,
            peer_patches.ANSWER,
            by_position=by_position,
        )
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
    found = {
        metric: gpt2viz.patch_sweep(model, [5, 17], [5, 23], "residual_in", 12, metric=metric)
        for metric in ("logit difference", "probability", "divergence")
    }
    wrong = int(corrupted.argmax())
    assert found["probability"].answer == (12, wrong)
    assert_allclose(found["logit difference"].clean, clean[12] - clean[wrong], rtol=1e-5)
    assert_allclose(found["probability"].clean, p[12], rtol=1e-5)
    assert_allclose(found["probability"].corrupted, q[12], rtol=1e-5)
    assert found["divergence"].clean == pytest.approx(0, abs=1e-9)
    assert_allclose(found["divergence"].corrupted, (p * np.log2(p / q)).sum(), rtol=1e-5)
    assert_allclose(found["divergence"].restored[0], [0, 1], atol=1e-5)


def test_a_sweep_tells_how_far_it_is_and_can_be_ended(model: gpt2viz.Model) -> None:
    told: list[tuple[int, float]] = []

    def progress(so_far: gpt2viz.PatchSweep, share: float) -> None:
        told.append((int(np.isfinite(so_far.values).sum()), share))
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gpt2viz.patch_sweep(model, CLEAN, CORRUPTED, answer=ANSWER, progress=progress)
    assert [n for n, _ in told] == [7, 14]
    assert_allclose([share for _, share in told], [1 / 3, 2 / 3])


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
    for arguments, error, said in cases:
        with subtests.test(arguments=arguments, error=error):
            asked = {"clean": CLEAN, "corrupted": CORRUPTED, "answer": ANSWER} | arguments
            with pytest.raises(error, match=said):
                gpt2viz.patch_sweep(model, **asked)


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
    bundled = gpt2viz.load_model()
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
    told = "When Mary and John went to the store, {} gave a drink to"
    texts = told.format("John"), told.format("Mary")
    encode = small.tokenizer.encode
    answer = [encode(name)[0] for name in (" Mary", " John")]

    def ranked(stage: str) -> list[tuple[int, int]]:
        values = gpt2viz.patch_sweep(small, *texts, stage, answer).values
        return [divmod(int(n), 12) for n in (-values).ravel().argsort()]

    outputs = ranked("head_output")
    assert {(9, 9), (9, 6), (10, 0)} <= set(outputs[:12])
    assert {(10, 7), (11, 10)} <= set(outputs[-6:])
    assert {(7, 3), (7, 9), (8, 6), (8, 10)} <= set(ranked("v")[:12])
    clean, corrupted = (encode(text, end_of_text_first=True) for text in texts)
    path = gpt2viz.patch_path(small, clean, corrupted, "8.6", "9.9", "q", answer)
    assert path.restored == pytest.approx(0.083, abs=0.02)

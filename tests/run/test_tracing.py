"""A trace holds one run, even with other threads running, and leaves no hook behind."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.attribution import difference_from_run, value_weighted
from gpt2viz.model import network as model_source
from gpt2viz.model import tuning
from gpt2viz.pictures.tables import axis_table
from gpt2viz.run.derived import Last
from gpt2viz.run.edits import parse_edits
from gpt2viz.run.stages import STAGE, STAGES, axis_sizes, graph_of
from tests.bundled import bundled_model
from tests.oracles import FAMILIES, write_model


def n_hooks(model: gpt2viz.Model) -> int:
    return sum(len(module._forward_hooks) for module in model.network.modules())


@pytest.mark.parametrize("explicit", [True, False])
def test_arrays_are_read_only_float32_with_the_declared_shape(
    tiny: gpt2viz.Model, explicit: bool
) -> None:
    trace = gpt2viz.trace(tiny, [1, 2, 3, 4, 5], explicit=explicit)
    sizes = axis_sizes(tiny.config, 5)
    for stage in (s for s in STAGES if s.keep):
        array = trace.stage(stage.key, 1 if stage.per_layer else None)
        assert array.dtype == np.float32
        assert array.shape == tuple(sizes[axis] for axis in stage.axes), stage.key
        arrays = [array, *([trace.stage(stage.key, 1, 2)] if stage.of_head else [])]
        for view in arrays:
            with pytest.raises(ValueError, match="read-only"):
                view[...] = 0
    with pytest.raises(ValueError, match="read-only"):
        trace.logits[...] = 0


def test_repr_of_trace_and_model_is_short(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, "A crane", edits=parse_edits("off:1.3"))
    text = "Trace of 2 tokens through tiny (3 layers of 4 heads), causal mask on, edits off:1.3\n"
    assert repr(trace) == f"{text}0:A 1:·crane"
    assert repr(gpt2viz.trace(tiny, [1])).startswith("Trace of 1 token through")
    assert repr(tiny).startswith("Model(name='tiny', config=GPT2Config(vocab_size=420,")
    assert len(repr(tiny)) < 600
    long = gpt2viz.trace(bundled_model(), [7] * 256)
    assert len(repr(long)) < 1000
    assert repr(long).endswith(" … and 196 more")


def test_text_and_its_ids_give_the_same_trace(tiny: gpt2viz.Model) -> None:
    by_text = gpt2viz.trace(tiny, "we're naïve 🦩")
    by_ids = gpt2viz.trace(tiny, by_text.token_ids)
    assert by_ids.text == by_text.text == "we're naïve 🦩"
    assert "".join(gpt2viz.trace(tiny, "A crane ate").tokens) == "A crane ate"
    assert_array_equal(by_ids.logits, by_text.logits)


def test_typed_special_token_is_text_with_a_warning(tiny: gpt2viz.Model) -> None:
    typed, end = "A<|endoftext|>", tiny.tokenizer.end_of_text
    text = r"are read as ordinary text \(<\|endoftext\|>\)\. .*encode\(text, special=True\)"
    with pytest.warns(UserWarning, match=text) as warned:
        plain = gpt2viz.trace(tiny, typed)
    with pytest.warns(UserWarning, match=text) as warned_too:
        next(gpt2viz.generate(tiny, typed, 1))
    assert {warning.filename for warning in (*warned, *warned_too)} == {__file__}
    assert end not in plain.token_ids
    requested = gpt2viz.trace(tiny, tiny.tokenizer.encode(typed, special=True))  # without a warning
    assert requested.token_ids == (*tiny.tokenizer.encode("A"), end)


def test_partial_character_is_shown_as_bytes(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, "\u0416")  # two bytes, a token each
    assert trace.tokens == ("\\xd0", "\\x96")
    assert trace.token_bytes == (b"\xd0", b"\x96")


def test_size_is_computed_while_another_thread_reads_a_stage(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, [5, 300, 17], explicit=False)

    class ReadsAStage(dict[str, Any]):
        def values(self) -> Any:
            trace.stage("scores", 0)
            return super().values()

    trace.derived._last["weights",] = Last((0, None), ReadsAStage())
    assert trace.nbytes == sum(array.nbytes for array in trace.captured.values())


EDITS = ("", "forbid:5:4", "window:2", "off:1.0")


def test_derived_weights_and_outputs_are_computed_in_blocks(
    tiny: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpt2viz.run.derived._BLOCK", 2)
    ids, shares = [5, 300, 17, 9, 9, 30, 2], np.array([0.5, -2, 0, 1, 1, 3, 0])
    for causal, edits, explicit in product((True, False), EDITS, (True, False)):
        trace = gpt2viz.trace(tiny, ids, causal, explicit=explicit, edits=edits)
        whole, before = gpt2viz.trace(tiny, ids, causal, edits=edits), trace.nbytes
        heads = [weights.copy() for weights in trace.weights_of_heads(2)]
        mixed = trace.weighted_head_outputs(1, shares)
        assert trace.nbytes == before  # none of it is cached
        assert_allclose(heads, whole.stage("weights", 2)[0], atol=1e-6)
        outputs = whole.stage("head_output", 1)[0]
        assert_allclose(mixed, np.einsum("t,htd->hd", shares, outputs), atol=5e-6)


def test_long_texts_are_derived_and_short_ones_captured(
    tiny: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gpt2viz.trace(tiny, [1, 2, 3]).explicit
    monkeypatch.setattr("gpt2viz.run.tracer.EXPLICIT_BYTES", 3 * 4 * 3**2 * 4 * 4 - 1)
    derived = gpt2viz.trace(tiny, [1, 2, 3])
    assert not derived.explicit
    assert derived.record("scores", 0) is None
    assert gpt2viz.trace(tiny, [1, 2]).record("scores", 0) is not None


@pytest.mark.parametrize(("edits", "more"), [("", set()), ("off:0.1", {"head_output"})])
def test_long_run_keeps_only_the_sources(tiny: gpt2viz.Model, edits: str, more: set[str]) -> None:
    trace = gpt2viz.trace(tiny, [1, 2, 3], explicit=False, edits=parse_edits(edits))
    keys = {key for key, layer in trace.captured if layer == 1}
    assert keys == {"q", "k", "v", "attention_output", "mlp_output"} | more


@pytest.mark.slow
def test_eight_threads_get_the_same_traces_as_one(tiny: gpt2viz.Model) -> None:
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, 420, rng.integers(2, 20)).tolist() for _ in range(60)]
    serial = [gpt2viz.trace(tiny, ids, causal=n % 2 == 0) for n, ids in enumerate(prompts)]
    with ThreadPoolExecutor(8) as pool:
        runs = range(4 * len(prompts))
        together = list(
            pool.map(
                lambda n: gpt2viz.trace(tiny, prompts[n % 60], causal=n % 2 == 0),
                runs,
            )
        )
    for n in runs:
        expected, result = serial[n % 60], together[n]
        assert result.token_ids == expected.token_ids
        assert len(result.tensors) == len(expected.tensors)
        for key, array in expected.captured.items():
            assert_array_equal(result.captured[key], array)


@pytest.mark.parametrize("edits", ["", "off:0.0,attn:1,window:1"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_no_hook_is_left_after_an_error(
    tiny: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], edits: str
) -> None:
    gpt2viz.trace(tiny, [1, 2], edits=edits)
    assert n_hooks(tiny) == 0

    def fail(_x: torch.Tensor) -> torch.Tensor:
        raise error

    monkeypatch.setattr(tiny.network.h[1].mlp, "forward", fail)
    with pytest.raises(error):
        gpt2viz.trace(tiny, [1, 2], edits=edits)
    assert n_hooks(tiny) == 0
    monkeypatch.undo()
    assert gpt2viz.trace(tiny, [1, 2]).stage("weights", 2).shape == (1, 4, 2, 2)


@pytest.mark.parametrize(("limit", "expected"), [(10**9, 1), (0, 2)])
def test_a_small_run_stays_on_one_thread(
    tiny: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch, limit: int, expected: int
) -> None:
    monkeypatch.setattr(tuning, "_done", tuning.Tuning(True, True))
    monkeypatch.setattr(tuning, "ONE_THREAD", limit)
    seen: list[int] = []
    hook = tiny.network.ln_f.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    torch.set_num_threads(2)
    try:
        gpt2viz.trace(tiny, [1, 2])
        assert torch.get_num_threads() == 2
    finally:
        hook.remove()
        torch.set_num_threads(1)
    assert seen == [expected]


def test_a_trace_keeps_no_model_alive(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, [1, 2])
    assert not any(isinstance(x, torch.nn.Module | gpt2viz.Model) for x in vars(trace).values())


def test_invalid_texts_are_refused(tiny: gpt2viz.Model, subtests: pytest.Subtests) -> None:
    cases: list[tuple[object, type[Exception], str]] = [
        ("", gpt2viz.TextError, "There is no text yet"),
        ([], gpt2viz.TextError, "There is no text yet"),
        ([420], gpt2viz.TextError, "Token id 420 is outside the vocabulary, 0 to 419"),
        ([-1], gpt2viz.TextError, "Token id -1 is outside"),
        ([2**70], gpt2viz.TextError, "Token id 1180591620717411303424 is outside"),
        ([1, 2.5], gpt2viz.TextError, r"Token ids are whole numbers, not \[1, 2.5\]"),
        (b"A crane", gpt2viz.TextError, "A text is a str, not bytes"),
        (["7"], gpt2viz.TextError, r"Token ids are whole numbers, not \['7'\]"),
        ([1] * 25, gpt2viz.ContextError, "has 25 tokens; this model reads at most 24 .* by 1"),
    ]
    for text, error, message in cases:
        with subtests.test(text=text, error=error), pytest.raises(error, match=message):
            gpt2viz.trace(tiny, text)  # type: ignore[arg-type]


def test_missing_stage_is_replaced_by_its_inputs(tiny: gpt2viz.Model) -> None:
    lacking = {STAGE[key].path(0) for key in ("position_embedding", "scores", "scaled_scores")}
    graph = graph_of(dict(tiny.network.named_modules()).keys() - lacking)
    assert [s.key for s in STAGES if s.path(0) not in lacking] == list(graph)
    reads = [graph[key].reads for key in ("embedding", "masked_scores")]
    assert reads == [("token_embedding",), ("q", "k")]


@pytest.mark.parametrize("family", FAMILIES)
def test_shape_table_matches_the_run(tmp_path: Path, family: str) -> None:
    model = gpt2viz.load_model(write_model(tmp_path, family))
    trace = gpt2viz.trace(model, [1, 2, 3, 4, 5])
    sizes = axis_sizes(model.config, 5)
    for record in trace.tensors:
        assert record.shape == tuple(sizes[axis] for axis in record.axes), record.name
        assert record.nbytes == 4 * np.prod(record.shape)
        assert record.dtype == "float32"
    total = sum(weight.numel() for weight in model.network.parameters())
    assert sum(record.n_parameters for record in trace.tensors) == total
    used = {axis for record in trace.tensors for axis in record.axes}
    assert {axis for axis, _ in axis_table(trace)} == used - {"1"}
    order = [record.key for record in trace.tensors if record.layer == 1]
    assert [key for key in order if key in gpt2viz.HEAD_STAGES] == list(gpt2viz.HEAD_STAGES)


def test_shared_memory_is_counted_once(tiny: gpt2viz.Model, subtests: pytest.Subtests) -> None:
    """Counted independently: all outputs are kept, so no address is used twice."""
    for explicit, n_tokens in product((True, False), (1, 5, 24)):
        with subtests.test(explicit=explicit, n_tokens=n_tokens):
            held: dict[str, torch.Tensor] = {}
            hooks = [
                module.register_forward_hook(
                    lambda *made, name=name, held=held: held.update({name: made[2]})
                )
                for name, module in tiny.network.named_modules()
            ]
            trace = gpt2viz.trace(tiny, range(n_tokens), explicit=explicit)
            for hook in hooks:
                hook.remove()
            memory = {
                held[r.name].untyped_storage().data_ptr(): held[r.name].untyped_storage().nbytes()
                for r in trace.tensors
            }
            assert sum(r.nbytes for r in trace.tensors if not r.shared) == sum(memory.values())
            assert len(memory) == sum(not r.shared for r in trace.tensors)
            names = {r.key for r in trace.tensors if r.shared}
            assert names == {"q", "k", "v", "attention_output", "mlp_output"}


def test_edited_output_shares_no_memory(tiny: gpt2viz.Model) -> None:
    run = gpt2viz.trace(tiny, [1, 2, 3], edits=parse_edits("attn:1,mlp:2"))
    for (key, edited), layer in product((("attention_output", 1), ("mlp_output", 2)), range(3)):
        record = run.record(key, layer)
        assert record is not None
        assert record.shared == (layer != edited)


def test_every_module_that_runs_is_declared(tiny: gpt2viz.Model) -> None:
    ran: set[str] = set()
    hooks = [
        module.register_forward_hook(lambda *_, name=name: ran.add(name))
        for name, module in tiny.network.named_modules()
    ]
    trace = gpt2viz.trace(tiny, [1, 2])
    for hook in hooks:
        hook.remove()
    declared = {record.name for record in trace.tensors}
    passing_through = {"", *(f"h.{n}{part}" for n in range(3) for part in PASS_THROUGH)}
    assert ran - declared == passing_through


# The model, a layer and the attention return their last part's tensor, and dropout in eval mode its
# input: none of them makes a tensor.
PASS_THROUGH = ("", ".attn.attend", ".attn.attend.dropout", ".attn.resid_dropout", ".mlp.dropout")


def test_code_is_the_line_that_made_the_tensor(tiny: gpt2viz.Model) -> None:
    lines = Path(model_source.__file__).read_text(encoding="utf-8").splitlines()
    trace = gpt2viz.trace(tiny, [1, 2])
    for record in trace.tensors:
        assert lines[record.line - 1].split("#")[0].strip() == record.code
        called = record.name.split(".")[-1].replace("ln_f", "final_norm")  # by every family's name
        assert f"self.{called}(" in record.code, record


def test_shape_comments_in_the_model_match_the_run(tiny: gpt2viz.Model) -> None:
    lines = Path(model_source.__file__).read_text(encoding="utf-8").splitlines()
    commented = 0
    for record in gpt2viz.trace(tiny, [1, 2]).tensors:
        comment = re.search(r"# \(([\w, ]+)\)", lines[record.line - 1])
        if comment is None or record.key == "last_logits":  # its line makes all positions too
            continue
        commented += 1
        assert tuple(comment[1].split(", ")) == record.axes, record
    assert commented > 50


@pytest.mark.parametrize(("key", "head"), [("v", 1.0), ("q", -1), ("q", 4), ("residual_mid", 0)])
def test_invalid_heads_are_refused(tiny: gpt2viz.Model, key: Any, head: Any) -> None:
    for explicit in (True, False):
        with pytest.raises(IndexError, match=f"no head {head}: (this model has|.* has none)"):
            gpt2viz.trace(tiny, [1, 2], explicit=explicit).stage(key, 1, head)


def test_analyses_run_no_hooked_module(tiny: gpt2viz.Model) -> None:
    """Otherwise it would write into another thread's trace without an error."""
    trace = gpt2viz.trace(tiny, [5, 6, 7], explicit=False)
    called: list[str] = []
    handles = [
        module.register_forward_hook(lambda *_, name=name: called.append(name))
        for name, module in tiny.network.named_modules()
    ]
    try:
        gpt2viz.logit_lens(tiny, trace)
        gpt2viz.contributions(tiny, trace, token=11)
        gpt2viz.surprise(trace)
        value_weighted(tiny, trace, 1)
        difference_from_run(tiny, trace, 1)
        trace.stage("weights", 1)
        assert trace.logits.size
    finally:
        for handle in handles:
            handle.remove()
    assert not called

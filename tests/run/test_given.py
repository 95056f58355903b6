"""The arguments of the library's calls: texts where the command line takes texts, and a sentence of
our own for what they can't do anything with.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.attribution import rollout, value_weighted
from gpt2viz.analysis.generation import draw
from gpt2viz.run.edits import Edit, parse_edits, read_edits
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import reference, softmax

IDS = [5, 300, 17, 9]
#: The library without types, for calls that mypy would refuse.
g: Any = gpt2viz


def test_edits_are_given_as_text_or_objects(tiny: gpt2viz.Model) -> None:
    edits = parse_edits("off:1.1,window:2")
    off, window = edits
    given: Any
    for given in ("off:1.1,window:2", edits, list(edits), ["off:1.1", window], iter(edits)):
        assert read_edits(given) == edits
    assert read_edits(off) == read_edits("off:1.1") == (off,)
    assert read_edits("") == read_edits(()) == ()
    expected = gpt2viz.trace(tiny, IDS, edits=[off]).logits
    for given in ("off:1.1", off):
        assert_array_equal(gpt2viz.trace(tiny, IDS, edits=given).logits, expected)
        (batched,) = gpt2viz.trace_many(tiny, [IDS], edits=given)
        assert_array_equal(batched.logits, expected)
    pair: Any = (tiny, IDS, [5, 300, 17, 8])
    calls: list[Callable[[Any], Any]] = [
        lambda e: g.patch_sweep(*pair, "q", [1, 2], edits=e).values,
        lambda e: g.patch_estimate(*pair, "q", [1, 2], edits=e).values,
        lambda e: g.patch_path(*pair, "0.1", "2.0", "k", [1, 2], edits=e).value,
        lambda e: g.patch_paths(*pair, "2.0", [1, 2], edits=e).values,
    ]
    for call in calls:
        for given in ("off:1.1", off):
            assert_array_equal(call(given), call([off]))
    for wrong in (3, [3], None, {"off": 1}, "of:1.1"):
        with pytest.raises(gpt2viz.EditError):
            gpt2viz.trace(tiny, IDS, edits=wrong)  # type: ignore[arg-type]


def test_tokens_are_given_by_id_or_text(tiny: gpt2viz.Model) -> None:
    first, second = " t", "he"
    ids: list[int] = [n for text in (first, second) for n in tiny.tokenizer.encode(text)]
    assert len(ids) == 2
    run, pair = gpt2viz.trace(tiny, IDS), (tiny, IDS, [5, 300, 17, 8])
    calls: list[Callable[[Any, Any], Any]] = [
        lambda a, b: gpt2viz.contributions(tiny, run, a, b).heads,
        lambda a, b: gpt2viz.logit_lens(tiny, run, [0, 3], [a, b]).rank,
        lambda a, b: g.patch_sweep(*pair, "q", (a, b)).values,
        lambda a, b: g.patch_estimate(*pair, "q", [a, b]).values,
        lambda a, b: g.patch_path(*pair, "0.1", "2.0", "k", (a, b)).value,
        lambda a, b: g.patch_paths(*pair, "2.0", (a, b)).values,
        lambda a, b: g.fewest_heads(*pair, (a, b)).faithfulness,
        lambda a, b: g.head_circuit(tiny, 1, 1).writes(a).most,
        lambda a, b: g.head_circuit(tiny, 1, 1).top_keys(b).least,
        lambda a, b: g.virtual_head(tiny, (0, 1), (1, 1)).writes(b).most,
    ]
    for call in calls:
        assert_array_equal(call(first, second), call(*ids))
    for answer in (first, ids[0], np.int64(ids[0]), [first]):
        assert g.patch_sweep(*pair, answer=answer).answer[0] == ids[0]


def test_next_tokens_have_their_texts(tiny: gpt2viz.Model, tiny_folder: Path) -> None:
    run = gpt2viz.trace(tiny, IDS)
    expected = reference(tiny_folder, IDS, True)
    for position in (-1, 1):
        shares = softmax(expected["logits"][position])
        result = run.next_tokens(5, position)
        assert [t.id for t in result] == np.argsort(-shares, kind="stable")[:5].tolist()
        assert_allclose([t.probability for t in result], np.sort(shares)[:-6:-1], rtol=1e-4)
        for text, n, _ in result:
            assert text == tiny.tokenizer.token_bytes(n).decode(errors="backslashreplace")
    assert len(run.next_tokens()) == 10
    assert len(run.next_tokens(10**6)) == tiny.config.vocab_size
    for choice in gpt2viz.generate(tiny, IDS, 3):
        assert choice.text == tiny.tokenizer.token_bytes(choice.token).decode(
            errors="backslashreplace"
        )


def test_all_layers_stacks_the_stage_of_each_layer(tiny: gpt2viz.Model) -> None:
    for explicit in (True, False):
        run = gpt2viz.trace(tiny, IDS, explicit=explicit)
        for key in gpt2viz.HEAD_STAGES:
            for head in (None, 2):
                whole = run.all_layers(key, head)
                assert not whole.flags.writeable
                assert_array_equal(whole, [run.stage(key, n, head) for n in range(3)])
    assert run.all_layers("residual_out").shape == (3, 1, 4, 24)


#: A part of the message, and the call that raises it.
Calls = list[tuple[str, Callable[[], object]]]


def assert_refused(calls: Calls) -> None:
    """Each call raises one of the package's errors, with a message of one line."""
    for message, call in calls:
        with pytest.raises(gpt2viz.GPT2VizError) as raised:
            pytest.fail(f"{message}: {call()!r}")
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)


def test_errors_of_runs_are_gpt2viz_errors(tiny: gpt2viz.Model) -> None:
    run, logits = g.trace(tiny, IDS), np.zeros(5)
    decode: Any = tiny.tokenizer.decode
    calls: Calls = [
        ("The model comes first", lambda: g.trace("A", tiny)),
        ("The model comes first", lambda: next(g.generate("A", tiny, 1))),
        ("in a list: trace_many", lambda: g.trace_many(tiny, "A")),
        ("Token ids are whole numbers, not 5", lambda: g.trace(tiny, 5)),
        ("decode takes a list of token ids, such as [5]", lambda: decode(5)),
        ("decode takes a list of token ids", lambda: decode("fish")),
        ("causal is True, with the mask, or False, not 'B'", lambda: g.trace(tiny, "A", "B")),
        ("causal is True", lambda: g.trace_many(tiny, ["A"], np.False_)),
        ("no stage 'wieghts' in a trace", lambda: run.stage("wieghts", 0)),
        ("no stage 'ln_1' in a trace", lambda: run.stage("ln_1", 0)),
        ("no stage 'wieghts' in a trace", lambda: run.table(1, 1, "wieghts")),
        ("no stage 'wieghts' in a trace", lambda: run.heads(1, "wieghts")),
        ("needs a layer", lambda: run.stage("weights")),
        ("belongs to no layer", lambda: run.stage("embedding", 0)),
        ("no layer 3", lambda: run.stage("weights", 3)),
        ("no layer -1", lambda: run.stage("weights", -1)),
        ("no layer 1.0", lambda: run.stage("weights", 1.0)),
        ("no 'blocks.-1.attn.hook_q'", lambda: run.stage("blocks.-1.attn.hook_q")),
        ("names: hook_embed hook_pos_embed blocks.N.hook", lambda: run.stage("hook_x")),
        ("no layer 3", lambda: run.stage("blocks.3.hook_resid_pre")),
        ("no layer -1", lambda: run.hidden_pairs(-1)),
        ("no token 1.0", lambda: run.logits_at(1.0)),
        ("no token 4", lambda: run.logits_at(4)),
        ("no token -5", lambda: run.next_tokens(3, -5)),
        ("no token ' t'", lambda: g.explain_row(tiny, run, 1, 1, " t")),
        ("k must be 1 or more", lambda: run.next_tokens(0)),
        ("temperature must be 0", lambda: g.sampling_distribution(logits, temperature=np.nan)),
        ("temperature must be 0", lambda: g.sampling_distribution(logits, temperature=-0.1)),
        ("Give one position's logits twice", lambda: g.divergence(run.logits, run.logits)),
        ("top_k must be 1 or more", lambda: g.sampling_distribution(logits, top_k=0)),
        ("top_p must be above 0", lambda: g.sampling_distribution(logits, top_p=0.0)),
        ("top_p must be above 0", lambda: list(g.generate(tiny, IDS, 0, top_p=1.01))),
        ("seed must be 0 or more", lambda: list(g.generate(tiny, IDS, 0, seed=-1))),
        ("seed must be 0 or more", lambda: draw(run, seed=-1)),
        ("A trace is needed, not str", lambda: g.trace(tiny, IDS, reuse="A")),
        ("a run or gpt2viz.mean", lambda: g.trace(tiny, IDS, edits="mean:1.1", reference=3)),
        ("names its layer already", lambda: run.stage("blocks.0.hook_resid_mid", 0)),
        ("given by its name or folder, not NoneType", lambda: g.load_model(None)),
        ("no such folder, and so no checkpoints", lambda: g.load_steps("/nowhere/mine")),
        ("There is no edit", lambda: g.trace(tiny, IDS, edits=Edit("of", 1, 1))),
    ]
    assert_refused(calls)
    assert isinstance(gpt2viz.StageError("x"), KeyError)
    assert isinstance(gpt2viz.PlaceError("x"), IndexError)
    assert str(gpt2viz.StageError("a sentence")) == "a sentence"


def test_errors_of_analyses_are_gpt2viz_errors(tiny: gpt2viz.Model, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "other", seed=3)
    run, far = g.trace(tiny, IDS), g.trace(gpt2viz.load_model(tmp_path / "other"), IDS)
    pair = (tiny, IDS, [5, 300, 17, 8])
    calls: Calls = [
        ("A model is needed, not str", lambda: g.patch_sweep("A", "B", "C")),
        ("The model that made the trace", lambda: g.contributions("A", run, 3)),
        ("made by other, not by tiny", lambda: g.contributions(tiny, far, 3)),
        ("made by other, not by", lambda: g.trace(tiny, IDS, edits="mean:1.1", reference=far)),
        ("isn't a single token;", lambda: g.contributions(tiny, run, " fish corn")),
        ("outside 0 to 419", lambda: g.contributions(tiny, run, 420)),
        ("its id or its text", lambda: g.contributions(tiny, run, 1.5)),
        ("no token 7", lambda: g.contributions(tiny, run, 1, position=7)),
        ("outside 0 to 419", lambda: g.head_circuit(tiny, 1, 1).writes(420)),
        ("outside 0 to 419", lambda: g.head_circuit(tiny, 1, 1).top_keys(-1)),
        ("no layer 3", lambda: value_weighted(tiny, run, 3)),
        ("no layer 3", lambda: rollout(run, 3)),
        ("no layer 1.0: this model has layers 0 to 2", lambda: g.head_circuit(tiny, 1.0, 1)),
        ("need as many answers", lambda: g.logit_lens(tiny, run, [0], [1, 2])),
        ("to patch; there are", lambda: g.patch_estimate(*pair, "wieghts")),
        ("A trace is needed, not str", lambda: g.contributions(tiny, "A", 3)),
        ("A trace is needed, not str", lambda: g.logit_lens(tiny, "A")),
        ("A trace is needed, not str", lambda: g.explain_row(tiny, "A", 1, 1, 2)),
        ("A trace is needed, not str", lambda: g.surprise("A")),
        ("A trace is needed, not str", lambda: g.heads.head_scores("A")),
        ("a run or gpt2viz.mean_reference", lambda: g.fewest_heads(*pair, reference="A")),
        ("in a list: mean_reference", lambda: g.mean_reference(tiny, "A")),
        ("no token 9: this text has tokens 0 to 3", lambda: g.logit_lens(tiny, run, [9])),
        ("in ascending order from 0", lambda: g.group_words(run.stage("weights", 0), [0, 9])),
        ("in ascending order from 0", lambda: g.group_words(run.stage("weights", 0), [1])),
    ]
    assert_refused(calls)


def test_stage_names_are_typed(tiny: gpt2viz.Model) -> None:
    """``make lint`` refuses a comment here that hides no error."""
    run = gpt2viz.trace(tiny, IDS)
    assert set(get_args(gpt2viz.StageName)) == set(gpt2viz.STAGE)
    assert get_args(gpt2viz.HeadStageName) == gpt2viz.HEAD_STAGES
    with pytest.raises(gpt2viz.StageError):
        run.stage("wieghts", 1)  # type: ignore[call-overload]
    with pytest.raises(gpt2viz.StageError):
        run.all_layers("wieghts")  # type: ignore[arg-type]
    with pytest.raises(gpt2viz.AttentionError):
        gpt2viz.show(run, stage="wieghts")  # type: ignore[arg-type]


def test_dir_lists_the_public_names() -> None:
    shown = dir(gpt2viz)
    assert set(shown) == {*gpt2viz.__all__, "__version__", "export", "heads", "offline"}
    for name in shown:
        assert getattr(gpt2viz, name) is not None

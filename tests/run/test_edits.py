"""Edits are read, written, refused with a reason, and leave nothing behind in the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.run.edit_kinds import OURS
from gpt2viz.run.edits import Edit, check, describe, edit_mask, parse_edits, remap_edits
from gpt2viz.run.interventions import changes
from gpt2viz.run.tracer import reference_ids, reference_run
from tests.analysis.test_edited_runs import CASES, CLOSE, IDS, oracle_of_edits
from tests.numpy_gpt2 import PER_LAYER
from tests.oracles import FAMILIES, write_model
from tests.run.test_tracing import n_hooks

_number, _size = st.integers(0, 999), st.integers(1, 999)
_edits = st.one_of(
    st.builds(Edit, st.sampled_from(["off", "mean"]), layer=_number, head=_number),
    st.builds(Edit, st.just("scale"), layer=_number, head=_number, factor=st.floats(-100, 100)),
    st.builds(Edit, st.sampled_from(["attn", "mlp"]), layer=_number),
    st.builds(Edit, st.just("forbid"), query=_number, key=_number),
    st.builds(Edit, st.just("window"), width=_size, first=st.none() | _size),
    st.just(Edit("nofirst")),
)


@given(st.lists(_edits, max_size=5))
def test_short_form_reads_back_as_the_same_edits(edits: list[Edit]) -> None:
    assert parse_edits(",".join(map(str, edits))) == tuple(edits)


@pytest.mark.parametrize("explicit", [True, False], ids=["captured", "derived"])
def test_every_kind_equals_numpy(
    tiny_folder: Path, tiny: gpt2viz.Model, explicit: bool, subtests: pytest.Subtests
) -> None:
    """``test_patches`` has patches, and ``test_edited_runs`` the analyses of edited runs."""
    kinds = {edit.kind for text in CASES for edit in parse_edits(text)}
    assert kinds | {"patch"} == set(OURS)
    plain, edited = gpt2viz.trace(tiny, IDS), oracle_of_edits(tiny_folder, tiny)
    for text in filter(None, CASES):
        with subtests.test(text=text):
            expected = edited(text, True).run(IDS)
            run = gpt2viz.trace(tiny, IDS, explicit=explicit, edits=text)
            for key in PER_LAYER:
                assert_allclose(run.all_layers(key)[:, 0], expected[key], **CLOSE, err_msg=key)
            assert_allclose(run.logits[0], expected["logits"], **CLOSE)
            probabilities = expected["next_token_probabilities"]
            assert_allclose(run.next_token_probabilities[0], probabilities, **CLOSE)
            assert np.abs(run.logits - plain.logits).max() > 0.01  # the edit has an effect
            assert run.edits == parse_edits(text)
            assert n_hooks(tiny) == 0
    assert_array_equal(gpt2viz.trace(tiny, IDS).logits, plain.logits)


def test_white_space_in_short_forms_is_ignored() -> None:
    assert parse_edits("") == parse_edits("  ") == ()
    assert parse_edits(" off:0.1 , nofirst") == (Edit("off", layer=0, head=1), Edit("nofirst"))


def test_unreadable_short_forms_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("off", "'off' isn't an edit. Write off:1.3, mean:1.3"),
        ("off:1", "'off:1' isn't an edit"),
        ("off:-1.0", "isn't an edit"),
        ("off:1.3,", "'' isn't an edit"),
        ("scale:1.3:nan", "isn't an edit"),
        ("scale:1.3:e", "isn't an edit"),
        ("scale:1.3:1e9", "scale: the factor must be from -100 to 100"),
        ("window:0", "window: width can't be 0"),
        ("window:2:0", "window: first can't be 0"),
        ("window:2:1:1", "isn't an edit"),
        ("attn:9999999999999", "isn't an edit"),
        ("nofirst:1", "isn't an edit"),
        ("<script>", "isn't an edit"),
        ("off:¹.²", "isn't an edit"),
    ]
    for text, message in cases:
        with (
            subtests.test(text=text, message=message),
            pytest.raises(gpt2viz.EditError, match=message),
        ):
            parse_edits(text)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "prune"}, "There is no edit 'prune'"),
        ({"kind": "off", "layer": 1}, "off needs a head"),
        ({"kind": "attn", "layer": 1, "head": 2}, "attn has no head"),
        ({"kind": "off", "layer": -1, "head": 0}, "layer can't be -1"),
        ({"kind": "off", "layer": 1, "head": np.int64(-1)}, "off: head can't be -1"),
        ({"kind": "off", "layer": 1.0, "head": 0}, "off: layer must be a whole number, not 1.0"),
        ({"kind": "scale", "layer": 0, "head": 0, "factor": float("nan")}, "the factor must be"),
        ({"kind": "scale", "layer": 0, "head": 0, "factor": "2"}, "the factor must be"),
    ],
)
def test_invalid_fields_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(gpt2viz.EditError, match=message):
        Edit(**fields)  # type: ignore[arg-type]


def test_edit_mask_hides_the_right_pairs() -> None:
    assert edit_mask(parse_edits("off:0.0,attn:1"), 4) is None
    hidden = edit_mask(parse_edits("nofirst,forbid:2:1"), 4)
    assert_array_equal(hidden, [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]])
    hidden = edit_mask(parse_edits("window:2"), 4)
    assert_array_equal(hidden, [[0, 0, 1, 1], [0, 0, 0, 1], [1, 0, 0, 0], [1, 1, 0, 0]])
    hidden = edit_mask(parse_edits("window:1:2"), 4)
    assert_array_equal(hidden, [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0]])


def test_edits_move_with_their_tokens() -> None:
    edits = parse_edits("off:1.3,forbid:3:0,forbid:3:1,window:2")
    later = parse_edits("off:1.3,forbid:4:1,forbid:4:2,window:2")
    assert remap_edits(edits, lambda n: n + 1) == later
    assert remap_edits(later, lambda n: n - 1) == edits
    assert remap_edits(edits, lambda n: n - 1 if n else None) == parse_edits(
        "off:1.3,forbid:2:0,window:2"
    )


def test_edits_that_do_not_fit_are_refused(tiny: gpt2viz.Model, subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("off:3.0", "off:3.0 names layer 3, but this model has layers 0 to 2"),
        ("mean:0.4", "mean:0.4 names head 4, but each layer of this model has heads 0 to 3"),
        ("forbid:5:0", "forbid:5:0 names query 5, but this text has tokens 0 to 4"),
        ("forbid:0:5", "forbid:0:5 names key 5"),
        ("forbid:0:0", "Query 0 would see no key at all"),
        ("window:1,forbid:3:3", "Query 3 would see no key at all"),
    ]
    for text, message in cases:
        with subtests.test(text=text, message=message):
            with pytest.raises(gpt2viz.EditError, match=message):
                gpt2viz.trace(tiny, [1, 2, 3, 4, 5], edits=parse_edits(text))
            assert n_hooks(tiny) == 0


def test_without_the_causal_mask_a_query_may_be_hidden_from_itself(tiny: gpt2viz.Model) -> None:
    check(parse_edits("forbid:0:0"), tiny.config, 5, causal=False, explicit=True)
    trace = gpt2viz.trace(tiny, [1, 2, 3], causal=False, edits=parse_edits("forbid:0:0"))
    assert trace.stage("weights", 0)[0, :, 0, 0].max() == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_each_query_keeps_a_key_in_every_layers_window(family: str, tmp_path: Path) -> None:
    model = gpt2viz.load_model(write_model(tmp_path, family))
    least = min(model.config.window(n) or 11 for n in range(model.config.n_layer))
    edits = [Edit("forbid", query=10, key=key) for key in range(11 - least, 11)]
    with pytest.raises(gpt2viz.EditError, match="Query 10 would see no key at all"):
        gpt2viz.trace(model, range(12), edits=edits)
    weights = gpt2viz.trace(model, range(12), edits=edits[1:]).stage("weights", 2)
    assert_allclose(weights[0, :, 10].sum(axis=-1), 1, atol=1e-6)


def test_one_token_fits_every_mask_edit(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, [7], edits=parse_edits("window:1,nofirst"))
    assert_array_equal(trace.logits, gpt2viz.trace(tiny, [7]).logits)


def test_head_that_is_off_outputs_0_even_for_nan(tiny: gpt2viz.Model) -> None:
    heads = torch.tensor([float("inf"), float("nan"), -1.0, 3.0]).reshape(1, 2, 1, 2)
    ((_, change),) = changes(parse_edits("off:0.0"), tiny, None)
    assert_array_equal(change(heads).flatten(), [0, 0, -1, 3])


def test_reference_run_can_be_reused(tiny: gpt2viz.Model) -> None:
    edits = parse_edits("mean:1.1")
    run = reference_run(tiny)
    assert run.token_ids == reference_ids(tiny)
    assert len(run.token_ids) == tiny.config.n_positions  # the text is longer than tiny reads
    by_default = gpt2viz.trace(tiny, [1, 2, 3], edits=edits)
    assert_array_equal(
        gpt2viz.trace(tiny, [1, 2, 3], edits=edits, reference=run).logits, by_default.logits
    )
    other = gpt2viz.trace(tiny, [9, 9, 9])
    changed = gpt2viz.trace(tiny, [1, 2, 3], edits=edits, reference=other)
    mean = other.stage("head_output", 1)[0, 1].mean(axis=0)
    assert_array_equal(changed.stage("head_output", 1)[0, 1, 2], mean)


def test_every_kind_is_declared_completely() -> None:
    """Its examples are read back, it changes something, and its texts are unique."""
    for name, kind in OURS.items():
        for text in kind.examples:
            assert [(str(edit), edit.kind) for edit in parse_edits(text)] == [(text, name)]
        assert (kind.hides is None) == (kind.change is not None)
    for words in ("title", "meaning"):
        assert len({getattr(kind, words) for kind in OURS.values()} - {""}) == len(OURS)


def test_descriptions_of_edits() -> None:
    edits = parse_edits("off:1.3,scale:1.3:-2,forbid:1:0,window:1,window:1:1,window:3,window:3:2")
    assert [describe(edit, ["A", "crane"]) for edit in edits] == [
        "Layer 1 head 3 is off: its output is 0",
        "Layer 1 head 3: its output × −2.0",
        "Query 1 (crane) may not see key 0 (A)",
        "Each query sees only itself",
        "Each query sees only itself and the first key",
        "Each query sees only keys fewer than 3 tokens away, itself included",
        "Each query sees only keys fewer than 3 tokens away, itself included, and the first 2 keys",
    ]

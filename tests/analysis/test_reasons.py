"""Reasons in words: the shares compared with loops, and the rules with hand-built models."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gpt2viz
from gpt2viz.analysis.cell import HeadCell
from gpt2viz.analysis.explanation import Part, explain_row
from gpt2viz.analysis.reasons import RULES, Reason, reason, strongest_path
from gpt2viz.analysis.scores import head_scores
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from gpt2viz.run.edits import parse_edits
from tests.analysis.copying_model import copying_model
from tests.analysis.test_explanation import parts_of, read_by
from tests.bundled import CATS, N_HEAD, N_LAYER, back, bundled_model, copier, itself, rests
from tests.oracles import FAMILIES, Oracle, oracle, write_model

IDS = [5, 300, 17, 17, 219, 88, 400]


@pytest.fixture(scope="module")
def cat(model: gpt2viz.Model) -> gpt2viz.Trace:
    return gpt2viz.trace(model, CATS)


def reason_for(
    model: gpt2viz.Model, trace: gpt2viz.Trace, layer: int, head: int, query: int, key: int
) -> Reason:
    return reason(explain_row(model, trace, layer, head, query), key)


def rule_name(case: Reason) -> str:
    return "" if case.rule is None else case.rule[0].name


def test_shares_are_of_all_pairs_with_the_same_sign(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, IDS)
    signs = set()
    for key in range(6):
        case = reason_for(tiny, trace, 2, 1, 5, key)
        row = case.row
        tables = [row.table(other) for other in range(6)]
        apart = tables[key] - sum(tables) / 6
        above = float(apart.sum()) > 0
        signs.add(above)
        same = [x for x in apart.ravel().tolist() if (x > 0) == above]
        best = sorted(same, key=abs, reverse=True)[:3]
        assert case.above == above
        assert [pair.value for pair in case.pairs] == pytest.approx(best)
        assert [pair.share for pair in case.pairs] == pytest.approx([x / sum(same) for x in best])
        assert case.raised + case.lowered == pytest.approx(apart.sum())
        for pair in case.pairs:
            i, j = row.names.index(pair.query_part), row.names.index(pair.key_part)
            assert apart[i, j] == pytest.approx(pair.value)
            less = row.scores - [table[i, j] for table in tables]
            weights = np.exp(less / row.divisor)
            assert pair.ablated_weight == pytest.approx(weights[key] / weights.sum())
        assert case.weight == pytest.approx(trace.stage("weights", 2, 1)[5, key], rel=1e-4)
    assert signs == {True, False}


def test_part_of_a_head_names_the_token_it_read(tiny: gpt2viz.Model) -> None:
    for edits, silent in (("", ()), ("mean:0.1,mean:1.2", ("0.1", "1.2")), ("attn:0", ("0.",))):
        trace = gpt2viz.trace(tiny, IDS, causal=False, edits=parse_edits(edits))
        result = dict.fromkeys([True, False], 0)
        for query, key in np.ndindex(7, 7):
            case = reason_for(tiny, trace, 2, 1, query, key)
            for pair in case.pairs:
                for part, read, at in (
                    (pair.query_part, pair.query_read, query),
                    (pair.key_part, pair.key_read, key),
                ):
                    name = part.removeprefix("head ")
                    if part == name or name.startswith(silent or "none"):
                        assert read is None
                        result[False] += part != name
                        continue
                    assert read is not None
                    row = trace.stage("weights", *map(int, name.split(".")))[at]
                    assert read.token == row.argmax()
                    assert read.weight == row.max()
                    result[True] += 1
        assert result[True]
        assert bool(result[False]) == ("mean" in edits)  # one that is off adds nothing at all


def shares_by_hand(of: Oracle, trace: gpt2viz.Trace, at: HeadCell) -> dict[tuple[str, str], float]:
    """Every part's share of a cell, by its side and name, in loops over all pairs of parts."""
    layer, head, query, key = at
    parts = parts_of(of, trace, layer)
    stream = np.sum(list(parts.values()), axis=0)
    every = [*parts.items(), ("constant", None)]
    q, k = ({name: read_by(of, layer, head, into, x, stream) for name, x in every} for into in "qk")
    seen = np.flatnonzero(trace.stage("weights", layer, head)[query])
    adds = {
        (a, b): q[a][query] @ k[b][key] - np.mean([q[a][query] @ k[b][s] for s in seen])
        for a in q
        for b in k
    }
    sign = 1 if sum(adds.values()) > 0 else -1
    whole = sum(max(sign * x, 0) for x in adds.values())
    return {
        (side, name): sum(max(sign * x, 0) for pair, x in adds.items() if pair[n] == name) / whole
        for side, n in (("key", 1), ("query", 0))
        for name in q
    }


def path_by_hand(
    of: Oracle, trace: gpt2viz.Trace, cell: HeadCell
) -> list[tuple[HeadCell, str, str, float]]:
    """(cell, side, part, share) of each step of the path."""
    layer, head, query, key = cell
    if np.count_nonzero(trace.stage("weights", layer, head)[query]) == 1:
        return []
    shares = shares_by_hand(of, trace, cell)
    (side, name), share = max(shares.items(), key=lambda item: item[1])
    results = [(cell, side, name, share)]
    if not name.startswith("head "):
        return results
    n, h = map(int, name.removeprefix("head ").split("."))
    at = query if side == "query" else key
    looked = int(trace.stage("weights", n, h)[at].argmax())
    return [*results, *path_by_hand(of, trace, HeadCell(n, h, at, looked))]


@pytest.mark.parametrize("family", FAMILIES)
def test_strongest_path_equals_loops_over_all_parts(tmp_path: Path, family: str) -> None:
    model = gpt2viz.load_model(write_model(tmp_path, family))
    lengths, of = set(), oracle(tmp_path)
    for edits, query, key in (
        ("", 6, 2),
        ("", 5, 5),
        ("", 3, 0),
        ("mlp:0,mlp:1", 4, 1),
        ("", 0, 0),
    ):
        trace = gpt2viz.trace(model, IDS, edits=parse_edits(edits))
        key = max(key, query - (model.config.window(2) or 7) + 1)
        for head in range(4):
            cell = HeadCell(2, head, query, key)
            result = strongest_path(model, trace, cell)
            expected = path_by_hand(of, trace, cell)
            assert [(hop.cell, *hop.by[:2]) for hop in result] == [hop[:3] for hop in expected]
            shares = [hop[3] for hop in expected]
            assert [hop.by.share for hop in result] == pytest.approx(shares, rel=1e-4)
            lengths.add(len(result))
    assert lengths >= {0, 1, 3 if family == "gpt2" else 2}


def test_hand_built_induction() -> None:
    model = copying_model()
    trace = gpt2viz.trace(model, [3, 7, 1, 9, 5, 7])
    case = reason_for(model, trace, 1, 0, 5, 2)
    first = case.pairs[0]
    assert (first.query_part, first.key_part) == ("token", "head 0.0")
    assert first.key_read is not None
    assert first.key_read.token == 1
    assert case.rule is not None
    assert (case.rule[0].name, case.rule[1] > 0.99) == ("induction", True)
    text = case.words(tuple("abcdef"))
    assert text[0].endswith(") because “c” came after “f” before: head 0.0 had copied “f” there.")
    assert "Without the strongest pair, the query's token × head 0.0 at the key," in text[4]
    assert text[-1].startswith("100 % of what raises the score pairs the query's own token with")
    assert {rule_name(reason_for(model, trace, 1, 0, 5, key)) for key in (0, 1, 3, 4, 5)} == {""}


def test_copying_after_another_token_is_not_induction() -> None:
    """Each token attends to what followed the vocabulary's next token."""
    model = copying_model()
    inner: Any = model.network
    with torch.no_grad():
        inner.h[1].attn.c_attn.weight[:12, :12] = 40 * torch.roll(torch.eye(12), 1, 0)
    trace = gpt2viz.trace(model, [3, 8, 1, 9, 5, 7])
    case = reason_for(model, trace, 1, 0, 5, 2)
    assert (case.pairs[0].query_part, case.pairs[0].key_part) == ("token", "head 0.0")
    assert case.pairs[0].share > 0.99
    assert case.rule is None


def test_hand_built_duplicate_and_same_token() -> None:
    """Layer 0's queries and keys are the tokens alone."""
    model = copying_model()
    inner: Any = model.network
    with torch.no_grad():
        qkv = inner.h[0].attn.c_attn.weight
        qkv[:144] = 0
        qkv[:12, :12] = 6 * torch.eye(12)
        qkv[72:84, :12] = torch.eye(12)
    trace = gpt2viz.trace(model, [3, 7, 1, 9, 5, 7])
    for key, name in ((1, "duplicate token"), (5, "same token")):
        case = reason_for(model, trace, 0, 0, 5, key)
        apart, own = case.row.deviation(key), case.row.names.index("token")
        assert case.rule is not None
        assert case.rule[0].name == name
        assert case.rule[1] == pytest.approx(apart[own, own] / apart[apart > 0].sum())
    assert rule_name(reason_for(model, trace, 0, 0, 5, 2)) == ""
    assert rule_name(reason_for(model, trace, 0, 0, 2, 2)) == "same token"


def test_copying_heads_name_the_previous_token_head_first(
    model: gpt2viz.Model, cat: gpt2viz.Trace
) -> None:
    scores = head_scores(cat)
    shape = N_LAYER, N_HEAD
    layer, back = np.unravel_index(scores["previous token"].argmax(), shape)
    best = tuple(np.unravel_index(scores["induction"].argmax(), shape))
    copying = np.argwhere(scores["induction"] > 0.5).tolist()
    assert copying
    for n, h in copying:  # the second cat, at what followed the first
        case = reason_for(model, cat, n, h, 8, 2)
        assert case.pairs[0].key_part == f"head {layer}.{back}"
        assert case.pairs[0].key_read is not None
        assert case.pairs[0].key_read.token == 1
        if [n, h] == [*best]:
            assert rule_name(case) == "induction"
        if rule_name(case) != "induction":
            continue
        reads = [cat.stage("weights", 0, head) for head in range(N_HEAD)]
        own = [n for n, weights in enumerate(reads) if weights[8, 1] + weights[8, 8] >= 0.5]
        back_one = [n for n, weights in enumerate(reads) if weights[2, 1] >= 0.5]
        i = [case.row.names.index(part) for part in ["token", *(f"head 0.{n}" for n in own)]]
        j = [case.row.names.index(f"head 0.{n}") for n in back_one]
        apart = case.row.deviation(2)
        share = sum(apart[a, b] for a in i for b in j) / apart[apart > 0].sum()
        assert case.rule is not None
        assert case.rule[1] == pytest.approx(share)
        ends = max(product(i, j), key=lambda cell: apart[cell])
        assert [*case.copiers.values()] == [case.row.names[n] for n in ends if n]  # 0: its token
        assert all(head in case.words()[0] for head in case.copiers.values())


@pytest.mark.parametrize(
    ("head", "query", "key", "name"),
    [
        (back, 6, 5, "positions"),
        (itself, 3, 3, "same token"),
        (rests, 8, 0, "first token"),
        (copier, 8, 3, ""),  # a key that hardly has any weight
        (copier, 0, 0, ""),  # the first query sees nothing else
    ],
)
def test_rules_of_the_bundled_models_heads(
    model: gpt2viz.Model, cat: gpt2viz.Trace, head: Any, query: int, key: int, name: str
) -> None:
    layer, number = head()
    case = reason_for(model, cat, layer, number, query, key)
    assert rule_name(case) == name
    text = " ".join(case.words())
    assert [rule.name for rule in RULES if f"({rule.name}: " in text] == [name] * bool(name)
    if name == "first token":  # the mean weight on it of all later queries
        assert case.rule is not None
        assert case.rule[1] == pytest.approx(cat.stage("weights", layer, number)[1:, 0].mean())
    if query == 0:
        assert text.startswith("“The” attends to itself (1.00): it sees no other key. Head ")


def test_every_rule_has_a_share_of_at_least_half(model: gpt2viz.Model, cat: gpt2viz.Trace) -> None:
    shares = []
    for layer, head in np.ndindex(N_LAYER, N_HEAD):
        row = explain_row(model, cat, layer, head, 8)
        shares += [case.rule[1] for key in row.keys if (case := reason(row, int(key))).rule]
    assert len(shares) > 10
    assert min(shares) >= 0.5


def test_untrained_model_has_no_rule() -> None:
    """Weights as small as at the start of training: all keys are nearly alike."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=50, n_positions=16, n_embd=24, n_layer=3, n_head=4)
    network = GPT2(config).eval()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            gain = ".ln_" in name and name.endswith("weight")
            weight.copy_(float(gain) + 0.02 * torch.randn_like(weight))
    model = gpt2viz.Model("bland", config, network, bundled_model().tokenizer)
    trace = gpt2viz.trace(model, [3, 7, 1, 9, 3, 7, 7])
    for layer, head, query in np.ndindex(3, 4, 7):
        row = explain_row(model, trace, layer, head, query)
        assert {rule_name(reason(row, key)) for key in row.keys.tolist()} == {""}


def test_token_rules_need_a_token_better_than_others() -> None:
    """In untrained models of one layer, with every other token as the key, by loops."""
    claims, refused = 0, 0
    for seed in range(3):
        config = GPT2Config(vocab_size=150, n_positions=16, n_embd=24, n_layer=1, n_head=4)
        network = GPT2(config).eval()
        torch.manual_seed(seed)
        with torch.no_grad():
            for name, weight in network.named_parameters():
                weight.normal_(std=0.1 if "wpe" in name else 0.6)
        model = gpt2viz.Model("untrained", config, network, bundled_model().tokenizer)
        trace = gpt2viz.trace(model, [3, 7, 1, 9, 3, 7, 7])
        wte = network.get_parameter("wte.weight").detach().double().numpy()
        gain = network.get_parameter("h.0.ln_1.weight").detach().double().numpy()
        qkv = network.get_parameter("h.0.attn.c_attn.weight").detach().double().numpy()
        read = (wte - wte.mean(axis=1, keepdims=True)) * gain
        for head, query in np.ndindex(4, 7):
            q, k = (read @ qkv[n * 24 + head * 6 :][:6].T for n in (0, 1))  # (n_vocab, hs)
            row = explain_row(model, trace, 0, head, query)
            for key in row.keys.tolist():
                token, scores = trace.token_ids[key], k @ q[trace.token_ids[query]]
                rivals = np.mean([s >= scores[token] for n, s in enumerate(scores) if n != token])
                case = reason(row, key)
                tokens = case.ids == token
                assert case.rivals(case.part("token"), tokens) == pytest.approx(rivals)
                if rule_name(case) in ("same token", "duplicate token"):
                    claims += 1
                    assert rivals <= 0.01
                elif token == trace.token_ids[query] and rivals > 0.1:
                    stands_out = case.above and case.weight * len(row.keys) >= 1.5
                    refused += stands_out and case.share(*2 * [case.part("token")]) >= 0.5
    assert claims
    assert refused


@pytest.mark.parametrize("family", FAMILIES)
def test_by_token_equals_a_change_of_the_embedding(tmp_path: Path, family: str) -> None:
    """The change of a token's embedding, step by step through both heads, with fixed scales."""
    model = gpt2viz.load_model(write_model(tmp_path, family))
    trace, of = gpt2viz.trace(model, IDS, edits=parse_edits("scale:0.1:-2")), oracle(tmp_path)
    layer, head, query, key, writer = 1, 2, 5, 4, 1
    row = explain_row(model, trace, layer, head, query)
    weights = trace.stage("weights", 0, writer)[key]
    result = row.by_token(np.ones(len(row.names), bool), key, {Part("head", 0, writer): weights})
    first, second = (
        x[0].astype(float) for x in (trace.stage("embedding"), trace.stage("residual_out", 0))
    )
    q = trace.stage("q", layer, head)[query].astype(float)
    for a, b in ((17, 300), (5, 41)):
        change = np.tile(of.embedding[a] - of.embedding[b], (len(IDS), 1))
        values = of.read("v", 0, of.norm(change, first, 0))[of.row("v", writer)]
        wrote = -2 * weights @ values @ of.out_proj(0)[0][writer]
        k = read_by(of, layer, head, "k", np.tile(wrote, (len(IDS), 1)), second)[key]
        assert result[a] - result[b] == pytest.approx(q @ k, rel=1e-3, abs=1e-4)


def test_later_key_without_the_mask_is_not_induction() -> None:
    model = copying_model()
    trace = gpt2viz.trace(model, [3, 7, 1, 9, 5, 7], causal=False)
    assert rule_name(reason_for(model, trace, 1, 0, 1, 2)) == ""  # the query precedes the key
    assert rule_name(reason_for(model, trace, 1, 0, 5, 2)) == "induction"


def test_words_use_the_given_labels(model: gpt2viz.Model, cat: gpt2viz.Trace) -> None:
    case = reason_for(model, cat, 1, 4, 8, 2)
    text = " ".join(case.words([f"<{n}>" for n in range(10)]))
    assert "from 8 <8> to 2 <2>" in text
    assert text.startswith("“<8>” attends to “<2>” (")
    assert not set("catsat") & {a for a, b in pairwise(text) if b == ">"}
    assert repr(case) == "\n".join(case.words(cat.labels))
    with pytest.raises(IndexError, match="doesn't see key 9"):
        reason(case.row, 9)


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_by_distance_equal_loops(tmp_path: Path, family: str) -> None:
    """The score of the mean key, before its rotation, at the position of each, by loops."""
    model = gpt2viz.load_model(write_model(tmp_path, family))
    trace, of = gpt2viz.trace(model, IDS), oracle(tmp_path)
    for head in range(4):
        row = explain_row(model, trace, 1, head, 6)
        stream = trace.stage("residual_out", 0)[0].astype(float)
        q, k = (of.read(into, 1, of.normed(stream, 1), biased=True) for into in "qk")
        q, k = (of.qk_norm(into, 1, x, x)[of.row(into, head)] for into, x in (("q", q), ("k", k)))
        keys = row.keys.tolist()
        scores = [of.rotate(q[6:], [6])[0] @ of.rotate(k[keys].mean(0)[None], [s])[0] for s in keys]
        if family == "gpt2":
            assert row.by_distance is None
        else:
            assert row.by_distance == pytest.approx(scores, rel=1e-4, abs=1e-5)


def test_equal_keys_are_explained_by_distance(tmp_path: Path) -> None:
    """Queries and keys are biases alone."""
    model = gpt2viz.load_model(write_model(tmp_path, "qwen2, a group for each head, untied"))
    attention: Any = model.network.blocks[1].attention
    with torch.no_grad():
        attention.q_proj.weight.zero_(), attention.k_proj.weight.zero_()
        attention.q_proj.bias.mul_(20), attention.k_proj.bias.mul_(20)
    trace = gpt2viz.trace(model, IDS)
    claims = [
        case.rule
        for head in range(4)
        for row in [explain_row(model, trace, 1, head, 6)]
        for case in [reason(row, int(row.weights.argmax()))]
        if case.above and case.key
    ]
    assert len(claims) >= 2
    for rule in claims:
        assert rule is not None
        assert rule[0].name == "distance"
        assert rule[1] == pytest.approx(1, abs=1e-5)
    assert rule_name(reason_for(model, gpt2viz.trace(model, [5]), 1, 0, 0, 0)) == ""

"""The expression language: its meaning, its refusals, and its limits of time and memory."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from gpt2viz.textbook.expressions import LONGEST, Expression, ExpressionError
from gpt2viz.textbook.operations import FUNCTIONS, LARGEST, MOST_AXES, MOST_BYTES, Value, Work
from tests.textbook.allocator import peak_bytes

RNG = np.random.default_rng(0)
T, HS, NH = 3, 4, 2
Q = RNG.normal(size=(1, NH, T, HS)).astype(np.float32)
K = RNG.normal(size=(1, NH, T, HS)).astype(np.float32)
S = RNG.normal(size=(T, T)).astype(np.float32)
TABLE = RNG.normal(size=(7, HS)).astype(np.float32)
IDS = np.array([[5, 0, 5]])


def names() -> dict[str, Value]:
    arrays = {"q": Q, "k": K, "s": S, "table": TABLE, "ids": IDS}
    return {"T": T, "hs": HS, **{name: torch.tensor(x) for name, x in arrays.items()}}


def evaluate(text: str) -> Any:
    return Expression(text).value(names())


#: Expressions, and their values by NumPy.
VALUES: dict[str, Any] = {
    "q @ k.mT": np.einsum("bhid,bhjd->bhij", Q, K),
    "torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(hs)": np.einsum("bhid,bhjd->bhij", Q, K) / 2,
    "scores = q @ k.mT · hs ** −0.5": np.einsum("bhid,bhjd->bhij", Q, K) / 2,
    "table[ids] + table[1:T+1]": TABLE[IDS] + TABLE[1:4],
    "embedding(ids, table)": TABLE[IDS],
    "linear(q, table)": Q @ TABLE.T,
    "q @ table.T": Q @ TABLE.T,
    "softmax(s, dim=-1)": softmax(S, -1),
    "s.softmax(0)": softmax(S, 0),
    "torch.nn.functional.softmax(s, -1)  # of the last axis": softmax(S, -1),
    "s.masked_fill(tril(ones(T, T)) == 0, float('-inf'))": np.where(np.tri(T) == 0, -np.inf, S),
    's.masked_fill(tril(ones(T, T)).eq(0), float("-inf"))': np.where(np.tri(T) == 0, -np.inf, S),
    "s / √hs": S / 2,
    "s / √q.shape[-1] + √(4) - √4": S / 2,
    "s += table[:T, :T]": S + TABLE[:T, :T],
    "s *= 2 + 1": S * 3,
    "torch.add(s, s).sub(1).mul(2).div(4) + pow(T, 2)": (2 * S - 1) / 2 + 9,
    "torch.einsum('bhid,bhjd->bhij', q, k)": np.einsum("bhid,bhjd->bhij", Q, K),
    "einsum('ij -> j', s)": S.sum(0),
    "torch.bmm(q[0], k[0].swapaxes(1, 2))": (Q @ K.swapaxes(-1, -2))[0],
    "torch.cat(q.unbind(1), dim=-1)": np.concatenate(list(Q.swapaxes(0, 1)), -1),
    "torch.cat([s, s.t()], 1)": np.concatenate([S, S.T], 1),
    "exp(s) / exp(s).sum(-1, keepdim=True)": softmax(S, -1),
    "s - s.mean(dim=-1, keepdim=True)": S - S.mean(-1, keepdims=True),
    "s.amax()": S.max(),
    "s.masked_fill(tril(ones(T, T)) == 0, -inf)": np.where(np.tri(T) == 0, -np.inf, S),
    "where(~ones_like(s).tril().bool(), -torch.inf, s)": np.where(np.tri(T) == 0, -np.inf, S),
    "s + triu(full((T, T), -inf), 1)": np.where(np.tri(T) == 0, -np.inf, S),
    "s + full((T, T), 2.5)": S + 2.5,
    "where(arange(T)[:, None] >= arange(T), s, -1e9)": np.where(np.tri(T) == 0, -1e9, S),
    "masked_fill(s, mask=(s > 0) & (s < 1) | (s != s), value=2)": np.where((S > 0) & (S < 1), 2, S),
    "q.transpose(1, 2).reshape(1, T, -1)": Q.transpose(0, 2, 1, 3).reshape(1, T, -1),
    "q.permute(0, 2, 1, 3).contiguous().view(1, T, 8)": Q.transpose(0, 2, 1, 3).reshape(1, T, 8),
    "q.flatten(2)[0, 1, ::2]": Q.reshape(1, NH, -1)[0, 1, ::2],
    "q[..., -1:].unsqueeze(0)": Q[None, ..., -1:],
    "q.shape[-1] * q.size(2) // 5": HS * T // 5,
    "-2 ** 2 + +1": -3,
    "zeros(2).float() + log(1) / pi + log2(2)": np.ones(2),
}


def test_expressions_equal_numpy(subtests: pytest.Subtests) -> None:
    for text, expected in VALUES.items():
        with subtests.test(text):
            assert_allclose(np.asarray(evaluate(text)), expected, rtol=1e-5, atol=1e-6)


#: Message -> texts that visitors could try, to break out or to exhaust memory and time.
HOSTILE = {
    "quotes": "__import__('os').system('true') ¦ b'os' ¦ 'os' ¦ "
    "s.masked_fill(s == 0, '-inf') ¦ einsum('i->i', 'q')",
    "nknown name": "__import__ ¦ open ¦ math ¦ exit() ¦ q.__class__ ¦ ().__class__ ¦ q.tofile ¦ "
    "torch.softmax.__globals__ ¦ softmax.x ¦ q.__class__.__mro__[1].__subclasses__() ¦ "
    "torch.ops",
    "exists in PyTorch, but not": "q.data ¦ q.grad_fn ¦ torch.load ¦ q.add_(1) ¦ "
    "q.zero_() ¦ q.numpy() ¦ q.backward() ¦ torch.set_num_threads(99) ¦ F.gelu(q) ¦ s.einsum(s)",
    "doesn't name the 2 axes": "einsum('ii->i', s) ¦ einsum('i->i', s) ¦ einsum('...->', s)",
    "one or two tensors": "einsum('ij', s) ¦ einsum('ij,ij,ij->', s, s, s) ¦ einsum('->') ¦ "
    "einsum(0, s) ¦ einsum(T, s)",
    "must name axes": "einsum('ij->ijk', s) ¦ einsum('ij->ii', s)",
    "in another": "einsum('ij,jk->ik', s, table)",
    "three axes": "torch.bmm(s, s)",
    "a list of tensors": "cat(s) ¦ cat([])",
    "this is a function": "softmax",
    "can't be called": "softmax(s, -1)(s) ¦ (lambda: 1)()",
    "no meaning": "lambda x: x ¦ [x for x in q] ¦ (x for x in q) ¦ q if T else k ¦ q and k ¦ "
    "not q ¦ (y := 3) ¦ sqrt(*q) ¦ q << 99999999 ¦ {1} ¦ q; k ¦ await q ¦ \\ ¦ q\x00 ¦ ｑ @ k ¦ "
    "f'{q}'",
    "There is nothing here": "# q",
    "can't be read": "*q ¦ import os ¦ yield ¦ =",
    "missing a required argument": "sqrt(**q)",
    "unexpected keyword": "softmax(s, dim=-1, work=0)",
    "has no meaning": "1 % 2",
    "ordinary size": "1j ¦ 1e999",
    "too large": "2 ** 99999999 ¦ 9 ** 9 ** 9 ** 9 ¦ exp(99999)",
    "can't be used": "(-8) ** 0.5",
    "divided by 0": "1 / 0 ¦ T // 0",
    "can't be computed": "sqrt(-1) ¦ ones(-1) ¦ table[::-1] ¦ q.shape[9] ¦ softmax(s, 7)",
    "at most 4,194,304": "ones(10 ** 9, 10 ** 9)",
    "would make 4,410,000 numbers": "zeros(2100, 2100)",
    "would make": "full((4000, 4000), 1) ¦ ones(2000, 1) + ones(1, 4000) ¦ "
    "einsum('i,j->ij', arange(3000), arange(3000)) ¦ "
    "ones(2000, 1) @ ones(1, 4000) ¦ where(ones(3000, 1) == 1, ones(1, 3000), 0) ¦ "
    "ones(3000, 1).masked_fill(ones(1, 3000) == 1, 0) ¦ "
    "ones(999, 1, 999, 0) @ ones(1, 999, 0, 999) ¦ ones(999, 1, 9, 9) @ ones(1, 999, 9, 9) ¦ "
    "table[arange(4000000) * 0]",
    "at most": "arange(999999999)",
    "too much to compute": "ones(2000, 2000) @ ones(2000, 2000) @ ones(2000, 2000)",
    "whole numbers": "table[(ones(900, 900) * 0 + ids[0, 0]) == 5] ¦ table[:1.5] ¦ table[table]",
    "6 are the most": "s[None][None][None][None][None][None] ¦ s[None, None, None, None, None]",
    "numbers and slices": "s[None, None, None, None, None, None, None] ¦ table[True]",
    "7 axes": "ones(1, 1, 1, 1, 1, 1, 1) ¦ s.reshape(1, 1, 1, 1, 1, T, T) ¦ "
    "s.view(-1, 1, 1, 1, 1, 1, 1)",
    "don't fill": "s.reshape(-1, -1) ¦ s.reshape(0, -1)",
    "out of": "table[ids + 99] ¦ table[-ids - 99]",
    "a number is needed": "q.shape + q.shape ¦ s.masked_fill(s == 0, s)",
    "": "None",
    "compare two things": "s < s < s ¦ s in s ¦ s is s",
    "True and False": "~s ¦ s.masked_fill(s, 0)",
    "a tensor is needed": "~T ¦ masked_fill(T, s == 0, 0)",
    "softmax takes (x, dim)": "softmax(s)",
}
LONG = {
    "9" * 150: "ordinary size",
    "*".join(["999999999"] * 15): "can't be used",
    "+".join(["ones(2000, 2000)"] * 9): "too much to compute",
    "(" * 150 + ")" * 150: "too long",
    "(" * 99 + ")" * 99: "",
    "-" * 199 + "1": "too many parts",
    "[" * 95 + "1" + "]" * 95: "",
    "q" * 201: "too long",
    "": "There is nothing here",
}


def test_invalid_expressions_are_refused_in_one_sentence(subtests: pytest.Subtests) -> None:
    texts = {text: why for why, texts in HOSTILE.items() for text in texts.split(" ¦ ")} | LONG
    given, before = names(), names()
    for text, expected in texts.items():
        with subtests.test(text[:40]):
            words = ""
            try:
                result = Expression(text).value(given)
            except ExpressionError as error:
                words = str(error)
            else:
                assert expected == ""  # harmless
                assert result is None or isinstance(result, tuple)
            assert expected in words
            assert len(words) < LONGEST + 200
            assert "\n" not in words
            for name, x in before.items():
                assert_array_equal(np.asarray(given[name]), np.asarray(x))


def test_messages_say_what_to_do() -> None:
    words = {
        "q @ k": "`q @ k`: (1, 2, 3, 4) times (1, 2, 3, 4) doesn't fit: the last size of the left, "
        "4, must equal the last but one of the right, 3. Transpose the right one.",
        "q + k.transpose(1, 2)": "`q + k.transpose(1, 2)`: (1, 2, 3, 4) and (1, 3, 2, 4) don't "
        "fit: counted from the last, sizes must be equal, or one of them 1.",
        "q.transpose(1, 2).view(1, T, 8)": "`q.transpose(1, 2).view(1, T, 8)`: after a transpose "
        "the numbers lie in another order: use .reshape.",
        "q @ k.T": "`k.T`: .T is for tables of two axes, and this is a tensor of shape "
        "(1, 2, 3, 4); .mT swaps two.",
        "soft_max(s, -1)": "`soft_max`: unknown name. Did you mean softmax?",
        "scaled / 2": "`scaled`: unknown name. At hand: T, hs, q, k, s, table, ids.",
        "s.gelu()": "`s.gelu`: gelu exists in PyTorch, but not in this small language.",
        "q @ (k.mT": "This can't be read: '(' was never closed at character 5.",
    }
    for text, sentence in words.items():
        with pytest.raises(ExpressionError) as caught:
            evaluate(text)
        assert str(caught.value) == sentence


def test_work_is_bounded_over_several_evaluations() -> None:
    expression, work = Expression("ones(1000, 1000)"), Work(3 * 10**6)
    for _ in range(3):
        expression.value({}, work)
    with pytest.raises(ExpressionError, match="too much to compute"):
        expression.value({}, work)


_WORDS = [
    *("q", "k", "s", "table", "ids", "T", "hs", "inf", "0", "1", "2", "-1", "0.5", "None", "..."),
    *("s", "q", "@", "+", "-", "*", "/", "**", "//", "==", "<", ">", "&", "|", "~", ":", ",", "="),
    *("(", ")", "(", ")", "[", "]", ".mT", ".T", ".shape", ".", "dim=", "lambda", "for", "if"),
    *FUNCTIONS,
    *(f".{name}(" for name in FUNCTIONS),
]


@settings(max_examples=100)
@given(st.one_of(st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join), st.text()))
def test_any_text_gives_a_value_or_one_sentence(text: str) -> None:
    try:
        result = evaluate(text)
    except ExpressionError as error:
        result = str(error)
    if isinstance(result, torch.Tensor):
        assert result.numel() <= LARGEST
        assert result.ndim <= MOST_AXES
    else:
        assert not isinstance(result, str) or "\n" not in result


def _calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Longer expressions out of shorter ones, most of which can be computed."""
    unary = [
        *("({}).mT", "({}).softmax(-1)", "softmax({}, dim=-2)", "({}).sum(-1, keepdim=True)"),
        *("({}).mean()", "exp({})", "({})[0]", "({})[..., :2]", "-({})", "({}).transpose(0, -1)"),
        *("({}).reshape(-1)", "({}).reshape(T, -1)", "tril({})", "({}) ** 2", "({}).flatten()"),
        *("({}).masked_fill(({}) > 0, -inf)", "({}).unsqueeze(1)", "({}).view(-1, 3)"),
        *("cat([{}, {}], 0)", "cat(({}).unbind(0), -1)", "einsum('ij,kj->ki', {}, {})"),
    ]
    binary = ["({}) + ({})", "({}) @ ({})", "({}) * ({})", "({}) - ({})", "({}) / ({})"]
    return st.one_of(
        st.builds(lambda form, x: form.replace("{}", x), st.sampled_from(unary), inner),
        st.builds(lambda form, x, y: form.format(x, y), st.sampled_from(binary), inner, inner),
    )


_SENSIBLE = st.recursive(
    st.sampled_from(["q", "k", "s", "table[ids]", "2", "hs", "q.shape[-1]", "ones(T, T)"]),
    _calls,
    max_leaves=4,
)
_PYTORCH = {name: getattr(torch, name) for name in ("softmax", "tril", "ones", "cat", "einsum")}
_PYTORCH["exp"] = lambda x: torch.exp(x) if isinstance(x, torch.Tensor) else math.exp(x)


@settings(max_examples=100)
@given(_SENSIBLE.filter(lambda text: len(text) <= LONGEST))
def test_valid_expressions_equal_pythons_eval(text: str) -> None:
    try:
        result = evaluate(text)
    except ExpressionError:
        return
    expected = eval(text, {**names(), **_PYTORCH, "inf": math.inf})  # noqa: S307 - the oracle
    assert_array_equal(np.asarray(result), np.asarray(expected))


#: Tensors near the size limit, with shapes that broadcast or multiply.
_LARGE = [
    *("ones(1999, 1999)", "ones(90, 256, 5)", "ones(1, 256, 5000)", "ones(256, 5000)"),
    *("arange(4000000)", "ones(2000, 1)", "ones(1, 2000)", "ones(99, 1, 2, 200)"),
    *("ones(1, 99, 200, 2)", "(arange(3999999) > 3)", "wide", "wide.mT", "wide[:, ::2]"),
    *("wide[::2, ::2].mT", "ids", "2"),
]
_CHANGED = [
    *("({}).mT", "softmax({}, 0)", "({}).softmax(-1)", "({}).sum(-1)", "({}).unsqueeze(0)"),
    *("({}).reshape(-1)", "({}).flatten()", "({}).contiguous()", "({}).bool()", "tril({})"),
    *("({}).masked_fill(({}) > 0, 1)", "where(({}) > 0, {}, 0)", "({}) ** 0.3", "-({})"),
    *("({}).transpose(0, -1)", "({})[None]", "wide[({}).bool() * 0 + ids]", "({})[::2]"),
    *("ones_like({})", "({}).amax(0)", "({}).float()", "exp({})", "triu({}, 3)"),
    *("cat([{}, {}], 0)", "cat(({}).unbind(0), -1)", "einsum('ij,kj->ik', {}, {})"),
    *("einsum('ij->ji', {})", "einsum('ij,kl->ijkl', {}, {})", "einsum('bhij,bhjd->bid', {}, {})"),
]


#: Bytes that an operation may take besides its tensors.
_BUFFERS = 2**16


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.recursive(
        st.sampled_from(_LARGE),
        lambda inner: st.one_of(
            st.builds(lambda form, x: form.replace("{}", x), st.sampled_from(_CHANGED), inner),
            st.builds("({}) {} ({})".format, inner, st.sampled_from("@+*/-"), inner),
        ),
        max_leaves=3,
    ).filter(lambda text: len(text) <= LONGEST)
)
def test_no_expression_exceeds_its_predicted_memory(text: str) -> None:
    """By the profiler of PyTorch, which sees the copies inside an operation."""
    work, names = Work(), {"wide": torch.ones(1000, 2000), "ids": torch.tensor([[5, 0, 5]])}

    def act() -> None:
        with suppress(ExpressionError):
            Expression(text).tensor(names, work)

    assert peak_bytes(act) <= MOST_BYTES - max(work.bytes_left, 0) + _BUFFERS, text

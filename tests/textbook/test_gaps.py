"""The eighty lines and their gaps: a reader's model equals the real one, or mistakes are named."""

from __future__ import annotations

import math
import runpy
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, settings
from hypothesis import given as generated
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis.generation import generate
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.textbook import eighty_lines, gaps
from gpt2viz.textbook.expressions import ExpressionError
from gpt2viz.textbook.gaps import BLANK, FILLED, GAPS, NEW, Case, Draft, Verdict
from gpt2viz.textbook.operations import MOST_BYTES, broadcast
from tests.bundled import bundled_model as model
from tests.bundled import stages
from tests.textbook.allocator import peak_bytes

TEXT = "A crane ate fish and"
GAP = {gap.name: gap for gap in GAPS}

#: Gap -> correct answers; the first is that of the first screen's own code.
RIGHT = {
    name: texts.split(" ¦ ")
    for name, texts in {
        "embedding": "wte[ids] + wpe[:T] ¦ wpe[0:T]+wte[ids] ¦ "
        "wpe[arange(T)] + embedding(ids, wte)",
        "scores": "q @ k.mT ¦ q @ k.transpose(-2, -1) ¦ (k @ q.mT).mT ¦ "
        "scores = torch.matmul(q, k.transpose(3, 2)) ¦ "
        "torch.einsum('bhid,bhjd->bhij', q, k) ¦ (q[:, :, :, None] * k[:, :, None]).sum(-1)",
        "scale": "scores / sqrt(hs) ¦ scores * hs ** -0.5 ¦ scores / math.sqrt(C / nh) ¦ "
        "scores / √hs  # smaller ¦ scores / hs ** (1 / 2) ¦ scores /= math.sqrt(hs)",
        "mask": "scaled.masked_fill(tril(ones(T, T)) == 0, -inf) ¦ "
        "scaled.masked_fill(~torch.ones(T, T).tril().bool(), -math.inf) ¦ "
        "scaled.masked_fill(torch.tril(torch.ones(T, T)) == 0, float('-inf')) ¦ "
        "masked_fill(scaled, triu(ones(T, T), diagonal=1) > 0, −inf) ¦ "
        "where(arange(T)[:, None] >= arange(T), scaled, -inf) ¦ "
        "where(tril(ones_like(scaled)) == 1, scaled, -1e10) ¦ scaled + triu(full((T, T), -inf), 1)",
        "softmax": "softmax(masked, dim=-1) ¦ F.softmax(masked, -1) ¦ masked.softmax(dim=3) ¦ "
        "exp(masked) / exp(masked).sum(-1, keepdim=True)",
        "merge": "heads.transpose(1, 2).reshape(B, T, C) ¦ heads.transpose(2, 1).flatten(2) ¦ "
        "heads.permute(0, 2, 1, 3).contiguous().view(B, T, -1) ¦ "
        "torch.cat(heads.unbind(1), dim=-1)",
        "residual": "x + made ¦ made + x ¦ x − −made ¦ x += made ¦ torch.add(x, made)",
        "head": "x @ wte.mT ¦ x @ wte.T ¦ linear(x, wte) ¦ x @ wte.t() ¦ "
        "(wte @ x.transpose(1, 2)).mT",
    }.items()
}
FOLLOW = "Sizes must follow them"
#: (gap, wrong answer, part of the message), of answers that can be computed, or nearly.
WRONG = [
    ("scores", "q @ k", "Transpose the right one"),
    ("scores", "(q @ k.mT) * 1.001", "off by up to"),
    ("scores", "(q @ k.mT)[0]", "(8, 5, 5); (1, 8, 5, 5) is needed"),
    ("scale", "hs", "isn't a tensor"),
    ("mask", "scaled / 0", "finite in one"),
    ("softmax", "softmax(masked - inf, -1)", "NaN"),
    ("merge", "heads.transpose(1, 2).view(B, T, C)", "use .reshape"),
    ("head", "x @ wte", "Transpose the right one"),
    ("residual", "y + made", "unknown name. At hand: x, made"),
    ("softmax", "softmax(scaled, -1)", "At hand: masked"),
    # Right for a text of these five tokens alone, or for a model of these sizes.
    ("scale", "scores / 5.656854", FOLLOW),
    ("scale", "scores/32**.5", FOLLOW),
    ("merge", "heads.transpose(1, 2).reshape(B, T, 256)", FOLLOW),
    ("embedding", "wte[ids] + wpe[:5]", FOLLOW),
    ("mask", "scaled.masked_fill(tril(ones(5, 5)) == 0, -inf)", FOLLOW),
    ("merge", "heads.transpose(1, 2).reshape(1, 5, C)", FOLLOW),
]


@cache
def run() -> gpt2viz.Trace:
    return gpt2viz.trace(model(), TEXT)


@cache
def cases() -> dict[str, list[Case]]:
    return gaps.trace_cases(model(), run(), 5)


def verdict_of(name: str, text: str) -> Verdict:
    return gaps.judge(GAP[name], text, cases()[name], gaps.random_cases(8, 32, 5)[name])


def test_gaps_expect_the_numbers_of_numpy() -> None:
    """The cases expect a NumPy GPT-2's numbers; merged heads are compared after W_O."""
    layers, made, weights = range(model().config.n_layer), stages(TEXT), gaps.weights(model())
    assert len(run().token_ids) == 5
    assert list(cases()) == [gap.name for gap in GAPS] == list(RIGHT)
    streams = [made[key][n] for n in layers for key in ("residual_mid", "residual_out")]
    expected = {
        "embedding": [made["embedding"]],
        "scores": made["scores"],
        "scale": made["scaled_scores"],
        "mask": made["masked_scores"],
        "softmax": made["weights"],
        "residual": streams,
        "head": [made["logits"]],
    }
    for name, parts in expected.items():
        results = [np.asarray(case.expected[0]) for case in cases()[name]]
        assert len(results) == len(parts)
        for result, part in zip(results, parts, strict=True):
            assert_allclose(result, part, rtol=1e-3, atol=1e-3)
    for n, case in enumerate(cases()["merge"]):
        w, b = (weights[f"h.{n}.attn.c_proj.{part}"] for part in ("weight", "bias"))
        assert_allclose(case.expected[0] @ w.T + b, made["attention_output"][n], atol=1e-3)


def test_correct_answers_pass_and_known_mistakes_are_explained(subtests: pytest.Subtests) -> None:
    for name, texts in RIGHT.items():
        for text in texts:
            with subtests.test(name, text=text):
                verdict = verdict_of(name, text)
                assert verdict.kind == "right"
                assert verdict.remark.startswith(("Exactly as in the run", "Matches the run to"))
    for gap in GAPS:
        assert len(set(gap.near.values())) >= 6
        for text, why in gap.near.items():
            with subtests.test(gap.name, text=text):
                verdict = verdict_of(gap.name, text)
                assert verdict.kind in ("shape", "values")
                assert verdict.remark.endswith(why)
                assert verdict.runs == (verdict.kind == "values")


def test_other_wrong_answers_are_explained(subtests: pytest.Subtests) -> None:
    for name, text, remark in WRONG:
        with subtests.test(name, text=text):
            verdict = verdict_of(name, text)
            assert verdict.kind != "right"
            assert remark in verdict.remark
    assert verdict_of("head", "  ") == ("empty", "")


def test_answers_must_be_right_in_every_layer() -> None:
    *most, last = cases()["residual"]
    spoiled = last._replace(expected=last.expected + 1)
    verdict = gaps.judge(GAP["residual"], "x + made", [*most, spoiled], most[0])
    assert verdict.kind == "values"
    assert "off by up to 1." in verdict.remark


@pytest.mark.slow
def test_finished_model_generates_the_apps_tokens() -> None:
    """So does the displayed source, run as Python."""
    ids, end = list(run().token_ids), model().tokenizer.end_of_text
    expected = [choice.token for choice in generate(model(), ids, 10)]
    for n in range(max(map(len, RIGHT.values()))):
        forms = {name: texts[n % len(texts)] for name, texts in RIGHT.items()}
        assert Draft(forms).build(model()).write(ids, 3, end) == expected[:3]
    first = {name: texts[0] for name, texts in RIGHT.items()}
    assert Draft(first).build(model()).write(ids, 10, end) == expected
    assert len(expected) == NEW
    shown = class_from(Draft(first).source())(model().config, gaps.weights(model()), None)
    assert shown.write(ids, 10, end) == expected


def test_exported_file_generates_the_apps_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With every form of the answers, and once in a process of its own."""
    file, ids = tmp_path / "my_gpt2.py", run().token_ids
    expected = model().tokenizer.decode([*ids, *(x.token for x in generate(model(), ids, NEW))])
    monkeypatch.setattr(sys, "argv", ["my_gpt2.py", str(BUNDLED)])
    for n in range(max(map(len, RIGHT.values()))):
        forms = {name: texts[n % len(texts)] for name, texts in RIGHT.items()}
        file.write_text(Draft(forms).file(model(), ids), encoding="utf-8")
        runpy.run_path(str(file), run_name="__main__")
        assert capsys.readouterr().out == f"{expected}\n", forms
    file.write_text(Draft(FILLED).file(model(), ids), encoding="utf-8")
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 90
    output = subprocess.check_output([sys.executable, file, BUNDLED], text=True, cwd=tmp_path)
    assert output == f"{expected}\n"


def class_from(source: str) -> Callable[..., Any]:
    """The class that the source defines, with PyTorch's names."""
    names = vars(eighty_lines) | {"sqrt": math.sqrt, "inf": math.inf}
    names |= {name: getattr(torch, name) for name in ("ones", "tril", "softmax")}
    exec(source, names)  # noqa: S102 - our own source, with our own expressions
    made: Callable[..., Any] = names["GPT2"]
    return made


def test_source_has_the_answers_and_blanks() -> None:
    given = {"scores": "scores = q @ k.mT", "head": "__import__('os')", "merge": "q @"}
    shown = Draft(given).source()
    assert "        scores = q @ k.mT  # (B, nh, T, T)" in shown
    assert shown.count(BLANK) == 7
    assert "gap(" not in shown
    assert [gap.line for gap in GAPS][1:3] == [
        "scores = ______  # (B, nh, T, T)",
        "scaled = ______  # (B, nh, T, T)",
    ]


def test_generation_ends_as_in_the_app(tiny: gpt2viz.Model) -> None:
    full = list(range(tiny.config.n_positions))
    for ids, n_new in ((full, 0), (full[:-2], 2)):
        expected = [choice.token for choice in generate(tiny, ids, 5)]
        assert len(expected) == n_new
        assert Draft(FILLED).build(tiny).write(ids, 5, None) == expected
    assert Draft(FILLED).build(tiny).write(ids, 5, expected[0]) == expected[:1]


#: Gap -> an expression for the number of tokens, by the names there.
LENGTH = {
    "embedding": "T",
    "scores": "q.shape[2]",
    "scale": "scores.shape[2]",
    "mask": "T",
    "softmax": "masked.shape[2]",
    "merge": "T",
    "residual": "x.shape[1]",
    "head": "x.shape[1]",
}


def growing_ones(name: str, growth: list[int]) -> str:
    """Ones of the right shape for five tokens; for each further one the axes grow by ``growth``."""
    axes = zip(cases()[name][0].expected.shape, growth, strict=False)
    return f"ones({','.join(f'({LENGTH[name]}-5)*{more}+{size}' for size, more in axes)})"


@cache
def right_bytes() -> int:
    """Peak bytes of the correct lines for one more token."""
    ids = list(run().token_ids)
    return peak_bytes(lambda: Draft(FILLED).build(model()).write([*ids, 0], 1, None))


@pytest.mark.slow
@settings(max_examples=40)
@example({"embedding": [999, -4, 0], "softmax": [0, 0, 500, 1]})
@example({"softmax": [0, 0, 0, 0]})
@generated(
    st.dictionaries(
        st.sampled_from(sorted(LENGTH)),
        st.lists(st.sampled_from([0, 0, 1, 1, -1, 7, 500, 4000]), min_size=4, max_size=4),
        min_size=1,
        max_size=3,
    )
)
def test_wrong_growth_is_refused_and_takes_no_memory(grown: dict[str, list[int]]) -> None:
    """The shape is right for this text alone; the lines around the gap still run."""
    ids, given = list(run().token_ids), {name: texts[0] for name, texts in RIGHT.items()}
    given |= {name: growing_ones(name, growth) for name, growth in grown.items()}
    assert all(verdict_of(name, given[name]).kind == "values" for name in grown)
    follows = all(
        more == (size == "T")
        for name, growth in grown.items()
        for more, size in zip(growth, GAP[name].axes, strict=False)
    )

    def act() -> None:
        if follows:
            assert len(Draft(given).build(model()).write(ids, 2, None)) == 2
            return
        with pytest.raises(ExpressionError, match=r"is needed|are the most") as refused:
            Draft(given).build(model()).write(ids, 2, None)
        assert "\n" not in str(refused.value)

    assert peak_bytes(act) <= right_bytes() + MOST_BYTES


def test_broadcast_shape_equals_numpy() -> None:
    shapes = [(3, 1, 4), (2, 1), (4,)]
    assert broadcast(shapes) == np.broadcast_shapes(*shapes)

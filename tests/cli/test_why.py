"""``gpt2viz why``: the library's numbers, printed, in JSON and in files."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from tests.bundled import CATS, bundled_model, copier
from tests.cli.conftest import Run, check_refused

LAYER, HEAD = copier()


def test_why_prints_words_and_pairs(run: Run) -> None:
    text = run("why", CATS, "-l", str(LAYER), "-H", str(HEAD), "--query", "8").stdout.splitlines()
    model = bundled_model()
    row = gpt2viz.explain_row(model, gpt2viz.trace(model, CATS), LAYER, HEAD, 8)
    case = gpt2viz.reason(row, 2)  # the key with most weight
    n = len(case.words())
    assert text[:n] == list(case.words())
    heading, *rows = text[n + 1 :]
    assert heading.split()[:3] == ["the", "query's", "part"]
    for line, pair in zip(rows, case.pairs, strict=True):
        assert f"{pair.value:.2f}" in line
        assert f"{100 * pair.share:.2f}" in line
        assert f"{pair.ablated_weight:.2f}" in line
        assert pair.key_read is None or f"({pair.key_read.weight:.2f})" in line


def test_why_json_has_the_whole_table(run: Run) -> None:
    where = ("-l", str(LAYER), "-H", str(HEAD), "--query", "9", "--key", "3", "--edits", "off:0.1")
    common = ("why", CATS, "--no-causal", *where, "--json", "-q")
    apart, raw = (json.loads(run(*common, *more).stdout) for more in ((), ("--raw",)))
    model = bundled_model()
    edits = gpt2viz.parse_edits("off:0.1")
    trace = gpt2viz.trace(model, CATS, causal=False, edits=edits)
    row = gpt2viz.explain_row(model, trace, LAYER, HEAD, 9)
    assert_allclose(apart["table"], row.deviation(3), atol=1e-9)
    assert_allclose(raw["table"], row.table(3), atol=1e-9)
    scores = trace.stage("scores", LAYER, HEAD)[9]
    assert np.sum(raw["table"]) == pytest.approx(scores[3], abs=1e-3)
    assert np.sum(apart["table"]) == pytest.approx(scores[3] - scores.mean(), abs=1e-3)
    assert (apart["compared_with_the_mean"], raw["compared_with_the_mean"]) == (True, False)
    assert (apart["layer"], apart["head"], apart["query"], apart["key"]) == (LAYER, HEAD, 9, 3)
    assert apart["weight"] == pytest.approx(trace.stage("weights", LAYER, HEAD)[9, 3], rel=1e-4)
    assert apart["parts"] == list(row.names)
    assert apart["edits"] == "off:0.1"


def test_why_files_have_the_table_and_its_sums(run: Run) -> None:
    files = ("w.csv", "w.parquet", "w.html", "w.svg")
    run("why", CATS, "-l", "2", "--raw", *(part for name in files for part in ("-o", name)))
    model = bundled_model()
    row = gpt2viz.explain_row(model, gpt2viz.trace(model, CATS), 2, 0, 9)
    table = row.table(int(row.keys[row.weights.argmax()]))
    for result in (pd.read_csv("w.csv"), pd.read_parquet("w.parquet")):
        values = result["value"].to_numpy(float).reshape(len(table) + 1, -1)
        assert_allclose(values[:-1, :-1], table, rtol=1e-5, atol=1e-5)
        assert_allclose(values[-1, :-1], table.sum(axis=0), rtol=1e-5, atol=1e-5)
        assert_allclose(values[:-1, -1], table.sum(axis=1), rtol=1e-5, atol=1e-5)
        assert values[-1, -1] == pytest.approx(table.sum(), rel=1e-5)
    assert "in layer 2, head 0, by who wrote" in Path("w.html").read_text(encoding="utf-8")
    assert Path("w.svg").read_text(encoding="utf-8").startswith("<svg")


def test_why_refuses_wrong_arguments(run: Run, subtests: pytest.Subtests) -> None:
    check_refused(
        partial(run, "why", CATS),
        subtests,
        (("--query", "10"), 1, "no token 10: this text has tokens 0 to 9"),
        (("--query", "3", "--key", "4"), 1, "query 3 doesn't see key 4"),
        (("--layer", "4"), 1, "no layer 4: this model has"),
        (("--key", "-1"), 2, "-1"),
        (("--raw",), 2, "--raw is for files and JSON: add --out or --json"),
        (("--out", "w.npz"), 2, "w.npz must end with one of .svg"),
    )

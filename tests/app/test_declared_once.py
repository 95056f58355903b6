"""A page, parameter, stage or head score more: declared in one place, and all else follows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis.scores import SCORES
from tests.app.another_page import added
from tests.app.another_score import NAME, TEXT
from tests.app.pages import ROOT
from tests.bundled import bundled_model


def test_a_page_a_parameter_and_a_stage_are_declared_and_there(tmp_path: Path) -> None:
    added(tmp_path)
    command = [sys.executable, "-m", "tests.app.another_page"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    label, script = found["menu"]
    assert label == "**Fair weather**"
    assert script == "fair_weather"
    assert found["chips"] == 4  # the sentence's tokens: the frame is there
    assert any("at 30 degrees" in said for said in found["read"])
    entries = [entry for entry in found["words"].split("\n\n") if entry.startswith("**")]
    assert [entry.partition("]")[0] for entry in entries] == ["**[Token", "**[Head"]
    assert found["address"] == "10"
    assert found["kept"]
    value, told = found["odd"]
    assert value == 20
    assert "degrees: 7 can't be shown here. It must be 10 or 20 or 30." in told
    assert "| `degrees` | How warm | one of those offered | `20` | Fair weather |" in found["table"]


OTHERS = list(SCORES)
TITLES = [score.title for score in SCORES.values()]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a process sees in which the registry had one more before anything read it."""
    asked = [sys.executable, "-m", "tests.app.another_score", str(tmp_path_factory.mktemp("one"))]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def second_token(model: gpt2viz.Model) -> list[list[float]]:
    """The mean weight on token 1 of queries 1 …, by layer and head."""
    run, config = gpt2viz.trace(model, TEXT), model.config
    return [
        [float(np.mean([row[1] for row in run.stage("weights", n, h)[1:]])) for h in range(nh)]
        for n, nh in enumerate([config.n_head] * config.n_layer)
    ]


def test_find_has_it(seen: Any) -> None:
    page = seen["bundled"]["sentence"]
    assert_allclose(
        page["maps"][f"{NAME}, your sentence"], second_token(bundled_model()), rtol=1e-5
    )
    assert page["ranked"] == ["layer", "head", NAME, *TITLES]
    assert any(
        "It looks at token 1 (Nobody 2026)." in said and "mean over queries" in said
        for said in page["said"]
    )
    (words,) = (said for said in page["said"] if "On this page" in said)
    assert re.search(r"^\*\*\[?Causal mask", words, re.MULTILINE)


def test_a_survey_from_before_is_read_and_says_that_it_lacks_it(seen: Any) -> None:
    page = seen["bundled"]["survey"]
    assert page["warnings"] == []
    assert page["maps"][f"{NAME}, many texts"] is None
    assert page["notes"].count("not in this\nsurvey") == 1
    assert page["ranked"] == []
    assert [f"lacks “{NAME}”" in info for info in page["info"]] == [True]


def test_a_new_survey_has_it(seen: Any) -> None:
    assert seen["stored"] == sorted([*OTHERS, NAME])
    page = seen["tiny"]["survey"]
    assert page["ranked"] == ["layer", "head", NAME, "± (95 %)", *TITLES]
    assert "not in this\nsurvey" not in page["notes"]
    assert np.shape(page["maps"][f"{NAME}, many texts"]) == (3, 4)


def test_the_command_prints_it_last(seen: Any) -> None:
    lines = seen["printed"].splitlines()
    assert [line.strip().startswith(NAME) for line in lines] == [False] * 25 + [True] * 3


def test_a_training_follows_it(seen: Any) -> None:
    before = ["previous token", "first token", "induction"]
    assert seen["followed"] == {"bundled": before, "tiny": [*before, NAME]}
    assert NAME in seen["on the card"]


def test_the_guide_must_list_it(seen: Any) -> None:
    assert seen["in the guide"].startswith(f"| {NAME} | mean over queries t ≥ 1 of w(t, 1) | It")

"""``gpt2viz surprise``, ``lens``, ``contributions``, ``route`` and ``generate``."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.labels import label
from tests.bundled import CATS, N_HEAD, N_LAYER, bundled_model
from tests.cli.conftest import Refused, Run, check_refused
from tests.numpy_gpt2 import softmax


def json_of(run: Run, *arguments: str) -> Any:
    return json.loads(run(*arguments, "--json", "-q").stdout)


def test_surprise(run: Run) -> None:
    trace = gpt2viz.trace(bundled_model(), CATS)
    p, ids = softmax(trace.logits[0].astype(float)), trace.token_ids
    bits = [-np.log2(p[t - 1, ids[t]]) for t in range(1, len(ids))]
    result = json_of(run, "surprise", CATS)
    assert result["bits"][0] is None
    assert_allclose(result["bits"][1:], bits, rtol=1e-4)
    assert (result["tokens"][1], result["what"]) == (" cat", "surprise")
    lines = run("surprise", CATS).stdout.splitlines()
    assert lines[0].split() == ["0", "-", "The"]
    assert lines[9].split() == ["9", f"{bits[8]:.2f}", "·sat"]
    edited = json_of(run, "surprise", CATS, "--edits", "off:0.0")
    assert edited["bits"][9] != result["bits"][9]


def test_lens(run: Run) -> None:
    model = bundled_model()
    trace = gpt2viz.trace(model, CATS)
    p = softmax(trace.logits[0, 1].astype(float))
    result = json_of(run, "lens", CATS, "--position", "1")
    last = result["places"][-1]
    best = int(p.argmax())
    assert (result["position"], result["answer"], last["token_id"]) == (1, best, best)
    assert (last["stage"], last["layer"], last["rank_of_the_answer"]) == ("residual_out", 3, 1)
    assert last["probability"] == pytest.approx(p.max(), rel=1e-4)
    assert last["entropy"] == pytest.approx(-(p * np.log2(p)).sum(), rel=1e-4)
    assert result["places"][0]["stage"] == "embedding"
    lines = run("lens", CATS).stdout.splitlines()
    assert len(lines) == len(result["places"])
    assert lines[-1].startswith("residual_out.3    58.3 %  answer 1 ")
    assert lines[-1].split()[-1] == label(b" on")


def test_contributions(run: Run) -> None:
    model = bundled_model()
    trace = gpt2viz.trace(model, CATS)
    on, down = (model.tokenizer.encode(word)[0] for word in (" on", " down"))
    result = json_of(run, "contributions", CATS, "--token", " on", "--versus", " down")
    assert (result["token"], result["versus"], result["position"]) == (on, down, 9)
    logits = trace.logits[0, 9]
    assert result["logit"] == pytest.approx(float(logits[on] - logits[down]), abs=1e-3)
    assert sum(result["parts"].values()) == pytest.approx(result["logit"], abs=1e-3)
    assert len(result["parts"]) == 3 + N_LAYER * (N_HEAD + 2)
    assert result["parts"].keys() > gpt2viz.route(model, trace, on).rest.keys() - {"rounding"}
    assert json_of(run, "contributions", CATS)["token"] == int(logits.argmax())
    lines = run("contributions", CATS).stdout.splitlines()
    assert len(lines) == 13
    sizes = [abs(float(line.split()[0])) for line in lines[:-1]]
    assert sizes == sorted(sizes, reverse=True)
    assert lines[-1].endswith(f"in all, from {3 + N_LAYER * (N_HEAD + 2)} contributions: ' on'")


def test_route(run: Run) -> None:
    trace = gpt2viz.trace(bundled_model(), CATS)
    expected = gpt2viz.route(bundled_model(), trace, " on", 3)
    result = json_of(run, "route", CATS, "--token", " on", "--query", "3")
    assert (result["heads"], result["rest"]) == (expected.heads.tolist(), expected.rest)
    every = run("route", CATS, "--query", "3", "--top", "999").stdout.splitlines()
    assert len(every) == 1 + 4 * N_LAYER * N_HEAD + len(expected.rest)  # of the 4 tokens seen
    ((layer, head, _, key), added), *_ = gpt2viz.route(bundled_model(), trace, " on").top()
    lines = run("route", CATS, "--top", "6").stdout.splitlines()
    assert lines[5] == f"{added:>9.3f}  head {layer}.{head} from {key} ({trace.labels[key]})"


def test_generate(run: Run) -> None:
    model = bundled_model()
    ids = model.tokenizer.encode("A crane ate")
    for _ in range(4):  # greedy: the most probable token, again and again
        ids.append(int(gpt2viz.trace(model, ids).logits[0, -1].argmax()))
    text = model.tokenizer.decode(ids)
    assert run("generate", "A crane ate", "-n", "4").stdout == f"{text}\n"
    result = json_of(run, "generate", "A crane ate", "--tokens", "4")
    assert [choice["token"] for choice in result["choices"]] == ids[-4:]
    assert result["added"] == model.tokenizer.decode(ids[-4:])
    drawn = ("generate", "A crane", "-n", "5", "--temperature", "1.5", "--top-k", "40", "-q")
    assert run(*drawn, "--seed", "1").stdout == run(*drawn, "--seed", "1").stdout
    assert run(*drawn, "--seed", "1").stdout != run(*drawn, "--seed", "2").stdout
    assert run("generate", "-", "-n", "1", stdin=b"A crane ate\n").exit_code == 0
    first = json_of(run, "generate", "A crane", "-n", "3", "--bos")
    assert first == json_of(run, "generate", "<|endoftext|>A crane", "-n", "3", "--special")
    assert first["token_ids"] == model.tokenizer.encode("A crane", bos=True)


def test_wrong_arguments_are_refused(run: Run, subtests: pytest.Subtests) -> None:
    cases: list[Refused] = [
        (("lens", CATS, "--position", "10"), 1, "no token 10: this text has tokens 0 to 9"),
        (("contributions", CATS, "--position", "-11"), 1, "no token -11"),
        (("contributions", CATS, "--token", " unbelievably"), 1, "isn't a single token; give one"),
        (("surprise", ""), 1, "There is no text yet"),
        (("surprise", "A", "-m", ""), 1, "no model and no folder ''"),
        (("generate", "A", "--top-p", "0"), 2, "--top-p"),
        (("generate", "A", "--top-k", "3"), 2, "--seed need a --temperature above 0"),
        (("generate", "A", "--temperature", "-1"), 2, "--temperature"),
    ]
    check_refused(run, subtests, *cases)

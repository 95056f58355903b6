"""``gpt2viz models``, ``heads``, ``convert``, ``app``, and the command as a whole."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from socket import gethostname
from typing import Any

import numpy as np
import pandas as pd
import pytest
import streamlit as st
import torch
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.torch import load_file

import gpt2viz
from gpt2viz import settings
from gpt2viz.analysis.scores import SCORES, head_scores
from gpt2viz.app import server
from gpt2viz.cli import COMMANDS, main, options
from gpt2viz.model.checkpoint import BUNDLED
from tests import layouts
from tests.bundled import PARAMETERS
from tests.checkpoints import weights_of, write_checkpoint
from tests.cli.conftest import Run, check_refused


def test_help_has_an_example_of_each_command(run: Run, subtests: pytest.Subtests) -> None:
    for command in COMMANDS:
        with subtests.test(command=command):
            of_command = run(command, "--help").stdout
            assert f"  gpt2viz {command} " in of_command or command == "models"
            listed = " ".join(run("--help").stdout.split())
            assert f" {command} {COMMANDS[command]} " in f"{listed} "
            text = " ".join(of_command.replace(' ("-" reads stdin)', "").split())
            assert COMMANDS[command] in text


def test_without_arguments_the_help_is_printed(run: Run) -> None:
    result = run()
    assert result.stdout == run("--help").stdout
    assert (result.exit_code, result.stderr) == (0, "")
    assert '\n      gpt2viz trace "A crane ate fish"   ' in result.stdout


def test_the_code_to_convert_a_pickle_runs(folder: Path, tmp_path: Path) -> None:
    pickled = folder / "pytorch_model.bin"
    torch.save(load_file(folder / "model.safetensors"), pickled)
    numbers = gpt2viz.trace(gpt2viz.load_model(folder), [5, 6]).logits
    (folder / "model.safetensors").unlink()
    message = CliRunner().invoke(main, ["trace", "A", "-m", str(folder), "-q"])
    assert message.exit_code == 1
    text, recipe = message.stderr.split(":\n\n")
    assert text.startswith(f"gpt2viz: {folder}: the weights are only there as a pickle")
    (tmp_path / "recipe.py").write_text(recipe)
    runpy.run_path(str(tmp_path / "recipe.py"))
    again = gpt2viz.trace(gpt2viz.load_model(folder), [5, 6]).logits
    assert_array_equal(again, numbers)
    with weights_of(folder) as weights:
        weights["score.weight"] = torch.ones(2, 24)
    named = CliRunner().invoke(main, ["trace", "A", "-m", str(folder)])
    assert (named.exit_code, "score.weight" in named.stderr) == (0, True)


HELP = """
import sys
from gpt2viz.cli import main
try:
    main(["--help"])
finally:
    print("loaded", *{"torch", "pandas", "plotly", "pyarrow", "streamlit"} & set(sys.modules))
"""


def test_help_does_not_import_torch(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded"
    assert "Open the app; Ctrl-C ends it." in done.stdout


#: Escape sequences that clear a terminal, in 7 and in 8 bits, and a right-to-left override.
HOSTILE = "\x1b[2J\x9b2J\u202e\U000e0001"


def harmless(printed: str) -> bool:
    """True if a terminal acts on nothing in it but the ends of lines."""
    return not set(HOSTILE) - set("[2J") & set(printed)


def test_control_characters_in_names_are_escaped(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = tmp_path / f"whole{HOSTILE}", tmp_path / f"broken{HOSTILE}"
    for folder in (whole, broken):
        write_checkpoint(folder)
    with weights_of(broken) as weights:
        weights[HOSTILE] = torch.zeros(1)
    monkeypatch.setenv(settings.MODELS_VARIABLE, f"{whole}{os.pathsep}{broken}")
    refused = run("trace", "A crane", "--model", str(broken))
    assert refused.exit_code == 1
    assert "\\u001b[2J\\u009b2J\\u202e\\U000e0001 (1,) has no place" in refused.stderr
    listed, for_programs = run("models"), run("models", "--json")
    assert "whole\\u001b[2J" in listed.stdout
    assert "broken\\u001b[2J" in listed.stderr
    assert whole.name in [row["name"] for row in json.loads(for_programs.stdout)]
    traced = run("trace", "A crane", "--model", whole.name)
    as_json = run("trace", "A crane", "--model", whole.name, "--json")
    for result in (refused, listed, for_programs, traced, as_json, run("trace", HOSTILE)):
        assert harmless(result.stdout)
        assert harmless(result.stderr)


def test_version(run: Run) -> None:
    assert run("--version").stdout == f"gpt2viz {gpt2viz.__version__}\n"


def test_models(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mine", "theirs", "spoiled"):
        write_checkpoint(tmp_path / "config" / "gpt2viz" / name)
    (tmp_path / "config" / "gpt2viz" / "spoiled" / "model.safetensors").write_bytes(b"no")
    hub = tmp_path / "cache" / "models--someone--tiny"
    write_checkpoint(hub / "snapshots" / "abc")
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("abc")
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(tmp_path / "config" / "gpt2viz" / "theirs"))
    listed = tmp_path / "config" / "gpt2viz" / "gpt2viz.toml"
    listed.write_text('models = ["mine", "spoiled"]')
    result = run("models", "--json")
    actual = {row["name"]: row for row in json.loads(result.stdout)}
    sources = {name: row["source"] for name, row in actual.items()}
    configured = dict.fromkeys(("theirs", "mine"), "configured")
    assert sources == configured | {"stories": "bundled", "someone/tiny": "hub cache"}
    assert actual["stories"]["parameters"] == PARAMETERS
    assert "spoiled can't be loaded" in result.stderr
    assert run("models", "--json", "--quiet").stderr == ""
    assert f"{4e-6 * PARAMETERS:.1f} MB" in run("models").stdout
    for name in ("mine", "someone/tiny", str(tmp_path / "config" / "gpt2viz" / "mine")):
        traced = json.loads(run("trace", "A crane", "--model", name, "--json").stdout)
        assert traced["model"] == (name if name == "someone/tiny" else "mine")
    listed.write_text("models = [")
    result = run("models")
    assert result.exit_code == 1
    assert "gpt2viz.toml: can't be read" in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pseudo-terminals")
def test_the_progress_bar_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    now = count(0, 20_000)  # seconds: so slow that days are left
    monkeypatch.setattr("time.time", lambda: next(now))
    reading, writing = os.openpty()
    with (
        open(reading, "rb", 0) as terminal,
        monkeypatch.context() as patched,
    ):
        with open(writing, "w") as screen:
            patched.setattr("sys.stderr", screen)
            with options.bar(False, "Scoring", 6000) as tell:
                for done in range(0, 6001, 60):
                    tell(done)
        pieces = []
        with suppress(OSError):  # the other end is closed: that was all
            while piece := terminal.read(100_000):
                pieces.append(piece)
        drawn = b"".join(pieces).decode()
    lines = [line for line in re.split(r"[\r\n]|\x1b\[[?0-9;]*[A-Za-z]", drawn) if line.strip()]
    assert len(lines) > 50
    assert "d " in max(lines, key=len)
    assert max(map(len, lines)) <= 40


def test_heads(run: Run, tiny_folder: Path) -> None:
    texts = ["A crane ate fish. A crane ate fish. A crane", "it was too tired; it was too tired"]
    Path("corpus.txt").write_text("\n".join(texts), encoding="utf-8")
    common = ("heads", "--corpus", "corpus.txt", "--model", str(tiny_folder), "--workers", "1")
    result = run(*common, "--tokens", "12", "--json")
    assert result.stderr.splitlines() == ["Scoring: 100 %"]
    model = gpt2viz.load_model(tiny_folder)
    passages = [
        ids[start : start + 12]
        for ids in map(model.tokenizer.encode, texts)
        for start in range(0, len(ids), 12)
    ]
    scored = [head_scores(gpt2viz.trace(model, ids)) for ids in passages if len(ids) >= 8]
    table = pd.DataFrame(json.loads(result.stdout))
    assert table[["low", "high"]].isna().all(axis=None)
    for name in SCORES:
        mean = np.nanmean([scores[name] for scores in scored], axis=0)
        printed = table[table["score"] == name]["mean"].to_numpy().reshape(mean.shape)
        assert_allclose(printed, mean, atol=1e-6, err_msg=name)
    actual = ("--out", "found", "--about", "Two.", "--quiet")
    result = run(*common, "--tokens", "12", "--top", "1", *actual)
    assert result.stderr == ""
    best = table.sort_values("mean", ascending=False).groupby("score").head(1)
    lines = [line.rsplit(maxsplit=7) for line in result.stdout.splitlines()[1:]]
    printed = {name.strip(): (int(layer), int(head)) for name, layer, head, *_ in lines}
    assert {tuple(line[4:6]) for line in lines} == {("-", "-")}  # two documents give no interval
    assert printed == {str(row.score): (row.layer, row.head) for row in best.itertuples()}
    assert Path("found", "heads.parquet").is_file()
    assert json.loads(Path("found", "survey.json").read_text())["about"] == "Two."
    assert run("heads", "--corpus", "nowhere.txt").exit_code == 2


def test_heads_of_every_checkpoint_and_the_step_of_birth(run: Run, tmp_path: Path) -> None:
    """No head is born at step 600, which has the same weights as step 1,300."""
    for step in (5, 20, 1300):
        write_checkpoint(folder := tmp_path / "grown" / f"step-{step}", seed=step, n_layer=1)
        with weights_of(folder) as weights:
            weights["transformer.h.0.attn.c_attn.weight"] *= 1 + step / 300  # sharper and sharper
    shutil.copytree(folder, folder.with_name("step-600"))
    Path("corpus.txt").write_text("A crane ate fish. A crane ate fish. A crane", encoding="utf-8")
    given = "--corpus corpus.txt --workers 1 --tokens 12 --steps --out found"
    common = ("heads", "--model", str(tmp_path / "grown"), *given.split())
    table, best = (run(*common, *more) for more in (["--json"], ["--top", "4", "--quiet"]))
    assert table.stderr.startswith("step-1300: steps 600, 1,300 have the same weights. All ")
    assert best.stderr == ""
    rows, lines = json.loads(table.stdout), best.stdout.splitlines()
    means = {(r["step"], r["score"], r["layer"], r["head"]): r["mean"] for r in rows}
    assert len(means) == 4 * len(SCORES) * 4
    assert lines[0].split()[-2:] == ["documents", "born"]
    assert len(lines) == 1 + len(SCORES) * 4
    message = set()
    for line in lines[1:]:
        habit, layer, head, mean, *_, born = line.strip().rsplit(maxsplit=8)
        by_step = {s: means[s, habit, int(layer), int(head)] for s in (5, 20, 1300)}
        assert float(mean) == pytest.approx(by_step[1300], abs=6e-4)
        first = min(s for s in by_step if by_step[s] >= by_step[1300] / 2)
        a_weight = habit not in ("largest weight", "mean distance", "entropy")
        assert born == (f"{first:,}" if a_weight and by_step[1300] >= 0.2 else "-")
        message.add(born)
    assert len(message) > 2


def test_heads_reads_json_lines_parquet_and_stdin(run: Run, tiny_folder: Path) -> None:
    texts = ["A crane ate fish. A crane ate fish. A crane", "it was too tired; it was too tired"]
    rows = [{"id": n, "body": text} for n, text in enumerate(texts)]
    lines = "\n".join(map(json.dumps, rows))
    Path("corpus.jsonl").write_text(lines, encoding="utf-8")
    pd.DataFrame(rows).to_parquet("corpus.parquet")
    Path("corpus.txt").write_text("\n".join(texts), encoding="utf-8")

    def scored(corpus: str, *more: str, stdin: str | None = None) -> str:
        common = ("--model", str(tiny_folder), "--workers", "1", "--tokens", "12", "--json", "-q")
        return run("heads", "--corpus", corpus, *common, *more, stdin=stdin).stdout

    plain = scored("corpus.txt")
    assert len(json.loads(plain)) == len(SCORES) * 12
    assert scored("corpus.jsonl", "--field", "body") == plain
    assert scored("corpus.parquet", "--field", "body") == plain
    for mark in ("", "\ufeff"):
        assert scored("-", stdin=mark + "\n".join(texts)) == plain
    Path("folder").mkdir()
    Path("folder", "marked.txt").write_text(texts[0], encoding="utf-8-sig")
    Path("alone.txt").write_text(texts[0], encoding="utf-8")
    assert scored("folder") == scored("alone.txt")
    assert scored("-", "--field", "body", stdin=lines) == plain
    out = ("--field", "body", "--out", "found")
    assert scored("corpus.jsonl", *out) == plain
    assert json.loads(Path("found", "survey.json").read_text())["field"] == "body"


def test_heads_refuses_wrong_arguments(
    run: Run, tiny_folder: Path, subtests: pytest.Subtests
) -> None:
    Path("corpus.txt").write_text("A crane ate fish. A crane ate fish.", encoding="utf-8")
    Path("short.txt").write_text("A", encoding="utf-8")
    for folder, file in (("broken", "survey.json"), ("compared", "shard-000000.npz")):
        Path(folder).mkdir()
        Path(folder, file).write_text("{")
    check_refused(
        partial(run, *f"heads -c corpus.txt -m {tiny_folder} --workers 1 --tokens 12".split()),
        subtests,
        (("--device", "abacus"), 1, "no device 'abacus'"),
        (("--out", "broken"), 1, "survey.json: can't be read"),
        (("--out", "compared"), 1, "holds a survey of other texts"),
        (("--corpus", "short.txt", "-q"), 1, "None of the texts has 8 tokens"),
        (("--field", "body"), 1, "corpus.txt has no field 'body'"),
        (("--address", "here:1"), 2, "add --engine ray"),
        (("--about", "Two."), 2, "add --out"),
    )


def test_convert(run: Run, tmp_path: Path) -> None:
    network = layouts.random_weights(layouts.CurrentGPT(nano=True, bias=True, mask=False))
    layouts.save_nano(network, tmp_path / "ckpt.pt", True, False)
    result = run("convert", str(tmp_path / "ckpt.pt"), "mine")
    assert result.stdout == "mine: 3 layers of 4 heads, C = 24, vocabulary 430, 24 positions\n"
    assert "Now put the vocabulary of its training into mine: vocab.json" in result.stderr
    assert Path("mine", "model.safetensors").is_file()
    result = run("convert", str(tmp_path / "ckpt.pt"), "mine")
    assert (result.exit_code, "mine is not empty" in result.stderr) == (1, True)
    actual = json.loads(run("convert", str(tmp_path / "ckpt.pt"), "again", "--json", "-q").stdout)
    assert actual["parameters"] == sum(p.numel() for p in network.parameters())


#: Streamlit's settings and the app's arguments, for each app that would have started.
Started = list[tuple[dict[str, Any], list[str]]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Record apps instead of starting them."""
    given: Started = []
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(server, "_limited", False)

    def note(_app: st.App, config: dict[str, Any]) -> None:
        given.append((config, sys.argv))

    monkeypatch.setattr(st.App, "run", note)
    return given


def test_app_is_local_and_passes_on_the_owners_arguments(
    run: Run, started: Started, tiny_folder: Path
) -> None:
    folder = str(tiny_folder)
    arguments = ("--model", folder, "--allow-model", "gpt2", "--allow-model", "a/b")
    assert run("app", "--port", "8700", "--no-browser", *arguments).exit_code == 0
    ((config, own),) = started
    assert config == {
        "server.port": 8700,
        "server.address": "127.0.0.1",
        "server.allowedHosts": ["localhost", "127.0.0.1", "::1"],
        "server.headless": True,
        "server.scriptHealthCheckEnabled": True,
        "logger.hideWelcomeMessage": True,
    }
    assert own == [str(settings.APP / "app.py"), *arguments, "--device", "cpu"]


@pytest.mark.parametrize(
    ("given", "hosts"),
    [
        (["--allow-host", "a.example"], [*settings.LOCAL, "a.example"]),
        (["--host", "0.0.0.0"], ["*"]),  # noqa: S104
        (["--host", "0.0.0.0", "--allow-host", "a.example"], [*settings.LOCAL, "a.example"]),  # noqa: S104
    ],
)
def test_app_answers_to_the_host_names_that_are_allowed(
    run: Run, started: Started, given: list[str], hosts: list[str]
) -> None:
    assert run("app", "--port", "8700", "--no-browser", *given).exit_code == 0
    ((config, _),) = started
    assert config["server.allowedHosts"] == hosts


@pytest.mark.parametrize(
    ("host", "there"),
    [
        ("127.0.0.1", "http://127.0.0.1:8700;"),
        ("::1", "http://[::1]:8700;"),
        ("0.0.0.0", f"http://localhost:8700, for other machines http://{gethostname()}:8700;"),  # noqa: S104
    ],
)
def test_app_prints_its_address_and_opens_a_browser_there(
    run: Run, monkeypatch: pytest.MonkeyPatch, host: str, there: str
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("gpt2viz.cli.serve.check_free", lambda *_: None)  # a machine without IPv6
    monkeypatch.setattr(
        "gpt2viz.serving.pages.open_app", lambda *_, browser: opened.append(browser)
    )
    text = run("app", "--port", "8700", "--host", host).stdout
    assert text == f"Starting gpt2viz at {there} Ctrl-C ends it.\n"
    assert opened == [there.rstrip(";").partition(",")[0]]


def test_app_refuses_wrong_arguments_before_it_starts(
    run: Run, started: Started, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    check_refused(
        run,
        subtests,
        (("ap",), 2, "No such command 'ap'"),
        (("app", "--model", str(tmp_path)), 1, "no config.json"),
        (("app", "--model", "nowhere"), 1, "no model and no folder 'nowhere'"),
        (("app", "--device", "abacus"), 1, "no device 'abacus'"),
        (("app", "--port", "70000"), 2, "70000"),
        (("app", "--host", "192.0.2.1"), 1, "192.0.2.1:8501 can't be used"),
        (("app", "--host", ""), 1, ":8501 can't be used"),
        (("serve", "--port", "8502"), 2, "--port and --metrics-port are both 8502"),
    )
    assert not started


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_a_closed_pipe_is_no_traceback(arguments: list[str]) -> None:
    command, pipe = [sys.executable, "-m", "gpt2viz", *arguments], subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, cwd=BUNDLED.parents[2])
    assert process.stdout
    process.stdout.close()
    _, message = process.communicate()
    assert (process.returncode, message) == (1, b"")


def test_a_closed_stdin_is_an_empty_text() -> None:
    command = f"{sys.executable} -m gpt2viz shapes - <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, cwd=BUNDLED.parents[2])
    assert done.stderr.endswith(b"gpt2viz: There is no text yet. Type a word or a sentence.\n")

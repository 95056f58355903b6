"""A plain install and each extra alone work, and name the extra that anything else needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from importlib import import_module

import pytest
from safetensors.torch import load_file

from gpt2viz.cli import COMMANDS
from tests import layouts
from tests.checkpoints import write_checkpoint
from tests.gguf_files import TINY, write_gguf
from tests.package import bare
from tests.package.licences import ROOT, extras, required

#: Line -> the extra that it needs, or "" for none.
NEEDS = {
    line: extra
    for table in (bare.COMMANDS, bare.PYTHON)
    for extra, lines in table.items()
    for line in lines
}
NEEDS |= {f"{name} --help": "" for name in COMMANDS}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Extra -> line -> its error if a package is missing, else ""."""
    folder = tmp_path_factory.mktemp("bare")
    write_checkpoint(folder / "tiny")
    tiny = load_file(folder / "tiny" / "model.safetensors")
    write_gguf(folder / "tiny.gguf", "gpt2", TINY, tiny, n_layers=3)
    network = layouts.random_weights(layouts.CurrentGPT(nano=True, bias=True, mask=False))
    layouts.save_nano(network, folder / "ckpt.pt", True, False)
    (folder / "texts.txt").write_text("A crane ate fish. A crane ate corn.\n" * 3)
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    none = {"CHROMIUM": str(folder / "no browser"), "OMP_NUM_THREADS": "1"}
    made = subprocess.run(
        [sys.executable, "-m", "tests.package.bare", str(folder)],
        cwd=ROOT,
        env=os.environ | home | none,
        capture_output=True,
        text=True,
    )
    assert not made.returncode, made.stderr
    results: dict[str, dict[str, str]] = json.loads(made.stdout)
    return results


@cache
def brings(extra: str) -> set[str]:
    """The packages that an extra brings beyond a plain install, by name; none for ""."""
    return {requirement.name for requirement in required(*filter(None, [extra])) - required()}


def test_every_line_runs_or_names_the_missing_extra(
    outcomes: dict[str, dict[str, str]],
) -> None:
    wrong = []
    for here, text in outcomes.items():
        tried = {line: expected for line, expected in NEEDS.items() if expected or not here}
        assert text.keys() == tried.keys()
        for line, expected in tried.items():
            named = set(re.findall(r"pip install 'gpt2viz\[(\w+)\]'", text[line]))
            enough = brings(expected) <= brings(here)
            # A smaller extra may happen to bring what the line needs.
            if text[line] and (enough or named != {expected}):
                wrong.append(f"[{here}] {line}: {text[line]}")
            if not text[line] and not here and expected:
                wrong.append(f"[] {line}: doesn't need [{expected}]")
    assert not wrong, "\n".join(wrong)


def test_no_line_names_a_larger_extra_than_it_needs(outcomes: dict[str, dict[str, str]]) -> None:
    wrong = [
        f"{line} needs no more than [{other}]"
        for line, expected in NEEDS.items()
        for other in extras()
        if expected and brings(other) < brings(expected) and not outcomes[other][line]
    ]
    assert not wrong, "\n".join(wrong)


def test_every_command_and_documented_function_is_tried() -> None:
    """Everything else in the reference exists in a plain install."""
    assert {line.split()[0] for line in NEEDS} >= COMMANDS.keys()
    index, plain = (ROOT / "docs/index.md").read_text("utf-8"), " ".join(bare.COMMANDS[""])
    assert set(re.findall(r'^\| `pip install "\.\[(\w+)\]"`', index, re.M)) == extras().keys()
    (more,) = re.findall(r"Every command but([^.]*) prints", index)
    assert re.findall(r"`(\w+)`", more) == [name for name in COMMANDS if f"{name} " not in plain]
    lines = "\n".join(line for lines in bare.PYTHON.values() for line in lines)
    called = set(re.findall(r"[A-Za-z_]\w*", lines))
    names = re.findall(r"^::: (gpt2viz[\w.]*)$", (ROOT / "docs/api.md").read_text("utf-8"), re.M)
    names += [f"gpt2viz.export.{name}" for name in import_module("gpt2viz.export").__all__]
    missing = [
        f"{module}.{last}"
        for module, _, last in (name.rpartition(".") for name in names)
        if type(getattr(import_module(module), last)).__name__ == "function" and last not in called
    ]
    assert not missing

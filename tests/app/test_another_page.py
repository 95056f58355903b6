"""A page and a parameter more: each is declared in one place, and all else follows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.app.another_page import added


def test_a_page_and_a_parameter_are_declared_and_there(tmp_path: Path) -> None:
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
    assert (
        "| `degrees` | How warm it is | one of those offered | `20` | Fair weather |"
        in (found["table"])
    )

"""Threads sleep while they wait: that must be settled before torch is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WATCH = """
import importlib.abc, os, sys
class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("OMP_WAIT_POLICY"))
sys.meta_path.insert(0, Watch())
import gpt2viz
"""


@pytest.mark.parametrize(("given", "expected"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "A"}, "A")])
def test_how_threads_wait_is_set_before_torch(given: dict[str, str], expected: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"} | given
    command = [sys.executable, "-c", WATCH]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [expected]

"""The proxy for tests of the server."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture(scope="session")
def caddy() -> str:
    """The path of Caddy."""
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("Caddy isn't installed: apt-get install caddy")
    return program

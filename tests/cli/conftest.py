"""The command line in this process, isolated from the machine's settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from huggingface_hub import constants

from gpt2viz import settings
from gpt2viz.cli import main

Run = Callable[..., Result]
#: Refused arguments, the exit code, and a part of the line on stderr.
Refused = tuple[tuple[str, ...], int, str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``gpt2viz`` with arguments, in an empty folder."""
    monkeypatch.delenv(settings.MODELS_VARIABLE, raising=False)
    monkeypatch.delenv(settings.CONFIG_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def command(*arguments: str, stdin: str | bytes | None = None) -> Result:
        result = CliRunner().invoke(main, arguments, input=stdin, prog_name="gpt2viz")
        assert isinstance(result.exception, SystemExit | None), result.exception
        if result.exit_code:  # one line, and no partial output on stdout
            lines = [line for line in result.stderr.splitlines() if not line.endswith("…")]
            assert len(lines) == 1
            assert lines[0].startswith("gpt2viz: ")
            assert not result.stdout
        return result

    return command


def check_refused(run: Run, subtests: pytest.Subtests, *cases: Refused) -> None:
    for arguments, code, message in cases:
        with subtests.test(arguments=arguments, code=code):
            result = run(*arguments)
            assert result.exit_code == code
            assert message in result.stderr

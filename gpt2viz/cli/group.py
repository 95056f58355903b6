"""How every command ends: exit codes, and one line on stderr in place of a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from gpt2viz.errors import GPT2VizError

#: The input can't be done; the command was used wrongly; Ctrl-C.
FAILED, USAGE, INTERRUPTED = 1, 2, 130


class Group(click.Group):
    """A click group that says what went wrong in one line."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:
        """Run a command and exit: 0, ``FAILED``, ``USAGE`` or ``INTERRUPTED``."""
        named["standalone_mode"] = False
        try:
            code = super().main(args, *rest, **named)
        except click.UsageError as error:
            where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
            code = _say(f"{error.format_message()}{where}", USAGE)
        except click.ClickException as error:
            code = _say(error.format_message(), FAILED)
        except GPT2VizError as error:
            code = _say(str(error), FAILED)
        except BrokenPipeError:  # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = FAILED
        except OSError as error:
            code = _say(_plain(error), FAILED)
        except (click.Abort, KeyboardInterrupt):
            code = _say("stopped", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)


def _say(message: str, code: int) -> int:
    """Write a message to stderr in one line."""
    click.echo(f"gpt2viz: {' '.join(message.split())}", err=True)
    return code


def _plain(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)

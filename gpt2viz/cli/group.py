"""The group of commands: exit codes, and one line instead of a traceback."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from gpt2viz.errors import GPT2VizError
from gpt2viz.labels import escape_controls
from gpt2viz.model.tuning import tune_process

#: Exit codes: the input can't be used; the command was used wrongly; Ctrl-C.
FAILED, USAGE, INTERRUPTED = 1, 2, 130


class Group(click.Group):
    """A click group that loads a command on use, and reports an error in one line.

    ``helps`` has a line for each command: listing them loads no command, nor torch. A command is in
    the module of its name in ``gpt2viz.cli``, or in that of ``modules``.
    """

    def __init__(
        self, *rest: Any, helps: Mapping[str, str], modules: Mapping[str, str], **named: Any
    ) -> None:
        super().__init__(*rest, **named)
        self.helps, self.modules = helps, modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands' names, in the order of ``helps``."""
        return list(self.helps)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command with this name, or None if there is none."""
        if cmd_name not in self.helps:
            return None
        module = import_module(f"gpt2viz.cli.{self.modules.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for ``--help``."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.helps.items()))

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:
        """Tune this process, run a command, exit: 0, ``FAILED``, ``USAGE`` or ``INTERRUPTED``."""
        named["standalone_mode"] = False
        sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 (None if closed)
        if not (sys.argv[1:] if args is None else args):
            args = ["--help"]
        try:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, _interrupt)
            tune_process()
            code = super().main(args, *rest, **named)
        except click.UsageError as error:
            where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
            code = _print_error(f"{_one_line(error)}{where}", USAGE)
        except click.ClickException as error:
            code = _print_error(_one_line(error), FAILED)
        except GPT2VizError as error:
            code = _print_error(str(error), FAILED)
        except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = FAILED
        except OSError as error:
            plain = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            code = _print_error(plain, FAILED)
        except (click.Abort, KeyboardInterrupt):
            code = _print_error("stopped", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)


def _interrupt(_number: int, _frame: object) -> None:
    """Treat SIGTERM like Ctrl-C: clean up, and report it in one line."""
    raise KeyboardInterrupt


def _print_error(message: str, code: int) -> int:
    """Write a message to stderr on one line; code to paste keeps its lines."""
    click.echo(escape_controls(f"gpt2viz: {message}"), err=True)
    return code


def _one_line(error: click.ClickException) -> str:
    return " ".join(error.format_message().split())

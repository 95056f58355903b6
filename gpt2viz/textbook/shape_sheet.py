"""The shapes of all tensors of GPT-2 on a page to print."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpt2viz.model.config import GPT2Config
from gpt2viz.run.stages import AXES, STAGES, axis_sizes

_STYLE = """
body { font: 10.5pt/1.35 Georgia, serif; color: #000; max-width: 46em; margin: 1.5em auto;
  padding: 0 1em; background: #fff; }
h1 { font-size: 1.5em; }
table { border-collapse: collapse; margin: .6em 0; }
th, td { border: 1px solid #555; padding: .15em .6em; text-align: left; }
tr { break-inside: avoid; }
code { white-space: nowrap; }
@page { size: A4; margin: 14mm; }
@media print { body { margin: 0; padding: 0; max-width: none; } }
"""


def rows(config: GPT2Config, T: int) -> list[tuple[str, str, str, str]]:
    """(name, how it is made, axes, shape) of each tensor, in the order of one text of T tokens.

    What every layer makes is listed once.
    """
    sizes = axis_sizes(config, T)
    return [
        (
            stage.label,
            stage.formula,
            f"({', '.join(stage.axes)})",
            str(tuple(sizes[axis] for axis in stage.axes)),
        )
        for stage in STAGES
    ]


def page(config: GPT2Config, name: str, T: int) -> str:
    """The sheet as a page of HTML, with the sizes of a model and a text of T tokens."""
    sizes = axis_sizes(config, T)
    axes = [(axis, meaning, f"{sizes[axis]:,}") for axis, meaning in AXES.items()]
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f"<title>Shapes of {escape(name)}</title>\n<style>{_STYLE}</style>\n"
        f"<h1>Shapes of {escape(name)}</h1>\n"
        f"<p>One text of T = {T} tokens; {config.n_layer} layers, each with tensors of its own.</p>"
        f"\n{_table(('axis', 'how many of what', 'here'), axes)}"
        f"{_table(('tensor', 'made by', 'axes', 'shape here'), rows(config, T))}</html>\n"
    )


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [_row("th", head), *(_row("td", row) for row in body)]
    return f"<table>\n{''.join(lines)}</table>\n"


def _row(kind: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>\n"

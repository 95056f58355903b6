"""``python -m tests.package.with_plugins FOLDER EXAMPLE``: gpt2viz with plugins installed.

``EXAMPLE`` is where ``examples/gpt2viz-example`` is installed, ``FOLDER`` an empty folder to work
in. Prints in JSON what the command line, Python and the app have; first with the example alone,
then also with a package in which everything is broken.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gpt2viz

TEXT = "A crane ate fish by the river"

BROKEN = """
import sys

from gpt2viz import EditKind
from gpt2viz.heads import Score

def wrong(weights, ids):
    return weights.mean()

def infinite(weights, ids):
    return weights.sum((-2, -1)) * float("inf")

TAKEN = Score("entropy", "f", "It is another's name.", wrong)
RAISES = Score("raises", "f", "It divides by zero.", lambda weights, ids: 1 / 0)
SHAPE = Score("one number", "f", "It has one number for all heads.", wrong)
INFINITE = Score("beyond", "f", "It is beyond all numbers.", infinite)
NONE = "no score"
EXITS = Score("exits", "f", "It ends the program.", lambda weights, ids: sys.exit("enough"))
FAILS = EditKind("fails", "divides by zero", lambda heads: heads / (1 // 0))
LATE = EditKind("late", "comes too late", lambda heads: heads)
TWICE = EditKind("twice", "counts twice", lambda heads: 2 * heads)

class Odd(BaseException):
    pass

def odd(heads):
    raise Odd("odd")

ODD = EditKind("odd", "is odd", odd)

def draw(view):
    raise LookupError("nothing")

def interrupt(view):
    raise KeyboardInterrupt
"""
#: A module that ends the program that imports it.
LEAVES = "raise SystemExit(3)"
ENTRIES = """
[gpt2viz.scores]
a = broken:TAKEN
b = broken:RAISES
c = broken:SHAPE
d = broken:NONE
e = broken_too:SCORE
f = broken:INFINITE
g = leaves:SCORE
h = broken:EXITS
[gpt2viz.edits]
fails = broken:FAILS
late = broken:LATE
twice = broken:TWICE
odd = broken:ODD
leaves = leaves:EDIT
[gpt2viz.pages]
find = broken:draw
worst_heads = broken:draw
interrupts = broken:interrupt
leaves = leaves:draw
"""


def add_broken(folder: Path) -> None:
    """Install a package "broken" 2.0 by hand."""
    message = folder / "broken-2.0.dist-info"
    message.mkdir(parents=True)
    (folder / "broken.py").write_text(BROKEN, encoding="utf-8")
    (folder / "leaves.py").write_text(LEAVES, encoding="utf-8")
    (message / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 2.0\n")
    (message / "entry_points.txt").write_text(ENTRIES)
    sys.path.append(str(folder))


def run_heads(folder: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``gpt2viz heads`` on a few words."""
    from click.testing import CliRunner

    from gpt2viz.cli import main

    (folder / "texts.txt").write_text(f"{TEXT}. {TEXT}.\n", encoding="utf-8")
    requests = ["heads", "--corpus", str(folder / "texts.txt"), "--tokens", "12", "--workers", "1"]
    result = CliRunner().invoke(main, [*requests, "--top", "1"])
    return result.exit_code, result.stdout, result.stderr


def opened(page: str, **chosen: str) -> dict[str, Any]:
    """The contents of a page, by kind of element."""
    from tests.app.pages import open_page, pictures, plain

    at = open_page(page, text=TEXT, **chosen)
    return {
        "menu": {
            link.proto.label.strip("*"): [link.proto.page, link.proto.query_string]
            for link in at.get("page_link")
        },
        "said": [plain(block.value) for block in at.markdown],
        "warnings": [block.value for block in at.warning],
        "errors": [block.value for block in at.error],
        "info": [block.value for block in at.info],
        "pictures": pictures(at),
        "buttons": [button.label for button in at.button],
        "kinds": [box.options for box in at.selectbox if box.key == "edit_kind"],
        "tables": [frame.value.to_dict("list") for frame in at.dataframe],
    }


def main(folder: Path, example: str) -> None:
    """Print the report: with the example, and then with the broken package too."""
    from gpt2viz.analysis.scores import SCORES, head_scores
    from gpt2viz.app import pages
    from gpt2viz.run.edit_kinds import ADDED_KINDS

    sys.path.append(example)
    seen: dict[str, Any] = {"scores": list(SCORES), "printed": run_heads(folder)}
    model = gpt2viz.load_model()
    run = gpt2viz.trace(model, TEXT)
    seen["late"] = gpt2viz.trace(model, TEXT, edits=gpt2viz.parse_edits("late:1.3")).logits.tolist()
    seen["what if"] = opened("what_if", edits="late:1.3")
    seen["confidence"] = head_scores(run)["confidence"].tolist()
    add_broken(folder / "site")
    SCORES._looked = ADDED_KINDS._looked = False  # as in a new process
    pages.added_pages.cache_clear()
    failed: list[str] = []
    result = head_scores(run, lambda error: failed.append(str(error)))
    seen |= {
        "troubles": SCORES.errors,
        "edit troubles": ADDED_KINDS.errors,
        "failed": failed,
        "scores then": {name: bool((of == of).all()) for name, of in result.items()},
        "printed then": run_heads(folder),
        "find": opened("find", habit="confidence", on="sentence"),
        "broken edit": opened("what_if", edits="fails:1.3"),
        "odd edit": opened("what_if", edits="odd:1.3"),
        "lambda": opened("what_if", edits="twice:1.3"),
        "page": opened("added", added="surest_heads", query="6"),
        "broken page": opened("added", added="worst_heads"),
        "interrupted page": opened("added", added="interrupts"),
        "page that leaves": opened("added", added="leaves"),
        "no page": opened("added", added="nobodys"),
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

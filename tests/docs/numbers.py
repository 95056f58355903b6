"""Find every head and number that the guides name again, on the bundled model, and write them.

python -m tests.docs.numbers

The tour's two heads and the sheets of the lessons are written too. Tests check the claims of the
sentences around the numbers; if a new model makes one untrue, the test fails and the sentence has
to be rewritten.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import gpt2viz
from gpt2viz.cli import main as gpt2viz_command
from tests.bundled import CATS, CRANE, back, bundled_model, copiers, itself, rests, weights
from tests.docs import lessons

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOUR = ROOT / "gpt2viz" / "app" / "frame" / "tour.py"
#: The lesson plans.
PLANS = ("teachers.md", "lessons/90-minutes.md", "lessons/week.md")
#: The guides that name heads.
GUIDES = (*PLANS, "researchers.md", "gallery.md")

Head = tuple[int, int]
#: How a guide names a head by its layer and number; "second" copies second most.
_NAMED = {
    "back": ("teachers.md", r"\[Layer (\d+), head (\d+)\]\("),
    "copier": ("teachers.md", r"\[Layer (\d+), head (\d+), from the last"),
    "second": ("researchers.md", r'"off:\d+\.\d+,off:(\d+)\.(\d+)"'),
    "itself": ("teachers.md", r"\[layer (\d+), head (\d+)\]\([^)]*\)\s+\(each token looks at its"),
    "rests": ("teachers.md", r"\[layer (\d+), head (\d+)\]\([^)]*\)\s+\(mostly at the first"),
}
#: All ways in which the guides write "layer {}, head {}".
_FORMS = (
    *("layer={}&head={}", "ayer {}, head {}", "ead {1} of layer {0}", "--layer {} --head {}"),
    *("layer={}, head={}", "off:{}.{}", "mean:{}.{}", "head {}.{}", "(model, {}, {})"),
    *('"weights", {}, {})', '"Attention weights", {}, {})', "heatmap({}, {})", "table({}, {})"),
    *('"weights.{}"][0, {}]',),
)


def heads() -> dict[str, Head]:
    """The heads that the guides should name, by role, found with the text ``CATS``."""
    first, second = copiers()[:2]
    return {
        "back": back(),
        "copier": first,
        "second": second,
        "itself": _reads_itself(*first),
        "rests": rests(),
    }


def _reads_itself(layer: int, head: int) -> Head:
    """The head that tells a copier's query its own token, or one that attends to itself."""
    model = bundled_model()
    row = gpt2viz.explain_row(model, gpt2viz.trace(model, CATS), layer, head, query=9)
    result = re.fullmatch(r"head (\d+)\.(\d+)", gpt2viz.reason(row, key=3).pairs[0].query_part)
    return (int(result[1]), int(result[2])) if result else itself()


def named() -> dict[str, Head]:
    """The heads that the guides name at present."""
    result = {}
    for role, (guide, pattern) in _NAMED.items():
        (head,) = set(re.findall(pattern, (DOCS / guide).read_text(encoding="utf-8")))
        result[role] = (int(head[0]), int(head[1]))
    return result


def with_heads(text: str, before: dict[str, Head], now: dict[str, Head]) -> str:
    """A guide that names the heads of ``now`` in place of those of ``before``."""
    written = {
        form.format(*before[role]): form.format(*now[role]) for role in before for form in _FORMS
    }
    either = "|".join(re.escape(old) + r"(?!\d)" for old in written)
    return re.sub(either, lambda result: written[result[0]], text)


def with_outputs(text: str) -> str:
    """A guide with the output of its code's ``print`` calls, in comments.

    Runs all code blocks in order, in the current folder, where they also write files.
    """
    space: dict[str, object] = {}

    def again(block: re.Match[str]) -> str:
        language, code = block.groups()
        if language == "python":
            return f"```python\n{_with_outputs(code, space)}```"
        for line in code.splitlines():
            command(line)
        return block[0]

    return re.sub(r"```(python|sh)\n(.*?)```", again, text, flags=re.DOTALL)


def _with_outputs(code: str, space: dict[str, object]) -> str:
    printed: list[str] = []
    space["print"] = lambda *parts: printed.extend(" ".join(map(str, parts)).splitlines())
    lines, shift = code.splitlines(), 0
    for statement in ast.parse(code).body:
        exec(ast.unparse(statement), space)  # noqa: S102 (our own guide)
        assert statement.end_lineno
        after = statement.end_lineno + shift
        end = after
        while end < len(lines) and lines[end].startswith("# "):
            end += 1
        message = re.fullmatch(r"(print\(.*\)  # )([^:]*)(:.*)?", lines[after - 1])
        if printed and end > after:
            lines[after:end] = [f"# {line}" for line in printed]
            shift += len(printed) - (end - after)
        elif message and len(printed) == 1:
            lines[after - 1] = f"{message[1]}{printed[0]}{message[3] or ''}"
        printed.clear()
    return "\n".join(lines) + "\n"


def command(line: str) -> None:
    """Run a command line of a guide, unless it opens the app."""
    name, *arguments = shlex.split(line)
    if arguments == ["app"]:
        return
    workers = ["--workers", "1"] if arguments[0] == "heads" else []
    result = CliRunner().invoke(gpt2viz_command, [*arguments, *workers], prog_name=name)
    assert result.exit_code == 0, result.stderr


def chance(text: str, word: str, edits: str = "", causal: bool = True) -> float:
    """The probability that a word comes next."""
    model = bundled_model()
    run = gpt2viz.trace(model, text, causal=causal, edits=gpt2viz.parse_edits(edits))
    return float(run.next_token_probabilities[0, model.tokenizer.encode(f" {word}")[0]])


def most_probable(text: str, causal: bool = True) -> str:
    """The word that most probably comes next."""
    model = bundled_model()
    run = gpt2viz.trace(model, text, causal=causal)
    return model.tokenizer.decode([int(run.next_token_probabilities[0].argmax())]).strip()


def sentences_with_numbers() -> dict[str, tuple[str, ...]]:
    """The lessons' sentences with numbers: a pattern for each, and the values of its groups."""
    result = heads()
    off, one_off = (f"off:{layer}.{head}" for layer, head in (result["back"], result["copier"]))
    on, down, short = chance(CATS, "on"), chance(CATS, "down"), "The cat sat"
    future = most_probable(CRANE, causal=False)
    copied = float(weights(CATS)[result["copier"]][9, 3])
    both: dict[str, tuple[Any, ...]] = {
        r"\*on\* leads with (\d+ %), \*down\* has (\d+ %)": (on, down),
        r"\*down\* leads with (\d+ %), and \*on\* has (\d+ %)": (
            *(chance(short, "down"), chance(short, "on")),
        ),
        r"says \*(\w+)\* with (\d+ %)": (future, chance(CRANE, future, causal=False)),
        r"\*on\* falls from (\d+ %) to (\d+ %)": (on, chance(CATS, "on", off)),
        r"\*on\* still leads with (\d+ %)": (chance(CATS, "on", one_off),),
        r"(\d+ %) of its attention is on \*on\*": (copied,),
    }
    return {
        pattern.replace(" ", r"\s+"): tuple(
            value if isinstance(value, str) else lessons.percent(value) for value in values
        )
        for pattern, values in both.items()
    }


def with_lesson(text: str) -> str:
    """A lesson plan with the values of ``sentences_with_numbers``."""
    for pattern, values in sentences_with_numbers().items():
        for result in reversed(list(re.finditer(pattern, text))):
            for n in range(len(values), 0, -1):
                text = text[: result.start(n)] + values[n - 1] + text[result.end(n) :]
    return text


def rewritten() -> dict[Path, str]:
    """Every guide, and the tour, with the right numbers. Runs their code in the current folder."""
    before, now = named(), heads()
    read = {name: (DOCS / name).read_text(encoding="utf-8") for name in GUIDES}
    guides = {name: with_heads(text, before, now) for name, text in read.items()}
    guides |= {name: with_lesson(guides[name]) for name in PLANS}
    guides["researchers.md"] = with_outputs(guides["researchers.md"])
    tour = f"BACK, COPY = {now['back']}, {now['copier']}"
    result = {DOCS / name: text for name, text in guides.items()}
    result |= {TOUR: re.sub("BACK, COPY = .*", tour, TOUR.read_text(encoding="utf-8"))}
    return result | lessons.sheets()


def main() -> None:
    """Write the files that are out of date, and print their names."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("books.txt").write_text(f"{CATS}.\n" * 4, encoding="utf-8")
        result = rewritten()
    for path, text in result.items():
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT), file=sys.stderr)


if __name__ == "__main__":
    main()

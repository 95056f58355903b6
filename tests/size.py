"""Count lines, modules and private names, and refuse any growth: ``make size``.

``AT_MOST`` only falls: lower it when a count gets smaller. A change that adds lines has to remove
as many; exceptions are in this file's history.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT, TESTS = ROOT / "gpt2viz", (ROOT / "tests", ROOT / "benchmarks")
SUFFIXES = (".py", ".js", ".css")

#: The limit of each count, and the aim.
AT_MOST = {
    "product lines": (59_192, 44_000),
    "of them app/": (24_017, 17_500),
    "lines of tests and benchmarks": (49_844, 37_000),
    "modules": (294, 300),
    "private names of Streamlit": (2, 3),
    "selectors of Streamlit's in theme.css": (5, 10),
    "names that say nothing": (0, 0),
    "docstrings that ask": (0, 0),
}

#: Participles and function words used as nouns, and a word with too many meanings.
VAGUE = re.compile(
    "found|one|said|told|wanted|asked|brought|handed|kept|spared|below|ahead|behind|places?"
)
#: The same in JavaScript: declared, a parameter, or a field of an object.
VAGUE_JS = re.compile(
    rf"(?:\b(?:const|let|function) |[(\[{{,]\s*)(?:{VAGUE.pattern})(?=\s?[=,:)\]}}(])"
)
#: Beginnings of questions: a docstring states what something does or is.
QUESTIONS = ("What ", "How ", "Where ", "Whether ", "Who ", "Which ")


def sources(*folders: Path) -> Iterator[Path]:
    """The source files below folders, without those that npm installed."""
    for path in (path for folder in folders for path in folder.rglob("*")):
        if path.suffix in SUFFIXES and "node_modules" not in path.parts:
            yield path


def lines(paths: Iterable[Path]) -> int:
    """The number of lines of these files, including empty ones and comments."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def prose() -> int:
    """The number of lines of the Textbook's text: multi-line strings that aren't docstrings."""
    total = 0
    for path in (PRODUCT / "app" / "course").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and isinstance(node.body[0], ast.Expr)
        }
        texts = {
            (node.lineno, node.end_lineno or node.lineno)
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr | ast.Constant)
            and isinstance(getattr(node, "value", ""), str)
            and id(node) not in docstrings
        }
        total += len({n for first, last in texts if last > first for n in range(first, last + 1)})
    return total


def private_names() -> set[str]:
    """Undocumented names of Streamlit that ``compat.py`` reads, looks for or replaces."""
    tree = ast.parse((PRODUCT / "app" / "compat.py").read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    imported = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and "streamlit" in (node.module or "")
        for alias in node.names
    }
    names = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.attr.startswith("_") or isinstance(node.ctx, ast.Store))
        and (node.value.id in imported or node.attr.startswith("_"))
    } | {
        str(getattr(node.args[1], "value", ""))
        for node in nodes
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr")
    }
    return {name for name in names if name and not name.startswith("__")}


def words() -> tuple[int, int]:
    """Count bindings of ``VAGUE`` names, and docstrings that begin with one of ``QUESTIONS``."""
    vague = asking = 0
    for path in sources(PRODUCT, *TESTS):
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".py":
            vague += len(VAGUE_JS.findall(text))
            continue
        for node in ast.walk(ast.parse(text)):
            name = ""
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            elif isinstance(node, ast.arg):
                name = node.arg
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                name = node.name
            vague += VAGUE.fullmatch(name.strip("_").lower()) is not None
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
                asking += (ast.get_docstring(node) or "").startswith(QUESTIONS)
    return vague, asking


def weigh() -> dict[str, int]:
    """The counts, by their names in ``AT_MOST``."""
    product, (vague, asking) = list(sources(PRODUCT)), words()
    theme = (PRODUCT / "app" / "theme.css").read_text(encoding="utf-8")
    return {
        "product lines": lines(product) - prose(),
        "of them app/": lines(sources(PRODUCT / "app")) - prose(),
        "lines of tests and benchmarks": lines(sources(*TESTS)),
        "modules": sum(path.suffix == ".py" for path in product),
        "private names of Streamlit": len(private_names()),
        "selectors of Streamlit's in theme.css": len(re.findall(r"\[data-testid|\.st[A-Z]", theme)),
        "names that say nothing": vague,
        "docstrings that ask": asking,
    }


def main() -> None:
    """Print the table; exit with an error if a count exceeds its limit."""
    heavier = []
    for name, weight in weigh().items():
        now, aim = AT_MOST[name]
        print(f"{weight:>7,}  {name:<40} at most {now:>6,}, aim {aim:>6,}")
        if weight > now:
            heavier.append(name)
    if heavier:
        sys.exit(f"More than before: {', '.join(heavier)}. Remove as much, or say why not.")


if __name__ == "__main__":
    main()

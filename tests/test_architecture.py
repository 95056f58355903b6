"""Imports point down the map in CONTRIBUTING, three modules register hooks, functions are short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    [ROOT / "app.py", *(ROOT / "pages").glob("*.py"), *(ROOT / "gpt2viz").rglob("*.py")]
)

#: The rows of CONTRIBUTING's map, by room: the rooms it may import, and the libraries it may not.
MAP = {
    room: (set(re.findall(r"`([\w.]+)/?`", rooms)), set(re.findall(r"`(\w+)`", libraries)))
    for room, rooms, libraries in re.findall(
        r"^\| `([\w.]+)/?` \|.*\| (.*?) \| (.*?) \|$",
        (ROOT / "CONTRIBUTING.md").read_text("utf-8"),
        re.M,
    )
}
#: Modules beside the rooms, which every room may use: plain words and files.
BASE = {"arrays", "errors", "extras", "files", "labels", "plugins", "settings"}
#: Modules above the rooms, which may use every room: what users import, and the command's start.
TOP = {"__init__", "__main__", "figures", "heads", "offline"}


def room_of(module: str) -> str:
    """The room of a dotted module: the longest name that the map has, or the module's own."""
    parts = module.split(".")
    if parts[0] != "gpt2viz":
        return "pages"
    if len(parts) == 1:
        return "__init__"
    longer = ".".join(parts[1:3])
    return longer if longer in MAP else parts[1]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path) for path in SOURCES}


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All syntax nodes of a file, the module first."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imports(code: Iterable[ast.AST]) -> Iterator[str]:
    """Dotted names of all imports, inside functions too, and of modules named in strings, as for
    ``import_module``.
    """
    for node in code:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and node.value in MODULES:
            yield node.value


def libraries_of(path: Path) -> set[str]:
    """The libraries that are imported at run time, not just for type annotations."""
    for_types = {
        id(inner)
        for node in nodes(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    result = imports(node for node in nodes(path) if id(node) not in for_types)
    return {name.split(".")[0] for name in result}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_map_has_every_room() -> None:
    folders = {p.name for p in (ROOT / "gpt2viz").iterdir() if (p / "__init__.py").is_file()}
    assert {room.split(".")[0] for room in MAP} == folders | {"pages"}
    assert not any("training" in allowed for allowed, _ in MAP.values())
    beside = {p.stem for p in (ROOT / "gpt2viz").glob("*.py")}
    assert beside == BASE | TOP


def test_paths_in_the_map_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    tables = [rest.partition("\n\n")[0] for rest in text.split("| go to |")[1:]]
    paths = {path for table in tables for path in re.findall(r"`([\w./]+/[\w./]*)`", table)}
    assert len(paths) > 12
    assert not {p for p in paths if not ((ROOT / p).exists() or (ROOT / "gpt2viz" / p).exists())}


def test_the_tests_mirror_the_rooms() -> None:
    folders = {p.name for p in (ROOT / "tests").iterdir() if (p / "__init__.py").is_file()}
    rooms = {p.name for p in (ROOT / "gpt2viz").iterdir() if (p / "__init__.py").is_file()}
    assert folders == rooms | {"browser", "docs", "js", "package", "soak"}


def test_imports_point_down() -> None:
    offenders = []
    for path in SOURCES:
        room, libraries = room_of(module_of(path)), libraries_of(path)
        ours = {room_of(name) for name in imports(nodes(path)) if name.startswith("gpt2viz.")}
        if room in BASE:
            wrong = ours - BASE | libraries & {
                "torch",
                "plotly",
                "pandas",
                "streamlit",
                "tokenizers",
            }
        elif room not in TOP:
            allowed, forbidden = MAP[room]
            # Any other name is one of the package itself.
            wrong = {name for name in ours if name in MAP} - allowed - {room}
            wrong |= libraries & forbidden
        else:
            continue
        offenders += [f"{relative(path)}: {name}" for name in sorted(wrong)]
    assert not offenders


def test_modules_do_not_import_from_their_own_package() -> None:
    """Else two threads, one importing a package and one a part of it, would deadlock, and Python
    would give one of them a half-initialised module."""
    waiting = [
        relative(path)
        for path in SOURCES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        and path.parent != ROOT / "gpt2viz"
        and path.name != "__init__.py"
        and node.module == module_of(path.parent / "__init__.py")
        and any(
            name.startswith(f"{module_of(path)}.")
            for name in imports(nodes(path.parent / "__init__.py"))
        )
    ]
    assert not waiting


def test_functions_fit_a_screen() -> None:
    assert not [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 50
    ]


def test_only_renderers_and_exports_import_plotly() -> None:
    """Everything else reads the picture itself, never the drawn figure."""
    users = {relative(path) for path in SOURCES if "plotly" in libraries_of(path)}
    drawing = {path for path in users if path.startswith("gpt2viz/pictures/plotly/")}
    assert drawing
    assert users - drawing == {"gpt2viz/export/page.py"}


def test_hooks_are_registered_in_three_modules() -> None:
    hooking = {
        relative(path)
        for path in SOURCES
        if re.search("register_.*forward|_forward_hooks", path.read_text(encoding="utf-8"))
    }
    assert hooking == HOOKING


HOOKING = {f"gpt2viz/run/{name}.py" for name in ("forward", "compat", "derived")}


def test_the_causal_mask_is_made_in_one_place() -> None:
    """Triangles elsewhere are something else: earlier tokens, pairs of heads, a lesson."""
    triangle = re.compile(r"\b(?:triu|tril|tri)(?:_indices)?\(|positions >|> positions\[")
    made = {relative(path) for path in SOURCES if triangle.search(path.read_text(encoding="utf-8"))}
    assert made == {"gpt2viz/model/mask.py", *TRIANGLES}


TRIANGLES = {
    "gpt2viz/analysis/scores.py",  # earlier tokens equal to the query's
    "gpt2viz/training/pressure.py",  # each pair of heads once
    *(f"gpt2viz/textbook/{n}.py" for n in ("attention", "mistakes", "operations")),  # a lesson
}


def test_every_picture_and_table_can_be_saved() -> None:
    """*Save* finds only what is drawn through ``app/output.py``."""
    elsewhere = {
        f"{relative(path)}:{node.lineno}: use output.picture or output.table"
        for path in SOURCES
        if relative(path) != "gpt2viz/app/output.py"
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in ("plotly_chart", "dataframe")
    }
    assert not elsewhere


#: The only modules that may use private names of libraries.
COMPAT_MODULES = {"gpt2viz/app/compat.py", "gpt2viz/model/compat.py", "gpt2viz/run/compat.py"}
#: Documented names with an underscore.
DOCUMENTED = {"_asdict", "_exit", "_fields", "_replace"}


def test_private_names_of_libraries_are_used_only_in_compat_modules() -> None:
    ours = {
        node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else node.attr
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        or (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("self", "cls")
        )
    }
    result = {
        f"{relative(path)}:{node.lineno} {node.attr}"
        for path in SOURCES
        if relative(path) not in COMPAT_MODULES
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and re.match(r"_[a-z]", node.attr)
        and node.attr not in ours | DOCUMENTED
    }
    assert not result

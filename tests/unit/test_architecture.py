"""Imports point down, one module registers hooks, and no file or function outgrows its story."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    [ROOT / "app.py", *(ROOT / "pages").glob("*.py"), *(ROOT / "gpt2viz").rglob("*.py")]
)

MAP = re.findall(r"^\| (\w[\w ]*) \| (.*?) \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M)
#: What CONTRIBUTING's map calls a layer -> the modules and packages that it names there.
LAYERS = {layer: set(re.findall(r"(\w+)(?:\.py|/)`", files)) for layer, files in MAP}
PLAIN, MODEL, PICTURES = LAYERS["names"], LAYERS["model"] | {"__init__"}, LAYERS["pictures"]


def layer_of(path: Path) -> str:
    inside = path.relative_to(ROOT).parts
    return Path(inside[1]).stem if inside[0] == "gpt2viz" else "page"


def imports(path: Path) -> set[str]:
    """Top-level names, and for the package itself ``gpt2viz.<module>``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            found.add(".".join(parts[:2]) if parts[0] == "gpt2viz" else parts[0])
    return found


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_imports_point_down(path: Path) -> None:
    layer, found = layer_of(path), imports(path)
    forbidden: set[str] = set()
    if layer in PLAIN:
        forbidden = {"torch", "plotly", "pandas", "streamlit", "tiktoken", "safetensors"}
        forbidden |= {f"gpt2viz.{name}" for name in MODEL | PICTURES | {"ui"}}
    elif layer in MODEL:
        forbidden = {"plotly", "streamlit", "pandas"}
        forbidden |= {f"gpt2viz.{name}" for name in PICTURES | {"ui"}}
    elif layer in PICTURES:
        forbidden = {"torch", "streamlit", "gpt2viz.ui", "gpt2viz.tracing", "gpt2viz.model"}
    elif layer == "page":
        forbidden = {"torch", "plotly", "numpy", "gpt2viz.model", "gpt2viz.tracing"}
    elif layer in ("cli", "__main__"):
        forbidden = {"torch", "numpy", "gpt2viz.model", "gpt2viz.tracing", "gpt2viz.ui"}
    else:
        assert layer == "ui", f"{path}: say above which layer {layer} belongs to"
        forbidden = {"torch", "plotly"}
    assert not found & forbidden


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 250
    for function in functions(ast.parse(text)):
        assert (function.end_lineno or 0) - function.lineno < 50, function.name


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_everything_public_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    public = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    for node in public:
        assert ast.get_docstring(node), f"{path}: {node.name}"


def test_only_the_tracer_registers_hooks_in_the_app() -> None:
    hooking = {
        named(path)
        for path in SOURCES
        if re.search("register_.*forward|_forward_hooks", path.read_text(encoding="utf-8"))
        and layer_of(path) != "training"  # measures heads between steps, on a model of its own
    }
    assert hooking == {f"gpt2viz/{name}.py" for name in ("tracing", "recording", "derived")}


def test_every_picture_and_table_can_be_saved() -> None:
    """Drawn through ``ui/show.py`` they are found by *Save*; drawn otherwise they are not."""
    elsewhere = {
        f"{named(path)}:{node.lineno}: use show.picture or show.table"
        for path in SOURCES
        if named(path) != "gpt2viz/ui/show.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("plotly_chart", "dataframe")
    }
    assert not elsewhere


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))

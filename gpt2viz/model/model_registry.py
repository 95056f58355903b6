"""The lookup of models by name or folder, for the app, the commands and Python."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from gpt2viz import settings
from gpt2viz.errors import ArgumentError, CheckpointError
from gpt2viz.files import is_there


def models() -> dict[str, Path]:
    """Name -> folder: configured models, the bundled one, and those in the hub's cache.

    Raises ``CheckpointError`` if the configuration file can't be read.
    """
    from gpt2viz.model import hub  # importing it takes as long as torch, and few models need it

    own = settings.name_paths(settings.folders())
    return settings.merge_fetched(own, hub.cached_models())


def find(given: str | Path) -> tuple[str, Path]:
    """(name, folder) of a model, by its name, in the hub's cache too, or by its folder; a GGUF
    file counts as one.

    A configured name takes precedence over a folder, and that over the hub's cache; a path, or text
    that begins like one (``./gpt2``), is a folder. Raises ``CheckpointError`` for neither.
    """
    if not isinstance(given, str | Path):
        raise ArgumentError(f"A model is given by its name or folder, not {type(given).__name__}.")
    if isinstance(given, Path) or given.startswith(("/", "./", "../", "~")):
        folder = settings.expand_home(str(given))
        return settings.model_name(folder), settings.model_in(folder)
    own = settings.name_paths(settings.folders())
    if given in own:
        return given, own[given]
    if given and is_there(folder := Path(given)):
        return settings.model_name(folder), settings.model_in(folder)
    here = models()
    if given in here:
        return given, here[given]
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    fetch = ""
    with suppress(HFValidationError):
        validate_repo_id(given)
        fetch = f". `gpt2viz fetch {given}` looks for it on the Hugging Face hub"
    raise CheckpointError(
        f"no model and no folder {given!r:.100}; there are: {', '.join(here)}{fetch}"
    )

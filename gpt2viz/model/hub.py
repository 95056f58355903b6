"""Models by name from the Hugging Face hub: their sizes, and their files in the hub's cache.

``huggingface_hub`` sets the paths: its cache, its token, its endpoint and its offline variable
all apply. Its version 2 deletes partial files, and doesn't check what arrived, so files are
written here: a partial one is kept and resumed, and each is checked against the hub's hash.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, constants, hf_hub_download, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RevisionNotFoundError,
)
from huggingface_hub.utils import WeakFileLock, build_hf_headers, disable_progress_bars

from gpt2viz.errors import CheckpointError, HubError
from gpt2viz.files import read_json
from gpt2viz.model import compat
from gpt2viz.model.config import config_from
from gpt2viz.model.memory import spell
from gpt2viz.model.other_formats import other_weights
from gpt2viz.model.tokenizer_files import FILES, VOCABULARY

#: The released models, which have names without an owner.
RELEASED = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2")

# The prefix of the cache's folders of models, by the documentation of the client.
_MODELS = "models--"
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")


@dataclass(frozen=True)
class File:
    """One file of a model: its name, its size, and the hash that names it in the cache.

    ``digest`` is SHA-256 for large files and git's SHA-1 of a blob for the others.
    """

    name: str
    nbytes: int
    digest: str


@dataclass(frozen=True)
class Offer:
    """The files that a model needs; only ``config.json`` has been fetched.

    ``revision`` is a branch, a tag or a commit of it; None for the newest.
    """

    name: str
    files: tuple[File, ...]
    revision: str | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all its files."""
        return sum(file.nbytes for file in self.files)

    @property
    def here(self) -> int:
        """Bytes that are already in the cache, partial files included."""
        return sum(_size(_blob(self.name, f)) or _size(_partial(self.name, f)) for f in self.files)


class StoppedError(HubError):
    """The download was stopped; what arrived is kept, and the next one resumes from there."""


def look_up(name: str, revision: str | None = None) -> Offer:
    """Ask the hub for the files and sizes of a model's newest version, or of a ``revision``.

    Raises ``HubError`` or, for a model of another family, ``CheckpointError``.
    """
    with _plain_words(name):
        api = HfApi(endpoint=constants.ENDPOINT)
        info = api.model_info(name, revision=revision, files_metadata=True)
        files = {}
        for sibling in info.siblings or ():
            digest = sibling.lfs.sha256 if sibling.lfs else sibling.blob_id
            if digest:
                files[sibling.rfilename] = File(sibling.rfilename, sibling.size or 0, digest)
        offer = Offer(name, tuple(files[n] for n in _model_files(name, files)), revision)
        config = hf_hub_download(name, "config.json", revision=revision)
        config_from(read_json(Path(config)))
    return offer


def fetch(
    offer: Offer,
    progress: Callable[[int], None] = lambda _n_bytes: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Path:
    """Fetch the missing files and return the model's folder in the hub's cache.

    ``progress`` is called with the bytes that have arrived, ``stopped`` after each part of some
    megabytes. Raises ``StoppedError`` if it returns True, and ``HubError`` if the network or a
    file fails; the next call resumes where this one ended.
    """
    with _plain_words(offer.name):
        missing = offer.nbytes - offer.here
        blobs = _blob(offer.name, offer.files[0]).parent
        blobs.mkdir(parents=True, exist_ok=True)
        if missing > shutil.disk_usage(blobs).free:
            free = spell(shutil.disk_usage(blobs).free)
            raise HubError(f"{offer.name} needs {spell(missing)} more on the disk; {free} is free.")
        done = 0
        for file in offer.files:
            if not _blob(offer.name, file).exists():
                _get(offer, file, partial(_report, progress, done), stopped)
            done += file.nbytes
            progress(done)
        paths = [
            hf_hub_download(offer.name, file.name, revision=offer.revision) for file in offer.files
        ]
    return Path(paths[0]).parent


def cached_models() -> dict[str, Path]:
    """The models that are complete in the hub's cache: name -> folder."""
    folders = {}
    for repository in sorted(Path(constants.HF_HUB_CACHE).glob(f"{_MODELS}*")):
        name = repository.name.removeprefix(_MODELS).replace("--", "/")
        try:
            config = try_to_load_from_cache(name, "config.json")
            if isinstance(config, str) and _is_complete(Path(config).parent):
                folders[name] = Path(config).parent
        except (OSError, ValueError):  # not a repository, or not readable
            continue
    return dict(sorted(folders.items()))


def _model_files(name: str, files: Iterable[str]) -> list[str]:
    """The names of the files that the app reads, the weights last."""
    have = set(files)
    # With a tokenizer.json, the vocabulary isn't read from other files.
    unused = VOCABULARY if "tokenizer.json" in have else ()
    words = [name for name in FILES if name in have and name not in unused]
    weights = [n for n in ("model.safetensors",) if n in have]
    index = "model.safetensors.index.json"
    if not weights and index in have:
        weights = [index, *sorted(n for n in have if _SHARD.fullmatch(n))]
    if "config.json" not in have or not weights:
        other = "" if weights else other_weights(have)
        raise HubError(
            f"{name} has no {'config.json' if weights else 'model.safetensors'}; only models in "
            "Hugging Face's layout with safetensors can be read."
            + (
                f" It has {other}: download that, and `gpt2viz trace -m` says what to do."
                if other
                else ""
            )
        )
    card = [n for n in ("README.md",) if n in have]
    return ["config.json", *card, *words, *weights]


def _report(progress: Callable[[int], None], before: int, now: int) -> None:
    progress(before + now)


def _get(
    offer: Offer, file: File, here: Callable[[int], None], stopped: Callable[[], bool]
) -> None:
    """Write one file's blob, resuming its partial file; refuse it if its hash differs."""
    blob, part = _blob(offer.name, file), _partial(offer.name, file)
    url = hf_hub_url(offer.name, file.name, revision=offer.revision, endpoint=constants.ENDPOINT)
    headers = build_hf_headers() | {"accept-encoding": "identity"}
    disable_progress_bars("huggingface_hub.http_get")
    with WeakFileLock(f"{part}.lock"), _Watched(part, here, stopped) as target:
        resume = target.tell()
        compat.download(url, target, resume, headers, file.nbytes)
    if _digest(part, file) != file.digest:
        part.unlink()
        raise HubError(f"{file.name} of {offer.name} arrived damaged and was not kept. Try again.")
    part.replace(blob)


class _Watched(io.FileIO):
    """A file opened to append, which reports its size after each part and can be stopped."""

    def __init__(
        self, path: Path, here: Callable[[int], None], stopped: Callable[[], bool]
    ) -> None:
        super().__init__(path, "ab")
        self._here, self._stopped = here, stopped

    def write(self, data: Any) -> int:
        """Append and report; raises ``StoppedError`` if stopped."""
        written = super().write(data)
        self._here(self.tell())
        if self._stopped():
            raise StoppedError("Stopped. What came so far is kept.")
        return written


def _digest(path: Path, file: File) -> str:
    with path.open("rb") as content:
        if len(file.digest) == 64:
            return hashlib.file_digest(content, "sha256").hexdigest()
        git = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        git.update(content.read())
        return git.hexdigest()


def _blob(name: str, file: File) -> Path:
    repository = f"{_MODELS}{name.replace('/', '--')}"
    return Path(constants.HF_HUB_CACHE, repository, "blobs", file.digest)


def _partial(name: str, file: File) -> Path:
    return _blob(name, file).with_suffix(".gpt2viz.incomplete")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_complete(folder: Path) -> bool:
    try:
        config_from(read_json(folder / "config.json"))
        index = folder / "model.safetensors.index.json"
        shards = read_json(index)["weight_map"].values() if index.exists() else ()
    except (CheckpointError, KeyError, AttributeError):
        return False
    weights = {str(name) for name in shards} or {"model.safetensors"}
    return all((folder / name).exists() for name in weights)


@contextmanager
def _plain_words(name: str) -> Iterator[None]:
    """Turn the client's many errors into one line that says what to do."""
    where = constants.ENDPOINT
    try:
        yield
    except HFValidationError:
        raise HubError(f"{name!r:.100} isn't a model's name; write owner/name.") from None
    except GatedRepoError:
        raise HubError(
            f"{name} is gated: ask for access on {where}/{name}, then `hf auth login` here."
        ) from None
    except RevisionNotFoundError:
        raise HubError(f"{name} has no such revision on {where}.") from None
    except (OfflineModeIsEnabled, LocalEntryNotFoundError):  # before 1.0 an HfHubHTTPError too
        raise _no_connection() from None
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403, 404):
            raise HubError(
                f"{where} has no {name} that you may read. Check the name; a private model needs "
                "a token: `hf auth login`, or HF_TOKEN."
            ) from None
        raise HubError(f"{where} answers {status} for {name}. Try again later.") from None
    except compat.transport_error():
        raise _no_connection() from None
    except OSError as error:
        raise HubError(f"{name} could not be fetched: {error}") from None


def _no_connection() -> HubError:
    have = ", ".join(cached_models()) or "nothing"
    return HubError(f"No connection to {constants.ENDPOINT}. In the cache: {have}.")

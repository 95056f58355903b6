"""Undocumented parts of the hub's client and of ``tokenizers`` used here, each with a test.

Checked in the source of huggingface_hub 0.30, 0.36, 1.31 and 2.4, and tokenizers 0.22 and 0.23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import BinaryIO, cast


def download(
    url: str, target: BinaryIO, start: int, headers: Mapping[str, str], nbytes: int
) -> None:
    """Append a file of ``nbytes`` from byte ``start`` on to ``target``.

    This is the client's own download, with its retries and proxies: no public function resumes
    a partial file.
    """
    from huggingface_hub.file_download import http_get  # a third of a second, only needed here

    http_get(url, target, resume_size=start, headers=dict(headers), expected_size=nbytes)


def transport_error() -> type[Exception]:
    """The HTTP library's exception that the client doesn't catch when there is no network.

    The library is ``httpx2`` in 2, ``httpx`` in 1 and ``requests`` before.
    """
    from huggingface_hub.utils import get_session

    library = import_module(type(get_session()).__module__.partition(".")[0])
    name = "RequestException" if library.__name__ == "requests" else "TransportError"
    return cast(type[Exception], getattr(library, name))


@contextmanager
def panics() -> Iterator[None]:
    """Turn a panic of the Rust code, which isn't an ``Exception``, into a ``ValueError``."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(str(error)) from None

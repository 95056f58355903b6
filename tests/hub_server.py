"""Enough of the Hugging Face hub's protocol, on 127.0.0.1, for the unmodified client.

The protocol: /api/models/NAME?blobs=True lists the files, and .../NAME/revision/REVISION those of a
revision; HEAD and GET of
/NAME/resolve/REVISION/FILE carry X-Repo-Commit and ETag, and for large files redirect to another
host, with X-Linked-Size and X-Linked-Etag; errors carry X-Error-Code.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import constants, file_download

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def commit(name: str) -> str:
    """The commit of a model's folder; each "name@revision" has its own."""
    return hashlib.sha1(name.encode()).hexdigest() if "@" in name else COMMIT  # noqa: S324


@dataclass
class Hub:
    """Folders by the name of the model, or "name@revision", and the faults to simulate.

    ``requests`` has all requests received.
    """

    folders: dict[str, Path] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    private: dict[str, str] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    large: int = 10_000
    #: The connection is cut after so many bytes of a large file, ``cuts`` times.
    cut_after: int = 0
    cuts: int = 0
    damaged: bool = False
    #: If ``slow``, the second half of a large file waits for this event.
    go_on: Event = field(default_factory=Event)
    slow: bool = False
    failing: int = 0
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    address: str = ""

    def headers_of(self, what: str) -> list[dict[str, str]]:
        """The headers of the GET requests whose path has ``what`` in it."""
        return [h for method, path, h in self.requests if method == "GET" and what in path]


def digest(content: bytes, large: bool) -> str:
    if large:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 (git's)


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        hub.requests.append((self.command, path, headers))
        if hub.failing:
            return self.reply(hub.failing)
        if path.startswith("/cdn/"):
            return self.large_file(path.split("/")[2])
        requested = path.removeprefix("/api/models/").lstrip("/")
        name, _, rest = requested.partition("/resolve/")
        name, _, revision = name.partition("/revision/")
        revision, _, file = rest.partition("/") if rest else (revision, "", "")
        if name in hub.renamed:
            moved = self.path.replace(f"/{name}", f"/{hub.renamed[name]}", 1)
            return self.reply(307, Location=moved)
        if name not in hub.folders:
            return self.reply(404, X_Error_Code="RepoNotFound")
        if name in hub.gated and rest:
            return self.reply(403, X_Error_Code="GatedRepo")
        if headers.get("authorization") != hub.private.get(name, headers.get("authorization")):
            return self.reply(401)
        if revision not in ("", "main", COMMIT):
            name = f"{name}@{revision}"
        if name not in hub.folders:
            return self.reply(404, X_Error_Code="RevisionNotFound")
        return self.file(name, file) if file else self.list(name)

    def list(self, name: str) -> None:
        siblings = []
        for path in sorted(self.hub.folders[name].iterdir()):
            content = path.read_bytes()
            large = len(content) > self.hub.large
            results: dict[str, Any] = {"rfilename": path.name, "size": len(content)}
            results["blobId"] = digest(content, False)
            if large:
                sha = digest(content, True)
                results["lfs"] = {"sha256": sha, "size": len(content), "pointerSize": 130}
            siblings.append(results)
        body = json.dumps({"id": name, "sha": commit(name), "siblings": siblings}).encode()
        self.reply(200, body, Content_Type="application/json")

    def file(self, name: str, file: str) -> None:
        path = self.hub.folders[name] / file
        if not path.is_file():
            return self.reply(404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit(name))
        content = path.read_bytes()
        large = len(content) > self.hub.large
        etag = digest(content, large)
        headers: dict[str, Any] = {"X_Repo_Commit": commit(name), "ETag": f'"{etag}"'}
        if not large:
            return self.reply(200, content, **headers)
        headers |= {"X_Linked_Size": str(len(content)), "X_Linked_Etag": f'"{etag}"'}
        elsewhere = self.hub.address.replace("127.0.0.1", "localhost")
        return self.reply(302, Location=f"{elsewhere}/cdn/{etag}", **headers)

    def large_file(self, sha: str) -> None:
        files = [path for folder in self.hub.folders.values() for path in folder.iterdir()]
        content = next(c for c in (p.read_bytes() for p in files) if digest(c, True) == sha)
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        part = content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(part)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.hub.damaged:
            part = bytes(len(part))
        if self.hub.cuts:
            self.hub.cuts -= 1
            part = part[: self.hub.cut_after]
            self.close_connection = True
        if self.hub.slow:
            self.wfile.write(part[: len(part) // 2])
            self.wfile.flush()
            self.hub.go_on.wait(30)
            part = part[len(part) // 2 :]
        self.wfile.write(part)


class Server(ThreadingHTTPServer):
    """A server that ignores clients which disconnect, as those do whose disk is full."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serve ``hub`` on a free port, and set its ``address``."""
    server = Server(("127.0.0.1", 0), type("Bound", (Answer,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()


def point_the_client_at(hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the client's endpoint and cache as the environment would set them."""
    template = hub.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    for module in (constants, file_download):  # before 1.0 the latter has a name of its own for it
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 10_000)

"""A running server refuses foreign host names, and uploads that no page requested."""

from __future__ import annotations

import re
import socket
import time
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from gpt2viz.app import server as limits
from tests.soak.visitor import Visitor

# A visitor's connection stays open between messages and is closed explicitly.
pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used:DeprecationWarning")


def handshake_status(server: str, host: str, origin: str) -> str:
    """The status line of a websocket handshake, as a browser sends it from that origin."""
    url = urlsplit(server)
    with socket.create_connection((url.hostname, url.port), 10) as connection:
        connection.sendall(
            f"GET /_stcore/stream HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "Sec-WebSocket-Protocol: streamlit\r\n\r\n".encode()
        )
        return connection.recv(100).decode().splitlines()[0]


def test_foreign_hosts_and_origins_are_refused(server: str) -> None:
    """DNS rebinding: host and origin agree, and neither is this machine's."""
    for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        assert " 403 " in handshake_status(server, name, f"http://{name}"), name
    for name in ("127.0.0.1", "localhost", "[::1]"):
        host = f"{name}:{urlsplit(server).port}"
        assert " 101 " in handshake_status(server, host, f"http://{host}"), name
        assert " 403 " in handshake_status(server, host, "http://evil.example"), name


def test_uploads_without_a_page_are_limited(server: str) -> None:
    """By a client that connects and opens no page."""
    before = stored_bytes(server)
    visitor = Visitor(urlsplit(server).port or 0)
    requested = BackMsg()
    requested.file_urls_request.file_names.extend(str(n) for n in range(20))
    visitor._socket.send(requested.SerializeToString())
    while (message := receive(visitor)).WhichOneof("type") != "file_urls_response":
        pass
    urls = [result.upload_url for result in message.file_urls_response.file_urls]
    token = xsrf(server)
    assert [put(server, url, token, 100_000) for url in urls] == [204] * 20
    # Refused by its length alone: the server disconnects a client that sends the body.
    assert put(server, urls[0], token, 1_200_000, send=False) == 413
    until = time.monotonic() + 30
    while (more := stored_bytes(server) - before) == 0 and time.monotonic() < until:
        time.sleep(0.5)  # Streamlit counts once in five seconds
    visitor.close()
    assert more == limits.FILES * 100_000


def stored_bytes(server: str) -> int:
    """The total size of uploaded files, in bytes."""
    with urlopen(f"{server}/_stcore/metrics", timeout=10) as metrics:  # noqa: S310 (our own)
        result = re.findall(r"UploadedFileManager.*} (\d+)", metrics.read().decode())
    return sum(map(int, result))


def receive(visitor: Visitor) -> ForwardMsg:
    message = ForwardMsg()
    message.ParseFromString(visitor._socket.recv(20))
    return message


def xsrf(server: str) -> str:
    """The XSRF token that every browser gets."""
    with urlopen(f"{server}/_stcore/health", timeout=10) as reply:  # noqa: S310 (our own)
        (token,) = re.findall("_streamlit_xsrf=([^;]+)", str(reply.headers))
    return str(token)


def put(server: str, url: str, token: str, nbytes: int, *, send: bool = True) -> int:
    """Send a file as Streamlit's page does, or only its headers; the status."""
    edge = b"--edge"
    head = b'Content-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
    body = b"\r\n".join([edge, head + bytes(nbytes), edge + b"--", b""])
    headers = {
        "Content-Type": "multipart/form-data; boundary=edge",
        "Content-Length": str(len(body)),
        "Cookie": f"_streamlit_xsrf={token}",
        "X-Xsrftoken": token,
    }
    with closing(HTTPConnection(urlsplit(server).netloc, timeout=20)) as connection:
        connection.request("PUT", url, body if send else None, headers)
        return connection.getresponse().status

"""One visitor without a browser: Streamlit's own messages over a websocket."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import parse_qsl, urlencode
from urllib.request import urlopen

import numpy as np
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect

from tests.app.pages import unpack


def given_cookie(port: int) -> str:
    """The cookie of a proxy with a browser's first page, to know it by; empty without a proxy."""
    with urlopen(f"http://127.0.0.1:{port}/", timeout=60) as page:
        return str(page.headers.get("Set-Cookie", "")).partition(";")[0]


class Screen:
    """The messages of one run of a page's script."""

    def __init__(self) -> None:
        self.canvases: dict[str, bytes] = {}
        self.inputs: dict[str, tuple[str, str]] = {}
        self.exceptions: list[str] = []
        self.raw: list[bytes] = []
        self.status = ""

    def take(self, message: ForwardMsg) -> None:
        """Keep what a message adds to the page."""
        self.raw.append(message.SerializeToString())
        if message.WhichOneof("type") != "delta":
            return
        element = message.delta.new_element
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.exceptions.append(element.exception.message)
        elif kind == "bidi_component":
            self.canvases[element.bidi_component.id.rsplit("-", 1)[-1]] = (
                element.bidi_component.bytes
            )
        elif kind == "text_input":
            self.inputs[element.text_input.label] = (
                element.text_input.id,
                element.text_input.value,
            )

    def matrices(self, key: str) -> list[np.ndarray]:
        """The numbers that a canvas draws, one matrix a panel."""
        return list(unpack(self.canvases[key])[1])


class Visitor:
    """A connected session. ``open`` and ``type`` run a page and return what it sent.

    ``before`` names the session that the visitor's browser lost, if any, and ``cookie`` is what the
    server's proxy gave it.
    """

    def __init__(self, port: int, timeout: float = 120, before: str = "", cookie: str = "") -> None:
        self._timeout = timeout
        self._query, self._page = "", ""
        self.session = ""
        self.cookie = cookie or given_cookie(port)
        spoken = ["streamlit", "no-token", before] if before else ["streamlit"]
        self._open = ExitStack()
        self._socket: ClientConnection = self._open.enter_context(
            connect(
                f"ws://127.0.0.1:{port}/_stcore/stream",
                subprotocols=spoken,  # type: ignore[arg-type]
                additional_headers={"Cookie": self.cookie} if self.cookie else {},
                max_size=None,
                compression="deflate",
            )
        )

    def open(self, page: str, parameters: Mapping[str, Any]) -> Screen:
        """Open a page by a link, in this session."""
        self._page, _, mode = page.partition("?")
        self._query = urlencode(dict(parse_qsl(mode)) | dict(parameters))
        return self._run({})

    def type(self, widget: str, text: str) -> Screen:
        """Type into a text input of the page that is open, by the widget's id."""
        return self._run({widget: text})

    def _run(self, typed: Mapping[str, str]) -> Screen:
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_name = self._query, self._page
        for widget, text in typed.items():
            value = state.widget_states.widgets.add()
            value.id, value.string_value = widget, text
        self._socket.send(message.SerializeToString())
        return self._receive()

    def _receive(self) -> Screen:
        screen = Screen()
        while True:
            message = ForwardMsg()
            message.ParseFromString(self._socket.recv(self._timeout))
            screen.take(message)
            kind = message.WhichOneof("type")
            if kind == "new_session":
                self.session = message.new_session.initialize.session_id
            elif kind == "page_info_changed":
                self._query = message.page_info_changed.query_string
            elif kind == "script_finished":
                status = ForwardMsg.ScriptFinishedStatus.Name(message.script_finished)
                if status != "FINISHED_EARLY_FOR_RERUN":
                    screen.status = status
                    return screen

    @property
    def connected(self) -> bool:
        """True while the server still has this visitor."""
        return self._socket.state is State.OPEN

    def close(self) -> None:
        self._open.close()

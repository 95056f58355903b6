"""Clicks in a notebook, by the messages between page and kernel."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import comm
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter

import gpt2viz
from gpt2viz import files
from gpt2viz.run.session import open_session
from tests.bundled import bundled_model


class Channel(comm.DummyComm):
    """A channel that records what the kernel sends."""

    def publish_msg(self, msg_type: str, data: Any = None, *rest: Any, **more: Any) -> None:
        published.append((msg_type, data))


published: list[tuple[str, Any]] = []


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> gpt2viz.AttentionView:
    monkeypatch.setattr(comm, "create_comm", Channel)
    published.clear()
    return gpt2viz.show(np.full((2, 3, 4, 4), 0.25), list("abcd"))


def displayed(shown: gpt2viz.AttentionView, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The data that IPython is given to display."""
    messages: list[Any] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_raw: messages.append(data))
    assert DisplayFormatter().format(shown) == ({}, {})
    return messages


def test_the_kernel_reads_the_clicks_of_the_page(shown: gpt2viz.AttentionView) -> None:
    assert shown.selected is None
    state = next(
        data["state"] for what, data in published if what == "comm_open" and "_esm" in data["state"]
    )
    assert state["clicked"] is None
    assert state["frame"] == shown.clicks.frame
    assert state["_esm"] == files.asset("clicks.js")
    for clicked in ([1, 2, None, None], [1, 2, 3, 0]):
        answer = {"method": "update", "state": {"clicked": clicked}, "buffer_paths": []}
        shown.clicks.comm.handle_msg({"content": {"data": answer}, "buffers": []})
        assert shown.selected == tuple(clicked)
    assert shown.selected is not None
    assert (shown.selected.layer, shown.selected.head) == (1, 2)
    assert (shown.selected.query, shown.selected.key) == (3, 0)


def test_a_kernel_shows_the_frame_and_its_listener(
    shown: gpt2viz.AttentionView, monkeypatch: pytest.MonkeyPatch
) -> None:
    (alone,) = displayed(shown, monkeypatch)  # in IPython's own terminal
    assert alone["text/html"].startswith('<iframe sandbox="allow-scripts"')
    monkeypatch.setattr("gpt2viz.notebook.clicks.kernel_runs", lambda: True)
    bundle, clicks = displayed(shown, monkeypatch)
    assert bundle["text/html"].startswith(f'<iframe name="{clicks.frame}" sandbox="allow-scripts"')
    assert clicks.frame != gpt2viz.show(np.eye(2)).clicks.frame
    plain = clicks._repr_mimebundle_()[0]
    assert "application/vnd.jupyter.widget-view+json" in plain
    assert plain["text/plain"] == "Hears what is clicked above."


@pytest.fixture
def marimo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the parts of marimo that are used, which only its own kernel loads."""
    pieces = {"Html": lambda text: text, "ui": SimpleNamespace(anywidget=lambda widget: widget)}
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(vstack=list, **pieces))


@pytest.mark.usefixtures("marimo")
def test_marimo_shows_the_frame_and_its_listener(
    shown: gpt2viz.AttentionView, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, clicks = shown._display_()
    assert clicks is shown.clicks
    assert frame.startswith(f'<iframe name="{clicks.frame}" sandbox="allow-scripts"')
    alone = gpt2viz.show(np.eye(2))
    monkeypatch.delitem(sys.modules, "gpt2viz.notebook.clicks", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    assert alone._display_().startswith('<iframe sandbox="allow-scripts"')


def test_without_anywidget_the_view_shows_and_selected_names_the_extra(
    shown: gpt2viz.AttentionView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "gpt2viz.notebook.clicks", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    expected = r"^What is selected in a notebook needs anywidget: pip install 'gpt2viz\[widget\]'$"
    with pytest.raises(gpt2viz.MissingExtraError, match=expected):
        _ = shown.selected
    (alone,) = displayed(shown, monkeypatch)
    assert alone["text/html"].startswith('<iframe sandbox="allow-scripts"')


def test_a_saved_session_has_the_clicked_cell(tmp_path: Path) -> None:
    view = gpt2viz.show(gpt2viz.trace(bundled_model(), "A crane ate fish"))
    view.clicks.clicked = (2, 3, 1, 0)
    chosen = open_session(view.save(tmp_path / "x.json")).parameters
    assert [chosen[name] for name in ("layer", "head", "query")] == ["2", "3", "1"]

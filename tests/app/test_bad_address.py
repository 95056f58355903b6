"""Whatever stands in the address, the page is whole: a default, a note, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app import address, pages
from gpt2viz.app.course import contents
from gpt2viz.app.parameter import Parameter
from tests.app.pages import ROOT, VIEWS, WITHOUT, open_page
from tests.app.test_behaviour import said

CANARY = "gpt2viz-canary"
#: Texts that no widget offers, but that a file, a shell, a number parser or markup would take.
ODD = [
    *(f"./{CANARY}", f"../../{CANARY}", f"file:///{CANARY}", f"$(touch ./{CANARY})"),
    *(f"; touch ./{CANARY}", f"`touch ./{CANARY}`", f"| cat ./{CANARY}", f"{CANARY}\x00"),
    *(f"import {CANARY}", f"http://{CANARY}.example/", f"<img src={CANARY} onerror=canary=1>"),
    *("", " ", "-1", "-0", "999999999", "9" * 5000, "1e999", "nan", "inf", "0x10", "٣", "１", "½"),
    *("null", "None", "[]", "{}", "true,false", ",", ",,,", "0,,1", "0,0", "1:2:3", ":", "0:0,0:0"),
    *("off:0.0,off:0.0", "scale:0.0:nan", "scale:0.0:1e999", "window:0", "forbid:0:0", "0,1,2,3,4"),
    *("\u202e", "\u0000", "\ufeff", "e\u0301" * 30, "a" * 100_000, "%00", "\r\nSet-Cookie: a=b"),
]
WATCHED = ("open", "os.", "subprocess.", "socket.", "shutil.", "glob.", "pathlib.", "import")

_events: list[str] = []
_listening = False


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if _listening and event.startswith(WATCHED) and CANARY in repr(arguments):
        _events.append(f"{event} {arguments!r:.200}")


sys.addaudithook(_listen)  # stays for good, hence the switch


@pytest.fixture
def touched() -> Iterator[list[str]]:
    """What reached for a file, a process, the network or a module named in the address."""
    global _listening
    _events.clear()
    _listening = True
    yield _events
    _listening = False


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The parameters that the pages read, as they read them, and what each is read by."""
    found: dict[str, str] = {}
    bind = address._bind

    def listen(parameter: Parameter, default: Any, parse: Any, *rest: Any) -> dict[str, Any]:
        found[parameter.name] = parse.__name__
        return bind(parameter, default, parse, *rest)

    monkeypatch.setattr(address, "_bind", listen)
    return found


def fill(at: AppTest, values: dict[str, str]) -> AppTest:
    for name, value in values.items():
        at.query_params[name] = value
    return at.run()


@pytest.mark.parametrize("page", VIEWS)
def test_every_parameter_takes_any_text(
    page: str, names: dict[str, str], touched: list[str]
) -> None:
    at = open_page(page)
    first, rng = set(names), Random(page)
    texts = {name for name in names if name.startswith("text") or name == "filter"}
    assert page == "models" or {"text", "model", "causal"} <= first
    for n in range(3):
        odd = {name: rng.choice(ODD) for name in sorted(set(names) - texts)}
        fill(at, odd | {"example": rng.choice(ODD), "unknown": rng.choice(ODD)})
        assert not at.exception, (odd, at.exception)
        if n == 0 and odd:
            assert "can't be shown here" in said(at) or page == "models"
    at = fill(at, {name: rng.choice(ODD) for name in texts})
    assert not at.exception
    assert not touched
    assert not Path(CANARY).exists()


#: A mode that reads no parameter but those of its page's first mode.
SAME = "head?see=weights"
#: Pages, their modes, and the parts of them that have parameters of their own.
PARTS: list[tuple[str, dict[str, str]]] = [(v, {}) for v in (*VIEWS, *WITHOUT) if v != SAME]
PARTS += [("models", {"part": "tokenizer"})]
#: What numbers, edits, cells, tables and texts look like, as often as they fit into an address.
LONG = ("1,", "off:0.0,", "1:0,", "1.0,", "a ", "<b>")
#: As long as each of three values may be beside a sentence.
LENGTH = address.LONGEST_ADDRESS // 3 - 50


def sent(at: AppTest) -> int:
    """Bytes of what a page is made of: texts, links, pictures."""
    protos = (getattr(element, "proto", None) for element in at.main)
    return sum(proto.ByteSize() for proto in protos if proto is not None)


@pytest.mark.parametrize(("page", "part"), PARTS)
def test_every_parameter_is_bounded(
    page: str, part: dict[str, str], names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In what is kept of it, in what is sent for it, and in the runs that it can ask for."""
    runs: list[int] = []
    trace = gpt2viz.trace
    monkeypatch.setattr(
        "gpt2viz.trace", lambda m, ids, **rest: runs.append(len(ids)) or trace(m, ids, **rest)
    )
    at, mode = open_page(page, **part), dict(parse_qsl(page.partition("?")[2]))
    before = sent(at)
    free = {name for name, parse in names.items() if parse not in ("__getitem__", "_parse_switch")}
    # All that is too long goes before anything is read. Streamlit itself leaves out more than half
    # a megabyte, with commas in three letters.
    cut = sorted(names.keys() - mode.keys() - part.keys())
    tried = [dict.fromkeys([*cut, "unknown"], "1," * (40_000 // (len(cut) + 1)))]
    alone = {"text", "text2"} & free  # of a text that is too long nothing is shown beside it
    others = sorted(free - alone)
    together = [[name, "unknown"] for name in sorted(alone)]
    together += [others[n : n + 3] for n in range(0, len(others), 3)]
    tried += [dict.fromkeys(some, (unit * 1000)[:LENGTH]) for some in together for unit in LONG]
    for odd in tried:
        runs.clear()
        at.query_params.clear()
        fill(at, {"text": "A cat sat down", **mode, **part, **odd})
        told = {name: raw[:20] for name, raw in odd.items()}
        assert not at.exception, (told, at.exception)
        assert len(runs) <= 4, told
        assert sum(map(len, at.query_params.values())) <= address.LONGEST_ADDRESS
        for name in names.keys() & odd.keys():
            assert len(str(at.session_state[name])) < 40 * address.LONGEST_TEXT  # 64 edits in full
        assert sent(at) < before + 10**6, told


def test_what_no_address_holds_is_left_out_with_a_note() -> None:
    at = open_page("attention", text="A crane", layer="1" * 3000)
    assert "layer: the value can't be shown here. An address holds up to 2,000" in unescape(
        said(at)
    )
    assert at.session_state["layer"] == 0
    at = open_page("attention", {f"x{n}": "y" * 1900 for n in range(9)}, layer="2")
    assert "x3, x4, x5, x6, x7 …: the value can't" in said(at).replace("\\", "")
    assert at.session_state["layer"] == 2


def test_every_chapter_takes_any_text(names: dict[str, str], touched: list[str]) -> None:
    at, rng = open_page("textbook"), Random("chapters")
    for chapter in contents.CHAPTERS:
        before = set(names)
        fill(at, {"chapter": chapter})
        assert at.session_state["chapter"] == chapter
        odd = {name: rng.choice(ODD) for name in sorted(set(names) - before)}
        fill(at, odd)
        assert not at.exception, (chapter, odd, at.exception)
    assert not touched


def test_the_audit_would_notice(touched: list[str], tmp_path: Path) -> None:
    (tmp_path / CANARY).write_text("x")
    assert touched


def test_an_unknown_page_is_none_of_the_files() -> None:
    """Streamlit serves pages that lie in ``pages/``, and no other script or file."""
    served = {path.name for path in (ROOT / "pages").iterdir() if path.suffix == ".py"}
    every = (*pages.PAGES, pages.ADDED)
    known = {Path(page.path).name for page in every} - {pages.ATTENTION.path}
    assert served == known | {f"{name}.py" for page in pages.PAGES for name in page.formerly}

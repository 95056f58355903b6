"""The address: each name is declared once, and pages are complete whatever its values are."""

from __future__ import annotations

import re
import sys
from collections import UserDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from html import unescape
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.runtime.state.query_params import QueryParams
from streamlit.testing.v1 import AppTest

from gpt2viz.app import address, pages, parameters
from gpt2viz.app.course import contents
from gpt2viz.app.parameters import Parameter
from tests.app.cases import each
from tests.app.chapters import questions_in
from tests.app.pages import NO_SENTENCE, ROOT, VIEWS, chart, notices, open_page

CANARY = "gpt2viz-canary"
#: Texts that no widget offers, but that a file, shell, number parser or markup would accept.
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


sys.addaudithook(_listen)  # can't be removed, hence the switch


@pytest.fixture
def audit_events() -> Iterator[list[str]]:
    """Audit events on a file, process, host or module named in the address."""
    global _listening
    _events.clear()
    _listening = True
    yield _events
    _listening = False


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[str], Any]]:
    """The parameters that the pages read, in order, with the parser of each."""
    results: dict[str, Callable[[str], Any]] = {}
    bind = address._bind

    def listen(parameter: Parameter, default: Any, parse: Any, *rest: Any) -> dict[str, Any]:
        results[parameter.name] = parse
        return bind(parameter, default, parse, *rest)

    monkeypatch.setattr(address, "_bind", listen)
    return results


def fill(at: AppTest, values: dict[str, str]) -> AppTest:
    for name, value in values.items():
        at.query_params[name] = value
    return at.run()


#: Pages, their modes, and their parts with parameters of their own.
PARTS: list[tuple[str, dict[str, str]]] = [(view, {}) for view in (*VIEWS, *NO_SENTENCE)]
PARTS += [("models", {"part": "tokenizer"})]
#: The longest value of each of three parameters beside a sentence.
LENGTH = address.LONGEST_ADDRESS // 3 - 50
#: Lists of numbers, edits, cells and scores, and a text, each repeated as often as fits.
LONG = [(u * (LENGTH // len(u))).rstrip(",") for u in ("1,", "off:0.0,", "1:0,", "1.0,", "<b>")]
#: By page, the parameters tried in any of its modes.
_TRIED: dict[str, set[str]] = {}


def page_size(at: AppTest) -> int:
    """The size in bytes of a page's elements: texts, links, pictures."""
    protos = (getattr(element, "proto", None) for element in at.main)
    return sum(proto.ByteSize() for proto in protos if proto is not None)


def accepted_values(parse: Callable[[str], Any]) -> list[str]:
    """The long values that a parameter accepts; one is enough for a text."""
    if parse is str:
        return LONG[-1:]
    results = []
    for long in LONG:
        with suppress(ValueError, KeyError):
            parse(long)
            results.append(long)
    return results or LONG[-1:]


def long_values(
    page: str, cut: list[str], parsers: dict[str, Callable[[str], Any]]
) -> list[dict[str, str]]:
    """Long values of all parameters, then of the free ones not yet tried in another mode."""
    # Streamlit itself drops more than half a megabyte, in which a comma takes three letters.
    whole = dict.fromkeys([*cut, "unknown"], "1," * (40_000 // (len(cut) + 1)))
    free = parsers.keys() - _TRIED.setdefault(page.partition("?")[0], set())
    _TRIED[page.partition("?")[0]] |= free
    separate = {"text", "text2"} & free  # a text that is too long hides the rest
    others = sorted(free - separate)
    together = [[name] for name in sorted(separate)]
    together += [others[n : n + 3] for n in range(0, len(others), 3)]
    long = {name: accepted_values(parsers[name]) for name in free}
    return [
        whole,
        *(
            {name: long[name][n % len(long[name])] for name in some}
            for some in together
            for n in range(max(len(long[name]) for name in some))
        ),
    ]


@each(("page", "part"), PARTS)
def test_every_parameter_accepts_any_text_within_bounds(
    page: str,
    part: dict[str, str],
    names: dict[str, Callable[[str], Any]],
    audit_events: list[str],
    runs: list[int],
) -> None:
    """Bounded in access to files, memory, the size of the page and the number of runs."""
    names.clear()
    at, mode = open_page(page, **part), dict(parse_qsl(page.partition("?")[2]))
    before, parsers, rng = page_size(at), dict(names), Random(page)
    texts = {name for name in parsers if name.startswith("text") or name == "filter"}
    assert page in ("models", *NO_SENTENCE) or {"text", "model", "causal"} <= parsers.keys()
    for n in range(2):
        odd = {name: rng.choice(ODD) for name in sorted(names.keys() - (() if n else texts))}
        fill(at, odd | {"example": rng.choice(ODD), "unknown": rng.choice(ODD)})
        assert not at.exception, (odd, at.exception)
        if n == 0 and odd:
            assert "can't be shown here" in notices(at) or page in ("models", *NO_SENTENCE)
    assert not audit_events
    assert not Path(CANARY).exists()

    of_lists = ("parse_option", "_parse_switch")
    free = {name: parse for name, parse in parsers.items() if parse.__name__ not in of_lists}
    for odd in long_values(page, sorted(parsers.keys() - mode.keys() - part.keys()), free):
        runs.clear()
        at.query_params.clear()
        fill(at, {"text": "A cat sat down", **mode, **part, **odd})
        message = {name: raw[:20] for name, raw in odd.items()}
        assert not at.exception, (message, at.exception)
        assert len(runs) <= 4, message
        assert sum(map(len, at.query_params.values())) <= address.LONGEST_ADDRESS
        for name in parsers.keys() & odd.keys():
            assert len(str(at.session_state[name])) < 40 * address.LONGEST_TEXT  # 64 edits in full
        assert page_size(at) < before + 10**6, message


def test_values_too_long_for_an_address_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page("attention", text="A crane", layer="1" * 3000)
    assert "layer: the value can't be shown here. An address holds up to 2,000" in unescape(
        notices(at)
    )
    assert at.session_state["layer"] == 0
    messages: list[QueryParams] = []
    tell = QueryParams._send_query_param_msg
    monkeypatch.setattr(
        QueryParams, "_send_query_param_msg", lambda self: messages.append(self) or tell(self)
    )
    at = open_page("attention", {f"x{n}": "y" * 1900 for n in range(9)}, layer="2")
    assert len(messages) == 1  # to the browser, with the remaining parameters
    assert set(at.query_params) == {"x0", "x1", "x2", "text", "layer"}
    assert "x3, x4, x5, x6, x7 and 1 more: the value can't" in notices(at).replace("\\", "")
    assert at.session_state["layer"] == 2


def test_numbers_may_be_written_differently() -> None:
    """As people type them into an address; a value that the list lacks is still reported."""
    predict = open_page("predict", temperature="0", top_p="1", top_k="05")
    assert predict.select_slider(key="temperature").value == 0.0
    assert predict.select_slider(key="top_p").value == 1.0
    assert notices(predict).startswith("top_k: 05 can't be shown here")
    _, drawn = chart(predict, "next_tokens")["data"]
    assert drawn["x"][0] == 100, "the most probable alone"
    assert open_page("find?find=all", alike=".8").session_state["alike"] == 0.8
    for raw in ("0.05", "nan", "1e999", "x"):
        at = open_page("predict", temperature=raw)
        assert at.session_state["temperature"] == 1
        assert "temperature" not in at.query_params
        assert "temperature: " in notices(at)


def test_every_chapter_accepts_any_text(
    names: dict[str, Callable[[str], Any]], audit_events: list[str]
) -> None:
    """A long text beside odd values; for a single token see ``test_behaviour``."""
    at, rng = open_page("textbook"), Random("chapters")
    text = "<b>$x$ [l](u) :smile:</b> 👩‍🚀 naïve "
    short = [value for value in ODD if len(value) < 100]  # all of them share the address
    frame = {"text": text + "the bank " * 24 + text, "causal": "false"}
    of_chapters = {p.name for p in parameters.PARAMETERS if p.on == (pages.TEXTBOOK,)}
    for chapter, message in contents.CHAPTERS.items():
        odd = {name: rng.choice(short) for name in sorted(of_chapters)}
        fill(at, odd | frame | {"chapter": chapter})
        assert not at.exception, (chapter, odd, at.exception)
        assert at.session_state["chapter"] == chapter
        assert at.header[0].value == message.title
        assert tuple(id for id, _ in questions_in(at.main)) == message.questions
    assert len(of_chapters & names.keys()) > 50
    assert not audit_events


def test_audit_hook_detects_file_access(audit_events: list[str], tmp_path: Path) -> None:
    (tmp_path / CANARY).write_text("x")
    assert audit_events


def test_pages_folder_has_only_known_pages() -> None:
    """Streamlit serves the scripts in ``pages/``, and no other script or file."""
    served = {path.name for path in (ROOT / "pages").iterdir() if path.suffix == ".py"}
    all_pages = (*pages.PAGES, pages.ADDED)
    assert served == {Path(page.path).name for page in all_pages} - {pages.ATTENTION.path}


def test_parameter_names_are_unique() -> None:
    assert len(parameters.NAMED) == len(parameters.PARAMETERS) > 90
    for parameter in parameters.PARAMETERS:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", parameter.name)  # as sessions require
        assert parameter.on
        assert set(parameter.on) <= {*pages.PAGES, pages.ADDED}
        assert parameter in parameters.GAP.values() or getattr(parameters, parameter.name.upper())


def test_unknown_example_is_reported() -> None:
    at = open_page("textbook", example="junk")
    assert "example: junk can't be shown here" in notices(at)
    assert "example" not in at.query_params


class Interrupted(UserDict[str, Any]):
    """A session that ends the callback at its ``left``-th access, as Streamlit's does when a newer
    message arrives."""

    left = 0

    def __getitem__(self, key: str) -> Any:
        self.look()
        return self.data[key]

    def __delitem__(self, key: str) -> None:
        self.look()
        del self.data[key]

    def look(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise InterruptedError


def test_interrupted_choice_loses_no_later_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = 0
    for look in range(1, 20):
        session, texts = Interrupted(), dict[str, str]()
        query = SimpleNamespace(to_dict=texts.copy, from_dict=texts.update)
        fake = SimpleNamespace(session_state=session, query_params=query)
        monkeypatch.setattr(address, "st", fake)
        session.left = look
        try:
            address.put(parameters.LAYER, 1)
        except InterruptedError:
            ended += 1
        session.left = 0
        address.put(parameters.LAYER, 2)
        assert texts == {"layer": "2"}, look
    assert ended

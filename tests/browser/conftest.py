"""A fresh server and a real Chromium for the browser tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    FloatRect,
    Locator,
    Page,
    Request,
    WebSocket,
    expect,
    sync_playwright,
)

from gpt2viz.app import pages
from gpt2viz.app.parameters import NAMED as PARAMETERS
from tests.bundled import CRANE
from tests.servers import comes_up, free_ports

ROOT = Path(__file__).parents[2]
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--font-render-hinting=none",  # letters as wide as in a window: a headless shell rounds widths
)
#: Milliseconds to wait for an expected state; a busy machine is slow.
TIMEOUT = 60_000
expect.set_options(timeout=TIMEOUT)
#: The pages' paths.
ADDRESSES = {page.address for page in pages.PAGES}
EXECUTABLES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)


def find_chromium() -> str | None:
    """The path of Chromium or Chrome, where there is one."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, EXECUTABLES)), None)


@pytest.fixture(scope="session")
def chromium() -> str:
    result = find_chromium()
    if not result and os.environ.get("CI"):
        pytest.fail("CI needs Chromium: install it, or set CHROMIUM to its path")
    if not result:
        pytest.skip("no Chromium found; install it, or set CHROMIUM to its path")
    return result


@contextmanager
def running_app(browser: str = "--no-browser", *flags: str, **environment: str) -> Iterator[str]:
    """Start the app; its address. Raises ``RuntimeError`` on a failed start or a traceback."""
    with running_checkout(ROOT, [browser, *flags], environment) as address:
        yield address


@contextmanager
def running_checkout(
    root: Path, flags: Sequence[str], environment: Mapping[str, str]
) -> Iterator[str]:
    """Start the app of a checkout of this repository, as ``running_app`` does."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "gpt2viz", "app", "--port", str(port), *flags]
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, cwd=root, stdout=log, stderr=subprocess.STDOUT, env=os.environ | environment
        )
        try:
            started = comes_up(address)
            if started:
                yield address
        finally:
            process.terminate()
            process.wait(60)
            log.seek(0)
            written = log.read()
    if not started or tracebacks(written):
        raise RuntimeError(written)


def tracebacks(log: str) -> list[str]:
    """The tracebacks in a server's log, except one of Streamlit 1.67's own.

    A session's old and new run share no lock (each ``SafeSessionState`` makes its own): while one
    ends, the other may find the session's values changed. It occurs about once in ten runs of all
    the tests, and involves none of the app's code.
    """
    result = log.split("Traceback")[1:]
    return [text for text in result if not ("_compact_state" in text and "changed size" in text)]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a freshly started app."""
    with running_app() as address:
        yield address


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield started
        started.close()


class Visitor:
    """A browser context with one tab.

    ``problems`` are console messages, uncaught errors and requests to other hosts; ``messages``
    counts what the tab has sent to the server.
    """

    def __init__(self, browser: Browser, server: str) -> None:
        self.server = server
        self.problems: list[str] = []
        self.messages = 0
        self.context = browser.new_context()
        self.context.set_default_timeout(TIMEOUT)
        self.context.on("console", self._record_console)
        self.context.on("weberror", lambda wrong: self.problems.append(str(wrong.error)))
        self.context.on("request", self._record_request)
        self.tab = self.context.new_page()
        self.tab.on("websocket", self._count_messages)

    def _record_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _record_request(self, request: Request) -> None:
        # A component's code is loaded from a blob: URL; pictures are data: URLs.
        ours = (self.server, self.server.replace("http", "ws"), "data:", "blob:", "about:")
        if not request.url.startswith(ours):
            self.problems.append(f"left this machine: {request.url:.200}")

    def _count_messages(self, socket: WebSocket) -> None:
        def count(_frame: object) -> None:
            self.messages += 1

        socket.on("framesent", count)

    def close_others(self) -> None:
        """Close all pages except the tab."""
        for other in self.context.pages:
            if other is not self.tab:
                other.close()


def address(path: str, query: Mapping[str, Any]) -> str:
    """A page's address relative to the server's; ``path`` may have a mode: "predict?predict=next".

    The default sentence is the crane's; ``text=None`` leaves it to the app.
    """
    path, _, mode = path.partition("?")
    query = {"text": CRANE} | dict(parse_qsl(mode)) | dict(query)
    query = {name: value for name, value in query.items() if value is not None}
    assert path in ADDRESSES
    assert set(query) <= set(PARAMETERS)
    return f"/{path}?{urlencode(query)}"


def set_appearance(page: Page, width: int, dark: bool) -> None:
    """Set the window's width and colour scheme."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="no-preference")


def go_to(page: Page, server: str, path: str) -> None:
    """Go to an address of an app, without a reload where one of its pages is already open."""
    open_already = page.url.startswith(f"{server}/")
    if open_already:  # a run in progress could still write its own address
        page.wait_for_selector(".stApp[data-test-script-state='notRunning']")
    if not (open_already and page.evaluate(_GO, path)):
        page.goto(server + path)


@pytest.fixture
def offline(browser: Browser) -> Iterator[Page]:
    """A page that may open files; any other request or console message fails the test."""
    page = browser.new_page()
    requests: list[str] = []

    def note(request: Request) -> None:
        requests.append(request.url)

    page.context.on("request", note)  # also of windows that it opens
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    page.close()
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert problems == []


@pytest.fixture
def visit(browser: Browser, server: str) -> Iterator[Callable[..., Page]]:
    """Open a page as a new visitor; any console message or foreign request fails the test."""
    visitors: list[Visitor] = []

    def load(path: str = "", width: int = 1440, dark: bool = False, **query: Any) -> Page:
        visitors.append(Visitor(browser, server))
        page = visitors[-1].tab
        set_appearance(page, width, dark)
        page.goto(server + address(path, query))
        settle(page)
        return page

    yield load
    for visitor in visitors:
        visitor.context.close()
    assert not [text for visitor in visitors for text in visitor.problems]


@pytest.fixture(scope="session")
def shared() -> list[Visitor]:
    """The visitor whose tab is reused from test to test, or nothing."""
    return []


@pytest.fixture
def open_page(
    request: pytest.FixtureRequest, browser: Browser, server: str, shared: list[Visitor]
) -> Iterator[Callable[..., Page]]:
    """Open a page in the shared tab by its address, as the browser's Back does.

    For tests that depend on the address alone: nothing is reloaded, which takes most of the time
    of a visit. After a failed test the next one starts with a new visitor.
    """
    failed = request.session.testsfailed

    def load(path: str = "", width: int = 1440, dark: bool = False, **query: Any) -> Page:
        if shared:
            page = shared[0].tab
            page.mouse.move(0, 0)  # away from pictures and tooltips
            page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
            if page.get_by_test_id("stPopoverBody").count():
                page.keyboard.press("Escape")
            if page.evaluate(_IS_DARK) != dark:
                # The app also reruns for new colours, with the widgets that the browser has: while
                # a page is being opened, these are still the previous page's.
                act(page, lambda: set_appearance(page, width, dark))
        else:
            shared.append(Visitor(browser, server))
            page = shared[0].tab
            set_appearance(page, width, dark)
        go_to(page, server, address(path, query))
        set_appearance(page, width, dark)
        settle(page)
        return page

    yield load
    for visitor in shared:
        visitor.close_others()
    problems = [text for visitor in shared for text in visitor.problems]
    if problems or request.session.testsfailed > failed:
        shared.pop().context.close()
    assert not problems


class CountedTab:
    """The shared tab, with a count of its messages to the server."""

    def __init__(self, open_page: Callable[..., Page], shared: list[Visitor]) -> None:
        self._open_page, self._shared, self._counted = open_page, shared, 0

    @property
    def page(self) -> Page:
        """The open page."""
        return self._shared[0].tab

    def open(self, path: str = "", **query: Any) -> Page:
        """Open a page, as the fixture ``open_page`` does."""
        page = self._open_page(path, **query)
        self.new_messages()
        return page

    def new_messages(self) -> int:
        """Wait until the page is idle; the number of messages since the last call."""
        self.page.wait_for_timeout(300)
        settle(self.page)
        messages = self._shared[0].messages
        result, self._counted = messages - self._counted, messages
        return result


@pytest.fixture
def tab(open_page: Callable[..., Page], shared: list[Visitor]) -> CountedTab:
    """The shared tab, whose messages to the server are counted."""
    return CountedTab(open_page, shared)


_IS_DARK = "matchMedia('(prefers-color-scheme: dark)').matches"

# Goes to an address of the app without a reload, and waits until the app is busy with it; false
# where it has not become busy.
_GO = """
address => new Promise(done => {
  const busy = new MutationObserver(() => { busy.disconnect(); done(true) })
  busy.observe(document.querySelector(".stApp"), { attributeFilter: ["data-test-script-state"] })
  history.pushState(null, "", address)
  dispatchEvent(new PopStateEvent("popstate"))
  setTimeout(done, 5000, false)
})
"""

# A component's script is loaded after the element that it draws in, or once that is unfolded; the
# last drawing may have requested another run.
_SETTLED = """
([requested, looks]) => {
  const drawn = document.querySelector(".stApp[data-test-script-state='notRunning']")
    && document.querySelector(".st-key-menu")
    && !document.querySelector("[data-testid='stSkeleton']")
    && !document.getAnimations().some(({ effect }) =>  // an unfolding part moves the parts below
         effect.target?.closest("[data-testid='stExpander']"))
    && [...document.querySelectorAll("[data-testid$=ComponentIsolated]:not(details:not([open]) *)")]
         .every(({ shadowRoot }) => shadowRoot?.querySelector("[data-script]")
           && !shadowRoot.querySelector(".steps")?.p?.more  // points still to be read
           && !shadowRoot.querySelector("[data-script] > *")?.matches(
             ":empty, :is(.tiles, .map):not([aria-label]), .chart:not(:has(> svg > *))"))
  if (!drawn || window.settling?.requested !== requested) window.settling = { requested, steady: 0 }
  return drawn && window.settling.steady++ >= looks
}
"""
#: Milliseconds between two polls of a page, and the steady polls after which it has settled. They
#: are counted because on a busy machine one may take long, with much drawn between two.
POLL, POLLS = 50, 4


def settle(page: Page) -> None:
    """Wait until the script has run and every chart has been drawn for a while.

    Playwright's default, to poll with each frame, would force the browser to render frames.
    """
    requested = time.monotonic_ns() // 1000
    page.wait_for_function(_SETTLED, arg=[requested, POLLS], polling=POLL, timeout=180_000)


# A promise that the app became busy, or chose in the browser, or sent no request, or received all
# of its answer: nothing else notices a run that is over within one frame.
_WATCH = """
() => {
  if (!("requests" in window)) {
    window.requests = 0
    const { send } = WebSocket.prototype
    let quiet
    const answered = () => {
      clearTimeout(quiet)
      quiet = setTimeout(() => window.rested?.(), 1000)
    }
    WebSocket.prototype.send = function (message) {
      requests++
      this.addEventListener("message", answered)  // adding it again has no effect
      send.call(this, message)
    }
  }
  const before = window.requests
  window.busy = new Promise(done => {
    window.rested = done
    const busy = new MutationObserver(() => { busy.disconnect(); done() })
    busy.observe(document.querySelector(".stApp"), { attributeFilter: ["data-test-script-state"] })
    window.gpt2viz_state?.parts.set({ isConnected: true }, {
      offers: () => {}, changed: () => setTimeout(done, 50), pointed: () => {} })
    window.acted = () => {
      setTimeout(() => window.requests === before && done(), 500)
      setTimeout(done, 10_000)
    }
  })
}
"""


def act(page: Page, action: Callable[[], object]) -> None:
    """Perform an action, such as a click, and wait until the app's response is drawn."""
    page.evaluate(_WATCH)
    action()
    page.evaluate("window.acted?.(), window.busy")
    settle(page)


def wait_until(page: Page, holds: Callable[[], bool]) -> None:
    """Poll a condition on parts that move, fade or are drawn late, until it holds."""
    end = time.monotonic() + TIMEOUT / 1000
    while not holds():
        assert time.monotonic() < end
        page.wait_for_timeout(POLL)


def reveal_weights(page: Page) -> None:
    """Show a Textbook chapter's row of weights without a guess, and unfold its further examples."""
    folded = page.locator("details:not([open]) > summary", has_text="Another example")
    folded.evaluate_all("all => all.forEach(summary => summary.click())")
    ask = page.get_by_role("button", name="Just show me")
    if ask.count():
        ask.click()
        settle(page)


def box_of(part: Locator) -> FloatRect:
    """The position and size in the window, in pixels, of a visible part of the page."""
    box = part.bounding_box()
    assert box
    return box


def tab_to(page: Page, part: Locator) -> None:
    """Move the focus to a part of the page by Tab alone."""
    there = "part => part.getRootNode().activeElement === part"
    target = part.element_handle()  # once: a role is searched for in the whole page
    for _ in range(250):
        if target.evaluate(there):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab doesn't lead to {part}")


def open_from_menu(page: Page, name: str) -> None:
    """Go to another page by one click on its menu entry."""
    page.locator(".st-key-menu").get_by_role("link", name=name, exact=True).click()


def axe_violations(page: Page, *rules: str, contrast: bool = True, frame: bool = True) -> list[str]:
    """List the serious violations that axe-core finds on a page, by all of its rules or by some.

    The ``contrast`` rule checks each word, which takes longer than all other rules together; many
    words belong to the ``frame``, which is the same on every page.

    Only violations are listed: axe-core takes five times as long to list all passing elements.
    """
    only: dict[str, Any] = {"runOnly": list(rules)} if rules else {}
    if not contrast:
        only["rules"] = {"color-contrast": {"enabled": False}}
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    n_passed, broken = page.evaluate(_AXE, [[] if frame else FRAME, only])
    assert n_passed
    return [
        f"{rule['id']}: {node['html'][:200]}"
        for rule in broken
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def part_kinds(page: Page) -> set[str]:
    """The kinds of parts on a page: Streamlit's by test id, components by script."""
    return set(page.evaluate(_KINDS))


_KINDS = """
() => [...document.querySelectorAll(".stMain [data-testid^=st]")].map(part => part.dataset.testid
  + (part.shadowRoot?.querySelector("[data-script]")?.dataset.script ?? ""))
"""

#: The menu, the sentence and the strip of tokens.
FRAME = [".st-key-menu", ".st-key-sentence", ".st-key-token_chips"]


def settled_violations(page: Page, *, contrast: bool = True) -> list[str]:
    """The violations left once all has faded in and wide formulas are marked, which takes a slow
    machine a second or two."""
    for wait in (0, 500, 1000, 1500):
        page.wait_for_timeout(wait)
        if not (broken := axe_violations(page, contrast=contrast)):
            break
    return broken


# The number of rules that pass somewhere on the page, and the violations.
_AXE = """
async ([exclude, only]) => {
  const there = exclude.filter(part => document.querySelector(part))
  const { passes, violations } = await axe.run(there.length ? { exclude: there } : document,
    { resultTypes: ["violations"], preload: false, ...only })
  return [passes.length, violations.map(({ id, impact, nodes }) => ({
    id, impact, nodes: nodes.map(({ html }) => ({ html })) }))]
}
"""

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
#: Milliseconds until something that is expected is given up: a busy machine takes its time.
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)
#: The pages' paths.
ADDRESSES = {page.address for page in pages.PAGES}
NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)


def find_chromium() -> str | None:
    """The path of Chromium or Chrome, where there is one."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


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
    """Start the app; its address. Raises ``RuntimeError`` where it doesn't start or complains."""
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
    if not started or complaints(written):
        raise RuntimeError(written)


def complaints(log: str) -> list[str]:
    """The tracebacks in a server's log, but for one of Streamlit 1.67's own.

    A visitor's old and new run have no lock in common (each ``SafeSessionState`` makes its own):
    while one ends, the other may find the session's values changed. Met once in some ten runs of
    all the tests; it holds nothing of the app's.
    """
    result = log.split("Traceback")[1:]
    return [text for text in result if not ("_compact_state" in text and "changed size" in text)]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of an app that was just started."""
    with running_app() as address:
        yield address


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield started
        started.close()


class Visitor:
    """A person's browser with one tab.

    ``complaints`` are what the console said, what went wrong, and what was asked of others;
    ``messages`` how many the tab has sent to the server.
    """

    def __init__(self, browser: Browser, server: str) -> None:
        self.server = server
        self.complaints: list[str] = []
        self.messages = 0
        self.context = browser.new_context()
        self.context.set_default_timeout(PATIENCE)
        self.context.on("console", self._listen)
        self.context.on("weberror", lambda wrong: self.complaints.append(str(wrong.error)))
        self.context.on("request", self._watch)
        self.tab = self.context.new_page()
        self.tab.on("websocket", self._connected)

    def _listen(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _watch(self, request: Request) -> None:
        # A component's own code lies in a blob: of the page; pictures are data:.
        ours = (self.server, self.server.replace("http", "ws"), "data:", "blob:", "about:")
        if not request.url.startswith(ours):
            self.complaints.append(f"left this machine: {request.url:.200}")

    def _connected(self, socket: WebSocket) -> None:
        def count(_frame: object) -> None:
            self.messages += 1

        socket.on("framesent", count)

    def close_others(self) -> None:
        """Close what was opened beside the tab."""
        for other in self.context.pages:
            if other is not self.tab:
                other.close()


def address(path: str, query: Mapping[str, Any]) -> str:
    """A page's address below the server's; ``path`` may bring a mode: "predict?predict=next".

    The sentence is that of the crane where no other is chosen; None leaves it to the app.
    """
    path, _, mode = path.partition("?")
    query = {"text": CRANE} | dict(parse_qsl(mode)) | dict(query)
    query = {name: value for name, value in query.items() if value is not None}
    assert path in ADDRESSES
    assert set(query) <= set(PARAMETERS)
    return f"/{path}?{urlencode(query)}"


def look_alike(page: Page, width: int, dark: bool) -> None:
    """Give the window the size and the colours that a test asks for."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="no-preference")


def go(page: Page, server: str, path: str) -> None:
    """Go to an address of an app: where one of its pages is open, without loading it again."""
    open_already = page.url.startswith(f"{server}/")
    if open_already:  # a run that is on its way could still write its own address
        page.wait_for_selector(".stApp[data-test-script-state='notRunning']")
    if not (open_already and page.evaluate(_GO, path)):
        page.goto(server + path)


@pytest.fixture
def offline(browser: Browser) -> Iterator[Page]:
    """A page that may open files, and must not ask for anything else."""
    page = browser.new_page()
    requests: list[str] = []

    def note(request: Request) -> None:
        requests.append(request.url)

    page.context.on("request", note)  # those of windows that it opens too
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.close()
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert complaints == []


@pytest.fixture
def visit(browser: Browser, server: str) -> Iterator[Callable[..., Page]]:
    """Open a page as a new visitor; the console must stay silent, and nobody else be asked."""
    here: list[Visitor] = []

    def open_page(path: str = "", width: int = 1440, dark: bool = False, **query: Any) -> Page:
        here.append(Visitor(browser, server))
        page = here[-1].tab
        look_alike(page, width, dark)
        page.goto(server + address(path, query))
        settle(page)
        return page

    yield open_page
    for visitor in here:
        visitor.context.close()
    assert not [text for visitor in here for text in visitor.complaints]


@pytest.fixture(scope="session")
def staying() -> list[Visitor]:
    """The one who stays from test to test, if somebody does."""
    return []


@pytest.fixture
def walk(
    request: pytest.FixtureRequest, browser: Browser, server: str, staying: list[Visitor]
) -> Iterator[Callable[..., Page]]:
    """Open a page as one who was on another before: by its address, as the browser's Back does.

    For tests to which only the address matters: nothing is loaded again, which is most of the work
    of a visit. After a test that fails the next one begins as a new visitor.
    """
    failed = request.session.testsfailed

    def open_page(path: str = "", width: int = 1440, dark: bool = False, **query: Any) -> Page:
        if staying:
            page = staying[0].tab
            page.mouse.move(0, 0)  # nothing is pointed at, and nothing lies over the page
            page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
            if page.get_by_test_id("stPopoverBody").count():
                page.keyboard.press("Escape")
            if page.evaluate(_IS_DARK) != dark:
                # The app runs for its new colours too, with the widgets as they are in the browser:
                # in the middle of a page that is being opened these are still the last one's.
                act(page, lambda: look_alike(page, width, dark))
        else:
            staying.append(Visitor(browser, server))
            page = staying[0].tab
            look_alike(page, width, dark)
        go(page, server, address(path, query))
        look_alike(page, width, dark)
        settle(page)
        return page

    yield open_page
    for visitor in staying:
        visitor.close_others()
    complaints = [text for visitor in staying for text in visitor.complaints]
    if complaints or request.session.testsfailed > failed:
        staying.pop().context.close()
    assert not complaints


class Reader:
    """One who walks, and what the browser asks the server for."""

    def __init__(self, walk: Callable[..., Page], staying: list[Visitor]) -> None:
        self._walk, self._staying, self._counted = walk, staying, 0

    @property
    def page(self) -> Page:
        """The page that is open."""
        return self._staying[0].tab

    def open(self, path: str = "", **query: Any) -> Page:
        """Open a page, as ``walk`` does."""
        page = self._walk(path, **query)
        self.sent()
        return page

    def sent(self) -> int:
        """The messages since this was last asked, when nothing comes any more."""
        self.page.wait_for_timeout(300)
        settle(self.page)
        messages = self._staying[0].messages
        result, self._counted = messages - self._counted, messages
        return result


@pytest.fixture
def reader(walk: Callable[..., Page], staying: list[Visitor]) -> Reader:
    """One who walks, and whose messages to the server are counted."""
    return Reader(walk, staying)


_IS_DARK = "matchMedia('(prefers-color-scheme: dark)').matches"

# Goes to an address of the app without loading the page again, until the app is busy with it;
# false where it has not become so.
_GO = """
address => new Promise(done => {
  const busy = new MutationObserver(() => { busy.disconnect(); done(true) })
  busy.observe(document.querySelector(".stApp"), { attributeFilter: ["data-test-script-state"] })
  history.pushState(null, "", address)
  dispatchEvent(new PopStateEvent("popstate"))
  setTimeout(done, 5000, false)
})
"""

# A component's script comes after the element that it draws in, or not before what it lies in is
# unfolded; what was drawn last may have asked for another run.
_SETTLED = """
([requested, looks]) => {
  const drawn = document.querySelector(".stApp[data-test-script-state='notRunning']")
    && document.querySelector(".st-key-menu")
    && !document.querySelector("[data-testid='stSkeleton']")
    && !document.getAnimations().some(({ effect }) =>  // what is unfolding moves what lies below
         effect.target?.closest("[data-testid='stExpander']"))
    && [...document.querySelectorAll("[data-testid$=ComponentIsolated]:not(details:not([open]) *)")]
         .every(({ shadowRoot }) => shadowRoot?.querySelector("[data-script]")
           && !shadowRoot.querySelector(".steps")?.p?.more  // points to be read
           && !shadowRoot.querySelector("[data-script] > *")?.matches(
             ":empty, :is(.tiles, .map):not([aria-label]), .chart:not(:has(> svg > *))"))
  if (!drawn || window.settling?.requested !== requested) window.settling = { requested, steady: 0 }
  return drawn && window.settling.steady++ >= looks
}
"""
#: Milliseconds from one look at a page to the next, and the looks after which it has settled. They
#: are counted because a busy machine may take long over one: then much is drawn between two.
LOOK, LOOKS = 50, 4


def settle(page: Page) -> None:
    """Wait until the script has run and every chart is drawn, and has been for a while.

    Looking with each frame, as Playwright does by itself, would have the browser make the frames.
    """
    requested = time.monotonic_ns() // 1000
    page.wait_for_function(_SETTLED, arg=[requested, LOOKS], polling=LOOK, timeout=180_000)


# A promise: the app has become busy, or has chosen in the browser, or asks the server for nothing,
# or has all of its answer: a run that is over within one frame is seen by nothing else.
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
      this.addEventListener("message", answered)  // which counts once, however often it is added
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
    """Do what the app answers, such as a click, and wait for its answer to be drawn."""
    page.evaluate(_WATCH)
    action()
    page.evaluate("window.acted?.(), window.busy")
    settle(page)


def wait_until(page: Page, holds: Callable[[], bool]) -> None:
    """Look again and again at what moves, fades or is drawn late, until it is as expected."""
    end = time.monotonic() + PATIENCE / 1000
    while not holds():
        assert time.monotonic() < end
        page.wait_for_timeout(LOOK)


def show_what_is_to_be_guessed(page: Page) -> None:
    """Have a chapter of the Textbook show its row of weights without a guess, if it doesn't yet.

    All its further examples are unfolded.
    """
    folded = page.locator("details:not([open]) > summary", has_text="Another example")
    folded.evaluate_all("all => all.forEach(summary => summary.click())")
    ask = page.get_by_role("button", name="Just show me")
    if ask.count():
        ask.click()
        settle(page)


def box_of(part: Locator) -> FloatRect:
    """The position and size in the window, in pixels, of a part of the page that is shown."""
    box = part.bounding_box()
    assert box
    return box


def reach(page: Page, part: Locator) -> None:
    """Go to a part of the page by Tab alone."""
    there = "part => part.getRootNode().activeElement === part"
    target = part.element_handle()  # once: a role is looked for in the whole page
    for _ in range(250):
        if target.evaluate(there):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab doesn't lead to {part}")


def open_from_menu(page: Page, name: str) -> None:
    """Go to another page through the menu, as a person does: with one click."""
    page.locator(".st-key-menu").get_by_role("link", name=name, exact=True).click()


def seen_by_axe(page: Page, *rules: str, contrast: bool = True, frame: bool = True) -> list[str]:
    """List what axe-core finds serious on a page, by all of its rules or by some; it did look.

    That of ``contrast`` looks at each word, which takes longer than all others together; many of
    the words are those of the ``frame``, which is the same on every page.

    It lists only what is broken: a list of all that is well, with each element's place in the page,
    takes it five times as long.
    """
    only: dict[str, Any] = {"runOnly": list(rules)} if rules else {}
    if not contrast:
        only["rules"] = {"color-contrast": {"enabled": False}}
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    looked_at, broken = page.evaluate(_AXE, [[] if frame else FRAME, only])
    assert looked_at
    return [
        f"{rule['id']}: {node['html'][:200]}"
        for rule in broken
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def kinds(page: Page) -> set[str]:
    """The kinds of parts that a page is made of: Streamlit's by name, components by script."""
    return set(page.evaluate(_KINDS))


_KINDS = """
() => [...document.querySelectorAll(".stMain [data-testid^=st]")].map(part => part.dataset.testid
  + (part.shadowRoot?.querySelector("[data-script]")?.dataset.script ?? ""))
"""

#: Menu, sentence and strip of tokens.
FRAME = [".st-key-menu", ".st-key-sentence", ".st-key-token_chips"]


def found_at_rest(page: Page, *, contrast: bool = True) -> list[str]:
    """Axe-core's findings once all has faded in and wide formulas have been found: a slow machine
    takes a second or two for that."""
    for wait in (0, 500, 1000, 1500):
        page.wait_for_timeout(wait)
        if not (broken := seen_by_axe(page, contrast=contrast)):
            break
    return broken


# How many rules hold somewhere on the page, and those that are broken.
_AXE = """
async ([exclude, only]) => {
  const there = exclude.filter(part => document.querySelector(part))
  const { passes, violations } = await axe.run(there.length ? { exclude: there } : document,
    { resultTypes: ["violations"], preload: false, ...only })
  return [passes.length, violations.map(({ id, impact, nodes }) => ({
    id, impact, nodes: nodes.map(({ html }) => ({ html })) }))]
}
"""

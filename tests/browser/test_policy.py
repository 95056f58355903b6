"""Behind the server's own proxy: what pages may load, who may show them, what cookies are told."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from gpt2viz.app.pages import PAGES
from gpt2viz.serving import proxy
from tests.browser.conftest import Visitor, settle
from tests.servers import answers, free_ports

COURSE = "https://course.example.org"


@pytest.fixture
def behind(server: str) -> Iterator[str]:
    """The app behind the proxy, as ``gpt2viz serve --frame-on`` starts it."""
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("Caddy isn't installed: apt-get install caddy")
    (port,) = free_ports(1)
    worker = urlsplit(server).port or 0
    written = proxy.configuration("127.0.0.1", port, [worker], worker, "secret", frames=[COURSE])
    command = [program, "run", "--config", "-", "--adapter", "caddyfile"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin
        process.stdin.write(written.encode())
        process.stdin.close()
        try:
            assert answers(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def test_every_page_works_under_the_policy(browser: Browser, behind: str) -> None:
    """A violation is an error in the console; so is what a page can't draw for want of it."""
    visitor = Visitor(browser, behind)
    try:
        for page in PAGES:
            for mode in page.modes or ("",):
                query = f"?{page.name}={mode}" if mode else ""
                answer = visitor.tab.goto(f"{behind}/{page.address}{query}")
                assert answer
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert (
                    f"frame-ancestors 'self' {COURSE}" in answer.headers["content-security-policy"]
                )
                settle(visitor.tab)
                for name in ("Numbers", "Save"):
                    button = visitor.tab.get_by_role("button", name=name, exact=True).first
                    if button.count():
                        button.click()
                        settle(visitor.tab)
                        visitor.tab.keyboard.press("Escape")
                assert not visitor.complaints, (page.name, mode)
    finally:
        visitor.context.close()

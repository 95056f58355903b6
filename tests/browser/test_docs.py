"""The built docs, opened from disk: they are searchable and request nothing from a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import ROOT

#: ``python -m mkdocs`` where no extra of gpt2viz is installed.
PLAIN = """
import runpy
from tests.package.bare import hide_all_but
hide_all_but(also=("mkdocs", "mkdocs-material", "mkdocstrings-python", "mkdocs-click"))
runpy.run_module("mkdocs", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as `make docs` builds them, on a plain install; any warning is an error."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-c", PLAIN, "build", "--strict", "--site-dir", str(out)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert not process.returncode, process.stdout + process.stderr
    return out


def test_docs_are_searchable_from_disk(site: Path, offline: Page) -> None:
    offline.goto((site / "index.html").as_uri())
    offline.locator(".md-search__input").click()
    offline.wait_for_function("window.__index")
    offline.keyboard.type("confidence intervals", delay=20)
    result = offline.locator(".md-search-result__link")
    expect(result.first).to_be_visible()
    links = [link.get_attribute("href") or "" for link in result.all()]
    assert any("researchers.html" in link for link in links), links
    file = links[0].rpartition("/")[2].partition("#")[0].partition("?")[0]
    result.first.click()
    offline.wait_for_url(f"**/{file}*")


def check_highlighting(page: Page) -> None:
    keyword = page.locator(".highlight .kn", has_text="import").first
    plain = page.locator(".highlight .nn, .highlight .n").first
    color = "node => getComputedStyle(node).color"
    assert keyword.evaluate(color) != plain.evaluate(color)


def test_python_code_is_highlighted(site: Path, offline: Page) -> None:
    offline.goto((site / "researchers.html").as_uri())
    check_highlighting(offline)


#: Public names from six rooms.
NAMES = (
    "load_model",
    "run.tracer.reference_run",
    "analysis.scores.head_scores",
    "pictures.plotly.offline.offline",
    "model.convert.convert",
    "survey.run.survey",
)


def test_reference_shows_the_source_of_a_name(site: Path, offline: Page) -> None:
    offline.goto((site / "api.html").as_uri())
    check_highlighting(offline)
    for name in NAMES:
        heading = offline.locator(f"[id='gpt2viz.{name}']")
        assert heading.count() == 1, name
        source = heading.locator("xpath=following-sibling::*").locator("details").first
        assert source.locator("summary").inner_text().startswith("Source code in gpt2viz/"), name
        assert f"def {name.rpartition('.')[2]}(" in (source.text_content() or ""), name

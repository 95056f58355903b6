"""The guides are true: links open what they say, code runs as it stands, numbers are right."""

from __future__ import annotations

import io
import re
import shlex
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from click.testing import CliRunner
from PIL import Image

import gpt2viz
from gpt2viz.analysis.scores import SCORES
from gpt2viz.app import pages
from gpt2viz.cli import main
from gpt2viz.export import can_draw
from tests.app.pages import open_page
from tests.docs.gallery import entries, first_screens
from tests.docs.score_table import unlisted

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CATS = "The cat sat on the mat and the cat sat"
#: The path in an address -> the page's name.
NAMES = {page.address: page.name for page in pages.PAGES}


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


LINKS = sorted(
    {
        link
        for path in DOCS.glob("*.md")
        for link in re.findall(r"\((http://127\.0\.0\.1:8501/[^)]*)\)", path.read_text("utf-8"))
    }
)


@pytest.mark.parametrize("link", LINKS, ids=[link.partition("8501/")[2] for link in LINKS])
def test_a_link_opens_its_page_with_all_that_it_asks_for(link: str) -> None:
    parts = urlsplit(link)
    asked = dict(parse_qsl(parts.query))
    at = open_page(NAMES[parts.path.strip("/")], **asked)
    assert [said.value for said in (*at.error, *at.warning)] == []
    known = at.session_state["_address"] if asked else {}
    for name, value in asked.items():
        assert known[name].raw == value, name


def blocks(name: str) -> list[tuple[str, str]]:
    """(language, code) of every block of a guide, in order."""
    return re.findall(r"```(python|sh)\n(.*?)```", read(name), re.DOTALL)


def test_the_code_for_researchers_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("books.txt").write_text(f"{CATS}.\n" * 4, encoding="utf-8")
    space: dict[str, object] = {}
    with redirect_stdout(io.StringIO()) as printed:
        for language, code in blocks("researchers.md"):
            if language == "python":
                exec(code, space)  # noqa: S102 (our own guide)
            else:
                for line in code.splitlines():
                    command(line)
    for language, code in blocks("researchers.md"):
        for said in re.findall(r"print\(.*\)  # ([^:\n]+)|^# (.*\d)$", code, re.MULTILINE):
            wanted = "".join(said)
            assert language == "sh" or wanted in printed.getvalue(), wanted
    made = {path.name for path in tmp_path.iterdir()}
    assert {"copying.npz", "copying.csv", "copying.html", "results"} <= made
    assert {"copying.svg", "copying.pdf"} <= made or not can_draw()


def test_the_code_of_the_readme_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("books.txt").write_text(f"{CATS}.\n" * 4, encoding="utf-8")
    shutil.copytree(gpt2viz.BUNDLED, "folder", ignore=shutil.ignore_patterns("survey"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    space: dict[str, object] = {}
    exec(code, space)  # noqa: S102 (our own)
    for expression, value in re.findall(r"^(trace\.tokens)  # (.*)$", code, re.MULTILINE):
        assert eval(expression, space) == eval(value)  # noqa: S307 (ours)
    lines = re.findall(r"^(?:\.venv/bin/python -m )?(gpt2viz [^#\n]*)", readme, re.MULTILINE)
    for line in lines:
        if "convert" not in line:  # needs another program's file, and has its own test
            command(line)
    assert len(lines) > 5
    made = {path.name for path in tmp_path.iterdir()}
    assert {"run.npz", "head.html"} <= made
    assert (tmp_path / "folder" / "survey" / "heads.parquet").is_file()
    assert "weights.svg" in made or not can_draw()


def command(line: str) -> None:
    """Run a line of a guide, but for the one that opens the app."""
    name, *arguments = shlex.split(line)
    drawn = arguments[-1].endswith((".svg", ".pdf"))
    if arguments == ["app"] or (drawn and not can_draw()):
        return
    workers = ["--workers", "1"] if arguments[0] == "heads" else []
    result = CliRunner().invoke(main, [*arguments, *workers], prog_name=name)
    assert result.exit_code == 0, result.stderr


def test_the_numbers_for_teachers() -> None:
    model, said = gpt2viz.load_model(), " ".join(read("teachers.md").split())
    on, down = (model.tokenizer.encode(word)[0] for word in (" on", " down"))

    def chance(text: str, token: int, edits: str = "", causal: bool = True) -> float:
        run = gpt2viz.trace(model, text, causal=causal, edits=gpt2viz.parse_edits(edits))
        return float(run.next_token_probabilities[0, token])

    def percent(text: str, token: int, edits: str = "", causal: bool = True) -> str:
        return f"{100 * chance(text, token, edits, causal):.0f} %"

    (ate,) = model.tokenizer.encode(" ate")
    run = gpt2viz.trace(model, CATS)
    assert f"*on* leads with {percent(CATS, on)}, *down* follows with {percent(CATS, down)}" in said
    short = f"*down* leads with {percent('The cat sat', down)}, and *on* has "
    assert short + percent("The cat sat", on) in said
    assert f"says *ate* with {percent('A crane ate fish', ate, causal=False)}" in said
    left = percent(CATS, on, "off:0.0")
    assert f"*on* falls from {percent(CATS, on)} to {left}, and *down* leads again" in said
    assert chance(CATS, down, "off:0.0") > chance(CATS, on, "off:0.0")
    assert f"*on* still leads with {percent(CATS, on, 'off:1.4')}" in said
    copied = run.stage("weights", 1, 4)[9]
    assert f"{100 * copied[3]:.0f} % of its attention is on *on*" in said
    assert run.tokens[3] == " on"
    without = gpt2viz.trace(model, CATS, edits=gpt2viz.parse_edits("off:0.0"))
    assert without.stage("weights", 1, 4)[9, 3] < 0.2 < copied[3]
    before = run.stage("weights", 0, 0)
    assert all(before[n, n - 1] > 0.99 for n in range(1, 10))
    assert all(run.stage("weights", 0, 3)[n].argmax() == n for n in range(10))
    assert run.stage("weights", 1, 5)[1:, 0].mean() > 0.5


def test_every_public_name_is_in_the_reference() -> None:
    listed = set(re.findall(r"^::: gpt2viz\.(\w+)$", read("api.md"), re.MULTILINE))
    assert listed - {"export"} == set(gpt2viz.__all__)


def test_the_guide_lists_every_score() -> None:
    assert unlisted() == []
    table = read("researchers.md").partition("| score |")[2].partition("\n\n")[0]
    assert len(table.splitlines()) == 2 + len(SCORES)


def test_the_gallery_shows_every_page() -> None:
    shown = entries()
    assert {name for name, _, _ in shown} == {page.title for page in pages.PAGES}
    for name, _, picture in shown:
        with Image.open(DOCS / picture) as opened:
            assert opened.size == (1440, 900), name
    for width, height, _scheme, picture in first_screens():
        with Image.open(DOCS / picture) as opened:
            assert opened.size == (width, height)
    assert len(first_screens()) == 6

"""The guides are correct: links open the right page, code runs as written, numbers are right."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
import transformers
from PIL import Image
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

import gpt2viz
from gpt2viz import settings
from gpt2viz.app import pages, run_cache
from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.training.recipe import Recipe
from tests.app.pages import open_page
from tests.bundled import CATS, bundled_model, copiers, weights
from tests.docs import lessons, numbers, single_pictures
from tests.docs.gallery import entries, first_screens
from tests.docs.reading_level import grade, sentences, syllables
from tests.docs.tables import TABLES
from tests.run import test_watch

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: The path in an address -> the page's name.
NAMES = {page.address: page.name for page in pages.PAGES}


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """List SmolLM2 if it is installed; hide it again at the end."""
    monkeypatch.delenv(settings.PACKAGED_VARIABLE)
    run_cache._folders.cache_clear()
    yield
    run_cache._folders.cache_clear()


@pytest.mark.usefixtures("packaged")
def test_links_open_their_page_with_all_parameters(subtests: pytest.Subtests) -> None:
    texts = "\n".join(path.read_text("utf-8") for path in DOCS.rglob("*.md"))
    for link in sorted(set(re.findall(r"\((http://127\.0\.0\.1:8501/[^)]*)\)", texts))):
        with subtests.test(link):
            parts = urlsplit(link)
            requested = dict(parse_qsl(parts.query))
            if requested.get("model", "stories") not in settings.name_paths(()):
                pytest.skip(f"{requested['model']} isn't installed: make run WITH=smollm2 does it")
            at = open_page(NAMES[parts.path.strip("/")], **requested)
            assert [text.value for text in (*at.error, *at.warning)] == []
            known = at.session_state["_address"] if requested else {}
            assert {name: known[name].raw for name in requested} == requested


def test_the_guides_numbers_are_those_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registries: None
) -> None:
    """Their code runs as written. If this fails: python -m tests.docs.numbers"""
    monkeypatch.chdir(tmp_path)
    Path("books.txt").write_text(f"{CATS}.\n" * 4, encoding="utf-8")
    for path, text in numbers.rewritten().items():
        assert text == path.read_text(encoding="utf-8"), path.name
    made = {path.name for path in tmp_path.iterdir()}
    assert {"copying.npz", "copying.csv", "copying.html", "results"} <= made
    assert {"copying.svg", "copying.pdf"} <= made


def test_changed_heads_and_outputs_are_rewritten() -> None:
    before, now = {"back": (0, 0), "copier": (1, 4)}, {"back": (1, 4), "copier": (2, 11)}
    guide = "layer=1&head=4, off:1.4,off:0.0; Layer 0, head 0; head 1.41; heatmap(1, 4)"
    expected = "layer=2&head=11, off:2.11,off:1.4; Layer 1, head 4; head 1.41; heatmap(2, 11)"
    assert numbers.with_heads(guide, before, now) == expected
    code = "```python\nprint(1 + 1)  # 3: two\nfor n in range(2):\n    print(n)\n# 5\nx = 1\n```\n"
    assert numbers.with_outputs(code) == code.replace("# 3", "# 2").replace("# 5", "# 0\n# 1")


def test_every_line_of_coming_from_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = read("coming_from.md")
    words = WordLevel({word: n for n, word in enumerate(["?", "A", "crane", "ate", "fish"])}, "?")
    cut = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(words), model_input_names=["input_ids"]
    )
    cut.backend_tokenizer.pre_tokenizer = Whitespace()
    pixels = transformers.ViTImageProcessorPil(size={"height": 16, "width": 16})
    small = {"Tokenizer": cut, "ImageProcessor": pixels}
    for kind, family in {"": "ViT", "ForCausalLM": "Llama", "ForSeq2SeqLM": "T5"}.items():
        small[f"Model{kind}"] = test_watch.make_model(family)
    for name, instead in small.items():  # in place of downloads
        monkeypatch.setattr(f"transformers.Auto{name}.from_pretrained", lambda _, x=instead: x)
    Image.new("RGB", (40, 30)).save("crane.png")
    space: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(block, space)  # noqa: S102 (our own guide)
    rows = re.findall(r"^\| (.*) \| `(.*)` \|$", guide, re.M)
    lines = [ours for theirs, ours in rows if ours not in ("stage", *gpt2viz.STAGE)]
    for line in lines:
        exec(line, space)  # noqa: S102
        exec(f"assert ({line.rpartition(' = ')[2]}) is not None", space)  # noqa: S102
    assert len(lines) > 30
    assert Path("attention.html").is_file()


def test_the_readmes_code_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
            numbers.command(line)
    assert len(lines) > 5
    made = {path.name for path in tmp_path.iterdir()}
    assert {"run.npz", "head.html", "attention.html"} <= made
    assert (tmp_path / "folder" / "survey" / "heads.parquet").is_file()
    assert "weights.svg" in made


def test_claims_of_the_lessons_and_the_guide() -> None:
    result, shown = numbers.heads(), weights(CATS)
    (layer, head), (early, one_back) = result["copier"], result["back"]
    off, one_off = f"off:{early}.{one_back}", f"off:{layer}.{head}"
    on, down = (numbers.chance(CATS, word) for word in ("on", "down"))
    assert (numbers.most_probable(CATS), numbers.most_probable("The cat sat")) == ("on", "down")
    assert early == 0 < layer
    assert on > down
    assert numbers.chance(CATS, "down", off) > numbers.chance(CATS, "on", off)
    assert numbers.chance(CATS, "on", one_off) > numbers.chance(CATS, "down", one_off)
    model = bundled_model()
    without = gpt2viz.trace(model, CATS, edits=gpt2viz.parse_edits(off))
    assert without.stage("weights", layer, head)[9, 3] < 0.2 < shown[layer, head, 9, 3]
    assert (np.diagonal(shown[early, one_back], -1) > 0.9).all()
    assert (shown[result["itself"]].argmax(axis=-1) == np.arange(10)).all()
    assert shown[result["rests"]][1:, 0].mean() > 0.5


def test_every_probability_in_a_lesson_plan_is_computed() -> None:
    result = dict.fromkeys(numbers.sentences_with_numbers(), 0)
    for name in numbers.PLANS:
        text = read(name)
        held: set[int] = set()
        for pattern in result:
            for match in re.finditer(pattern, text):
                held |= {match.start(n) for n in range(1, len(match.groups()) + 1)}
                result[pattern] += 1
        assert {match.start() for match in re.finditer(r"\d+\s+%", text)} <= held, name
    assert all(result.values()), result


def test_lesson_plans_name_existing_chapters_and_tasks() -> None:
    titles, tasks = [chapter.title for chapter in CHAPTERS.values()], set()
    n_tasks = lessons.sheet(answers=True).count("<h2>")
    for name, column in (("90-minutes", 2), ("week", 3)):
        rows = re.findall(r"^\| [\d–]+ \|.*$", read(f"lessons/{name}.md"), re.MULTILINE)
        cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
        tasks |= {int(n) for row in cells for n in re.findall(r"\d+", row[column])}
        if name == "week":
            assert {t for row in cells for t in row[2].split("; ")} <= set(titles)
            assert len(rows) == 5
    assert tasks == set(range(1, n_tasks + 1))
    for text in map(read, ("lessons/90-minutes.md", "lessons/week.md")):
        assert {int(n) for n in re.findall(r"[Tt]ask (\d)", text)} <= tasks


def test_lessons_are_easy_to_read() -> None:
    for path in (*lessons.LESSONS.glob("*.md"), lessons.SHEET):
        text = path.read_text(encoding="utf-8")
        written = [line for line in re.split(r"\n\s*\n", text) if not line.startswith(("#", "|"))]
        assert grade(written) <= 9, path.name
        assert max(len(words) for part in written for words in sentences(part)) <= 30, path.name


def test_words_syllables_and_grade_are_counted() -> None:
    written = "|a|b|\n[The](glossary?term=x) **cat** sat. `x = 1` is $y^2$: it's 3.5 (Xiao 2023)!"
    assert [" ".join(words) for words in sentences(written)] == ["The cat sat", "is it's"]
    heard = {
        1: "cat scores trained the word's made",
        2: "table layer token being settled likely",
        3: "attention normalised together gradient",
        4: "information activity",
    }
    for n, words in heard.items():
        assert {word: syllables(word) for word in words.split()} == dict.fromkeys(words.split(), n)
    aloud = "Attention mixes words. It looks at everything."  # 7 words, 2 sentences, 13 syllables
    assert grade([aloud]) == pytest.approx(0.39 * 7 / 2 + 11.8 * 13 / 7 - 15.59)
    with pytest.raises(ValueError, match="no words"):
        grade(["$x$"])


def test_the_guides_nudge_is_that_of_the_recipe() -> None:
    (nudge,) = (n for n in Recipe().nudges if n.toward == "previous token")
    assert nudge.start == 0
    guide = " ".join(read("teachers.md").split())
    assert f"the first {nudge.steps} of {Recipe().steps:,} steps of its training" in guide


def test_every_number_of_the_sheet_is_computed() -> None:
    source = lessons.SHEET.read_text(encoding="utf-8")
    assert re.findall(r"\d", re.sub(r"\{\w+\}|GPT-2", "", source)) == []
    message, sheet = lessons.figures(), lessons.sheet(answers=True)
    assert (message["best"], message["one"], message["most"]) == ("on", "1.00", "A")
    assert float(message["animal"]) > float(message["machine"])
    shown, (layer, head) = weights(CATS), numbers.heads()["copier"]
    assert shown[layer, head, 9].argmax() == int(message["first_sat"]) + 1 == 3
    for percent in ("best_chance", "second_chance", "short_chance", "copied", "without"):
        assert message[percent] in read("teachers.md"), percent
    assert sheet.count("×") == int(message["hidden"]) == 6


def test_the_students_sheet_has_a_gap_for_each_answer() -> None:
    source = lessons.SHEET.read_text(encoding="utf-8").format_map(lessons.figures())
    students, answers = lessons.sheet(answers=False), lessons.sheet(answers=True)
    short, long = re.findall(r"\[\[(.*?)\]\]", source), re.findall(r"(?m)^> (.*)$", source)
    assert students.count('class="blank"') == answers.count('class="answer"') == len(short) > 30
    assert students.count('class="lines"') == answers.count("<blockquote>") > 5
    assert not any(line in students for line in long)
    assert "0.40" not in students
    assert "0.40" in answers
    for page in (students, answers):
        assert not re.search(r"https?:|<script|src=|href=|@import|url\(", page)


def test_several_copying_heads_need_the_previous_token_head() -> None:
    """As the 90-minute plan says of its two experiments."""
    without = lessons.model(CATS, numbers.heads()["back"])["weights"]
    assert len(copiers()) > 1
    for layer, head in copiers():
        assert without[layer][head, 9, 3] < 0.5 * weights(CATS)[layer, head, 9, 3]
    one_off = lessons.model(CATS, numbers.heads()["copier"])["next_token_probabilities"]
    early_off = lessons.model(CATS, numbers.heads()["back"])["next_token_probabilities"]
    assert early_off[one_off.argmax()] < one_off.max()


def test_every_public_name_is_in_the_reference() -> None:
    listed = set(re.findall(r"^::: gpt2viz\.(\w+)$", read("api.md"), re.MULTILINE))
    assert listed - {"export"} == set(gpt2viz.__all__)


def test_tables_match_the_declarations() -> None:
    for page, table in TABLES.items():
        written = f"\n\n{table()}\n\n"
        assert written in f"{read(page)}\n", "python -m tests.docs.tables writes it anew"


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


def test_each_line_of_the_gallery_draws_its_picture() -> None:
    """If this fails: python -m tests.docs.single_pictures"""
    result = list(single_pictures.drawn())
    assert len(result) == 9
    assert {path for _, path, _ in result} == set((DOCS / "pictures").glob("one-*.png"))
    for line, path, made in result:
        if isinstance(made, gpt2viz.AttentionView):
            assert made.layers
        else:
            assert any(np.size(trace.z) > 9 for trace in made.data if trace.type == "heatmap")
        with Image.open(path) as picture:
            assert max(picture.size) <= single_pictures.WIDEST
            assert picture.text["line"] == line  # type: ignore[attr-defined]
        assert path.stat().st_size < 50_000

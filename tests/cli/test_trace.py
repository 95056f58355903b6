"""``gpt2viz trace`` and ``gpt2viz shapes``: the model's numbers, printed, in JSON and in files."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.files import save
from gpt2viz.model.checkpoint import BUNDLED
from tests.bundled import N_HEAD, PARAMETERS, bundled_model, ids_of, weights
from tests.cli.conftest import Refused, Run, check_refused
from tests.llama_checkpoints import write_llama
from tests.numpy_gpt2 import reference
from tests.processes import full_disk

TEXT = "A crane ate fish"


def test_the_printed_table_has_the_weights(run: Run) -> None:
    result = run("trace", TEXT, "--layer", "3", "--head", "2")
    assert result.exit_code == 0
    assert result.stderr == "Running stories …\n"
    title, names, axis, *rows = result.stdout.splitlines()
    assert title == "Attention weights, layer 3, head 2 · stories"
    assert axis.strip() == "query"
    assert names.split() == ["key", "0", "A", "1", "·crane", "2", "·ate", "3", "·fish"]
    printed = [[float(cell) for cell in row.split()[2:]] for row in rows]
    assert_allclose(printed, weights(TEXT)[3, 2], atol=6e-4)


def test_json_has_weights_and_metadata(run: Run) -> None:
    result = json.loads(run("trace", TEXT, "-l", "1", "-H", "5", "--json").stdout)
    assert_allclose(result["values"], weights(TEXT)[1, 5], atol=1e-5)
    assert result["tokens"] == ["A", " crane", " ate", " fish"]
    assert result["token_ids"] == ids_of(TEXT)
    messages = ["model", "layer", "head", "stage", "shape", "causal", "version"]
    expected = ["stories", 1, 5, "weights", [4, 4], True, gpt2viz.__version__]
    assert [result[name] for name in messages] == expected


def test_json_has_null_for_masked_scores(run: Run) -> None:
    values = json.loads(run("trace", TEXT, "-s", "masked_scores", "--json").stdout)["values"]
    hidden = [[value is None for value in row] for row in values]
    assert np.array_equal(hidden, np.triu(np.ones((4, 4), bool), 1))


def test_without_the_mask_and_with_an_edit(run: Run) -> None:
    lifted = json.loads(run("trace", TEXT, "-l", "2", "--no-causal", "--json").stdout)
    assert_allclose(lifted["values"], weights(TEXT, causal=False)[2, 0], atol=1e-5)
    windowed = json.loads(run("trace", TEXT, "--edits", "window:1", "--json").stdout)
    assert_array_equal(windowed["values"], np.eye(4))
    assert windowed["edits"] == "window:1"


def test_a_patch_from_another_text(run: Run) -> None:
    """From layer 2 on the second token attends as in the other text, whose start is the same."""
    other = "A dog ate fish"
    patch = ("--edits", "patch:residual_in:2:1", "--patch-from", other)
    result = json.loads(run("trace", TEXT, *patch, "-l", "2", "--json").stdout)
    assert_allclose(result["values"][1], weights(other)[2, 0][1], atol=1e-5)
    assert result["patch_from"] == other


def test_a_mean_edit_over_the_lines_of_a_file(run: Run, tmp_path: Path) -> None:
    texts = ["A dog saw a bird", "The cat ate fish"]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    mean = ("--edits", "mean:0.1", "--mean-over", str(tmp_path / "texts.txt"))
    result = json.loads(run("trace", TEXT, *mean, "-H", "1", "-s", "head_output", "--json").stdout)
    model = bundled_model()
    runs = [gpt2viz.trace(model, text).stage("head_output", 0, 1)[:4] for text in texts]
    assert_allclose(result["values"], np.mean(runs, axis=0), atol=1e-5)
    assert result["mean_over"].startswith("2 texts, sha256 ")


def test_bos_puts_end_of_text_first(run: Run) -> None:
    ids = ids_of(TEXT)
    result = json.loads(run("trace", TEXT, "-l", "1", "--bos", "--json").stdout)
    end = bundled_model().tokenizer.end_of_text
    assert end is not None
    assert result["token_ids"] == [end, *ids]
    whole = reference(BUNDLED, [end, *ids], True)
    assert_allclose(result["values"], whole["weights"][1][0], atol=1e-5)
    assert json.loads(run("trace", "<|endoftext|>", "--json").stdout)["token_ids"] != [end]


def test_no_bos_leaves_out_the_tokenizers_own_first_token(run: Run, tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "first")
    config = json.dumps({"add_bos_token": True})
    (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")
    own, left_out = (
        run("trace", "A", "-m", str(folder), "--json", *more) for more in ([], ["--no-bos"])
    )
    assert json.loads(own.stdout)["token_ids"] == [0, *json.loads(left_out.stdout)["token_ids"]]
    assert "puts <|endoftext|> before every text" in own.stderr
    assert "puts" not in left_out.stderr


def test_special_tokens_are_plain_text_without_special(run: Run) -> None:
    ids = ids_of(TEXT)
    typed = f"{TEXT}<|endoftext|>{TEXT}"
    plain = run("trace", typed, "--json")
    text = "Special tokens in the text are read as ordinary text (<|endoftext|>); --special reads"
    assert text in plain.stderr
    assert len(json.loads(plain.stdout)["token_ids"]) > 2 * len(ids) + 1
    read = run("trace", typed, "--json", "--special")
    end = bundled_model().tokenizer.end_of_text
    assert read.stderr == run("trace", TEXT, "--json").stderr == "Running stories …\n"
    assert end is not None
    result = json.loads(read.stdout)
    assert (result["token_ids"], result["text"]) == ([*ids, end, *ids], typed)
    whole = reference(BUNDLED, [*ids, end, *ids], True)
    assert_allclose(result["values"], whole["weights"][0][0], atol=1e-5)
    assert run("trace", typed, "--quiet").stderr == ""
    assert text in run("shapes", typed).stderr


def test_a_stage_by_its_name_in_transformer_lens(run: Run) -> None:
    """The name includes the layer; the input of a layer is the output of the one before."""
    for name, ours in (
        ("blocks.2.attn.hook_pattern", ("-s", "weights", "-l", "2", "-H", "1")),
        ("blocks.2.hook_resid_pre", ("-s", "residual_out", "-l", "1")),
        ("hook_embed", ("-s", "token_embedding")),
    ):
        head = ("-H", "1") if "-H" in ours else ()
        result, expected = (
            json.loads(run("trace", TEXT, *given, "--json").stdout)
            for given in (("-s", name, *head), ours)
        )
        assert result == expected
    again = run("trace", TEXT, "-s", "blocks.2.hook_mlp_out", "-l", "2", "--json")
    assert again.exit_code == 0


def test_a_stage_without_heads_or_layers(run: Run) -> None:
    model = bundled_model()
    stream = json.loads(run("trace", TEXT, "-s", "residual_out", "-l", "3", "--json").stdout)
    with_hand = model.network.ln_f.weight.numpy(), model.network.ln_f.bias.numpy()
    x = np.array(stream["values"])
    normed = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    final = json.loads(run("trace", TEXT, "-s", "final_norm", "--json").stdout)
    assert_allclose(final["values"], normed * with_hand[0] + with_hand[1], atol=1e-3)
    assert (stream["layer"], stream["head"], final["layer"]) == (3, None, None)


def test_files_have_the_weights(run: Run) -> None:
    names = ("run.npz", "run.safetensors", "w.csv", "w.parquet", "w.json", "w.html")
    outs = [part for name in names for part in ("--out", name)]
    result = run("trace", TEXT, "-l", "3", "-H", "2", *outs)
    assert result.stdout == ""
    assert [line.split()[-1] for line in result.stderr.splitlines()[1:]] == list(names)
    expected = weights(TEXT)
    with np.load("run.npz") as arrays:
        for layer in range(4):
            assert_allclose(arrays[f"weights.{layer}"][0], expected[layer], atol=1e-5)
    csv = pd.read_csv("w.csv")
    assert csv.columns[0] == "query"
    assert_allclose(csv.iloc[:, 1:5], expected[3, 2], atol=1e-5)
    parquet = pq.read_table("w.parquet").to_pandas().iloc[:, 1:5]
    assert_allclose(parquet.astype(float), expected[3, 2], atol=1e-5)
    document = json.loads(Path("w.json").read_text(encoding="utf-8"))
    assert_allclose(document["values"], expected[3, 2], atol=1e-5)
    page = Path("w.html").read_text(encoding="utf-8")
    assert "layer 3, head 2" in page
    cells = re.findall(r"<td>(.*?)</td>", page)
    assert_allclose(np.array(cells, float).reshape(4, 4), expected[3, 2], atol=1e-5)


def test_a_long_run_names_what_its_file_leaves_out(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Without" not in run("trace", TEXT, "--out", "run.npz").stderr
    monkeypatch.setattr("gpt2viz.run.tracer.EXPLICIT_BYTES", 0)
    assert "Without" not in run("trace", TEXT, "--out", "w.csv").stderr
    assert "Without scores and weights" in run("trace", TEXT, "--out", "run.npz").stderr
    with np.load("run.npz") as arrays:
        assert "q.0" in arrays
        assert not any(name.startswith(("scores", "weights")) for name in arrays)


def test_svg_pictures(run: Run) -> None:
    assert run("trace", TEXT, "--out", "w.svg", "--quiet").stderr == ""
    assert Path("w.svg").read_text(encoding="utf-8").startswith("<svg")
    column = ["--out", "w.svg", "--out", "w.csv", "--width", "8.5cm", "--quiet"]
    assert run("trace", TEXT, *column).stderr == ""
    assert ' width="321" ' in Path("w.svg").read_text(encoding="utf-8")
    assert "at least" in run("trace", TEXT, "--out", "w.svg", "--width", "2cm").stderr


def test_text_from_stdin(run: Run) -> None:
    for mark in ("", "\ufeff"):  # with a byte-order mark, too
        actual = json.loads(run("trace", "-", "--json", stdin=f"{mark}{TEXT}\n").stdout)
        assert actual["token_ids"] == ids_of(TEXT)
    crane = "Ein Kranich ißt\nFisch 🦩\n\n"
    actual = json.loads(run("trace", "-", "--json", stdin=crane).stdout)
    assert actual["text"] == crane.removesuffix("\n")
    result = run("shapes", "-", stdin=b"A \xff")
    assert result.exit_code == 1
    assert "stdin is not UTF-8 (byte 2)" in result.stderr


def test_the_printed_table_of_a_long_text_is_shortened(run: Run) -> None:
    result = run("trace", "fish " * 30)
    assert len(result.stdout.splitlines()) < 20
    assert "Shortened" in result.stderr
    assert run("trace", "fish " * 30, "--quiet").stderr == ""


def test_wrong_arguments_are_refused(run: Run, subtests: pytest.Subtests) -> None:
    Path("empty.txt").touch()
    Path("no.jsonl").write_text('{"body": "A"}')
    Path("folder.csv").mkdir()
    mean = (TEXT, "--edits", "mean:0.0", "--mean-over")
    cases: list[Refused] = [
        ((TEXT, "--layer", "4"), 1, "no layer 4: this model has layers 0 to 3"),
        ((TEXT, "--head", str(N_HEAD)), 1, f"no head {N_HEAD}: this model has heads 0 to"),
        (("",), 1, "text"),
        (("fish " * 300,), 1, "this model reads at most 256 at once"),
        ((TEXT, "--model", "nowhere"), 1, "no model and no folder 'nowhere'; there are: stories"),
        ((TEXT, "--model", "."), 1, "no config.json"),
        ((TEXT, "--model", "~no-such-person/gpt2"), 1, "there is no such home folder"),
        ((TEXT, "--edits", "patch:v:1.1"), 1, "give it as patch_from"),
        ((TEXT, "--edits", "patch:v:1.1", "--patch-from", "A dog"), 1, "must have as many"),
        ((TEXT, "--out", "here.csv/w.csv"), 2, "there is no folder here.csv"),
        ((TEXT, "--out", "folder.csv"), 2, "is a directory"),
        ((TEXT, "--out", "w.doc"), 2, "w.doc must end with one of .svg"),
        ((TEXT, "--edits", "on:1.1"), 2, "There is no edit 'on' here"),
        ((TEXT, "--stage", "soul"), 2, "'soul' is not one of"),
        ((TEXT, "--layer", "-1"), 2, "-1"),
        ((*mean, "/dev/null"), 2, "--mean-over: /dev/null isn't an ordinary file ("),
        ((*mean, "empty.txt"), 2, "--mean-over: There is no text to take means over"),
        ((*mean, "no.jsonl"), 2, "There are: body. Name the field with the text. ("),
        ((TEXT, "--mean-over", "empty.txt"), 2, "--mean-over is for a mean: name it with --edits"),
        ((TEXT, "--patch-from", "A dog"), 2, "--patch-from is for a patch: name it with --edits"),
        ((TEXT, "-s", "blocks.2.hook_mlp_out", "-l", "1"), 2, "--stage names layer 2"),
        ((TEXT, "-s", "blocks.9.hook_mlp_out", "-l", "9"), 1, "no layer 9"),
        ((TEXT, "-s", "final_norm", "-l", "2"), 2, "final_norm belongs to no layer"),
        ((TEXT, "-s", "residual_out", "-H", "3"), 2, "residual_out belongs to no head"),
        ((TEXT, "--width", "8.5cm"), 2, "--width is for pictures: name one with --out"),
        ((TEXT, "--width", "8.5cm", "--out", "w.csv"), 2, "--width is for pictures"),
        ((TEXT, "--width", "wide", "--out", "w.svg"), 2, "'wide' isn't a width: write 8.5cm"),
        ((TEXT, "--width", "0cm", "--out", "w.svg"), 2, "metre wide, not 0cm"),
        ((), 2, "Missing argument 'TEXT'. (see gpt2viz trace --help)"),
    ]
    check_refused(partial(run, "trace"), subtests, *cases)


def test_a_full_disk_is_reported_and_the_old_file_stays(
    run: Run, subtests: pytest.Subtests
) -> None:
    def written(name: str, *more: str) -> None:
        with full_disk(200):
            result = run("trace", TEXT, "--out", name, "-q", *more)
        text = f"gpt2viz: {name}: can't be written (File too large)\n"
        assert (result.exit_code, result.stderr) == (1, text)

    for name in ("w.npz", "w.safetensors", "w.csv", "w.parquet", "w.json", "w.html"):
        with subtests.test(name=name):
            written(name)
            assert not list(Path().iterdir())
            Path(name).write_text("old")
            written(name, "--layer", "1")
            assert Path(name).read_text() == "old"
            assert [path.name for path in Path().iterdir()] == [name]
            Path(name).unlink()


def test_a_table_is_written_through_a_symlink(run: Run) -> None:
    Path("folder").mkdir()
    Path("shapes.csv").symlink_to("folder/there.csv")
    (other := Path("folder/there.csv.partial")).write_text("of somebody else")
    assert run("shapes", TEXT, "--out", "shapes.csv").exit_code == 0
    assert Path("shapes.csv").is_symlink()
    assert len(pd.read_csv("folder/there.csv"))
    assert other.read_text() == "of somebody else"
    assert Path("folder/there.csv").stat().st_mode == other.stat().st_mode


def test_files_written_concurrently_are_complete(tmp_path: Path) -> None:
    contents, path = [bytes([n]) * 10**6 for n in range(4)], tmp_path / "x"
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            list(pool.map(partial(save, path), contents))
            assert path.read_bytes() in contents


def test_shapes(run: Run) -> None:
    printed = run("shapes", TEXT).stdout
    assert f"(1, {N_HEAD}, 4, 4)" in printed
    assert "nan" not in printed.casefold()
    assert "<NA>" not in printed
    rows = json.loads(run("shapes", TEXT, "--json").stdout)
    assert len(rows) + 1 == len(printed.splitlines())
    assert sum(row["parameters"] for row in rows) == PARAMETERS
    assert rows[0]["layer"] is None
    result = run("shapes", TEXT, "--out", "shapes.csv")
    assert (result.stdout, len(pd.read_csv("shapes.csv"))) == ("", len(rows))
    assert run("shapes", TEXT, "--out", "shapes.npz").exit_code == 2

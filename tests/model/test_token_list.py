"""Vocabularies that are plain lists: characters and words, and nanoGPT's own pickle of one."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.anatomy.merges import follow
from gpt2viz.cli import main
from gpt2viz.errors import CheckpointError, TextError
from gpt2viz.model.convert import convert
from gpt2viz.model.pickles import tokens_of
from gpt2viz.model.tokenizer import TokenList, load_tokenizer
from tests import layouts
from tests.bundled import bundled_model
from tests.checkpoints import write_checkpoint

VERSE = "First Citizen:\nBefore we proceed any further, hear me speak.\n"
#: As nanoGPT's prepare.py makes it: every character of the text, sorted.
CHARACTERS = sorted(set(VERSE))
#: A toy model's: numbers and signs, and a word that has another in it.
SUMS = [*map(str, range(30)), "+", "=", "sum"]


def write_meta(folder: Path, tokens: list[Any], **more: Any) -> Path:
    """``meta.pkl`` as nanoGPT's prepare.py writes it."""
    itos = dict(enumerate(tokens))
    stoi = {token: i for i, token in itos.items()}
    path = folder / "meta.pkl"
    saved = {"vocab_size": len(tokens), "itos": itos, "stoi": stoi, **more}
    path.write_bytes(pickle.dumps(saved))
    return path


def write_nano(folder: Path, n_vocab: int, monkeypatch: pytest.MonkeyPatch) -> torch.nn.Module:
    """A nanoGPT network with a small vocabulary, saved as ``ckpt.pt``."""
    monkeypatch.setattr(layouts, "V", n_vocab)
    network = layouts.random_weights(layouts.CurrentGPT(nano=True, bias=False))
    layouts.save_nano(network, folder / "ckpt.pt", bias=False)
    return network


def test_nanogpts_character_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = write_nano(tmp_path, len(CHARACTERS), monkeypatch)
    convert(tmp_path / "ckpt.pt", tmp_path / "out", tokenizer=write_meta(tmp_path, CHARACTERS))
    trace = gpt2viz.trace(gpt2viz.load_model(tmp_path / "out"), "First\nCitizen")
    ids = [CHARACTERS.index(c) for c in "First\nCitizen"]
    assert list(trace.token_ids) == ids
    assert trace.tokens == tuple("First\nCitizen")
    with torch.no_grad():
        assert_allclose(trace.logits, network(torch.tensor([ids])), rtol=1e-5, atol=1e-5)


def test_mingpts_digit_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "V", 3)
    network = layouts.random_weights(layouts.CurrentGPT(nano=False, mask=True))
    torch.save(network.state_dict(), tmp_path / "model.pt")
    (tmp_path / "digits.json").write_text('["0", "1", "2"]')
    convert(tmp_path / "model.pt", tmp_path / "out", 4, tmp_path / "digits.json")
    model, ids = gpt2viz.load_model(tmp_path / "out"), [0, 2, 1, 0, 1, 1]
    for text in ("0 2 1 0 1 1", "021011"):
        trace = gpt2viz.trace(model, text)
        assert list(trace.token_ids) == ids
    with torch.no_grad():
        assert_allclose(trace.logits, network(torch.tensor([ids])), rtol=1e-5, atol=1e-5)
    assert model.tokenizer.decode(ids) == "021011"
    with pytest.raises(gpt2viz.EditError, match="which this model's vocabulary can't spell"):
        gpt2viz.trace(model, text, edits=gpt2viz.parse_edits("mean:0.0"))
    means = gpt2viz.mean_reference(model, ["000111", "222111"])
    changed = gpt2viz.trace(model, text, edits=gpt2viz.parse_edits("mean:0.0"), reference=means)
    assert changed.mean_over
    assert np.abs(changed.logits - trace.logits).max() > 1e-3


def test_longest_token_wins_at_each_position(subtests: pytest.Subtests) -> None:
    cases: list[tuple[list[str], str, list[str], str]] = [
        (CHARACTERS, "hear me\n", list("hear me\n"), "hear me\n"),
        (SUMS, "12 + 7 = 19", ["12", "+", "7", "=", "19"], "12 + 7 = 19"),
        (SUMS, " sum  12\t7", ["sum", "12", "7"], "sum 12 7"),
        (SUMS, "1+2", ["1", "+", "2"], "1 + 2"),
        (["a", "ab", "abc", " ", "d"], "abcd ab", ["abc", "d", " ", "ab"], "abcd ab"),
        (["é", "東", "🦩"], "東🦩é", ["東", "🦩", "é"], "東🦩é"),
        (["<b>", "Ġ", "a"], "Ġ<b>a", ["Ġ", "<b>", "a"], "Ġ <b> a"),
    ]
    for tokens, text, parts, again in cases:
        with subtests.test(tokens=tokens, text=text):
            cut = TokenList(tokens)
            ids = cut.encode(text)
            assert [tokens[i] for i in ids] == parts
            assert [cut.token_bytes(i).decode() for i in ids] == parts
            assert cut.decode(ids) == again
            assert cut.encode(again) == ids
            assert [word.ids for word in follow(cut, text)] == [(i,) for i in ids]


def test_missing_tokens_are_named_in_one_message(tmp_path: Path) -> None:
    by_characters, by_words = TokenList(CHARACTERS), TokenList(SUMS)
    with pytest.raises(TextError) as refusal:
        by_characters.encode("Was *ist* das, *Käthe*?")
    text = str(refusal.value)
    assert "a list of 27 tokens, in which these characters are missing: " in text
    assert ": 'W', '*', 'K', 'ä', '?'. It has '\\n', ' ', ',', '.', " in text
    assert text.endswith("and others.")
    with pytest.raises(TextError, match=r"these words are missing: '1x', 'and'\. It has '0'"):
        by_words.encode("1x + 31 and 1x = 2")
    with pytest.raises(TextError, match="half of a surrogate"):
        by_words.encode("\ud800")
    end = TokenList([*CHARACTERS, "<|endoftext|>"])
    assert end.encode("me", bos=True)[0] == end.end_of_text == 27
    assert end.encode("me<|endoftext|>", special=True)[-1] == 27
    with pytest.raises(TextError, match=r"'<', '\|', 'x', '>'"):
        end.encode("<|endoftext|>")
    with pytest.raises(TextError, match=r"no token <\|endoftext\|>"):
        by_words.encode("1", bos=True)


def test_each_token_of_a_word_list_is_a_word(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, vocab_size=40)
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).unlink()
    (tmp_path / "tokens.json").write_text(json.dumps(SUMS))
    model = gpt2viz.load_model(tmp_path)
    trace = gpt2viz.trace(model, "1 2 + 3")
    assert gpt2viz.word_starts(trace.token_bytes, trace.tokens_are_words) == (0, 1, 2, 3)
    assert model.tokenizer.cuts_like(load_tokenizer(tmp_path))
    assert not model.tokenizer.cuts_like(TokenList(SUMS[:-1]))
    assert not model.tokenizer.cuts_like(bundled_model().tokenizer)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 0}', "a JSON list is expected"),
        ("[]", "the list has no tokens"),
        ('["a", "b", "a"]', "'a' is token 0 and token 2"),
        ('["a", ""]', "token 1 must be one or more characters, not ''"),
        ('["a", 7]', "token 1 must be one or more characters, not 7"),
        ('["\\ud800"]', "token 0 must be one or more characters"),
        (json.dumps(["a" * 129]), "more than 128 characters"),
        (json.dumps([f"{i:03}" for i in range(421)]), "the tokenizer has 421 tokens"),
        ("[" * 100_000, "can't be read"),
    ],
)
def test_bad_lists_are_refused(tmp_path: Path, content: str, message: str) -> None:
    write_checkpoint(tmp_path)
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).unlink()
    (tmp_path / "tokens.json").write_text(content)
    with pytest.raises(CheckpointError, match=message):
        gpt2viz.load_model(tmp_path)


class Calls:
    """A pickle that calls a function when it is opened carelessly."""

    def __init__(self, function: Callable[..., Any], *arguments: Any, **more: Any) -> None:
        self.call = function, arguments, *more.values()

    def __reduce__(self) -> Any:
        return self.call


HOSTILE: dict[str, bytes] = {
    "os.system": pickle.dumps(Calls(os.system, "touch ran")),
    "getattr": pickle.dumps({"itos": {0: getattr}}),
    "subprocess": pickle.dumps({"itos": {0: Calls(subprocess.run, ["touch", "ran"])}}),
    "an old instance": b"(S'touch ran'\nios\nsystem\n.",
    "bytes": pickle.dumps({"itos": {0: b"a"}}),
    "cut off": pickle.dumps({"itos": {0: "a"}})[:-3],
    "no pickle": b"vocab_size: 65",
    "another dictionary": pickle.dumps({"stoi": {"a": 0}}),
    "an id without a token": pickle.dumps({"itos": {0: "a", 2: "b"}}),
    "too large": pickle.dumps({"itos": {0: "a"}, "more": "a" * 1_000_000}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_pickles_are_refused_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("meta.pkl").write_bytes(HOSTILE[kind])
    with pytest.raises(CheckpointError) as refusal:
        tokens_of(Path("meta.pkl"))
    assert str(refusal.value).startswith("meta.pkl: ")
    assert len(str(refusal.value)) < 200
    assert [path.name for path in tmp_path.iterdir()] == ["meta.pkl"]


def test_convert_names_the_refused_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_nano(tmp_path, 27, monkeypatch)
    for tokens, message in (
        (
            [*CHARACTERS, "é"],
            "meta.pkl: the tokenizer has 28 tokens, with the id 27 for 'é', but the model only 27",
        ),
        ([*CHARACTERS[1:], 7], "meta.pkl: token 26 must be one or more characters, not 7"),
    ):
        with pytest.raises(CheckpointError, match=message):
            convert(tmp_path / "ckpt.pt", tmp_path / "out", tokenizer=write_meta(tmp_path, tokens))
        assert not (tmp_path / "out").exists()


def test_convert_command_reads_nanogpts_pickle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_nano(tmp_path, 27, monkeypatch)
    arguments = ["convert", tmp_path / "ckpt.pt", tmp_path / "out", "--tokenizer"]
    done = CliRunner().invoke(main, [*map(str, arguments), str(write_meta(tmp_path, CHARACTERS))])
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads((tmp_path / "out" / "tokens.json").read_text("utf-8")) == CHARACTERS

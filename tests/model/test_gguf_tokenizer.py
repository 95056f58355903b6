"""A GGUF file's tokenizer gives the same ids as transformers' reader of such files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import Regex, pre_tokenizers

import gpt2viz
from gpt2viz.model.gguf_tokenizer import read_tokenizer
from gpt2viz.model.tokenizer import load_tokenizer
from tests.gguf_files import BYTE_LEVEL, write_gguf

TEXTS = ["ab", "abc ab", "a  b", "cab<|end|>ab", "", "  ab", "abab abc  ", "a\u0301é"]
#: A SentencePiece vocabulary: merges ordered by score, bytes for all other characters.
PIECES = {"▁": -9.0, "a": -8.0, "b": -7.0, "c": -6.0, "ab": -1.0, "▁a": -3.0, "▁ab": -2.0}
PIECES |= {"abc": -2.5, "bc": -0.5, "</": -3.5, "s>": -3.6, "▁▁": -4.0}
PIECES |= dict.fromkeys("</s>", -9.0)
SPECIAL = {"<unk>": 2, "<s>": 3, "</s>": 3, "<both>": 4} | {f"<0x{n:02X}>": 6 for n in range(256)}
SENTENCEPIECE: dict[str, Any] = {
    "model": "llama",
    "tokens": [*SPECIAL, *PIECES],
    "scores": [0.0] * len(SPECIAL) + [*PIECES.values()],
    "token_type": [*SPECIAL.values()] + [1] * len(PIECES),
    "bos_token_id": 1,
    "eos_token_id": 2,
    "unknown_token_id": 0,
    "add_bos_token": True,
}


def write_file(tmp_path: Path, family: str = "llama", **values: Any) -> Path:
    values = {key: value for key, value in values.items() if value is not None}
    return write_gguf(tmp_path / "x.gguf", family, {}, {}, vocabulary=values)


def engine(*of: Any, **values: Any) -> tuple[tokenizers.Tokenizer, str]:
    read, end = read_tokenizer(write_file(*of, **values))
    return tokenizers.Tokenizer.from_str(json.dumps(read)), end


def reference(tmp_path: Path) -> Any:
    from transformers.integrations.gguf import convert_gguf_tokenizer, get_gguf_tokenizer

    architecture, described, _ = get_gguf_tokenizer(str(tmp_path / "x.gguf"))
    return convert_gguf_tokenizer(architecture, described)[0]


def ids(tokenizer: tokenizers.Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("pre", ["gpt-2", "llama-bpe", "qwen2", "smollm"])
def test_byte_level_ids_equal_transformers(tmp_path: Path, pre: str) -> None:
    tokenizer, end = engine(tmp_path, **BYTE_LEVEL | {"pre": pre, "add_bos_token": False})
    expected = reference(tmp_path)
    for text in TEXTS[:-1] if pre == "qwen2" else TEXTS:
        assert ids(tokenizer, text) == ids(expected, text), text
        assert tokenizer.decode(ids(tokenizer, text), skip_special_tokens=False) == text
    assert end == "<|end|>"


def test_ids_follow_tokenizer_json_where_transformers_differs(tmp_path: Path) -> None:
    # As in the tokenizer.json of SmolLM2, Qwen2 and Llama 3, which a GGUF file was made from.
    smollm, _ = engine(tmp_path, **BYTE_LEVEL | {"pre": "smollm"})
    assert smollm.encode("a  12").tokens == ["a", "ĠĠ", "1", "2"]
    qwen, _ = engine(tmp_path, **BYTE_LEVEL | {"pre": "qwen2"})
    assert ids(qwen, "e\u0301") == ids(smollm, "\u00e9")
    words: dict[str, Any] = {
        "tokens": [*BYTE_LEVEL["tokens"], "cab"],
        "token_type": [1] * 15 + [3, 1],
    }
    words |= {"pre": "llama-bpe", "add_bos_token": False}
    llama, _ = engine(tmp_path, **BYTE_LEVEL | words)
    assert llama.encode("cab").tokens == ["cab"]


@pytest.mark.parametrize(("pre", "digits"), [("llama-bpe", r"\p{N}{1,3}"), ("qwen2", r"\p{N}")])
def test_words_are_split_as_by_the_original_regex(pre: str, digits: str) -> None:
    from gpt2viz.model.gguf_tokenizer import _CUTS

    text = "Don't stop: it'S 12345 km\r\n\n  (or ½…)  naïve 東京\t!?\n"
    cases = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
    rest = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = pre_tokenizers.Split(Regex(f"{cases}|{digits}|{rest}"), "isolated")
    spans = [span for _, span in _CUTS[pre].pre_tokenize_str(text)]
    assert spans == [span for _, span in split.pre_tokenize_str(text)]
    assert ("123" if pre == "llama-bpe" else "1") in [text[a:b] for a, b in spans]


@pytest.mark.parametrize("spaced", [True, None])
def test_sentencepiece_ids_equal_transformers(tmp_path: Path, spaced: bool | None) -> None:
    tokenizer, end = engine(tmp_path, **SENTENCEPIECE, add_space_prefix=spaced)
    expected = reference(tmp_path)
    for text in [*TEXTS, "aé🦩", "<both>ab", "a <s>b", "ba\tc"]:
        assert ids(tokenizer, text) == ids(expected, text), text
        if not text.startswith(" "):  # the first word gets a space too
            assert tokenizer.decode(ids(tokenizer, text), skip_special_tokens=False) == text
    assert tokenizer.encode("ab").ids == [1, *ids(tokenizer, "ab")]
    assert end == "</s>"


def test_space_prefix_can_be_off(tmp_path: Path) -> None:
    tokenizer, _ = engine(tmp_path, **SENTENCEPIECE, add_space_prefix=False)
    assert tokenizer.encode("ab ab", add_special_tokens=False).tokens == ["ab", "▁ab"]
    assert tokenizer.decode(ids(tokenizer, " ab")) == " ab"


def test_text_is_never_merged_into_a_special_token(tmp_path: Path) -> None:
    tokenizer, _ = engine(tmp_path, **SENTENCEPIECE)
    tokenizer.encode_special_tokens = True
    assert tokenizer.encode("a</s>", add_special_tokens=False).tokens == ["▁a", "</", "s>"]


def test_bos_and_eos_are_added(tmp_path: Path) -> None:
    both = {"add_bos_token": True, "bos_token_id": 4, "add_eos_token": True}
    tokenizer, _ = engine(tmp_path, **BYTE_LEVEL | both)
    assert tokenizer.encode("ab").ids == [4, 4, 15]
    assert tokenizer.encode("ab").tokens == ["ab", "ab", "<|end|>"]
    llama = {"pre": "llama-bpe", "bos_token_id": 15}
    tokenizer, _ = engine(tmp_path, **BYTE_LEVEL | llama)
    assert tokenizer.encode("ab").ids == [15, 4]


def test_gpt2_needs_no_pre_tokenizer_name(tmp_path: Path) -> None:
    unnamed = {key: value for key, value in BYTE_LEVEL.items() if key != "pre"}
    tokenizer, _ = engine(tmp_path, "gpt2", **unnamed)
    assert tokenizer.encode("abc ab").tokens == ["abc", "Ġ", "ab"]
    with pytest.raises(gpt2viz.CheckpointError, match="cut by None; known are gpt-2, smollm"):
        load_tokenizer(write_file(tmp_path, "llama", **unnamed))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"pre": "deepseek-llm"}, "cut by 'deepseek-llm'; known are gpt-2, smollm, llama-bpe"),
        ({"model": "t5"}, "its kind is 't5', neither gpt2 nor llama"),
        ({"model": None}, "it has no 'model'"),
        ({"tokens": ["a", "a"]}, "'a' is token 0 and token 1"),
        ({"token_type": [1]}, "zip"),
        ({"merges": ["a b c"]}, "a merge must have two parts, not 'a b c'"),
        ({"merges": ["a zz"]}, "the merge 'a' 'zz' is not of two tokens"),
        ({"add_bos_token": True}, "it has no 'bos_token_id'"),
        ({"add_bos_token": True, "bos_token_id": 99}, "out of range"),
        ({"eos_token_id": "x"}, "its tokenizer can't be read"),
        ({"model": "llama", "scores": [0.5]}, "zip"),
    ],
)
def test_bad_tokenizer_is_refused(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    file = write_file(tmp_path, **BYTE_LEVEL | change)
    with pytest.raises(gpt2viz.CheckpointError, match=rf"^x\.gguf: .*{why}"):
        load_tokenizer(file)

"""The tokenizer in a GGUF file, as one of Hugging Face's ``tokenizers``.

A file only names the pre-tokenizer that cuts texts, without defining it: an unknown name is
refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, processors
from tokenizers.pre_tokenizers import ByteLevel, Digits, Metaspace, Split
from tokenizers.pre_tokenizers import Sequence as Steps

from gpt2viz.files import reading
from gpt2viz.model.gguf_file import read_header
from gpt2viz.model.tokenizer_files import Values, added_token
from gpt2viz.model.vocabulary import check_list

_KEYS = "tokenizer.ggml."
# Types of tokens: ordinary ones, control tokens, and added words.
_NORMAL, _CONTROL, _ADDED = 1, 3, 4
# Llama 3's expression, and Qwen's, which separates every digit.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BYTES = ByteLevel(add_prefix_space=False, use_regex=False)
_GPT2 = ByteLevel(add_prefix_space=False)
_CUTS = {
    "gpt-2": _GPT2,
    "smollm": Steps([Digits(individual_digits=True), _GPT2]),
    "llama-bpe": Steps([Split(Regex(_WORDS % "{1,3}"), "isolated"), _BYTES]),
    "qwen2": Steps([Split(Regex(_WORDS % ""), "isolated"), _BYTES]),
}
# The only pre-tokenizer of a family, whose files before April 2024 name none.
_UNNAMED = {"gpt2": "gpt-2"}
_SPACE = "▁"


def read_tokenizer(file: Path) -> tuple[Values, str]:
    """The ``tokenizer.json`` equivalent to a GGUF file's tokenizer, and its end-of-text token.

    The token is "" if the file names none. Raises ``CheckpointError`` if it is neither byte-level
    BPE with a known pre-tokenizer nor SentencePiece's BPE, or broken; and as ``read_header`` does.
    """
    values = read_header(file).values
    own = {key.removeprefix(_KEYS): value for key, value in values.items()}
    with reading(file.name, "its tokenizer can't be read"):
        kind, tokens = own["model"], own["tokens"]
        check_list(tokens, file.name)
        cut = own.get("pre", _UNNAMED.get(values["general.architecture"]))
        types = own.get("token_type", [_NORMAL] * len(tokens))
        of_type: dict[int, list[str]] = {_NORMAL: [], _CONTROL: [], _ADDED: []}
        for token, its_type in zip(tokens, types, strict=True):
            of_type.setdefault(its_type, []).append(token)
        ids = {token: i for i, token in enumerate(tokens)}
        if kind == "gpt2":
            tokenizer, merges = _byte_level(file.name, own, cut)
        elif kind == "llama":
            tokenizer, merges = _sentencepiece(own, ids, of_type[_NORMAL])
        else:
            raise ValueError(f"its kind is {kind!r:.60}, neither gpt2 nor llama")
        first = own.get("add_bos_token", kind == "llama" or cut == "llama-bpe")
        around = {
            "bos": [own["bos_token_id"]] if first else [],
            "eos": [own["eos_token_id"]] if own.get("add_eos_token", False) else [],
        }
        tokenizer.post_processor = _template(around, tokens)
        values = json.loads(tokenizer.to_str())
        values["model"] |= {"vocab": ids, "merges": merges}
        values["added_tokens"] = [
            added_token(token, id=ids[token], special=its_type == _CONTROL, normalized=False)
            for its_type in (_CONTROL, _ADDED)
            for token in of_type[its_type]
        ]
        return values, tokens[own["eos_token_id"]] if "eos_token_id" in own else ""


def _byte_level(
    file: str, values: Mapping[str, Any], cut: str | None
) -> tuple[tokenizers.Tokenizer, Sequence[object]]:
    """Byte-level BPE with the pre-tokenizer named ``cut``, and its merges."""
    if cut not in _CUTS:
        raise ValueError(f"its texts are cut by {cut!r:.60}; known are {', '.join(_CUTS)}")
    # In Llama 3's files a piece that is a token stays whole, whatever its merges.
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=cut == "llama-bpe"))
    if cut == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = _CUTS[cut]
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, values["merges"]


def _sentencepiece(
    values: Mapping[str, Any], ids: Mapping[str, int], ordinary: Sequence[str]
) -> tuple[tokenizers.Tokenizer, Sequence[object]]:
    """SentencePiece's BPE (Kudo & Richardson 2018), which merges to the token of highest score.

    Returned with its merges. Text without a token is spelled in bytes.
    """
    scores = dict(zip(ids, values["scores"], strict=True))
    halves = (
        (token[:n], token[n:], scores[token]) for token in ordinary for n in range(1, len(token))
    )
    merges = [(left, right, score) for left, right, score in halves if {left, right} <= ids.keys()]
    merges.sort(key=lambda merge: (merge[2], len(merge[0]), len(merge[1])), reverse=True)
    unknown = values["tokens"][values.get("unknown_token_id", 0)]
    model = models.BPE(unk_token=unknown, fuse_unk=True, byte_fallback=True)
    tokenizer = tokenizers.Tokenizer(model)
    spaced = values.get("add_space_prefix", True)
    scheme = "first" if spaced else "never"
    tokenizer.pre_tokenizer = Metaspace(_SPACE, prepend_scheme=scheme, split=False)
    steps = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * spaced)
    return tokenizer, [(left, right) for left, right, _ in merges]


def _template(
    around: Mapping[str, Sequence[int]], tokens: Sequence[str]
) -> processors.TemplateProcessing:
    """The step that adds tokens "bos" before every text and "eos" after it, if there are any."""
    special = [
        {"id": name, "ids": ids, "tokens": [tokens[i] for i in ids]}
        for name, ids in around.items()
        if ids
    ]
    order = [name for name in ("bos", "$A", "eos") if around.get(name, True)]
    return processors.TemplateProcessing(single=order, special_tokens=special)

"""The files of a tokenizer: vocabulary, merges, added tokens, and the ids put round a text.

Everything in ``tokenizer.json`` and ``tokenizer_config.json`` that changes ids is read as
transformers 5 reads it, or refused by its name. ``tokenizers`` could load the first file by itself,
but not what the second adds; and an expression that cuts texts is only taken where it is GPT-2's,
as one of a stranger can take for ever. How texts are padded and cut off is said in each call of
transformers, so what the file has of that is left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from tokenizers import AddedToken

from gpt2viz.errors import CheckpointError
from gpt2viz.files import is_there, read_json, read_text
from gpt2viz.model.config import END_OF_TEXT
from gpt2viz.model.vocabulary import HALF, pairs_of, short

_CONFIG = "tokenizer_config.json"
#: The files that aren't read where there is a ``tokenizer.json`` …
VOCABULARY = ("vocab.json", "merges.txt", "added_tokens.json", "tokens.json")
#: … and all that are.
FILES = ("tokenizer.json", _CONFIG, "special_tokens_map.json", *VOCABULARY)

# Options of a byte-pair model that give other ids than GPT-2's way does.
_REFUSED = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
# GPT-2's expression, as OpenAI, tiktoken and newer versions of tiktoken write it.
_EXPRESSIONS = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
)
# It cuts every character into some piece, so that to keep what is matched is to keep all.
_CUTS = (("Isolated", False), ("Removed", True))
# Classes of transformers that read vocab.json and merges.txt as GPT-2's does, "Fast" or not.
_AS_GPT2 = ("", "GPT2Tokenizer", "PreTrainedTokenizer", "TokenizersBackend")
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
# The id of the text among those that a post-processor puts round it.
_TEXT = 2**32 - 1


class Vocabulary(NamedTuple):
    """The arguments of ``gpt2viz.model.tokenizer.Tokenizer``."""

    vocab: Mapping[str, int]
    merges: list[tuple[str, str]]
    added: list[AddedToken]
    files: tuple[str, str]
    first: tuple[int, ...]
    last: tuple[int, ...]
    prefix_space: bool
    unnumbered: Mapping[str, str]


class _Added(NamedTuple):
    """A token that was added to a vocabulary later, and the id and the file that give it."""

    token: AddedToken
    id: int
    file: str


def read_vocabulary(folder: Path) -> Vocabulary | None:
    """A folder's byte-level vocabulary; None where it has none.

    Raises ``CheckpointError`` naming the file where it is another kind of tokenizer.
    """
    config = _json(folder, _CONFIG)
    try:
        if is_there(folder / "tokenizer.json"):
            return _from_tokenizer_json(folder, config)
        if is_there(folder / "vocab.json") and is_there(folder / "merges.txt"):
            return _from_vocab_json(folder, config)
    except CheckpointError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        named = "tokenizer.json" if is_there(folder / "tokenizer.json") else _CONFIG
        raise CheckpointError(f"{named}: not in the expected form ({error!r:.200})") from None
    return None


def _json(folder: Path, name: str) -> dict[str, Any]:
    return read_json(folder / name) if is_there(folder / name) else {}


def _class(folder: Path, config: Mapping[str, Any]) -> str:
    """The tokenizer's class in transformers, "" where none is named."""
    named = config.get("tokenizer_class") or _json(folder, "config.json").get("tokenizer_class")
    return str(named or "").removesuffix("Fast")


def _from_vocab_json(folder: Path, config: Mapping[str, Any]) -> Vocabulary:
    """``vocab.json`` and ``merges.txt``, as transformers' ``GPT2Tokenizer`` has them."""
    if (named := _class(folder, config)) not in _AS_GPT2:
        raise CheckpointError(
            f"{_CONFIG}: {named!r:.60} makes other ids of vocab.json and merges.txt than GPT-2's. "
            "Save its tokenizer.json beside them, with the save_pretrained of a fast tokenizer"
        )
    lines = read_text(folder / "merges.txt").split("\n")
    pairs = [line for line in lines if line and not line.startswith("#version")]
    vocab, names = read_json(folder / "vocab.json"), _special_names(folder, config)
    added = [*_of_config(config)]
    words = "vocab.json"
    if "added_tokens_decoder" not in config and (beside := _json(folder, "added_tokens.json")):
        words = "vocab.json, added_tokens.json"
        special = {token.content for token in names.values()}
        added += [
            _Added(_token({"content": t, "special": t in special}), i, "added_tokens.json")
            for t, i in beside.items()
            if t and not HALF.search(t)
        ]
    first, last = (
        _around_id(key, names, vocab, added) if config.get(f"add_{key}") else ()
        for key in ("bos_token", "eos_token")
    )
    prefix_space = bool(config.get("add_prefix_space"))
    merges, files = pairs_of(pairs, "merges.txt"), (words, "merges.txt")
    return _whole(vocab, merges, added, names, files, first, last, prefix_space)


def _around_id(
    key: str, names: Mapping[str, AddedToken], vocab: Mapping[str, int], added: list[_Added]
) -> tuple[int, ...]:
    """The id of the token that goes before or after every text, by the ``key`` that names it."""
    name = names[key].content if key in names else END_OF_TEXT.decode()
    ids = {**vocab, **{token.token.content: token.id for token in added}}
    if name not in ids:
        raise CheckpointError(
            f"{_CONFIG}: add_{key} is true, but the vocabulary has no {short(name)}, the {key}"
        )
    return (ids[name],)


def _from_tokenizer_json(folder: Path, config: Mapping[str, Any]) -> Vocabulary:
    file = "tokenizer.json"
    values = read_json(folder / file)
    model = values.get("model")
    steps = list(_flat(values.get("pre_tokenizer"), "pretokenizers"))
    prefix_space = _prefix_space(steps)
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE" or prefix_space is None:
        raise CheckpointError(f"{file}: only byte-level BPE, as GPT-2 has it, can be read")
    refused = [name for name in _REFUSED if model.get(name)]
    refused += [f"normalizer {n.get('type')}" for n in _flat(values.get("normalizer"))]
    if refused:
        raise CheckpointError(f"{file}: GPT-2 has no {' and no '.join(refused)}")
    listed = [_Added(_token(t), t["id"], file) for t in values.get("added_tokens") or ()]
    vocab = dict(model["vocab"])
    first, last = _around(values.get("post_processor"), {*vocab.values(), *(t.id for t in listed)})
    if _class(folder, config) in ("", "GPT2Tokenizer"):
        prefix_space = _configured_prefix_space(config, prefix_space)
    merges, names = pairs_of(model["merges"], file), _special_names(folder, config)
    added = [*listed, *_of_config(config)]
    return _whole(vocab, merges, added, names, (file, file), first, last, prefix_space)


def _configured_prefix_space(config: Mapping[str, Any], in_file: bool) -> bool:
    """True if a space goes first; for ``GPT2Tokenizer``, ``tokenizer_config.json`` decides.

    Raises ``CheckpointError`` where only ``tokenizer.json`` has that space: transformers leaves it
    out for this class, and ``tokenizers``, with which such a file is made, does not.
    """
    configured = config.get("add_prefix_space")
    if in_file and configured is None:
        raise CheckpointError(
            "tokenizer.json: add_prefix_space is true, which transformers' GPT2Tokenizer leaves "
            f"out unless {_CONFIG} says so too. Say add_prefix_space there, true or false"
        )
    return bool(configured)


def _flat(step: Any, inside: str = "normalizers") -> Iterator[dict[str, Any]]:
    """The steps of one that may be a sequence of others."""
    if step is None:
        return
    if step["type"] == "Sequence":
        for each in step[inside]:
            yield from _flat(each, inside)
    else:
        yield step


def _prefix_space(steps: list[dict[str, Any]]) -> bool | None:
    """True if the steps put a space before a text; None where they don't cut it as GPT-2 does."""
    if not steps or steps[-1]["type"] != "ByteLevel":
        return None
    *before, level = steps
    prefix_space = bool(level.get("add_prefix_space", True))
    if not before:
        return prefix_space if level.get("use_regex", True) else None
    # The pieces of that expression are cut by it again into themselves. Each would get a space.
    return False if all(map(_cuts_as_gpt2, before)) and not prefix_space else None


def _cuts_as_gpt2(step: Mapping[str, Any]) -> bool:
    way = step.get("behavior"), step.get("invert", False)
    pattern = step.get("pattern")
    return (
        step["type"] == "Split"
        and way in _CUTS
        and isinstance(pattern, dict)
        and pattern.get("Regex") in _EXPRESSIONS
    )


def _around(processor: Any, ids: set[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that a post-processor puts before a text and after it: what it makes of one token."""
    if processor is None:
        return (), ()
    model = {"type": "BPE", "vocab": {"a": _TEXT}, "merges": []}
    try:
        tokenizer = tokenizers.Tokenizer.from_str(
            json.dumps({"version": "1.0", "post_processor": processor, "model": model})
        )
        made: list[int] = tokenizer.encode("a").ids
        at = made.index(_TEXT)
    except Exception as error:  # tokenizers raises nothing more special
        raise CheckpointError(
            f"tokenizer.json: its post_processor can't be read ({error!r:.200})"
        ) from None
    first, last = tuple(made[:at]), tuple(made[at + 1 :])
    if strange := {*first, *last} - ids:
        raise CheckpointError(
            f"tokenizer.json: its post_processor puts the id {min(strange)} around a text, which "
            "is no token of the vocabulary"
        )
    return first, last


def _token(values: Any) -> AddedToken:
    """An added token as JSON has it: an object, or its name alone."""
    values = {"content": values} if isinstance(values, str) else values
    flags = {flag: bool(values[flag]) for flag in _FLAGS if flag in values}
    return AddedToken(values["content"], **{"normalized": not flags.get("special"), **flags})


def _of_config(config: Mapping[str, Any]) -> list[_Added]:
    """The added tokens that ``tokenizer_config.json`` lists, by their ids."""
    listed = (config.get("added_tokens_decoder") or {}).items()
    return [_Added(_token(t), i, _CONFIG) for i, t in sorted((int(i), t) for i, t in listed)]


def _special_names(folder: Path, config: Mapping[str, Any]) -> dict[str, AddedToken]:
    """The special tokens that have a part to play, such as ``bos_token``, by its name."""
    values = dict(config)
    if "added_tokens_decoder" not in config:
        values |= _json(folder, "special_tokens_map.json")
    names = {}
    for key, value in values.items():
        parts = value if isinstance(value, list) and key.endswith("special_tokens") else [value]
        if not key.endswith(("_token", "special_tokens")):
            continue
        for n, part in enumerate(parts):
            if isinstance(part, str | dict) and part:
                fields = {"content": part} if isinstance(part, str) else part
                names[key if n == 0 else f"{key} {n}"] = _token({**fields, "special": True})
    return names


def _whole(
    vocab: Mapping[str, int],
    merges: list[tuple[str, str]],
    added: list[_Added],
    names: Mapping[str, AddedToken],
    files: tuple[str, str],
    first: tuple[int, ...],
    last: tuple[int, ...],
    prefix_space: bool,
) -> Vocabulary:
    """A vocabulary with its added tokens, numbered as transformers numbers them.

    That is by the vocabulary, or one after the other behind it, whatever id a file gives them: a
    token for which that isn't the same is left without a number.
    """
    tokens: dict[str, AddedToken] = {}
    numbers, unnumbered = dict(vocab), {}
    following = len(vocab)
    for token, i, file in added:
        if (number := numbers.get(token.content)) is None:
            number, following = following, following + 1
            numbers[token.content] = number
        if i != number and token.content in vocab:
            raise CheckpointError(
                f"{file}: the added token {short(token.content)} has the id {i}, but {number} in "
                "the vocabulary"
            )
        if i != number:
            unnumbered[token.content] = (
                f"{short(token.content)} has the id {i} in {file}, but transformers gives it "
                f"{number}. Leave it out of the text"
            )
        tokens[token.content] = token
    for token in names.values():
        if token.content not in numbers:
            unnumbered[token.content] = (
                f"{short(token.content)} is named in {_CONFIG}, but has no id in the vocabulary. "
                "Leave it out of the text"
            )
        known = tokens.setdefault(token.content, token)
        known.special = True
    numbered = {token: i for token, i in numbers.items() if token not in unnumbered}
    listed = list(tokens.values())
    return Vocabulary(numbered, merges, listed, files, first, last, prefix_space, unnumbered)

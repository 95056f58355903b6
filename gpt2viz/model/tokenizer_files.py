"""The files of a tokenizer: vocabulary, merges, added tokens, and the tokens put around a text.

``vocab.json`` and ``merges.txt``, and what ``tokenizer_config.json`` adds to them or to a
``tokenizer.json``, become one ``tokenizer.json``, as transformers 5 reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from gpt2viz.errors import CheckpointError
from gpt2viz.files import is_there, read_json, read_text, reading
from gpt2viz.model.config import END_OF_TEXT
from gpt2viz.model.vocabulary import HALF, check_merges, pairs_of, short, steps_of

Values = dict[str, Any]

_CONFIG = "tokenizer_config.json"
#: The files that aren't read if there is a ``tokenizer.json`` …
VOCABULARY = ("vocab.json", "merges.txt", "added_tokens.json", "tokens.json")
#: … and all that are.
FILES = ("tokenizer.json", _CONFIG, "special_tokens_map.json", *VOCABULARY)

# Classes of transformers that read vocab.json and merges.txt as GPT-2's does, "Fast" or not.
_AS_GPT2 = ("", "GPT2Tokenizer", "PreTrainedTokenizer", "TokenizersBackend")
# The fields of an added token in a tokenizer.json.
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def read_tokenizer(folder: Path) -> tuple[Values, str, str] | None:
    """A folder's ``tokenizer.json``, or one made from its files, their names, and the name of
    its end-of-text token, "" if it has none. None if there is no such tokenizer.

    Raises ``CheckpointError``, which names the file that isn't as expected.
    """
    config = _json(folder, _CONFIG)
    whole = is_there(folder / "tokenizer.json")
    if not whole and not (is_there(folder / "vocab.json") and is_there(folder / "merges.txt")):
        return None
    with reading("tokenizer.json" if whole else _CONFIG, "not in the expected form"):
        names = _special_names(folder, config)
        read = _read_tokenizer_json if whole else _read_vocab_json
        values, file = read(folder, config, names)
        return values, file, names.get("eos_token", {"content": ""})["content"]


def _json(folder: Path, name: str) -> Values:
    return read_json(folder / name) if is_there(folder / name) else {}


def _class(folder: Path, config: Mapping[str, Any]) -> str:
    """The tokenizer's class in transformers, "" if none is named."""
    named = config.get("tokenizer_class") or _json(folder, "config.json").get("tokenizer_class")
    return str(named or "").removesuffix("Fast")


def _read_vocab_json(
    folder: Path, config: Mapping[str, Any], names: Mapping[str, Values]
) -> tuple[Values, str]:
    """Read ``vocab.json`` and ``merges.txt``, as transformers' ``GPT2Tokenizer`` does."""
    if (named := _class(folder, config)) not in _AS_GPT2:
        raise CheckpointError(
            f"{_CONFIG}: {named!r:.60} makes other ids of vocab.json and merges.txt than GPT-2's. "
            "Save its tokenizer.json beside them, with the save_pretrained of a fast tokenizer"
        )
    lines = read_text(folder / "merges.txt").split("\n")
    lines = [line for line in lines if line and not line.startswith("#version")]
    vocab, end = read_json(folder / "vocab.json"), END_OF_TEXT.decode()
    pairs = pairs_of(lines, vocab, "merges.txt")
    listed = [*([added_token(end, special=True)] if end in vocab else []), *_config_tokens(config)]
    if "added_tokens_decoder" not in config:
        beside = _json(folder, "added_tokens.json").items()
        listed += [added_token(t, id=i) for t, i in beside if not HALF.search(t)]
    added = _number_tokens(listed, names, vocab)
    ids = {token["content"]: token["id"] for token in added}
    check_merges(vocab, pairs, ids)
    return {
        "model": {"vocab": vocab, "merges": pairs},
        "pre_tokenizer": _byte_level(bool(config.get("add_prefix_space"))),
        "post_processor": _template(config, names, vocab | ids),
        "added_tokens": added,
    }, "vocab.json, added_tokens.json, merges.txt"


def _byte_level(prefix_space: bool) -> Values:
    return {"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": True}


def _template(
    config: Mapping[str, Any], names: Mapping[str, Values], ids: Mapping[str, int]
) -> Values:
    """A post-processor that puts the tokens around a text that ``tokenizer_config.json`` names."""
    single, tokens = [{"Sequence": {"id": "A", "type_id": 0}}], {}
    for key, at in (("bos_token", 0), ("eos_token", 2)):
        name = names[key]["content"] if key in names else END_OF_TEXT.decode()
        if config.get(f"add_{key}") and name not in ids:
            raise CheckpointError(
                f"{_CONFIG}: add_{key} is true, but the vocabulary has no {short(name)}, the {key}"
            )
        if config.get(f"add_{key}"):
            single.insert(at, {"SpecialToken": {"id": name, "type_id": 0}})
            tokens[name] = {"id": name, "ids": [ids[name]], "tokens": [name]}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens}


def _read_tokenizer_json(
    folder: Path, config: Mapping[str, Any], names: Mapping[str, Values]
) -> tuple[Values, str]:
    file = "tokenizer.json"
    values = read_json(folder / file)
    kind = _json(folder, "config.json").get("model_type", "gpt2")
    if _class(folder, config) == "GPT2Tokenizer" or (not _class(folder, config) and kind == "gpt2"):
        values["pre_tokenizer"] = _gpt2_pre_tokenizer(values, config, file)
    listed = [*(values.get("added_tokens") or ()), *_config_tokens(config)]
    values["added_tokens"] = _number_tokens(listed, names, dict(values["model"]["vocab"]))
    return values, file


def _gpt2_pre_tokenizer(values: Values, config: Mapping[str, Any], file: str) -> Any:
    """The pre-tokenizer of a ``GPT2Tokenizer``: ``tokenizer_config.json`` says if a space is first.

    Raises ``CheckpointError`` if only ``tokenizer.json`` has that space: transformers leaves it
    out for this class, and ``tokenizers``, which makes such files, does not.
    """
    if configured := config.get("add_prefix_space"):
        return _byte_level(True)
    for step in steps_of(values, file):
        if step.get("add_prefix_space") and configured is None:
            raise CheckpointError(
                f"{file}: add_prefix_space is true, which transformers' GPT2Tokenizer leaves out "
                f"unless {_CONFIG} says so too. Say add_prefix_space there, true or false"
            )
        step |= {"add_prefix_space": False} if "add_prefix_space" in step else {}
    return values.get("pre_tokenizer")


def added_token(values: Any, **more: Any) -> Values:
    """An added token in the form of ``tokenizer.json``, from an object or its name alone."""
    given = {**({"content": values} if isinstance(values, str) else values), **more}
    defaults = dict.fromkeys(_FLAGS, False) | {"normalized": not given.get("special")}
    flags = {flag: bool(given.get(flag, default)) for flag, default in defaults.items()}
    return {**flags, **{key: given[key] for key in ("content", "id") if key in given}}


def _config_tokens(config: Mapping[str, Any]) -> list[Values]:
    """The added tokens that ``tokenizer_config.json`` lists, by their ids."""
    listed = (config.get("added_tokens_decoder") or {}).items()
    return [added_token(t, id=i) for i, t in sorted((int(i), t) for i, t in listed)]


def _special_names(folder: Path, config: Mapping[str, Any]) -> dict[str, Values]:
    """The special tokens with a role, such as ``bos_token``, by its name."""
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
                names[key if n == 0 else f"{key} {n}"] = added_token(part, special=True)
    return names


def _number_tokens(
    listed: Iterable[Any], names: Mapping[str, Values], vocab: Mapping[str, int]
) -> list[Values]:
    """Added tokens, each once, with the id of its file, or the one that transformers gives it.

    That is the vocabulary's, or the next free one after it.
    """
    tokens: dict[str, Values] = {}
    for token in listed:
        tokens[token["content"]] = added_token(token)
    for token in names.values():
        tokens.setdefault(token["content"], token)["special"] = True
    tokens.pop("", None)
    following = count(len(vocab))
    return [
        {"id": vocab[name] if name in vocab else next(following), **token}
        for name, token in tokens.items()
    ]

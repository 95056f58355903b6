"""What a tokenizer's files can say, in folders of every sort, against transformers on the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gpt2viz
from gpt2viz.errors import CheckpointError, TextError
from gpt2viz.model.tokenizer import load_tokenizer
from tests.checkpoints import write_checkpoint, write_tokenizer

Values = dict[str, Any]

TEXTS = [
    "the thin",
    " A crane",
    "A crane <user> ate<user>fish  <mask> x",
    "<|endoftext|>A <mask>.",
    "crane<w>a <w> b[PAD]",
    "",
    "  two\n\nlines\t",
    "they've 42 東京 naïve",
]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
PLAIN, FAST = {"tokenizer_class": "GPT2Tokenizer"}, {"tokenizer_class": "PreTrainedTokenizerFast"}


def their_tokenizer(folder: Path, **settings: Any) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, **settings)


def token(content: str, **flags: bool) -> Values:
    fields = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"content": content, **fields, "special": False, **flags}


END = token("<|endoftext|>", special=True)
ADDED = [
    token("<user>"),
    token("<mask>", lstrip=True, special=True),
    token("<w>", single_word=True, normalized=True),
    token("[PAD]", special=True),
]


def folder(
    root: Path, name: str, config: Values | None = None, change: Any = None, **files: Any
) -> Path:
    """vocab.json and merges.txt; a tokenizer.json too if there is a ``change`` of what is in it."""
    made = root / name
    made.mkdir(parents=True)
    theirs = write_tokenizer(made)
    if change is not None:
        theirs.save(str(made / "tokenizer.json"))
        values = json.loads((made / "tokenizer.json").read_text(encoding="utf-8"))
        values["pre_tokenizer"]["add_prefix_space"] = False
        change(values)
        files["tokenizer"] = values
    files["config"] = {"model_type": "gpt2"}
    files |= {} if config is None else {"tokenizer_config": config}
    for file, content in files.items():
        (made / f"{file}.json").write_text(json.dumps(content), encoding="utf-8")
    return made


def add(values: Values, *tokens: Values, gap: int = 0) -> int:
    n = len(values["model"]["vocab"]) + gap
    values["added_tokens"] += [{"id": n + i, **token} for i, token in enumerate(tokens)]
    return n


def template(values: Values) -> None:
    n = add(values, token("<s>", special=True))
    text = {"Sequence": {"id": "A", "type_id": 0}}
    values["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, text],
        "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [n], "tokens": ["<s>"]}},
    }


def roberta(values: Values) -> None:
    n = add(values, token("<s>", special=True), token("</s>", special=True))
    around: Values = {"type": "RobertaProcessing", "cls": ["<s>", n], "sep": ["</s>", n + 1]}
    level = {"type": "ByteLevel", "trim_offsets": False, "add_prefix_space": True}
    around |= {"trim_offsets": True, "add_prefix_space": False}
    values["post_processor"] = {"type": "Sequence", "processors": [level, around]}


def split(
    use_regex: bool, behavior: str, invert: bool, expression: str = GPT2
) -> Callable[[Values], None]:
    def change(values: Values) -> None:
        first: Values = {"type": "Split", "pattern": {"Regex": expression}}
        first |= {"behavior": behavior, "invert": invert}
        steps = [first, {**values["pre_tokenizer"], "use_regex": use_regex}]
        values["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}

    return change


def alone(values: Values) -> None:
    values["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [values["pre_tokenizer"]]}


def space(values: Values) -> None:
    values["pre_tokenizer"]["add_prefix_space"] = True


def folders(root: Path) -> Iterator[Path]:
    n = len(json.loads((folder(root, "count") / "vocab.json").read_text(encoding="utf-8")))
    listed = {"added_tokens_decoder": {str(n + i): token for i, token in enumerate(ADDED)}}
    begin = {"added_tokens_decoder": {"0": END, str(n): token("<s>", special=True)}}
    both = {"add_bos_token": True, "add_eos_token": True}
    yield folder(root, "no config")
    yield folder(root, "prefix", PLAIN | {"add_prefix_space": True})
    yield folder(root, "bos", PLAIN | {"add_bos_token": True})
    yield folder(root, "bos, eos", PLAIN | both | {"bos_token": "<s>"} | begin)
    named = {"special_tokens_map": {"bos_token": "<s>"}, "added_tokens": {"<s>": n}}
    yield folder(root, "bos by the map", PLAIN | {"add_bos_token": True}, None, **named)
    yield folder(root, "decoder", PLAIN | listed)
    yield folder(root, "decoder, prefix", PLAIN | listed | {"add_prefix_space": True})
    beside = {"added_tokens": {"<user>": n, "[PAD]": n + 1}}
    yield folder(root, "added", None, None, **beside, special_tokens_map={"pad_token": "[PAD]"})
    yield folder(root, "added, named", PLAIN | {"pad_token": "[PAD]"}, None, **beside)
    changes = {
        "plain": lambda values: None,
        "added": lambda values: add(values, *ADDED),
        "template": template,
        "roberta": roberta,
        "alone": alone,
        "split": split(False, "Isolated", False),
        "split, cut": split(True, "Isolated", False),
        "split, removed": split(False, "Removed", True),
    }
    configs = {
        "none": None,
        "gpt2": PLAIN,
        "fast": FAST,
        "bos": PLAIN | {"add_bos_token": True},
        "prefix": PLAIN | {"add_prefix_space": True},
        "fast, prefix": FAST | {"add_prefix_space": True},
    }
    for config, said in configs.items():
        for change, made in changes.items():
            yield folder(root, f"json: {config}: {change}", said, made)
    yield folder(root, "json: fast: space", FAST, space)
    yield folder(root, "json: off: space", PLAIN | {"add_prefix_space": False}, space)


def test_ids_are_those_of_transformers(tmp_path: Path) -> None:
    """Both ways: special tokens as tokens, and as text like any other."""
    wrong = []
    for made in folders(tmp_path):
        ours, theirs = load_tokenizer(made), their_tokenizer(made)
        as_text = their_tokenizer(made, split_special_tokens=True)
        for text in TEXTS:
            pairs = (
                (ours.encode(text, special=True), theirs(text)["input_ids"]),
                (
                    ours.encode(text),
                    as_text(text)["input_ids"],
                ),
            )
            wrong += [(made.name, text, *pair) for pair in pairs if pair[0] != pair[1]]
            ids = ours.encode(text)
            assert ids[ours.own(ids)] == ours.encode_part(text), (made.name, text)
    assert not wrong


def test_what_would_give_other_ids_is_refused_by_name(tmp_path: Path) -> None:
    def put(**changes: Any) -> Callable[[Values], None]:
        return lambda values: values.update(changes)

    level = {"type": "ByteLevel", "add_prefix_space": False}
    unread = {"type": "Sequence", "processors": [{"type": "Sometimes"}]}
    beyond = {"type": "BertProcessing", "sep": ["</s>", 9001], "cls": ["<s>", 9000]}
    no_cut = {**level, "use_regex": False}
    cases: dict[str, tuple[Values | None, Any]] = {
        "no normalizer Lowercase": (None, put(normalizer={"type": "Lowercase"})),
        "no dropout": (None, lambda values: values["model"].update(dropout=0.1)),
        "no ignore_merges": (FAST, lambda values: values["model"].update(ignore_merges=True)),
        "only byte-level BPE": (None, put(pre_tokenizer={"type": "Whitespace"})),
        "only byte-level BPE, as": (None, put(pre_tokenizer=None)),
        "only byte-level BPE, as GPT-2": (FAST, put(pre_tokenizer=no_cut)),
        "only byte-level BPE, as GPT-2 has": (FAST, split(False, "Isolated", False, r"\p{N}{1,3}")),
        "only byte-level BPE, as GPT-2 has it": (FAST, split(False, "Removed", False)),
        "post_processor can't be read": (None, put(post_processor=unread)),
        "puts the id 9000 around": (None, put(post_processor=beyond)),
        "add_prefix_space is true, which .* leaves out unless tokenizer_config": (None, space),
        "not in the expected form": (None, put(model={"type": "BPE", "vocab": {}})),
        "no byte has a token": (None, put(model={"type": "BPE", "vocab": {}, "merges": []})),
        "'RobertaTokenizer' makes other ids": ({"tokenizer_class": "RobertaTokenizerFast"}, None),
        "has no '<s>', the bos_token": ({"add_bos_token": True, "bos_token": "<s>"}, None),
    }
    for n, (message, (config, change)) in enumerate(cases.items()):
        with pytest.raises(CheckpointError, match=message):
            load_tokenizer(folder(tmp_path, str(n), config, change))


def test_tokens_that_only_a_file_numbers_refuse_the_texts_that_have_them(tmp_path: Path) -> None:
    """transformers numbers added tokens by itself, so their ids would be others there."""
    for name, made, text in (
        ("<user>", folder(tmp_path, "gap", FAST, lambda v: add(v, ADDED[0], gap=5)), "a<user>"),
        ("[PAD]", folder(tmp_path, "named", PLAIN | {"pad_token": "[PAD]"}), "a[PAD]"),
    ):
        ours = load_tokenizer(made)
        assert ours.encode("A crane") == their_tokenizer(made)("A crane")["input_ids"]
        with pytest.raises(
            TextError, match=f"'{name[:-1]}.' (has the id|is named in)".replace("[", r"\[")
        ):
            ours.encode(text, special=True)


def test_a_vocabulary_that_lacks_bytes_refuses_only_the_texts_that_need_them(
    tmp_path: Path,
) -> None:
    def drop(values: Values) -> None:
        kept = [letter for letter in values["model"]["vocab"] if letter not in "zZ~Ċ"]
        values["model"]["vocab"] = {letter: n for n, letter in enumerate(kept)}
        add(values, token("<zZ>"))

    made = folder(tmp_path, "lacking", FAST, drop)
    ours, theirs = load_tokenizer(made), their_tokenizer(made)
    for text in (*TEXTS[:5], "a<zZ>b"):
        assert ours.encode(text, special=True) == theirs(text)["input_ids"]
    with pytest.raises(TextError, match=r"4 of the 256 bytes .* needs them for '~', '\\n', 'z'\."):
        ours.encode("a~b\n<zZ> ~z")


def test_a_token_without_a_row_refuses_only_the_texts_that_have_it(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, vocab_size=370)
    (tmp_path / "added_tokens.json").write_text(json.dumps({"[PAD]": 370}), encoding="utf-8")
    model = gpt2viz.load_model(tmp_path)
    assert gpt2viz.trace(model, "A crane").token_ids
    with pytest.raises(TextError, match=r"'\[PAD\]' was added .* with the id 370, .* only 370"):
        gpt2viz.trace(model, "A [PAD]")
    config = {"add_bos_token": True, "bos_token": "[PAD]"}  # then every text has it
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"with the id 370 for '\[PAD\]', but the model only"):
        gpt2viz.load_model(tmp_path)

"""Tokenizer files in folders of every kind, compared with transformers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers.pre_tokenizers import ByteLevel

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


def write(
    root: Path,
    name: str,
    config: Values | None = None,
    change: Any = None,
    of: str = "gpt2",
    **files: Any,
) -> Path:
    """A folder with vocab.json and merges.txt; and with tokenizer.json, edited by ``change``."""
    made = root / name
    made.mkdir(parents=True)
    theirs = write_tokenizer(made)
    if change is not None:
        theirs.save(str(made / "tokenizer.json"))
        values = json.loads((made / "tokenizer.json").read_text(encoding="utf-8"))
        values["pre_tokenizer"]["add_prefix_space"] = False
        change(values)
        files["tokenizer"] = values
    files["config"] = {"model_type": of}
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


def put(**changes: Any) -> Callable[[Values], None]:
    return lambda values: values.update(changes)


def folders(root: Path) -> Iterator[Path]:
    n = len(json.loads((write(root, "count") / "vocab.json").read_text(encoding="utf-8")))
    listed = {"added_tokens_decoder": {str(n + i): token for i, token in enumerate(ADDED)}}
    begin = {"added_tokens_decoder": {"0": END, str(n): token("<s>", special=True)}}
    both = {"add_bos_token": True, "add_eos_token": True}
    yield write(root, "no config")
    yield write(root, "prefix", PLAIN | {"add_prefix_space": True})
    yield write(root, "bos", PLAIN | {"add_bos_token": True})
    yield write(root, "bos, eos", PLAIN | both | {"bos_token": "<s>"} | begin)
    named: Values = {"special_tokens_map": {"bos_token": "<s>"}, "added_tokens": {"<s>": n}}
    yield write(root, "bos by the map", PLAIN | {"add_bos_token": True}, None, **named)
    yield write(root, "decoder", PLAIN | listed)
    yield write(root, "decoder, prefix", PLAIN | listed | {"add_prefix_space": True})
    beside: Values = {"added_tokens": {"<user>": n, "[PAD]": n + 1}}
    yield write(root, "added", None, None, **beside, special_tokens_map={"pad_token": "[PAD]"})
    yield write(root, "added, named", PLAIN | {"pad_token": "[PAD]"}, None, **beside)
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
    for config, text in configs.items():
        for change, made in changes.items():
            yield write(root, f"json: {config}: {change}", text, made)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    fast = {
        "space": space,
        "normalizer": put(normalizer={"type": "Lowercase"}),
        "ignore_merges": lambda values: values["model"].update(ignore_merges=True),
        "no cut": put(pre_tokenizer={**level, "use_regex": False}),
        "another cut": split(False, "Isolated", False, r"\p{N}{1,3}"),
    }
    yield write(root, "json: llama: space", None, space, of="llama")
    for change, made in fast.items():
        yield write(root, f"json: fast: {change}", FAST, made)
    yield write(root, "named", PLAIN | {"pad_token": "[PAD]"})
    yield write(root, "bos, named", PLAIN | {"add_bos_token": True, "bos_token": "<s>"})
    yield write(root, "json: off: space", PLAIN | {"add_prefix_space": False}, space)


def test_ids_equal_transformers(tmp_path: Path) -> None:
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
            assert ids[ours.own_slice(ids)] == ours.encode_part(text), (made.name, text)
    assert not wrong


@pytest.mark.parametrize("kind", ["LlamaTokenizer", "Qwen2Tokenizer"])
def test_tokenizers_saved_by_transformers_are_read(tmp_path: Path, kind: str) -> None:
    import transformers

    letters = sorted({"▁", *ByteLevel.alphabet()})
    tokens = ["<unk>", "<s>", "</s>", "<|endoftext|>", *(f"<0x{n:02X}>" for n in range(256))]
    vocab = {token: n for n, token in enumerate([*tokens, *letters, "an", "▁c", "Ġc"])}
    merges = [("a", "n"), ("▁", "c"), ("Ġ", "c")]
    made = getattr(transformers, kind)(vocab=vocab, merges=merges, add_bos_token=True)
    made.save_pretrained(tmp_path)
    ours, theirs = load_tokenizer(tmp_path), their_tokenizer(tmp_path)
    assert ours.first == ((1,) if kind == "LlamaTokenizer" else ())  # Qwen2's has none
    assert ours.end_of_text == 3
    for text in TEXTS:
        assert ours.encode(text, special=True) == theirs(text)["input_ids"], text


def test_tokenizers_that_would_give_other_ids_are_refused(tmp_path: Path) -> None:
    unread = {"type": "Sequence", "processors": [{"type": "Sometimes"}]}
    beyond = {"type": "BertProcessing", "sep": ["</s>", 9001], "cls": ["<s>", 9000]}
    longer = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 99}
    cases: dict[str, tuple[Values | None, Any]] = {
        "only byte-pair encoding can be read, not 'Unigram'": (
            None,
            put(model={"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0]]}),
        ),
        "dropout can't be read": (None, lambda values: values["model"].update(dropout=0.1)),
        "end_of_word_suffix can't": (
            FAST,
            lambda values: values["model"].update(end_of_word_suffix="</w>"),
        ),
        "only byte-level BPE": (None, put(pre_tokenizer={"type": "Whitespace"})),
        "only byte-level BPE can be read": (None, put(pre_tokenizer=None)),
        "normalizer may make a text more than 64 times as long": (None, put(normalizer=longer)),
        "tokenizer.json: can't be read": (None, put(post_processor=unread)),
        "puts the id 9000 around": (None, put(post_processor=beyond)),
        "add_prefix_space is true, which .* leaves out unless tokenizer_config": (None, space),
        "can't be read .it has no 'merges'": (None, put(model={"type": "BPE", "vocab": {}})),
        "not in the expected form": (None, put(model=5)),
        "no byte or character has a token": (
            None,
            put(model={"type": "BPE", "vocab": {}, "merges": []}),
        ),
        "'RobertaTokenizer' makes other ids": ({"tokenizer_class": "RobertaTokenizerFast"}, None),
    }
    for n, (message, (config, change)) in enumerate(cases.items()):
        with pytest.raises(CheckpointError, match=message):
            load_tokenizer(write(tmp_path, str(n), config, change))
    made = write(tmp_path, "bos", {"add_bos_token": True})
    vocab = json.loads((made / "vocab.json").read_text(encoding="utf-8"))
    vocab["<pad>"] = vocab.pop("<|endoftext|>")
    (made / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"has no '<\|endoftext\|>', the bos_token"):
        load_tokenizer(made)


def test_token_with_an_unexpected_id_refuses_its_texts(tmp_path: Path) -> None:
    """transformers numbers added tokens itself, so it would give them other ids."""
    made = write(tmp_path, "gap", FAST, lambda values: add(values, ADDED[0], gap=5))
    ours = load_tokenizer(made)
    assert ours.encode("A crane") == their_tokenizer(made)("A crane")["input_ids"]
    with pytest.raises(TextError, match=r"'<user>' has the id \d+, but here it is \d+"):
        ours.encode("a<user>")


def test_text_that_cannot_be_split_is_refused(tmp_path: Path) -> None:
    cases = {
        "leaves out some": split(False, "Removed", False, "c"),
        "can't be cut .*retry-limit": split(False, "Isolated", False, "(a+)+$"),
    }
    for message, change in cases.items():
        ours = load_tokenizer(write(tmp_path, message, FAST, change))
        assert ours.decode(ours.encode("fish")) == "fish"
        with pytest.raises(TextError, match=message):
            ours.encode(f"{'a' * 40}b crane")


def test_missing_bytes_refuse_only_texts_that_need_them(tmp_path: Path) -> None:
    def drop(values: Values) -> None:
        letters = [letter for letter in values["model"]["vocab"] if letter not in "zZ~Ċ"]
        values["model"]["vocab"] = {letter: n for n, letter in enumerate(letters)}
        add(values, token("<zZ>"))

    made = write(tmp_path, "lacking", FAST, drop)
    ours, theirs = load_tokenizer(made), their_tokenizer(made)
    for text in (*TEXTS[:5], "a<zZ>b"):
        assert ours.encode(text, special=True) == theirs(text)["input_ids"]
    with pytest.raises(TextError, match=r"no tokens for '~', '\\n', 'z', which"):
        ours.encode("a~b\n<zZ> ~z")


def test_token_beyond_the_embedding_refuses_only_its_texts(tmp_path: Path) -> None:
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

"""Token ids against Hugging Face's own tokenizer, on a vocabulary that the tests train."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    ByteLevelBPETokenizer,
    Regex,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers import Tokenizer as HuggingFace

from gpt2viz.anatomy.merges import follow
from gpt2viz.errors import CheckpointError, TextError
from gpt2viz.model.tokenizer import Tokenizer, load_tokenizer
from tests.checkpoints import TEXT, edit_json, write_tokenizer

anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
like_text = st.lists(st.sampled_from([*TEXT.split(" "), " ", "  ", "\n", "'s", "7"])).map("".join)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, ByteLevelBPETokenizer]:
    """(ours, Hugging Face's), from the same two files; theirs without its special token."""
    folder = tmp_path_factory.mktemp("bpe")
    write_tokenizer(folder)
    theirs = ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    return load_tokenizer(folder), theirs


@given(text=anything | like_text)
@example("<|endoftext|> is ordinary text")
@example("it's 'S they'LL  two spaces \n\n\t end ")
@example("\x00 NUL, \u202e bidi, e\u0301 combining, \u200d joiner, \U0001f9a9 flamingo")
def test_ids_equal_hugging_faces_and_decode_to_the_text(
    both: tuple[Tokenizer, ByteLevelBPETokenizer], text: str
) -> None:
    ours, theirs = both
    ids = ours.encode(text)
    assert ids == theirs.encode(text).ids
    assert b"".join(ours.token_bytes(i) for i in ids) == text.encode()
    assert ours.decode(ids) == text


def byte_letters() -> dict[int, str]:
    """The letter of each byte, by transformers."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return dict(bytes_to_unicode())


def test_lone_surrogate_is_refused_with_its_position(
    both: tuple[Tokenizer, ByteLevelBPETokenizer],
) -> None:
    with pytest.raises(TextError, match=r"Character 4 of the text \(U\+D83D\)"):
        both[0].encode("ab \ud83d!")


def test_end_of_text_comes_first_only_with_bos(tmp_path: Path) -> None:
    theirs = write_tokenizer(tmp_path)
    special = theirs.token_to_id("<|endoftext|>")
    ours = load_tokenizer(tmp_path)
    assert ours.end_of_text == special
    plain = ours.encode("<|endoftext|>A crane")
    assert special not in plain
    assert ours.encode("<|endoftext|>A crane", bos=True) == [special, *plain]
    assert ours.encode("", bos=True) == [special]


def test_bos_needs_an_end_of_text_token() -> None:
    ours = make_bpe(vocab_of([]), [])
    assert ours.end_of_text is None
    with pytest.raises(TextError, match=r"has no token <\|endoftext\|> to put first"):
        ours.encode("ab", bos=True)


def test_ids_need_not_be_in_the_order_of_merges(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    vocab = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    turned = {token: len(vocab) - 1 - i for token, i in vocab.items()}
    (tmp_path / "vocab.json").write_text(json.dumps(turned), encoding="utf-8")
    theirs = ByteLevelBPETokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    ours = load_tokenizer(tmp_path)
    for text in (TEXT, TEXT.replace(" ", ""), TEXT[::-1]):  # words that are one token, and others
        assert ours.encode(text) == theirs.encode(text).ids


@pytest.mark.parametrize("spelling", ["pairs", "strings"])
def test_tokenizer_json_gives_the_same_ids(tmp_path: Path, spelling: str) -> None:
    theirs = write_tokenizer(tmp_path)
    expected = load_tokenizer(tmp_path).encode(TEXT)
    (tmp_path / "vocab.json").unlink()
    theirs.save(str(tmp_path / "tokenizer.json"))
    values = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    merges = [m.split(" ") if isinstance(m, str) else m for m in values["model"]["merges"]]
    values["model"]["merges"] = merges if spelling == "pairs" else [" ".join(m) for m in merges]
    edit_json(tmp_path / "tokenizer.json", **values)
    assert load_tokenizer(tmp_path).encode(TEXT) == expected


NEW = ["crane lifted", "crane", "<user>", "🦩🦩"]


@given(text=anything | like_text | st.lists(st.sampled_from([*NEW, " ", "a", "!"])).map("".join))
def test_added_words_are_found_as_by_hugging_face(
    added: tuple[Tokenizer, HuggingFace], text: str
) -> None:
    ours, theirs = added
    assert ours.encode(text) == theirs.encode(text).ids


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, HuggingFace]:
    """(ours, Hugging Face's) of one tokenizer.json with four words that were added later."""
    folder = tmp_path_factory.mktemp("added")
    write_tokenizer(folder).save(str(folder / "tokenizer.json"))
    theirs = HuggingFace.from_file(str(folder / "tokenizer.json"))
    theirs.encode_special_tokens = True
    theirs.add_tokens(NEW)
    theirs.save(str(folder / "tokenizer.json"))
    return load_tokenizer(folder), theirs


SPECIAL = ["<|endoftext|>", "<|end", "text|>", "<|endoftext|><|endoftext|>"]


@given(text=like_text | st.lists(st.sampled_from([*SPECIAL, *NEW, " ", "a"])).map("".join))
def test_special_tokens_are_encoded_as_by_hugging_face(
    added: tuple[Tokenizer, HuggingFace], both: tuple[Tokenizer, object], text: str
) -> None:
    ours, theirs = added
    theirs.encode_special_tokens = False
    try:
        expected = theirs.encode(text).ids
    finally:
        theirs.encode_special_tokens = True
    assert ours.encode(text, special=True) == expected
    assert (ours.encode(text) != expected) == bool(ours.special_in(text))
    assert ours.special_in(text) == (["<|endoftext|>"] if "<|endoftext|>" in text else [])
    assert both[0].special_in(text) == ours.special_in(text)  # without tokenizer.json


def test_added_tokens_json_is_read(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    plain = load_tokenizer(tmp_path)
    n = plain.n_vocab
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<user>": n}), encoding="utf-8")
    ours = load_tokenizer(tmp_path)
    assert ours.encode("A <user>crane") == [*plain.encode("A "), n, *plain.encode("crane")]
    assert ours.token_bytes(n) == b"<user>"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda vocab: vocab.pop("a"),
            "the merge 'a' .* is not of two tokens",
        ),
        (lambda vocab: vocab.update(a=vocab["b"]), "both have the id"),
        (lambda vocab: vocab.update(a=-1), "must be 0 or more, .* not -1"),
        (lambda vocab: vocab.update(a=2**40), "must be 0 or more, and no more than"),
        (lambda vocab: vocab.update(a="7"), "must be 0 or more, .* not '7'"),
        (
            lambda vocab: vocab.popitem(),
            "makes no token",
        ),
    ],
)
def test_a_broken_vocabulary_is_refused(tmp_path: Path, change: object, message: str) -> None:
    write_tokenizer(tmp_path)
    path = tmp_path / "vocab.json"
    vocab = json.loads(path.read_text(encoding="utf-8"))
    change(vocab)  # type: ignore[operator]
    path.write_text(json.dumps(vocab), encoding="utf-8")
    with pytest.raises(CheckpointError, match=message):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda merges: "",
        lambda merges: "\r",
        lambda merges: merges.replace("\n", "\r"),
        lambda merges: merges[: merges.rindex("\n", 0, -1) + 1],
        lambda merges: merges[: len(merges) // 2].rpartition("\n")[0],
        lambda merges: "#version: 0.2\n" + "\n".join(merges.split("\n")[9:]),
    ],
    ids=["empty", "one CR", "ends of lines are CR", "one short", "half", "without its start"],
)
def test_merges_of_another_vocabulary_are_refused(
    tmp_path: Path, change: Callable[[str], str]
) -> None:
    write_tokenizer(tmp_path)
    path = tmp_path / "merges.txt"
    merges = path.read_text(encoding="utf-8")
    load_tokenizer(tmp_path)
    path.write_text(change(merges), encoding="utf-8", newline="")
    message = r"merges.txt: (no merge makes '.*', which .*json has|a merge must have two parts)"
    with pytest.raises(CheckpointError, match=message):
        load_tokenizer(tmp_path)


def test_only_special_entries_may_lack_a_merge(tmp_path: Path) -> None:
    """Special tokens and listed added tokens need no merge; other entries do."""
    write_tokenizer(tmp_path)
    vocab = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    special = ["<s>", "</s>", "[PAD]", "fish" * 40]
    more = vocab | {token: len(vocab) + n for n, token in enumerate(special)}
    (tmp_path / "vocab.json").write_text(json.dumps(more), encoding="utf-8")
    ours = load_tokenizer(tmp_path)
    assert [ours.token_bytes(more[token]).decode() for token in special] == special
    lost = json.dumps(vocab | {"aA": len(vocab)})
    (tmp_path / "vocab.json").write_text(lost, encoding="utf-8")
    with pytest.raises(CheckpointError, match="no merge makes 'aA'"):
        load_tokenizer(tmp_path)
    (tmp_path / "added_tokens.json").write_text(json.dumps({"aA": len(vocab)}), encoding="utf-8")
    assert load_tokenizer(tmp_path).encode("aA") == [len(vocab)]


def test_missing_tokenizer_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"put vocab.json and merges.txt, or tokenizer.json"):
        load_tokenizer(tmp_path)


def test_cuts_like_compares_ids_and_merges(tmp_path: Path, both: tuple[Tokenizer, object]) -> None:
    letters = {letter: n for n, letter in enumerate(byte_letters().values())}
    merges = [("a", "b"), ("c", "d")]
    vocab = letters | {"ab": 256, "cd": 257}
    ours = make_bpe(vocab, merges)
    assert ours.cuts_like(make_bpe(dict(vocab), list(merges)))
    assert ours.cuts_like(make_bpe(vocab | {"<pad>": 258}, merges))
    assert not ours.cuts_like(make_bpe(letters | {"ab": 257, "cd": 256}, merges))
    assert not ours.cuts_like(make_bpe(vocab, merges[::-1]))
    assert not ours.cuts_like(make_bpe(vocab | {"new": 258}, merges, AddedToken("new")))
    assert not ours.cuts_like(make_bpe(letters | {"ab": 256}, merges[:1]))
    assert not ours.cuts_like(both[0])


def make_bpe(vocab: dict[str, int], merges: list[tuple[str, str]], *added: AddedToken) -> Tokenizer:
    """Byte-level BPE without files."""
    engine = ByteLevelBPETokenizer(vocab, merges)
    engine.add_tokens(list(added))
    return Tokenizer(json.loads(engine._tokenizer.to_str()))


def vocab_of(merges: list[tuple[str, str]]) -> dict[str, int]:
    """A vocabulary of all single bytes and of the tokens that the merges make."""
    made = [left + right for left, right in merges]
    return {token: n for n, token in enumerate(dict.fromkeys([*byte_letters().values(), *made]))}


@st.composite
def merge_lists(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Merges of existing tokens in any order, so that most lists contradict themselves."""
    tokens, merges = ["a", "b", "c"], []
    for _ in range(draw(st.integers(1, 10))):
        pair = (draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens)))
        merges.append(pair)
        tokens.append("".join(pair))
    return draw(st.permutations(merges) | st.just(merges))


@given(merges=merge_lists(), texts=st.lists(st.text("abc", max_size=30), min_size=1, max_size=5))
@example(merges=[("b", "c"), ("a", "b"), ("ab", "c")], texts=["abc", "aabc"])
@example(merges=[("a", "b"), ("b", "c"), ("a", "bc"), ("ab", "c")], texts=["abc", "cabcab"])
@example(merges=[("a", "b"), ("b", "c"), ("a", "b")], texts=["abc"])  # the last of two counts
@example(merges=[("ab", "c"), ("a", "b")], texts=["abc", "abcabc"])
@example(merges=[("a", "a"), ("a", "aa")], texts=["aaa", "aaaa"])
def test_contradictory_merges_give_hugging_faces_ids(
    merges: list[tuple[str, str]], texts: list[str]
) -> None:
    vocab = vocab_of(merges)
    ours, theirs = make_bpe(vocab, merges), ByteLevelBPETokenizer(vocab, merges)
    for text in texts:
        ids = theirs.encode(text).ids
        assert ours.encode(text) == ids
        assert [i for word in follow(ours, text) for i in word.ids] == ids


# Llama 3's, Qwen2's.
LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA.replace("{1,3}", "")
TEXTS = [
    "A crane ate fish.",
    " it's 1,234 o'clock, 'S they'LL",
    "two  spaces\n\n\tend ",
    "",
    "\u2581 x",
    "Страус идёт",
    "ο γερανός",
    "אבג דהו",
    "كركي يأكل",
    "सारस मछली",
    "นกกระเรียน",
    "鶴は魚を食べた",
    "두루미가 물고기",
    "仙鹤吃了鱼。",
    "cafe\u0301 naïve Å",
    "🦩👩‍👩‍👧 \U0001f1e9\U0001f1ea",
    "\x00\u202e\x7f",
    "<s>a</s>",
    "x" * 70,
    "<|endoftext|>",
    "<0x41> ▁",
    "a <user> b<user>c",
    "\r\n\r",
    " \u00a0\u3000",
]


SENTENCE_PIECE = ("Llama 2", "Mistral")
END = dict.fromkeys(("GPT-2", "Qwen2", "SmolLM2"), "<|endoftext|>")
END |= {"Llama 3": "<|end_of_text|>"} | dict.fromkeys(SENTENCE_PIECE, "</s>")


def train_tokenizer(kind: str) -> HuggingFace:
    """A small tokenizer of one kind, as a model's authors would make it."""
    engine, alphabet = HuggingFace(models.BPE()), pre_tokenizers.ByteLevel.alphabet()
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    special = ["<s>", END[kind]]
    if kind in SENTENCE_PIECE:
        special += ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
        alphabet = ["▁"]
        engine.model = models.BPE(byte_fallback=True, unk_token=special[2], fuse_unk=True)
    if kind == "GPT-2":
        engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    elif kind == "SmolLM2":
        digits = pre_tokenizers.Digits(individual_digits=True)
        regex = pre_tokenizers.ByteLevel(add_prefix_space=False)
        engine.pre_tokenizer = pre_tokenizers.Sequence([digits, regex])
    elif kind == "Mistral":
        engine.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    elif kind == "Llama 2":
        steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        engine.normalizer = normalizers.Sequence(steps)
    else:
        split = pre_tokenizers.Split(Regex(LLAMA if kind == "Llama 3" else QWEN), "isolated")
        engine.pre_tokenizer = pre_tokenizers.Sequence([split, level])
        engine.normalizer = normalizers.NFC() if kind == "Qwen2" else None
    lines = [TEXT, *TEXTS, "crane ate crane fish 1234 " * 9]
    if kind in SENTENCE_PIECE:  # all other characters are bytes
        lines = list(filter(str.isascii, lines))
    lines = [word for line in lines for word in line.replace("<", "< ").split(" ")]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    engine.train_from_iterator(lines, trainer)
    values = json.loads(engine.to_str())
    values["added_tokens"] = [t for t in values["added_tokens"] if t["content"][:3] != "<0x"]
    if kind == "Llama 3":  # a word that no merge makes
        values["model"]["ignore_merges"] = True
        assert "ĠnaÃ¯ve" not in values["model"]["vocab"]
        values["model"]["vocab"]["ĠnaÃ¯ve"] = len(values["model"]["vocab"])
    engine = HuggingFace.from_str(json.dumps(values))
    engine.add_tokens([AddedToken("<user>", normalized=False)])
    if kind in (*SENTENCE_PIECE, "Llama 3"):
        engine.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", engine.token_to_id("<s>"))]
        )
    return engine


@pytest.mark.parametrize("kind", END)
def test_every_kind_gives_the_ids_of_transformers(tmp_path: Path, kind: str) -> None:
    from transformers import PreTrainedTokenizerFast

    engine = train_tokenizer(kind)
    engine.save(str(tmp_path / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END[kind]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    theirs = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    as_text = PreTrainedTokenizerFast.from_pretrained(tmp_path, split_special_tokens=True)
    for ours in (load_tokenizer(tmp_path), Tokenizer(json.loads(engine.to_str()), end=END[kind])):
        assert list(ours.first) == [0] * (kind in (*SENTENCE_PIECE, "Llama 3"))
        assert ours.bos == (ours.first or (ours.end_of_text,))
        assert ours.end_of_text == engine.token_to_id(END[kind])
        assert ours.prefix_space == (kind in SENTENCE_PIECE)
        for text in TEXTS:
            ids = ours.encode(text)
            assert ids == as_text(text)["input_ids"], text
            assert ours.encode(text, special=True) == theirs(text)["input_ids"], text
            without = as_text(text, add_special_tokens=False)["input_ids"]
            assert ours.encode(text, bos=False) == without, text
            assert ours.encode(text, bos=True) == [*ours.bos, *without], text
            own = ids[ours.own_slice(ids)]
            assert own == ours.encode_part(text)
            spelled = normalize("NFC", text) if kind == "Qwen2" else text
            if kind in SENTENCE_PIECE:
                pieces = spelled.replace("▁", " ").split("<user>")
                puts = [
                    bool(t) and (kind == "Llama 2" or (n == 0 and t[0] != " "))
                    for n, t in enumerate(pieces)
                ]
                spelled = "<user>".join(" " * put + t for put, t in zip(puts, pieces, strict=True))
            assert b"".join(map(ours.token_bytes, own)).decode() == ours.decode(own) == spelled
            if (kind, "<user>" in text) != ("Llama 2", True):  # each part gets a space
                assert ours.encode(ours.text_of(ids)) == ids, text
            words = follow(ours, text)
            assert [i for word in words for i in word.ids] == own, text
        texts = [left + right for left, right in ours.merges if (left + right).isascii()]
        for token in texts[:20]:
            assert ours.token_bytes(ours.id_of(token.decode())) == token
        with pytest.raises(TextError, match="isn't a single token; give one with its space"):
            ours.id_of("crane ate fish")

"""Text to token ids and back, with a checkpoint's own byte-pair encoding.

A tokenizer (Sennrich et al. 2016; of bytes as in Radford et al. 2019, or of characters as in Kudo &
Richardson 2018) cuts a text and merges the letters of each piece, the most frequent pair of the
training text first. Hugging Face's ``tokenizers`` follows ``tokenizer.json``, so ids are those of
transformers; ``gpt2viz.model.tokenizer_files`` reads the checkpoint's files for it.
A model that was trained on characters, or on a few words, has no merges: its vocabulary is a plain
list, ``tokens.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models

from gpt2viz.errors import CheckpointError, TextError
from gpt2viz.files import is_gguf, is_there, read_list, reading, reason
from gpt2viz.labels import first_few
from gpt2viz.model import gguf_tokenizer
from gpt2viz.model.byte_letters import letters_of
from gpt2viz.model.compat import panics
from gpt2viz.model.config import END_OF_TEXT
from gpt2viz.model.tokenizer_files import read_tokenizer
from gpt2viz.model.vocabulary import check_ids, check_list, check_model, pairs_of, short, steps_of

# The most tokens that a message names.
_NAMED = 12

# A token that isn't in the vocabulary: ``tokenizers`` raises an error for a character without one.
_MISSING = "\0missing"
# The id of the text among those that a post-processor puts around it.
_TEXT = 2**32 - 1
# Names of the token between two texts, besides the one that a file declares.
_ENDS = (END_OF_TEXT.decode(), "<|end_of_text|>")


class Tokenizer:
    """Encode and decode text with the vocabulary of one checkpoint."""

    #: Whether tokens are words that white space separates, which none of them contains.
    tokens_are_words = False
    #: Ids before every text, and after it, as the checkpoint's files say.
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    #: Whether a text that begins with no space gets one.
    prefix_space = False
    # Whether any other text gets one too.
    _always_space = False

    def __init__(
        self, values: Mapping[str, Any], file: str = "tokenizer.json", *, end: str = ""
    ) -> None:
        """``values`` are the content of a ``tokenizer.json``. Tokens that it lists as added are
        matched in a text as written; special ones only on demand. ``end`` names the
        token between two texts, if that is neither ``<|endoftext|>`` nor ``<|end_of_text|>``.

        Raises ``CheckpointError``, which names the ``file``, if it can't be read, or doesn't
        determine the bytes of tokens.
        """
        with reading(file, "can't be read"), panics():
            self._load(values, file, end)

    def _load(self, values: Mapping[str, Any], file: str, end: str) -> None:
        model: dict[str, Any] = {**values["model"], "unk_token": _MISSING}
        vocab = model["vocab"]
        check_model(model, file)
        check_ids(vocab, file)
        model["merges"] = pairs = pairs_of(model["merges"], vocab, file)
        # Engines are built from this again: pickled, they would lose gaps between ids.
        self._json = json.dumps({**values, "model": model, "truncation": None, "padding": None})
        engine = self._as_text
        ids, added = engine.get_vocab(), engine.get_added_tokens_decoder().values()
        check_ids(ids, file)
        self.first, self.last = _around(engine, ids.values(), file)
        self._steps = steps_of(values, file)
        self._always_space = any(step["type"] == "Prepend" for step in self._steps)
        self.prefix_space = self._always_space or any(
            step.get("add_prefix_space") or step.get("prepend_scheme", "never") != "never"
            for step in self._steps
        )
        self._letters = letters_of(self._steps, model, file)
        self._wholes = bool(model.get("ignore_merges"))
        names = {token.content for token in added}
        single = set(filter(self._letters.is_letter, vocab))
        if not single:
            raise CheckpointError(f"{file}: no byte or character has a token, so it can't be read")
        self._spell(ids, single, pairs, vocab.keys() - names if self._wholes else set())
        self._added = {token.content: repr(token) for token in added if not token.special}
        self._words = _finder(self._added)
        self._special = _finder(token.content for token in added if token.special)
        ends = (ids.get(name, -1) for name in (*_ENDS, end))
        #: The id of the token between two texts, or None for a vocabulary without one.
        self.end_of_text = next((i for i in ends if i in self._bytes.keys() - self._ordinary), None)
        # Ids that no text may contain -> the reason.
        self._refused: dict[int, str] = {}
        for token in values.get("added_tokens") or ():
            name, i, given = token["content"], token["id"], ids[token["content"]]
            why = f"{file}: the added token {short(name)} has the id {i}, but here it is {given}"
            if i != given and name in vocab:
                raise CheckpointError(why)
            self._refused |= {given: f"{why}. Leave it out of the text"} if i != given else {}

    def _spell(
        self,
        ids: Mapping[str, int],
        single: set[str],
        pairs: Sequence[tuple[str, str]],
        wholes: set[str],
    ) -> None:
        """Store the bytes of all tokens, and which tokens a text can be cut into: ``single``
        letters, merges of ``pairs``, and ``wholes``, which need no merge."""
        made = {left + right for left, right in pairs}
        self._ordinary = {ids[token] for token in single | made | wholes}
        self._bytes = {
            i: self._letters.to_bytes(token) if i in self._ordinary else token.encode()
            for token, i in ids.items()
        }
        self._single = {self._bytes[ids[token]] for token in single}

    @cached_property
    def merges(self) -> dict[tuple[bytes, bytes], int]:
        """The rank of every merge: its index in the list, from 0; the last one if it is listed
        twice."""
        merges, ids = json.loads(self._json)["model"]["merges"], self._as_text.get_vocab()
        return {
            (self._bytes[ids[left]], self._bytes[ids[right]]): rank
            for rank, (left, right) in enumerate(merges)
        }

    def _engine(self, *, special: bool) -> tokenizers.Tokenizer:
        """The engine; with ``special`` it reads the names of special tokens as those tokens."""
        engine = tokenizers.Tokenizer.from_str(self._json)
        engine.encode_special_tokens = not special
        return engine

    @cached_property
    def _as_text(self) -> tokenizers.Tokenizer:
        return self._engine(special=False)

    @cached_property
    def _as_tokens(self) -> tokenizers.Tokenizer:
        return self._engine(special=True)

    def __getstate__(self) -> dict[str, object]:
        """Everything but the engines, which are built again."""
        return {k: v for k, v in vars(self).items() if k not in ("_as_text", "_as_tokens")}

    @property
    def n_vocab(self) -> int:
        """One more than the highest id, special tokens included."""
        return max(self._bytes) + 1

    def fit(self, rows: int, whose: str) -> None:
        """Refuse, from now on, texts with a token that has no row in an embedding of ``rows``.

        Such tokens were added only to the tokenizer. Raises ``CheckpointError``, which begins with
        ``whose``, if any other token has no row, or one that is put around every text.
        """
        needed = self._ordinary.union(self.first, self.last)
        if (highest := max(needed)) >= rows:
            raise CheckpointError(
                f"{whose}: the tokenizer has {self.n_vocab:,} tokens, with the id {highest:,} for "
                f"{self._name(highest)}, but the model only {rows:,} (vocab_size). Give the "
                "tokenizer of this model"
            )
        self._refused |= {
            i: f"{self._name(i)} was added to the tokenizer, with the id {i:,}, but the model has "
            f"only {rows:,} tokens. Leave it out of the text"
            for i in self._bytes
            if i >= rows
        }

    def cuts_like(self, other: Tokenizer) -> bool:
        """True if both cut every text into the same tokens, with the same ids.

        Either may lack special tokens that no text is cut into.
        """
        both = self._bytes.keys() & other._bytes.keys()
        return self._cutting == other._cutting and all(
            self._bytes[n] == other._bytes[n] for n in both
        )

    @property
    def _cutting(self) -> tuple[object, ...]:
        """Everything that determines a text's token ids."""
        steps = [{**step, "trim_offsets": None} for step in self._steps]
        ways = self._letters, self._wholes, self._added, self.first, self.last
        return self._ordinary, self.merges, steps, *ways

    @property
    def as_gpt2(self) -> bool:
        """True if texts are cut as GPT-2 cuts them, into bytes, with nothing put around them."""
        (step, *more) = [{**step, "trim_offsets": None} for step in self._steps] or [{}]
        plain = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": None}
        around = more or self._added or self.first or self.last or self._wholes
        return not around and step in (plain, {**plain, "use_regex": True})

    def special_in(self, text: str) -> list[str]:
        """The special tokens whose names a text contains, such as ``<|endoftext|>``."""
        return list(dict.fromkeys(self._special.findall(text)))

    @property
    def bos(self) -> tuple[int, ...]:
        """The ids that may begin a text: ``first``, or else the token between two texts, if any."""
        return self.first or (() if self.end_of_text is None else (self.end_of_text,))

    def prefix_ids(self, bos: bool | None = None) -> tuple[int, ...]:
        """The ids that ``encode`` puts before a text: those of ``bos`` or none, or by default
        ``first``.

        Raises ``TextError`` if the vocabulary has no such token.
        """
        if bos is None:
            return self.first
        if bos and not self.bos:
            raise TextError("This model has no token <|endoftext|> to put first.")
        return self.bos if bos else ()

    def own_slice(self, ids: Sequence[int]) -> slice:
        """The slice of ``encode``'s ids that are the text's own, without the added ones."""
        n = len(self.bos)
        start = n if tuple(ids[:n]) == self.bos else 0
        end = len(ids) - len(self.last)
        return slice(start, end if tuple(ids[end:]) == self.last else len(ids))

    def text_of(self, ids: Sequence[int]) -> str:
        """The text that ``encode`` turns into these ids, without the tokens that it adds."""
        text = self.decode(ids[self.own_slice(ids)])
        return text.removeprefix(" ") if self._always_space else text

    def id_of(self, token: str) -> int:
        """The id of the token with exactly this text, spaces included.

        Raises ``TextError`` if there is none, and where ``encode`` does.
        """
        ids = self.encode_part(token)
        if self.prefix_space:
            ids = sorted(i for i in self._ordinary if self._bytes[i] == token.encode())[-1:]
        if len(ids) != 1:
            raise TextError(f"{token!r:.80} isn't a single token; give one with its space: ' on'")
        return ids[0]

    def encode(self, text: str, *, bos: bool | None = None, special: bool = False) -> list[int]:
        """Token ids of a text, with those that the checkpoint's tokenizer puts before and after it.

        The name of a special token in the text is ordinary text; ``special=True`` reads it as that
        token, as Hugging Face's tokenizers do.
        ``bos=True`` puts the token that may begin a text first, such as GPT-2's ``<|endoftext|>``,
        which separates two texts, and ``bos=False`` leaves out one that is put there by default,
        such as Llama 2's ``<s>``.

        Raises ``TextError`` for half a surrogate pair, which stands for no character, if the
        vocabulary has no such first token, and for text that this vocabulary can't spell: a byte
        without a token, a token for which the model has no row, or text that a plain list lacks.
        """
        before = self.prefix_ids(bos)
        return [*before, *self.encode_part(text, special=special), *self.last]

    def encode_part(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of a text, or of a part of one, by itself: no tokens are added.

        Raises ``TextError`` where ``encode`` does.
        """
        for n, char in enumerate(text):
            if "\ud800" <= char <= "\udfff":
                raise TextError(
                    f"Character {n + 1} of the text (U+{ord(char):04X}) is half of a surrogate "
                    "pair and stands for no character. Delete it and try again."
                )
        return self._ids(text, special)

    def _ids(self, text: str, special: bool) -> list[int]:
        engine = self._as_tokens if special else self._as_text
        ids = self._encoding(text, engine).ids
        if (wrong := next((i for i in ids if i in self._refused), None)) is not None:
            raise TextError(f"{self._refused[wrong]}.")
        spelled, given = self.decode(ids), self._normalize(text)
        # Added tokens may absorb the white space beside them, and a space may be put first.
        if spelled != given and "".join(spelled.split()) != "".join(given.split()):
            raise TextError("This model's tokenizer leaves out some of this text.")
        return ids

    def _encoding(self, text: str, engine: tokenizers.Tokenizer) -> tokenizers.Encoding:
        try:
            with panics():
                return engine.encode(text, add_special_tokens=False)
        except Exception as error:
            if _MISSING not in str(error):
                raise TextError(f"This text can't be cut into tokens ({reason(error)}).") from None
        chars = dict.fromkeys(self._normalize("".join(self._words.split(text)[::2])))
        lacking = [short(c) for c in chars if not self._single.issuperset(self._pieces(c.encode()))]
        raise TextError(
            f"This model's vocabulary has no tokens for {first_few(lacking, _NAMED)}, "
            "which the text has. Leave these out."
        )

    def _normalize(self, text: str) -> str:
        """A text, normalized as it is before it is cut, with spaces as spaces."""
        normalizer = self._as_text.normalizer
        return self._letters.to_text(normalizer.normalize_str(text) if normalizer else text)

    def cut(self, text: str) -> Iterator[tuple[tuple[bytes, ...], bool]]:
        """The parts of a text that are merged separately: the bytes or characters that merging
        starts from, and whether the part stays whole, as an added token does."""
        encoding = self._encoding(text, self._as_text)
        words = groupby(zip(encoding.word_ids, encoding.ids, strict=True), key=lambda pair: pair[0])
        for _, word in words:
            ids = [i for _, i in word]
            part = b"".join(map(self.token_bytes, ids))
            whole = self._ordinary.isdisjoint(ids) or (self._wholes and len(ids) == 1)
            yield (part,) if whole else tuple(self._pieces(part)), whole

    def _pieces(self, part: bytes) -> Iterator[bytes]:
        for char in part.decode(errors="surrogateescape"):
            whole = char.encode(errors="surrogateescape")
            yield from [whole] if whole in self._single else (bytes([byte]) for byte in whole)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token: often a word with the space before it, sometimes only part
        of a character. Empty for an id that the vocabulary leaves unused."""
        return self._bytes.get(token_id, b"")

    def _name(self, token_id: int) -> str:
        return short(self.token_bytes(token_id).decode(errors="replace"))

    def decode(self, token_ids: Iterable[int]) -> str:
        """The text of a sequence of ids; bytes that form no character become U+FFFD.

        With ``prefix_space`` it includes the space before the text.
        """
        return b"".join(map(self.token_bytes, several(token_ids))).decode("utf-8", errors="replace")


class TokenList(Tokenizer):
    """A vocabulary that is a plain list: one string per id, characters or words.

    At each position of a text the longest matching token is taken. White space that no token
    contains only separates them; decoding joins words with a space.
    """

    as_gpt2 = False

    def __init__(self, tokens: Sequence[str], file: str = "tokens.json") -> None:
        """``tokens`` are in the order of their ids; ``file`` names them in the ``CheckpointError``
        for empty ones, and for duplicates."""
        check_list(tokens, file)
        end, given = END_OF_TEXT.decode(), {token: i for i, token in enumerate(tokens)}
        self._bytes = {i: token.encode() for token, i in given.items()}
        self._ordinary = set(self._bytes)
        self.end_of_text = given.pop(end, None)
        self._id_of, self.merges, self._refused = given, {}, {}
        self._longest = max(map(len, given), default=0)
        self._separated = not any(map(str.isspace, "".join(given)))
        self.tokens_are_words = self._separated and self._longest > 1
        self._special = _finder([] if self.end_of_text is None else [end])

    @property
    def _cutting(self) -> tuple[object, ...]:
        return ("list", self._ordinary)

    def cut(self, text: str) -> Iterator[tuple[tuple[bytes, ...], bool]]:
        """Each token of a text separately: nothing is merged."""
        return (((self._bytes[i],), True) for i in self._ids(text, special=False))

    def decode(self, token_ids: Iterable[int]) -> str:
        """The text of a sequence of ids, with a space between words."""
        between = b" " if self.tokens_are_words else b""
        return between.join(map(self.token_bytes, several(token_ids))).decode()

    def _ids(self, text: str, special: bool) -> list[int]:
        ids: list[int] = []
        for part in self._special.split(text) if special else [text]:
            if special and part == END_OF_TEXT.decode() and self.end_of_text is not None:
                ids.append(self.end_of_text)
            else:
                ids += self._listed_ids(part)
        return ids

    def _listed_ids(self, text: str) -> Iterator[int]:
        whole = text.split() if self._separated else [text]
        tokens = [(part, token) for part in whole for token in self._tokens(part)]
        words = self.tokens_are_words
        unknown = (part if words else token for part, token in tokens if token not in self._id_of)
        if names := list(map(short, dict.fromkeys(unknown))):
            sort = "words" if words else "characters"
            raise TextError(
                f"The vocabulary of this model is a list of {len(self._bytes):,} tokens, in which "
                f"these {sort} are missing: {first_few(names, _NAMED)}. It has "
                f"{', '.join(map(short, list(self._id_of)[:_NAMED]))}"
                f"{' and others' if len(self._id_of) > _NAMED else ''}."
            )
        yield from (self._id_of[token] for _, token in tokens)

    def _tokens(self, text: str) -> Iterator[str]:
        """The longest token at each position, or a character that no token begins with."""
        position = 0
        while position < len(text):
            ends = range(min(len(text), position + self._longest), position, -1)
            whole = (t for end in ends if (t := text[position:end]) in self._id_of)
            token = next(whole, text[position])
            yield token
            position += len(token)


def several(token_ids: Iterable[int]) -> Iterable[int]:
    """Return the ids. Raises ``TextError`` for anything else, such as a single id."""
    if isinstance(token_ids, str) or not isinstance(token_ids, Iterable):
        raise TextError(f"decode takes a list of token ids, such as [5], not {token_ids!r:.60}")
    return token_ids


def _finder(tokens: Iterable[str]) -> re.Pattern[str]:
    """A pattern that matches any of some tokens, the longest first."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")


def _around(
    engine: tokenizers.Tokenizer, ids: Collection[int], file: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that a post-processor puts before and after a text, from trying it on one token."""
    if engine.post_processor is None:
        return (), ()
    probe = tokenizers.Tokenizer(models.BPE({"a": _TEXT}, []))
    probe.post_processor = engine.post_processor
    made = probe.encode("a").ids
    at = made.index(_TEXT)
    first, last = tuple(made[:at]), tuple(made[at + 1 :])
    if strange := {*first, *last} - set(ids):
        raise CheckpointError(
            f"{file}: its post_processor puts the id {min(strange)} around a text, which is no "
            "token of the vocabulary"
        )
    return first, last


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read a GGUF file's tokenizer, ``tokenizer.json``, or ``vocab.json`` and ``merges.txt``, with
    what ``tokenizer_config.json`` and ``added_tokens.json`` add to them, or else a plain list,
    ``tokens.json``.

    Raises ``CheckpointError``, which names the file, if one is missing or can't be read.
    """
    if is_gguf(folder):
        values, end = gguf_tokenizer.read_tokenizer(folder)
        return Tokenizer(values, folder.name, end=end)
    if (read := read_tokenizer(folder)) is not None:
        values, file, end = read
        return Tokenizer(values, file, end=end)
    if is_there(folder / "tokens.json"):
        return TokenList(read_list(folder / "tokens.json"))
    raise CheckpointError(
        f"{folder}: no tokenizer; put vocab.json and merges.txt, or tokenizer.json, beside the "
        "weights, or tokens.json, a plain list"
    )
